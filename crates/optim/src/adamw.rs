//! Adam with decoupled weight decay.

use burtorch_core::Float;

use crate::moments::{Decay, Moments};
use crate::{AdamOptions, Error, Groups, Optimizer, State};

/// AdamW (I. Loshchilov and F. Hutter, *Decoupled weight decay regularization*, ICLR 2019, algorithm 2).
///
/// As [`Adam`](crate::Adam), but the decay λ of the group acts on the parameters and not on the gradients:
///
/// ```text
/// m ← β₁·m + (1 − β₁)·g
/// v ← β₂·v + (1 − β₂)·g²
/// p ← (1 − rate·λ)·p − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
/// ```
///
/// The rate is the scheduled one of this step, times the scale of the group. This is the form of
/// `torch.optim.AdamW`; in the paper the schedule multiplies λ, and the base rate does not.
///
/// ```
/// use burtorch_optim::{AdamOptions, AdamW, Groups, Optimizer};
///
/// let mut adamw = AdamW::new(Groups::all(1, 0.1)?, AdamOptions::default())?;
/// let mut parameters = [1.0_f64];
/// adamw.step(&mut parameters, &[0.0], 0.1)?;
/// assert_eq!(parameters, [0.99]);
/// # Ok::<(), burtorch_optim::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct AdamW<T>(Moments<T>);

impl<T: Float> AdamW<T> {
    /// An optimizer for the buffer of `groups`, at step 0 with moments of 0.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] unless both betas are at least 0 and below 1 and ε is finite and above 0, all rounded to `T`.
    pub fn new(groups: Groups, options: AdamOptions) -> Result<Self, Error> {
        Moments::new(groups, options, Decay::Decoupled).map(Self)
    }
}

impl<T: Float> Optimizer<T> for AdamW<T> {
    fn step(
        &mut self,
        parameters: &mut [T],
        gradients: &[T],
        learning_rate: T,
    ) -> Result<(), Error> {
        self.0.step(parameters, gradients, learning_rate)
    }

    fn name(&self) -> &'static str {
        "adamw"
    }

    fn state(&self) -> State<T> {
        self.0.state()
    }

    fn restore(&mut self, state: State<T>) -> Result<(), Error> {
        self.0.restore("adamw", state)
    }
}
