//! Matrix products `C (+)= A · B` for all three layouts of a linear layer.
//!
//! B is packed into panels of up to three vectors of columns and multiplied by eight (or four) rows of A at a time,
//! accumulated in registers.
//! A is read where it lies. Unlike matrixmultiply, which would do the same job, nothing is allocated per call: the panel
//! lives in the caller's scratch memory.

use pulp::{Simd, WithSimd};

use crate::Element;
use crate::element::KernelElement;
use crate::kernels::transpose::transpose;

/// A matrix that is only read: element (i, j) is at `i · row_stride + j · column_stride`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// A matrix stored row by row without gaps.
    pub(crate) fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        Matrix::strided(data, rows, columns, columns)
    }

    /// A matrix whose rows start `row_stride` numbers apart.
    pub(crate) fn strided(data: &'a [T], rows: usize, columns: usize, row_stride: usize) -> Self {
        debug_assert!(data.len() >= (rows - 1) * row_stride + columns);
        Matrix {
            data,
            rows,
            columns,
            row_stride,
            column_stride: 1,
        }
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    pub(crate) fn column_count(&self) -> usize {
        self.columns
    }

    /// A row of a matrix whose rows are stored without gaps.
    #[inline(always)]
    pub(crate) fn row(&self, row: usize) -> &'a [T] {
        debug_assert_eq!(self.column_stride, 1);
        &self.data[row * self.row_stride..][..self.columns]
    }

    /// Some neighbouring columns.
    pub(crate) fn columns(self, first: usize, count: usize) -> Self {
        Matrix {
            data: &self.data[first * self.column_stride..],
            columns: count,
            ..self
        }
    }

    /// The transpose, without moving anything.
    pub(crate) fn t(self) -> Self {
        Matrix {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

/// What happens to the destination.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Store {
    /// `C = A · B`
    Set,
    /// `C += A · B`
    Add,
}

/// The destination, stored row by row.
pub(crate) struct Destination<'a, T> {
    data: &'a mut [T],
    row_stride: usize,
    store: Store,
}

impl<'a, T> Destination<'a, T> {
    /// `C = A · B`, rows `row_stride` numbers apart.
    pub(crate) fn set(data: &'a mut [T], row_stride: usize) -> Self {
        Destination {
            data,
            row_stride,
            store: Store::Set,
        }
    }

    /// `C += A · B`, rows `row_stride` numbers apart.
    pub(crate) fn add(data: &'a mut [T], row_stride: usize) -> Self {
        Destination {
            data,
            row_stride,
            store: Store::Add,
        }
    }
}

/// Numbers in the widest vector register: sixteen f32.
pub(crate) const WIDEST_VECTOR: usize = 16;

/// The inner dimension is cut into blocks of this size: the panel stays in the cache and small, and sums of f32 short.
pub(crate) const DEEPEST: usize = 1024;

/// Numbers of scratch memory that [`gemm`] needs for a product whose inner dimension is `depth`.
pub(crate) fn panel_len(depth: usize) -> usize {
    depth.min(DEEPEST) * WIDEST * WIDEST_VECTOR
}

/// Multiplies; `panel` has [`panel_len`] numbers or more, with arbitrary contents.
pub(crate) fn gemm<T: Element>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    c: Destination<'_, T>,
    panel: &mut [T],
) {
    debug_assert_eq!(a.columns, b.rows);
    debug_assert!(c.data.len() >= (a.rows - 1) * c.row_stride + b.columns);
    let mut store = c.store;
    for first in (0..a.columns).step_by(DEEPEST) {
        let depth = (a.columns - first).min(DEEPEST);
        let c = Destination {
            data: &mut *c.data,
            row_stride: c.row_stride,
            store,
        };
        let (a, b) = (a.columns(first, depth), b.t().columns(first, depth).t());
        super::dispatch::arch().dispatch(Multiply { a, b, c, panel });
        store = Store::Add;
    }
}

/// The widest panel in vectors. Eight rows times three vectors of sums, three of B and one of A fill most of 32
/// registers; machines with 16 take four rows.
pub(crate) const WIDEST: usize = 3;

