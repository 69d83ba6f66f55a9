//! `y = (x − μ)/√(σ² + ε) · g + b` along the last dimension, with μ and σ² (the population variance) of each row.
//!
//! The variance is the mean of squared distances from the mean, in a second pass: E[x²] − E[x]² loses all digits of rows
//! far from zero. Backward, with x̂ = (x − μ)/√(σ² + ε) and h = dy · g:
//! `dx = (h − mean(h) − x̂ mean(h x̂))/√(σ² + ε)`, `dg = Σ dy x̂`, `db = Σ dy`.
//! Source: Ba, Kiros and Hinton, *Layer normalization*, arXiv 1607.06450, equation 4.

use burtorch_core::{Float, MatrixView, Number, Scalar};
use pulp::{Simd, WithSimd};

use super::mismatch;
use crate::kernels::dispatch::arch;
use crate::kernels::elementwise::add_into;
use crate::kernels::rows::BLOCK;
use crate::kernels::vectors::{WIDEST_VECTOR, load_end, ones, split, store_end, vector_sum};
use crate::{Context, Element, Error, Op, Result, Run, Shape, View};

/// Normalises each row. Inputs: x `[.., C]`, gain `[C]` and, if given, bias `[C]` → as x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayerNorm {
    /// Added to the variance; finite and not too small for f32. PyTorch's default and GPT-2's: 1e-5.
    pub epsilon: f64,
}

/// Rows that a kernel takes through one step before the next: so many that the sum of one row is under way while that of
/// the next begins, and so few that they stay in the cache.
fn group(width: usize) -> usize {
    (2048 / width).clamp(1, MOST_ROWS)
}

const MOST_ROWS: usize = 16;

/// Computes y, and leaves μ and 1/√(σ² + ε) of each row in `saved`.
struct Normalise<'a, T> {
    x: &'a [T],
    gain: &'a [T],
    bias: Option<&'a [T]>,
    y: &'a mut [T],
    saved: &'a mut [T],
    epsilon: T,
}

impl<T: Element> WithSimd for Normalise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Rows of preset mini, of a width known to the compiler, take two thirds of the time.
        match self.gain.len() {
            24 => self.rows(simd, 24),
            width => self.rows(simd, width),
        }
    }
}

impl<T: Element> Normalise<'_, T> {
    #[inline(always)]
    fn rows<S: Simd>(self, simd: S, width: usize) {
        let numbers = group(width) * width;
        let saved = self.saved.as_chunks_mut().0.chunks_mut(group(width));
        let (x, y) = (self.x.chunks(numbers), self.y.chunks_mut(numbers));
        for ((x, y), saved) in x.zip(y).zip(saved) {
            means(simd, x, width, saved);
            variances(simd, x, width, saved);
            for [_, scale] in &mut *saved {
                *scale = T::ONE / (*scale + self.epsilon).sqrt();
            }
            outputs(simd, x, saved, &self.gain[..width], self.bias, y);
        }
    }
}

/// Puts the mean of each row into the first place.
#[inline(always)]
fn means<T: Element, S: Simd>(simd: S, x: &[T], width: usize, saved: &mut [[T; 2]]) {
    let share = T::ONE / T::from_usize(width);
    for (x, [mean, _]) in x.chunks_exact(width).zip(saved) {
        let (x, end) = split::<T, S>(simd, x);
        *mean = share * T::sum_lanes(simd, vector_sum::<T, S>(simd, x, end, |x| x));
    }
}

/// Puts the mean squared distance from the mean of each row into the second place.
#[inline(always)]
fn variances<T: Element, S: Simd>(simd: S, x: &[T], width: usize, saved: &mut [[T; 2]]) {
    let share = T::ONE / T::from_usize(width);
    // Lanes behind the row are 0, so it is from 0 that their distance is taken.
    let within = ones::<T, S>(simd, width);
    for (x, [mean, variance]) in x.chunks_exact(width).zip(saved) {
        let (x, end) = split::<T, S>(simd, x);
        let mean = mean.splat(simd);
        let square = |x, mean| {
            let distance = T::subtract_vectors(simd, x, mean);
            T::multiply_vectors(simd, distance, distance)
        };
        let end = square(end, T::multiply_vectors(simd, mean, within));
        let sum = vector_sum::<T, S>(simd, x, end, |x| square(x, mean));
        *variance = share * T::sum_lanes(simd, sum);
    }
}

