//! The check that every op has to pass.

use burtorch_core::Scalar;

use crate::{
    Context, Element, Engine, Error, Op, Params, Result, ScalarEngine, Shape, TensorEngine, View,
    Workspace,
};

/// How to check an op; [`run`](OpCheck::run) does it.
#[derive(Debug, Clone, Copy)]
pub struct OpCheck<'a> {
    /// Integers and mask key for the op.
    pub context: Context<'a>,
    /// Seed of the random inputs.
    pub seed: u64,
    /// Whether to put zeros, ties, ±60 and subnormal numbers among the inputs.
    pub special: bool,
    /// Whether NaN and both infinities are among the inputs, one number in eleven, and what is then asked.
    pub non_finite: NonFiniteInputs,
    /// Whether to compare with central differences, which are wrong at kinks and useless among special numbers; they are
    /// left out where `special` or `non_finite` puts others among the inputs.
    pub differences: bool,
}

/// What [`OpCheck`] does about numbers that are not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonFiniteInputs {
    /// There are none among the inputs.
    Absent,
    /// They are among the inputs, and come out where and as the formula says.
    Exact,
    /// They are among the inputs, and may reach further than in the formula, as by products with zero, but are never lost:
    /// whatever a kernel gives as finite is the formula's.
    MaySpread,
}

impl Default for OpCheck<'_> {
    fn default() -> Self {
        OpCheck {
            context: Context::default(),
            seed: 1,
            special: false,
            non_finite: NonFiniteInputs::Absent,
            differences: true,
        }
    }
}

/// A number before the inputs in the flat buffer, so that no kernel can count on where vectors begin in memory.
const IN_FRONT: &str = "in front";

/// Kernel against formula, and kernel gradient against tape gradient, relative to the largest number compared.
const EXACT: f64 = 1e-12;
/// Tape gradient against central differences.
const DIFFERENCES: f64 = 1e-7;
/// f32 kernels against the formula in f64.
const SINGLE: f64 = 2e-5;

/// Checks an op on random inputs of the given shapes, with [`OpCheck::default`].
///
/// ```
/// use burtorch_tensor::{check_op, ops};
///
/// check_op(&ops::Add, &[&[2, 3], &[2, 3]])?;
/// # Ok::<(), burtorch_tensor::Error>(())
/// ```
///
/// # Errors
/// As [`OpCheck::run`].
pub fn check_op<const N: usize, O: Op<N>>(op: &O, shapes: &[&[usize]; N]) -> Result<()> {
    OpCheck::default().run(op, shapes)
}

