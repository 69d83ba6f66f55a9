//! The tape of fixed size: the same gradients as the growing tape to the bit, the known faults, and what happens when it is full.

use crate::floats::c;
use burtorch_core::{Dual, Error, Float, Scalar, StackTape, StackVar, Var, value_and_grad};

both! {
    gradients_are_those_of_the_growing_tape
    f16_later_nodes_take_part_in_the_next_pass
    f20_values_without_a_node
    f22_a_full_tape
    f22_ops_over_many_arguments_fill_it_too
    f23_misuse
    beyond_the_nodes_that_are_written_out
    a_branch_without_gradient_has_a_plain_zero
}

fn bits<F: Float>(numbers: &[F]) -> Vec<u64> {
    // All NaNs are one.
    let bits = |x: &F| {
        if x.is_nan() {
            u64::MAX
        } else {
            x.to_f64().to_bits()
        }
    };
    numbers.iter().map(bits).collect()
}

/// Value and gradient of a function of K numbers on a tape of 48 nodes. (With any closure for a function it would be compiled for each.)
fn on_stack<T: Scalar, const K: usize>(
    x: [T; K],
    f: for<'t> fn(&[StackVar<'t, T, 48>]) -> StackVar<'t, T, 48>,
) -> (T, [T; K]) {
    let tape = StackTape::new();
    let variables = tape.vars(x);
    let y = f(&variables);
    y.backward().unwrap();
    (y.value(), variables.map(|x| x.grad().unwrap()))
}

/// Compares both tapes on a formula at some points, to the bit.
macro_rules! same {
    ($float:ty, $points:expr, |$x:ident| $formula:expr) => {{
        fn formula<S: Scalar>($x: &[S]) -> S {
            $formula
        }
        assert_same::<$float, _>(
            stringify!($formula),
            &$points,
            |x| formula(x),
            |x| formula(x),
        );
    }};
}

fn assert_same<F: Float, const K: usize>(
    formula: &str,
    points: &[[f64; K]],
    by_stack: for<'t> fn(&[StackVar<'t, F, 48>]) -> StackVar<'t, F, 48>,
    by_tape: for<'t> fn(&[Var<'t, F>]) -> Var<'t, F>,
) {
    for point in points {
        let point = point.map(|x| c(x));
        let (value, gradient) = on_stack(point, by_stack);
        let (expected, expected_gradient) = value_and_grad(by_tape, &point).unwrap();
        assert_eq!(bits(&[value]), bits(&[expected]), "{formula} at {point:?}");
        assert_eq!(
            bits(&gradient),
            bits(&expected_gradient),
            "{formula} at {point:?}"
        );
    }
}

fn number<S: Scalar>(x: f64) -> S {
    S::constant(S::Primal::from_f64(x))
}

const PAIRS: [[f64; 2]; 12] = [
    [0.0, 0.0],
    [0.0, 1.0],
    [0.0, 2.0],
    [-2.0, 3.0],
    [-2.0, 2.0],
    [-8.0, 1.0 / 3.0],
    [0.0, -1.0],
    [0.0, 0.5],
    [3.0, 3.0],
    [1.5, -0.25],
    [60.0, -60.0],
    [1e-310, f64::NEG_INFINITY],
];

