//! Reductions along rows and columns.
//!
//! Sums run in sixteen independent lanes that are added in a fixed order: the same bits on every machine's lane width,
//! and short enough chains that f32 sums of millions of terms keep their digits.

use pulp::Simd;

use super::dispatch::kernel;
use super::vectors::{WIDEST_VECTOR, map};
use crate::Element;

const LANES: usize = 16;

/// Folds the lanes pairwise, in a fixed order. Written out, since lanes stay in a register only where the compiler sees
/// every place in them.
#[inline(always)]
fn fold<T: Element>(lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
    let (mut eight, mut four) = ([T::ZERO; 8], [T::ZERO; 4]);
    for i in 0..8 {
        eight[i] = combine(lanes[i], lanes[i + 8]);
    }
    for i in 0..4 {
        four[i] = combine(eight[i], eight[i + 4]);
    }
    let two = [combine(four[0], four[2]), combine(four[1], four[3])];
    combine(two[0], two[1])
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
    /// `total[j] += Σᵢ x[i][j]` over the rows of `x`, in blocks of 4096 rows, so that long f32 sums keep their digits.
    pub(crate) fn add_column_sums<'a, T>([simd] total: &'a mut [T], x: &'a [T]) {
        let width = total.len();
        let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
        for x in x.chunks(BLOCK * width) {
            if width < lanes {
                let add = |sum, row| T::add_vectors(simd, sum, T::load_part(simd, row));
                let sum = x.chunks_exact(width).fold(T::ZERO.splat(simd), add);
                add_lanes(total, T::numbers::<S>(&[sum]));
                continue;
            }
            let mut column = 0;
            while column < width {
                column += match (width - column) / lanes {
                    0 => add_columns::<T, S, 1>(simd, total, x, column),
                    1 => add_columns::<T, S, 1>(simd, total, x, column),
                    2..4 => add_columns::<T, S, 2>(simd, total, x, column),
                    4..8 => add_columns::<T, S, 4>(simd, total, x, column),
                    _ => add_columns::<T, S, 8>(simd, total, x, column),
                };
            }
        }
    }
}

/// Adds the sums of the columns that `V` vectors hold from `column` on, and says how many these are. Where less than a
/// vector is left, the vector begins before `column`.
#[inline(always)]
fn add_columns<T: Element, S: Simd, const V: usize>(
    simd: S,
    total: &mut [T],
    x: &[T],
    column: usize,
) -> usize {
    let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
    let begin = column.min(total.len() - V * lanes);
    let mut sums = [T::ZERO.splat(simd); V];
    for row in x.chunks_exact(total.len()) {
        let (row, _) = T::vectors::<S>(&row[begin..begin + V * lanes]);
        for (sum, &x) in sums.iter_mut().zip(row) {
            *sum = T::add_vectors(simd, *sum, x);
        }
    }
    let sums = &T::numbers::<S>(&sums)[column - begin..];
    add_lanes(&mut total[column..], sums);
    sums.len()
}

#[inline(always)]
fn add_lanes<T: Element>(total: &mut [T], sums: &[T]) {
    for (total, &sum) in total.iter_mut().zip(sums) {
        *total += sum;
    }
}