impl OpCheck<'_> {
    /// Asserts, on random inputs: the kernel's result is the formula's (f64, 1e-12 relative); the kernel's gradient of a
    /// randomly weighted sum of the result is the scalar tape's gradient of the formula (1e-12); that gradient is the
    /// formula's central difference (1e-7); the f32 kernels agree with the formula in f64 (2e-5).
    ///
    /// # Errors
    /// [`Error::Disagreement`] for the first number that is off; what the op's shape rule says.
    pub fn run<const N: usize, O: Op<N>>(&self, op: &O, shapes: &[&[usize]; N]) -> Result<()> {
        let mut params = Params::<f64>::new();
        params.add(IN_FRONT, Shape::SCALAR, &[1.0])?;
        for (i, dims) in shapes.iter().enumerate() {
            let shape = Shape::new(dims)?;
            params.add(format!("x{i}"), shape, &self.inputs(shape.len(), i as u64))?;
        }
        let kernel = self.value_and_gradient::<f64, TensorEngine<f64>, N, O>(op, &params)?;
        let formula = self.value_and_gradient::<f64, ScalarEngine<f64>, N, O>(op, &params)?;
        let compare = |op, what, expected: &[f64], found: &[f64], tolerance| {
            compare(op, what, expected, found, tolerance, self.non_finite)
        };
        compare(
            O::NAME,
            "kernel value against formula",
            &formula.0,
            &kernel.0,
            EXACT,
        )?;
        compare(
            O::NAME,
            "kernel gradient against the tape",
            &formula.1,
            &kernel.1,
            EXACT,
        )?;
        if self.differences && !self.special && self.non_finite == NonFiniteInputs::Absent {
            let differences = self.differences(op, &params, &weights(formula.0.len()));
            compare(
                O::NAME,
                "tape gradient against central differences",
                &differences,
                &formula.1,
                DIFFERENCES,
            )?;
        }
        let single =
            self.value_and_gradient::<f32, TensorEngine<f32>, N, O>(op, &narrow(&params)?)?;
        compare(
            O::NAME,
            "f32 value against f64",
            &formula.0,
            &single.0,
            SINGLE,
        )?;
        compare(
            O::NAME,
            "f32 gradient against f64",
            &formula.1,
            &single.1,
            SINGLE,
        )
    }

    fn inputs(&self, len: usize, stream: u64) -> Vec<f64> {
        const TINY: f64 = 1e-40f32 as f64;
        const SPECIAL: [f64; 8] = [0.0, -0.0, 60.0, -60.0, TINY, -TINY, 1.0, 1.0];
        // Subnormal in f32. All inputs are f32 values, so that both precisions see the same point; at least 0.01 from the kinks at zero.
        let plain = |i: usize| {
            let u = uniform(self.seed ^ (stream << 32), i);
            (1.5 * u + 0.01 * u.signum()) as f32 as f64
        };
        const NON_FINITE: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        (0..len)
            .map(|i| {
                let u = uniform(!self.seed ^ (stream << 32), i);
                if self.non_finite != NonFiniteInputs::Absent && u.abs() < 1.0 / 11.0 {
                    NON_FINITE[i % 3]
                } else if self.special && i % 2 == 0 {
                    SPECIAL[i / 2 % 8]
                } else {
                    plain(i)
                }
            })
            .collect()
    }

    /// The result, and the gradient of `Σ weightᵢ · resultᵢ`.
    ///
    /// Kernels must not rely on what their destinations hold: a pass over other numbers has used the memory before, and
    /// the gradient is added to numbers that are subtracted again.
    fn value_and_gradient<T: Element, W: Workspace<T>, const N: usize, O: Op<N>>(
        &self,
        op: &O,
        params: &Params<T>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut workspace = W::default();
        let mut others = params.clone();
        others
            .values_mut()
            .iter_mut()
            .for_each(|x| *x = T::from_f64(1.5) - *x);
        self.pass(
            op,
            &mut workspace,
            &others,
            &mut vec![T::ZERO; params.len()],
        )?;
        let before: Vec<T> = (0..params.len())
            .map(|i| T::from_usize(i % 7) / T::from_f64(4.0))
            .collect();
        let mut gradient = before.clone();
        let value = self.pass(op, &mut workspace, params, &mut gradient)?;
        let added = gradient
            .iter()
            .zip(&before)
            .skip(1)
            .map(|(&after, &before)| (after - before).to_f64());
        Ok((value, added.collect()))
    }

    /// Runs the op and adds its gradient.
    fn pass<T: Element, W: Workspace<T>, const N: usize, O: Op<N>>(
        &self,
        op: &O,
        workspace: &mut W,
        params: &Params<T>,
        gradient: &mut [T],
    ) -> Result<Vec<f64>> {
        let mut pass = workspace.bind(params, self.context);
        let mut x = Vec::new();
        for id in params.ids().skip(1) {
            x.push(pass.param(id)?);
        }
        let y = pass.apply(op.clone(), std::array::from_fn(|i| x[i]))?;
        let value: Vec<f64> = pass.value(y).data.iter().map(|v| v.to_f64()).collect();
        let seed: Vec<T> = weights(value.len()).into_iter().map(T::from_f64).collect();
        pass.backward(y, &seed, gradient)?;
        Ok(value)
    }

    /// Central differences of `Σ weightᵢ · formulaᵢ`.
    fn differences<const N: usize, O: Op<N>>(
        &self,
        op: &O,
        params: &Params<f64>,
        weights: &[f64],
    ) -> Vec<f64> {
        let mut x = params.values().to_vec();
        let weighted = |x: &[f64]| {
            let views = std::array::from_fn(|i| {
                let entry = &params.entries()[i + 1];
                View {
                    data: &x[entry.range()],
                    shape: entry.shape,
                }
            });
            let mut y = Vec::new();
            op.formula(&self.context, views, &mut y);
            f64::dot(&y, weights)
        };
        let step = 6e-6; // about the cube root of the precision of f64
        (1..x.len())
            .map(|i| {
                let centre = x[i];
                x[i] = centre + step;
                let above = weighted(&x);
                x[i] = centre - step;
                let below = weighted(&x);
                x[i] = centre;
                (above - below) / (2.0 * step)
            })
            .collect()
    }
}

