//! The running moments that Adam and AdamW share, and the one pass over memory that updates all.

use burtorch_core::Float;
use burtorch_core::lanes::dispatch;

use crate::error::{below_one, positive};
use crate::optimizer::check_step;
use crate::{Error, Group, Groups, State};

/// Hyperparameters of [`Adam`](crate::Adam) and [`AdamW`](crate::AdamW).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamOptions {
    /// Share β₁ of the old first moment that a step keeps, from 0 to below 1.
    pub beta1: f64,
    /// Share β₂ of the old second moment that a step keeps, from 0 to below 1.
    pub beta2: f64,
    /// The number ε above 0 that keeps the quotient finite; it is added outside the root, after bias correction.
    pub epsilon: f64,
}

impl Default for AdamOptions {
    /// β₁ = 0.9, β₂ = 0.999, ε = 1e-8, as the paper proposes.
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        }
    }
}

impl AdamOptions {
    /// Checks the numbers as they will be used: rounded to `T`.
    fn check<T: Float>(&self) -> Result<(), Error> {
        let rounded = |x: f64| T::from_f64(x).to_f64();
        below_one("beta1", rounded(self.beta1))?;
        below_one("beta2", rounded(self.beta2))?;
        positive("epsilon", rounded(self.epsilon))
    }
}

/// Where weight decay acts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decay {
    /// λ·p is added to the gradient, so the moments see it.
    InGradient,
    /// p is multiplied by 1 − rate·λ, beside the moments.
    Decoupled,
}

/// First and second moment of every gradient, and the step they belong to.
#[derive(Debug, Clone)]
pub(crate) struct Moments<T> {
    groups: Groups,
    options: AdamOptions,
    decay: Decay,
    step: u64,
    first: Vec<T>,
    second: Vec<T>,
}

const FIRST: &str = "first_moment";
const SECOND: &str = "second_moment";

impl<T: Float> Moments<T> {
    pub(crate) fn new(groups: Groups, options: AdamOptions, decay: Decay) -> Result<Self, Error> {
        options.check::<T>()?;
        let zeros = vec![T::ZERO; groups.length()];
        Ok(Self {
            options,
            decay,
            step: 0,
            first: zeros.clone(),
            second: zeros,
            groups,
        })
    }

    pub(crate) fn step(
        &mut self,
        parameters: &mut [T],
        gradients: &[T],
        learning_rate: T,
    ) -> Result<(), Error> {
        let rate = check_step(self.groups.length(), parameters, gradients, learning_rate)?;
        self.step = self.step.saturating_add(1);
        for group in self.groups.iter() {
            let range = group.range.clone();
            let coefficients = self.coefficients(group, rate * group.learning_rate_scale);
            let (p, g) = (&mut parameters[range.clone()], &gradients[range.clone()]);
            let (m, v) = (&mut self.first[range.clone()], &mut self.second[range]);
            dispatch(|| update(&coefficients, p, g, m, v));
        }
        Ok(())
    }

    /// The constants of one step and group, worked out in f64: in f32, 0.999ᵗ alone would cost three digits.
    fn coefficients(&self, group: &Group, rate: f64) -> Coefficients<T> {
        let AdamOptions {
            beta1,
            beta2,
            epsilon,
        } = self.options;
        let (keep, in_gradient) = match self.decay {
            Decay::InGradient => (1.0, group.weight_decay),
            Decay::Decoupled => (1.0 - rate * group.weight_decay, 0.0),
        };
        Coefficients {
            beta1: T::from_f64(beta1),
            rest1: T::from_f64(1.0 - beta1),
            beta2: T::from_f64(beta2),
            rest2: T::from_f64(1.0 - beta2),
            rate: T::from_f64(rate / correction(beta1, self.step)),
            root: T::from_f64(correction(beta2, self.step).sqrt().recip()),
            epsilon: T::from_f64(epsilon),
            keep: T::from_f64(keep),
            in_gradient: T::from_f64(in_gradient),
        }
    }

    pub(crate) fn steps(&self) -> u64 {
        self.step
    }

    pub(crate) fn buffers(&self) -> Vec<(&'static str, &[T])> {
        vec![(FIRST, &self.first), (SECOND, &self.second)]
    }

    pub(crate) fn restore(
        &mut self,
        optimizer: &'static str,
        state: State<T>,
    ) -> Result<(), Error> {
        let buffers = [(FIRST, &mut self.first), (SECOND, &mut self.second)];
        state.move_into(optimizer, &mut self.step, buffers)
    }
}

/// The bias correction 1 − βᵗ: what a running mean that started at 0 has to be divided by after `step` steps.
fn correction(beta: f64, step: u64) -> f64 {
    1.0 - beta.powi(i32::try_from(step).unwrap_or(i32::MAX))
}

