//! Stochastic gradient descent.

use burtorch_core::Float;
use burtorch_core::lanes::dispatch;

use crate::error::below_one;
use crate::optimizer::check_step;
use crate::{Error, Group, Groups, Optimizer, State};

/// Hyperparameters of [`Sgd`]; the default is plain gradient descent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SgdOptions {
    /// Share μ of the old momentum that a step keeps, from 0 (no momentum, no buffer) to below 1.
    pub momentum: f64,
    /// Share of the new gradient that does not enter the momentum, from 0 to below 1.
    pub dampening: f64,
    /// Look ahead along the momentum; needs momentum and no dampening.
    pub nesterov: bool,
}

/// Stochastic gradient descent with optional momentum (B. Polyak 1964; Y. Nesterov 1983, in the form of I. Sutskever et al.,
/// *On the importance of initialization and momentum in deep learning*, ICML 2013).
///
/// All operations are taken per parameter; λ is the weight decay of the group:
///
/// ```text
/// g ← g + λ·p
/// b ← μ·b + (1 − dampening)·g     first step: b ← g
/// p ← p − rate·b                  Nesterov: p ← p − rate·(g + μ·b)
/// ```
///
/// This is the form of `torch.optim.SGD`. Without momentum, b is g and no memory is used.
///
/// ```
/// use burtorch_optim::{Groups, Optimizer, Sgd, SgdOptions};
///
/// let mut sgd = Sgd::new(Groups::all(1, 0.0)?, SgdOptions { momentum: 0.5, ..Default::default() })?;
/// let mut parameters = [1.0_f64];
/// sgd.step(&mut parameters, &[1.0], 0.25)?; // b = 1
/// sgd.step(&mut parameters, &[0.0], 0.25)?; // b = 0.5
/// assert_eq!(parameters, [0.625]);
/// # Ok::<(), burtorch_optim::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sgd<T> {
    groups: Groups,
    options: SgdOptions,
    step: u64,
    momentum: Vec<T>,
}

const MOMENTUM: &str = "momentum";

impl<T: Float> Sgd<T> {
    /// An optimizer for the buffer of `groups`, at step 0.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] unless momentum and dampening are at least 0 and below 1, rounded to `T`; [`Error::Combination`] for `nesterov` without
    /// momentum or with dampening.
    pub fn new(groups: Groups, options: SgdOptions) -> Result<Self, Error> {
        let rounded = |x: f64| T::from_f64(x).to_f64();
        below_one("momentum", rounded(options.momentum))?;
        below_one("dampening", rounded(options.dampening))?;
        if options.nesterov && (options.momentum == 0.0 || options.dampening != 0.0) {
            let expected = "a momentum above 0 and a dampening of 0";
            return Err(Error::Combination {
                what: "nesterov",
                expected,
            });
        }
        let length = if options.momentum == 0.0 {
            0
        } else {
            groups.length()
        };
        Ok(Self {
            groups,
            options,
            step: 0,
            momentum: vec![T::ZERO; length],
        })
    }

    fn has_momentum(&self) -> bool {
        self.options.momentum != 0.0
    }

    /// The constants of this step and group.
    fn coefficients(&self, group: &Group, rate: f64) -> Coefficients<T> {
        let SgdOptions {
            momentum,
            dampening,
            nesterov,
        } = self.options;
        let dampening = if self.step == 1 { 0.0 } else { dampening };
        let (direct, through) = if nesterov {
            (rate, rate * momentum)
        } else {
            (0.0, rate)
        };
        Coefficients {
            decay: T::from_f64(group.weight_decay),
            rate: T::from_f64(rate),
            keep: T::from_f64(momentum),
            enter: T::from_f64(1.0 - dampening),
            direct: T::from_f64(direct),
            through: T::from_f64(through),
        }
    }
}

