//! Programs of random ops against the same ops on plain numbers and on the tape.

use proptest::prelude::*;

use super::op::{
    Op, Shape, table, table_with_binary, table_with_operators, table_with_reductions,
    table_with_unary,
};
use super::plan::Plan;
use super::{Evaluator, Program, Symbol};
use crate::error::Error;
use crate::lanes::{Lanes, Level};
use crate::scalar::Scalar;
use crate::tape::Tape;
use crate::var::Var;

/// One op on values picked from those before it.
#[derive(Clone, Debug)]
struct Pick {
    op: usize,
    arguments: Vec<usize>,
    number: i32,
}

/// Ops that grow so fast that their sizes, not their rules, would be tested.
const STEEP: [Op; 3] = [Op::exp, Op::exp_m1, Op::pow];

fn pick() -> impl Strategy<Value = Pick> {
    (
        0..Op::ALL.len(),
        prop::collection::vec(0_usize..1000, 1..6),
        -2..4,
    )
        .prop_map(|(op, arguments, number)| Pick {
            op,
            arguments,
            number,
        })
}

/// Inputs on both sides of every kink and on it, and equal ones.
fn input() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(1.0),
        Just(-1.0),
        Just(2.0),
        -3.0..3.0,
        0.1..3.0
    ]
}

