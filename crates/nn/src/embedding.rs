//! Tables of vectors: one for each token, one for each position.

use burtorch_tensor::{Element, Engine, Indices, ParamId, Result, ops};

use crate::{Builder, Init, Layer, Linear};

/// Looks up one row of a table for each token.
///
/// # Shapes
/// `B·T` tokens → `[B, T, C]`. Parameter: `weight` `[V, C]`.
#[derive(Debug, Clone)]
pub struct Embedding {
    table: ParamId,
}

impl Embedding {
    /// Adds a table of `count` rows of `width` numbers.
    ///
    /// # Errors
    /// As [`Builder::parameter`].
    pub fn new<T: Element>(
        b: &mut Builder<'_, T>,
        name: &str,
        count: usize,
        width: usize,
        init: Init,
    ) -> Result<Embedding> {
        let table = b.within(name, |b| b.parameter("weight", &[count, width], init))?;
        Ok(Embedding { table })
    }

    /// The rows of the tokens, cut into `sequences` equally long sequences.
    ///
    /// # Errors
    /// A token outside the table; a number of tokens that `sequences` does not divide.
    pub fn forward<E: Engine>(
        &self,
        e: &mut E,
        tokens: Indices,
        sequences: usize,
    ) -> Result<E::Tensor> {
        let table = e.param(self.table)?;
        e.apply(
            ops::Embedding {
                ids: tokens,
                sequences,
            },
            [table],
        )
    }

    /// The same table as the weight of an output layer: `[.., C]` → `[.., V]`, the scores `x · row` of all rows, plus a
    /// bias `[V]` if there is one (Press and Wolf, *Using the output embedding to improve language models*, 2017). The
    /// table stays one parameter; its gradient is the sum of both uses.
    #[must_use]
    pub fn tied_head(&self, bias: Option<ParamId>) -> Linear {
        Linear::shared(self.table, bias)
    }
}

/// Adds a learned vector for each position.
///
/// # Shapes
/// `[B, T, C]` → `[B, T, C]`, with `T` at most the number of rows. Parameter: `weight` `[positions, C]`.
#[derive(Debug, Clone)]
pub struct PositionEmbedding {
    table: ParamId,
}

impl PositionEmbedding {
    /// Adds a table for the given number of positions.
    ///
    /// # Errors
    /// As [`Builder::parameter`].
    pub fn new<T: Element>(
        b: &mut Builder<'_, T>,
        name: &str,
        positions: usize,
        width: usize,
        init: Init,
    ) -> Result<PositionEmbedding> {
        let table = b.within(name, |b| b.parameter("weight", &[positions, width], init))?;
        Ok(PositionEmbedding { table })
    }
}