/// Numbers in ±1 that depend on the seed and the position alone (SplitMix64).
fn uniform(seed: u64, i: usize) -> f64 {
    let mut x = seed.wrapping_add((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) as f64 / u64::MAX as f64 * 2.0 - 1.0
}

/// Upstream gradients: random f32 values, so that no two wrong results cancel.
fn weights(len: usize) -> Vec<f64> {
    (0..len).map(|i| uniform(77, i) as f32 as f64).collect()
}

fn narrow(params: &Params<f64>) -> Result<Params<f32>> {
    let mut single = Params::new();
    for entry in params.entries() {
        let values: Vec<f32> = params.values()[entry.range()]
            .iter()
            .map(|&v| v as f32)
            .collect();
        single.add(entry.name.clone(), entry.shape, &values)?;
    }
    Ok(single)
}

/// Refuses the first pair that differs by more than `tolerance` times the largest expected number, or 1 if that is
/// smaller.
fn compare(
    op: &'static str,
    what: &str,
    expected: &[f64],
    found: &[f64],
    tolerance: f64,
    non_finite: NonFiniteInputs,
) -> Result<()> {
    let scale = expected.iter().fold(1.0, |m: f64, e| {
        if e.is_finite() {
            f64::max(m, e.abs())
        } else {
            m
        }
    });
    let same = |expected: f64, found: f64| {
        let may_spread = non_finite == NonFiniteInputs::MaySpread && !found.is_finite();
        let both = expected == found || (expected.is_nan() && found.is_nan());
        both || may_spread || (expected - found).abs() <= tolerance * scale
    };
    match expected.iter().zip(found).position(|(&e, &f)| !same(e, f)) {
        None if expected.len() == found.len() => Ok(()),
        None => Err(Error::Length {
            what: format!("{op}: {what}"),
            expected: expected.len(),
            found: found.len(),
        }),
        Some(position) => Err(Error::Disagreement {
            op,
            what: what.into(),
            position,
            expected: expected[position],
            found: found[position],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;

    /// Where an op can be wrong.
    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        None,
        Value,
        /// The reference C++ multiplies by the result, which is right at ±1.
        KernelGradient,
        /// The tape does not see a factor that differences see.
        Formula,
        OverwritesGradient,
        AddsToWhatWasThere,
        /// Right in f64 only.
        Single,
        /// 0 where it should be NaN.
        LosesNan,
        /// NaN where it should be infinite.
        Spreads,
    }

    #[derive(Clone)]
    struct BrokenRelu(Fault);

    impl Op<1> for BrokenRelu {
        const NAME: &'static str = "broken relu";

        fn shape(&self, _: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
            Ok(x)
        }

        fn formula<S: Scalar>(&self, _: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
            let hidden = |x: S| x.relu() * x.relu().stop_gradient();
            let right = |x: S| x.relu();
            y.extend(x.data.iter().map(|&x| {
                if self.0 == Fault::Formula {
                    hidden(x)
                } else {
                    right(x)
                }
            }));
        }

        fn forward<T: Element>(
            &self,
            _: &mut Run<'_, T>,
            [x]: [View<'_, T>; 1],
            y: &mut [T],
            _: &mut [T],
        ) {
            for (y, &x) in y.iter_mut().zip(x.data) {
                *y = match self.0 {
                    Fault::Formula => x.relu() * x.relu(),
                    Fault::Value => x.relu() + T::from_f64(1e-9),
                    Fault::AddsToWhatWasThere => *y + x.relu(),
                    Fault::Single if T::EPSILON > T::from_f64(1e-10) => {
                        x.relu() + T::from_f64(1e-3)
                    }
                    Fault::LosesNan if x.is_nan() => T::ZERO,
                    Fault::Spreads if !x.is_finite() => T::NAN,
                    _ => x.relu(),
                };
            }
        }

        fn backward<T: Element>(
            &self,
            _: &mut Run<'_, T>,
            [x]: [View<'_, T>; 1],
            y: &[T],
            _: &[T],
            dy: &[T],
            [dx]: [Option<&mut [T]>; 1],
        ) {
            for (((dx, &x), &y), &dy) in dx.unwrap().iter_mut().zip(x.data).zip(y).zip(dy) {
                let slope = match self.0 {
                    Fault::KernelGradient => y,
                    Fault::Formula => x.relu(),
                    _ if x > T::ZERO => T::ONE,
                    _ => T::ZERO,
                };
                *dx = if self.0 == Fault::OverwritesGradient {
                    dy * slope
                } else {
                    *dx + dy * slope
                };
            }
        }
    }

    fn failure(fault: Fault) -> Option<String> {
        match OpCheck::default().run(&BrokenRelu(fault), &[&[20]]) {
            Ok(()) => None,
            Err(Error::Disagreement { what, .. }) => Some(what),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_check_sees_each_fault() {
        let value = Some("kernel value against formula".to_owned());
        let gradient = Some("kernel gradient against the tape".to_owned());
        assert_eq!(failure(Fault::None), None);
        assert_eq!(failure(Fault::Value), value);
        assert_eq!(failure(Fault::AddsToWhatWasThere), value);
        assert_eq!(failure(Fault::KernelGradient), gradient);
        assert_eq!(failure(Fault::OverwritesGradient), gradient);
        assert_eq!(
            failure(Fault::Formula).unwrap(),
            "tape gradient against central differences"
        );
        assert_eq!(failure(Fault::Single).unwrap(), "f32 value against f64");
    }

    #[test]
    fn the_check_sees_non_finite_numbers_that_are_lost_or_spread() {
        let passes = |fault, non_finite| {
            let check = OpCheck {
                non_finite,
                ..OpCheck::default()
            };
            check.run(&BrokenRelu(fault), &[&[200]]).is_ok()
        };
        for (fault, exact, may_spread) in [
            (Fault::None, true, true),
            (Fault::LosesNan, false, false),
            (Fault::Spreads, false, true),
            (Fault::Value, false, false),
        ] {
            assert!(passes(fault, NonFiniteInputs::Absent) || fault == Fault::Value);
            assert_eq!(passes(fault, NonFiniteInputs::Exact), exact);
            assert_eq!(passes(fault, NonFiniteInputs::MaySpread), may_spread);
        }
    }

    #[test]
    fn f11_relu_times_its_output_is_seen_at_two_and_not_at_one() {
        let dx = |at: f64| {
            let op = BrokenRelu(Fault::KernelGradient);
            let mut params = Params::<f64>::new();
            let x = params.add("x", Shape::new(&[1]).unwrap(), &[at]).unwrap();
            let mut workspace = TensorEngine::new();
            let mut pass = workspace.bind(&params, Context::default());
            let x = pass.param(x).unwrap();
            let y = pass.apply(op, [x]).unwrap();
            let mut gradient = [0.0];
            pass.backward_scalar(y, &mut gradient).unwrap();
            compare(
                "relu",
                "gradient",
                &[1.0],
                &gradient,
                EXACT,
                NonFiniteInputs::Absent,
            )
        };
        assert!(dx(1.0).is_ok());
        assert!(dx(2.0).is_err());
    }
}
