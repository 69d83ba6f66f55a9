//! `y[b, t, c] = x[b, t, c] + table[t, c]`: learned position embeddings.
//!
//! Source: Radford et al., *Improving language understanding by generative pre-training*, 2018, equation 2.

use burtorch_core::Scalar;

use super::mismatch;
use crate::kernels::elementwise::{add_into, sum};
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// Adds the first T rows of a table to every sequence. Inputs: x `[.., T, C]`, table `[S, C]` with S ≥ T → as x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AddPositions;

/// Numbers in one sequence of x.
fn sequence_len(x: Shape) -> usize {
    x.dims()[x.rank() - 2..].iter().product()
}

impl Op<2> for AddPositions {
    const NAME: &'static str = "add positions";

    fn shape(&self, _: &Context<'_>, x: [Shape; 2]) -> Result<Shape> {
        let [sequences, table] = x;
        let fits = sequences.rank() >= 2
            && table.rank() == 2
            && table.last() == sequences.last()
            && table.len() >= sequence_len(sequences);
        if fits {
            Ok(sequences)
        } else {
            mismatch(
                "add positions",
                "x [.., T, C] and a table [S, C] with S ≥ T",
                &x,
            )
        }
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [x, table]: [View<'_, S>; 2], y: &mut Vec<S>) {
        for x in x.data.chunks_exact(sequence_len(x.shape)) {
            y.extend(x.iter().zip(table.data).map(|(&x, &p)| x + p));
        }
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x, table]: [View<'_, T>; 2],
        y: &mut [T],
        _: &mut [T],
    ) {
        let len = sequence_len(x.shape);
        for (y, x) in y.chunks_exact_mut(len).zip(x.data.chunks_exact(len)) {
            sum(y, x, table.data);
        }
    }

    fn backward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x, _]: [View<'_, T>; 2],
        _: &[T],
        _: &[T],
        dy: &[T],
        [dx, dtable]: [Option<&mut [T]>; 2],
    ) {
        if let Some(dx) = dx {
            add_into(dx, dy);
        }
        if let Some(dtable) = dtable {
            for dy in dy.chunks_exact(sequence_len(x.shape)) {
                add_into(dtable, dy);
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
            .run(&AddPositions, &[&[3, 4, 5], &[4, 5]])
            .unwrap();
        OpCheck::default()
            .run(&AddPositions, &[&[2, 3], &[7, 3]])
            .unwrap();
    }

    #[test]
    fn refuses_a_table_that_is_too_short() {
        assert!(
            OpCheck::default()
                .run(&AddPositions, &[&[3, 4, 5], &[3, 5]])
                .is_err()
        );
        assert!(
            OpCheck::default()
                .run(&AddPositions, &[&[5], &[3, 5]])
                .is_err()
        );
    }
}
