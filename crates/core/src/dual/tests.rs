//! Every row of the table on dual numbers: against the tape, twice against a tape of tapes, and against differences.

use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::check::five_point;
use crate::random::at_random;
use crate::tape::Tape;
use crate::var::Var;

/// Equal up to rounding, or both NaN, or the same infinity.
fn near(found: f64, expected: f64) -> bool {
    if !expected.is_finite() {
        return found == expected || found.is_nan() && expected.is_nan();
    }
    (found - expected).abs() <= 1e-12 * expected.abs().max(1.0)
}

#[track_caller]
fn assert_near(found: f64, expected: f64, what: &str) {
    assert!(
        near(found, expected),
        "{what}: expected {expected:e}, found {found:e}"
    );
}

/// Points that random numbers miss.
const POINTS: [f64; 13] = [
    -60.0, -10.0, -1.0, -1e-8, -5e-324, -0.0, 0.0, 5e-324, 1e-8, 0.5, 1.0, 10.0, 60.0,
];

fn inside(domain: &Range<f64>) -> impl Iterator<Item = f64> {
    POINTS.into_iter().filter(|x| domain.contains(x))
}

/// Value, first and second derivative of a function of one variable, all by tapes.
fn by_tapes(f: impl Fn(Var<'_, Var<'_, f64>>) -> [f64; 2], x: f64) -> [f64; 3] {
    let inner = Tape::new();
    let input = inner.var(x);
    let outer = Tape::new();
    let [value, slope] = f(outer.var(input));
    [value, slope, input.grad().unwrap()]
}

