//! The known faults, each with its number in our list, where they show in the tangents of dual numbers: alone, and on a tape, where
//! gradients carry second derivatives. The values, of which nothing is special here, are in `faults_matrix.rs`. Every case runs for `f32`
//! and `f64`.

use crate::floats::{assert_close, c};
use burtorch_core::{Dual, Error, Float, Scalar, Tape};

fn fixed<F: Float>(x: f64) -> Dual<F> {
    Dual::new(c(x), F::ZERO)
}

both! {
    f12_long_sums
    f15_compound_assignment
    f16_backward_twice
    f17_several_roots
    f18_dead_branches_that_move
    f20_roots_and_seeds
    f23_lists_of_different_lengths
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

fn f15_compound_assignment<F: Float>() {
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

fn f20_roots_and_seeds<F: Float>() {
    let tape = Tape::new();
    let xs = tape.vars(&[Dual::variable(F::ONE), fixed(2.0)]);
    let ys: Vec<_> = xs.iter().map(|x| x.square()).collect();
    // The seed moves too: it multiplies the derivative, and its tangent adds to the tangent.
    tape.backward(&ys, &[Dual::new(F::ONE, c(3.0)), fixed(10.0)])
        .unwrap();
    assert_eq!(xs[0].grad(), Ok(Dual::new(c(2.0), c(8.0))));
    assert_eq!(xs[1].grad(), Ok(fixed(40.0)));
}

fn f23_lists_of_different_lengths<F: Float>() {
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
