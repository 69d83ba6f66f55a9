//! Faults that software of this kind is known for, each with its number in our list: the input, and the right result.
//! Every case runs for `f32` and `f64`. What can be tested in the same way on every recorder is in `faults_matrix.rs`.

use crate::floats::{assert_close, c};
use burtorch_core::graph::Graph;
use burtorch_core::{Error, Float, Scalar, Tape, Var, value_and_grad};

/// Equal to a relative 1e-6 or 1e-12, or absolutely below 1; NaN and infinities only to themselves.
#[track_caller]
fn assert_near<F: Float>(found: F, expected: f64) {
    let tolerance = if F::NAME == "f32" { 1e-6 } else { 1e-12 };
    assert_close(found, expected, tolerance * expected.abs().max(1.0));
}

#[track_caller]
fn assert_all_near<F: Float>(found: &[F], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (&found, &expected) in found.iter().zip(expected) {
        assert_near(found, expected);
    }
}

fn floats<F: Float>(xs: &[f64]) -> Vec<F> {
    xs.iter().map(|&x| c(x)).collect()
}

/// Value and derivative of a function of one variable.
fn slope<F: Float>(x: f64, f: impl for<'t> Fn(Var<'t, F>) -> Var<'t, F>) -> (F, F) {
    let (value, gradient) = value_and_grad(|x| f(x[0]), &[c(x)]).unwrap();
    (value, gradient[0])
}

both! {
    f01_softmax_and_logsumexp_do_not_overflow
    f02_masked_rows
    f03_variance_of_large_numbers
    f05_saturation
    f07_gelu_tails
    f09_norms_of_nothing_and_of_infinities
    f12_long_sums
    f15_a_new_value_for_a_variable
    f16_zeroing_some_gradients
    f20_values_without_a_node
    f22_a_full_tape
    f23_misuse
}

fn f01_softmax_and_logsumexp_do_not_overflow<F: Float>() {
    let xs = floats::<F>(&[1000.0, 1001.0, 1002.0]);
    let weights = [0.09003057317038046, 0.24472847105479764, 0.6652409557748219];
    let mut out = [F::ZERO; 3];
    F::softmax(&xs, &mut out);
    assert_all_near(&out, &weights);
    let (value, gradient) = value_and_grad(|x| Scalar::logsumexp(x), &xs).unwrap();
    assert_near(value, 1002.4076059644443);
    assert_all_near(&gradient, &weights);
    assert_near(
        F::logsumexp(&floats(&[-1000.0, -1001.0])),
        -999.6867383124818,
    );
    let (value, gradient) =
        value_and_grad(|x| Scalar::logsumexp(x), &[F::NEG_INFINITY; 2]).unwrap();
    assert_eq!((value, gradient), (F::NEG_INFINITY, vec![F::ZERO; 2]));
    assert_eq!(F::logsumexp(&[]), F::NEG_INFINITY);
}

fn f02_masked_rows<F: Float>() {
    let tape = Tape::new();
    let xs = tape.vars(&[F::NEG_INFINITY, F::ZERO, F::ZERO]);
    let mut out = xs.clone();
    Scalar::softmax(&xs, &mut out);
    assert_all_near(
        &out.iter().map(|y| y.value()).collect::<Vec<_>>(),
        &[0.0, 0.5, 0.5],
    );
    tape.backward(&out, &floats(&[1.0, 2.0, 3.0])).unwrap();
    assert_all_near(
        &xs.iter().map(|x| x.grad().unwrap()).collect::<Vec<_>>(),
        &[0.0, -0.25, 0.25],
    );

    let masked = tape.vars(&[F::NEG_INFINITY; 2]);
    Scalar::softmax(&masked, &mut out[..2]);
    tape.backward(&out[..2], &[F::ONE, c(2.0)]).unwrap();
    assert!(out[..2].iter().all(|y| y.value() == F::ZERO));
    assert!(masked.iter().all(|x| x.grad() == Ok(F::ZERO)));
}

