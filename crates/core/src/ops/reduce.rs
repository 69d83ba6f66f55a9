//! Values and partial derivatives of the ops over many arguments.
//!
//! Arguments are given as a function of their index, so that the values of handles can be read where they lie. All
//! formulas choose with `select`, `max` and `min`, never by branching on `primal()`.

use crate::float::Float;
use crate::ops::{constant, where_zero};
use crate::scalar::Scalar;

/// Terms that are added one after the other before sums are combined in pairs.
const BLOCK: usize = 128;

/// Σ x(i) for i < n, added pairwise: the partial sums of equally many blocks wait on a small stack for each other.
#[inline]
pub(crate) fn sum<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
    let run = |start: usize, end: usize| (start..end).fold(constant::<T>(0.0), |sum, i| sum + x(i));
    if n <= BLOCK {
        return run(0, n);
    }
    let mut waiting = [constant::<T>(0.0); usize::BITS as usize];
    let mut depth = 0;
    for (block, start) in (0..n).step_by(BLOCK).enumerate() {
        let mut sum = run(start, n.min(start + BLOCK));
        for _ in 0..block.trailing_ones() {
            depth -= 1;
            sum = waiting[depth] + sum;
        }
        waiting[depth] = sum;
        depth += 1;
    }
    waiting[..depth]
        .iter()
        .rev()
        .fold(constant(0.0), |sum, &part| part + sum)
}

/// The largest x(i), −∞ if there is none, held within the finite numbers and free of gradient: a shift or a scale that
/// cancels out of the result.
fn finite_maximum<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
    let least = T::constant(T::Primal::NEG_INFINITY);
    let largest = (0..n).fold(least, |largest, i| largest.max(x(i)));
    let (low, high) = (T::constant(-T::Primal::MAX), T::constant(T::Primal::MAX));
    largest.max(low).min(high).stop_gradient()
}

/// The shift and the sum of exponentials behind logsumexp and softmax.
#[derive(Clone, Copy)]
pub(crate) struct Exponentials<T> {
    shift: T,
    total: T,
}

impl<T: Scalar> Exponentials<T> {
    pub(crate) fn of(n: usize, x: impl Fn(usize) -> T) -> Self {
        let shift = finite_maximum(n, &x);
        let total = sum(n, |i| (x(i) - shift).exp());
        Self { shift, total }
    }

    /// ln Σ exp(x(i)).
    pub(crate) fn logarithm(self) -> T {
        self.shift + self.total.ln()
    }

    /// The share of `x` in the total; 0 if the total is 0.
    pub(crate) fn weight(self, x: T) -> T {
        where_zero(
            self.total,
            constant(0.0),
            (x - self.shift).exp() / self.total,
        )
    }
}

/// Values of the ops over one slice: functions of the number of arguments and of the arguments.
pub(crate) mod value {
    use super::*;

    pub(crate) use super::sum;

    pub(crate) fn product<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        (0..n).fold(constant(1.0), |product: T, i| product * x(i))
    }

    pub(crate) fn mean<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        sum(n, x) / count::<T>(n)
    }

    pub(crate) fn sum_of_squares<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        sum(n, |i| x(i).square())
    }

    pub(crate) fn mean_of_squares<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        sum_of_squares(n, x) / count::<T>(n)
    }

    pub(crate) fn variance<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        let center = mean(n, &x);
        mean_of_squares(n, |i| x(i) - center)
    }

    pub(crate) fn logsumexp<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        Exponentials::of(n, x).logarithm()
    }

    pub(crate) fn norm<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        let largest = finite_maximum(n, |i| x(i).abs());
        let scale = where_zero(largest.max(constant(0.0)), constant(1.0), largest);
        let squares = sum_of_squares(n, |i| x(i) / scale);
        where_zero(
            squares,
            constant(0.0),
            where_zero(squares, constant(1.0), squares).sqrt() * scale,
        )
    }

    pub(crate) fn dot<T: Scalar>(n: usize, a: impl Fn(usize) -> T, b: impl Fn(usize) -> T) -> T {
        sum(n, |i| a(i) * b(i))
    }
}

