//! Errors of the vectorised functions over their whole range, and equal bits at every level of the machine.

use super::{Lanes, Level, functions};
use crate::float::Float;
use crate::scalar::Scalar;

/// Every vectorised function with its bound in ulp, the same function of std or of the table of ops, and its name.
macro_rules! for_each_function {
    ($then:ident) => {
        $then! { exp 1.0, exp_m1 1.5, ln 1.0, ln_1p 1.5, sigmoid 2.5, tanh 3.0, softplus 2.0, log_sigmoid 2.0 }
    };
}

/// Distance from one `f32` to the next around `x`.
fn unit_f32(x: f64) -> f64 {
    let exponent = (x.abs().to_bits() >> 52) as i32 - 1023;
    2.0_f64.powi((exponent - 23).max(-149))
}

/// Error in ulp of `found`, where `exact` has more digits; infinity where one is infinite or NaN and the other is not.
fn error_f32(found: f32, exact: f64) -> f64 {
    let expected = exact as f32;
    if found == expected || found.is_nan() && expected.is_nan() {
        return if expected.is_finite() {
            (f64::from(found) - exact).abs() / unit_f32(exact)
        } else {
            0.0
        };
    }
    if found.is_finite() && expected.is_finite() {
        (f64::from(found) - exact).abs() / unit_f32(exact)
    } else {
        f64::INFINITY
    }
}

/// Error in ulp of `found` against `nearest` + `missing` ulp.
fn error_f64(found: f64, nearest: f64, missing: f64) -> f64 {
    if found == nearest {
        return missing.abs();
    }
    if !found.is_finite()
        || !nearest.is_finite()
        || found.is_sign_negative() != nearest.is_sign_negative()
    {
        return f64::INFINITY;
    }
    let steps = found.abs().to_bits().wrapping_sub(nearest.abs().to_bits()) as i64;
    (steps as f64 - missing * nearest.signum()).abs()
}

fn same<F: Float>(x: F, y: F) -> bool {
    let (x, y) = (x.to_f64(), y.to_f64());
    x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
}

/// Asserts that `wide`, compiled for each level, gives the bits of `single` in every lane.
#[track_caller]
fn assert_levels_agree<F: Float>(
    name: &str,
    xs: Lanes<F, 8>,
    single: impl Fn(F) -> F,
    wide: impl Fn(Lanes<F, 8>) -> Lanes<F, 8>,
) {
    for level in Level::available() {
        let ys = level.run(|| wide(xs));
        for (&x, &y) in xs.as_slice().iter().zip(ys.as_slice()) {
            assert!(
                same(y, single(x)),
                "{name}({x:e}) at {level:?}: {y:e}, alone {:e}",
                single(x)
            );
        }
    }
}

/// Every 2003rd bit pattern of an `f32`, eight at a time: all exponents, both signs, infinities and NaN.
fn patterns() -> impl Iterator<Item = Lanes<f32, 8>> {
    let chosen = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        f32::NAN,
        1.0,
        -1.0,
        f32::MIN_POSITIVE,
    ];
    let groups = (0..=u32::MAX / 2003 / 8).map(move |group| {
        Lanes::from_fn(|lane| f32::from_bits((group * 8 + lane as u32).saturating_mul(2003)))
    });
    groups.chain([Lanes::from(chosen)])
}

macro_rules! f32_tests {
    ($($name:ident $bound:literal),*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn f32_over_all_exponents() {
                let mut worst = (0.0, 0.0);
                for xs in patterns() {
                    for &x in xs.as_slice() {
                        let error = error_f32(functions::$name(x), Scalar::$name(f64::from(x)));
                        if error > worst.0 {
                            worst = (error, x);
                        }
                    }
                }
                assert!(worst.0 <= $bound, "off by {} ulp at {:e}", worst.0, worst.1);
            }

            #[test]
            fn f32_bits_at_every_level() {
                for xs in patterns().step_by(17) {
                    assert_levels_agree(stringify!($name), xs, functions::$name, Scalar::$name);
                }
            }
        }
    )*};
}

for_each_function! { f32_tests }

/// The committed table, made with 60 digits: (name, argument, nearest double, what is missing to the exact value in ulp).
fn table() -> impl Iterator<Item = (&'static str, f64, f64, f64)> {
    let number =
        |hex: &str| f64::from_bits(u64::from_str_radix(hex, 16).expect("bits in hexadecimal"));
    include_str!("../../tests/data/lanes_f64.txt")
        .lines()
        .map(move |line| {
            let mut fields = line.split(' ');
            let mut next = || fields.next().expect("four fields a line");
            (
                next(),
                number(next()),
                number(next()),
                next().parse().expect("a fraction"),
            )
        })
}

