//! A linear layer whose weight is in the form of its product.

use pulp::{Simd, WithSimd};

use super::lines::Lines;
use crate::error::check_len;
use crate::kernels::dispatch::arch;
use crate::kernels::gemm::{
    DEEPEST, Destination, Matrix, WIDEST, WIDEST_VECTOR, lanes, multiply_rows, pack,
};
use crate::ops::Activation;
use crate::{Element, Error, Result};

/// `y = f(x wᵀ + b)` for a weight that stays as it is: [`ops::Linear`](crate::ops::Linear) without the packing that every call of it
/// begins with, which for a few rows takes as long as the product.
///
/// The weight is a copy, cut into panels of columns as wide as a few vectors of this machine, its rows one after the other.
///
/// ```
/// use burtorch_tensor::inference::PackedLinear;
/// use burtorch_tensor::ops::Activation;
///
/// # fn main() -> Result<(), burtorch_tensor::Error> {
/// let weight = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // two outputs of three inputs
/// let layer = PackedLinear::new(&weight, Some(&[0.5, -100.0]), 3, Activation::Relu)?;
/// let mut y = [0.0; 2];
/// layer.forward(&[1.0, 1.0, 1.0], &mut y)?;
/// assert_eq!(y, [6.5, 0.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PackedLinear<T> {
    inputs: usize,
    outputs: usize,
    panels: Lines<T>,
    bias: Vec<T>,
    activation: Activation,
}

impl<T: Element> PackedLinear<T> {
    /// Packs a weight `[outputs, inputs]` and a bias `[outputs]`, which may be absent.
    ///
    /// # Errors
    /// [`Error::Length`] for a weight that has no whole number of rows, or a bias of another length than the weight has rows;
    /// [`Error::Setting`] for rows of nothing; [`Error::OutOfMemory`].
    pub fn new(
        weight: &[T],
        bias: Option<&[T]>,
        inputs: usize,
        activation: Activation,
    ) -> Result<Self> {
        let outputs = weight.len().checked_div(inputs).unwrap_or(0).max(1);
        if inputs == 0 {
            return Err(Error::Setting {
                op: "linear",
                name: "inputs",
                expected: "at least 1",
                found: 0.0,
            });
        }
        check_len("weight", outputs * inputs, weight.len())?;
        if let Some(bias) = bias {
            check_len("bias", outputs, bias.len())?;
        }
        let panels = outputs.next_multiple_of(WIDEST_VECTOR);
        let mut layer = Self {
            inputs,
            outputs,
            panels: Lines::zeros(inputs.saturating_mul(panels))?,
            bias: bias.unwrap_or_default().to_vec(),
            activation,
        };
        let weight = Matrix::new(weight, outputs, inputs).t();
        let panels = layer.panels.as_mut_slice();
        arch().dispatch(Pack { weight, panels });
        Ok(layer)
    }

    /// Numbers of an input row.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Numbers of an output row.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Overwrites `y` `[rows, outputs]` with the results for `x` `[rows, inputs]`.
    ///
    /// # Errors
    /// [`Error::Length`] if there is no whole number of rows, or another number of them in `y`.
    pub fn forward(&self, x: &[T], y: &mut [T]) -> Result<()> {
        let rows = x.len() / self.inputs;
        check_len("input rows", rows * self.inputs, x.len())?;
        check_len("output rows", rows * self.outputs, y.len())?;
        if rows > 0 {
            let x = Matrix::new(x, rows, self.inputs);
            arch().dispatch(Forward { layer: self, x, y });
        }
        Ok(())
    }
}

/// The panels of a weight with so many columns: the first column and the number of vectors of each.
#[inline(always)]
fn panels(columns: usize, lanes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..columns)
        .step_by(WIDEST * lanes)
        .map(move |column| (column, (columns - column).div_ceil(lanes).min(WIDEST)))
}

struct Pack<'a, T> {
    /// `[inputs, outputs]`
    weight: Matrix<'a, T>,
    panels: &'a mut [T],
}