fn f03_variance_of_large_numbers<F: Float>() {
    let xs = floats::<F>(&[100000.0, 100001.0, 100002.0, 100003.0]);
    let (value, gradient) = value_and_grad(|x| Scalar::variance(x), &xs).unwrap();
    assert_eq!(value, c(1.25));
    assert_all_near(&gradient, &[-0.75, -0.25, 0.25, 0.75]);
    assert_eq!(F::variance(&[c(5.0); 4]), F::ZERO);
}

fn f05_saturation<F: Float>() {
    let (value, derivative) = slope::<F>(-90.0, |x| x.sigmoid());
    assert_close(value, 8.194012623990515e-40, 1e-44);
    assert_close(derivative, 8.194012623990515e-40, 1e-44);
    assert_eq!(slope::<F>(-1000.0, |x| x.sigmoid()), (F::ZERO, F::ZERO));
    assert_eq!(slope::<F>(1000.0, |x| x.sigmoid()), (F::ONE, F::ZERO));
    assert_eq!(slope::<F>(100.0, |x| x.softplus()), (c(100.0), F::ONE));
    let (value, _) = slope::<F>(-100.0, |x| x.softplus());
    assert_close(
        value,
        3.720075976020836e-44,
        if F::NAME == "f32" { 2e-45 } else { 1e-58 },
    );
    assert_eq!(slope::<F>(-300.0, |x| x.log_sigmoid()), (c(-300.0), F::ONE));
    let (_, derivative) = slope::<F>(10.0, |x| x.tanh());
    assert_close(
        derivative,
        8.2446144558e-9,
        if F::NAME == "f32" { 1e-14 } else { 1e-19 },
    );
    assert_eq!(slope::<F>(1e30, |x| x.tanh()), (F::ONE, F::ZERO));
}

fn f07_gelu_tails<F: Float>() {
    let relative = if F::NAME == "f32" { 3e-6 } else { 1e-9 };
    for (x, by_erf, by_tanh) in [
        (1.0, 0.841344746068543, 0.8411919906082768),
        (-5.0, -1.4332578593798987e-6, -2.2917961972623e-7),
    ] {
        assert_close(
            slope::<F>(x, |x| x.gelu()).0,
            by_erf,
            relative * f64::abs(by_erf),
        );
        assert_close(
            slope::<F>(x, |x| x.gelu_tanh()).0,
            by_tanh,
            relative * f64::abs(by_tanh),
        );
    }
    for far in [1e20, f64::INFINITY] {
        assert_eq!(slope::<F>(far, |x| x.gelu()), (c(far), F::ONE));
        assert_eq!(slope::<F>(far, |x| x.gelu_tanh()), (c(far), F::ONE));
        assert_eq!(slope::<F>(-far, |x| x.gelu()), (F::ZERO, F::ZERO));
        assert_eq!(slope::<F>(-far, |x| x.gelu_tanh()), (F::ZERO, F::ZERO));
    }
}

fn f12_long_sums<F: Float>() {
    let ones = vec![F::ONE; 20_000_000];
    assert_eq!(F::sum(&ones), c(20_000_000.0));
    assert_eq!(F::mean(&ones), F::ONE);
    let tenths = vec![c::<F>(f64::from(0.1_f32)); 10_000_000];
    assert_close(F::sum(&tenths), 1000000.0149011612, 10.0);
    assert_close(F::norm(&tenths), 316.2277707, 3e-3);
    assert_close(F::dot(&tenths, &tenths), 100000.002980, 1.0);
}

/// Sums of every length near those of the blocks, of whole numbers, which any order of adding gets exactly.
#[test]
fn f12_sums_of_every_length() {
    let whole: Vec<f64> = (0..700).map(|i| f64::from(i * 37 % 101)).collect();
    let ones = vec![1.0; 700];
    for n in 0..700 {
        let (xs, plain) = (&whole[..n], whole[..n].iter().sum::<f64>());
        assert_eq!(f64::sum(xs), plain, "{n}");
        assert_eq!(f64::dot(xs, &ones[..n]), plain, "{n}");
        assert_eq!(
            f64::sum_of_squares(xs),
            xs.iter().map(|x| x * x).sum::<f64>(),
            "{n}"
        );
        if n > 0 {
            assert_close(f64::logsumexp(&ones[..n]), 1.0 + (n as f64).ln(), 1e-13);
            assert_eq!(f64::variance(&ones[..n]), 0.0, "{n}");
        }
    }
}

