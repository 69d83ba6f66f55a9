//! `C = A · B`, for each matrix of a stack.
//!
//! Backward: `dA = dC · Bᵀ`, `dB = Aᵀ · dC`.

use burtorch_core::{MatrixView, Scalar};

use super::mismatch;
use crate::kernels::gemm::{Destination, Matrix, gemm, panel_len};
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// The product of stacks of matrices. Inputs: `[.., M, K]` and `[.., K, N]` with equal leading dimensions → `[.., M, N]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatMul;

/// M, K and N.
fn sizes(a: Shape, b: Shape) -> (usize, usize, usize) {
    (a.dims()[a.rank() - 2], a.last(), b.last())
}

impl Op<2> for MatMul {
    const NAME: &'static str = "matmul";

    fn shape(&self, _: &Context<'_>, x: [Shape; 2]) -> Result<Shape> {
        let [a, b] = x;
        let rank = a.rank();
        let fits = rank >= 2
            && b.rank() == rank
            && a.dims()[..rank - 2] == b.dims()[..rank - 2]
            && a.last() == b.dims()[rank - 2];
        if fits {
            a.with_last(b.last())
        } else {
            mismatch("matmul", "[.., M, K] and [.., K, N]", &x)
        }
    }

    fn scratch(&self, [a, b]: [Shape; 2]) -> usize {
        let (m, k, n) = sizes(a, b);
        panel_len(m.max(k).max(n))
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [a, b]: [View<'_, S>; 2], c: &mut Vec<S>) {
        let (m, k, n) = sizes(a.shape, b.shape);
        for (a, b) in a.data.chunks_exact(m * k).zip(b.data.chunks_exact(k * n)) {
            S::affine(
                MatrixView::new(a, k),
                MatrixView::new(b, n).transposed(),
                None,
                c,
            );
        }
    }

    fn forward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [a, b]: [View<'_, T>; 2],
        c: &mut [T],
        _: &mut [T],
    ) {
        let (m, k, n) = sizes(a.shape, b.shape);
        let stack = a
            .data
            .chunks_exact(m * k)
            .zip(b.data.chunks_exact(k * n))
            .zip(c.chunks_exact_mut(m * n));
        for ((a, b), c) in stack {
            gemm(
                Matrix::new(a, m, k),
                Matrix::new(b, k, n),
                Destination::set(c, n),
                run.scratch,
            );
        }
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [a, b]: [View<'_, T>; 2],
        _: &[T],
        _: &[T],
        dc: &[T],
        [da, db]: [Option<&mut [T]>; 2],
    ) {
        let (m, k, n) = sizes(a.shape, b.shape);
        if let Some(da) = da {
            let stack = dc
                .chunks_exact(m * n)
                .zip(b.data.chunks_exact(k * n))
                .zip(da.chunks_exact_mut(m * k));
            for ((dc, b), da) in stack {
                gemm(
                    Matrix::new(dc, m, n),
                    Matrix::new(b, k, n).t(),
                    Destination::add(da, k),
                    run.scratch,
                );
            }
        }
        if let Some(db) = db {
            let stack = a
                .data
                .chunks_exact(m * k)
                .zip(dc.chunks_exact(m * n))
                .zip(db.chunks_exact_mut(k * n));
            for ((a, dc), db) in stack {
                gemm(
                    Matrix::new(a, m, k).t(),
                    Matrix::new(dc, m, n),
                    Destination::add(db, n),
                    run.scratch,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default()
            .run(&MatMul, &[&[3, 4], &[4, 5]])
            .unwrap();
        OpCheck::default()
            .run(&MatMul, &[&[2, 3, 4], &[2, 4, 1]])
            .unwrap();
    }

    #[test]
    fn refuses_shapes_that_do_not_fit() {
        assert!(
            OpCheck::default()
                .run(&MatMul, &[&[3, 4], &[3, 4]])
                .is_err()
        );
        assert!(
            OpCheck::default()
                .run(&MatMul, &[&[2, 3, 4], &[3, 4, 5]])
                .is_err()
        );
        assert!(OpCheck::default().run(&MatMul, &[&[4], &[4]]).is_err());
    }
}
