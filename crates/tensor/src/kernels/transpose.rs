//! Rows as columns.
#![allow(
    unsafe_code,
    reason = "the compiler does not find the shuffles by itself; with them a transpose takes a third of the time"
)]

use super::gemm::Matrix;
use crate::element::KernelElement;

/// Calls `f` for every number of a matrix, whose rows are stored without gaps, and its place in the transpose, whose rows are
/// `stride` numbers apart.
#[inline(always)]
pub(crate) fn transpose<T: KernelElement>(
    matrix: Matrix<'_, T>,
    target: &mut [T],
    stride: usize,
    f: impl Fn(&mut T, T),
) {
    let fours = matrix.rows() / 4 * 4;
    for j in (0..fours).step_by(4) {
        let rows = [j, j + 1, j + 2, j + 3].map(|j| matrix.row(j));
        transpose_four(rows, &mut target[j..], stride, &f);
    }
    for j in fours..matrix.rows() {
        for (target, &x) in target[j..].iter_mut().step_by(stride).zip(matrix.row(j)) {
            f(target, x);
        }
    }
}

/// Four rows of a [`transpose`], in squares of four.
#[inline(always)]
pub(crate) fn transpose_four<T: KernelElement>(
    rows: [&[T]; 4],
    target: &mut [T],
    stride: usize,
    f: &impl Fn(&mut T, T),
) {
    let [a, b, c, d] = rows.map(|row| row.as_chunks::<4>());
    let squares = a.0.iter().zip(b.0).zip(c.0.iter().zip(d.0));
    for (((a, b), (c, d)), target) in squares.zip(target.chunks_mut(4 * stride)) {
        let target = &mut target[..3 * stride + 4];
        let columns = T::transpose_square([*a, *b, *c, *d]);
        for (i, column) in columns.iter().enumerate() {
            let target = &mut target[i * stride..i * stride + 4];
            (0..4).for_each(|j| f(&mut target[j], column[j]));
        }
    }
    let whole = 4 * a.0.len();
    for (r, rest) in [a.1, b.1, c.1, d.1].into_iter().enumerate() {
        for (k, &x) in rest.iter().enumerate() {
            f(&mut target[(whole + k) * stride + r], x);
        }
    }
}

/// The first four columns of four rows that begin `stride` numbers apart.
#[inline(always)]
pub(crate) fn columns_of_four<T: KernelElement>(rows: &[T], stride: usize) -> [[T; 4]; 4] {
    let rows = &rows[..3 * stride + 4];
    let mut square = [[T::ZERO; 4]; 4];
    for (i, row) in square.iter_mut().enumerate() {
        row.copy_from_slice(&rows[i * stride..i * stride + 4]);
    }
    T::transpose_square(square)
}

/// The transpose of four rows of four.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn square(rows: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
    use pulp::bytemuck::cast;
    use std::arch::x86_64::{
        __m128, _mm_movehl_ps, _mm_movelh_ps, _mm_unpackhi_ps, _mm_unpacklo_ps,
    };

    let [a, b, c, d]: [__m128; 4] = rows.map(cast);
    // SAFETY: these are SSE, which every x86-64 has.
    let columns = unsafe {
        let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
        let (ab_high, cd_high) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
        [
            _mm_movelh_ps(ab, cd),
            _mm_movehl_ps(cd, ab),
            _mm_movelh_ps(ab_high, cd_high),
            _mm_movehl_ps(cd_high, ab_high),
        ]
    };
    columns.map(cast)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Element;

    /// Adds the transpose of every size up to nine to a target with gaps between its rows.
    fn adds_the_transpose<T: Element>() {
        for rows in 1..10 {
            for columns in 1..10 {
                let number = |i: usize| T::from_usize(i + 1);
                let matrix: Vec<T> = (0..rows * (columns + 2)).map(number).collect();
                let mut target = vec![T::ONE; columns * (rows + 3)];
                let matrix = Matrix::strided(&matrix, rows, columns, columns + 2);
                transpose(matrix, &mut target, rows + 3, |target, x| *target += x);
                for (i, found) in target.into_iter().enumerate() {
                    let (row, column) = (i / (rows + 3), i % (rows + 3));
                    let inside = column < rows;
                    let expected = if inside {
                        number(column * (columns + 2) + row)
                    } else {
                        T::ZERO
                    };
                    assert_eq!(
                        found,
                        T::ONE + expected,
                        "{rows} rows of {columns}, at {row}, {column}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_size_is_transposed() {
        adds_the_transpose::<f32>();
        adds_the_transpose::<f64>();
    }
}