/// A product as [`gemm`] makes it, for callers that are compiled for a SIMD level themselves.
pub(crate) struct Multiply<'a, T> {
    pub(crate) a: Matrix<'a, T>,
    pub(crate) b: Matrix<'a, T>,
    pub(crate) c: Destination<'a, T>,
    pub(crate) panel: &'a mut [T],
}

impl<T: Element> WithSimd for Multiply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::REGISTER_COUNT >= 32 {
            self.run::<S, 8>(simd);
        } else {
            self.run::<S, 4>(simd);
        }
    }
}

impl<T: Element> Multiply<'_, T> {
    /// Goes over the panels, with `R` rows of A at a time.
    #[inline(always)]
    fn run<S: Simd, const R: usize>(mut self, simd: S) {
        let lanes = lanes::<T, S>();
        let mut column = 0;
        while column < self.b.columns {
            let vectors = (self.b.columns - column).div_ceil(lanes).min(WIDEST);
            match vectors {
                1 => self.panel::<S, R, 1>(simd, column),
                2 => self.panel::<S, R, 2>(simd, column),
                _ => self.panel::<S, R, 3>(simd, column),
            }
            column += vectors * lanes;
        }
    }

    /// Packs `V` vectors of columns from `column` on, and multiplies all of A by them.
    #[inline(always)]
    fn panel<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, column: usize) {
        let lanes = lanes::<T, S>();
        let b = self.b;
        let panel = &mut self.panel[..b.rows * V * lanes];
        pack::<T, S, V>(simd, b, column, panel);
        let (panel, _) = T::vectors_mut::<S>(panel);
        let (panel, _) = panel.as_chunks::<V>();
        let c = Destination {
            data: &mut self.c.data[column..],
            ..self.c
        };
        let width = (b.columns - column).min(V * lanes);
        if self.a.column_stride == 1 {
            multiply_rows::<T, S, R, V>(simd, self.a, panel, c, width);
        } else {
            multiply_columns::<T, S, R, V>(simd, self.a, panel, c, width);
        }
    }
}

/// Numbers in a vector.
#[inline(always)]
pub(crate) fn lanes<T: Element, S: Simd>() -> usize {
    size_of::<T::Vector<S>>() / size_of::<T>()
}

/// `C (+)= A · P` for rows of A that are stored without gaps, and the first `width` columns of a packed panel P.
#[inline(always)]
pub(crate) fn multiply_rows<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    a: Matrix<'_, T>,
    panel: &[[T::Vector<S>; V]],
    c: Destination<'_, T>,
    width: usize,
) {
    let (stride, store) = (c.row_stride, c.store);
    for row in (0..a.rows).step_by(R) {
        // Rows beyond the last are copies of it; their sums are not stored.
        let mut rows = [a.row(row); R];
        for (i, next) in rows.iter_mut().enumerate().skip(1) {
            *next = a.row((row + i).min(a.rows - 1));
        }
        let sums = tile_of_rows::<T, S, R, V>(simd, rows, panel);
        let height = (a.rows - row).min(R);
        let c = &mut c.data[row * stride..];
        store_tile(simd, &sums[..height], c, stride, width, store);
    }
}

/// As [`multiply_rows`], for columns of A that are stored without gaps.
#[inline(always)]
pub(crate) fn multiply_columns<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    a: Matrix<'_, T>,
    panel: &[[T::Vector<S>; V]],
    mut c: Destination<'_, T>,
    width: usize,
) {
    let mut row = 0;
    while row + R <= a.rows {
        columns_tile::<T, S, R, V>(simd, a, row, panel, &mut c, width);
        row += R;
    }
    while row + 4 <= a.rows {
        columns_tile::<T, S, 4, V>(simd, a, row, panel, &mut c, width);
        row += 4;
    }
    while row < a.rows {
        columns_tile::<T, S, 1, V>(simd, a, row, panel, &mut c, width);
        row += 1;
    }
}

