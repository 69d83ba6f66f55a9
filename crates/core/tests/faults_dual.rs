//! The known faults F09 to F23 on dual numbers: alone, where the tangent is the derivative, and as the numbers of a tape, where
//! the values of the gradient must be those of a plain tape. Every case runs for `f32` and `f64`.

use std::thread;

use burtorch_core::{Dual, Error, Float, Scalar, Tape, Var};

/// Runs a generic test for both float types.
macro_rules! both {
    ($($name:ident)*) => {$(
        mod $name {
            #[test]
            fn f32() {
                super::$name::<f32>();
            }
            #[test]
            fn f64() {
                super::$name::<f64>();
            }
        }
    )*};
}

/// The value and the derivatives of a function: along each input by dual numbers, and the gradient on a tape of dual numbers.
/// Both must be as expected.
macro_rules! assert_slopes {
    ($float:ident, $point:expr, $f:expr, $value:expr, $slopes:expr) => {{
        let point = floats::<$float>(&$point);
        let expected: Vec<f64> = $slopes.to_vec();
        for (i, &slope) in expected.iter().enumerate() {
            let y: Dual<$float> = with_inputs(&along(&point, i), $f);
            assert_near(y.value, $value);
            assert_near(y.tangent, slope);
        }
        let tape = Tape::new();
        let variables = tape.vars(&along(&point, 0));
        let y: Var<'_, Dual<$float>> = with_inputs(&variables, $f);
        y.backward().unwrap();
        assert_near(y.value().value, $value);
        for (x, &slope) in variables.iter().zip(&expected) {
            assert_near(x.grad().unwrap().value, slope);
        }
    }};
}

/// Calls a closure; it is here so that the compiler knows the closure's argument.
fn with_inputs<S: Scalar>(x: &[S], f: impl Fn(&[S]) -> S) -> S {
    f(x)
}

/// The inputs, of which the one given moves.
fn along<F: Float>(point: &[F], moving: usize) -> Vec<Dual<F>> {
    let tangent = |i| if i == moving { F::ONE } else { F::ZERO };
    let pairs = point.iter().enumerate();
    pairs.map(|(i, &x)| Dual::new(x, tangent(i))).collect()
}

fn c<F: Float>(x: f64) -> F {
    F::from_f64(x)
}

fn fixed<F: Float>(x: f64) -> Dual<F> {
    Dual::new(c(x), F::ZERO)
}

fn floats<F: Float>(xs: &[f64]) -> Vec<F> {
    xs.iter().map(|&x| c(x)).collect()
}

/// Equal to a relative 1e-6 or 1e-12, or absolutely below 1; NaN and infinities only to themselves.
#[track_caller]
fn assert_near<F: Float>(found: F, expected: f64) {
    let tolerance = if F::NAME == "f32" { 1e-6 } else { 1e-12 };
    assert_close(found, expected, tolerance * expected.abs().max(1.0));
}

