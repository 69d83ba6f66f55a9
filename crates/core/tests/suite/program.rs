//! Programs: recorded at no point at all, right at every point.
//! Cases with a number are faults that software of this kind is known for; most of them are in `faults_matrix.rs`.

use crate::floats::c;
use burtorch_core::lanes::Lanes;
use burtorch_core::program::{Evaluator, Symbol};
use burtorch_core::{Dual, Error, Float, Program, Scalar, Tape, hvp};

both! {
    f01_softmax_and_logsumexp_do_not_overflow
    f02_masked_rows
    f05_saturation
    f10_powers_whose_exponents_have_no_gradient
    f16_a_gradient_that_is_no_number_does_not_stay
    f18_dead_branches_of_infinite_gradients
    f19_no_inputs
    f23_misuse
    choices_are_made_anew
    looking_at_values_is_an_error
    constants_are_folded
    equal_results_are_computed_once
    what_no_output_needs_is_left_out
    constants_stand_on_either_side
}

fn floats<F: Float>(xs: &[f64]) -> Vec<F> {
    xs.iter().map(|&x| c(x)).collect()
}

/// The evaluator of a function with one output.
fn recorded<F: Float>(
    inputs: usize,
    function: impl for<'p> FnOnce(&[Symbol<'p, F>]) -> Symbol<'p, F>,
) -> Evaluator<F> {
    Program::record(inputs, function).unwrap().evaluator()
}

/// Value and gradient at `x`, as `f64`.
fn at<F: Float>(evaluator: &mut Evaluator<F>, x: &[f64]) -> (f64, Vec<f64>) {
    let (value, gradient) = evaluator.value_and_gradient(&floats(x)).unwrap();
    (
        value.to_f64(),
        gradient.iter().map(|g| g.to_f64()).collect(),
    )
}

/// Equal to a relative 1e-6 or 1e-12, or absolutely below 1; NaN and infinities only to themselves.
#[track_caller]
fn assert_near<F: Float>(found: (f64, Vec<f64>), value: f64, gradient: &[f64]) {
    let tolerance = if F::NAME == "f32" { 1e-6 } else { 1e-12 };
    let near = |found: f64, expected: f64| {
        found == expected
            || found.is_nan() && expected.is_nan()
            || (found - expected).abs() <= tolerance * expected.abs().max(1.0)
    };
    let same = near(found.0, value)
        && found.1.len() == gradient.len()
        && found.1.iter().zip(gradient).all(|(&f, &e)| near(f, e));
    assert!(
        same,
        "expected {value:e} and {gradient:?}, found {found:?} ({})",
        F::NAME
    );
}

fn f01_softmax_and_logsumexp_do_not_overflow<F: Float>() {
    let mut total = recorded::<F>(3, |x| Scalar::logsumexp(x));
    let weights = [0.09003057317038046, 0.24472847105479764, 0.6652409557748219];
    assert_near::<F>(
        at(&mut total, &[1000.0, 1001.0, 1002.0]),
        1002.4076059644443,
        &weights,
    );
    let low = f64::NEG_INFINITY;
    assert_eq!(at(&mut total, &[low; 3]), (low, vec![0.0; 3]));
    let mut second = recorded::<F>(3, |x| {
        let mut out = x.to_vec();
        Scalar::softmax(x, &mut out);
        out[1]
    });
    let p = weights[1];
    let gradient = [-p * weights[0], p - p * p, -p * weights[2]];
    assert_near::<F>(at(&mut second, &[1000.0, 1001.0, 1002.0]), p, &gradient);
}

fn f02_masked_rows<F: Float>() {
    let program = Program::record_many(3, |x: &[Symbol<'_, F>]| {
        let mut out = x.to_vec();
        Scalar::softmax(x, &mut out);
        out
    })
    .unwrap();
    let mut evaluator = program.evaluator();
    let mut run = |x: &[f64]| {
        let (weights, gradient) = evaluator
            .values_and_gradient(&floats(x), &floats(&[1.0, 2.0, 3.0]))
            .unwrap();
        (weights.to_vec(), gradient.to_vec())
    };
    let low = f64::NEG_INFINITY;
    assert_eq!(
        run(&[low, 0.0, 0.0]),
        (floats(&[0.0, 0.5, 0.5]), floats(&[0.0, -0.25, 0.25]))
    );
    assert_eq!(run(&[low; 3]), (floats(&[0.0; 3]), floats(&[0.0; 3])));
}

fn f05_saturation<F: Float>() {
    let mut f = recorded::<F>(3, |x| x[0].sigmoid() + x[1].softplus() + x[2].tanh());
    assert_eq!(
        at(&mut f, &[-1000.0, 100.0, 1e30]),
        (101.0, vec![0.0, 1.0, 0.0])
    );
    assert_eq!(
        at(&mut f, &[1000.0, -1000.0, -1e30]),
        (0.0, vec![0.0, 0.0, 0.0])
    );
    let mut tanh = recorded::<F>(1, |x| x[0].tanh());
    assert!((at(&mut tanh, &[10.0]).1[0] - 8.2446144558e-9).abs() < 1e-14);
}

