//! Values and partial derivatives of the ops over many arguments.
//!
//! Arguments are given as a function of their index, so that the values of handles can be read where they lie. All
//! formulas choose with `select`, `max` and `min`, never by branching on `primal()`.

use crate::float::Float;
use crate::ops::{constant, where_zero};
use crate::scalar::Scalar;

/// Terms that are added before sums are combined in pairs.
const BLOCK: usize = 128;

/// Exponentials that are computed in one go.
const TOGETHER: usize = 4;

/// Exponentials that are computed before they are added.
const AHEAD: usize = 2 * TOGETHER;

/// Sums that are kept side by side within a block, so that additions need not wait for each other and fill vectors.
const SUMS: usize = 8;

/// Maxima that are kept side by side.
const MAXIMA: usize = 4;

/// Whether a number fills vectors, or half of one, on its own, such as lanes. The sums within a block are then computed one after the
/// other, to the same bits: side by side they do not fit into registers, and even programs without sums pay for the room they
/// take (in 16 lanes, half as much time again).
pub(crate) const fn is_large<T>() -> bool {
    size_of::<T>() > size_of::<f64>()
}

/// Terms to be added in blocks. A trait, not a closure, because what is marked to be compiled into its callers is compiled for the
/// vectors that those are compiled for, and long closures are not.
trait Terms<T> {
    /// The terms from `start` on, as many as there are sums side by side.
    fn group(&mut self, start: usize) -> [T; SUMS];
    fn term(&mut self, i: usize) -> T;
}

/// x(i).
struct Each<F>(F);

impl<T: Scalar, F: FnMut(usize) -> T> Terms<T> for Each<F> {
    #[inline(always)]
    fn group(&mut self, start: usize) -> [T; SUMS] {
        let mut group = [constant(0.0); SUMS];
        for (lane, term) in group.iter_mut().enumerate() {
            *term = self.0(start + lane);
        }
        group
    }
    #[inline(always)]
    fn term(&mut self, i: usize) -> T {
        self.0(i)
    }
}

/// The exponentials of x(i) − shift, which are asked for in their order.
struct Shifted<X, T> {
    n: usize,
    x: X,
    shift: T,
    /// Those that have been computed already.
    ahead: [T; AHEAD],
}

impl<T: Scalar, X: Fn(usize) -> T> Terms<T> for Shifted<X, T> {
    #[inline(always)]
    fn group(&mut self, start: usize) -> [T; SUMS] {
        let mut group = [constant(0.0); SUMS];
        exponentials(&self.x, start, self.shift, &mut group);
        group
    }
    #[inline(always)]
    fn term(&mut self, i: usize) -> T {
        if const { is_large::<T>() } {
            let [exponential] = T::exp_each([(self.x)(i) - self.shift]);
            return exponential;
        }
        if i.is_multiple_of(AHEAD) {
            let count = AHEAD.min(self.n - i);
            exponentials(&self.x, i, self.shift, &mut self.ahead[..count]);
        }
        self.ahead[i % AHEAD]
    }
}

/// aᵢbᵢ, with one look at the lengths for each group.
struct Products<'a, T>(&'a [T], &'a [T]);

impl<T: Scalar> Terms<T> for Products<'_, T> {
    #[inline(always)]
    fn group(&mut self, start: usize) -> [T; SUMS] {
        let (a, b) = (&self.0[start..][..SUMS], &self.1[start..][..SUMS]);
        let mut group = [constant(0.0); SUMS];
        for (lane, term) in group.iter_mut().enumerate() {
            *term = a[lane] * b[lane];
        }
        group
    }
    #[inline(always)]
    fn term(&mut self, i: usize) -> T {
        self.0[i] * self.1[i]
    }
}

/// The sum of the terms from `start` to `end`.
#[inline(always)]
fn sum_of_block<T: Scalar>(mut start: usize, end: usize, terms: &mut impl Terms<T>) -> T {
    let mut total = constant::<T>(0.0);
    if const { is_large::<T>() } {
        let grouped = (end - start) / SUMS * SUMS;
        for first in start..start + grouped.min(SUMS) {
            let mut sum = terms.term(first);
            for i in (first + SUMS..start + grouped).step_by(SUMS) {
                sum += terms.term(i);
            }
            total += sum;
        }
        start += grouped;
    } else if end - start >= SUMS {
        let mut sums = terms.group(start);
        start += SUMS;
        while end - start >= SUMS {
            let group = terms.group(start);
            for (sum, term) in sums.iter_mut().zip(group) {
                *sum += term;
            }
            start += SUMS;
        }
        // One after the other: from a tree of sums the compiler would infer vectors of two.
        for sum in sums {
            total += sum;
        }
    }
    for i in start..end {
        total += terms.term(i);
    }
    total
}