/// The rows of C from `row` on that one tile covers.
#[inline(always)]
fn columns_tile<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    a: Matrix<'_, T>,
    row: usize,
    panel: &[[T::Vector<S>; V]],
    c: &mut Destination<'_, T>,
    width: usize,
) {
    let sums = tile_of_columns::<T, S, R, V>(simd, a, row, panel);
    let (stride, store) = (c.row_stride, c.store);
    store_tile(
        simd,
        &sums,
        &mut c.data[row * stride..],
        stride,
        width,
        store,
    );
}

/// Copies up to `V` vectors of columns of B side by side, zeros beyond its edge.
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
    debug_assert_eq!(b.row_stride, 1);
    if inside < width {
        panel.fill(T::ZERO);
    }
    let source = Matrix {
        data: &b.data[column * b.column_stride..],
        rows: inside,
        columns: b.rows,
        row_stride: b.column_stride,
        column_stride: 1,
    };
    transpose(source, panel, width, |target, x| *target = x);
}

/// `R` rows of `V` vectors of sums.
type Tile<T, S, const R: usize, const V: usize> = [[<T as KernelElement>::Vector<S>; V]; R];

/// The panel times rows of A that are stored without gaps.
#[inline(always)]
fn tile_of_rows<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    rows: [&[T]; R],
    panel: &[[T::Vector<S>; V]],
) -> Tile<T, S, R, V> {
    let mut sums = [[T::ZERO.splat(simd); V]; R];
    let rows = rows.map(|row| &row[..panel.len()]);
    for (k, b) in panel.iter().enumerate() {
        for r in 0..R {
            let a = rows[r][k].splat(simd);
            for v in 0..V {
                sums[r][v] = T::fma_vectors(simd, a, b[v], sums[r][v]);
            }
        }
    }
    sums
}

/// The panel times rows of A whose columns are stored without gaps.
#[inline(always)]
fn tile_of_columns<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    a: Matrix<'_, T>,
    row: usize,
    panel: &[[T::Vector<S>; V]],
) -> Tile<T, S, R, V> {
    let mut sums = [[T::ZERO.splat(simd); V]; R];
    // All columns but the last are followed by another one, so their lengths need no check in the loop.
    let (b_last, b) = panel.split_last().expect("a product has terms");
    let stride = a.column_stride;
    let (a, a_last) = a.data.split_at(b.len() * stride);
    for (b, a) in b.iter().zip(a.chunks_exact(stride)) {
        add_products(simd, &mut sums, &a[row..row + R], b);
    }
    add_products(simd, &mut sums, &a_last[row..row + R], b_last);
    sums
}

/// Adds the products of a column of A and a row of the panel. Not a closure, which might not be compiled into its caller.
#[inline(always)]
fn add_products<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    sums: &mut Tile<T, S, R, V>,
    a: &[T],
    b: &[T::Vector<S>; V],
) {
    for r in 0..R {
        let a = a[r].splat(simd);
        for v in 0..V {
            sums[r][v] = T::fma_vectors(simd, a, b[v], sums[r][v]);
        }
    }
}

/// Writes the first `width` columns of some rows of a tile.
///
/// A slice on purpose: it lets the sums go through memory here, where that costs little. By value, they lived in memory during
/// the multiplication too (245 to 170 GFLOP/s).
#[inline(always)]
fn store_tile<T: Element, S: Simd, const V: usize>(
    simd: S,
    sums: &[[T::Vector<S>; V]],
    c: &mut [T],
    stride: usize,
    width: usize,
    store: Store,
) {
    let lanes = lanes::<T, S>();
    let before_last = (V - 1) * lanes;
    if width == V * lanes {
        for (r, sums) in sums.iter().enumerate() {
            store_vectors(simd, sums, &mut c[r * stride..][..width], store);
        }
    } else if V < WIDEST && width == before_last + lanes / 2 {
        store_rows_of_known_end::<T, S, V>(simd, sums, c, stride, lanes / 2, store);
    } else if V < WIDEST && width == before_last + lanes / 4 {
        store_rows_of_known_end::<T, S, V>(simd, sums, c, stride, lanes / 4, store);
    } else {
        for (r, sums) in sums.iter().enumerate() {
            let (vectors, end) = c[r * stride..][..width].split_at_mut(before_last);
            store_vectors(simd, sums, vectors, store);
            let sum = match store {
                Store::Set => sums[V - 1],
                Store::Add => T::add_vectors(simd, T::load_part(simd, end), sums[V - 1]),
            };
            T::store_part(simd, end, sum);
        }
    }
}

