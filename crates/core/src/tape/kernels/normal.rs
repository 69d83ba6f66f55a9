//! Layer normalisation of all rows of a matrix, and the way back.

use crate::lanes::Work;
use crate::ops::{constant, reduce};
use crate::scalar::Scalar;
use crate::tape::operand::Operand;

/// Writes x̂ = (x − μ)/√(σ² + ε) and x̂·g + b to `out`, and 1/√(σ² + ε) of each row to `scales`. There is something in each row.
pub(in crate::tape) struct Normalise<'a, T: Scalar> {
    pub(in crate::tape) x: &'a [T],
    pub(in crate::tape) gains: &'a [T],
    /// One for each gain, or none at all.
    pub(in crate::tape) biases: &'a [T],
    pub(in crate::tape) epsilon: T::Primal,
    pub(in crate::tape) normal: &'a mut [T],
    pub(in crate::tape) scales: &'a mut [T],
    pub(in crate::tape) out: &'a mut [T],
}

impl<T: Scalar> Work for Normalise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let width = self.gains.len();
        let rows = self.x.chunks_exact(width).zip(self.scales);
        let results = self.normal.chunks_exact_mut(width);
        let results = results.zip(self.out.chunks_exact_mut(width));
        for ((x, scale), (normal, out)) in rows.zip(results) {
            let mean = reduce::value::mean(width, |i| x[i]);
            let variance = reduce::value::variance(width, |i| x[i]);
            *scale = (variance + self.epsilon).rsqrt();
            for (i, &gain) in self.gains.iter().enumerate() {
                normal[i] = (x[i] - mean) * *scale;
                out[i] = normal[i] * gain;
            }
            for (y, &bias) in out.iter_mut().zip(self.biases) {
                *y += bias;
            }
        }
    }
}

/// The way back: with h = gradient·g, `(h − mean(h) − x̂ mean(h x̂))/√(σ² + ε)` for x, gradient·x̂ for the gains, the gradient itself
/// for the biases.
pub(in crate::tape) struct NormaliseBack<'a, T> {
    pub(in crate::tape) values: &'a [T],
    pub(in crate::tape) x: Operand,
    pub(in crate::tape) gains: Operand,
    pub(in crate::tape) biases: Option<Operand>,
    /// Where x̂ begins among the values, with the scales of all rows behind.
    pub(in crate::tape) normal: usize,
    pub(in crate::tape) from: &'a [T],
}

/// Shares that are put together before they are added to gradients.
const GROUP: usize = 8;

impl<T: Scalar> NormaliseBack<'_, T> {
    #[inline(always)]
    pub(in crate::tape) fn run(self, to: &mut [T]) {
        let width = self.x.columns;
        let (normal, scales) = self.values[self.normal..].split_at(self.x.rows * width);
        let rows = normal
            .chunks_exact(width)
            .zip(self.from.chunks_exact(width));
        for (row, (normal, from)) in rows.enumerate() {
            // A row that nothing depends on hands nothing on, whatever its numbers are.
            if !from.iter().all(|gradient| gradient.is_zero()) {
                self.row(row, [normal, from], scales[row], to);
            }
        }
    }

    #[inline(always)]
    fn row(&self, row: usize, [normal, from]: [&[T]; 2], scale: T, to: &mut [T]) {
        let gains = self.gains.values(self.values);
        let width = gains.len();
        let inner = |i: usize| gains[i].chain(from[i]);
        let mean = reduce::value::mean(width, inner);
        let slope = reduce::value::mean(width, |i| inner(i) * normal[i]);
        let mut shares = [constant(0.0); GROUP];
        for start in (0..width).step_by(GROUP) {
            let shares = &mut shares[..GROUP.min(width - start)];
            if !self.x.nodes.is_constant() {
                for (i, share) in (start..).zip(shares.iter_mut()) {
                    *share = (inner(i) - mean - normal[i] * slope) * scale;
                }
                self.x.add(self.values, to, (row, start), shares);
            }
            if !self.gains.nodes.is_constant() {
                for (i, share) in (start..).zip(shares.iter_mut()) {
                    *share = normal[i].chain(from[i]);
                }
                self.gains.add(self.values, to, (0, start), shares);
            }
        }
        if let Some(biases) = self.biases.filter(|biases| !biases.nodes.is_constant()) {
            biases.add(self.values, to, (0, 0), from);
        }
    }
}
