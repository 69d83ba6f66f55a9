//! Rows of B, cut to the columns of one panel: packed side by side, or read where they lie.

use pulp::Simd;

use super::{Matrix, lanes};
use crate::Element;
use crate::kernels::turn::MOST_LANES;

/// `V` vectors of columns of B.
pub(crate) trait Panel<T: Element, S: Simd, const V: usize> {
    /// How many rows there are.
    fn rows(&self) -> usize;

    /// One of the rows.
    fn row(&self, simd: S, k: usize) -> [T::Vector<S>; V];
}

/// Packed.
impl<T: Element, S: Simd, const V: usize> Panel<T, S, V> for [[T::Vector<S>; V]] {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn row(&self, _: S, k: usize) -> [T::Vector<S>; V] {
        self[k]
    }
}

/// Whole vectors of columns of a matrix whose rows are stored without gaps.
pub(super) struct Unpacked<'a, T> {
    data: &'a [T],
    rows: usize,
    stride: usize,
}

impl<'a, T> Unpacked<'a, T> {
    /// The columns from `column` on.
    #[inline(always)]
    pub(super) fn new(b: Matrix<'a, T>, column: usize) -> Self {
        debug_assert_eq!(b.column_stride, 1);
        Unpacked {
            data: &b.data[column..],
            rows: b.rows,
            stride: b.row_stride,
        }
    }
}

impl<T: Element, S: Simd, const V: usize> Panel<T, S, V> for Unpacked<'_, T> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    fn row(&self, _: S, k: usize) -> [T::Vector<S>; V] {
        let row = &self.data[k * self.stride..][..V * lanes::<T, S>()];
        let (vectors, _) = T::vectors::<S>(row);
        let mut row = [vectors[0]; V];
        row.copy_from_slice(vectors);
        row
    }
}

/// As [`Unpacked`], a vector of columns and then half of one, twice.
pub(super) struct UnpackedHalf<'a, T>(pub(super) Unpacked<'a, T>);

impl<T: Element, S: Simd> Panel<T, S, 2> for UnpackedHalf<'_, T> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.0.rows
    }

    #[inline(always)]
    fn row(&self, simd: S, k: usize) -> [T::Vector<S>; 2] {
        let lanes = lanes::<T, S>();
        let row = &self.0.data[k * self.0.stride..][..lanes + lanes / 2];
        let (first, rest) = row.split_at(lanes);
        [T::vectors::<S>(first).0[0], twice(simd, rest)]
    }
}

/// Half a vector of numbers, twice.
#[inline(always)]
fn twice<T: Element, S: Simd>(simd: S, x: &[T]) -> T::Vector<S> {
    let half = lanes::<T, S>() / 2;
    let mut vector = [T::ZERO.splat(simd)];
    let (low, high) = T::numbers_mut::<S>(&mut vector).split_at_mut(half);
    low.copy_from_slice(&x[..half]);
    high.copy_from_slice(&x[..half]);
    vector[0]
}

/// Copies up to `V` vectors of columns of B side by side; what is beyond its edge has no meaning.
#[inline(always)]
pub(crate) fn pack<T: Element, S: Simd, const V: usize>(
    simd: S,
    b: Matrix<'_, T>,
    column: usize,
    panel: &mut [T],
) {
    let lanes = lanes::<T, S>();
    let width = V * lanes;
    let inside = (b.columns - column).min(width);
    if b.column_stride == 1 {
        for (row, target) in T::vectors_mut::<S>(panel).0.chunks_exact_mut(V).enumerate() {
            let source = &b.data[row * b.row_stride + column..][..inside];
            for (target, source) in target.iter_mut().zip(source.chunks(lanes)) {
                *target = T::load_part(simd, source);
            }
        }
        return;
    }
    for v in 0..V {
        let lane = |lane| v * lanes + lane;
        pack_vector(simd, b, column, lane, &mut panel[v * lanes..], width);
    }
}

/// Copies a vector of columns of B and then the rest, at most half a vector, twice.
#[inline(always)]
pub(super) fn pack_half<T: Element, S: Simd>(
    simd: S,
    b: Matrix<'_, T>,
    column: usize,
    panel: &mut [T],
) {
    let lanes = lanes::<T, S>();
    if b.column_stride == 1 && b.columns - column == lanes + lanes / 2 {
        let source = UnpackedHalf(Unpacked::new(b, column));
        let (panel, _) = T::vectors_mut::<S>(panel);
        for (k, row) in panel.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *row = source.row(simd, k);
        }
        return;
    }
    if b.column_stride == 1 {
        pack::<T, S, 2>(simd, b, column, panel);
        for row in panel.chunks_exact_mut(2 * lanes) {
            let (low, high) = row[lanes..].split_at_mut(lanes / 2);
            high.copy_from_slice(low);
        }
        return;
    }
    pack_vector(simd, b, column, |lane| lane, panel, 2 * lanes);
    let half = |lane| lanes + lane % (lanes / 2);
    pack_vector(simd, b, column, half, &mut panel[lanes..], 2 * lanes);
}

/// Copies columns of B that are stored without gaps: the `place(lane)`th from `column` on into a lane of vectors that begin `stride`
/// numbers apart. Beyond the edge of B, its last column.
#[inline(always)]
fn pack_vector<T: Element, S: Simd>(
    simd: S,
    b: Matrix<'_, T>,
    column: usize,
    place: impl Fn(usize) -> usize,
    target: &mut [T],
    stride: usize,
) {
    debug_assert_eq!(b.row_stride, 1);
    let mut columns: [&[T]; MOST_LANES] = [&[]; MOST_LANES];
    let columns = &mut columns[..lanes::<T, S>()];
    for (lane, target) in columns.iter_mut().enumerate() {
        let column = (column + place(lane)).min(b.columns - 1);
        *target = &b.data[column * b.column_stride..][..b.rows];
    }
    T::rows_to_lanes(simd, columns, target, stride);
}
