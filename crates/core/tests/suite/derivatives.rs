//! `jvp`, `jacobian`, `hvp` and `hessian` against differences and against nested tapes.

use burtorch_core::{
    Dual, Error, Float, Scalar, Tape, hessian, hvp, jacobian, jacobian_forward, jvp, value_and_grad,
};
use proptest::prelude::*;

/// A smooth function in which every kind of op has a part.
fn loss<S: Scalar>(x: &[S]) -> S {
    let mut shares = [x[0]; 4];
    S::softmax(x, &mut shares);
    let hidden = S::dot_bias(x, &shares, x[1]).tanh() / (x[2].square() + S::Primal::ONE);
    let curved =
        (hidden.exp() - x[3].sigmoid()).softplus() * S::variance(x) + S::logsumexp(x).sin();
    curved * S::Primal::from_f64(0.5) + x[0].square().pow(shares[2]) - S::product(x)
}

fn residuals<S: Scalar>(x: &[S]) -> [S; 3] {
    [
        loss(x),
        x[0] * x[3] - x[1],
        S::norm(&[x[2], x[3], S::constant(S::Primal::ONE)]),
    ]
}

fn gradient(x: &[f64]) -> Vec<f64> {
    value_and_grad(|x| loss(x), x).unwrap().1
}

/// Second derivatives by a tape of tape variables.
fn hessian_by_tapes(x: &[f64]) -> Vec<Vec<f64>> {
    let row = |i: usize| {
        let inner = Tape::new();
        let inputs = inner.vars(x);
        let outer = Tape::new();
        let variables = outer.vars(&inputs);
        loss(&variables).backward().unwrap();
        variables[i].grad().unwrap().backward().unwrap();
        inputs.iter().map(|x| x.grad().unwrap()).collect()
    };
    (0..x.len()).map(row).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// How both a function's results change along a direction, by differences of order h⁴.
fn differences(f: impl Fn(&[f64]) -> Vec<f64>, x: &[f64], direction: &[f64]) -> Vec<f64> {
    let h = 1e-3;
    let at = |steps: f64| {
        let moved: Vec<f64> = x
            .iter()
            .zip(direction)
            .map(|(x, d)| x + steps * h * d)
            .collect();
        f(&moved)
    };
    let (near, far) = ([at(-1.0), at(1.0)], [at(-2.0), at(2.0)]);
    let slope = |i: usize| (8.0 * (near[1][i] - near[0][i]) - (far[1][i] - far[0][i])) / (12.0 * h);
    (0..near[0].len()).map(slope).collect()
}

fn close(found: &[f64], expected: &[f64], tolerance: f64) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let slack = tolerance * expected.abs().max(1.0);
        prop_assert!(
            (found - expected).abs() <= slack,
            "expected {}, found {}",
            expected,
            found
        );
    }
    Ok(())
}

fn point() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.2..1.5, 4)
}

fn directions() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1.0..1.0, 4)
}

