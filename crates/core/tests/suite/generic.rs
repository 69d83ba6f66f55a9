//! Formulas written once over `Scalar` or `Float` compile and agree on all types.

use burtorch_core::graph::Graph;
use burtorch_core::lanes::Lanes;
use burtorch_core::{
    Dual, Error, Float, Program, Scalar, StackTape, Tape, Var, jvp, value_and_grad,
};

fn formula<S: Scalar>(x: S, y: S) -> S {
    let two = S::Primal::from_f64(2.0);
    let mut z = x * y + x / two - y.exp() * two;
    z += x.square();
    z *= two;
    z -= S::sum(&[x, y, z]);
    z / (y.square() + S::Primal::ONE)
}

fn float_formula<F: Float>(x: F, y: F) -> F {
    let mut z = x * y + x / F::from_f64(2.0) - y.exp();
    z += F::ONE;
    if z > F::ZERO { z.max(x) } else { -z }
}

fn on_a_tape_of<F: Float>(x: F, y: F) -> Vec<F> {
    let tape = Tape::new();
    let (x, y) = (tape.var(x), tape.var(y));
    let z: Var<'_, F> = x * F::from_f64(3.0) + y - F::ONE + formula(x, y);
    z.backward().unwrap();
    vec![z.value(), x.grad().unwrap(), y.grad().unwrap()]
}

#[test]
fn one_formula_gives_one_value() {
    let direct = formula(1.5, -0.5);
    let (recorded, gradient) = value_and_grad(|x| formula(x[0], x[1]), &[1.5, -0.5]).unwrap();
    assert_eq!(direct, recorded);
    assert_eq!(gradient.len(), 2);
    assert_eq!(
        float_formula(1.0_f32, 2.0),
        -(2.0 + 0.5 - 2.0_f32.exp() + 1.0)
    );
    assert_eq!(
        on_a_tape_of(1.0_f32, 2.0).len(),
        on_a_tape_of(1.0, 2.0).len()
    );
}

#[test]
fn constants_stand_on_either_side() {
    let (value, gradient) = value_and_grad(
        |x| 2.0 * x[0] + 1.0 / x[0] - (3.0 - x[0]) + (1.0 + x[0]) * 0.5,
        &[4.0],
    )
    .unwrap();
    assert_eq!(value, 8.0 + 0.25 + 1.0 + 2.5);
    assert_eq!(gradient, [2.0 - 1.0 / 16.0 + 1.0 + 0.5]);
}

/// A tape whose numbers are variables of another tape differentiates twice.
#[test]
fn a_tape_of_tapes_gives_second_derivatives() {
    let inner = Tape::new();
    let (a, b) = (inner.var(0.7), inner.var(-1.3));
    let outer = Tape::new();
    let (x, y) = (outer.var(a), outer.var(b));
    (x * x * y.sin() + x.exp() * y).backward().unwrap();
    x.grad().unwrap().backward().unwrap();
    assert!((a.grad().unwrap() - (2.0 * (-1.3_f64).sin() + 0.7_f64.exp() * -1.3)).abs() < 1e-14);
    assert!((b.grad().unwrap() - (1.4 * (-1.3_f64).cos() + 0.7_f64.exp())).abs() < 1e-14);
}

/// The gradient of one entry of a softmax, exact near 1 too, by every recorder.
#[test]
fn one_entry_of_a_softmax_by_every_recorder() {
    let xs = [1.0, -2.0, 40.0, 2.0];
    let (value, gradient) = value_and_grad(|x| Scalar::softmax_at(x, 2), &xs).unwrap();
    assert_eq!(value, 1.0);
    let rest = (-39.0_f64).exp() + (-42.0_f64).exp() + (-38.0_f64).exp();
    assert!((gradient[2] - rest).abs() < 1e-15 * rest);

    let near = |found: &[f64]| {
        for (found, expected) in found.iter().zip(&gradient) {
            assert!((found - expected).abs() <= 1e-14 * expected.abs());
        }
    };
    let stack = StackTape::<f64, 16>::new();
    let inputs = xs.map(|x| stack.var(x));
    Scalar::softmax_at(&inputs, 2).backward().unwrap();
    near(&inputs.map(|x| x.grad().unwrap()));

    let graph = Graph::new();
    let inputs = xs.map(|x| graph.var(x));
    Scalar::softmax_at(&inputs, 2).backward().unwrap();
    near(&inputs.map(|x| x.grad().unwrap()));

    let lanes = xs.map(|x| Lanes::from([x, x + 1.0]));
    let (value, of_lanes) = value_and_grad(|x| Scalar::softmax_at(x, 2), &lanes).unwrap();
    assert_eq!(
        (value, Lanes::softmax_at(&lanes, 2)),
        (Lanes::splat(1.0), value)
    );
    let of_lane = |lane: usize| of_lanes.iter().map(|x| x[lane]).collect::<Vec<_>>();
    near(&of_lane(0));
    near(&of_lane(1));

    let direction = [0.5, 1.0, 0.0, -3.0];
    let along: f64 = gradient.iter().zip(direction).map(|(g, d)| g * d).sum();
    let (_, tangent) = jvp(|x| [Dual::softmax_at(x, 2)], &xs, &direction).unwrap();
    assert!((tangent[0] - along).abs() <= 1e-14 * along.abs());

    // A program takes it from the softmax of all, whose slope is wₖ(1 − wₖ).
    let mut program = Program::record(4, |x| Scalar::softmax_at(x, 2))
        .unwrap()
        .evaluator();
    let (value, found) = program.value_and_gradient(&xs).unwrap();
    assert!(value == 1.0 && (found[0] - gradient[0]).abs() < 1e-16);
}

#[test]
fn no_entry_of_a_softmax() {
    let error = |op| Error::LengthMismatch {
        op,
        expected: 4,
        found: 2,
    };
    let missing = value_and_grad(|x| Scalar::softmax_at(x, 3), &[1.0, 2.0]);
    assert_eq!(missing, Err(error("softmax_at")));
    let program = Program::<f64>::record(2, |x| Scalar::softmax_at(x, 3));
    assert_eq!(program.err(), Some(error("softmax")));
    assert!(f64::softmax_at(&[1.0, 2.0], 3).is_nan() && f64::softmax_at(&[], 0).is_nan());
    assert!(Dual::softmax_at(&[Dual::variable(1.0)], 1).value.is_nan());
    let lanes = Lanes::softmax_at(&[Lanes::from([1.0_f32, 2.0])], 1);
    assert!(lanes[0].is_nan() && lanes[1].is_nan());
}