fn f09_norms_of_nothing_and_of_infinities<F: Float>() {
    assert_eq!(F::norm(&[F::NEG_INFINITY, F::ONE]), F::INFINITY);
    assert_eq!(F::norm(&[]), F::ZERO);
}

/// It makes a new handle; what was recorded keeps the old value.
fn f15_a_new_value_for_a_variable<F: Float>() {
    let tape = Tape::new();
    let x = tape.var(c::<F>(3.0));
    let y = x * x;
    let renewed = tape.handle(x.id().unwrap(), c(10.0));
    y.backward().unwrap();
    assert_eq!(renewed.grad().unwrap(), c(6.0));
}

fn f16_zeroing_some_gradients<F: Float>() {
    let tape = Tape::new();
    let x = tape.var(c::<F>(3.0));
    let y = x * x;
    let z = y * y;
    z.backward().unwrap();
    assert_eq!((x.grad(), y.grad()), (Ok(c(108.0)), Ok(c(18.0))));
    tape.zero_grads_in(x.id().unwrap(), 1).unwrap();
    assert_eq!((x.grad(), y.grad()), (Ok(F::ZERO), Ok(c(18.0))));
    z.backward().unwrap();
    assert_eq!((x.grad(), y.grad()), (Ok(c(108.0)), Ok(c(36.0))));
}

fn f20_values_without_a_node<F: Float>() {
    let tape = Tape::new();
    let y = tape.var(F::ONE).square();
    assert_eq!(y.grad(), Err(Error::NotRetained));
    assert_eq!(tape.constant(F::ONE).grad(), Err(Error::NotRetained));
}

fn f22_a_full_tape<F: Float>() {
    let grow = |tape: &Tape<F>, times: usize| {
        let x = tape.var(F::ONE);
        let mut y = x * x;
        for _ in 0..times {
            y += x;
        }
        y.backward().and_then(|()| Ok((y.value(), x.grad()?)))
    };
    assert_eq!(
        grow(&Tape::with_limit(65_535), 33_000),
        Ok((c(33_001.0), c(33_002.0)))
    );
    let tape = Tape::with_limit(65_535);
    let full = Error::TapeFull {
        what: "nodes",
        limit: 65_535,
    };
    assert_eq!(grow(&tape, 70_000), Err(full.clone()));
    assert_eq!(tape.check(), Err(full.clone()));
    assert_eq!(tape.len(), 65_535);
    assert!(tape.var(F::ONE).value().is_nan());
    let mut tape = tape;
    tape.clear();
    assert_eq!(grow(&tape, 10), Ok((c(11.0), c(12.0))));

    let exact = Tape::with_limit(2);
    let x = exact.var(F::ONE);
    assert_eq!((x * x).backward(), Ok(()));
    let sum = Var::sum(&[x, x]);
    assert!(
        sum.value().is_nan()
            && (sum + F::ONE).backward()
                == Err(Error::TapeFull {
                    what: "nodes",
                    limit: 2
                })
    );
    assert!(matches!(
        Tape::<F>::with_capacity(1 << 32, 0),
        Err(Error::TapeFull { what: "nodes", .. })
    ));
    assert!(matches!(
        Tape::<F>::with_capacity(0, 1 << 32),
        Err(Error::TapeFull {
            what: "arguments",
            ..
        })
    ));
}