#[allow(clippy::eq_op, reason = "x / x is a case")]
fn gradients_are_those_of_the_growing_tape<F: Float>() {
    let points = [
        -60.0, -2.0, -1.0, -0.5, -0.0, 0.0, 1e-310, 0.3, 1.0, 2.0, 3.0, 60.0,
    ]
    .map(|x| [x]);
    same!(F, points, |x| x[0].sqrt()
        + x[0].abs()
        + x[0].relu()
        + x[0].tanh()
        + x[0].gelu());
    same!(F, points, |x| x[0].sqrt() * number::<S>(0.0) + x[0]);
    same!(F, points, |x| x[0].powi(0) + x[0].powi(3) - x[0].powi(-2));
    same!(F, points, |x| x[0].select(x[0].sqrt(), number(0.0)));
    same!(F, points, |x| x[0].select(x[0], x[0] / number::<S>(0.0)));
    same!(F, points, |x| x[0]
        .select(x[0], (x[0] * number::<S>(1000.0)).exp()));
    same!(F, points, |x| x[0] * x[0] + x[0] - x[0] / x[0]);
    same!(F, points, |x| x[0] * x[0].stop_gradient());
    same!(F, points, |x| x[0].ln().relu() + x[0].softplus().sin());
    same!(F, PAIRS, |x| x[0].pow(x[1]));
    same!(F, PAIRS, |x| x[0].max(x[1])
        + x[0].min(x[1]) * number::<S>(3.0));
    same!(F, PAIRS, |x| x[0] / x[1] - x[1] * x[0].exp());
    same!(F, PAIRS, |x| (x[0].ln() * x[1]).relu());
    same!(F, PAIRS, |x| x[1] * x[0].sqrt());
    same!(F, PAIRS, |x| x[0] * number::<S>(2.0)
        + x[1] * number::<S>(0.0));
    same!(F, PAIRS, |x| S::norm(x) + S::logsumexp(x));
    same!(F, PAIRS, |x| S::product(&[x[0], x[1], x[0]])
        + S::variance(&[x[0], x[1], x[0] * x[1]]));
    same!(F, PAIRS, |x| {
        let mut weights = [x[0]; 3];
        S::softmax(&[x[0], x[1], x[0] - x[1]], &mut weights);
        S::dot_bias(&weights, &[x[1], x[0], number(2.0)], x[0]) + S::mean(&[x[0]])
    });
    same!(F, PAIRS, |x| S::sum(&[x[0]; 20]) * S::dot(x, &[x[1], x[0]]));
    same!(F, PAIRS, |_x| number(7.0));
}

fn f16_later_nodes_take_part_in_the_next_pass<F: Float>() {
    let tape = StackTape::<F, 4>::new();
    let x = tape.var(c(3.0));
    let y = x * x;
    let z = y * y;
    z.backward().unwrap();
    (z * x).backward().unwrap();
    assert_eq!(x.grad(), Ok(c(108.0 + 405.0)));
    assert_eq!(z.grad(), Ok(c(1.0 + 3.0)));
}

fn f20_values_without_a_node<F: Float>() {
    let tape = StackTape::<F, 4>::new();
    let y = tape.var(F::ONE).square();
    assert_eq!(y.grad(), Err(Error::NotRetained));
    assert_eq!(tape.constant(F::ONE).grad(), Err(Error::NotRetained));
    assert_eq!(tape.constant(F::ONE).backward(), Ok(()));
    assert_eq!(StackVar::<F, 4>::constant(F::ONE).backward(), Ok(()));
}

/// x + x + …, one node each.
fn grow<F: Float, const N: usize>(tape: &StackTape<F, N>, times: usize) -> Result<(F, F), Error> {
    let x = tape.var(F::ONE);
    let mut y = x * x;
    for _ in 0..times {
        y += x;
    }
    y.backward().and_then(|()| Ok((y.value(), x.grad()?)))
}

fn f22_a_full_tape<F: Float>() {
    let mut tape = StackTape::<F, 10>::new();
    assert_eq!(grow(&tape, 8), Ok((c(9.0), c(10.0))));
    assert_eq!((tape.len(), tape.check()), (10, Ok(())));
    tape.clear();
    assert!(tape.is_empty());
    let full = Error::TapeFull {
        what: "nodes",
        limit: 10,
    };
    assert_eq!(grow(&tape, 30), Err(full.clone()));
    assert_eq!((tape.len(), tape.check()), (10, Err(full.clone())));
    let late = tape.var(F::ONE);
    assert!(late.value().is_nan() && (late + F::ONE).value().is_nan());
    assert_eq!(late.grad(), Err(full.clone()));
    assert_eq!(late.backward(), Err(full));
    tape.clear();
    assert_eq!(grow(&tape, 3), Ok((c(4.0), c(5.0))));

    let nothing = StackTape::<F, 0>::new();
    assert!(nothing.var(F::ONE).value().is_nan());
    assert_eq!(
        nothing.check(),
        Err(Error::TapeFull {
            what: "nodes",
            limit: 0
        })
    );
}