/// No logarithm of the base is taken.
fn f10_powers_whose_exponents_have_no_gradient<F: Float>() {
    let program = Program::record(2, |x: &[Symbol<'_, F>]| x[0].pow(x[1])).unwrap();
    let mut to_base = program.evaluator_for(&[0]).unwrap();
    assert_near::<F>(at(&mut to_base, &[-2.0, 3.0]), -8.0, &[12.0]);
    assert_near::<F>(at(&mut to_base, &[0.0, 0.5]), 0.0, &[f64::INFINITY]);
}

fn f16_a_gradient_that_is_no_number_does_not_stay<F: Float>() {
    let mut f = recorded::<F>(1, |x| x[0].ln().sqrt());
    assert!(at(&mut f, &[-1.0]).1[0].is_nan());
    assert_near::<F>(
        at(&mut f, &[std::f64::consts::E]),
        1.0,
        &[0.5 / std::f64::consts::E],
    );
}

/// An infinite gradient of a choice does not reach what was not chosen.
fn f18_dead_branches_of_infinite_gradients<F: Float>() {
    let mut chosen = recorded::<F>(2, |x| x[0].select(x[0].constant_like(F::ZERO), x[1]).sqrt());
    assert_eq!(at(&mut chosen, &[1.0, 5.0]), (0.0, vec![0.0; 2]));
}

fn f19_no_inputs<F: Float>() {
    let nothing = Program::<F>::record_many(0, |_| Vec::new()).unwrap();
    let mut evaluator = nothing.evaluator();
    assert_eq!(
        evaluator.values_and_gradient(&[], &[]),
        Ok((&[][..], &[][..]))
    );
}

fn f23_misuse<F: Float>() {
    // Symbols of one recording in another.
    let mut inner = None;
    let outer = Program::<F>::record(1, |x| {
        inner = Program::<F>::record(1, |y| {
            let _ = x[0] + y[0];
            y[0]
        })
        .err();
        x[0]
    });
    let mixed = Error::MixedTapes { op: "add" };
    assert_eq!(inner, Some(mixed.clone()));
    assert_eq!(outer.unwrap_err(), mixed);
    // Lists of different lengths.
    let wrong = Program::<F>::record(3, |x| Scalar::dot(x, &x[..2]));
    assert_eq!(
        wrong.unwrap_err(),
        Error::LengthMismatch {
            op: "dot",
            expected: 3,
            found: 2
        }
    );
    let program = Program::<F>::record(2, |x| x[0] * x[1]).unwrap();
    assert_eq!(
        program.evaluator_for(&[0, 2]).unwrap_err(),
        Error::NoSuchInput {
            input: 2,
            inputs: 2
        }
    );
}

fn choices_are_made_anew<F: Float>() {
    fn formula<S: Scalar>(x: S) -> S {
        let one = S::constant(S::Primal::ONE);
        let chosen = x.select(x.square(), x * S::Primal::from_f64(3.0));
        chosen + x.relu() + x.abs() + x.max(one) * x.min(one) + x.at_least(one) * x
    }
    let mut evaluator = recorded::<F>(1, |x| formula(x[0]));
    for x in [1.0, -1.0, 0.0, 0.5, 2.0, -3.0] {
        let (value, gradient) = at(&mut evaluator, &[x]);
        let tape = Tape::new();
        let variable = tape.var(c::<F>(x));
        let y = formula(variable);
        y.backward().unwrap();
        assert_eq!(value, y.value().to_f64());
        assert_eq!(gradient, [variable.grad().unwrap().to_f64()], "at {x}");
    }
}

fn looking_at_values_is_an_error<F: Float>() {
    let branching = Program::<F>::record(1, |x| {
        if x[0].exp().primal() > F::ONE {
            x[0]
        } else {
            -x[0]
        }
    });
    assert_eq!(branching.unwrap_err(), Error::NoValue { op: "primal" });
    let branching = Program::<F>::record(1, |x| match x[0].all_positive() {
        Some(true) => x[0],
        _ => -x[0],
    });
    assert_eq!(
        branching.unwrap_err(),
        Error::NoValue { op: "all_positive" }
    );
    // What depends on constants only is known.
    let constant = Program::<F>::record(1, |x| {
        let c = x[0].constant_like(c(4.0)).sqrt();
        assert_eq!((c.primal(), c.all_positive()), (self::c(2.0), Some(true)));
        assert!(!x[0].is_zero() && (c - F::from_f64(2.0)).is_zero());
        x[0] * c
    });
    assert!(constant.is_ok());
}

fn constants_are_folded<F: Float>() {
    let program = Program::<F>::record(1, |x| {
        let two = x[0].constant_like(c(2.0));
        let four = Symbol::sum(&[two, two]).max(two).powi(2).powf(c(0.5)) * two / two;
        let one = two.recip() * two;
        let chosen = one.select(x[0], x[0].exp());
        -(-(chosen * one * four / F::ONE))
    })
    .unwrap();
    assert_eq!(program.len(), 1);
    assert_eq!(at(&mut program.evaluator(), &[3.0]), (12.0, vec![4.0]));
}

fn equal_results_are_computed_once<F: Float>() {
    let program = Program::<F>::record(2, |x| {
        let (a, b) = (x[0], x[1]);
        let sums = (a + b) * (b + a);
        let mut weights = [a, b];
        Scalar::softmax(&[a, b], &mut weights);
        let mut again = [a, b];
        Scalar::softmax(&[a, b], &mut again);
        sums * (weights[0] * again[0]) + a.powi(2) * a.powi(2) - a.powi(3) + a.powf(c(2.0))
    })
    .unwrap();
    // a + b, (…)², softmax, its square, their product, a², a⁴, +, a³, −, a^2.0, +
    assert_eq!(program.len(), 12);
    let swapped = Program::<F>::record(2, |x| (x[0] - x[1]) * (x[1] - x[0])).unwrap();
    assert_eq!(swapped.len(), 3);
}

fn what_no_output_needs_is_left_out<F: Float>() {
    let program = Program::<F>::record(2, |x| {
        let unused = x[1].exp().sin() + c::<F>(17.0);
        let _ = unused * x[0];
        let mut weights = [x[0]; 2];
        Scalar::softmax(&[x[1], unused], &mut weights);
        x[0].square()
    })
    .unwrap();
    assert_eq!((program.len(), program.inputs()), (1, 2));
    assert_eq!(
        at(&mut program.evaluator(), &[3.0, 1.0]),
        (9.0, vec![6.0, 0.0])
    );
    let constant = Program::<F>::record(2, |x| x[0].constant_like(F::ONE)).unwrap();
    assert!(constant.is_empty());
}

fn constants_stand_on_either_side<F: Float>() {
    let mut left = recorded::<F>(1, |x| x[0] * c::<F>(2.0) - F::ONE + x[0] / c::<F>(4.0));
    assert_eq!(at(&mut left, &[4.0]), (8.0, vec![2.25]));
    let program = Program::record(1, |x| 2.0 * x[0] + 1.0 / x[0] - (3.0 - x[0])).unwrap();
    let found = at(&mut program.evaluator(), &[4.0]);
    assert_eq!(found, (9.25, vec![3.0 - 1.0 / 16.0]));
}

/// A program evaluated on symbols becomes part of another program.
#[test]
fn a_program_in_a_program() {
    let square_plus = Program::record(2, |x| x[0] * x[0] + x[1]).unwrap();
    let program = Program::record(1, |x| {
        let mut inner = Evaluator::<Symbol<'_, f64>>::new(&square_plus);
        let once = inner.values(&[x[0], x[0]]).unwrap()[0];
        inner.values(&[once, x[0]]).unwrap()[0]
    })
    .unwrap();
    let found = at(&mut program.evaluator(), &[2.0]);
    assert_eq!(found, (38.0, vec![61.0]));
}

/// The gradient on dual numbers carries the product of the Hessian with a direction.
#[test]
fn a_program_on_dual_numbers_gives_hessian_vector_products() {
    fn energy<S: Scalar>(x: &[S]) -> S {
        x[0].cube() * x[1] + Scalar::logsumexp(x)
    }
    let (at, direction) = ([0.5, -1.5], [1.0, 2.0]);
    let program = Program::record(2, |x| energy(x)).unwrap();
    let mut evaluator = Evaluator::<Dual<f64>>::new(&program);
    let x: Vec<_> = (at.iter().zip(direction))
        .map(|(&x, v)| Dual::new(x, v))
        .collect();
    let (_, gradient) = evaluator.value_and_gradient(&x).unwrap();
    let expected = hvp(|x| energy(x), &at, &direction).unwrap();
    for (found, product) in gradient.iter().zip(&expected.product) {
        assert!(
            (found.tangent - product).abs() < 1e-14,
            "{found:?} {product}"
        );
    }
}

/// Every kind of op, on samples on both sides of its kinks.
fn many_ops<S: Scalar>(x: &[S]) -> S {
    let mut weights = x.to_vec();
    S::softmax(x, &mut weights);
    let mut two = [x[0], x[1]];
    S::softmax(&x[..2], &mut two);
    let dots = S::dot_bias(x, &weights, two[1]) + S::norm(x) * S::variance(x);
    let kinks = x[0].max(x[1]).relu() * x[2].abs() + x[3].min(x[4]).select(x[0], x[4].exp());
    dots + kinks
        + (x[0] * x[1]).softplus()
        + S::logsumexp(&[x[3], kinks]).tanh()
        + x[2].at_least(x[1])
}

#[test]
fn samples_agree() {
    let program = Program::record(5, |x| many_ops(x)).unwrap();
    let samples: Vec<f64> = (0..11 * 5)
        .map(|i| f64::from(i * 37 % 23 - 11) / 4.0)
        .collect();
    let mut eight = Evaluator::<Lanes<f64, 8>>::new(&program);
    let (mut values, mut gradients) = (vec![0.0; 11], vec![0.0; 55]);
    eight
        .gradients_of_samples(&samples, &mut values, &mut gradients)
        .unwrap();
    let mut plain = program.evaluator();
    let near = |a: f64, b: f64| (a - b).abs() <= 64.0 * f64::EPSILON * b.abs().max(1.0);
    for (i, sample) in samples.chunks(5).enumerate() {
        let (value, gradient) = plain.value_and_gradient(sample).unwrap();
        assert!(near(values[i], value), "{} {value}", values[i]);
        for (&found, &expected) in gradients[i * 5..].iter().zip(gradient) {
            assert!(near(found, expected), "{found} {expected}");
        }
    }
    // Any number of samples from any one on, bit for bit.
    for (first, count) in [(0, 0), (0, 1), (4, 1), (2, 3), (3, 8), (1, 10)] {
        let (mut some, mut slopes) = (vec![0.0; count], vec![0.0; count * 5]);
        let samples = &samples[first * 5..][..count * 5];
        let expected = (
            &values[first..][..count],
            &gradients[first * 5..][..count * 5],
        );
        eight
            .gradients_of_samples(samples, &mut some, &mut slopes)
            .unwrap();
        assert_eq!((&some[..], &slopes[..]), expected);
        some.fill(0.0);
        eight.values_of_samples(samples, &mut some).unwrap();
        assert_eq!(&some[..], expected.0);
    }
    // Chosen inputs, and lists that do not fit.
    let mut chosen = Evaluator::<Lanes<f64, 8>>::with_gradient_of(&program, &[3, 1]).unwrap();
    let (mut some, mut slopes) = (vec![0.0; 11], vec![0.0; 22]);
    chosen
        .gradients_of_samples(&samples, &mut some, &mut slopes)
        .unwrap();
    assert!((0..11).all(
        |i| slopes[2 * i] == gradients[5 * i + 3] && slopes[2 * i + 1] == gradients[5 * i + 1]
    ));
    assert_eq!(
        chosen.values_of_samples(&samples[1..], &mut some),
        Err(Error::UnevenRows {
            width: 5,
            found: 54
        })
    );
    let wrong = |what, expected, found| {
        Err(Error::WrongCount {
            what,
            expected,
            found,
        })
    };
    assert_eq!(
        chosen.values_of_samples(&samples, &mut slopes),
        wrong("values", 11, 22)
    );
    assert_eq!(
        chosen.gradients_of_samples(&samples, &mut some, &mut gradients),
        wrong("gradients", 22, 55)
    );
}

#[test]
fn files_come_back_and_foreign_ones_do_not() {
    let folder = std::env::temp_dir().join(format!("burtorch-program-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.program");
    let program = Program::record(2, |x| x[0].powf(1.5) * x[1].powi(-2) + 0.1).unwrap();
    program.save(&path).unwrap();
    let loaded = Program::<f64>::load(&path).unwrap();
    assert_eq!(loaded.to_bytes(), program.to_bytes());
    let x = [2.0, 3.0];
    assert_eq!(
        at(&mut loaded.evaluator(), &x),
        at(&mut program.evaluator(), &x)
    );

    // The old file stays until the new one is whole, and nothing else is left in the folder.
    Program::record(1, |x: &[Symbol<'_, f64>]| x[0])
        .unwrap()
        .save(&path)
        .unwrap();
    assert_eq!(Program::<f64>::load(&path).unwrap().len(), 0);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);

    let wrong = Program::<f32>::load(&path).unwrap_err().to_string();
    assert_eq!(
        wrong,
        "not a sound program: byte 12: expected bytes of a number 4, found 8"
    );
    for bytes in [&b""[..], b"BTPROG", b"BTPROG\r\n\x02\0\0\0"] {
        std::fs::write(&path, bytes).unwrap();
        let error = Program::<f64>::load(&path).unwrap_err();
        assert!(matches!(error, Error::BadProgram { .. }), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(matches!(Program::<f64>::load(&path), Err(Error::Io { .. })));
    assert!(matches!(program.save(&path), Err(Error::Io { .. })));
}
