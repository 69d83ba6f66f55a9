//! Matrix products `C (+)= A · B` for all three layouts of a linear layer.
//!
//! B is packed into panels of 24, 16 or 8 columns and multiplied by eight rows of A at a time, accumulated in registers.
//! A is read where it lies. Unlike matrixmultiply, which would do the same job, nothing is allocated per call: the panel
//! lives in the caller's scratch memory.

use pulp::Simd;

use super::dispatch::kernel;
use crate::Element;

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
        debug_assert_eq!(data.len(), rows * columns);
        Matrix {
            data,
            rows,
            columns,
            row_stride: columns,
            column_stride: 1,
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

/// Numbers of scratch memory that [`gemm`] needs for a product whose inner dimension is `depth`.
pub(crate) fn panel_len(depth: usize) -> usize {
    depth * WIDEST
}

/// `C = A · B` or `C += A · B` with `c` stored row by row; `panel` has [`panel_len`] numbers or more.
pub(crate) fn gemm<T: Element>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    c: &mut [T],
    store: Store,
    panel: &mut [T],
) {
    debug_assert_eq!((a.columns, c.len()), (b.rows, a.rows * b.columns));
    multiply(a, b, c, store, panel);
}

/// Rows of A per tile.
const TALL: usize = 8;
/// Columns of the widest panel: with eight rows, 24 accumulators of eight f32 fill the registers of AVX-512VL.
const WIDEST: usize = 24;
/// Numbers in one vector of the tile.
const VECTOR: usize = 8;

kernel! {
    fn multiply<'a, T>(a: Matrix<'a, T>, b: Matrix<'a, T>, c: &'a mut [T], store: Store, panel: &'a mut [T]) {
        let mut column = 0;
        while column < b.columns {
            let left = b.columns - column;
            match left.div_ceil(VECTOR) {
                1 => { panel_times::<T, S, 1>(a, b, c, store, panel, column); column += VECTOR }
                2 => { panel_times::<T, S, 2>(a, b, c, store, panel, column); column += 2 * VECTOR }
                _ => { panel_times::<T, S, 3>(a, b, c, store, panel, column); column += 3 * VECTOR }
            }
        }
    }
}

/// Packs the columns from `column` on, `V` vectors wide, and multiplies all of A by them.
#[inline(always)]
fn panel_times<T: Element, S: Simd, const V: usize>(
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    c: &mut [T],
    store: Store,
    panel: &mut [T],
    column: usize,
) {
    let panel = &mut panel[..b.rows * V * VECTOR];
    pack(b, column, V * VECTOR, panel);
    let (panel, _) = panel.as_chunks::<VECTOR>();
    let (panel, _) = panel.as_chunks::<V>();
    let width = (b.columns - column).min(V * VECTOR);
    let mut row = 0;
    while row < a.rows {
        let height = (a.rows - row).min(TALL);
        let target = &mut c[row * b.columns + column..];
        macro_rules! tile {
            ($rows:literal) => {
                store_tile::<T, V, $rows>(
                    tile::<T, S, V, $rows>(a, row, panel),
                    target,
                    b.columns,
                    width,
                    store,
                )
            };
        }
        match height {
            1 => tile!(1),
            2 => tile!(2),
            3 => tile!(3),
            4 => tile!(4),
            5 => tile!(5),
            6 => tile!(6),
            7 => tile!(7),
            _ => tile!(8),
        }
        row += height;
    }
}

/// Copies `width` columns of B side by side, zeros beyond its edge.
#[inline(always)]
fn pack<T: Element>(b: Matrix<'_, T>, column: usize, width: usize, panel: &mut [T]) {
    let inside = (b.columns - column).min(width);
    if inside < width {
        panel.fill(T::ZERO);
    }
    if b.column_stride == 1 {
        for (row, target) in panel.chunks_exact_mut(width).enumerate() {
            let start = row * b.row_stride + column;
            target[..inside].copy_from_slice(&b.data[start..start + inside]);
        }
    } else {
        debug_assert_eq!(b.row_stride, 1);
        for j in 0..inside {
            let start = (column + j) * b.column_stride;
            for (target, &x) in panel
                .chunks_exact_mut(width)
                .zip(&b.data[start..start + b.rows])
            {
                target[j] = x;
            }
        }
    }
}

/// `R` rows of A times the panel, in registers.
#[inline(always)]
fn tile<T: Element, S: Simd, const V: usize, const R: usize>(
    a: Matrix<'_, T>,
    row: usize,
    panel: &[[[T; VECTOR]; V]],
) -> [[[T; VECTOR]; V]; R] {
    let mut sums = [[[T::ZERO; VECTOR]; V]; R];
    if a.column_stride == 1 {
        let rows: [&[T]; R] =
            std::array::from_fn(|i| &a.data[(row + i) * a.row_stride..][..panel.len()]);
        for (k, b) in panel.iter().enumerate() {
            for i in 0..R {
                add_product::<T, S, V>(&mut sums[i], rows[i][k], b);
            }
        }
    } else {
        for (b, a) in panel.iter().zip(a.data[row..].chunks(a.column_stride)) {
            let a = &a[..R];
            for i in 0..R {
                add_product::<T, S, V>(&mut sums[i], a[i], b);
            }
        }
    }
    sums
}

#[inline(always)]
fn add_product<T: Element, S: Simd, const V: usize>(
    sums: &mut [[T; VECTOR]; V],
    a: T,
    b: &[[T; VECTOR]; V],
) {
    for (sums, b) in sums.iter_mut().zip(b) {
        for (sum, &b) in sums.iter_mut().zip(b) {
            *sum = a.fma::<S>(b, *sum);
        }
    }
}

#[inline(always)]
fn store_tile<T: Element, const V: usize, const R: usize>(
    sums: [[[T; VECTOR]; V]; R],
    c: &mut [T],
    stride: usize,
    width: usize,
    store: Store,
) {
    for (i, sums) in sums.iter().enumerate() {
        let target = &mut c[i * stride..i * stride + width];
        let sums = &sums.as_flattened()[..width];
        match store {
            Store::Set => target.copy_from_slice(sums),
            Store::Add => target.iter_mut().zip(sums).for_each(|(c, &sum)| *c += sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

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
                gemm(a, b, &mut found, Store::Add, &mut panel);
                assert_eq!(found, narrow(&(&c + &product)), "{m}x{k}x{n} added");
                gemm(a, b, &mut found, Store::Set, &mut panel);
                assert_eq!(found, narrow(&product), "{m}x{k}x{n} set");
            }
        }
    }

    #[test]
    fn agrees_with_matrixmultiply_at_every_edge() {
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