/// Turns a row of logits into `exp(x − max)` and returns `(max, Σ exp(x − max))`. A row of −∞ becomes zeros, with sum 0.
#[inline(always)]
pub(crate) fn exp_shifted<T: Element, S: Simd>(simd: S, x: &[T], y: &mut [T]) -> (T, T) {
    let shift = |top| if top == T::NEG_INFINITY { T::ZERO } else { top };
    let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
    let (whole, rest) = T::vectors::<S>(x);
    let Some(begin) = x.len().checked_sub(lanes) else {
        let top = max(x);
        for (y, &x) in y.iter_mut().zip(x) {
            *y = (x - shift(top)).exp_fast::<S>();
        }
        return (top, sum_by(y, |y| y));
    };
    // The last vector ends with the row, so it begins with numbers that came before.
    let last = T::vectors::<S>(&x[begin..]).0[0];
    let larger = |a, &b| T::max_vectors(simd, a, b);
    let top = T::max_lanes(simd, whole.iter().fold(last, larger));
    let shift = shift(top);
    let exp = |x| map::<T, S>(x, |x| (x - shift).exp_fast::<S>());

    let last = exp(last);
    let mut sum = T::fma_vectors(
        simd,
        last,
        ones_behind::<T, S>(rest.len()),
        T::ZERO.splat(simd),
    );
    for (y, &x) in T::vectors_mut::<S>(y).0.iter_mut().zip(whole) {
        *y = exp(x);
        sum = T::add_vectors(simd, sum, *y);
    }
    T::vectors_mut::<S>(&mut y[begin..]).0[0] = last;
    (top, T::sum_lanes(simd, sum))
}

/// 1 in the last `count` lanes, 0 in the others.
#[inline(always)]
fn ones_behind<T: Element, S: Simd>(count: usize) -> T::Vector<S> {
    let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
    let mut steps = [T::ZERO; 2 * WIDEST_VECTOR];
    steps[lanes..].fill(T::ONE);
    T::vectors::<S>(&steps[count..]).0[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dispatch::levels::at_every_level;

    kernel! {
        fn exponentials<'a, T>([simd] x: &'a [T], y: &'a mut [T]) -> (T, T) {
            exp_shifted(simd, x, y)
        }
    }

    #[test]
    fn exponentials_of_rows_of_every_length() {
        at_every_level(|| {
            for n in 1..70 {
                for largest in [0, n / 2, n - 1] {
                    let mut x: Vec<f64> = (0..n).map(|i| ((i * 7919) % 31) as f64 / 8.0).collect();
                    x[largest] = 5.0;
                    let mut y = vec![f64::NAN; n];
                    let (top, sum) = exponentials(&x, &mut y);
                    let right = x
                        .iter()
                        .zip(&y)
                        .all(|(x, &y)| (y - (x - 5.0).exp()).abs() < 1e-15);
                    assert!(
                        right && top == 5.0 && (sum / y.iter().sum::<f64>() - 1.0).abs() < 1e-14
                    );
                }
            }
        });
    }

    #[test]
    fn f08_exponentials_of_infinities_and_nan() {
        at_every_level(|| {
            for n in [1, 5, 16, 37] {
                let mut y = vec![1f32; n];
                let masked = exponentials(&vec![f32::NEG_INFINITY; n], &mut y);
                assert_eq!((masked, &y), ((f32::NEG_INFINITY, 0.0), &vec![0.0; n]));
                for place in [0, n / 2, n - 1] {
                    let mut x = vec![f32::NEG_INFINITY; n];
                    x[place] = -3.0;
                    let one = exponentials(&x, &mut y);
                    assert_eq!(one, (-3.0, 1.0));
                    for bad in [f32::NAN, f32::INFINITY] {
                        x[place] = bad;
                        assert!(
                            exponentials(&x, &mut y).1.is_nan(),
                            "{bad} at {place} of {n}"
                        );
                    }
                }
            }
        });
    }

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
    fn column_sums_add_at_every_width_and_level() {
        let few = (1..70).chain([127, 128, 129, 300]).map(|width| (width, 7));
        let many = [(3, BLOCK + 5), (24, 2 * BLOCK + 1), (130, BLOCK + 1)];
        at_every_level(|| {
            for (width, rows) in few.clone().chain(many) {
                let x: Vec<f32> = (0..width * rows).map(|i| (i % 13) as f32).collect();
                let mut total = vec![1.0; width];
                add_column_sums(&mut total, &x);
                let plain = |j: usize| 1.0 + x.iter().skip(j).step_by(width).sum::<f32>();
                assert!((0..width).all(|j| total[j] == plain(j)), "{rows}x{width}");
            }
        });
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