fn f23_misuse<F: Float>() {
    // Two tapes.
    let (tape, other) = (Tape::new(), Tape::new());
    assert_eq!(
        tape.backward(&[other.var(F::ONE)], &[F::ONE]),
        Err(Error::ForeignTape { what: "root" })
    );
    let pair = [tape.var(F::ONE), other.var(F::ONE)];
    assert!(Var::mean(&pair).value().is_nan());
    assert_eq!(tape.check(), Err(Error::MixedTapes { op: "mean" }));

    // A name that lives, followed by nodes that are no longer those of its time.
    let mut tape = Tape::new();
    let first = tape.vars(&[F::ONE; 1])[0].id().unwrap();
    let mark = tape.mark();
    tape.vars(&[F::ONE; 2]);
    tape.rewind(mark).unwrap();
    tape.vars(&[F::ONE; 2]);
    let gone = Error::Rewound {
        what: "node",
        position: 1,
    };
    assert_eq!(tape.grad(first), Ok(F::ZERO));
    assert_eq!(tape.add_grads(first, &mut [F::ZERO; 3]), Err(gone.clone()));
    assert_eq!(tape.zero_grads_in(first, 3), Err(gone.clone()));
    assert_eq!(tape.check(), Ok(()));
    assert_eq!(tape.handles(first, &[F::ONE; 3]).len(), 0);
    assert_eq!(tape.check(), Err(gone));

    // A fault from before the mark outlives a rewind to it.
    let (mut tape, other) = (Tape::new(), Tape::new());
    let _ = tape.var(F::ONE) + other.var(F::ONE);
    let mark = tape.mark();
    tape.vars(&[F::ONE; 2]);
    tape.rewind(mark).unwrap();
    assert_eq!(tape.check(), Err(Error::MixedTapes { op: "add" }));

    // Names and marks that outlived their nodes. (Handles that would do not compile.)
    let mut tape = Tape::new();
    let weight = tape.var(c::<F>(3.0)).id().unwrap();
    let mark = tape.mark();
    let v = tape.var(c(5.0)).id().unwrap();
    let later = tape.mark();
    tape.rewind(mark).unwrap();
    let _w = tape.var(c(42.0));
    let gone = Error::Rewound {
        what: "node",
        position: 2,
    };
    assert_eq!(tape.grad(v), Err(gone.clone()));
    assert_eq!(tape.zero_grads_in(v, 1), Err(gone.clone()));
    assert!(tape.handle(v, c(5.0)).value().is_nan());
    assert_eq!(tape.check(), Err(gone));
    assert_eq!(
        tape.rewind(later),
        Err(Error::Rewound {
            what: "mark",
            position: 3
        })
    );
    tape.rewind(mark).unwrap();
    assert_eq!(tape.check(), Ok(()));
    assert_eq!(tape.grad(weight), Ok(F::ZERO));
    assert_eq!(tape.handles(weight, &[F::ONE; 2]).len(), 0);
    assert_eq!(tape.check(), Err(Error::NoSuchNode { end: 3, len: 2 }));
    tape.rewind(mark).unwrap();
    assert_eq!(
        Tape::<F>::new().rewind(mark),
        Err(Error::ForeignTape { what: "mark" })
    );
    assert_eq!(
        Tape::<F>::new().grad(weight),
        Err(Error::ForeignTape { what: "node" })
    );

    // Lists of different lengths.
    let xs = tape.vars(&[F::ONE; 3]);
    assert!(Scalar::dot(&xs, &xs[..2]).value().is_nan());
    assert_eq!(
        tape.check(),
        Err(Error::LengthMismatch {
            op: "dot",
            expected: 3,
            found: 2
        })
    );
    let mut out = [F::ZERO; 2];
    F::softmax(&[F::ONE; 3], &mut out);
    assert!(out.iter().all(|x| x.is_nan()) && F::dot(&out, &[]).is_nan());

    let (graph, other) = (Graph::new(), Graph::new());
    assert!((graph.var(F::ONE) * other.var(F::ONE)).value().is_nan());
    assert_eq!(graph.draw(), Err(Error::MixedTapes { op: "mul" }));
}

#[test]
fn f23_a_tape_can_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&Tape::<f32>::new());
    is_send(&Tape::<f64>::new());
}
