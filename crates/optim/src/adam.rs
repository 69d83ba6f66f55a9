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
/// In f32 `(1 − β₂)·g²` is infinite for a gradient above 5.8e20 (with the default β₂), and its parameter then stands still for good: clip.
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

    fn steps(&self) -> u64 {
        self.0.steps()
    }

    fn buffers(&self) -> Vec<(&'static str, &[T])> {
        self.0.buffers()
    }

    fn restore(&mut self, state: State<T>) -> Result<(), Error> {
        self.0.restore("adam", state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameter, 1 at first, after each of the gradients.
    fn run<T: Float>(weight_decay: f64, rate: f64, start: f64, gradients: &[f64]) -> Vec<f64> {
        let groups = Groups::all(1, weight_decay).unwrap();
        let mut adam = Adam::new(groups, AdamOptions::default()).unwrap();
        let mut p = [T::from_f64(start)];
        let mut step = |&g: &f64| {
            adam.step(&mut p, &[T::from_f64(g)], T::from_f64(rate))
                .unwrap();
            p[0].to_f64()
        };
        gradients.iter().map(&mut step).collect()
    }

    fn close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found - expected).abs() <= tolerance,
                "{found} is not {expected}"
            );
        }
    }

    #[test]
    #[should_panic(expected = "is not")]
    fn the_comparison_can_fail() {
        close(&[1.0 + 2e-10], &[1.0], 1e-10);
    }

    #[test]
    fn f24_adam_bias_correction() {
        let expected = [0.9990000001, 0.9993661036, 0.9990228626];
        close(
            &run::<f64>(0.0, 1e-3, 1.0, &[0.1, -0.2, 0.3]),
            &expected,
            1e-10,
        );
        close(
            &run::<f32>(0.0, 1e-3, 1.0, &[0.1, -0.2, 0.3]),
            &expected,
            2e-7,
        );
    }

    #[test]
    fn f24_no_gradient_at_first_changes_nothing() {
        assert_eq!(run::<f64>(0.0, 1e-3, 1.0, &[0.0]), [1.0]);
        assert_eq!(run::<f32>(0.0, 1e-3, 1.0, &[0.0]), [1.0]);
    }

    #[test]
    fn f25_epsilon_is_outside_the_root_and_not_rescaled() {
        close(&run::<f64>(0.0, 1e-3, 1.0, &[1e-8]), &[0.9995], 1e-12);
        close(&run::<f32>(0.0, 1e-3, 1.0, &[1e-8]), &[0.9995], 1e-7);
    }

    #[test]
    fn f26_decay_in_the_gradient() {
        close(&run::<f64>(0.1, 0.1, 1.0, &[0.0]), &[0.90000001], 1e-8);
        close(
            &run::<f64>(0.1, 0.1, 2.0, &[0.5, 0.5]),
            &[1.90000000, 1.80004009],
            1e-8,
        );
    }

    #[test]
    fn options_outside_their_domain_are_refused() {
        let make = |options| {
            Adam::<f32>::new(Groups::all(1, 0.0).unwrap(), options)
                .unwrap_err()
                .to_string()
        };
        let usual = AdamOptions::default();
        assert_eq!(
            make(AdamOptions {
                beta1: 1.0,
                ..usual
            }),
            "beta1: expected a number of at least 0 and below 1, found 1"
        );
        assert!(
            make(AdamOptions {
                beta2: f64::NAN,
                ..usual
            })
            .starts_with("beta2")
        );
        assert!(
            make(AdamOptions {
                beta2: -0.1,
                ..usual
            })
            .starts_with("beta2")
        );
        assert!(
            make(AdamOptions {
                epsilon: 0.0,
                ..usual
            })
            .starts_with("epsilon")
        );
        assert!(
            make(AdamOptions {
                epsilon: 1e-50,
                ..usual
            })
            .starts_with("epsilon"),
            "0 in f32"
        );
        assert!(
            make(AdamOptions {
                beta1: 1.0 - 1e-12,
                ..usual
            })
            .starts_with("beta1"),
            "1 in f32"
        );
    }
}
