//! Formulas written once over `Scalar` or `Float` compile and agree on all types.

use burtorch_core::{Float, Scalar, Tape, Var, value_and_grad};

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
