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

    fn steps(&self) -> u64 {
        self.0.steps()
    }

    fn buffers(&self) -> Vec<(&'static str, &[T])> {
        self.0.buffers()
    }

    fn restore(&mut self, state: State<T>) -> Result<(), Error> {
        self.0.restore("adamw", state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Group;

    fn step<T: Float>(adamw: &mut AdamW<T>, p: &mut [T], gradients: &[f64], rate: f64) {
        let gradients: Vec<T> = gradients.iter().map(|&g| T::from_f64(g)).collect();
        adamw.step(p, &gradients, T::from_f64(rate)).unwrap();
    }

    fn adamw<T: Float>(weight_decay: f64) -> AdamW<T> {
        AdamW::new(
            Groups::all(1, weight_decay).unwrap(),
            AdamOptions::default(),
        )
        .unwrap()
    }

    fn close<T: Float>(found: T, expected: f64, tolerance: f64) {
        let found = found.to_f64();
        assert!(
            (found - expected).abs() <= tolerance,
            "{found} is not {expected}"
        );
    }

    fn f26<T: Float>(tolerance: f64) {
        let (mut optimizer, mut p) = (adamw::<T>(0.1), [T::ONE]);
        step(&mut optimizer, &mut p, &[0.0], 0.1);
        close(p[0], 0.99, tolerance);

        let (mut optimizer, mut p) = (adamw::<T>(0.1), [T::from_f64(2.0)]);
        step(&mut optimizer, &mut p, &[0.5], 0.1);
        close(p[0], 1.880000002, tolerance);
        step(&mut optimizer, &mut p, &[0.5], 0.1);
        close(p[0], 1.76120000398, tolerance);
    }

    #[test]
    fn f26_decay_beside_the_moments() {
        f26::<f64>(1e-11);
        f26::<f32>(3e-7);
    }

    fn f27<T: Float>(tolerance: f64) {
        let (mut optimizer, mut p) = (adamw::<T>(0.1), [T::ONE]);
        for (rate, expected) in [(0.0, 1.0), (0.05, 0.995), (0.1, 0.98505)] {
            step(&mut optimizer, &mut p, &[0.0], rate);
            close(p[0], expected, tolerance);
        }
    }

    #[test]
    fn f27_decay_follows_the_scheduled_rate() {
        f27::<f64>(1e-15);
        f27::<f32>(2e-7);
    }

    #[test]
    fn f27_parameters_without_decay_keep_their_bits() {
        let tensors = [(0..4, &[2, 2][..]), (4..6, &[2])];
        let groups = Groups::decay_matrices(6, tensors, 0.1).unwrap();
        let mut optimizer = AdamW::new(groups, AdamOptions::default()).unwrap();
        let mut p = [1.0_f32, 1.0, 1.0, 1.0, 1.0, -0.0];
        step(&mut optimizer, &mut p, &[0.0; 6], 0.1);
        assert!(p[..4].iter().all(|&p| (p - 0.99).abs() < 1e-7));
        assert_eq!(
            [p[4].to_bits(), p[5].to_bits()],
            [1.0_f32.to_bits(), (-0.0_f32).to_bits()]
        );
    }

    #[test]
    fn f27_a_rate_of_zero_moves_the_moments_only() {
        let (mut optimizer, mut p) = (adamw::<f64>(0.1), [1.0]);
        step(&mut optimizer, &mut p, &[1.0], 0.0);
        assert_eq!(p, [1.0]);
        let state = optimizer.state();
        assert_eq!(state.step, 1);
        close(state.buffers["first_moment"][0], 0.1, 1e-15);
        close(state.buffers["second_moment"][0], 0.001, 1e-15);
    }

    #[test]
    fn a_group_scales_rate_and_decay() {
        let scaled = Group {
            range: 0..1,
            weight_decay: 0.1,
            learning_rate_scale: 0.5,
        };
        let groups = Groups::new(1, vec![scaled]).unwrap();
        let mut optimizer = AdamW::new(groups, AdamOptions::default()).unwrap();
        let mut p = [1.0_f64];
        step(&mut optimizer, &mut p, &[0.0], 0.1);
        close(p[0], 0.995, 1e-15);
    }
}