/// `y = (x − μ) · scale · gain + bias`
#[inline(always)]
fn outputs<T: Element, S: Simd>(
    simd: S,
    x: &[T],
    saved: &[[T; 2]],
    gain: &[T],
    bias: Option<&[T]>,
    y: &mut [T],
) {
    let width = gain.len();
    let (gain, gain_end) = split::<T, S>(simd, gain);
    let (bias_vectors, bias_end) = split::<T, S>(simd, bias.unwrap_or_default());
    let rows = x.chunks_exact(width).zip(y.chunks_exact_mut(width));
    for ((x, y), [mean, scale]) in rows.zip(saved) {
        let (mean, scale) = (mean.splat(simd), scale.splat(simd));
        let normal = |x| T::multiply_vectors(simd, T::subtract_vectors(simd, x, mean), scale);
        let (x, x_end) = split::<T, S>(simd, x);
        let (y, y_end) = T::vectors_mut::<S>(y);
        if bias.is_some() {
            for (((y, &x), &gain), &bias) in y.iter_mut().zip(x).zip(gain).zip(bias_vectors) {
                *y = T::fma_vectors(simd, normal(x), gain, bias);
            }
        } else {
            for ((y, &x), &gain) in y.iter_mut().zip(x).zip(gain) {
                *y = T::multiply_vectors(simd, normal(x), gain);
            }
        }
        store_end(
            simd,
            y_end,
            T::fma_vectors(simd, normal(x_end), gain_end, bias_end),
        );
    }
}

/// Adds dx, and the sums over all rows that dg and db consist of.
struct Gradients<'a, T> {
    x: &'a [T],
    gain: &'a [T],
    saved: &'a [T],
    dy: &'a [T],
    dx: Option<&'a mut [T]>,
    /// For dg, whole vectors.
    gain_sums: &'a mut [T],
    /// For db, as many; empty if that is not wanted.
    bias_sums: &'a mut [T],
}

impl<T: Element> WithSimd for Gradients<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Rows of preset mini, of a width known to the compiler, take two thirds of the time.
        match self.gain.len() {
            24 => self.rows(simd, 24),
            width => self.rows(simd, width),
        }
    }
}

impl<T: Element> Gradients<'_, T> {
    #[inline(always)]
    fn rows<S: Simd>(mut self, simd: S, width: usize) {
        let saved = self.saved.as_chunks().0;
        let rows = group(width);
        for first in (0..saved.len()).step_by(rows) {
            let last = saved.len().min(first + rows);
            let (numbers, saved) = (first * width..last * width, &saved[first..last]);
            let (x, dy) = (&self.x[numbers.clone()], &self.dy[numbers.clone()]);
            let mut means = [[T::ZERO; 2]; MOST_ROWS];
            let means = &mut means[..saved.len()];
            sums(
                simd,
                x,
                dy,
                &self.gain[..width],
                saved,
                self.gain_sums,
                means,
            );
            if !self.bias_sums.is_empty() {
                add_rows(simd, dy, width, self.bias_sums);
            }
            if let Some(dx) = &mut self.dx {
                add_input_gradient(
                    simd,
                    x,
                    dy,
                    &self.gain[..width],
                    saved,
                    means,
                    &mut dx[numbers],
                );
            }
        }
    }
}

/// mean(h) and mean(h x̂) of each row, and `gain_sums += Σ dy x̂`.
#[inline(always)]
fn sums<T: Element, S: Simd>(
    simd: S,
    x: &[T],
    dy: &[T],
    gain: &[T],
    saved: &[[T; 2]],
    gain_sums: &mut [T],
    means: &mut [[T; 2]],
) {
    let width = gain.len();
    let share = T::ONE / T::from_usize(width);
    let (gain, gain_end) = split::<T, S>(simd, gain);
    let (gain_sums, _) = T::vectors_mut::<S>(gain_sums);
    let (gain_sums, gain_sums_end) = gain_sums.split_at_mut(gain.len());
    let rows = x.chunks_exact(width).zip(dy.chunks_exact(width));
    for (((x, dy), [mean, scale]), means) in rows.zip(saved).zip(means) {
        let (mean, scale) = (mean.splat(simd), scale.splat(simd));
        let normal = |x| T::multiply_vectors(simd, T::subtract_vectors(simd, x, mean), scale);
        let ((x, x_end), (dy, dy_end)) = (split::<T, S>(simd, x), split::<T, S>(simd, dy));
        let mut h_sum = T::multiply_vectors(simd, dy_end, gain_end);
        let mut product_sum = T::multiply_vectors(simd, h_sum, normal(x_end));
        for (((&x, &dy), &gain), gain_sum) in x.iter().zip(dy).zip(gain).zip(&mut *gain_sums) {
            let (h, normal) = (T::multiply_vectors(simd, dy, gain), normal(x));
            h_sum = T::add_vectors(simd, h_sum, h);
            product_sum = T::fma_vectors(simd, h, normal, product_sum);
            *gain_sum = T::fma_vectors(simd, dy, normal, *gain_sum);
        }
        if let Some(gain_sum) = gain_sums_end.first_mut() {
            *gain_sum = T::fma_vectors(simd, dy_end, normal(x_end), *gain_sum);
        }
        *means = [h_sum, product_sum].map(|sum| share * T::sum_lanes(simd, sum));
    }
}

