//! Every row of the table against differences of its value; its partials, which are formulas too, against differences of theirs.

use std::ops::Range;

use proptest::prelude::*;

use super::{binary_rows, operator_rows, partial, reduction_rows, unary_rows};
use crate::check::{GradCheck, five_point};
use crate::random::at_random;
use crate::scalar::Scalar;
use crate::tape::Tape;
use crate::var::Var;

/// Points that random numbers miss: ends, zeros, subnormal numbers, the neighbourhood of zero, saturation, and equal
/// pairs for ops with two arguments.
const POINTS: [f64; 17] = [
    -60.0, -30.0, -10.0, -1.0, -1e-3, -1e-8, -1e-310, -5e-324, 0.0, 5e-324, 1e-310, 1e-8, 1e-3,
    1.0, 10.0, 30.0, 60.0,
];

/// A function of one argument, its derivative, and where it is not smooth.
struct Slice<'a> {
    value: &'a dyn Fn(f64) -> f64,
    slope: f64,
    corners: &'a [f64],
}

impl Slice<'_> {
    /// Whether the slope at `x` agrees with differences; at a corner, whether it lies between the slopes on either side.
    fn agrees_at(&self, x: f64) -> Result<(), String> {
        let value = (self.value)(x);
        if !value.is_finite() {
            return Ok(());
        }
        let distance = self
            .corners
            .iter()
            .map(|corner| (x - corner).abs())
            .fold(1.0, f64::min);
        let (low, high) = if distance == 0.0 {
            let (left, right) = (self.one_sided(x, -1e-9), self.one_sided(x, 1e-9));
            (left.min(right), left.max(right))
        } else {
            let slope = five_point(1e-3 * distance, |offset| (self.value)(x + offset));
            (slope, slope)
        };
        let slack = 1e-8 * low.abs().max(high.abs()) + 1e-9 * value.abs() + 1e-11;
        let unknown = !low.is_finite() || !high.is_finite() || high > 1e4 && distance == 0.0;
        if unknown || (low - slack <= self.slope && self.slope <= high + slack) {
            return Ok(());
        }
        Err(format!(
            "at {x:e}: expected a slope in [{low:e}, {high:e}], found {:e}",
            self.slope
        ))
    }

    fn one_sided(&self, x: f64, h: f64) -> f64 {
        ((self.value)(x + h) - (self.value)(x)) / h
    }
}

fn inside(domain: &Range<f64>) -> impl Iterator<Item = f64> {
    let (low, high) = (domain.start, domain.end);
    POINTS
        .into_iter()
        .chain([low, high])
        .filter(move |x| (low..=high).contains(x))
}

/// f32 and f64 do the same, as far as an f32 can.
fn close(x: f32, y: f64) -> bool {
    let y = y as f32;
    x == y || x.is_nan() && y.is_nan() || (x - y).abs() <= 2e-4 * y.abs() + 1e-6
}

