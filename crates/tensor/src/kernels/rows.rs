//! Reductions along rows and columns.
//!
//! Sums run in sixteen independent lanes that are added in a fixed order: the same bits on every machine's lane width,
//! and short enough chains that f32 sums of millions of terms keep their digits.

use pulp::Simd;

use super::dispatch::kernel;
use crate::Element;

const LANES: usize = 16;

/// Folds the lanes pairwise, in a fixed order.
#[inline(always)]
fn fold<T: Element>(mut lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = combine(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// `Σ f(xᵢ)` for a short row.
#[inline(always)]
pub(crate) fn sum_by<T: Element>(x: &[T], f: impl Fn(T) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(x);
    }
    fold(lanes, |a, b| a + b)
}

/// `Σ xᵢ yᵢ` for short rows of equal length.
#[inline(always)]
pub(crate) fn dot<T: Element, S: Simd>(x: &[T], y: &[T]) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest = xs.remainder().iter().zip(ys.remainder());
    for (x, y) in xs.zip(ys) {
        for ((lane, &x), &y) in lanes.iter_mut().zip(x).zip(y) {
            *lane = x.fma::<S>(y, *lane);
        }
    }
    for (lane, (&x, &y)) in lanes.iter_mut().zip(rest) {
        *lane = x.fma::<S>(y, *lane);
    }
    fold(lanes, |a, b| a + b)
}

/// The largest element, −∞ for none. NaN is passed over.
#[inline(always)]
pub(crate) fn max<T: Element>(x: &[T]) -> T {
    let larger = |a: T, b: T| if b > a { b } else { a };
    let mut lanes = [T::NEG_INFINITY; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, x);
    }
    fold(lanes, larger)
}

/// Elements that one block of [`sum`] covers.
pub(crate) const BLOCK: usize = 4096;

kernel! {
    /// `Σ xᵢ` of any length: blocks of 4096 in lanes, the blocks added in f64, so that twenty million f32 ones give
    /// twenty million.
    pub(crate) fn sum<'a, T>(x: &'a [T]) -> T {
        T::from_f64(x.chunks(BLOCK).map(|block| sum_by(block, |x| x).to_f64()).sum())
    }
}

kernel! {
    /// `total[j] += Σᵢ x[i][j]` over the rows of `x`.
    pub(crate) fn add_column_sums<'a, T>(total: &'a mut [T], x: &'a [T]) {
        add_column_sums_by(total, x.len(), |_, at| x[at]);
    }
}

/// `total[j] += Σᵢ f(i, at)` over rows of `total.len()` numbers, `at` being the number's place in the `len` numbers of
/// the rows. Rows are summed in blocks of 4096, so that long f32 sums keep their digits.
#[inline(always)]
pub(crate) fn add_column_sums_by<T: Element>(
    total: &mut [T],
    len: usize,
    f: impl Fn(usize, usize) -> T,
) {
    let width = total.len();
    let rows = len / width;
    for first in (0..rows).step_by(BLOCK) {
        for (chunk, total) in total.chunks_mut(LANES).enumerate() {
            let mut lanes = [T::ZERO; LANES];
            for row in first..rows.min(first + BLOCK) {
                let start = row * width + chunk * LANES;
                for (lane, sum) in lanes[..total.len()].iter_mut().enumerate() {
                    *sum += f(row, start + lane);
                }
            }
            total
                .iter_mut()
                .zip(lanes)
                .for_each(|(total, lane)| *total += lane);
        }
    }
}

/// Turns a row of logits into `exp(x − max)` and returns `(max, Σ exp(x − max))`. A row of −∞ becomes zeros, with sum 0.
#[inline(always)]
pub(crate) fn exp_shifted<T: Element, S: Simd>(x: &[T], y: &mut [T]) -> (T, T) {
    let top = max(x);
    let shift = if top == T::NEG_INFINITY { T::ZERO } else { top };
    for (y, &x) in y.iter_mut().zip(x) {
        *y = (x - shift).exp_fast::<S>();
    }
    (top, sum_by(y, |y| y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f12_long_sums_keep_their_digits() {
        assert_eq!(sum(&vec![1f32; 20_000_000]), 20_000_000.0);
        let tenths = sum(&vec![0.1f32; 10_000_000]) as f64;
        assert!((tenths / 1_000_000.014_9 - 1.0).abs() < 1e-5, "{tenths}");
    }

    #[test]
    fn f12_column_sums_keep_their_digits() {
        let (mut total, ones) = ([0f32; 3], vec![1f32; 3 * 17_000_000]);
        add_column_sums(&mut total, &ones);
        assert_eq!(total, [17_000_000.0; 3]);
    }

    #[test]
    fn column_sums_add_at_every_width() {
        for width in 1..40 {
            let x: Vec<f64> = (0..width * 7).map(|i| (i * i % 13) as f64).collect();
            let mut total = vec![1.0; width];
            add_column_sums(&mut total, &x);
            let plain = |j: usize| 1.0 + x.iter().skip(j).step_by(width).sum::<f64>();
            assert!((0..width).all(|j| total[j] == plain(j)), "{width}");
        }
    }

    #[test]
    fn reductions_agree_with_plain_loops_at_every_length() {
        for n in 0..70 {
            let x: Vec<f64> = (0..n).map(|i| ((i * 7919) % 31) as f64 - 15.0).collect();
            let y: Vec<f64> = (0..n).map(|i| ((i * 104_729) % 17) as f64 - 8.0).collect();
            assert_eq!(sum(&x), x.iter().sum::<f64>());
            assert_eq!(
                dot::<f64, pulp::Scalar>(&x, &y),
                x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>()
            );
            assert_eq!(max(&x), x.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
    }
}