macro_rules! f64_error {
    ($($name:ident $bound:literal),*) => {
        /// The function's value and bound.
        fn f64_function(name: &str, x: f64) -> (f64, f64) {
            match name {
                $(stringify!($name) => {
                    assert_levels_agree(name, Lanes::splat(x), functions::$name, Scalar::$name);
                    (functions::$name(x), $bound)
                })*
                _ => panic!("the table has a function `{name}` that is not tested"),
            }
        }

        /// Against std, whose own error is below an ulp, at many more points.
        #[test]
        fn f64_at_random_points() {
            let mut state = 1_u64;
            for _ in 0..200_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
                for x in [f64::from_bits(state), share * 1500.0 - 760.0, share * 4.0 - 2.0] {
                    $(
                        let (found, expected) = (functions::$name(x), f64_by_std::$name(x));
                        if !(found.is_nan() && expected.is_nan()) {
                            let error = error_f64(found, expected, 0.0);
                            assert!(error <= $bound + 1.0, "{}({x:e}): {error} ulp from std", stringify!($name));
                        }
                    )*
                }
            }
        }

        #[test]
        fn f64_limits() {
            for x in [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1.0] {
                $(
                    let (found, expected) = (functions::$name(x), f64_by_std::$name(x));
                    let close = same(found, expected) || error_f64(found, expected, 0.0) <= $bound;
                    assert!(close, "{}({x:e}): expected {expected:e}, found {found:e}", stringify!($name));
                )*
            }
        }
    };
}

for_each_function! { f64_error }

/// The functions of plain numbers; those of the table of ops that are made of two of std's are off by up to 2 ulp.
mod f64_by_std {
    use crate::scalar::Scalar;

    macro_rules! plain {
        ($($name:ident $bound:literal),*) => {$(
            pub(super) fn $name(x: f64) -> f64 {
                Scalar::$name(x)
            }
        )*};
    }

    for_each_function! { plain }
}

#[test]
fn f64_against_the_table() {
    let mut worst = std::collections::BTreeMap::new();
    for (name, x, nearest, missing) in table() {
        let (found, bound) = f64_function(name, x);
        let error = error_f64(found, nearest, missing);
        assert!(
            error <= bound,
            "{name}({x:e}): expected {nearest:e}, found {found:e}, off by {error} ulp"
        );
        worst
            .entry(name)
            .and_modify(|largest: &mut f64| *largest = largest.max(error))
            .or_insert(error);
    }
    assert_eq!(worst.len(), 8, "{worst:?}");
}

#[test]
fn every_lane_counts_as_finite_or_not() {
    let finite = Lanes::from([1.0, f64::MAX, -0.0, f64::MIN]);
    assert!(finite.all_finite());
    for (lane, bad) in [(0, f64::NAN), (3, f64::INFINITY)] {
        let mut numbers = finite;
        numbers[lane] = bad;
        assert!(!numbers.all_finite(), "{numbers:?}");
    }
}

#[test]
fn errors_are_noticed() {
    assert_eq!(error_f32(1.0 + f32::EPSILON, 1.0), 1.0);
    assert_eq!(error_f32(3e-45, 1.401_298_464_324_817e-45), 1.0);
    assert_eq!(error_f32(f32::NAN, 1.0), f64::INFINITY);
    assert_eq!(error_f32(1.0, f64::NAN), f64::INFINITY);
    assert_eq!(error_f32(f32::MAX, f64::INFINITY), f64::INFINITY);
    assert_eq!(error_f64(-1.0 - 2.0 * f64::EPSILON, -1.0, 0.25), 2.25);
    assert_eq!(error_f64(1.0, 1.0, -0.5), 0.5);
    assert_eq!(error_f64(f64::NAN, 1.0, 0.0), f64::INFINITY);
    assert_eq!(error_f64(1.0, -1.0, 0.0), f64::INFINITY);
}

#[test]
#[should_panic(expected = "alone")]
fn a_level_that_differs_is_noticed() {
    assert_levels_agree(
        "exp",
        Lanes::splat(1.0),
        functions::exp,
        |x: Lanes<f64, 8>| x.exp() + f64::EPSILON * 4.0,
    );
}