/// The constants of [`update`].
struct Coefficients<T> {
    beta1: T,
    rest1: T,
    beta2: T,
    rest2: T,
    /// rate / (1 − β₁ᵗ).
    rate: T,
    /// 1 / √(1 − β₂ᵗ).
    root: T,
    epsilon: T,
    keep: T,
    in_gradient: T,
}

/// `m ← β₁m + (1−β₁)g`, `v ← β₂v + (1−β₂)g²`, `p ← keep·p − rate·m / (root·√v + ε)`, in one pass over memory.
#[inline(always)]
fn update<T: Float>(c: &Coefficients<T>, p: &mut [T], g: &[T], m: &mut [T], v: &mut [T]) {
    for (((p, &g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
        let g = g + c.in_gradient * *p;
        *m = c.beta1 * *m + c.rest1 * g;
        *v = c.beta2 * *v + c.rest2 * g * g;
        *p = c.keep * *p - c.rate * *m / (c.root * v.sqrt() + c.epsilon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_core::lanes::Level;
    use proptest::prelude::*;

    /// Algorithm 1 and 2 of the papers for one parameter, step by step, with bias-corrected moments of their own.
    fn reference(
        o: AdamOptions,
        decay: Decay,
        lambda: f64,
        rate: f64,
        mut p: f64,
        gradients: &[f64],
    ) -> f64 {
        let (mut m, mut v) = (0.0, 0.0);
        for (t, &g) in (1..).zip(gradients) {
            let g = if decay == Decay::InGradient {
                g + lambda * p
            } else {
                g
            };
            m = o.beta1 * m + (1.0 - o.beta1) * g;
            v = o.beta2 * v + (1.0 - o.beta2) * g * g;
            let corrected_m = m / (1.0 - o.beta1.powf(f64::from(t)));
            let corrected_v: f64 = v / (1.0 - o.beta2.powf(f64::from(t)));
            if decay == Decay::Decoupled {
                p -= rate * lambda * p;
            }
            p -= rate * corrected_m / (corrected_v.sqrt() + o.epsilon);
        }
        p
    }

    fn run<T: Float>(
        o: AdamOptions,
        decay: Decay,
        lambda: f64,
        rate: f64,
        p: f64,
        gradients: &[f64],
    ) -> f64 {
        let mut moments = Moments::new(Groups::all(1, lambda).unwrap(), o, decay).unwrap();
        let mut p = [T::from_f64(p)];
        for &g in gradients {
            moments
                .step(&mut p, &[T::from_f64(g)], T::from_f64(rate))
                .unwrap();
        }
        p[0].to_f64()
    }

    #[test]
    fn corrections_hold_at_both_ends() {
        assert_eq!(correction(0.0, 1), 1.0);
        assert_eq!(correction(0.75, 1), 0.25);
        assert_eq!(correction(0.999, u64::MAX), 1.0);
    }

    #[test]
    fn every_simd_level_gives_the_same_bits() {
        let numbers = |n: usize, seed: f32| -> Vec<f32> {
            (0..n).map(|i| ((i as f32 + seed) * 0.37).sin()).collect()
        };
        for n in [1, 7, 16, 33, 100] {
            for decay in [Decay::InGradient, Decay::Decoupled] {
                let groups = Groups::all(n, 0.1).unwrap();
                let mut moments =
                    Moments::<f32>::new(groups, AdamOptions::default(), decay).unwrap();
                moments.step = 3;
                let c = moments.coefficients(moments.groups.iter().next().unwrap(), 0.01);
                let run = |level: Level| {
                    let (mut p, g, mut m) = (numbers(n, 1.0), numbers(n, 2.0), numbers(n, 3.0));
                    let mut v: Vec<f32> = numbers(n, 4.0).iter().map(|v| v.abs()).collect();
                    level.run(|| update(&c, &mut p, &g, &mut m, &mut v));
                    [p, m, v].map(|x| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
                };
                for level in Level::available() {
                    assert_eq!(run(level), run(Level::portable()), "{level:?}, {n}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_setting_follows_the_papers(
            (beta1, beta2) in (0.0..0.99, 0.0..0.9999),
            epsilon in prop_oneof![Just(1e-8), 1e-10..1e-2],
            decoupled: bool,
            (lambda, rate, start) in (0.0..0.5, 0.0..0.1, -3.0..3.0),
            gradients in prop::collection::vec(prop_oneof![1e-3..3.0, -3.0..-1e-3], 1..30),
        ) {
            let options = AdamOptions { beta1, beta2, epsilon };
            let decay = if decoupled { Decay::Decoupled } else { Decay::InGradient };
            let expected = reference(options, decay, lambda, rate, start, &gradients);
            let found = run::<f64>(options, decay, lambda, rate, start, &gradients);
            prop_assert!((found - expected).abs() <= 1e-9, "{found} is not {expected}");
            if decoupled {
                let found = run::<f32>(options, decay, lambda, rate, start, &gradients);
                prop_assert!((found - expected).abs() <= 3e-4, "{found} is not {expected} in f32");
            }
        }
    }
}