macro_rules! unary_tests {
    ($($(#[$doc:meta])* $name:ident { value: $value:expr, partial: $partial:expr, domain: $domain:expr, corners: $corners:tt })*) => {$(
        mod $name {
            use super::*;

            const DOMAIN: Range<f64> = $domain;
            const CORNERS: &[f64] = &$corners;

            fn value<S: Scalar>(x: S) -> S {
                x.$name()
            }

            fn slope<S: Scalar>(x: S) -> S {
                partial::$name(x, value(x))
            }

            fn check(x: f64) -> Result<(), String> {
                Slice { value: &value, slope: slope(x), corners: CORNERS }.agrees_at(x)?;
                let tape = Tape::new();
                let variable = tape.var(x);
                slope(variable).backward().unwrap();
                Slice { value: &slope, slope: variable.grad().unwrap(), corners: CORNERS }.agrees_at(x)?;
                let recorded = value(variable).value();
                prop_assert_same(recorded, value(x))?;
                let single = x as f32;
                let (found, expected) = ((value(single), slope(single)), (value(f64::from(single)), slope(f64::from(single))));
                if close(found.0, expected.0) && close(found.1, expected.1) { Ok(()) } else {
                    Err(format!("at {x:e}: f32 gives {found:?}, f64 {expected:?}"))
                }
            }

            #[test]
            fn at_chosen_points() {
                inside(&DOMAIN).try_for_each(check).unwrap();
            }

            #[test]
            fn at_random_points() {
                at_random(DOMAIN, &|x| check(x).map_err(TestCaseError::fail));
            }
        }
    )*};
}

fn prop_assert_same(found: f64, expected: f64) -> Result<(), String> {
    let same = found == expected || found.is_nan() && expected.is_nan();
    if same {
        Ok(())
    } else {
        Err(format!(
            "the tape gives {found:e}, plain numbers {expected:e}"
        ))
    }
}

unary_rows! { unary_tests }

macro_rules! binary_tests {
    ($($(#[$doc:meta])* $name:ident {
        $([$($operator:tt)*])? value: |$a:ident, $b:ident| $value:expr, partials: $partials:expr,
        domain: ($first:expr, $second:expr), corners: ($corners_a:tt, $corners_b:tt)
    })*) => {$(
        mod $name {
            use super::*;

            fn value<S: Scalar>(a: S, b: S) -> S {
                a.$name(b)
            }

            fn slopes<S: Scalar>(a: S, b: S) -> (S, S) {
                partial::$name(a, b, value(a, b))
            }

            fn check(a: f64, b: f64) -> Result<(), String> {
                let by_tape = |f: fn(Var<'_, f64>, Var<'_, f64>) -> (f64, f64)| {
                    let tape = Tape::new();
                    f(tape.var(a), tape.var(b))
                };
                let (to_a, to_b) = by_tape(|a, b| {
                    value(a, b).backward().unwrap();
                    (a.grad().unwrap(), b.grad().unwrap())
                });
                Slice { value: &|x| value(x, b), slope: to_a, corners: &$corners_a }.agrees_at(a)?;
                Slice { value: &|x| value(a, x), slope: to_b, corners: &$corners_b }.agrees_at(b)?;
                let (to_aa, to_ab) = by_tape(|a, b| {
                    slopes(a, b).0.backward().unwrap();
                    (a.grad().unwrap(), b.grad().unwrap())
                });
                Slice { value: &|x| slopes(x, b).0, slope: to_aa, corners: &$corners_a }.agrees_at(a)?;
                Slice { value: &|x| slopes(a, x).0, slope: to_ab, corners: &$corners_b }.agrees_at(b)
            }

            #[test]
            fn at_chosen_points() {
                let pairs = inside(&$first).flat_map(|a| inside(&$second).map(move |b| (a, b)));
                pairs.into_iter().try_for_each(|(a, b)| check(a, b).map_err(|e| format!("({a:e}, {b:e}): {e}"))).unwrap();
            }

            #[test]
            fn at_random_points() {
                at_random(($first, $second), &|(a, b)| check(a, b).map_err(TestCaseError::fail));
            }
        }
    )*};
}

binary_rows! { binary_tests }
operator_rows! { binary_tests }

/// A function on a tape, of one type for all rows: what takes a function is compiled for each type anew.
type Formula = for<'t> fn(&[Var<'t, f64>]) -> Var<'t, f64>;

fn check_gradient(check: GradCheck, formula: Formula, xs: &[f64]) -> Result<(), TestCaseError> {
    let report = check.run(formula, xs);
    report
        .map(|_| ())
        .map_err(|error| TestCaseError::fail(error.to_string()))
}

/// Values that are not nodes.
fn sines<'t>(x: &[Var<'t, f64>]) -> Vec<Var<'t, f64>> {
    x.iter().map(|x| x.sin() * 2.0).collect()
}

macro_rules! reduction_tests {
    ($($(#[$doc:meta])* $name:ident { domain: $domain:expr })*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn at_random_points() {
                at_random(prop::collection::vec($domain, 1..8), &|xs| {
                    check_gradient(GradCheck { step: 1e-3, tolerance: 1e-7 }, |x| Scalar::$name(x), &xs)?;
                    let tape = Tape::new();
                    prop_assert_eq!(Var::$name(&tape.vars(&xs)).value(), <f64 as Scalar>::$name(&xs));
                    Ok(())
                });
            }

            #[test]
            fn of_values_that_are_not_nodes() {
                at_random(prop::collection::vec(0.1..3.0, 1..8), &|xs| {
                    check_gradient(GradCheck::default(), |x| Scalar::$name(&sines(x)), &xs)
                });
            }

            #[test]
            fn twice_at_random_points() {
                at_random(prop::collection::vec(-3.0..3.0, 1..5), &|xs| {
                    second_derivatives_are_right(&xs).map_err(TestCaseError::fail)
                });
            }

            /// The gradient taken on a tape of a tape, and its own gradient by differences.
            fn second_derivatives_are_right(xs: &[f64]) -> Result<(), String> {
                let formula: Formula = |x| Scalar::$name(x);
                let gradient = |xs: &[f64]| crate::value_and_grad(formula, xs).unwrap().1;
                let inner = Tape::new();
                let inputs = inner.vars(xs);
                let outer = Tape::new();
                let variables = outer.vars(&inputs);
                Var::$name(&variables).backward().unwrap();
                variables[0].grad().unwrap().backward().unwrap();
                for (i, input) in inputs.iter().enumerate() {
                    let expected = five_point(1e-4, |offset| {
                        let mut moved = xs.to_vec();
                        moved[i] += offset;
                        gradient(&moved)[0]
                    });
                    let found = input.grad().unwrap();
                    let norm = xs.iter().map(|x| x * x).sum::<f64>().sqrt();
                    if norm > 0.1 && (found - expected).abs() > 1e-6 * expected.abs().max(1.0) {
                        return Err(format!("{xs:?}, coordinate {i}: expected {expected:e}, found {found:e}"));
                    }
                }
                Ok(())
            }
        }
    )*};
}