impl Layer for PositionEmbedding {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        let table = e.param(self.table)?;
        e.apply(ops::AddPositions, [x, table])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, check_agreement, check_close, context, on_both_engines};
    use burtorch_tensor::{Context, Error, Params, Workspace};

    /// Loss of a tied model that looks its tokens up and scores all rows, and its gradient.
    fn tied<W: Workspace<f64>>(
        embedding: &Embedding,
        head: &Linear,
        params: &Params<f64>,
    ) -> Result<Vec<f64>> {
        let mut workspace = W::default();
        let mut e = workspace.bind(
            params,
            Context {
                indices: &[2, 0, 1, 0, 1, 1],
                ..Context::default()
            },
        );
        let x = embedding.forward(&mut e, Indices::new(0, 3), 1)?;
        let logits = head.forward(&mut e, x)?;
        let loss = e.apply(
            ops::CrossEntropy {
                targets: Indices::new(3, 3),
                ignore: None,
            },
            [logits],
        )?;
        let mut gradient = vec![0.0; params.len()];
        e.backward_scalar(loss, &mut gradient)?;
        Ok(gradient)
    }

    on_both_engines! {
        fn looks_rows_up_in_order<W>() {
            let (layer, params) = build(|b| Embedding::new(b, "tokens", 5, 3, Init::GPT2))?;
            let mut workspace = W::default();
            let mut e = workspace.bind(&params, Context { indices: &[4, 0, 4, 1], ..Context::default() });
            let y = layer.forward(&mut e, Indices::new(0, 4), 2)?;
            assert_eq!(e.value(y).shape.dims(), [2, 2, 3]);
            let rows: Vec<f64> = [4, 0, 4, 1].iter().flat_map(|r| params.values()[3 * r..3 * r + 3].to_vec()).collect();
            assert_eq!(e.value(y).data, rows);
            Ok(())
        }

        fn refuses_tokens_outside_the_table_and_uneven_cuts<W>() {
            let (layer, params) = build(|b| Embedding::new(b, "tokens", 5, 3, Init::GPT2))?;
            let mut workspace = W::default();
            let mut e = workspace.bind(&params, Context { indices: &[4, 0, 5], ..Context::default() });
            let outside = layer.forward(&mut e, Indices::new(0, 3), 1).map(drop);
            assert!(matches!(outside, Err(Error::Index { position: 2, found: 5, bound: 5, .. })), "{outside:?}");
            assert!(layer.forward(&mut e, Indices::new(0, 3), 2).is_err());
            assert!(layer.forward(&mut e, Indices::new(0, 2), 0).is_err());
            assert!(layer.forward(&mut e, Indices::new(0, 4), 1).is_err());
            Ok(())
        }

        fn a_tied_head_adds_its_bias<W>() {
            let ((embedding, bias), mut params) = build(|b| {
                let embedding = Embedding::new(b, "tokens", 3, 2, Init::XavierNormal)?;
                Ok((embedding, b.parameter("bias", &[3], Init::ZEROS)?))
            })?;
            params.values_mut()[6..].copy_from_slice(&[1.0, 2.0, 3.0]);
            let logits = |head: Linear| -> Result<Vec<f64>> {
                let mut workspace = W::default();
                let mut e = workspace.bind(&params, Context { indices: &[1], ..Context::default() });
                let x = embedding.forward(&mut e, Indices::new(0, 1), 1)?;
                let y = head.forward(&mut e, x)?;
                Ok(e.value(y).data.to_vec())
            };
            let (plain, biased) = (logits(embedding.tied_head(None))?, logits(embedding.tied_head(Some(bias)))?);
            for i in 0..3 {
                assert!((biased[i] - plain[i] - (i as f64 + 1.0)).abs() < 1e-12);
            }
            Ok(())
        }

        fn f37_a_tied_table_is_one_parameter_with_the_sum_of_both_gradients<W>() {
            let (embedding, params) = build(|b| Embedding::new(b, "tokens", 3, 2, Init::XavierNormal))?;
            assert_eq!((params.len(), params.entries().len()), (6, 1));
            let both = tied::<W>(&embedding, &embedding.tied_head(None), &params)?;

            // The same numbers as two parameters: the gradients of the two uses, one by one.
            let mut apart = params.clone();
            let copy = apart.add("head", burtorch_tensor::Shape::new(&[3, 2])?, params.values())?;
            let each = tied::<W>(&embedding, &Linear::shared(copy, None), &apart)?;
            let sum: Vec<f64> = each[..6].iter().zip(&each[6..]).map(|(a, b)| a + b).collect();
            assert!(each.chunks(6).all(|use_| use_.iter().any(|&g| g != 0.0)));
            check_close("tied gradient", &sum, &both)
        }
    }

    #[test]
    fn positions_agree_on_both_engines_also_when_fewer_are_used() -> Result<()> {
        let (layer, params) = build(|b| PositionEmbedding::new(b, "positions", 4, 3, Init::GPT2))?;
        assert_eq!(params.len(), 12);
        check_agreement(&layer, &params, &[2, 4, 3], context(true))?;
        check_agreement(&layer, &params, &[2, 2, 3], context(true))
    }

    #[test]
    fn more_positions_than_rows_are_refused() -> Result<()> {
        let (layer, params) = build(|b| PositionEmbedding::new(b, "positions", 4, 3, Init::GPT2))?;
        let refused = check_agreement(&layer, &params, &[1, 5, 3], context(false));
        assert!(
            matches!(refused, Err(Error::Mismatch { .. })),
            "{refused:?}"
        );
        Ok(())
    }
}