fn f22_ops_over_many_arguments_fill_it_too<F: Float>() {
    let full = Err(Error::TapeFull {
        what: "nodes",
        limit: 5,
    });
    for (arguments, fits) in [(1, true), (2, true), (5, true), (6, false), (90, false)] {
        let tape = StackTape::<F, 5>::new();
        let x = tape.var(c(2.0));
        let sum = StackVar::sum(&vec![x; arguments]);
        let found = sum.backward().and_then(|()| x.grad());
        if fits {
            assert_eq!(found, Ok(F::from_usize(arguments)));
            assert_eq!(tape.len(), 1 + (arguments - 1).max(1));
        } else {
            assert!(sum.value().is_nan());
            assert_eq!(found, full);
        }
    }
    let tape = StackTape::<F, 5>::new();
    let constants = [tape.constant(F::ONE); 3];
    assert_eq!(StackVar::sum(&constants).value(), c(3.0));
    assert_eq!(tape.check(), Ok(()));
}

fn f23_misuse<F: Float>() {
    let (tape, other) = (StackTape::<F, 8>::new(), StackTape::new());
    let (a, b) = (tape.var(F::ONE), other.var(c(2.0)));
    assert_eq!(
        tape.backward(&[b], &[F::ONE]),
        Err(Error::ForeignTape { what: "root" })
    );
    let sum = a + b;
    let mixed = Error::MixedTapes { op: "add" };
    assert!(sum.value().is_nan());
    assert_eq!(sum.backward(), Err(mixed.clone()));
    assert_eq!(a.grad(), Err(mixed.clone()));
    assert_eq!(other.check(), Err(mixed.clone()));
    assert!(StackVar::dot(&[a], &[]).value().is_nan());
    assert_eq!(tape.check(), Err(mixed), "the first error stays");

    let (mut tape, other) = (StackTape::<F, 8>::new(), StackTape::new());
    assert!(
        StackVar::mean(&[tape.var(F::ONE), other.var(F::ONE)])
            .value()
            .is_nan()
    );
    assert_eq!(tape.check(), Err(Error::MixedTapes { op: "mean" }));
    tape.clear();
    let xs = tape.vars([F::ONE; 3]);
    assert!(StackVar::dot(&xs, &xs[..2]).value().is_nan());
    assert_eq!(
        tape.check(),
        Err(Error::LengthMismatch {
            op: "dot",
            expected: 3,
            found: 2
        })
    );
    tape.clear();
    assert_eq!(tape.check(), Ok(()));
    assert!(grow(&tape, 30).is_err());
    let full = Error::TapeFull {
        what: "nodes",
        limit: 8,
    };
    assert_eq!(tape.check(), Err(full));
}

fn beyond_the_nodes_that_are_written_out<F: Float>() {
    for times in [60, 61, 62, 63, 64, 65, 900] {
        let tape = StackTape::<F, 1000>::new();
        let expected = F::from_usize(times);
        assert_eq!(
            grow(&tape, times),
            Ok((expected + F::ONE, expected + c(2.0)))
        );
        assert_eq!(tape.len(), times + 2);
    }
}

fn a_branch_without_gradient_has_a_plain_zero<F: Float>() {
    let tape = StackTape::<F, 4>::new();
    let (x, unused) = (tape.var(F::ONE), tape.var(F::ONE));
    x.backward().unwrap();
    let late = tape.var(F::ONE);
    for gradient in [unused.grad(), late.grad()] {
        assert_eq!(gradient.unwrap().to_f64().to_bits(), 0);
    }
}

#[test]
fn duals_on_it_give_second_derivatives() {
    // x³y: gradient (3x²y, x³), its derivative along (1, 0): (6xy, 3x²).
    let x = [Dual::new(2.0, 1.0), Dual::new(5.0, 0.0)];
    let (value, gradient) = on_stack(x, |x| x[0].cube() * x[1]);
    assert_eq!((value.value, value.tangent), (40.0, 60.0));
    assert_eq!(gradient.map(|g| g.value), [60.0, 8.0]);
    assert_eq!(gradient.map(|g| g.tangent), [60.0, 12.0]);
}

#[test]
fn f23_a_tape_can_move_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&StackTape::<f32, 1>::new());
    is_send(&StackTape::<f64, 1>::new());
}

#[test]
fn handles_and_tapes_can_be_printed() {
    let tape = StackTape::<f64, 3>::new();
    let x = tape.var(2.0);
    assert_eq!(format!("{tape:?}"), "StackTape(1 of 3 nodes)");
    assert_eq!(format!("{:?}", x * 3.0), "StackVar(6.0, node 0, slope 3.0)");
    assert_eq!(
        format!("{:?}", tape.constant(1.0)),
        "StackVar(1.0, constant)"
    );
}
