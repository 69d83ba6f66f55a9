//! Functions that vectorise: no branch, no table, no call.
//!
//! The polynomials come from `scripts/fit_polynomials.py`.

use pulp::Simd;

use crate::Element;
use crate::element::KernelElement;

/// Where f32's exponential is about to leave the normal numbers, and where it overflows.
const EXP_LOW: f32 = -86.9;
const EXP_HIGH: f32 = 88.722_84;

/// `eˣ` in f32: `x = n ln 2 + r`, a polynomial in `r`, and `n` put into the exponent bits. 0 below [`EXP_LOW`].
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f32) -> f32 {
    // Adding 1.5·2²³ leaves the nearest integer in the low mantissa bits; a cast would saturate and not vectorise.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts, the first 355/512 with trailing zero bits, so that n times it is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let shifted = x.fma::<S>(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.fma::<S>(-LN_2_LOW, n.fma::<S>(-LN_2_HIGH, x));
    let p = 1.381_461_7e-3f32;
    let p = p.fma::<S>(r, 8.368_71e-3);
    let p = p.fma::<S>(r, 4.166_838_7e-2);
    let p = p.fma::<S>(r, 1.666_652e-1);
    let p = p.fma::<S>(r, 4.999_999_3e-1);
    let p = (p * r).fma::<S>(r, r) + 1.0;
    // In two steps, so that n = 128 just under the overflow does not overflow the exponent field.
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(126) << 23);
    let y = p * scale * 2.0;
    let y = if x < EXP_LOW { 0.0 } else { y };
    if x > EXP_HIGH { f32::INFINITY } else { y }
}

/// `(x Φ(x), Φ(x) + x φ(x))`. With z = |x|/√2, Φ(−|x|) = ½ erfc(z) and erfc(z) = e^(−z²) t P(t), t = 1/(1 + z/2), so
/// that one exponential serves both results.
#[inline(always)]
pub(crate) fn gelu<S: Simd>(x: f32) -> (f32, f32) {
    let a = if x.abs() > 14.0 { 14.0 } else { x.abs() }; // Φ(−14) is 0 in f32; NaN stays NaN
    let gauss = exp::<S>(-0.5 * a * a);
    let t = 1.0 / (0.5 * std::f32::consts::FRAC_1_SQRT_2).fma::<S>(a, 1.0);
    let p = -5.906_939_6e-2f32;
    let p = p.fma::<S>(t, 2.845_770_3e-1);
    let p = p.fma::<S>(t, -4.872_040_3e-1);
    let p = p.fma::<S>(t, 2.780_717e-1);
    let p = p.fma::<S>(t, -2.662_864_8e-2);
    let p = p.fma::<S>(t, 2.026_880_6e-1);
    let p = p.fma::<S>(t, 2.431_034_8e-1);
    let p = p.fma::<S>(t, 2.823_753_4e-1);
    let p = p.fma::<S>(t, 2.820_864_2e-1);
    let tail = 0.5 * gauss * t * p;
    let distribution = if x < 0.0 { tail } else { 1.0 - tail };
    let density =
        gauss * (0.5 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2);
    let signed = if x < 0.0 { -a } else { a };
    let value = if x < -14.0 { 0.0 } else { x * distribution };
    (value, signed.fma::<S>(density, distribution))
}

/// `(x σ(2u), σ + x σ (1 − σ) 2u′)`, u = √(2/π)(x + 0.044715 x³). Outside ±12 the sigmoid is 0 or 1 to the last bit of
/// f32 and its slope below 1e-50, so x is clamped there and x³ cannot overflow.
#[inline(always)]
pub(crate) fn gelu_tanh<T: Element, S: Simd>(x: T) -> (T, T) {
    let c = |v: f64| T::from_f64(v);
    let root = c(0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 * 4.0); // 2√(2/π)
    let limit = c(12.0);
    let a = if x > limit { limit } else { x };
    let a = if a < -limit { -limit } else { a };
    let square = a * a;
    let u = root * a * square.fma::<S>(c(0.044_715), T::ONE);
    let slope = root * square.fma::<S>(c(3.0 * 0.044_715), T::ONE);
    // 1 − σ(u) is computed as σ(−u), not by subtraction, so that the tails keep their digits.
    let e = (if u < T::ZERO { u } else { -u }).exp_fast::<S>();
    let (small, large) = (e / (T::ONE + e), T::ONE / (T::ONE + e));
    let (sigmoid, rest) = if u < T::ZERO {
        (small, large)
    } else {
        (large, small)
    };
    let value = if x < -limit { T::ZERO } else { x * sigmoid };
    (value, (a * sigmoid * rest).fma::<S>(slope, sigmoid))
}

