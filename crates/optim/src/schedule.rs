//! From the number of a step to its learning rate.

use std::f64::consts::PI;

use crate::Error;
use crate::error::{not_negative, positive};

/// The learning rate as a function of the step, which counts from 0. A function of the step alone has nothing to save.
///
/// ```
/// use burtorch_optim::Schedule;
///
/// let schedule = Schedule::warmup_cosine(1e-3, 1e-4, 100, 2000)?;
/// assert!(schedule.learning_rate(0) > 0.0); // no step is wasted
/// assert_eq!(schedule.learning_rate(100), 1e-3);
/// assert_eq!(schedule.learning_rate(5000), 1e-4);
/// # Ok::<(), burtorch_optim::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule(Kind);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Constant {
        rate: f64,
    },
    Step {
        rate: f64,
        factor: f64,
        every: u64,
    },
    WarmupCosine {
        max: f64,
        min: f64,
        warmup: u64,
        decay_steps: u64,
    },
}

impl Schedule {
    /// The same rate at every step.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] unless `rate` is finite and at least 0.
    pub fn constant(rate: f64) -> Result<Self, Error> {
        not_negative("learning rate", rate)?;
        Ok(Self(Kind::Constant { rate }))
    }

    /// `rate · factorᵏ` with `k = ⌊step / every⌋`.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] unless `rate` and `factor` are finite and at least 0 and `every` is above 0.
    pub fn step(rate: f64, factor: f64, every: u64) -> Result<Self, Error> {
        not_negative("learning rate", rate)?;
        not_negative("learning rate factor", factor)?;
        positive("steps per learning rate", every as f64)?;
        Ok(Self(Kind::Step {
            rate,
            factor,
            every,
        }))
    }

    /// Linear warm-up and then half a cosine wave down (I. Loshchilov and F. Hutter, *SGDR: stochastic gradient descent with warm
    /// restarts*, ICLR 2017, equation 5, without restarts).
    ///
    /// ```text
    /// step < warmup               max · (step + 1) / (warmup + 1)
    /// warmup ≤ step < decay_steps min + (max − min) · (1 + cos(π · (step − warmup) / (decay_steps − warmup))) / 2
    /// otherwise                   min
    /// ```
    ///
    /// Step `warmup` has the rate `max` also when `warmup = decay_steps`, where the wave has no length. With
    /// `min = max` this is a warm-up to a constant rate.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] unless `max` and `min` are finite and at least 0, [`Error::Combination`] unless `min ≤ max` and
    /// `warmup ≤ decay_steps`.
    pub fn warmup_cosine(max: f64, min: f64, warmup: u64, decay_steps: u64) -> Result<Self, Error> {
        not_negative("learning rate", max)?;
        not_negative("least learning rate", min)?;
        if min > max {
            let expected = "at most the largest learning rate";
            return Err(Error::Combination {
                what: "least learning rate",
                expected,
            });
        }
        if warmup > decay_steps {
            let expected = "at most as many steps as until the end of the decay";
            return Err(Error::Combination {
                what: "warm-up",
                expected,
            });
        }
        Ok(Self(Kind::WarmupCosine {
            max,
            min,
            warmup,
            decay_steps,
        }))
    }

    /// The learning rate of `step`: finite and at least 0.
    #[must_use]
    pub fn learning_rate(&self, step: u64) -> f64 {
        match self.0 {
            Kind::Constant { rate } => rate,
            Kind::Step {
                rate,
                factor,
                every,
            } => stepped(rate, factor, step / every),
            Kind::WarmupCosine { max, warmup, .. } if step < warmup => warming(max, warmup, step),
            Kind::WarmupCosine { max, warmup, .. } if step == warmup => max,
            Kind::WarmupCosine {
                min, decay_steps, ..
            } if step >= decay_steps => min,
            Kind::WarmupCosine {
                max,
                min,
                warmup,
                decay_steps,
            } => {
                let progress = (step - warmup) as f64 / (decay_steps - warmup) as f64;
                min + (max - min) * 0.5 * (1.0 + (PI * progress).cos())
            }
        }
    }
}

