//! `loss = mean over rows of (log Σⱼ exp xⱼ − x_target)`, in nats: softmax and negative log-likelihood in one.
//!
//! With m = max x, a row's loss is `(m − x_target) + log Σⱼ exp(xⱼ − m)`: neither term is large minus large. Rows whose
//! target is the ignored number count neither in the sum nor in the mean; if every row is ignored, loss and gradient
//! are 0. Backward: `dx = (softmax(x) − one_hot(target))/rows`.

use burtorch_core::{Float, Number, Scalar};

use super::{check_indices, mismatch};
use crate::kernels::dispatch::kernel;
use crate::kernels::rows::exp_shifted;
use crate::{Context, Element, Indices, Op, Result, Run, Shape, View};

/// Mean cross entropy in nats. Input: logits `[.., V]` → one number.
///
/// A logit of −∞ is a class that cannot be: it has probability 0, and the loss is +∞ if it is the target. NaN and +∞ make the loss
/// one of the two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossEntropy {
    /// The right class of each row, each below V.
    pub targets: Indices,
    /// A target that marks rows to be left out.
    pub ignore: Option<u32>,
}

impl CrossEntropy {
    fn rows(&self, targets: &[u32]) -> usize {
        targets.iter().filter(|&&t| Some(t) != self.ignore).count()
    }
}

/// A product of sums that has come this far is turned into its logarithm. One more sum, at most V < 2³², cannot bring it
/// out of the range of f64.
const LARGE: f64 = 1e200;

kernel! {
    /// The sum of the losses. Leaves `exp(x − max)` of each row in `exps`, and the factor that makes them probabilities
    /// in `factors`; ignored rows are left out.
    fn losses<'a, T>(
        [simd] x: &'a [T], targets: &'a [u32], ignore: Option<u32>, exps: &'a mut [T], factors: &'a mut [T]
    ) -> f64 {
        let width = x.len() / targets.len();
        let rows = x.chunks_exact(width).zip(targets).zip(exps.chunks_exact_mut(width)).zip(factors);
        let (mut total, mut product) = (0.0, 1.0);
        for (((x, &target), exps), factor) in rows {
            if Some(target) == ignore {
                continue;
            }
            let (top, sum) = exp_shifted(simd, x, exps);
            *factor = T::ONE / sum;
            total += (top - x[target as usize]).to_f64();
            // One logarithm of a product for many logarithms of its factors.
            product *= sum.to_f64();
            if product > LARGE {
                total += product.ln();
                product = 1.0;
            }
        }
        total + product.ln()
    }
}

kernel! {
    /// `dx += share · (softmax − one_hot)`
    fn gradients<'a, T>(
        exps: &'a [T], factors: &'a [T], targets: &'a [u32], ignore: Option<u32>, share: T, dx: &'a mut [T]
    ) {
        let width = exps.len() / targets.len();
        let rows = exps.chunks_exact(width).zip(factors).zip(dx.chunks_exact_mut(width));
        for (((exps, &factor), dx), &target) in rows.zip(targets) {
            if Some(target) == ignore {
                continue;
            }
            let factor = share * factor;
            for (dx, &e) in dx.iter_mut().zip(exps) {
                *dx = factor.fma::<S>(e, *dx);
            }
            dx[target as usize] -= share;
        }
    }
}

impl Op<1> for CrossEntropy {
    const NAME: &'static str = "cross entropy";

    fn shape(&self, context: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
        let targets = context.get("cross entropy", self.targets)?;
        if x.rank() == 0 || x.rows() != targets.len() {
            return mismatch(
                "cross entropy",
                format!("logits [.., V] with {} rows, one a target", targets.len()),
                &[x],
            );
        }
        check_indices("cross entropy", targets, x.last(), self.ignore)?;
        Ok(Shape::SCALAR)
    }

    fn saved(&self, [x]: [Shape; 1]) -> usize {
        x.len() + x.rows()
    }

    fn formula<S: Scalar>(&self, context: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        let rows = x
            .data
            .chunks_exact(x.shape.last())
            .zip(context.checked(self.targets));
        let kept = rows.filter(|&(_, &target)| Some(target) != self.ignore);
        // In `y` the losses so far, and behind them the logits of a row. Taking away that of the target before the sum keeps small
        // losses of large logits exact.
        for (rows, (row, &target)) in kept.enumerate() {
            y.extend(row.iter().map(|&x| x - row[target as usize]));
            let loss = S::logsumexp(&y[rows..]);
            y.truncate(rows);
            y.push(loss);
        }
        let loss = match y.is_empty() {
            true => S::constant(<S as Number>::Primal::ZERO),
            false => S::mean(y),
        };
        y.clear();
        y.push(loss);
    }

