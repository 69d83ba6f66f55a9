//! Rows as vectors of the SIMD level, and a part of a vector at their end.

use pulp::Simd;
use pulp::bytemuck::cast_slice_mut;

use crate::Element;

/// Numbers in the widest vector: sixteen f32.
pub(crate) const WIDEST_VECTOR: usize = 16;

/// `end + Σ f(x)` over the vectors of a row, lane by lane.
#[inline(always)]
pub(crate) fn vector_sum<T: Element, S: Simd>(
    simd: S,
    x: &[T::Vector<S>],
    end: T::Vector<S>,
    f: impl Fn(T::Vector<S>) -> T::Vector<S>,
) -> T::Vector<S> {
    let add = |a, b| T::add_vectors(simd, a, b);
    let zero = T::ZERO.splat(simd);
    let mut sums = [end, zero, zero, zero];
    let (fours, rest) = x.as_chunks::<4>();
    for four in fours {
        for (sum, &x) in sums.iter_mut().zip(four) {
            *sum = add(*sum, f(x));
        }
    }
    for (sum, &x) in sums.iter_mut().zip(rest) {
        *sum = add(*sum, f(x));
    }
    add(add(sums[0], sums[1]), add(sums[2], sums[3]))
}

/// `f` of every lane.
#[inline(always)]
pub(crate) fn map<T: Element, S: Simd>(x: T::Vector<S>, f: impl Fn(T) -> T) -> T::Vector<S> {
    let mut vector = [x];
    for x in cast_slice_mut::<_, T>(&mut vector) {
        *x = f(*x);
    }
    vector[0]
}

/// Fewer numbers than a vector has lanes, zeros behind them.
///
/// Half a vector, the commonest part, is not loaded with a mask: a load waits for a masked store before it that reaches
/// over the same bytes, also where the mask is off, as from one row of 24 into the next. Nor is nothing, whose address
/// may be none of memory, which costs a masked load a hundred nanoseconds.
#[inline(always)]
pub(crate) fn load_end<T: Element, S: Simd>(simd: S, x: &[T]) -> T::Vector<S> {
    let half = size_of::<T::Vector<S>>() / size_of::<T>() / 2;
    let mut vector = [T::ZERO.splat(simd)];
    if x.is_empty() {
        return vector[0];
    }
    if x.len() == half {
        cast_slice_mut::<_, T>(&mut vector)[..half].copy_from_slice(x);
        return vector[0];
    }
    T::load_part(simd, x)
}

/// Puts the first lanes into `y`, which is shorter than a vector; see [`load_end`].
#[inline(always)]
pub(crate) fn store_end<T: Element, S: Simd>(simd: S, y: &mut [T], vector: T::Vector<S>) {
    let half = size_of::<T::Vector<S>>() / size_of::<T>() / 2;
    if y.len() == half {
        y.copy_from_slice(&T::numbers::<S>(&[vector])[..half]);
    } else if !y.is_empty() {
        T::store_part(simd, y, vector);
    }
}

/// A row as whole vectors and a last one that the rest only begins to fill; the lanes behind are 0.
#[inline(always)]
pub(crate) fn split<T: Element, S: Simd>(simd: S, row: &[T]) -> (&[T::Vector<S>], T::Vector<S>) {
    let (whole, rest) = T::vectors::<S>(row);
    (whole, load_end(simd, rest))
}

/// 1 in the lanes of the last vector that [`split`] fills from a row of this width, and 0 in the others.
#[inline(always)]
pub(crate) fn ones<T: Element, S: Simd>(simd: S, width: usize) -> T::Vector<S> {
    let lanes = size_of::<T::Vector<S>>() / size_of::<T>();
    load_end(simd, &[T::ONE; WIDEST_VECTOR][..width % lanes])
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::element::KernelElement;
    use crate::kernels::dispatch::{arch, levels};

    /// Takes rows apart, puts them together and sums them, at the level it is run at.
    struct Rows;

    impl WithSimd for Rows {
        type Output = ();

        fn with_simd<S: Simd>(self, simd: S) {
            for width in 0..70 {
                let row: Vec<f32> = (1..=width).map(|i| i as f32).collect();
                let (whole, end) = split::<f32, S>(simd, &row);
                let mut copy = vec![-1.0; width];
                let (to, to_end) = f32::vectors_mut::<S>(&mut copy);
                to.copy_from_slice(whole);
                store_end(simd, to_end, end);
                assert_eq!(copy, row);
                let sum = vector_sum::<f32, S>(simd, whole, end, |x| x);
                assert_eq!(
                    f32::sum_lanes(simd, sum) as usize,
                    width * (width + 1) / 2,
                    "lanes behind the row are 0"
                );
                let filled = f32::sum_lanes(simd, ones::<f32, S>(simd, width)) as usize;
                assert_eq!(
                    filled + whole.len() * f32::numbers::<S>(&[end]).len(),
                    width
                );
            }
        }
    }

    #[test]
    fn rows_of_every_width_come_apart_and_together() {
        levels::at_every_level(|| arch().dispatch(Rows));
    }
}
