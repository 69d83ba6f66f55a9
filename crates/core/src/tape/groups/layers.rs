//! The groups that layers are recorded as: what is computed, and what is kept for the way back.

use super::{Groups, no_room};
use crate::error::Error;
use crate::ops::constant;
use crate::scalar::Scalar;
use crate::tape::kernels::{Affine, Attend, Heads, Normalise, lanes_of};
use crate::tape::operand::Operand;

/// How the nodes of a layer come about.
#[derive(Clone, Copy)]
pub(in crate::tape) enum Layer {
    /// Σₖ xᵢₖwⱼₖ, and biasⱼ if there are any.
    Affine {
        x: Operand,
        weights: Operand,
        biases: Option<Operand>,
        /// Whether all factors are.
        finite: bool,
    },
    /// Each row without its mean and of variance 1, times the gains, and with the biases if there are any; what it was before the gains,
    /// and the scales of the rows behind that, from `normal` on in the values.
    Normal {
        x: Operand,
        gains: Operand,
        biases: Option<Operand>,
        normal: usize,
    },
    /// Causal self-attention, with probabilities and weights from `kept` on in the values.
    Attention {
        x: Operand,
        sizes: Heads,
        kept: usize,
    },
}

impl Layer {
    /// How many numbers the way back needs room for.
    pub(super) fn room(self) -> usize {
        match self {
            Layer::Attention { sizes, .. } => sizes.room(),
            _ => 0,
        }
    }
}

impl<T: Scalar> Groups<T> {
    /// Computes Σₖ xᵢₖwⱼₖ, and biasⱼ if there are any, into [`results`](Groups::results); how they come about.
    pub(in crate::tape) fn affine(
        &mut self,
        nodes: usize,
        [x, weights]: [Operand; 2],
        biases: Option<Operand>,
    ) -> Result<Layer, Error> {
        let width = x.columns;
        resize(nodes, &mut self.results, x.rows * weights.rows)?;
        let lanes = self.room.get_mut();
        resize(nodes, lanes, lanes_of(width))?;
        let values = &self.values;
        let finite = self.level.run(Affine {
            x: x.values(values),
            weights: weights.values(values),
            biases: biases.map_or(&[], |biases| biases.values(values)),
            width,
            out: &mut self.results,
            lanes,
        });
        Ok(Layer::Affine {
            x,
            weights,
            biases,
            finite,
        })
    }

    /// Normalises each row into [`results`](Groups::results); how they come about.
    pub(in crate::tape) fn normalise(
        &mut self,
        nodes: usize,
        [x, gains]: [Operand; 2],
        biases: Option<Operand>,
        epsilon: T::Primal,
    ) -> Result<Layer, Error> {
        let count = x.rows * x.columns;
        resize(nodes, &mut self.results, count)?;
        let zeros = std::iter::repeat_n(constant(0.0), count + x.rows);
        let normal = self.keep(nodes, zeros)?;
        let (values, kept) = self.values.split_at_mut(normal);
        let (normalised, scales) = kept.split_at_mut(count);
        self.level.run(Normalise {
            x: x.values(values),
            gains: gains.values(values),
            biases: biases.map_or(&[], |biases| biases.values(values)),
            epsilon,
            normal: normalised,
            scales,
            out: &mut self.results,
        });
        Ok(Layer::Normal {
            x,
            gains,
            biases,
            normal,
        })
    }

    /// Computes causal self-attention into [`results`](Groups::results); how they come about. `mask` tells the factor of a weight by head,
    /// query and key.
    pub(in crate::tape) fn attend(
        &mut self,
        nodes: usize,
        x: Operand,
        heads: usize,
        mask: Option<&dyn Fn(usize, usize, usize) -> T::Primal>,
    ) -> Result<Layer, Error> {
        let (time, columns) = (x.rows, x.columns / 3);
        let sizes = Heads {
            time,
            heads,
            width: columns / heads,
            masked: mask.is_some(),
        };
        resize(nodes, &mut self.results, time * columns)?;
        // Now, so that the way back does not run out of memory.
        resize(nodes, self.room.get_mut(), sizes.room())?;
        let zeros = std::iter::repeat_n(constant(0.0), sizes.kept());
        let kept = self.keep(nodes, zeros)?;
        let (values, numbers) = self.values.split_at_mut(kept);
        if let Some(mask) = mask {
            sizes.write_mask(numbers, mask);
        }
        self.level.run(Attend {
            x: x.values(values),
            sizes,
            kept: numbers,
            out: &mut self.results,
            scores: &mut self.room.get_mut()[..time],
        });
        Ok(Layer::Attention { x, sizes, kept })
    }
}

/// Gives a list for a tape of so many nodes this length; the numbers in it mean nothing.
fn resize<T: Scalar>(nodes: usize, list: &mut Vec<T>, length: usize) -> Result<(), Error> {
    let room = list.try_reserve(length.saturating_sub(list.len()));
    room.map_err(|_| no_room(nodes, length))?;
    list.resize(length, constant(0.0));
    Ok(())
}