/// `sums += Σ x` over the rows of `x`.
#[inline(always)]
fn add_rows<T: Element, S: Simd>(simd: S, x: &[T], width: usize, sums: &mut [T]) {
    let (sums, _) = T::vectors_mut::<S>(sums);
    for x in x.chunks_exact(width) {
        let (x, end) = split::<T, S>(simd, x);
        for (sum, &x) in sums.iter_mut().zip(x) {
            *sum = T::add_vectors(simd, *sum, x);
        }
        if let Some(sum) = sums.get_mut(x.len()) {
            *sum = T::add_vectors(simd, *sum, end);
        }
    }
}

/// `dx += scale · ((h − mean(h)) − (x − μ) · scale · mean(h x̂))`
#[inline(always)]
fn add_input_gradient<T: Element, S: Simd>(
    simd: S,
    x: &[T],
    dy: &[T],
    gain: &[T],
    saved: &[[T; 2]],
    means: &[[T; 2]],
    dx: &mut [T],
) {
    let width = gain.len();
    let (gain, gain_end) = split::<T, S>(simd, gain);
    let rows = x
        .chunks_exact(width)
        .zip(dy.chunks_exact(width))
        .zip(dx.chunks_exact_mut(width));
    for (((x, dy), dx), (&[mean, scale], &[mean_h, product])) in rows.zip(saved.iter().zip(means)) {
        let slope = (-scale * product).splat(simd);
        let [mean, scale, mean_h] = [mean, scale, mean_h].map(|number| number.splat(simd));
        let add_to = |dx, x, dy, gain| {
            // The difference first: where all h are equal, as in rows of one number, it is 0 to the last bit.
            let h = T::multiply_vectors(simd, dy, gain);
            let difference = T::subtract_vectors(simd, h, mean_h);
            let distance = T::subtract_vectors(simd, x, mean);
            let rest = T::fma_vectors(simd, distance, slope, difference);
            T::fma_vectors(simd, rest, scale, dx)
        };
        let ((x, x_end), (dy, dy_end)) = (split::<T, S>(simd, x), split::<T, S>(simd, dy));
        let (dx, dx_end) = T::vectors_mut::<S>(dx);
        for (((dx, &x), &dy), &gain) in dx.iter_mut().zip(x).zip(dy).zip(gain) {
            *dx = add_to(*dx, x, dy, gain);
        }
        let end = add_to(load_end(simd, dx_end), x_end, dy_end, gain_end);
        store_end(simd, dx_end, end);
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

    fn scratch(&self, x: [Shape; N]) -> usize {
        2 * x[1].len().next_multiple_of(WIDEST_VECTOR)
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, x: [View<'_, S>; N], y: &mut Vec<S>) {
        let epsilon = <S as Number>::Primal::from_f64(self.epsilon);
        let rows = MatrixView::new(x[0].data, x[0].shape.last());
        let bias = x.get(2).map(|bias| bias.data);
        S::layer_norm(rows, x[1].data, bias, epsilon, y);
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        x: [View<'_, T>; N],
        y: &mut [T],
        saved: &mut [T],
    ) {
        arch().dispatch(Normalise {
            x: x[0].data,
            gain: x[1].data,
            bias: x.get(2).map(|bias| bias.data),
            y,
            saved,
            epsilon: T::from_f64(self.epsilon),
        });
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
        let wants_bias = matches!(dx.get(2), Some(Some(_)));
        let padded = width.next_multiple_of(WIDEST_VECTOR);
        let (gain_sums, rest) = run.scratch.split_at_mut(padded);
        let bias_sums = &mut rest[..if wants_bias { padded } else { 0 }];
        // Rows are summed in blocks, so that long f32 sums keep their digits.
        for first in (0..x[0].shape.rows()).step_by(BLOCK) {
            let rows = first..x[0].shape.rows().min(first + BLOCK);
            let numbers = rows.start * width..rows.end * width;
            gain_sums.fill(T::ZERO);
            bias_sums.fill(T::ZERO);
            arch().dispatch(Gradients {
                x: &x[0].data[numbers.clone()],
                gain: x[1].data,
                saved: &saved[2 * rows.start..2 * rows.end],
                dy: &dy[numbers.clone()],
                dx: dx[0].as_deref_mut().map(|dx| &mut dx[numbers]),
                gain_sums,
                bias_sums,
            });
            if let Some(dgain) = &mut dx[1] {
                add_into(dgain, &gain_sums[..width]);
            }
            if let Some(Some(dbias)) = dx.get_mut(2) {
                add_into(dbias, &bias_sums[..width]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dispatch::levels::at_every_level;
    use crate::{Engine, OpCheck, Params, TensorEngine, Workspace};

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
    fn every_level_at_the_widths_of_the_presets_and_beside_them() {
        let check = OpCheck {
            differences: false,
            ..OpCheck::default()
        };
        for width in [23, 24, 25, 100, 128, 384, 3000] {
            for rows in [1, 15, 37] {
                at_every_level(|| {
                    let op = LayerNorm { epsilon: 1e-5 };
                    check.run(&op, &[&[rows, width], &[width]]).unwrap();
                    check
                        .run(&op, &[&[rows, width], &[width], &[width]])
                        .unwrap();
                });
            }
        }
    }

    /// Result, and gradients of x, gain and bias from a gradient of 0.1 everywhere.
    fn run(x: &[f32], width: usize) -> (Vec<f32>, Vec<f32>) {
        let mut params = Params::new();
        let rows = Shape::new(&[x.len() / width, width]).unwrap();
        let row = Shape::new(&[width]).unwrap();
        let x = params.add("x", rows, x).unwrap();
        let gain = params.add("gain", row, &vec![1.0; width]).unwrap();
        let bias = params.add("bias", row, &vec![0.0; width]).unwrap();
        let mut engine = TensorEngine::new();
        let mut pass = engine.bind(&params, Context::default());
        let inputs = [x, gain, bias].map(|id| pass.param(id).unwrap());
        let y = pass.apply(LayerNorm { epsilon: 1e-5 }, inputs).unwrap();
        let mut gradients = vec![0.0; params.len()];
        pass.backward(y, &vec![0.1; rows.len()], &mut gradients)
            .unwrap();
        (pass.value(y).data.to_vec(), gradients)
    }

    #[test]
    fn f12_gradients_over_many_rows_keep_their_digits() {
        let rows = 1_000_000;
        let x: Vec<f32> = [0.9, 1.1].repeat(rows);
        let (y, gradients) = run(&x, 2);
        let (gain, bias) = gradients[x.len()..].split_at(2);
        let expected = 0.1 * rows as f32;
        assert!((bias[0] / expected - 1.0).abs() < 1e-4, "{bias:?}");
        assert!((gain[1] / (y[1] * expected) - 1.0).abs() < 1e-4, "{gain:?}");
    }

    #[test]
    fn rows_far_from_zero_keep_their_digits() {
        let x: Vec<f32> = (0..40).map(|i| 1e5 + (i % 2) as f32).collect();
        for width in [8, 20, 40] {
            let y = run(&x, width).0;
            let right =
                |(i, &y): (usize, &f32)| (y.abs() - 1.0).abs() < 1e-3 && (y > 0.0) == (i % 2 == 1);
            assert!(y.iter().enumerate().all(right), "{width}: {y:?}");
        }
    }

    #[test]
    fn a_number_that_is_not_finite_spoils_its_row_only() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            at_every_level(|| {
                for width in [5, 24, 40] {
                    let mut x: Vec<f32> = (0..3 * width).map(|i| (i * i % 11) as f32).collect();
                    x[2 * width - 1] = bad;
                    let (y, gradients) = run(&x, width);
                    for (numbers, what) in [(&y, "y"), (&gradients, "dx")] {
                        let finite = |row: usize| {
                            numbers[row * width..][..width]
                                .iter()
                                .all(|v| v.is_finite())
                        };
                        assert!(
                            finite(0) && !finite(1) && finite(2),
                            "{what}, {width}: {bad}"
                        );
                    }
                }
            });
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