    fn forward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        saved: &mut [T],
    ) {
        let targets = run.context.checked(self.targets);
        let rows = self.rows(targets).max(1);
        let (exps, factors) = saved.split_at_mut(x.data.len());
        let total = losses(x.data, targets, self.ignore, exps, factors);
        y[0] = T::from_f64(total / rows as f64);
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        _: &[T],
        saved: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        let targets = run.context.checked(self.targets);
        let rows = self.rows(targets).max(1);
        if let Some(dx) = dx {
            let (exps, factors) = saved.split_at(x.data.len());
            let share = dy[0] / T::from_usize(rows);
            gradients(exps, factors, targets, self.ignore, share, dx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dispatch::levels::at_every_level;
    use crate::{Engine, Error, OpCheck, Params, TensorEngine, Workspace};

    fn check(targets: &[u32]) -> OpCheck<'_> {
        OpCheck {
            context: Context {
                indices: targets,
                ..Context::default()
            },
            ..OpCheck::default()
        }
    }

    fn op(rows: usize, ignore: Option<u32>) -> CrossEntropy {
        CrossEntropy {
            targets: Indices::new(0, rows),
            ignore,
        }
    }

    #[test]
    fn kernel_formula_and_differences_agree() {
        check(&[2, 0, 6, 6]).run(&op(4, None), &[&[4, 7]]).unwrap();
        check(&[2, 0, 99, 6])
            .run(&op(4, Some(99)), &[&[2, 2, 7]])
            .unwrap();
        check(&[3, 3]).run(&op(2, Some(3)), &[&[2, 7]]).unwrap();
        check(&[0]).run(&op(1, None), &[&[1]]).unwrap();
    }

    #[test]
    fn every_level_at_the_vocabulary_of_the_presets() {
        let targets: Vec<u32> = (0..35).map(|row| row * 29 % 65).collect();
        let check = OpCheck {
            differences: false,
            ..check(&targets)
        };
        for ignore in [None, Some(0), Some(29)] {
            at_every_level(|| check.run(&op(35, ignore), &[&[35, 65]]).unwrap());
        }
    }

    #[test]
    fn many_large_rows_stay_within_range() {
        let (rows, classes) = (50, 40_000);
        let (targets, x) = (vec![7; rows], vec![-2.5; rows * classes]);
        let (mut exps, mut factors) = (vec![0f32; x.len()], vec![0.0; rows]);
        let total = losses(&x, &targets, None, &mut exps, &mut factors);
        assert!((total / rows as f64 / (classes as f64).ln() - 1.0).abs() < 1e-7);
    }

    #[test]
    fn refuses_targets_that_do_not_fit() {
        let found = check(&[2, 7]).run(&op(2, None), &[&[2, 7]]);
        assert_eq!(
            found,
            Err(Error::Index {
                op: "cross entropy",
                position: 1,
                found: 7,
                bound: 7
            })
        );
        assert!(check(&[1, 1, 1]).run(&op(3, None), &[&[2, 7]]).is_err());
    }

    /// The loss of one row, and its gradient.
    fn of_row(logits: &[f32], target: u32) -> (f32, Vec<f32>) {
        let mut params = Params::<f32>::new();
        let shape = Shape::new(&[1, logits.len()]).unwrap();
        let x = params.add("x", shape, logits).unwrap();
        let targets = [target];
        let mut workspace = TensorEngine::new();
        let context = Context {
            indices: &targets,
            ..Context::default()
        };
        let mut pass = workspace.bind(&params, context);
        let x = pass.param(x).unwrap();
        let y = pass.apply(op(1, None), [x]).unwrap();
        let loss = pass.value(y).data[0];
        let mut gradient = vec![0.0; logits.len()];
        pass.backward_scalar(y, &mut gradient).unwrap();
        (loss, gradient)
    }

    #[test]
    fn f08_large_logits_and_masked_ones() {
        let (nothing, everything) = (f32::NEG_INFINITY, f32::INFINITY);
        let cases: [(&[f32], u32, f32, &[f32]); 4] = [
            (&[100.0, 0.0, -100.0], 2, 200.0, &[1.0, 0.0, -1.0]),
            (&[1e8, 1e8], 0, std::f32::consts::LN_2, &[-0.5, 0.5]),
            (
                &[nothing, 3.0, 3.0],
                1,
                std::f32::consts::LN_2,
                &[0.0, -0.5, 0.5],
            ),
            (&[nothing, 3.0, 3.0], 0, everything, &[-1.0, 0.5, 0.5]),
        ];
        at_every_level(|| {
            for (logits, target, right, slopes) in cases {
                let (loss, gradient) = of_row(logits, target);
                assert!(loss == right || (loss - right).abs() < 1e-6, "{loss}");
                let close = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
                assert!(gradient.iter().zip(slopes).all(close), "{gradient:?}");
            }
        });
    }

    #[test]
    fn nan_and_infinity_among_the_logits_are_not_lost() {
        at_every_level(|| {
            for bad in [f32::NAN, f32::INFINITY] {
                for place in [0, 5, 16, 36] {
                    let mut logits = [0.25; 37];
                    logits[place] = bad;
                    let (loss, gradient) = of_row(&logits, 5);
                    assert!(!loss.is_finite(), "{bad} at {place}: {loss}");
                    assert!(
                        gradient.iter().all(|slope| slope.is_nan()),
                        "{bad} at {place}"
                    );
                }
            }
        });
    }
}