#[cfg(test)]
mod tests {
    use burtorch_core::Scalar;

    use crate::kernels::dispatch::kernel;
    use crate::kernels::dispatch::levels::at_every_level;
    use crate::kernels::elementwise::{Curve, Gelu, GeluTanh, map_leaving_slope};

    kernel! {
        fn exponentials<'a, T>(x: &'a [T], y: &'a mut [T]) {
            for (y, &x) in y.iter_mut().zip(x) {
                *y = x.exp_fast::<S>();
            }
        }
    }

    fn exp_each(x: &[f32]) -> Vec<f32> {
        let mut y = vec![f32::NAN; x.len()];
        exponentials(x, &mut y);
        y
    }

    /// Values and slopes.
    fn curve<C: Curve<f32> + 'static>(x: &[f32]) -> [Vec<f32>; 2] {
        let (mut y, mut slopes) = (vec![f32::NAN; x.len()], x.to_vec());
        map_leaving_slope::<f32, C>(&mut slopes, &mut y);
        [y, slopes]
    }

    /// Numbers from the one to the other.
    fn steps(from: f32, to: f32, step: f32) -> Vec<f32> {
        let count = ((to - from) / step) as usize;
        (0..=count).map(|i| from + i as f32 * step).collect()
    }

    #[test]
    fn exp_is_right_over_its_whole_range() {
        at_every_level(|| {
            let x = steps(-86.9, 88.72, 0.0137);
            for (x, found) in x.iter().zip(exp_each(&x)) {
                let expected = f64::from(*x).exp();
                assert!(
                    (f64::from(found) / expected - 1.0).abs() < 2e-7,
                    "exp({x}) = {found}, expected {expected}"
                );
            }
            let infinity = f32::INFINITY;
            let y = exp_each(&[0.0, -infinity, -1e4, 100.0, infinity, f32::NAN]);
            assert_eq!(y[..5], [1.0, 0.0, 0.0, infinity, infinity]);
            assert!(y[5].is_nan());
        });
    }

    fn slope_by_differences(f: fn(f64) -> f64, x: f64) -> f64 {
        (f(x + 1e-5) - f(x - 1e-5)) / 2e-5
    }

    /// That a curve is `f` and its slope, this near.
    fn agrees<C: Curve<f32> + 'static>(f: fn(f64) -> f64, near: f64, slope_near: f64) {
        let x = steps(-15.0, 15.0, 0.0173);
        let [y, slopes] = curve::<C>(&x);
        for ((&x, &y), &slope) in x.iter().zip(&y).zip(&slopes) {
            let wide = f64::from(x);
            let (off, slope_off) = (
                f64::from(y) - f(wide),
                f64::from(slope) - slope_by_differences(f, wide),
            );
            assert!(off.abs() < near * (1.0 + wide.abs()), "f({x}) = {y}");
            assert!(slope_off.abs() < slope_near, "f'({x}) = {slope}");
        }
        let ends = [1e20, -1e20, f32::NEG_INFINITY, f32::NAN];
        let [y, slopes] = curve::<C>(&ends);
        assert_eq!((y[0], slopes[0]), (1e20, 1.0));
        assert_eq!((y[1], slopes[1].abs(), y[2]), (0.0, 0.0, 0.0));
        assert!(y[3].is_nan() && slopes[3].is_nan());
    }

    #[test]
    fn f07_both_gelus_and_their_slopes() {
        at_every_level(|| {
            agrees::<Gelu>(Scalar::gelu, 5e-7, 1e-6);
            agrees::<GeluTanh>(Scalar::gelu_tanh, 5e-7, 2e-6);
            let off = |found: f32, expected: f64| (f64::from(found) / expected - 1.0).abs();
            assert!(off(curve::<Gelu>(&[-5.0])[0][0], -1.433_257_859e-6) < 1e-5);
            assert!(off(curve::<GeluTanh>(&[-5.0])[0][0], -2.291_796_197e-7) < 1e-4);
        });
    }
}