/// Partial derivatives of the ops over one slice, one per argument, written to `out`: functions of the arguments and of
/// the value `y`.
pub(crate) mod partials {
    use super::*;

    pub(crate) fn sum<T: Scalar>(_: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        out.fill(constant(1.0));
    }

    /// The product of all factors before each, times that of all after it: no division, hence no trouble with zeros.
    pub(crate) fn product<T: Scalar>(x: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        let mut before = constant::<T>(1.0);
        for (i, partial) in out.iter_mut().enumerate() {
            *partial = before;
            before *= x(i);
        }
        let mut after = constant::<T>(1.0);
        for (i, partial) in out.iter_mut().enumerate().rev() {
            *partial *= after;
            after *= x(i);
        }
    }

    pub(crate) fn mean<T: Scalar>(_: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        let share = constant::<T>(1.0) / count::<T>(out.len());
        out.fill(share);
    }

    pub(crate) fn sum_of_squares<T: Scalar>(x: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        for (i, partial) in out.iter_mut().enumerate() {
            *partial = x(i) + x(i);
        }
    }

    pub(crate) fn mean_of_squares<T: Scalar>(x: impl Fn(usize) -> T, y: T, out: &mut [T]) {
        let n = count::<T>(out.len());
        sum_of_squares(|i| x(i) / n, y, out);
    }

    pub(crate) fn variance<T: Scalar>(x: impl Fn(usize) -> T, y: T, out: &mut [T]) {
        let center = value::mean(out.len(), &x);
        mean_of_squares(|i| x(i) - center, y, out);
    }

    pub(crate) fn logsumexp<T: Scalar>(x: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        weights(x, out);
    }

    pub(crate) fn norm<T: Scalar>(x: impl Fn(usize) -> T, y: T, out: &mut [T]) {
        for (i, partial) in out.iter_mut().enumerate() {
            *partial = where_zero(y, constant(0.0), x(i) / y);
        }
    }

    /// Of Σ a(i)b(i): first those of a, then those of b, then, if there is room, that of a bias added to it.
    pub(crate) fn dot<T: Scalar>(
        n: usize,
        a: impl Fn(usize) -> T,
        b: impl Fn(usize) -> T,
        out: &mut [T],
    ) {
        let (of_a, rest) = out.split_at_mut(n);
        let (of_b, of_bias) = rest.split_at_mut(n);
        for i in 0..n {
            (of_a[i], of_b[i]) = (b(i), a(i));
        }
        of_bias.fill(constant(1.0));
    }
}

/// Writes exp(x(i)) / Σ exp(x(j)) to `out`, zeros if every x(i) is −∞.
#[inline]
pub(crate) fn weights<T: Scalar>(x: impl Fn(usize) -> T, out: &mut [T]) {
    let shift = finite_maximum(out.len(), &x);
    for (i, weight) in out.iter_mut().enumerate() {
        *weight = (x(i) - shift).exp();
    }
    let total = sum(out.len(), |i| out[i]);
    for weight in out {
        *weight = where_zero(total, constant(0.0), *weight / total);
    }
}

/// Turns the gradients of the results of softmax, which are `weights`, into those of its arguments:
/// wᵢ(gᵢ − Σ wⱼgⱼ), where what nothing flows back from contributes nothing.
#[inline]
pub(crate) fn softmax_pull_back<T: Scalar>(weights: &[T], gradients: &mut [T]) {
    let mean = sum(weights.len(), |i| weights[i].chain(gradients[i]));
    for (gradient, weight) in gradients.iter_mut().zip(weights) {
        *gradient = weight.chain(*gradient - mean);
    }
}

fn count<T: Scalar>(n: usize) -> T::Primal {
    T::Primal::from_usize(n)
}