macro_rules! unary_tests {
    ($($(#[$doc:meta])* $name:ident { value: $value:expr, partial: $partial:expr, domain: $domain:expr, corners: $corners:tt })*) => {$(
        mod $name {
            use super::*;

            fn check(x: f64) {
                let [value, slope, curvature] = by_tapes(|x| {
                    let y = x.$name();
                    y.backward().unwrap();
                    let slope = x.grad().unwrap();
                    slope.backward().unwrap();
                    [y.primal(), slope.value()]
                }, x);
                let y = Dual::variable(x).$name();
                assert_eq!(y.value.to_bits(), Scalar::$name(x).to_bits());
                assert_near(y.value, value, "value");
                assert_near(y.tangent, slope, "slope");
                if slope.is_finite() && !$corners.contains(&x) {
                    let twice = Dual::variable(Dual::variable(x)).$name();
                    assert_near(twice.value.tangent, slope, "inner slope");
                    assert_near(twice.tangent.value, slope, "outer slope");
                    assert_near(twice.tangent.tangent, curvature, "second derivative");
                    let tape = Tape::new();
                    let variable = tape.var(Dual::variable(x));
                    variable.$name().backward().unwrap();
                    let gradient = variable.grad().unwrap();
                    assert_near(gradient.value, slope, "gradient");
                    assert_near(gradient.tangent, curvature, "its tangent");
                }
            }

            #[test]
            fn at_chosen_points() {
                inside(&$domain).for_each(check);
            }

            #[test]
            fn at_random_points() {
                at_random($domain, &|x| {
                    check(x);
                    Ok(())
                });
            }
        }
    )*};
}

unary_rows! { unary_tests }

/// Value and both derivatives of a function of two variables, by a tape.
fn two_by_tape(f: fn(Var<'_, f64>, Var<'_, f64>) -> f64, a: f64, b: f64) -> [f64; 3] {
    let tape = Tape::new();
    let (a, b) = (tape.var(a), tape.var(b));
    [f(a, b), a.grad().unwrap(), b.grad().unwrap()]
}

macro_rules! binary_tests {
    ($($(#[$doc:meta])* $name:ident { $([$($operator:tt)*])? value: $value:expr, partials: $partials:expr, domain: ($first:expr, $second:expr), $($row:tt)* })*) => {$(
        mod $name {
            use super::*;

            fn check(a: f64, b: f64) {
                fn value<S: Scalar>(a: S, b: S) -> S {
                    a.$name(b)
                }
                let recorded = |a: Var<'_, f64>, b: Var<'_, f64>| {
                    let y = value(a, b);
                    y.backward().unwrap();
                    y.value()
                };
                let [y, to_a, to_b] = two_by_tape(recorded, a, b);
                let by_a = value(Dual::variable(a), Dual::new(b, 0.0));
                let by_b = value(Dual::new(a, 0.0), Dual::variable(b));
                assert_eq!((by_a.value.to_bits(), by_b.value.to_bits()), (y.to_bits(), y.to_bits()));
                assert_near(by_a.tangent, to_a, "by the first");
                assert_near(by_b.tangent, to_b, "by the second");
            }

            #[test]
            fn at_chosen_points() {
                for a in inside(&$first) {
                    inside(&$second).for_each(|b| check(a, b));
                }
            }

            #[test]
            fn at_random_points() {
                at_random(($first, $second), &|(a, b)| {
                    check(a, b);
                    Ok(())
                });
            }
        }
    )*};
}

binary_rows! { binary_tests }
operator_rows! { binary_tests }

/// The derivative of `f` at `x` along `direction`, by differences.
fn difference(f: impl Fn(&[f64]) -> f64, x: &[f64], direction: &[f64]) -> f64 {
    five_point(1e-4, |h| {
        let moved: Vec<f64> = x.iter().zip(direction).map(|(x, d)| x + h * d).collect();
        f(&moved)
    })
}

fn duals(x: &[f64], direction: &[f64]) -> Vec<Dual<f64>> {
    let pairs = x.iter().zip(direction);
    pairs.map(|(&x, &d)| Dual::new(x, d)).collect()
}

fn lists(max: usize) -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    prop::collection::vec((-3.0..3.0, -1.0..1.0), 1..max)
        .prop_map(|pairs| pairs.into_iter().unzip())
}

macro_rules! reduction_tests {
    ($($(#[$doc:meta])* $name:ident { domain: $domain:expr })*) => {$(
        mod $name {
            use super::*;

            fn value<S: Scalar>(xs: &[S]) -> S {
                S::$name(xs)
            }

            #[test]
            fn at_random_points() {
                at_random(lists(300), &|(x, direction)| {
                    let y = value(&duals(&x, &direction));
                    prop_assert_eq!(y.value.to_bits(), value(&x).to_bits());
                    let formula: for<'t> fn(&[Var<'t, f64>]) -> Var<'t, f64> = |x| value(x);
                    let (_, gradient) = crate::value_and_grad(formula, &x).unwrap();
                    let expected: f64 = gradient.iter().zip(&direction).map(|(g, d)| g * d).sum();
                    let size: f64 = gradient.iter().zip(&direction).map(|(g, d)| (g * d).abs()).sum();
                    prop_assert!((y.tangent - expected).abs() <= 1e-11 * size + 1e-12, "{} {}", y.tangent, expected);
                    Ok(())
                });
            }

            #[test]
            fn twice_along_two_directions() {
                at_random((lists(8), prop::collection::vec(-1.0..1.0, 8)), &|((x, direction), other)| {
                    prop_assume!(f64::norm(&x) > 0.1);
                    let twice: Vec<_> = x.iter().zip(&direction).zip(&other)
                        .map(|((&x, &d), &e)| Dual::new(Dual::new(x, d), Dual::new(e, 0.0))).collect();
                    let expected = difference(|x| value(&duals(x, &direction)).tangent, &x, &other[..x.len()]);
                    let found = value(&twice).tangent.tangent;
                    prop_assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{found} {expected}");
                    Ok(())
                });
            }

            #[test]
            fn of_nothing_is_what_plain_numbers_give() {
                let (dual, plain) = (value::<Dual<f64>>(&[]), value::<f64>(&[]));
                assert_near(dual.value, plain, "value");
                assert!(dual.tangent == 0.0 || plain.is_nan());
            }
        }
    )*};
}

reduction_rows! { reduction_tests }

