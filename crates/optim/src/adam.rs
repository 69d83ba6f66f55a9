//! Adam.

use burtorch_core::Float;

use crate::moments::{Decay, Moments};
use crate::{AdamOptions, Error, Groups, Optimizer, State};

/// Adam (D. Kingma and J. Ba, *Adam: a method for stochastic optimization*, ICLR 2015, algorithm 1).
///
/// With the gradient g of step t = 1, 2, …, all operations taken per parameter:
///
/// ```text
/// g ← g + λ·p                 λ: weight decay of the group (0 in the paper)
/// m ← β₁·m + (1 − β₁)·g
/// v ← β₂·v + (1 − β₂)·g²
/// p ← p − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε)
/// ```
///
/// Decay that goes through the moments is scaled down where gradients are large; [`AdamW`](crate::AdamW) avoids that.
/// In f32 the square of a gradient above 1.8e19 is infinite, and its parameter then stands still for good: clip.
///
/// ```
/// use burtorch_optim::{Adam, AdamOptions, Groups, Optimizer};
///
/// let mut adam = Adam::new(Groups::all(1, 0.0)?, AdamOptions::default())?;
/// let mut parameters = [1.0_f64];
/// adam.step(&mut parameters, &[0.1], 1e-3)?;
/// assert!((parameters[0] - 0.999).abs() < 1e-9); // the first step is as long as the rate
/// # Ok::<(), burtorch_optim::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Adam<T>(Moments<T>);

impl<T: Float> Adam<T> {
    /// An optimizer for the buffer of `groups`, at step 0 with moments of 0.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] unless both betas are at least 0 and below 1 and ε is finite and above 0, all rounded to `T`.
    pub fn new(groups: Groups, options: AdamOptions) -> Result<Self, Error> {
        Moments::new(groups, options, Decay::InGradient).map(Self)
    }
}

impl<T: Float> Optimizer<T> for Adam<T> {
    fn step(
        &mut self,
        parameters: &mut [T],
        gradients: &[T],
        learning_rate: T,
    ) -> Result<(), Error> {
        self.0.step(parameters, gradients, learning_rate)
    }

    fn name(&self) -> &'static str {
        "adam"
    }

    fn state(&self) -> State<T> {
        self.0.state()
    }

    fn restore(&mut self, state: State<T>) -> Result<(), Error> {
        self.0.restore("adam", state)
    }
}
