//! Matrix products `C (+)= A · B` for all three layouts of a linear layer.
//!
//! B is cut into panels of two or three vectors of columns and multiplied by several rows of A at a time, accumulated
//! in registers: [`tile`], or [`half`] for the columns at the end that fill half of a vector. [`panel`] packs B into scratch
//! memory of the caller's, unless its rows are read once only. A is read where it lies.

mod half;
mod panel;
mod tile;

use pulp::{Simd, WithSimd};

use crate::Element;
pub(crate) use panel::pack;
use panel::{Unpacked, UnpackedHalf, pack_half};
pub(crate) use tile::{multiply_columns, multiply_rows};

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

/// The widest panel in vectors.
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
        // Sums, a row of B and a number of A fill most of the registers. They must not fill all: the compiler takes one more for
        // what comes next, and a sum that has to wait in memory halves the speed (4 rows times 3 vectors in 16 registers).
        if S::REGISTER_COUNT >= 32 {
            self.run::<S, 3, 8, 8>(simd);
        } else {
            self.run::<S, 2, 6, 3>(simd);
        }
    }
}

impl<T: Element> Multiply<'_, T> {
    /// Goes over panels of up to `V` vectors, with `R` rows of A at a time; the last three vectors are one panel in any case, with `LAST`
    /// rows of A at a time.
    #[inline(always)]
    fn run<S: Simd, const V: usize, const R: usize, const LAST: usize>(mut self, simd: S) {
        let lanes = lanes::<T, S>();
        let columns = self.b.columns;
        let half = half::serves(columns, lanes, S::REGISTER_COUNT);
        // What is left for the last panel is a vector and a half.
        let end = if half {
            (columns / lanes - 1) * lanes
        } else {
            columns
        };
        let mut column = 0;
        while column < end {
            let vectors = match (end - column).div_ceil(lanes) {
                3 => 3,
                left => left.min(V),
            };
            match vectors {
                1 => self.panel::<S, R, 1>(simd, column),
                2 => self.panel::<S, R, 2>(simd, column),
                _ => self.panel::<S, LAST, 3>(simd, column),
            }
            column += vectors * lanes;
        }
        if half {
            self.half_panel::<S>(simd, end);
        }
    }

    /// Multiplies all of A by `V` vectors of columns from `column` on.
    #[inline(always)]
    fn panel<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, column: usize) {
        let lanes = lanes::<T, S>();
        let (a, b) = (self.a, self.b);
        let width = (b.columns - column).min(V * lanes);
        let c = Destination {
            data: &mut self.c.data[column..],
            ..self.c
        };
        if a.rows <= R && width == V * lanes && b.column_stride == 1 {
            let panel = Unpacked::new(b, column);
            return tile::multiply::<T, S, _, R, V>(simd, a, &panel, c, width);
        }
        let panel = &mut self.panel[..b.rows * V * lanes];
        pack::<T, S, V>(simd, b, column, panel);
        let (panel, _) = T::vectors_mut::<S>(panel);
        let (panel, _) = panel.as_chunks::<V>();
        tile::multiply::<T, S, _, R, V>(simd, a, panel, c, width);
    }

    /// Multiplies all of A by the vector and a half of columns, or less than the half, that are left from `column` on.
    #[inline(always)]
    fn half_panel<S: Simd>(&mut self, simd: S, column: usize) {
        let lanes = lanes::<T, S>();
        let (a, b) = (self.a, self.b);
        let width = b.columns - column;
        let c = Destination {
            data: &mut self.c.data[column..],
            ..self.c
        };
        if a.rows <= half::ROWS && width == lanes + lanes / 2 && b.column_stride == 1 {
            let panel = UnpackedHalf(Unpacked::new(b, column));
            return half::multiply::<T, S, _>(simd, a, &panel, c, width);
        }
        let panel = &mut self.panel[..b.rows * 2 * lanes];
        pack_half::<T, S>(simd, b, column, panel);
        let (panel, _) = T::vectors_mut::<S>(panel);
        let (panel, _) = panel.as_chunks::<2>();
        half::multiply::<T, S, _>(simd, a, panel, c, width);
    }
}

/// Numbers in a vector.
#[inline(always)]
pub(crate) fn lanes<T: Element, S: Simd>() -> usize {
    size_of::<T::Vector<S>>() / size_of::<T>()
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

    /// Against ndarray's product (matrixmultiply) on whole numbers, where any order of summation is exact. What lies between the rows
    /// of the result stays as it is.
    fn agrees<T: Element>(m: usize, k: usize, n: usize) {
        let narrow = |x: &Array2<f64>| x.iter().map(|&v| T::from_f64(v)).collect::<Vec<T>>();
        let (a, b, c) = (numbers(m, k, 1), numbers(k, n, 2), numbers(m, n, 3));
        let (at, bt) = (
            a.t().as_standard_layout().into_owned(),
            b.t().as_standard_layout().into_owned(),
        );
        let (product, mut panel) = (a.dot(&b), vec![T::NAN; panel_len(k)]);
        let (a, b, at, bt) = (narrow(&a), narrow(&b), narrow(&at), narrow(&bt));
        let stride = n + 3;
        let spread = |x: &Array2<f64>| {
            let number = |(i, j)| if j < n { x[(i, j)] } else { 0.5 };
            narrow(&Array2::from_shape_fn((m, stride), number))
        };
        for a in [Matrix::new(&a, m, k), Matrix::new(&at, k, m).t()] {
            for b in [Matrix::new(&b, k, n), Matrix::new(&bt, n, k).t()] {
                let mut found = spread(&c);
                gemm(a, b, Destination::add(&mut found, stride), &mut panel);
                assert_eq!(found, spread(&(&c + &product)), "{m}x{k}x{n} added");
                gemm(a, b, Destination::set(&mut found, stride), &mut panel);
                assert_eq!(found, spread(&product), "{m}x{k}x{n} set");
            }
        }
    }

    #[test]
    fn agrees_with_matrixmultiply_beyond_the_deepest_block() {
        levels::at_every_level(|| {
            for k in [DEEPEST, DEEPEST + 1, 2 * DEEPEST + 7] {
                for (m, n) in [(5, 12), (5, 24), (9, 24), (9, 25)] {
                    agrees::<f32>(m, k, n);
                    agrees::<f64>(m, k, n);
                }
            }
        });
    }

    #[test]
    fn agrees_with_matrixmultiply_at_every_edge() {
        levels::at_every_level(every_edge);
    }

    fn every_edge() {
        for m in [1, 2, 3, 4, 5, 6, 7, 8, 9, 17] {
            for n in [1, 7, 8, 9, 12, 16, 17, 20, 23, 24, 25, 40, 49, 65] {
                for k in [1, 2, 8, 31] {
                    agrees::<f32>(m, k, n);
                    agrees::<f64>(m, k, n);
                }
            }
        }
    }
}