proptest! {
    #[test]
    fn products_of_lists((x, direction) in lists(300)) {
        let n = x.len() / 2;
        let dot = |x: &[f64]| f64::dot_bias(&x[..n], &x[n..2 * n], x[0]);
        let xs = duals(&x, &direction);
        let y = Dual::dot_bias(&xs[..n], &xs[n..2 * n], xs[0]);
        prop_assert_eq!(y.value.to_bits(), dot(&x).to_bits());
        prop_assert!((y.tangent - difference(dot, &x, &direction)).abs() < 1e-8);
        prop_assert_eq!(Dual::dot(&xs[..n], &xs[n..2 * n]) + xs[0], y);
    }

    #[test]
    fn softmax((x, direction) in lists(20)) {
        let mut found = duals(&x, &direction);
        Dual::softmax(&duals(&x, &direction), &mut found);
        let plain = |x: &[f64], i: usize| {
            let mut out = x.to_vec();
            Scalar::softmax(x, &mut out);
            out[i]
        };
        for (i, y) in found.iter().enumerate() {
            prop_assert_eq!(y.value.to_bits(), plain(&x, i).to_bits());
            prop_assert!((y.tangent - difference(|x| plain(x, i), &x, &direction)).abs() < 1e-8);
        }
    }

    #[test]
    fn powers_with_plain_exponents(x in -3.0..3.0, n in -4..5, c in -4.0..4.0) {
        let by_tape = |f: &dyn for<'t> Fn(Var<'t, f64>) -> Var<'t, f64>| crate::value_and_grad(|x| f(x[0]), &[x]).unwrap().1[0];
        assert_near(Dual::variable(x).powi(n).tangent, by_tape(&|x| x.powi(n)), "powi");
        assert_near(Dual::variable(x).powf(c).tangent, by_tape(&|x| x.powf(c)), "powf");
    }
}

#[test]
fn a_wrong_tangent_is_noticed() {
    let wrong_relu = |x: Dual<f64>| x.custom(x.value.max(0.0), x.value.max(0.0));
    let right = |x: f64| Dual::variable(x).relu().tangent;
    assert!(near(wrong_relu(Dual::variable(1.0)).tangent, right(1.0)));
    assert!(!near(wrong_relu(Dual::variable(2.0)).tangent, right(2.0)));
    assert!(
        !near(f64::NAN, 0.0) && !near(0.0, f64::NAN) && !near(f64::INFINITY, f64::NEG_INFINITY)
    );
}

/// Constants stay out of the way, and a tape under the dual numbers is told of lists that do not fit.
#[test]
fn dual_numbers_over_a_tape() {
    let tape = Tape::new();
    let x = Dual::variable(tape.var(2.0));
    let y = x.cube() * 0.5 + x.constant_like(0.0).sqrt();
    y.tangent.backward().unwrap();
    assert_eq!((y.tangent.value(), x.value.grad()), (6.0, Ok(6.0))); // 1.5x², 3x
    let mut out = [x; 2];
    Scalar::softmax(&[x], &mut out);
    assert!(
        out.iter()
            .all(|y| y.value.value().is_nan() && y.tangent.value().is_nan())
    );
    let mismatch = crate::Error::LengthMismatch {
        op: "softmax",
        expected: 1,
        found: 2,
    };
    assert_eq!(tape.check(), Err(mismatch));
}

#[test]
fn choices_carry_both_parts() {
    let (a, b) = (Dual::new(3.0, 5.0), Dual::new(2.0, 7.0));
    assert_eq!((a.max(b), a.min(b), (-a).select(a, b)), (a, b, b));
    assert_eq!(a.at_least(b), Dual::new(1.0, 0.0));
    assert_eq!(a.stop_gradient(), Dual::new(3.0, 0.0));
    assert_eq!((a.primal(), a.all_positive()), (3.0, Some(true)));
    assert!(Dual::new(0.0, 0.0).is_zero() && !Dual::new(0.0, 1.0).is_zero());
}

#[test]
fn a_product_with_zero_is_dead_part_by_part() {
    let infinite = Dual::new(f64::INFINITY, f64::NAN);
    assert_eq!(infinite.chain(Dual::new(0.0, 0.0)), Dual::new(0.0, 0.0));
    let moving_zero = infinite.chain(Dual::new(0.0, 1.0));
    assert_eq!(moving_zero, Dual::new(0.0, f64::INFINITY));
    assert_eq!(
        Dual::new(0.0, 2.0)
            .chain_forward(Dual::new(f64::INFINITY, 0.0))
            .value,
        0.0
    );
}