macro_rules! apply {
    (
        unary { $($(#[$unary_doc:meta])* $unary:ident { $($unary_row:tt)* })* }
        binary { $($(#[$binary_doc:meta])* $binary:ident { $($binary_row:tt)* })* }
        operator { $($operator:ident { [$trait:ident $symbol:tt $($names:ident)*] $($operator_row:tt)* })* }
        reduction { $($(#[$reduction_doc:meta])* $reduction:ident { $($reduction_row:tt)* })* }
    ) => {
        /// The results of an op; `xs` are at least three.
        fn apply<S: Scalar>(op: Op, xs: &[S], number: i32) -> Vec<S> {
            let power = <S::Primal as crate::Float>::from_f64(f64::from(number));
            vec![match op {
                $(Op::$unary => xs[0].$unary(),)*
                $(Op::$binary => xs[0].$binary(xs[1]),)*
                $(Op::$operator => xs[0] $symbol xs[1],)*
                $(Op::$reduction => S::$reduction(xs),)*
                Op::neg => -xs[0],
                Op::stop_gradient => xs[0].stop_gradient(),
                Op::powi => xs[0].powi(number),
                Op::powf => xs[0].powf(power),
                Op::at_least => xs[0].at_least(xs[1]),
                Op::select => xs[0].select(xs[1], xs[2]).max(xs[0]).min(xs[1]),
                Op::dot => S::dot(&xs[..2], &xs[1..3]),
                Op::dot_bias => S::dot_bias(&xs[..2], &xs[1..3], xs[0]),
                Op::softmax => {
                    let mut out = xs.to_vec();
                    S::softmax(xs, &mut out);
                    return out;
                }
            }]
        }
    };
}

table! { apply }

/// All values of a random computation, the inputs first. A constant is among them.
fn compute<S: Scalar>(picks: &[Pick], inputs: &[S]) -> Vec<S> {
    let mut values = inputs.to_vec();
    values.push(crate::ops::constant(1.5));
    for pick in picks {
        let mut xs: Vec<S> = pick
            .arguments
            .iter()
            .map(|at| values[at % values.len()])
            .collect();
        while xs.len() < 3 {
            xs.push(values[(xs.len() * 7 + pick.arguments[0]) % values.len()]);
        }
        let op = Op::ALL[pick.op];
        if STEEP.contains(&op) {
            xs = xs.into_iter().map(|x| x.tanh()).collect();
        }
        values.extend(apply(op, &xs, pick.number));
    }
    values
}

/// The sum of all values, so that every one of them has a gradient.
fn total<S: Scalar>(picks: &[Pick], inputs: &[S]) -> S {
    S::sum(&compute(picks, inputs))
}

fn agree(found: f64, expected: f64, scale: f64) -> bool {
    (found - expected).abs() <= 1e-9 * scale.max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_program_is_the_function(
        picks in prop::collection::vec(pick(), 1..14),
        points in prop::collection::vec(prop::collection::vec(input(), 3), 4),
        wanted in prop::sample::subsequence(vec![0, 1, 2], 0..=3),
    ) {
        let program = Program::record_many(3, |x| compute(&picks, x)).unwrap();
        let summed = Program::record(3, |x| total(&picks, x)).unwrap();
        let again = Program::<f64>::from_bytes(&summed.to_bytes()).unwrap();
        prop_assert_eq!(again.to_bytes(), summed.to_bytes());
        let mut values = program.evaluator();
        let mut gradients = summed.evaluator();
        let mut some = again.evaluator_for(&wanted).unwrap();
        for point in points {
            let plain = compute(&picks, &point);
            for (found, expected) in values.values(&point).unwrap().iter().zip(&plain) {
                prop_assert!(found == expected || found.is_nan() && expected.is_nan(), "{found} {expected}");
            }
            let tape = Tape::new();
            let inputs = tape.vars(&point);
            let recorded = compute(&picks, &inputs).into_iter().map(Var::retain).collect::<Vec<_>>();
            let y = Var::sum(&recorded);
            y.backward().unwrap();
            let expected: Vec<f64> = inputs.iter().map(|x| x.grad().unwrap()).collect();
            let moderate = |x: &f64| x.abs() < 1e6;
            let steep = recorded.iter().filter_map(|y| y.grad().ok()).any(|x| !moderate(&x));
            if !plain.iter().all(moderate) || !expected.iter().all(moderate) || steep {
                continue;
            }
            let scale = recorded.iter().filter_map(|y| y.grad().ok()).chain(expected.iter().copied()).fold(0.0_f64, |a, b| a.max(b.abs()));
            let (value, gradient) = gradients.value_and_gradient(&point).unwrap();
            prop_assert_eq!(value, y.value());
            for (&found, &expected) in gradient.iter().zip(&expected) {
                prop_assert!(agree(found, expected, scale * 1e3), "{found:e} {expected:e} of {scale:e}");
            }
            let (same, chosen) = some.value_and_gradient(&point).unwrap();
            prop_assert_eq!(same, value);
            for (found, &input) in chosen.iter().zip(&wanted) {
                prop_assert_eq!(*found, gradient[input]);
            }
        }
    }

    #[test]
    fn bytes_that_were_changed_are_errors(
        picks in prop::collection::vec(pick(), 1..8),
        at in any::<prop::sample::Index>(),
        byte in 1..=255_u8,
        repaired in any::<bool>(),
    ) {
        let program = Program::record_many(2, |x: &[Symbol<'_, f64>]| compute(&picks, x)).unwrap();
        let mut bytes = program.to_bytes();
        let at = at.index(bytes.len() - if repaired { 8 } else { 0 });
        bytes[at] ^= byte;
        if repaired {
            super::file::repair(&mut bytes);
        }
        match Program::<f64>::from_bytes(&bytes) {
            Err(error) => {
                let expected = matches!(error, Error::BadProgram { .. });
                prop_assert!(expected, "{error}");
            }
            Ok(changed) => {
                // Another constant, argument or output is a sound program too; it must run.
                prop_assert!(repaired);
                let mut evaluator = changed.evaluator();
                let inputs = vec![0.5; changed.inputs()];
                let seeds = vec![1.0; changed.outputs()];
                evaluator.values_and_gradient(&inputs, &seeds).unwrap();
            }
        }
        for end in 0..bytes.len() {
            prop_assert!(Program::<f64>::from_bytes(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..300), header in any::<bool>()) {
        let mut bytes = bytes;
        if header {
            let program = Program::record(1, |x: &[Symbol<'_, f64>]| x[0].exp()).unwrap().to_bytes();
            bytes.splice(..bytes.len().min(16), program[..16].iter().copied());
            if bytes.len() > 8 {
                super::file::repair(&mut bytes);
            }
        }
        prop_assert!(Program::<f64>::from_bytes(&bytes).is_err());
    }
}

#[test]
fn f22_a_full_program() {
    let grow = |limit, times| {
        Program::record_within(limit, 1, |x: &[Symbol<'_, f64>]| {
            let mut y = x[0] * x[0];
            for _ in 0..times {
                y += x[0];
            }
            vec![y]
        })
    };
    assert!(grow(65_535, 33_000).is_ok());
    let full = Error::ProgramFull { limit: 65_535 };
    assert_eq!(grow(65_535, 70_000).unwrap_err(), full);
    assert!(grow(2, 0).is_ok() && grow(1, 0).is_err() && grow(0, 0).is_err());
    let inputs = Program::<f64>::record(1 << 32, |x| x[0]);
    assert!(matches!(inputs, Err(Error::ProgramFull { .. })));
}

#[test]
fn ops_know_their_names_and_numbers() {
    for (number, op) in Op::ALL.iter().enumerate() {
        assert_eq!(*op as usize, number);
        assert!(op.accepts(match op.shape() {
            Shape::Fixed(count) => count,
            Shape::Many => 2 + usize::from(*op == Op::dot_bias),
        }));
    }
}

#[test]
fn every_level_gives_the_same_bits() {
    fn function<S: Scalar>(x: &[S]) -> S {
        let picks: Vec<Pick> = (0..Op::ALL.len())
            .map(|op| Pick {
                op,
                arguments: vec![op, op + 1, op + 2, op + 3, op + 4],
                number: 2,
            })
            .collect();
        let values = compute(&picks, x);
        S::logsumexp(&values.into_iter().map(Scalar::tanh).collect::<Vec<_>>())
    }
    let program = Program::record(3, |x| function(x)).unwrap();
    let x = [0.3, 0.7, 1.1];
    let mut portable = None;
    for level in Level::available() {
        let mut plain = program.evaluator();
        plain.level = level;
        let mut lanes = Evaluator::<Lanes<f64, 3>>::new(&program);
        lanes.level = level;
        let (value, gradient) = plain.value_and_gradient(&x).unwrap();
        let side_by_side = x.map(|x| Lanes::from([x, x + 0.1, -x]));
        let (values, gradients) = lanes.value_and_gradient(&side_by_side).unwrap();
        assert!(
            agree(values[0], value, 1e-3)
                && gradients
                    .iter()
                    .zip(gradient)
                    .all(|(x, &y)| agree(x[0], y, 1e-3))
        );
        let found = format!("{value:?} {gradient:?} {values:?} {gradients:?}");
        assert_eq!(*portable.get_or_insert(found.clone()), found, "{level:?}");
    }
}

#[test]
fn gradients_share_slots() {
    let program = Program::record(1, |x: &[Symbol<'_, f64>]| {
        (0..1000).fold(x[0], |y, _| (y * x[0]).sin())
    })
    .unwrap();
    assert_eq!(program.len(), 2000);
    assert_eq!(Plan::new(&program.code, &[0]).slots, 2);
    assert_eq!(Plan::new(&program.code, &[]).steps.len(), 0);
}