impl<T: Element> WithSimd for Pack<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (lanes, mut rest) = (lanes::<T, S>(), self.panels);
        for (column, vectors) in panels(self.weight.column_count(), lanes) {
            let (panel, others) = rest.split_at_mut(self.weight.rows() * vectors * lanes);
            match vectors {
                1 => pack::<T, S, 1>(simd, self.weight, column, panel),
                2 => pack::<T, S, 2>(simd, self.weight, column, panel),
                _ => pack::<T, S, WIDEST>(simd, self.weight, column, panel),
            }
            rest = others;
        }
    }
}

struct Forward<'a, T> {
    layer: &'a PackedLinear<T>,
    x: Matrix<'a, T>,
    y: &'a mut [T],
}

impl<T: Element> WithSimd for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        match (self.x.rows(), S::REGISTER_COUNT) {
            (1, _) => self.multiply::<S, 1>(simd),
            (_, 32..) => self.multiply::<S, 8>(simd),
            _ => self.multiply::<S, 3>(simd),
        }
        self.add_bias();
        self.activate::<S>();
    }
}

impl<T: Element> Forward<'_, T> {
    /// Goes over the panels, with `R` rows of x at a time.
    #[inline(always)]
    fn multiply<S: Simd, const R: usize>(&mut self, simd: S) {
        let (lanes, mut rest) = (lanes::<T, S>(), self.layer.panels.as_slice());
        for (column, vectors) in panels(self.layer.outputs, lanes) {
            let (panel, others) = rest.split_at(self.layer.inputs * vectors * lanes);
            match vectors {
                1 => self.panel::<S, R, 1>(simd, column, panel),
                2 => self.panel::<S, R, 2>(simd, column, panel),
                _ => self.panel::<S, R, WIDEST>(simd, column, panel),
            }
            rest = others;
        }
    }

    /// The columns of one panel. Long sums are cut into blocks, as those of training are.
    #[inline(always)]
    fn panel<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        column: usize,
        panel: &[T],
    ) {
        let outputs = self.layer.outputs;
        let width = (outputs - column).min(V * lanes::<T, S>());
        let (panel, _) = T::vectors::<S>(panel).0.as_chunks::<V>();
        for (block, panel) in panel.chunks(DEEPEST).enumerate() {
            let x = self.x.columns(block * DEEPEST, panel.len());
            let y = &mut self.y[column..];
            let y = match block {
                0 => Destination::set(y, outputs),
                _ => Destination::add(y, outputs),
            };
            multiply_rows::<T, S, _, R, V>(simd, x, panel, y, width);
        }
    }

    #[inline(always)]
    fn add_bias(&mut self) {
        if self.layer.bias.is_empty() {
            return;
        }
        for y in self.y.chunks_exact_mut(self.layer.outputs) {
            for (y, &b) in y.iter_mut().zip(&self.layer.bias) {
                *y += b;
            }
        }
    }

    #[inline(always)]
    fn activate<S: Simd>(&mut self) {
        let positive = |y: T| if y <= T::ZERO { T::ZERO } else { y };
        match self.layer.activation {
            Activation::Identity => {}
            Activation::Relu => self.y.iter_mut().for_each(|y| *y = positive(*y)),
            Activation::Gelu => {
                for y in &mut *self.y {
                    *y = y.gelu_with_slope::<S>().0;
                }
            }
            Activation::GeluTanh => {
                for y in &mut *self.y {
                    *y = y.gelu_tanh_with_slope::<S>().0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dispatch::levels::at_every_level;
    use crate::{Context, Engine, Params, Shape, TensorEngine, Workspace, ops};

    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        let number = |i: usize| ((i * 7919 + seed) % 1013) as f32 / 500.0 - 1.0;
        (0..len).map(number).collect()
    }

    /// The same by the engine.
    fn engine(
        x: &[f32],
        w: &[f32],
        b: Option<&[f32]>,
        k: usize,
        activation: Activation,
    ) -> Vec<f32> {
        let shape = |dims: &[usize]| Shape::new(dims).unwrap();
        let params = Params::new();
        let mut workspace = TensorEngine::new();
        let mut e = workspace.bind(&params, Context::default());
        let (op, n) = (ops::Linear { activation }, w.len() / k);
        let x = e.constant(x, shape(&[x.len() / k, k])).unwrap();
        let w = e.constant(w, shape(&[n, k])).unwrap();
        let y = match b {
            Some(b) => {
                let b = e.constant(b, shape(&[n])).unwrap();
                e.apply(op, [x, w, b])
            }
            None => e.apply(op, [x, w]),
        };
        e.value(y.unwrap()).data.to_vec()
    }

    fn close(found: &[f32], expected: &[f32], k: usize) -> bool {
        let near =
            |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * (k as f32).sqrt() * b.abs().max(1.0);
        found.len() == expected.len() && found.iter().zip(expected).all(near)
    }

    #[test]
    fn the_comparison_can_fail() {
        assert!(!close(&[1.0], &[1.00001], 4) && !close(&[f32::NAN], &[f32::NAN], 4));
    }

    #[test]
    fn results_are_those_of_the_engine_at_every_edge() {
        at_every_level(|| {
            for n in [1, 7, 8, 15, 16, 17, 24, 47, 48, 49, 65, 72, 96, 100] {
                for (rows, k) in [(1, 1), (1, 24), (3, 5), (8, 24), (9, 31), (17, 4)] {
                    let (x, w, b) = (numbers(rows * k, 1), numbers(n * k, 2), numbers(n, 3));
                    for bias in [None, Some(&b[..])] {
                        let layer = PackedLinear::new(&w, bias, k, Activation::Identity).unwrap();
                        let mut y = vec![f32::NAN; rows * n];
                        layer.forward(&x, &mut y).unwrap();
                        let expected = engine(&x, &w, bias, k, Activation::Identity);
                        assert!(close(&y, &expected, k), "{rows}x{k}x{n} {}", bias.is_some());
                    }
                }
            }
        });
    }

    #[test]
    fn activations_are_those_of_the_engine() {
        let (rows, k, n) = (3, 10, 21);
        let (x, w, b) = (numbers(rows * k, 1), numbers(n * k, 2), numbers(n, 3));
        for activation in [
            Activation::Identity,
            Activation::Relu,
            Activation::Gelu,
            Activation::GeluTanh,
        ] {
            at_every_level(|| {
                let layer = PackedLinear::new(&w, Some(&b), k, activation).unwrap();
                let mut y = vec![f32::NAN; rows * n];
                layer.forward(&x, &mut y).unwrap();
                assert!(
                    close(&y, &engine(&x, &w, Some(&b), k, activation), k),
                    "{activation:?}"
                );
            });
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others() {
        at_every_level(|| {
            for (k, n) in [(24, 72), (128, 65), (DEEPEST + 3, 20)] {
                let (rows, w, b) = (11, numbers(n * k, 5), numbers(n, 6));
                let layer = PackedLinear::new(&w, Some(&b), k, Activation::Gelu).unwrap();
                let x = numbers(rows * k, 7);
                let mut together = vec![0.0; rows * n];
                layer.forward(&x, &mut together).unwrap();
                for count in [1, 2, 5] {
                    let mut apart = vec![0.0; rows * n];
                    for (x, y) in x.chunks(count * k).zip(apart.chunks_mut(count * n)) {
                        layer.forward(x, y).unwrap();
                    }
                    assert!(apart == together, "{count} rows at a time, {k}x{n}");
                }
            }
        });
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let new = |w: &[f32], b: Option<&[f32]>, k| PackedLinear::new(w, b, k, Activation::Relu);
        assert!(matches!(new(&[1.0; 5], None, 2), Err(Error::Length { .. })));
        assert!(new(&[], None, 2).is_err() && new(&[1.0], None, 0).is_err());
        assert!(matches!(new(&[], None, 0), Err(Error::Setting { .. })));
        assert!(new(&[1.0; 6], Some(&[1.0]), 2).is_err());
        assert!(new(&[1.0; 6], Some(&[]), 2).is_err());
        let layer = new(&[1.0; 6], Some(&[1.0; 3]), 2).unwrap();
        assert_eq!((layer.inputs(), layer.outputs()), (2, 3));
        assert!(layer.forward(&[1.0; 3], &mut [0.0; 3]).is_err());
        assert!(layer.forward(&[1.0; 2], &mut [0.0; 4]).is_err());
        assert!(layer.forward(&[], &mut []).is_ok());
    }
}