#[track_caller]
fn assert_close<F: Float>(found: F, expected: f64, tolerance: f64) {
    let same = if expected.is_finite() {
        (found.to_f64() - expected).abs() <= tolerance
    } else {
        found.to_f64() == expected || found.is_nan() && expected.is_nan()
    };
    assert!(same, "expected {expected:e}, found {found:e}");
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

both! {
    f09_roots_at_zero
    f10_powers
    f11_ties_and_kinks
    f12_long_sums
    f13_subnormal_numbers
    f14_a_value_used_twice
    f15_compound_assignment
    f16_backward_twice
    f17_several_roots
    f18_dead_branches
    f18_dead_branches_that_move
    f19_detached_and_unused
    f20_roots_and_seeds
    f21_a_million_nodes
    f22_a_full_tape
    f23_misuse
    f23_threads_agree
}

fn f09_roots_at_zero<F: Float>() {
    assert_slopes!(F, [0.0, 0.0], Scalar::norm, 0.0, [0.0, 0.0]);
    assert_slopes!(F, [3.0, 4.0], Scalar::norm, 5.0, [0.6, 0.8]);
    assert_slopes!(
        F,
        [3e30, 4e30],
        |x| Scalar::norm(x) * c::<F>(1e-30),
        5.0,
        [6e-31, 8e-31]
    );
    assert_slopes!(F, [0.0], |x| x[0].sqrt(), 0.0, [INF]);
    assert_slopes!(F, [0.0], |x| x[0].sqrt() * F::ZERO, 0.0, [0.0]);
    assert_slopes!(F, [0.0, 0.0], |x| x[1] * x[0].sqrt(), 0.0, [0.0, 0.0]);
    assert_eq!(Dual::<F>::norm(&[]), fixed(0.0));
    // A constant never moves, whatever the slope there is.
    assert_slopes!(
        F,
        [2.0],
        |x| x[0] * x[0].constant_like(F::ZERO).sqrt(),
        0.0,
        [0.0]
    );
    assert_slopes!(
        F,
        [2.0],
        |x| x[0] + x[0].constant_like(F::ZERO).sqrt(),
        2.0,
        [1.0]
    );
}

fn f10_powers<F: Float>() {
    assert_slopes!(
        F,
        [0.0, 1.0],
        |x| x[0].powi(0) + x[1].powf(F::ZERO),
        2.0,
        [0.0, 0.0]
    );
    for (a, b, value, to_a, to_b) in [
        (0.0, 0.0, 1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 1.0, 0.0),
        (0.0, 2.0, 0.0, 0.0, 0.0),
        (-2.0, 3.0, -8.0, 12.0, NAN),
        (-2.0, 2.0, 4.0, -4.0, NAN),
        (-8.0, 1.0 / 3.0, NAN, NAN, NAN),
        (0.0, -1.0, INF, -INF, -INF),
        (0.0, 0.5, 0.0, INF, 0.0),
    ] {
        assert_slopes!(F, [a, b], |x| x[0].pow(x[1]), value, [to_a, to_b]);
        assert_slopes!(F, [a], |x| x[0].powf(c(b)), value, [to_a]);
        assert_slopes!(
            F,
            [a],
            |x| x[0].pow(x[0].constant_like(c(b))),
            value,
            [to_a]
        );
    }
    assert_slopes!(F, [-2.0], |x| x[0].powi(3), -8.0, [12.0]);
    assert_slopes!(F, [0.0], |x| x[0].powi(1), 0.0, [1.0]);
}

fn f11_ties_and_kinks<F: Float>() {
    assert_slopes!(F, [0.0], |x| x[0].relu(), 0.0, [0.0]);
    assert_slopes!(F, [0.0], |x| x[0].abs(), 0.0, [0.0]);
    assert_slopes!(F, [3.0], |x| x[0].relu(), 3.0, [1.0]);
    assert_slopes!(F, [3.0, 3.0], |x| x[0].max(x[1]), 3.0, [1.0, 0.0]);
    assert_slopes!(F, [3.0, 3.0], |x| x[0].min(x[1]), 3.0, [1.0, 0.0]);
    assert_slopes!(
        F,
        [2.0, 5.0, 5.0],
        |x| x[0].max(x[1]).max(x[2]),
        5.0,
        [0.0, 1.0, 0.0]
    );
    for (a, b) in [(NAN, 1.0), (1.0, NAN)] {
        let of_nan = |x: f64| if x.is_nan() { 1.0 } else { 0.0 };
        assert_slopes!(F, [a, b], |x| x[0].max(x[1]), NAN, [of_nan(a), of_nan(b)]);
        assert_slopes!(F, [a, b], |x| x[0].min(x[1]), NAN, [of_nan(a), of_nan(b)]);
    }
}

fn f12_long_sums<F: Float>() {
    // An accumulator of f32 would stop at 2²⁴. (Fewer for f64, to spare memory.)
    let count = if F::NAME == "f32" {
        20_000_000
    } else {
        2_000_000
    };
    let ones = vec![Dual::variable(F::ONE); count];
    let total = F::from_usize(count);
    assert_eq!(Dual::sum(&ones), Dual::new(total, total));
    assert_eq!(Dual::mean(&ones), Dual::variable(F::ONE));
    let tenths = vec![Dual::variable(c::<F>(f64::from(0.1_f32))); 10_000_000];
    assert_close(Dual::sum(&tenths).value, 1000000.0149011612, 10.0);
    assert_close(Dual::norm(&tenths).tangent, 3162.27766, 3e-2);
    assert_close(Dual::dot(&tenths, &tenths).tangent, 2000000.0298, 20.0);
}

fn f13_subnormal_numbers<F: Float>() {
    let tiny = F::MIN_POSITIVE / c(4.0);
    let product = Dual::new(tiny, tiny) * Dual::new(c(0.5), F::ZERO);
    assert_eq!(product, Dual::new(tiny * c(0.5), tiny * c(0.5)));
    assert!(product.tangent > F::ZERO);
}

#[allow(clippy::eq_op, reason = "x / x is the case")]
fn f14_a_value_used_twice<F: Float>() {
    let doubled_twice = |x: Dual<F>| (x + x) + (x + x);
    assert_eq!(
        doubled_twice(Dual::variable(F::ONE)),
        Dual::new(c(4.0), c(4.0))
    );
    assert_slopes!(F, [3.0], |x| x[0] * x[0] + x[0] - x[0] / x[0], 11.0, [7.0]);
}

fn f15_compound_assignment<F: Float>() {
    let squared = |x: Dual<F>| {
        let mut y = x * x;
        let before = y;
        y *= y;
        y += x;
        (y, before)
    };
    let (y, before) = squared(Dual::variable(c(3.0)));
    assert_eq!(
        (y, before),
        (Dual::new(c(84.0), c(109.0)), Dual::new(c(9.0), c(6.0)))
    );
    let mut y = Dual::variable(c::<F>(3.0));
    y += F::ONE;
    y *= c::<F>(2.0);
    y -= c::<F>(4.0);
    y /= c::<F>(4.0);
    assert_eq!(y, Dual::new(F::ONE, c(0.5)));

    let tape = Tape::new();
    let x = tape.var(Dual::variable(c::<F>(3.0)));
    let y = x * x;
    let renewed = tape.handle(x.id().unwrap(), fixed(10.0));
    y.backward().unwrap();
    assert_eq!(renewed.grad().unwrap(), Dual::new(c(6.0), c(2.0)));
}

fn f16_backward_twice<F: Float>() {
    let tape = Tape::new();
    let x = tape.var(Dual::variable(c::<F>(3.0)));
    let y = x * x;
    let z = y * y;
    z.backward().unwrap();
    assert_eq!(x.grad(), Ok(Dual::new(c(108.0), c(108.0)))); // 4x³, 12x²
    z.backward().unwrap();
    assert_eq!(x.grad(), Ok(Dual::new(c(216.0), c(216.0))));
    tape.zero_grads();
    z.backward().unwrap();
    assert_eq!(x.grad(), Ok(Dual::new(c(108.0), c(108.0))));
    assert_eq!(y.grad(), Ok(Dual::new(c(18.0), c(12.0))));
}

fn f17_several_roots<F: Float>() {
    let tape = Tape::new();
    let x = tape.var(Dual::variable(c::<F>(3.0)));
    let h = x * x;
    let (a, b) = (h.cube().retain(), h * h);
    a.backward().unwrap();
    assert_eq!(x.grad(), Ok(Dual::new(c(1458.0), c(2430.0)))); // 6x⁵, 30x⁴
    b.backward().unwrap();
    assert_eq!(x.grad(), Ok(Dual::new(c(1566.0), c(2538.0))));
    tape.zero_grads();
    tape.backward(&[a, b], &[fixed(1.0), fixed(1.0)]).unwrap();
    assert_eq!(x.grad(), Ok(Dual::new(c(1566.0), c(2538.0))));
    let x = tape.var(Dual::variable(c(1.5)));
    let y = (x * x) * (x * x);
    for _ in 0..20 {
        tape.zero_grads();
        y.backward().unwrap();
        assert_eq!(x.grad(), Ok(Dual::new(c(13.5), c(27.0))));
    }
}

fn f18_dead_branches<F: Float>() {
    let zero = F::ZERO;
    assert_slopes!(
        F,
        [-1.0],
        |x| x[0].select(x[0].sqrt(), x[0].constant_like(zero)),
        0.0,
        [0.0]
    );
    assert_slopes!(F, [1.0], |x| x[0].select(x[0], x[0] / zero), 1.0, [1.0]);
    assert_slopes!(
        F,
        [2.0],
        |x| x[0].select(x[0], (x[0] * c::<F>(1000.0)).exp()),
        2.0,
        [1.0]
    );
    assert_slopes!(F, [1.0, 0.0], |x| x[0] / x[1], INF, [INF, -INF]);
    assert!((fixed::<F>(0.0) / fixed(0.0)).value.is_nan());
    assert_slopes!(F, [0.0], |x| x[0].ln().relu(), 0.0, [0.0]);
    assert_slopes!(
        F,
        [0.0, 1.0],
        |x| (x[0].ln() * x[1]).relu(),
        0.0,
        [0.0, 0.0]
    );
}

/// On a tape of dual numbers the derivative that comes from above may be 0 and moving: then what it leads to counts, and the values
/// are still those of a plain tape.
fn f18_dead_branches_that_move<F: Float>() {
    let tape = Tape::new();
    let (x, zero) = (tape.var(fixed::<F>(0.0)), tape.var(Dual::variable(F::ZERO)));
    (zero * x.sqrt()).backward().unwrap();
    assert_eq!(x.grad(), Ok(Dual::new(F::ZERO, F::INFINITY)));
    let (y, root) = (tape.var(fixed(0.0)), tape.var(fixed(1.0)));
    let recorded = (y / root).sqrt().retain();
    (zero * recorded).backward().unwrap();
    assert_eq!(y.grad(), Ok(Dual::new(F::ZERO, F::INFINITY)));
}

fn f19_detached_and_unused<F: Float>() {
    assert_slopes!(F, [3.0], |x| x[0] * x[0].stop_gradient(), 9.0, [3.0]);
    assert_slopes!(F, [3.0, 4.0], |x| x[0] * x[0], 9.0, [6.0, 0.0]);
    assert_slopes!(
        F,
        [5.0],
        |w| w[0] * c::<F>(2.0) + w[0] * c::<F>(3.0) * F::ZERO,
        10.0,
        [2.0]
    );
    assert_slopes!(
        F,
        [5.0],
        |w| w[0] * c::<F>(3.0) * F::ZERO + w[0] * c::<F>(2.0),
        10.0,
        [2.0]
    );
    assert_slopes!(F, [1.0], |x| x[0].constant_like(c(7.0)), 7.0, [0.0]);
}

fn f20_roots_and_seeds<F: Float>() {
    let tape = Tape::new();
    let xs = tape.vars(&[Dual::variable(F::ONE), fixed(2.0)]);
    let ys: Vec<_> = xs.iter().map(|x| x.square()).collect();
    // The seed moves too: it multiplies the derivative, and its tangent adds to the tangent.
    tape.backward(&ys, &[Dual::new(F::ONE, c(3.0)), fixed(10.0)])
        .unwrap();
    assert_eq!(xs[0].grad(), Ok(Dual::new(c(2.0), c(8.0))));
    assert_eq!(xs[1].grad(), Ok(fixed(40.0)));
    let wrong = tape.backward(&ys, &[fixed(1.0); 3]);
    assert!(matches!(
        wrong,
        Err(Error::LengthMismatch {
            op: "backward",
            expected: 2,
            found: 3
        })
    ));
    let leaf = tape.var(fixed(1.0));
    leaf.backward().unwrap();
    assert_eq!(leaf.grad(), Ok(fixed(1.0)));
}

fn f21_a_million_nodes<F: Float>() {
    let run = || {
        let tape = Tape::new();
        let x = tape.var(Dual::variable(F::ONE));
        let mut y = x;
        for _ in 0..1_000_000 {
            y += x;
        }
        y.backward().unwrap();
        (y.value(), x.grad().unwrap())
    };
    let small_stack = thread::Builder::new().stack_size(2 << 20);
    let (value, gradient) = small_stack.spawn(run).unwrap().join().unwrap();
    assert_eq!(value, Dual::variable(F::ONE) * c::<F>(1_000_001.0));
    assert_eq!(gradient, fixed(1_000_001.0));
}

fn f22_a_full_tape<F: Float>() {
    let grow = |tape: &Tape<Dual<F>>, times: usize| {
        let x = tape.var(Dual::variable(F::ONE));
        let mut y = x * x;
        for _ in 0..times {
            y += x;
        }
        y.backward().and_then(|()| x.grad())
    };
    let tape = Tape::with_limit(65_535);
    assert_eq!(grow(&tape, 33_000), Ok(Dual::new(c(33_002.0), c(2.0))));
    let full = Error::TapeFull {
        what: "nodes",
        limit: 65_535,
    };
    assert_eq!(grow(&tape, 70_000), Err(full));
    assert!(tape.var(fixed(1.0)).value().value.is_nan());
}

fn f23_misuse<F: Float>() {
    let (tape, other) = (Tape::new(), Tape::new());
    let sum = tape.var(fixed::<F>(1.0)) + other.var(fixed(2.0));
    assert!(sum.value().value.is_nan());
    assert_eq!(sum.backward(), Err(Error::MixedTapes { op: "add" }));
    let tape = Tape::new();
    let xs = tape.vars(&[fixed::<F>(1.0); 3]);
    assert!(Scalar::dot(&xs, &xs[..2]).value().value.is_nan());
    assert!(matches!(
        tape.check(),
        Err(Error::LengthMismatch {
            op: "dot",
            expected: 3,
            found: 2
        })
    ));

    let xs = [Dual::variable(F::ONE); 3];
    let dot = Dual::dot(&xs, &xs[..2]);
    assert!(dot.value.is_nan() && dot.tangent.is_nan());
    let biased = Dual::dot_bias(&xs, &xs[..2], xs[0]);
    assert!(biased.value.is_nan() && biased.tangent.is_nan());
    let mut out = [fixed::<F>(0.0); 2];
    Dual::softmax(&xs, &mut out);
    assert!(out.iter().all(|y| y.value.is_nan() && y.tangent.is_nan()));
}

fn f23_threads_agree<F: Float>() {
    let gradient = || {
        let tape = Tape::new();
        let x = tape.var(Dual::variable(c::<F>(0.3)));
        let mut y = x;
        for _ in 0..200_000 {
            y = y * x + F::ONE;
        }
        y.backward().unwrap();
        let slope = x.grad().unwrap();
        (
            slope.value.to_f64().to_bits(),
            slope.tangent.to_f64().to_bits(),
        )
    };
    let expected = gradient();
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(gradient)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), expected);
    }
}
