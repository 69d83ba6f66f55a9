//! Layers of networks recorded from handles: all results of one as a group of nodes, with the positions of what they come from.

use super::Tape;
use super::groups::{Groups, Layer, Rule};
use super::operand::Operand;
use crate::error::Error;
use crate::matrix_view::MatrixView;
use crate::ops::layers;
use crate::scalar::Scalar;
use crate::var::Var;

impl<'t, T: Scalar> Var<'t, T> {
    /// [`Scalar::affine`].
    pub(crate) fn record_affine(
        x: MatrixView<'_, Self>,
        weights: MatrixView<'_, Self>,
        biases: Option<&[Self]>,
        out: &mut Vec<Self>,
    ) {
        let fits = x.columns() == weights.columns()
            && biases.is_none_or(|biases| biases.len() == weights.rows());
        let inputs = Inputs {
            op: "affine",
            matrices: [x, weights],
            biases,
        };
        let (true, Some(tape)) = (fits, inputs.tape()) else {
            return layers::affine(x, weights, biases, out);
        };
        let count = x.rows() * weights.rows();
        tape.record_layer(&inputs, count, out, |groups, nodes, operands, biases| {
            groups.affine(nodes, operands, biases)
        });
    }

    /// [`Scalar::layer_norm`].
    pub(crate) fn record_layer_norm(
        x: MatrixView<'_, Self>,
        gains: &[Self],
        biases: Option<&[Self]>,
        epsilon: T::Primal,
        out: &mut Vec<Self>,
    ) {
        let mut lists = [Some(gains), biases].into_iter().flatten();
        let fits = lists.all(|list| list.len() == x.columns());
        let inputs = Inputs {
            op: "layer_norm",
            matrices: [x, one_row(gains)],
            biases,
        };
        let (true, Some(tape)) = (fits, inputs.tape()) else {
            return layers::layer_norm(x, gains, biases, epsilon, out);
        };
        let count = x.rows() * x.columns();
        tape.record_layer(&inputs, count, out, |groups, nodes, operands, biases| {
            groups.normalise(nodes, operands, biases, epsilon)
        });
    }

    /// [`Scalar::causal_attention`].
    pub(crate) fn record_attention(
        x: MatrixView<'_, Self>,
        heads: usize,
        mask: Option<&dyn Fn(usize, usize, usize) -> T::Primal>,
        out: &mut Vec<Self>,
    ) {
        let inputs = Inputs {
            op: "causal_attention",
            matrices: [x],
            biases: None,
        };
        let fits = layers::head_width(x.columns(), heads).is_some();
        let (true, Some(tape)) = (fits, inputs.tape()) else {
            return layers::causal_attention(x, heads, mask, out);
        };
        let count = x.rows() * x.columns() / 3;
        tape.record_layer(&inputs, count, out, |groups, nodes, [x], _| {
            groups.attend(nodes, x, heads, mask)
        });
    }
}

/// A list as a matrix of one row.
fn one_row<S: Copy>(list: &[S]) -> MatrixView<'_, S> {
    MatrixView::new(list, list.len())
}

/// What a layer reads, and its name for messages.
struct Inputs<'a, 't, T: Scalar, const N: usize> {
    op: &'static str,
    matrices: [MatrixView<'a, Var<'t, T>>; N],
    biases: Option<&'a [Var<'t, T>]>,
}

impl<'t, T: Scalar, const N: usize> Inputs<'_, 't, T, N> {
    fn tapes(&self) -> impl Iterator<Item = Option<&'t Tape<T>>> {
        let biases = self.biases.map(one_row);
        let matrices = self.matrices.into_iter().chain(biases);
        matrices.flat_map(|matrix| matrix.iter().map(Var::tape))
    }

    /// The tape to record on: none if there is nothing to compute from, or if all are constants that have met none.
    fn tape(&self) -> Option<&'t Tape<T>> {
        let any = self.matrices.iter().all(|matrix| !matrix.is_empty());
        any.then(|| self.tapes().flatten().next()).flatten()
    }

    /// Keeps what they hold on a tape, and the biases behind.
    fn operands(&self, tape: &Tape<T>) -> Result<([Operand; N], Option<Operand>), Error> {
        let mut operands = [Operand::NONE; N];
        for (operand, &matrix) in operands.iter_mut().zip(&self.matrices) {
            *operand = tape.operand(self.op, matrix)?;
        }
        let biases = self
            .biases
            .map(|biases| tape.operand(self.op, one_row(biases)));
        Ok((operands, biases.transpose()?))
    }
}

impl<T: Scalar> Tape<T> {
    /// Records the results of a layer and appends their `count` handles to `out`; NaN if that is not possible, with the error in the tape.
    /// `compute` leaves the results in the groups.
    fn record_layer<'t, const N: usize>(
        &'t self,
        inputs: &Inputs<'_, 't, T, N>,
        count: usize,
        out: &mut Vec<Var<'t, T>>,
        compute: impl FnOnce(
            &mut Groups<T>,
            usize,
            [Operand; N],
            Option<Operand>,
        ) -> Result<Layer, Error>,
    ) {
        let recorded = inputs.operands(self).and_then(|(operands, biases)| {
            let compute = |groups: &mut Groups<T>, nodes| compute(groups, nodes, operands, biases);
            let layer = self.storage.keep(compute)?;
            let mut all = operands.iter().chain(&biases);
            match all.all(|operand| operand.nodes.is_constant()) {
                true => Ok(None),
                false => self.record_results(count, layer).map(Some),
            }
        });
        match recorded {
            Ok(Some(first)) => {
                let groups = self.storage.groups();
                let results = (first..).zip(groups.results());
                out.extend(results.map(|(node, &y)| Var::exact(self, node, y)));
            }
            Ok(None) => {
                let groups = self.storage.groups();
                out.extend(groups.results().iter().map(|&y| self.constant(y)));
            }
            Err(error) => {
                Var::fault(error, inputs.tapes());
                out.extend(std::iter::repeat_n(self.poisoned(), count));
            }
        }
    }

    /// Records so many results of a layer; the node of the first.
    fn record_results(&self, count: usize, layer: Layer) -> Result<u32, Error> {
        let (first, fits) = self.storage.record_group(count, Rule::Layer(layer));
        if !fits {
            self.check()?;
        }
        Ok(first)
    }
}