/// The sum of `n` terms, added pairwise: the partial sums of equally many blocks wait on a small stack for each other.
#[inline(always)]
fn sum_of<T: Scalar>(n: usize, mut terms: impl Terms<T>) -> T {
    if n <= BLOCK {
        return sum_of_block(0, n, &mut terms);
    }
    let mut waiting = [constant::<T>(0.0); usize::BITS as usize];
    let mut depth = 0;
    for (block, start) in (0..n).step_by(BLOCK).enumerate() {
        let mut sum = sum_of_block(start, n.min(start + BLOCK), &mut terms);
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

/// Σ x(i) for i < n, added pairwise. Large numbers are not asked for in the order of i.
#[inline(always)]
pub(crate) fn sum<T: Scalar>(n: usize, x: impl FnMut(usize) -> T) -> T {
    sum_of(n, Each(x))
}

/// Σ aᵢbᵢ over as many as there are of both, with the bits of [`value::dot`].
#[inline(always)]
pub(crate) fn dot_of_slices<T: Scalar>(a: &[T], b: &[T]) -> T {
    sum_of(a.len().min(b.len()), Products(a, b))
}

/// The largest x(i), if there is one, held within the finite numbers and free of gradient: a shift or a scale that
/// cancels out of the result.
#[inline(always)]
fn finite_maximum<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
    let mut largest = T::constant(-T::Primal::MAX);
    let mut start = 0;
    if const { !is_large::<T>() } && n > MAXIMA {
        let mut maxima = [largest; MAXIMA];
        while n - start >= MAXIMA {
            for (k, maximum) in maxima.iter_mut().enumerate() {
                *maximum = maximum.max(x(start + k));
            }
            start += MAXIMA;
        }
        let [a, b, c, d] = maxima;
        largest = a.max(b).max(c.max(d));
    }
    for i in start..n {
        largest = largest.max(x(i));
    }
    largest.min(T::constant(T::Primal::MAX)).stop_gradient()
}

/// Writes the exponentials of x(i) − shift for i from `first` on to `out`.
#[inline(always)]
fn exponentials<T: Scalar>(x: &impl Fn(usize) -> T, first: usize, shift: T, out: &mut [T]) {
    let mut groups = out.chunks_exact_mut(TOGETHER);
    let mut start = first;
    for group in &mut groups {
        let mut arguments = [constant::<T>(0.0); TOGETHER];
        for (k, argument) in arguments.iter_mut().enumerate() {
            *argument = x(start + k) - shift;
        }
        group.copy_from_slice(&T::exp_each(arguments));
        start += TOGETHER;
    }
    for (k, exponential) in groups.into_remainder().iter_mut().enumerate() {
        [*exponential] = T::exp_each([x(start + k) - shift]);
    }
}

/// The sum in pairs, so that no addition waits for more than one other.
#[inline(always)]
fn sum_of_few<T: Scalar>([a, b, c, d]: [T; TOGETHER]) -> T {
    (a + b) + (c + d)
}

/// The shift and the sum of exponentials behind logsumexp and softmax.
#[derive(Clone, Copy)]
pub(crate) struct Exponentials<T> {
    shift: T,
    total: T,
    /// 1 / total; 0 if the total is 0.
    share: T,
}

impl<T: Scalar> Exponentials<T> {
    #[inline(always)]
    pub(crate) fn of(n: usize, x: impl Fn(usize) -> T) -> Self {
        let shift = finite_maximum(n, &x);
        if n == TOGETHER {
            let mut few = [constant(0.0); TOGETHER];
            exponentials(&x, 0, shift, &mut few);
            return Self::new(shift, sum_of_few(few));
        }
        Self::new(
            shift,
            sum_of(
                n,
                Shifted {
                    n,
                    x,
                    shift,
                    ahead: [constant(0.0); AHEAD],
                },
            ),
        )
    }

    #[inline(always)]
    fn new(shift: T, total: T) -> Self {
        let share = where_zero(total, constant(0.0), total.recip());
        Self {
            shift,
            total,
            share,
        }
    }

    /// ln Σ exp(x(i)).
    #[inline(always)]
    pub(crate) fn logarithm(self) -> T {
        self.shift + self.total.ln()
    }

    /// The share of `x` in the total; 0 if the total is 0.
    #[inline(always)]
    pub(crate) fn weight(self, x: T) -> T {
        let [exponential] = T::exp_each([x - self.shift]);
        exponential * self.share
    }
}

/// Values of the ops over one slice: functions of the number of arguments and of the arguments.
pub(crate) mod value {
    use super::*;

    pub(crate) use super::sum;

    #[inline(always)]
    pub(crate) fn product<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        let mut product = constant::<T>(1.0);
        for i in 0..n {
            product *= x(i);
        }
        product
    }

    #[inline(always)]
    pub(crate) fn mean<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        sum(n, x) / count::<T>(n)
    }

    #[inline(always)]
    pub(crate) fn sum_of_squares<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        sum(n, |i| x(i).square())
    }

    #[inline(always)]
    pub(crate) fn mean_of_squares<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        sum_of_squares(n, x) / count::<T>(n)
    }

    #[inline(always)]
    pub(crate) fn variance<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        let center = mean(n, &x);
        mean_of_squares(n, |i| x(i) - center)
    }

    #[inline(always)]
    pub(crate) fn logsumexp<T: Scalar>(n: usize, x: impl Fn(usize) -> T) -> T {
        Exponentials::of(n, x).logarithm()
    }

    #[inline(always)]
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

    #[inline(always)]
    pub(crate) fn dot<T: Scalar>(n: usize, a: impl Fn(usize) -> T, b: impl Fn(usize) -> T) -> T {
        sum(n, |i| a(i) * b(i))
    }
}

