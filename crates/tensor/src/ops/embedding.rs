//! `y[s, t] = table[ids[s·T + t]]`: rows of a table, picked by number.
//!
//! Backward adds each row's gradient to the row it came from, so a row picked twice gets both.

use burtorch_core::Scalar;

use super::{check_indices, mismatch};
use crate::kernels::elementwise::add_into;
use crate::{Context, Element, Indices, Op, Result, Run, Shape, View};

/// Rows of a table. Input: table `[V, C]` → `[sequences, T, C]` for `sequences · T` ids.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Embedding {
    /// Which rows, each below V.
    pub ids: Indices,
    /// Into how many equal sequences the ids are cut.
    pub sequences: usize,
}

impl Op<1> for Embedding {
    const NAME: &'static str = "embedding";

    fn shape(&self, context: &Context<'_>, [table]: [Shape; 1]) -> Result<Shape> {
        let ids = context.get("embedding", self.ids)?;
        if table.rank() != 2
            || self.sequences == 0
            || ids.is_empty()
            || !ids.len().is_multiple_of(self.sequences)
        {
            let expected = format!(
                "a table [V, C] and ids for {} equal sequences, not {}",
                self.sequences,
                ids.len()
            );
            return mismatch("embedding", expected, &[table]);
        }
        check_indices("embedding", ids, table.rows(), None)?;
        Shape::new(&[self.sequences, ids.len() / self.sequences, table.last()])
    }

    fn formula<S: Scalar>(&self, context: &Context<'_>, [table]: [View<'_, S>; 1], y: &mut Vec<S>) {
        let width = table.shape.last();
        for &id in context.checked(self.ids) {
            y.extend_from_slice(&table.data[id as usize * width..][..width]);
        }
    }

    fn forward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [table]: [View<'_, T>; 1],
        y: &mut [T],
        _: &mut [T],
    ) {
        let width = table.shape.last();
        for (&id, y) in run
            .context
            .checked(self.ids)
            .iter()
            .zip(y.chunks_exact_mut(width))
        {
            y.copy_from_slice(&table.data[id as usize * width..][..width]);
        }
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [table]: [View<'_, T>; 1],
        _: &[T],
        _: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        let width = table.shape.last();
        if let Some(dx) = dx {
            for (&id, dy) in run
                .context
                .checked(self.ids)
                .iter()
                .zip(dy.chunks_exact(width))
            {
                add_into(&mut dx[id as usize * width..][..width], dy);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, OpCheck};

    fn check(ids: &[u32]) -> OpCheck<'_> {
        OpCheck {
            context: Context {
                indices: ids,
                ..Context::default()
            },
            ..OpCheck::default()
        }
    }

    #[test]
    fn kernel_formula_and_differences_agree() {
        let op = Embedding {
            ids: Indices::new(0, 6),
            sequences: 2,
        };
        check(&[2, 2, 0, 4, 1, 2]).run(&op, &[&[5, 3]]).unwrap();
    }

    #[test]
    fn refuses_ids_beyond_the_table() {
        let op = Embedding {
            ids: Indices::new(0, 3),
            sequences: 1,
        };
        let found = check(&[0, 5, 1]).run(&op, &[&[5, 3]]);
        assert_eq!(
            found,
            Err(Error::Index {
                op: "embedding",
                position: 1,
                found: 5,
                bound: 5
            })
        );
        assert!(check(&[0, 1]).run(&op, &[&[5, 3]]).is_err());
        assert!(
            check(&[0, 1, 2])
                .run(&Embedding { sequences: 2, ..op }, &[&[5, 3]])
                .is_err()
        );
    }
}