proptest! {
    #[test]
    fn a_jvp_is_the_jacobian_times_the_direction(x in point(), d in directions()) {
        let (values, slopes) = jvp(residuals, &x, &d).unwrap();
        prop_assert_eq!(&values, &residuals(&x).to_vec());
        close(&slopes, &differences(|x| residuals(x).to_vec(), &x, &d), 1e-7)?;
        let rows = jacobian(|x| residuals(x).to_vec(), &x).unwrap();
        close(&slopes, &rows.iter().map(|row| dot(row, &d)).collect::<Vec<_>>(), 1e-12)?;
    }

    #[test]
    fn both_jacobians_agree(x in point()) {
        let backward = jacobian(|x| residuals(x).to_vec(), &x).unwrap();
        let forward = jacobian_forward(residuals, &x).unwrap();
        close(&forward.concat(), &backward.concat(), 1e-12)?;
        close(&backward[0], &gradient(&x), 1e-15)?;
    }

    #[test]
    fn an_hvp_is_the_hessian_times_the_direction(x in point(), d in directions()) {
        let found = hvp(|x| loss(x), &x, &d).unwrap();
        prop_assert_eq!(found.value, loss(&x));
        prop_assert_eq!(&found.gradient, &gradient(&x));
        close(&found.product, &differences(gradient, &x, &d), 1e-7)?;
        let by_tapes: Vec<f64> = hessian_by_tapes(&x).iter().map(|row| dot(row, &d)).collect();
        close(&found.product, &by_tapes, 1e-11)?;
    }

    #[test]
    fn a_hessian_is_that_of_nested_tapes(x in point()) {
        let found = hessian(|x| loss(x), &x).unwrap();
        prop_assert_eq!(found.value, loss(&x));
        prop_assert_eq!(&found.gradient, &gradient(&x));
        let by_tapes = hessian_by_tapes(&x);
        close(&found.hessian.concat(), &by_tapes.concat(), 1e-11)?;
        for i in 0..x.len() {
            for j in 0..i {
                close(&[found.hessian[i][j]], &[found.hessian[j][i]], 1e-12)?;
            }
        }
    }

    /// Third derivatives: dual numbers over dual numbers on a tape.
    #[test]
    fn hessians_along_a_direction(x in point(), d in directions()) {
        let moving: Vec<_> = x.iter().zip(&d).map(|(&x, &d)| Dual::new(x, d)).collect();
        let found = hessian(|x| loss(x), &moving).unwrap().hessian.concat();
        let expected = differences(|x| hessian(|x| loss(x), x).unwrap().hessian.concat(), &x, &d);
        close(&found.iter().map(|h| h.tangent).collect::<Vec<_>>(), &expected, 1e-6)?;
    }
}

#[test]
fn wrong_results_would_be_noticed() {
    let x = [0.3, 0.8, 1.2, 0.5];
    let right = jvp(residuals, &x, &[1.0, 0.0, 0.0, 0.0]).unwrap().1;
    let other = differences(|x| residuals(x).to_vec(), &x, &[0.0, 1.0, 0.0, 0.0]);
    assert!(close(&right, &other, 1e-3).is_err());
    assert!(close(&[f64::NAN], &[1.0], 1e-3).is_err());
}

#[test]
fn single_precision_and_no_inputs() {
    let found = hvp(|x| x[0].cube(), &[2.0_f32], &[1.0]).unwrap();
    assert_eq!(
        (found.value, found.gradient, found.product),
        (8.0, vec![12.0], vec![12.0])
    );
    let empty = hessian(|_| Scalar::constant(3.0), &[] as &[f64]).unwrap();
    assert_eq!(
        (empty.value, empty.gradient, empty.hessian),
        (3.0, vec![], Vec::<Vec<f64>>::new())
    );
    assert_eq!(
        jacobian_forward(|_| [Dual::constant(1.0); 2], &[] as &[f64]),
        Ok(vec![vec![]; 2])
    );
    assert_eq!(jacobian(|_| vec![], &[1.0]), Ok(vec![]));
}

#[test]
fn detached_values_stay_detached_in_second_derivatives() {
    let f = |x: f64| hvp(|x| x[0] * x[0].stop_gradient(), &[x], &[1.0]).unwrap();
    assert_eq!((f(3.0).gradient, f(3.0).product), (vec![3.0], vec![0.0]));
    let inner = Tape::new();
    let input = inner.var(3.0);
    let outer = Tape::new();
    let x = outer.var(input);
    (x * x.stop_gradient()).backward().unwrap();
    x.grad().unwrap().backward().unwrap();
    assert_eq!(input.grad(), Ok(0.0));
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let mismatch = |op, expected, found| Error::LengthMismatch {
        op,
        expected,
        found,
    };
    assert_eq!(
        jvp(|x| [x[0]], &[1.0, 2.0], &[1.0]),
        Err(mismatch("jvp", 2, 1))
    );
    assert_eq!(hvp(|x| x[0], &[1.0], &[1.0; 3]), Err(mismatch("hvp", 1, 3)));
    let dot = hessian(|x| Scalar::dot(x, &x[..1]), &[1.0, 2.0]);
    assert_eq!(dot, Err(mismatch("dot", 2, 1)));
    let calls = std::cell::Cell::new(0);
    let changing = |x: &[Dual<f64>]| {
        calls.set(calls.get() + 1);
        vec![x[0]; calls.get()]
    };
    assert_eq!(
        jacobian_forward(changing, &[1.0]),
        Err(mismatch("jacobian_forward", 1, 2))
    );
}