impl<T: Float> Optimizer<T> for Sgd<T> {
    fn step(
        &mut self,
        parameters: &mut [T],
        gradients: &[T],
        learning_rate: T,
    ) -> Result<(), Error> {
        let rate = check_step(self.groups.length(), parameters, gradients, learning_rate)?;
        self.step = self.step.saturating_add(1);
        let has_momentum = self.has_momentum();
        for group in self.groups.iter() {
            let range = group.range.clone();
            let coefficients = self.coefficients(group, rate * group.learning_rate_scale);
            let (p, g) = (&mut parameters[range.clone()], &gradients[range.clone()]);
            if has_momentum {
                let b = &mut self.momentum[range];
                dispatch(|| with_momentum(&coefficients, p, g, b));
            } else {
                dispatch(|| plain(&coefficients, p, g));
            }
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "sgd"
    }

    fn steps(&self) -> u64 {
        self.step
    }

    fn buffers(&self) -> Vec<(&'static str, &[T])> {
        if self.has_momentum() {
            vec![(MOMENTUM, &self.momentum)]
        } else {
            Vec::new()
        }
    }

    fn restore(&mut self, state: State<T>) -> Result<(), Error> {
        if self.has_momentum() {
            state.move_into("sgd", &mut self.step, [(MOMENTUM, &mut self.momentum)])
        } else {
            state.move_into("sgd", &mut self.step, [])
        }
    }
}

/// The constants of [`plain`] and [`with_momentum`].
struct Coefficients<T> {
    decay: T,
    rate: T,
    keep: T,
    enter: T,
    /// Rate of the gradient itself (Nesterov only).
    direct: T,
    /// Rate of the momentum.
    through: T,
}

#[inline(always)]
fn plain<T: Float>(c: &Coefficients<T>, p: &mut [T], g: &[T]) {
    for (p, &g) in p.iter_mut().zip(g) {
        *p -= c.rate * (g + c.decay * *p);
    }
}

#[inline(always)]
fn with_momentum<T: Float>(c: &Coefficients<T>, p: &mut [T], g: &[T], b: &mut [T]) {
    for ((p, &g), b) in p.iter_mut().zip(g).zip(b) {
        let g = g + c.decay * *p;
        *b = c.keep * *b + c.enter * g;
        *p -= c.direct * g + c.through * *b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_core::lanes::Level;
    use proptest::prelude::*;

    /// The formulas of [`Sgd`] for one parameter, written out plainly.
    fn reference(options: SgdOptions, decay: f64, rate: f64, mut p: f64, gradients: &[f64]) -> f64 {
        let mut buffer = None;
        for &g in gradients {
            let g = g + decay * p;
            let b = match buffer {
                None => g,
                Some(b) => options.momentum * b + (1.0 - options.dampening) * g,
            };
            buffer = Some(b);
            let direction = match (options.momentum == 0.0, options.nesterov) {
                (true, _) => g,
                (false, true) => g + options.momentum * b,
                (false, false) => b,
            };
            p -= rate * direction;
        }
        p
    }

    fn run(options: SgdOptions, decay: f64, rate: f64, p: f64, gradients: &[f64]) -> f64 {
        let mut sgd = Sgd::new(Groups::all(1, decay).unwrap(), options).unwrap();
        let mut p = [p];
        for &g in gradients {
            sgd.step(&mut p, &[g], rate).unwrap();
        }
        p[0]
    }

    #[test]
    fn values_by_hand() {
        let plain = SgdOptions::default();
        assert_eq!(run(plain, 0.0, 0.5, 1.0, &[1.0, -2.0]), 1.5);
        assert_eq!(run(plain, 0.5, 0.5, 2.0, &[1.0]), 1.0);
        let nesterov = SgdOptions {
            momentum: 0.5,
            nesterov: true,
            ..plain
        };
        assert_eq!(run(nesterov, 0.0, 1.0, 0.0, &[1.0, 1.0]), -3.25);
        let damped = SgdOptions {
            momentum: 0.5,
            dampening: 0.5,
            ..plain
        };
        assert_eq!(run(damped, 0.0, 1.0, 0.0, &[1.0, 1.0]), -2.0);
    }

    #[test]
    fn impossible_options_are_refused() {
        let make = |options| {
            Sgd::<f32>::new(Groups::all(1, 0.0).unwrap(), options)
                .unwrap_err()
                .to_string()
        };
        let usual = SgdOptions {
            momentum: 0.9,
            ..Default::default()
        };
        for bad in [-0.1, 1.0, f64::NAN] {
            assert!(
                make(SgdOptions {
                    momentum: bad,
                    ..usual
                })
                .starts_with("momentum")
            );
            assert!(
                make(SgdOptions {
                    dampening: bad,
                    ..usual
                })
                .starts_with("dampening")
            );
        }
        let expected = "nesterov: expected a momentum above 0 and a dampening of 0";
        assert_eq!(
            make(SgdOptions {
                momentum: 0.0,
                nesterov: true,
                ..usual
            }),
            expected
        );
        assert_eq!(
            make(SgdOptions {
                dampening: 0.1,
                nesterov: true,
                ..usual
            }),
            expected
        );
    }

    #[test]
    fn plain_descent_remembers_its_step_only() {
        let sgd = Sgd::<f64>::new(Groups::all(3, 0.0).unwrap(), SgdOptions::default()).unwrap();
        assert!(sgd.state().buffers.is_empty());
    }

    #[test]
    fn every_simd_level_gives_the_same_bits() {
        let numbers = |n: usize, seed: f32| -> Vec<f32> {
            (0..n).map(|i| ((i as f32 + seed) * 0.37).sin()).collect()
        };
        let options = SgdOptions {
            momentum: 0.9,
            nesterov: true,
            ..SgdOptions::default()
        };
        for n in [1, 7, 16, 33, 100] {
            let groups = Groups::all(n, 0.1).unwrap();
            let sgd = Sgd::<f32>::new(groups, options).unwrap();
            let c = sgd.coefficients(sgd.groups.iter().next().unwrap(), 0.01);
            let run = |level: Level| {
                let (mut p, g, mut b) = (numbers(n, 1.0), numbers(n, 2.0), numbers(n, 3.0));
                level.run(|| plain(&c, &mut p, &g));
                level.run(|| with_momentum(&c, &mut p, &g, &mut b));
                [p, b].map(|x| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
            };
            for level in Level::available() {
                assert_eq!(run(level), run(Level::portable()), "{level:?}, {n}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_setting_follows_the_formulas(
            momentum in prop_oneof![Just(0.0), 0.01..0.99],
            dampening in prop_oneof![Just(0.0), 0.0..0.99],
            nesterov: bool,
            decay in 0.0..0.5,
            rate in 0.0..0.5,
            start in -3.0..3.0,
            gradients in prop::collection::vec(-3.0..3.0, 1..20),
        ) {
            let nesterov = nesterov && momentum > 0.0;
            let dampening = if nesterov { 0.0 } else { dampening };
            let options = SgdOptions { momentum, dampening, nesterov };
            let expected = reference(options, decay, rate, start, &gradients);
            let found = run(options, decay, rate, start, &gradients);
            prop_assert!((found - expected).abs() <= 1e-12 * expected.abs().max(10.0), "{found} is not {expected}");
        }
    }

    #[test]
    fn a_momentum_that_rounds_to_one_is_refused() {
        let options = SgdOptions {
            momentum: 1.0 - 1e-12,
            ..SgdOptions::default()
        };
        let groups = || Groups::all(1, 0.0).unwrap();
        assert!(Sgd::<f32>::new(groups(), options).is_err());
        assert!(Sgd::<f64>::new(groups(), options).is_ok());
    }
}