/// Partial derivatives of the ops over one slice, one per argument, written to `out`: functions of the arguments and of
/// the value `y`.
pub(crate) mod partials {
    use super::*;

    #[inline(always)]
    pub(crate) fn sum<T: Scalar>(_: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        out.fill(constant(1.0));
    }

    /// The product of all factors before each, times that of all after it: no division, hence no trouble with zeros.
    #[inline(always)]
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

    #[inline(always)]
    pub(crate) fn mean<T: Scalar>(_: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        out.fill(share(out.len()));
    }

    #[inline(always)]
    pub(crate) fn sum_of_squares<T: Scalar>(x: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        for (i, partial) in out.iter_mut().enumerate() {
            *partial = x(i) + x(i);
        }
    }

    #[inline(always)]
    pub(crate) fn mean_of_squares<T: Scalar>(x: impl Fn(usize) -> T, y: T, out: &mut [T]) {
        let n = count::<T>(out.len());
        sum_of_squares(|i| x(i) / n, y, out);
    }

    #[inline(always)]
    pub(crate) fn variance<T: Scalar>(x: impl Fn(usize) -> T, y: T, out: &mut [T]) {
        let center = value::mean(out.len(), &x);
        mean_of_squares(|i| x(i) - center, y, out);
    }

    #[inline(always)]
    pub(crate) fn logsumexp<T: Scalar>(x: impl Fn(usize) -> T, _: T, out: &mut [T]) {
        weights(x, out);
    }

    #[inline(always)]
    pub(crate) fn norm<T: Scalar>(x: impl Fn(usize) -> T, y: T, out: &mut [T]) {
        for (i, partial) in out.iter_mut().enumerate() {
            *partial = where_zero(y, constant(0.0), x(i) / y);
        }
    }

    /// Of Σ a(i)b(i): first those of a, then those of b, then, if there is room, that of a bias added to it.
    #[inline(always)]
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

/// Writes exp(x(i)) / Σ exp(x(j)) to `out`, zeros if every x(i) is −∞, and gives the sum.
#[inline(always)]
pub(crate) fn weights<T: Scalar>(x: impl Fn(usize) -> T, out: &mut [T]) -> Exponentials<T> {
    if let Ok(few) = <&mut [T; TOGETHER]>::try_from(&mut *out) {
        // Everything stays in registers.
        let mut xs = [constant::<T>(0.0); TOGETHER];
        for (i, slot) in xs.iter_mut().enumerate() {
            *slot = x(i);
        }
        let shift = finite_maximum(TOGETHER, |i| xs[i]);
        for x in &mut xs {
            *x -= shift;
        }
        let xs = T::exp_each(xs);
        let exponentials = Exponentials::new(shift, sum_of_few(xs));
        for (weight, exponential) in few.iter_mut().zip(xs) {
            *weight = exponential * exponentials.share;
        }
        return exponentials;
    }
    let shift = finite_maximum(out.len(), &x);
    exponentials(&x, 0, shift, out);
    let exponentials = Exponentials::new(shift, sum(out.len(), |i| out[i]));
    for weight in out {
        *weight *= exponentials.share;
    }
    exponentials
}

/// An entry wₖ of the softmax, whose partial derivatives wₖ(1 − wₖ) and −wₖwᵢ are written to `out`: 1 − wₖ as the sum of the other
/// entries, which does not cancel.
#[inline(always)]
pub(crate) fn softmax_at<T: Scalar>(x: impl Fn(usize) -> T, index: usize, out: &mut [T]) -> T {
    weights(x, out);
    let (y, mut others) = (out[index], constant::<T>(0.0));
    for (i, weight) in out.iter_mut().enumerate() {
        if i != index {
            others += *weight;
            *weight = -(y * *weight);
        }
    }
    out[index] = y * others;
    y
}

/// The gradient with respect to an argument of softmax: its weight times what its own result's gradient exceeds the mean by,
/// Σ wⱼgⱼ over the results.
#[inline(always)]
pub(crate) fn softmax_gradient<T: Scalar>(weight: T, own: T, mean: T) -> T {
    weight.chain(own - mean)
}

/// 1/n.
#[inline(always)]
pub(crate) fn share<T: Scalar>(n: usize) -> T {
    constant::<T>(1.0) / count::<T>(n)
}

#[inline(always)]
fn count<T: Scalar>(n: usize) -> T::Primal {
    T::Primal::from_usize(n)
}