reduction_rows! { reduction_tests }

proptest! {
    #[test]
    fn dot_products(xs in prop::collection::vec(-60.0..60.0, 1..8)) {
        let n = (xs.len() - 1) / 2;
        let check = GradCheck { step: 1e-3, tolerance: 1e-7 };
        let right = |report: Result<_, crate::Error>| report.map_err(|error| TestCaseError::fail(error.to_string()));
        right(check.run(|x| Scalar::dot(&x[..n], &x[n..2 * n]), &xs))?;
        right(check.run(|x| Scalar::dot_bias(&x[..n], &x[n..2 * n], x[2 * n]), &xs))?;
    }

    #[test]
    fn softmax_components(xs in prop::collection::vec(-30.0..30.0, 1..8), upstream in prop::collection::vec(-2.0..2.0, 8)) {
        let tape = Tape::new();
        let inputs = tape.vars(&xs);
        let mut out = inputs.clone();
        Scalar::softmax(&inputs, &mut out);
        tape.backward(&out, &upstream[..xs.len()]).unwrap();
        let mut plain = xs.clone();
        Scalar::softmax(&xs, &mut plain);
        prop_assert_eq!(out.iter().map(|p| p.value()).collect::<Vec<_>>(), plain.clone());
        let mean: f64 = plain.iter().zip(&upstream).map(|(p, u)| p * u).sum();
        for ((input, p), u) in inputs.iter().zip(&plain).zip(&upstream) {
            prop_assert!((input.grad().unwrap() - p * (u - mean)).abs() < 1e-12);
        }
    }

    #[test]
    fn one_entry_of_a_softmax(xs in prop::collection::vec(-6.0..6.0, 1..12), k in 0_usize..12) {
        let k = k % xs.len();
        let mut all = xs.clone();
        Scalar::softmax(&xs, &mut all);
        prop_assert_eq!(f64::softmax_at(&xs, k), all[k]);
        let (value, gradient) = crate::value_and_grad(|x| Scalar::softmax_at(x, k), &xs).unwrap();
        prop_assert_eq!(value, all[k]);
        for (i, (slope, share)) in gradient.iter().zip(&all).enumerate() {
            let others: f64 = all.iter().enumerate().filter(|&(j, _)| j != k).map(|(_, p)| p).sum();
            let expected = if i == k { value * others } else { -value * share };
            prop_assert!((slope - expected).abs() <= 1e-14 * expected.abs());
        }
    }
}

/// The second derivatives of an entry, on a tape of a tape, are those of the same entry of all.
#[test]
fn one_entry_of_a_softmax_twice() {
    let xs = [0.3, -1.2, 2.0, 0.7, 0.1];
    macro_rules! second {
        (|$x:ident| $entry:expr) => {{
            let inner = Tape::new();
            let inputs = inner.vars(&xs);
            let outer = Tape::new();
            let $x = outer.vars(&inputs);
            let y = $entry;
            y.backward().unwrap();
            $x[1].grad().unwrap().backward().unwrap();
            inputs.iter().map(|x| x.grad().unwrap()).collect::<Vec<_>>()
        }};
    }
    let found = second!(|x| Scalar::softmax_at(&x, 2));
    let expected = second!(|x| {
        let mut all = x.clone();
        Scalar::softmax(&x, &mut all);
        all[2]
    });
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-15, "{found} {expected}");
    }
    assert!(found[1].abs() > 1e-3);
}

#[test]
fn a_wrong_slope_is_noticed() {
    let relu = |x: f64| x.max(0.0);
    let wrong = |x: f64| {
        Slice {
            value: &relu,
            slope: relu(x),
            corners: &[0.0],
        }
        .agrees_at(x)
    };
    assert!(wrong(1.0).is_ok());
    assert!(wrong(2.0).is_err());
    assert!(
        Slice {
            value: &relu,
            slope: 1.5,
            corners: &[0.0]
        }
        .agrees_at(0.0)
        .is_err()
    );
}

#[test]
fn powers_with_plain_exponents() {
    for x in [-2.5, -1.0, -1e-3, 0.5, 1.0, 3.0] {
        for n in [i32::MIN, -3, -1, 0, 1, 2, 7] {
            let slope = partial::powi(x, x.powi(n), n);
            Slice {
                value: &|x: f64| x.powi(n),
                slope,
                corners: &[0.0],
            }
            .agrees_at(x)
            .unwrap();
        }
        for c in [-2.5, -1.0, 0.0, 0.5, 1.0, 2.0, 3.3] {
            Slice {
                value: &|x: f64| x.powf(c),
                slope: partial::powf(x, c),
                corners: &[0.0],
            }
            .agrees_at(x)
            .unwrap();
        }
    }
}