/// Writes as many vectors of sums as there is room for.
#[inline(always)]
fn store_vectors<T: Element, S: Simd>(simd: S, sums: &[T::Vector<S>], c: &mut [T], store: Store) {
    for (c, &sum) in T::vectors_mut::<S>(c).0.iter_mut().zip(sums) {
        *c = match store {
            Store::Set => sum,
            Store::Add => T::add_vectors(simd, *c, sum),
        };
    }
}

/// Rows that end after half or a quarter of a vector, known to the compiler where this is compiled into: without masks, because
/// a load waits for a masked store before it that reaches over the same bytes, also where the mask is off, as from one row
/// of 24 into the next (a quarter of the time of 128×24×24). Not for the widest tiles, whose sums would not stay in registers.
#[inline(always)]
fn store_rows_of_known_end<T: Element, S: Simd, const V: usize>(
    simd: S,
    sums: &[[T::Vector<S>; V]],
    c: &mut [T],
    stride: usize,
    end: usize,
    store: Store,
) {
    let before_last = (V - 1) * lanes::<T, S>();
    for (r, sums) in sums.iter().enumerate() {
        let (vectors, last) = c[r * stride..][..before_last + end].split_at_mut(before_last);
        store_vectors(simd, sums, vectors, store);
        let sum = &T::numbers::<S>(&sums[V - 1..])[..end];
        match store {
            Store::Set => last.copy_from_slice(sum),
            Store::Add => last.iter_mut().zip(sum).for_each(|(c, &sum)| *c += sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::kernels::dispatch::levels;

    fn numbers(rows: usize, columns: usize, seed: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, columns), |(i, j)| {
            (((i * 131 + j * 17 + seed) * 7919) % 23) as f64 - 11.0
        })
    }

    /// Against ndarray's product (matrixmultiply) on whole numbers, where any order of summation is exact.
    fn agrees<T: Element>(m: usize, k: usize, n: usize) {
        let narrow = |x: &Array2<f64>| x.iter().map(|&v| T::from_f64(v)).collect::<Vec<T>>();
        let (a, b, c) = (numbers(m, k, 1), numbers(k, n, 2), numbers(m, n, 3));
        let (at, bt) = (
            a.t().as_standard_layout().into_owned(),
            b.t().as_standard_layout().into_owned(),
        );
        let (product, mut panel) = (a.dot(&b), vec![T::NAN; panel_len(k)]);
        let (a, b, at, bt) = (narrow(&a), narrow(&b), narrow(&at), narrow(&bt));
        for a in [Matrix::new(&a, m, k), Matrix::new(&at, k, m).t()] {
            for b in [Matrix::new(&b, k, n), Matrix::new(&bt, n, k).t()] {
                let mut found = narrow(&c);
                gemm(a, b, Destination::add(&mut found, n), &mut panel);
                assert_eq!(found, narrow(&(&c + &product)), "{m}x{k}x{n} added");
                gemm(a, b, Destination::set(&mut found, n), &mut panel);
                assert_eq!(found, narrow(&product), "{m}x{k}x{n} set");
            }
        }
    }

    #[test]
    fn agrees_with_matrixmultiply_beyond_the_deepest_block() {
        for k in [DEEPEST, DEEPEST + 1, 2 * DEEPEST + 7] {
            agrees::<f64>(9, k, 25);
        }
    }

    #[test]
    fn agrees_with_matrixmultiply_at_every_edge() {
        levels::at_every_level(every_edge);
    }

    fn every_edge() {
        for m in [1, 2, 3, 4, 5, 6, 7, 8, 9, 17] {
            for n in [1, 7, 8, 9, 16, 17, 23, 24, 25, 49, 65] {
                for k in [1, 2, 8, 31] {
                    agrees::<f32>(m, k, n);
                    agrees::<f64>(m, k, n);
                }
            }
        }
    }
}