/// Without the limit a factor above 1 would end at infinity.
fn stepped(rate: f64, factor: f64, times: u64) -> f64 {
    let power = factor.powi(i32::try_from(times).unwrap_or(i32::MAX));
    (rate * power.min(f64::MAX)).min(f64::MAX)
}

fn warming(max: f64, warmup: u64, step: u64) -> f64 {
    max * (step as f64 + 1.0) / (warmup as f64 + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(found: f64, expected: f64) {
        assert!(
            (found / expected - 1.0).abs() < 1e-6,
            "expected {expected}, found {found}"
        );
    }

    #[test]
    fn f30_schedule_edges() {
        let schedule = Schedule::warmup_cosine(1e-3, 1e-4, 10, 100).unwrap();
        close(schedule.learning_rate(0), 1e-3 / 11.0);
        close(schedule.learning_rate(9), 1e-2 / 11.0);
        assert_eq!(schedule.learning_rate(10), 1e-3);
        close(schedule.learning_rate(55), 5.5e-4);
        close(schedule.learning_rate(99), 1.002_741e-4);
        for step in [100, 101, 1000, u64::MAX] {
            assert_eq!(schedule.learning_rate(step), 1e-4);
        }
    }

    #[test]
    fn f30_no_warmup_and_no_decay() {
        let no_warmup = Schedule::warmup_cosine(1e-3, 1e-4, 0, 100).unwrap();
        assert_eq!(no_warmup.learning_rate(0), 1e-3);
        let no_wave = Schedule::warmup_cosine(1e-3, 1e-4, 100, 100).unwrap();
        close(no_wave.learning_rate(99), 1e-1 / 101.0);
        assert_eq!(no_wave.learning_rate(100), 1e-3);
        assert_eq!(no_wave.learning_rate(101), 1e-4);
        let neither = Schedule::warmup_cosine(1e-3, 1e-4, 0, 0).unwrap();
        assert_eq!([0, 1].map(|step| neither.learning_rate(step)), [1e-3, 1e-4]);
    }

    #[test]
    fn constant_and_step() {
        let constant = Schedule::constant(0.5).unwrap();
        assert_eq!([0, 1000].map(|step| constant.learning_rate(step)), [0.5; 2]);
        let step = Schedule::step(1.0, 0.5, 10).unwrap();
        let rates = [0, 9, 10, 20, u64::MAX].map(|n| step.learning_rate(n));
        assert_eq!(rates, [1.0, 1.0, 0.5, 0.25, 0.0]);
        assert_eq!(
            Schedule::step(0.0, 2.0, 1).unwrap().learning_rate(5000),
            0.0
        );
    }

    #[test]
    fn impossible_schedules_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(Schedule::constant(bad).is_err());
            assert!(Schedule::step(bad, 1.0, 1).is_err());
            assert!(Schedule::step(1.0, bad, 1).is_err());
            assert!(Schedule::warmup_cosine(bad, 0.0, 1, 2).is_err());
            assert!(Schedule::warmup_cosine(1.0, bad, 1, 2).is_err());
        }
        assert!(Schedule::step(1.0, 1.0, 0).is_err());
        assert!(Schedule::warmup_cosine(1.0, 2.0, 1, 2).is_err());
        let error = Schedule::warmup_cosine(1.0, 0.5, 3, 2)
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "warm-up: expected at most as many steps as until the end of the decay"
        );
    }

    proptest! {
        #[test]
        fn every_rate_lies_between_its_bounds(
            max in 0.0..10.0, share in 0.0..=1.0, warmup in 0_u64..50, wave in 0_u64..50, step: u64, near in 0_u64..120,
        ) {
            let schedule = Schedule::warmup_cosine(max, max * share, warmup, warmup + wave).unwrap();
            for step in [step, near] {
                let rate = schedule.learning_rate(step);
                let least = if step < warmup { 0.0 } else { max * share };
                prop_assert!((least..=max).contains(&rate), "{rate} at {step}");
            }
        }

        #[test]
        fn steps_never_leave_the_numbers(rate in 0.0..1e300, factor in 0.0..1e300, every in 1_u64.., step: u64) {
            let rate = Schedule::step(rate, factor, every).unwrap().learning_rate(step);
            prop_assert!(rate.is_finite() && rate >= 0.0);
        }
    }
}
