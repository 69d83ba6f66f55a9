//! Layer normalisation with the parameters of one layer.

use burtorch_nn::LayerNorm;
use burtorch_tensor::{Context, Element, Op, Run, Shape, View, ops};

use super::weights::Weights;
use crate::Error;
use crate::model::ModelConfig;

const OP: ops::LayerNorm = ops::LayerNorm {
    epsilon: LayerNorm::EPSILON,
};

/// The op with its gain and bias.
pub(super) struct Norm<'a, T> {
    gain: &'a [T],
    bias: Option<&'a [T]>,
}

/// Memory that all of them share.
pub(super) struct NormMemory<T> {
    scratch: Vec<T>,
    /// Mean and scale of each row, which only gradients need.
    saved: Vec<T>,
}

impl<T: Element> NormMemory<T> {
    /// For so many rows of this width.
    pub(super) fn new(rows: usize, width: usize) -> Result<Self, Error> {
        let row = Shape::new(&[width])?;
        let shapes = [Shape::new(&[rows, width])?, row, row];
        Ok(Self {
            scratch: vec![T::ZERO; OP.scratch(shapes)],
            saved: vec![T::ZERO; OP.saved(shapes)],
        })
    }
}

impl<'a, T: Element> Norm<'a, T> {
    pub(super) fn new(
        weights: &Weights<'a, T>,
        name: &str,
        config: &ModelConfig,
    ) -> Result<Self, Error> {
        let width = config.embed;
        Ok(Self {
            gain: weights.get(&format!("{name}.weight"), &[width])?,
            bias: weights.bias(config.bias, &format!("{name}.bias"), width)?,
        })
    }

    /// Normalises each row of `x` into `y`.
    pub(super) fn forward(
        &self,
        memory: &mut NormMemory<T>,
        x: &[T],
        y: &mut [T],
    ) -> Result<(), Error> {
        let (rows, width) = (x.len() / self.gain.len(), self.gain.len());
        let shape = Shape::new(&[width])?;
        let view = |data| View { data, shape };
        let x = View {
            data: x,
            shape: Shape::new(&[rows, width])?,
        };
        let mut run = Run {
            context: Context::default(),
            scratch: &mut memory.scratch,
        };
        let saved = &mut memory.saved[..2 * rows];
        match self.bias {
            Some(bias) => OP.forward(&mut run, [x, view(self.gain), view(bias)], y, saved),
            None => OP.forward(&mut run, [x, view(self.gain)], y, saved),
        }
        Ok(())
    }
}
