//! `y = (x − μ)/√(σ² + ε) · g + b` along the last dimension, with μ and σ² (the population variance) of each row.
//!
//! The variance is the mean of squared distances from the mean, in a second pass: E[x²] − E[x]² loses all digits of rows
//! far from zero. Backward, with x̂ = (x − μ)/√(σ² + ε) and h = dy · g:
//! `dx = (h − mean(h) − x̂ mean(h x̂))/√(σ² + ε)`, `dg = Σ dy x̂`, `db = Σ dy`.
//! Source: Ba, Kiros and Hinton, *Layer normalization*, arXiv 1607.06450, equation 4.

use burtorch_core::{Float, Number, Scalar};

use super::mismatch;
use crate::kernels::dispatch::kernel;
use crate::kernels::rows::{add_column_sums, add_column_sums_by, dot, sum_by};
use crate::{Context, Element, Error, Op, Result, Run, Shape, View};

/// Normalises each row. Inputs: x `[.., C]`, gain `[C]` and, if given, bias `[C]` → as x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNorm {
    /// Added to the variance; finite and not too small for f32. PyTorch's default and GPT-2's: 1e-5.
    pub epsilon: f64,
}

kernel! {
    /// `saved` gets μ and 1/√(σ² + ε) of each row.
    fn normalise<'a, T>(x: &'a [T], gain: &'a [T], y: &'a mut [T], saved: &'a mut [T], epsilon: T) {
        let width = gain.len();
        let n = T::from_usize(width);
        for ((x, y), saved) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(saved.chunks_exact_mut(2)) {
            let mean = sum_by(x, |x| x) / n;
            let variance = sum_by(x, |x| (x - mean) * (x - mean)) / n;
            let scale = T::ONE / (variance + epsilon).sqrt();
            for ((&x, &gain), y) in x.iter().zip(gain).zip(y) {
                *y = (x - mean) * scale * gain;
            }
            (saved[0], saved[1]) = (mean, scale);
        }
    }
}

kernel! {
    /// Adds dx. `h` and `normal` are rows of working memory.
    fn input_gradient<'a, T>(
        x: &'a [T], gain: &'a [T], saved: &'a [T], dy: &'a [T], dx: &'a mut [T], h: &'a mut [T], normal: &'a mut [T]
    ) {
        let width = gain.len();
        let n = T::from_usize(width);
        let rows = x.chunks_exact(width).zip(dy.chunks_exact(width)).zip(dx.chunks_exact_mut(width));
        for (((x, dy), dx), saved) in rows.zip(saved.chunks_exact(2)) {
            let (mean, scale) = (saved[0], saved[1]);
            for ((((&x, &dy), &gain), h), normal) in x.iter().zip(dy).zip(gain).zip(&mut *h).zip(&mut *normal) {
                (*h, *normal) = (dy * gain, (x - mean) * scale);
            }
            let mean_h = sum_by(h, |h| h) / n;
            let mean_product = dot::<T, S>(h, normal) / n;
            for ((&h, &normal), dx) in h.iter().zip(&*normal).zip(dx) {
                *dx = scale.fma::<S>(h - mean_h - normal * mean_product, *dx);
            }
        }
    }
}

kernel! {
    /// Adds dg.
    fn gain_gradient<'a, T>(x: &'a [T], saved: &'a [T], dy: &'a [T], dgain: &'a mut [T]) {
        add_column_sums_by(dgain, x.len(), |row, at| dy[at] * ((x[at] - saved[2 * row]) * saved[2 * row + 1]));
    }
}

impl<const N: usize> Op<N> for LayerNorm {
    const NAME: &'static str = "layer norm";

    fn shape(&self, _: &Context<'_>, x: [Shape; N]) -> Result<Shape> {
        let least = f64::from(f32::MIN_POSITIVE); // smaller ones vanish in f32
        if !(least..f64::INFINITY).contains(&self.epsilon) {
            let (op, name, expected) = ("layer norm", "epsilon", "at least 1.2e-38 and finite");
            return Err(Error::Setting {
                op,
                name,
                expected,
                found: self.epsilon,
            });
        }
        let row = |s: &Shape| s.dims() == [x[0].last()];
        if matches!(N, 2 | 3) && x[0].rank() > 0 && x[1..].iter().all(row) {
            Ok(x[0])
        } else {
            mismatch("layer norm", "x [.., C], gain [C] and perhaps bias [C]", &x)
        }
    }

    fn saved(&self, x: [Shape; N]) -> usize {
        2 * x[0].rows()
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, x: [View<'_, S>; N], y: &mut Vec<S>) {
        let epsilon = <S as Number>::Primal::from_f64(self.epsilon);
        for row in x[0].data.chunks_exact(x[0].shape.last()) {
            let mean = S::mean(row);
            let scale = (S::variance(row) + epsilon).rsqrt();
            for (i, &element) in row.iter().enumerate() {
                let z = (element - mean) * scale * x[1].data[i];
                y.push(x.get(2).map_or(z, |bias| z + bias.data[i]));
            }
        }
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        x: [View<'_, T>; N],
        y: &mut [T],
        saved: &mut [T],
    ) {
        normalise(x[0].data, x[1].data, y, saved, T::from_f64(self.epsilon));
        if let Some(bias) = x.get(2) {
            crate::kernels::elementwise::add_row(y, bias.data);
        }
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        x: [View<'_, T>; N],
        _: &[T],
        saved: &[T],
        dy: &[T],
        mut dx: [Option<&mut [T]>; N],
    ) {
        let width = x[1].data.len();
        if let Some(dx) = &mut dx[0] {
            let (h, normal) = run.scratch.take_two(width, width);
            input_gradient(x[0].data, x[1].data, saved, dy, dx, h, normal);
        }
        if let Some(dgain) = &mut dx[1] {
            gain_gradient(x[0].data, saved, dy, dgain);
        }
        if let Some(Some(dbias)) = dx.get_mut(2) {
            add_column_sums(dbias, dy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        let op = LayerNorm { epsilon: 1e-5 };
        for width in [2, 5, 16, 40] {
            OpCheck::default()
                .run(&op, &[&[2, 3, width], &[width]])
                .unwrap();
            OpCheck::default()
                .run(&op, &[&[3, width], &[width], &[width]])
                .unwrap();
        }
    }

    #[test]
    fn refuses_what_it_cannot_normalise() {
        let check = OpCheck::default();
        assert!(
            check
                .run::<2, _>(&LayerNorm { epsilon: 0.0 }, &[&[3, 4], &[4]])
                .is_err()
        );
        assert!(
            check
                .run::<2, _>(&LayerNorm { epsilon: f64::NAN }, &[&[3, 4], &[4]])
                .is_err()
        );
        assert!(
            check
                .run::<2, _>(&LayerNorm { epsilon: 1e-5 }, &[&[3, 4], &[3]])
                .is_err()
        );
        assert!(
            check
                .run::<1, _>(&LayerNorm { epsilon: 1e-5 }, &[&[3, 4]])
                .is_err()
        );
    }
}
