//! Known faults, each with its number in our list: lanes must give what a plain number gives alone, value and gradient.

use std::thread;

use burtorch_core::lanes::{Lanes, value_and_grad_batch};
use burtorch_core::{Error, Float, Scalar, Tape, Var, value_and_grad};

/// Equal within a few units in the last place of what is computed on the way; NaN and infinities only to themselves.
fn close<F: Float>(x: F, y: F) -> bool {
    let (x, y, tolerance) = (x.to_f64(), y.to_f64(), 64.0 * F::EPSILON.to_f64());
    x == y
        || x.is_nan() && y.is_nan()
        || (x - y).abs() <= tolerance * y.abs().max(F::MIN_POSITIVE.to_f64())
}

/// Asserts that a formula over variables gives in each lane what it gives alone: value and gradient, for both types.
macro_rules! assert_lanes_agree {
    ($points:expr, |$x:ident| $formula:expr) => {{
        assert_lanes_agree!(f32, $points, |$x| $formula);
        assert_lanes_agree!(f64, $points, |$x| $formula);
    }};
    ($type:ident, $points:expr, |$x:ident| $formula:expr) => {{
        let points = $points;
        let flat: Vec<$type> = points.iter().flatten().map(|&x: &f64| x as $type).collect();
        let width = points[0].len();
        let (values, gradients) =
            value_and_grad_batch::<4, $type, _>(|$x| $formula, &flat, width).unwrap();
        for (i, point) in flat.chunks(width).enumerate() {
            let (value, gradient) =
                value_and_grad(|$x: &[Var<'_, $type>]| $formula, point).unwrap();
            let found = &gradients[i * width..][..width];
            let same =
                close(values[i], value) && found.iter().zip(&gradient).all(|(&x, &y)| close(x, y));
            assert!(
                same,
                "at {point:?}: alone {value:e} {gradient:?}, in lanes {:e} {found:?}",
                values[i]
            );
        }
    }};
}

#[test]
fn f09_roots_at_zero() {
    let points = [[0.0, 0.0], [3.0, 4.0], [0.0, 5.0], [3e30, 4e30], [0.0, 0.0]];
    assert_lanes_agree!(points, |x| Scalar::norm(x));
    assert_lanes_agree!(points, |x| x[0].sqrt() + x[1]);
    assert_lanes_agree!(points, |x| x[0].sqrt() * 0.0);
    assert_lanes_agree!(points, |x| x[1] * x[0].sqrt());
}

#[test]
fn f10_powers() {
    let third = 1.0 / 3.0;
    let points = [
        [0.0, 0.0],
        [0.0, 1.0],
        [0.0, 2.0],
        [-2.0, 3.0],
        [-2.0, 2.0],
        [-8.0, third],
        [0.0, -1.0],
        [0.0, 0.5],
        [2.0, 3.0],
    ];
    assert_lanes_agree!(points, |x| x[0].pow(x[1]));
    assert_lanes_agree!(points, |x| x[0].powi(0) + x[1].powf(0.0));
    assert_lanes_agree!(points, |x| x[0].powi(3) + x[1].powi(-2));
    assert_lanes_agree!(points, |x| x[0].powf(2.0) + x[1].powi(1));
}

#[test]
fn f11_ties_and_kinks() {
    let points = [
        [0.0, 0.0],
        [3.0, 3.0],
        [2.0, 5.0],
        [5.0, -2.0],
        [f64::NAN, 1.0],
        [1.0, f64::NAN],
    ];
    assert_lanes_agree!(points, |x| x[0].max(x[1]));
    assert_lanes_agree!(points, |x| x[0].min(x[1]));
    assert_lanes_agree!(points, |x| x[0].max(x[1]).max(x[1] * 1.0));
    assert_lanes_agree!(points, |x| x[0].relu() + x[1].abs());
}

#[test]
fn f12_long_sums() {
    let ones = vec![Lanes::<f32, 2>::from([1.0, 2.0]); 20_000_000];
    assert_eq!(Lanes::sum(&ones).to_array(), [2e7, 4e7]);
    assert_eq!(Lanes::mean(&ones).to_array(), [1.0, 2.0]);
}

#[test]
fn f13_subnormal_numbers() {
    assert_lanes_agree!(f32, [[3e-39, 0.5], [1.0, 2.0], [-3e-39, 0.25]], |x| x[0]
        * x[1]);
    assert_lanes_agree!(f64, [[5e-309, 0.5], [1.0, 2.0], [-5e-309, 0.25]], |x| x[0]
        * x[1]);
    let deep = Lanes::from([-100.0_f32, -88.0, 0.0, -104.0]).exp();
    assert!(deep[0] > 0.0 && deep[0] < f32::MIN_POSITIVE && deep[1] > deep[0]);
}

#[test]
#[allow(clippy::eq_op, reason = "x / x is the case")]
fn f14_f15_values_used_twice_and_compound_assignment() {
    let points = [[1.0], [3.0], [-2.0], [0.5], [7.0]];
    assert_lanes_agree!(points, |x| x[0] * x[0] + x[0] - x[0] / x[0]);
    assert_lanes_agree!(points, |x| {
        let mut y = x[0] * x[0];
        y *= y;
        y += x[0];
        y
    });
}

#[test]
fn f16_backward_twice() {
    let tape = Tape::new();
    let x = tape.var(Lanes::from([3.0, 0.0, -1.0]));
    let z = (x * x) * (x * x);
    z.backward().unwrap();
    assert_eq!(x.grad().unwrap().to_array(), [108.0, 0.0, -4.0]);
    z.backward().unwrap();
    assert_eq!(x.grad().unwrap().to_array(), [216.0, 0.0, -8.0]);
    tape.zero_grads();
    z.backward().unwrap();
    assert_eq!(x.grad().unwrap().to_array(), [108.0, 0.0, -4.0]);
}

#[test]
fn f17_several_roots() {
    let tape = Tape::new();
    let x = tape.var(Lanes::from([3.0, 1.0]));
    let h = x * x;
    let (a, b) = (h.cube(), h * h);
    a.backward().unwrap();
    assert_eq!(x.grad().unwrap().to_array(), [1458.0, 6.0]);
    b.backward().unwrap();
    assert_eq!(x.grad().unwrap().to_array(), [1566.0, 10.0]);
}

#[test]
fn f18_dead_branches() {
    let points = [[-1.0, 0.0], [1.0, 2.0], [2.0, 0.0], [0.0, 1.0], [-3.0, 5.0]];
    assert_lanes_agree!(points, |x| x[0].select(x[0].sqrt(), x[1]));
    assert_lanes_agree!(points, |x| x[0].select(x[0], x[0] / 0.0));
    assert_lanes_agree!(points, |x| x[0].select(x[0], (x[0] * 1000.0).exp()));
    assert_lanes_agree!(points, |x| x[1].ln().relu() + x[0]);
    assert_lanes_agree!(points, |x| (x[1].ln() * x[0]).relu());
    assert_lanes_agree!(points, |x| x[0] / x[1]);
}

#[test]
fn f19_detached_and_unused() {
    let points = [[3.0, 4.0], [0.0, 1.0], [-5.0, 2.0]];
    assert_lanes_agree!(points, |x| x[0] * x[0].stop_gradient());
    assert_lanes_agree!(points, |x| x[0] * 2.0 + x[0] * 3.0 * 0.0);
    assert_lanes_agree!(points, |x| x[1] * 0.0 + x[1].constant_like(7.0));
}

#[test]
fn f20_roots_and_seeds() {
    let tape = Tape::new();
    let xs = tape.vars(&[Lanes::from([1.0, 5.0]), Lanes::from([2.0, 6.0])]);
    let ys: Vec<_> = xs.iter().map(|x| x.square()).collect();
    tape.backward(&ys, &[Lanes::from([1.0, 0.0]), Lanes::from([10.0, 1.0])])
        .unwrap();
    assert_eq!(xs[0].grad().unwrap().to_array(), [2.0, 0.0]);
    assert_eq!(xs[1].grad().unwrap().to_array(), [40.0, 12.0]);
    assert!(matches!(
        tape.backward(&ys, &[Lanes::splat(1.0)]),
        Err(Error::LengthMismatch { .. })
    ));
}

#[test]
fn f21_a_million_nodes() {
    let run = || {
        let tape = Tape::new();
        let x = tape.var(Lanes::from([1.0, 2.0, 3.0, 4.0]));
        let mut y = x;
        for _ in 0..1_000_000 {
            y += x;
        }
        y.backward().unwrap();
        (y.value()[3], x.grad().unwrap()[3])
    };
    let result = thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(run)
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(result, (4_000_004.0, 1_000_001.0));
}

#[test]
fn f22_a_full_tape() {
    let tape = Tape::with_limit(2);
    let x = tape.var(Lanes::splat(1.0_f32));
    let square: Var<'_, Lanes<f32, 8>> = x * x;
    let more = square * x;
    assert!(more.value().as_slice().iter().all(|y| y.is_nan()));
    assert_eq!(
        square.backward(),
        Err(Error::TapeFull {
            what: "nodes",
            limit: 2
        })
    );
}

#[test]
fn f23_two_tapes_and_threads() {
    let (tape, other) = (Tape::new(), Tape::new());
    let mixed = tape.var(Lanes::splat(1.0_f64)) + other.var(Lanes::<f64, 4>::splat(2.0));
    assert_eq!(mixed.backward(), Err(Error::MixedTapes { op: "add" }));
    let gradients = || {
        let points: Vec<f64> = (0..999).map(|i| f64::from(i) * 0.01 - 5.0).collect();
        value_and_grad_batch::<8, _, _>(|x| x[0].tanh() * x[1].exp() + x[2], &points, 3).unwrap()
    };
    let expected = gradients();
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(gradients)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), expected);
    }
}
