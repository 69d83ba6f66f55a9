//! Products of other people's crates.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};

/// A matrix stored row by row, or the transposed of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a> {
    pub(super) data: &'a [f32],
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Distances of neighbours in a column and in a row.
    pub(super) strides: [usize; 2],
}

/// Someone who multiplies.
pub(super) struct Rival {
    pub(super) name: &'static str,
    /// Writes `a b` into the result, or adds it.
    pub(super) product: fn(a: Matrix<'_>, b: Matrix<'_>, add: bool, result: &mut [f32]),
}

pub(super) const CRATES: &[Rival] = &[
    Rival {
        name: "matrixmultiply",
        product: matrixmultiply,
    },
    #[cfg(feature = "faer")]
    Rival {
        name: "faer",
        product: faer,
    },
    #[cfg(feature = "gemm")]
    Rival {
        name: "gemm",
        product: super::crate_gemm::product,
    },
];

impl<'a> Matrix<'a> {
    pub(super) fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns);
        Self {
            data,
            rows,
            columns,
            strides: [columns, 1],
        }
    }

    pub(super) fn transposed(self) -> Self {
        let [down, across] = self.strides;
        Self {
            rows: self.columns,
            columns: self.rows,
            strides: [across, down],
            ..self
        }
    }

    #[cfg(test)]
    pub(super) fn at(&self, row: usize, column: usize) -> f32 {
        self.data[row * self.strides[0] + column * self.strides[1]]
    }
}

/// Through ndarray, which knows no other.
fn matrixmultiply(a: Matrix<'_>, b: Matrix<'_>, add: bool, result: &mut [f32]) {
    fn view(it: Matrix<'_>) -> ArrayView2<'_, f32> {
        let [down, across] = it.strides;
        ArrayView2::from_shape((it.rows, it.columns).strides((down, across)), it.data)
            .expect("a place for each number")
    }
    let mut c =
        ArrayViewMut2::from_shape((a.rows, b.columns), result).expect("a place for each number");
    general_mat_mul(1.0, &view(a), &view(b), f32::from(add), &mut c);
}

#[cfg(feature = "faer")]
fn faer(a: Matrix<'_>, b: Matrix<'_>, add: bool, result: &mut [f32]) {
    use faer::{Accum, MatMut, MatRef, Par};
    fn view(it: Matrix<'_>) -> MatRef<'_, f32> {
        match it.strides {
            [_, 1] => MatRef::from_row_major_slice(it.data, it.rows, it.columns),
            _ => MatRef::from_column_major_slice(it.data, it.rows, it.columns),
        }
    }
    let c = MatMut::from_row_major_slice_mut(result, a.rows, b.columns);
    let accumulate = if add { Accum::Add } else { Accum::Replace };
    faer::linalg::matmul::matmul(c, accumulate, view(a), view(b), 1.0, Par::Seq);
}
