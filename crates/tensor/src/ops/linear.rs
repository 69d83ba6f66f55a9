//! `y = f(x wᵀ + b)`: a linear layer with its activation.
//!
//! The activation's slope is kept from the forward pass where the result does not tell it (gelu); for relu, `y > 0` is
//! `z > 0`. The weight is stored with one row per output, as in PyTorch, so that a tied output head can use the table
//! of an embedding as it is.

use burtorch_core::{MatrixView, Scalar};

use super::mismatch;
use crate::kernels::elementwise::{self, add_row, map_leaving_slope, product};
use crate::kernels::gemm::{Destination, Matrix, gemm, panel_len};
use crate::kernels::rows::add_column_sums;
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// The function applied after a linear map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Activation {
    /// None: `f(z) = z`.
    #[default]
    Identity,
    /// `max(z, 0)`, see [`Relu`](super::Relu).
    Relu,
    /// `z Φ(z)`, see [`Gelu`](super::Gelu).
    Gelu,
    /// The tanh form, see [`GeluTanh`](super::GeluTanh).
    GeluTanh,
}

impl Activation {
    fn formula<S: Scalar>(self, z: S) -> S {
        match self {
            Activation::Identity => z,
            Activation::Relu => z.relu(),
            Activation::Gelu => z.gelu(),
            Activation::GeluTanh => z.gelu_tanh(),
        }
    }

    /// Whether the slope must be kept from the forward pass.
    fn keeps_slope(self) -> bool {
        matches!(self, Activation::Gelu | Activation::GeluTanh)
    }
}

/// `f(x wᵀ + b)`. Inputs: x `[.., I]`, w `[O, I]` and, if given, b `[O]` → `[.., O]`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Linear {
    /// The function f.
    pub activation: Activation,
}

impl Linear {
    /// Without an activation.
    #[must_use]
    pub fn plain() -> Self {
        Linear::default()
    }

    /// Numbers of working memory for the gradients before the activation, of a result of `len` numbers.
    fn gradients(&self, len: usize) -> usize {
        match self.activation {
            Activation::Identity => 0,
            _ => len,
        }
    }
}

impl<const N: usize> Op<N> for Linear {
    const NAME: &'static str = "linear";

    fn shape(&self, _: &Context<'_>, x: [Shape; N]) -> Result<Shape> {
        let fits = match x[..] {
            [x, w] => x.rank() > 0 && w.rank() == 2 && w.last() == x.last(),
            [x, w, b] => {
                x.rank() > 0 && w.rank() == 2 && w.last() == x.last() && b.dims() == [w.rows()]
            }
            _ => false,
        };
        if fits {
            x[0].with_last(x[1].rows())
        } else {
            mismatch("linear", "x [.., I], w [O, I] and perhaps b [O]", &x)
        }
    }

    fn saved(&self, x: [Shape; N]) -> usize {
        if self.activation.keeps_slope() {
            x[0].rows() * x[1].rows()
        } else {
            0
        }
    }

    fn scratch(&self, x: [Shape; N]) -> usize {
        let (rows, inputs, outputs) = (x[0].rows(), x[0].last(), x[1].rows());
        self.gradients(rows * outputs) + panel_len(rows.max(inputs).max(outputs))
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, x: [View<'_, S>; N], y: &mut Vec<S>) {
        let bias = x.get(2).map(|bias| bias.data);
        let [x, w] = [x[0].data, x[1].data].map(|data| MatrixView::new(data, x[0].shape.last()));
        S::affine(x, w, bias, y);
        if self.activation != Activation::Identity {
            for z in y {
                *z = self.activation.formula(*z);
            }
        }
    }

    fn forward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        x: [View<'_, T>; N],
        y: &mut [T],
        saved: &mut [T],
    ) {
        let (rows, inputs, outputs) = (x[0].shape.rows(), x[0].shape.last(), x[1].shape.rows());
        let z = if self.activation.keeps_slope() {
            &mut *saved
        } else {
            &mut *y
        };
        let (a, w) = (
            Matrix::new(x[0].data, rows, inputs),
            Matrix::new(x[1].data, outputs, inputs),
        );
        gemm(a, w.t(), Destination::set(z, outputs), run.scratch);
        if let Some(b) = x.get(2) {
            add_row(z, b.data);
        }
        match self.activation {
            Activation::Identity => {}
            Activation::Relu => y
                .iter_mut()
                .for_each(|y| *y = if *y <= T::ZERO { T::ZERO } else { *y }),
            Activation::Gelu => map_leaving_slope::<T, elementwise::Gelu>(saved, y),
            Activation::GeluTanh => map_leaving_slope::<T, elementwise::GeluTanh>(saved, y),
        }
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        x: [View<'_, T>; N],
        y: &[T],
        saved: &[T],
        dy: &[T],
        mut dx: [Option<&mut [T]>; N],
    ) {
        let (rows, inputs, outputs) = (x[0].shape.rows(), x[0].shape.last(), x[1].shape.rows());
        let (before, panel) = run.scratch.split_at_mut(self.gradients(dy.len()));
        let dz = match self.activation {
            Activation::Identity => dy,
            Activation::Relu => {
                for ((dz, &y), &dy) in before.iter_mut().zip(y).zip(dy) {
                    *dz = if y > T::ZERO { dy } else { T::ZERO };
                }
                before
            }
            Activation::Gelu | Activation::GeluTanh => {
                product(before, saved, dy);
                before
            }
        };
        let dz_matrix = Matrix::new(dz, rows, outputs);
        if let Some(dx) = &mut dx[0] {
            let w = Matrix::new(x[1].data, outputs, inputs);
            gemm(dz_matrix, w, Destination::add(dx, inputs), panel);
        }
        if let Some(dw) = &mut dx[1] {
            let x = Matrix::new(x[0].data, rows, inputs);
            gemm(dz_matrix.t(), x, Destination::add(dw, inputs), panel);
        }
        if let Some(Some(db)) = dx.get_mut(2) {
            add_column_sums(db, dz);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        for activation in [
            Activation::Identity,
            Activation::Relu,
            Activation::Gelu,
            Activation::GeluTanh,
        ] {
            let op = Linear { activation };
            OpCheck::default().run(&op, &[&[2, 3, 5], &[9, 5]]).unwrap();
            OpCheck::default()
                .run(&op, &[&[3, 5], &[26, 5], &[26]])
                .unwrap();
            OpCheck::default()
                .run(&op, &[&[9, 1], &[1, 1], &[1]])
                .unwrap();
        }
    }

    #[test]
    fn refuses_shapes_that_do_not_fit() {
        let check = OpCheck::default();
        assert!(
            check
                .run::<2, _>(&Linear::plain(), &[&[3, 4], &[2, 5]])
                .is_err()
        );
        assert!(
            check
                .run::<3, _>(&Linear::plain(), &[&[3, 4], &[2, 4], &[3]])
                .is_err()
        );
        assert!(check.run::<1, _>(&Linear::plain(), &[&[3, 4]]).is_err());
        assert!(
            check
                .run::<2, _>(&Linear::plain(), &[&[], &[1, 1]])
                .is_err()
        );
    }
}
