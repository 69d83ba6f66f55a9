//! `yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)` along the last dimension.
//!
//! Entries of −∞ are masked: they get 0. A row of nothing but −∞ gives zeros, with zero gradient, instead of 0/0.
//! Backward: `dxᵢ = yᵢ (dyᵢ − Σⱼ yⱼ dyⱼ)`.

use burtorch_core::{Float, Number, Scalar};

use crate::kernels::dispatch::kernel;
use crate::kernels::rows::{dot, exp_shifted};
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// Softmax of each row. `[.., C]` → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Softmax;

kernel! {
    fn softmax_rows<'a, T>([simd] x: &'a [T], y: &'a mut [T], width: usize) {
        for (x, y) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
            let (_, total) = exp_shifted(simd, x, y);
            let factor = if total == T::ZERO { T::ZERO } else { T::ONE / total };
            y.iter_mut().for_each(|y| *y *= factor);
        }
    }
}

kernel! {
    fn softmax_rows_backward<'a, T>(y: &'a [T], dy: &'a [T], dx: &'a mut [T], width: usize) {
        for ((y, dy), dx) in y.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width)) {
            let mean = dot::<T, S>(y, dy);
            for ((&y, &dy), dx) in y.iter().zip(dy).zip(dx) {
                *dx = y.fma::<S>(dy - mean, *dx);
            }
        }
    }
}

impl Op<1> for Softmax {
    const NAME: &'static str = "softmax";

    fn shape(&self, _: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
        Ok(x)
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        y.resize(x.data.len(), S::constant(<S as Number>::Primal::ZERO));
        let width = x.shape.last();
        for (x, y) in x.data.chunks_exact(width).zip(y.chunks_exact_mut(width)) {
            S::softmax(x, y);
        }
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        _: &mut [T],
    ) {
        softmax_rows(x.data, y, x.shape.last());
    }

    fn backward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &[T],
        _: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        if let Some(dx) = dx {
            softmax_rows_backward(y, dy, dx, x.shape.last());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, OpCheck, Params, TensorEngine, Workspace};

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Softmax, &[&[3, 7]]).unwrap();
        OpCheck::default().run(&Softmax, &[&[2, 40]]).unwrap();
        OpCheck {
            special: true,
            differences: false,
            ..OpCheck::default()
        }
        .run(&Softmax, &[&[4, 16]])
        .unwrap();
    }

    #[test]
    fn f01_f02_large_and_masked_rows() {
        let mut params = Params::<f32>::new();
        let inf = f32::NEG_INFINITY;
        let rows = [1000.0, 1001.0, 1002.0, inf, 0.0, 0.0, inf, inf, inf];
        let x = params
            .add("x", Shape::new(&[3, 3]).unwrap(), &rows)
            .unwrap();
        let mut workspace = TensorEngine::new();
        let mut pass = workspace.bind(&params, Context::default());
        let x = pass.param(x).unwrap();
        let y = pass.apply(Softmax, [x]).unwrap();
        let expected = [
            0.090_030_6,
            0.244_728_5,
            0.665_241,
            0.0,
            0.5,
            0.5,
            0.0,
            0.0,
            0.0,
        ];
        for (&found, expected) in pass.value(y).data.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let mut gradient = [0.0; 9];
        pass.backward(
            y,
            &[0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
            &mut gradient,
        )
        .unwrap();
        assert_eq!(gradient, [0.0, 0.0, 0.0, 0.0, -0.25, 0.25, 0.0, 0.0, 0.0]);
    }
}
