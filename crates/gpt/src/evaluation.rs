//! The loss of a model on text it does not learn from.

use burtorch_data::{Tokens, WeightedMean};
use burtorch_tensor::{Context, Engine, Indices, Params, Pieces, Workspace};
use serde::Serialize;

use crate::Error;
use crate::corpus::{Spread, Window};
use crate::model::Gpt;
use crate::tokenizer::Tokenizer;

/// Tokens decoded at a time.
const PART: usize = 1 << 14;

/// How well a model predicts a text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Evaluation {
    /// Tokens that were predicted.
    pub tokens: usize,
    /// Bytes they have in UTF-8.
    pub bytes: usize,
    /// Mean of `−ln p(token)`, in nats per token.
    pub loss: f64,
    /// `exp(loss)`: between as many equally likely tokens the model hesitates.
    pub perplexity: f64,
    /// `loss · tokens / (ln 2 · bytes)`: comparable between tokenizers.
    pub bits_per_byte: f64,
}

/// Predicts every token of a text but the first exactly once, in windows that do not overlap.
///
/// # Errors
///
/// [`Error::Data`] for fewer than 2 tokens, and what the engine refuses.
pub fn evaluate<W: Workspace<f32>>(
    model: &Gpt,
    params: &Params<f32>,
    tokenizer: &Tokenizer,
    tokens: Tokens<'_>,
    threads: usize,
) -> Result<Evaluation, Error> {
    let windows = Spread::new(tokens, model.config().block_size, usize::MAX)?;
    let targets = tokens.get(1..tokens.len()).unwrap_or(tokens);
    let mut gradients = vec![0.0; params.len()];
    let mut pieces = Pieces::<f32, W>::new(threads)?;
    let loss = mean_loss(
        model,
        params,
        &mut pieces,
        &mut gradients,
        windows,
        sequences_per_piece(model),
    )?;
    let mut bytes = 0;
    for part in targets.chunks(PART) {
        bytes += tokenizer.decode_bytes(&part.to_vec())?.len();
    }
    let tokens = targets.len();
    let bits_per_byte = loss * tokens as f64 / (std::f64::consts::LN_2 * bytes as f64);
    Ok(Evaluation {
        tokens,
        bytes,
        loss,
        perplexity: loss.exp(),
        bits_per_byte,
    })
}

/// Sequences of about 256 tokens together: enough to keep the kernels busy, small enough for the cache.
fn sequences_per_piece(model: &Gpt) -> usize {
    (256 / model.config().block_size).max(1)
}

/// Mean loss over windows in nats per token, each token with the same weight; `pieces` gets `sequences` windows at a time. `gradients`
/// is working memory of the parameters' length.
pub(crate) fn mean_loss<W: Workspace<f32>>(
    model: &Gpt,
    params: &Params<f32>,
    pieces: &mut Pieces<f32, W>,
    gradients: &mut [f32],
    windows: Spread<'_>,
    sequences: usize,
) -> Result<f64, Error> {
    let (whole, all) = (windows.whole(), windows.count());
    // A shorter window at the end is a piece of its own.
    let places = |piece: usize| match piece * sequences {
        first if first < whole => first..whole.min(first + sequences),
        _ => whole..all,
    };
    let mut losses = vec![0.0; whole.div_ceil(sequences) + all - whole];
    let work = |piece: usize, workspace: &mut W, params: &Params<f32>, _: &mut [f32]| {
        window_loss(model, workspace, params, windows.windows(places(piece)))
    };
    pieces.run(params, gradients, &mut losses, work)?;
    let mut mean = WeightedMean::default();
    for (piece, loss) in losses.into_iter().enumerate() {
        let tokens = windows
            .windows(places(piece))
            .map(|(inputs, _)| inputs.len());
        mean.add(f64::from(loss), tokens.sum());
    }
    Ok(mean.value().unwrap_or(f64::NAN))
}

/// Mean loss over windows of one length.
fn window_loss<'a, W: Workspace<f32>>(
    model: &Gpt,
    workspace: &mut W,
    params: &Params<f32>,
    windows: impl Iterator<Item = Window<'a>> + Clone,
) -> Result<f32, Error> {
    let inputs = windows.clone().map(|(inputs, _)| inputs);
    let targets = windows.clone().map(|(_, targets)| targets);
    let indices: Vec<u32> = inputs.chain(targets).flat_map(Tokens::iter).collect();
    let half = indices.len() / 2;
    let mut e = workspace.bind(
        params,
        Context {
            indices: &indices,
            ..Context::default()
        },
    );
    let loss = model.loss(
        &mut e,
        Indices::new(0, half),
        Indices::new(half, half),
        windows.count(),
    )?;
    Ok(e.value(loss).data[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelConfig;
    use burtorch_tensor::TensorEngine;

    fn model() -> (Gpt, Params<f32>, Tokenizer) {
        let tokenizer = Tokenizer::characters_of("abcé");
        let config = ModelConfig {
            block_size: 4,
            layers: 1,
            heads: 1,
            embed: 4,
            dropout: 0.5,
            ..ModelConfig::small(4)
        };
        let mut params = Params::new();
        let model = Gpt::new(&config, &mut params, 1).unwrap();
        (model, params, tokenizer)
    }

    #[test]
    fn a_model_that_knows_nothing_is_as_good_as_guessing() {
        let (model, mut params, tokenizer) = model();
        params.values_mut().fill(0.0);
        let tokens = tokenizer.encode("ababécabcé", "text").unwrap();
        let tokens = Tokens::from(&tokens);
        let found = evaluate::<TensorEngine<f32>>(&model, &params, &tokenizer, tokens, 2).unwrap();
        assert_eq!((found.tokens, found.bytes), (9, 11));
        assert!((found.loss - 4.0_f64.ln()).abs() < 1e-6 && (found.perplexity - 4.0).abs() < 1e-5);
        assert!((found.bits_per_byte - 2.0 * 9.0 / 11.0).abs() < 1e-6);
    }

    #[test]
    fn f33_a_short_last_window_has_its_own_weight() {
        let (model, params, _) = model();
        let tokens: Vec<u32> = (0..11).map(|i| i * i % 4).collect(); // windows of 4, 4 and 2
        let mut gradients = vec![0.0; params.len()];
        let mut pieces = Pieces::<f32, TensorEngine<f32>>::new(1).unwrap();
        let mut mean = |tokens: &[u32], sequences| {
            let windows = Spread::new(tokens, 4, usize::MAX).unwrap();
            mean_loss(
                &model,
                &params,
                &mut pieces,
                &mut gradients,
                windows,
                sequences,
            )
            .unwrap()
        };
        let single = [0..5, 4..9, 8..11].map(|window| mean(&tokens[window], 1));
        let expected = (4.0 * single[0] + 4.0 * single[1] + 2.0 * single[2]) / 10.0;
        for sequences in [1, 2, 3, 100] {
            assert!((mean(&tokens, sequences) - expected).abs() < 1e-6);
        }
        assert!(
            (mean(&tokens, 2) - single.iter().sum::<f64>() / 3.0).abs() > 1e-6,
            "the plain mean is another number"
        );
    }
}
