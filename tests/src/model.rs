//! Tiny GPTs in the style of each preset, and one pass of them.

use burtorch_data::derive_seed;
use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_tensor::ops::Activation;
use burtorch_tensor::{Context, Element, Engine, Indices, Params, Workspace};

use crate::Outcome;

/// In the style of the preset mini: ReLU, biases except in query, key and value, an untied head with a bias.
#[must_use]
pub fn mini_style() -> ModelConfig {
    ModelConfig {
        vocab_size: 7,
        block_size: 5,
        layers: 2,
        heads: 2,
        embed: 8,
        dropout: 0.0,
        activation: Activation::Relu,
        bias: true,
        qkv_bias: false,
        tied_head: false,
        head_bias: true,
    }
}

/// In the style of the preset small: GELU, no bias anywhere, the head tied to the token embedding.
#[must_use]
pub fn small_style() -> ModelConfig {
    ModelConfig {
        activation: Activation::Gelu,
        bias: false,
        tied_head: true,
        head_bias: false,
        ..mini_style()
    }
}

/// In the style of the preset base: as small, with dropout.
#[must_use]
pub fn base_style() -> ModelConfig {
    ModelConfig {
        dropout: 0.2,
        ..small_style()
    }
}

/// All three styles, by name.
#[must_use]
pub fn styles() -> [(&'static str, ModelConfig); 3] {
    [
        ("mini", mini_style()),
        ("small", small_style()),
        ("base", base_style()),
    ]
}

/// Numbers spread evenly over −1..1, the same for the same seed.
pub fn noise(seed: u64) -> impl Iterator<Item = f64> {
    let bits = std::iter::successors(Some(seed), |&last| Some(derive_seed(last, "noise"))).skip(1);
    bits.map(|bits| (bits >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
}

/// Token ids and their targets, in the layout that a [`Context`] wants.
#[derive(Debug, Clone)]
pub struct Batch {
    indices: Vec<u32>,
    sequences: usize,
}

impl Batch {
    /// A batch of as many targets as tokens, `sequences` rows of them.
    #[must_use]
    pub fn new(tokens: &[u32], targets: &[u32], sequences: usize) -> Self {
        Batch {
            indices: [tokens, targets].concat(),
            sequences,
        }
    }

    /// A batch from windows of `width` ids: all but the last are tokens, all but the first are targets.
    #[must_use]
    pub fn from_windows(windows: &[u32], width: usize) -> Self {
        let cut = |range: std::ops::Range<usize>| -> Vec<u32> {
            windows
                .chunks(width)
                .flat_map(|window| &window[range.clone()])
                .copied()
                .collect()
        };
        Batch::new(&cut(0..width - 1), &cut(1..width), windows.len() / width)
    }

    /// Windows of random ids, as long as the model's block.
    #[must_use]
    pub fn random(config: &ModelConfig, sequences: usize, seed: u64) -> Self {
        let width = config.block_size + 1;
        let id = |x: f64| ((x + 1.0) / 2.0 * config.vocab_size as f64) as u32;
        let ids: Vec<u32> = noise(seed).take(sequences * width).map(id).collect();
        Batch::from_windows(&ids, width)
    }

    /// The number of rows.
    #[must_use]
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// The token ids, row by row.
    #[must_use]
    pub fn token_ids(&self) -> &[u32] {
        &self.indices[..self.indices.len() / 2]
    }

    /// The ids to be predicted, row by row.
    #[must_use]
    pub fn target_ids(&self) -> &[u32] {
        &self.indices[self.indices.len() / 2..]
    }

    /// The tokens within [`Batch::context`].
    #[must_use]
    pub fn tokens(&self) -> Indices {
        Indices::new(0, self.indices.len() / 2)
    }

    /// The targets within [`Batch::context`].
    #[must_use]
    pub fn targets(&self) -> Indices {
        Indices::new(self.indices.len() / 2, self.indices.len() / 2)
    }

    /// What a pass over this batch needs; dropout is active if a key for its masks is given.
    #[must_use]
    pub fn context(&self, key: Option<u64>) -> Context<'_> {
        Context {
            indices: &self.indices,
            key: key.unwrap_or_default(),
            training: key.is_some(),
            find_non_finite: true,
        }
    }
}

/// A GPT and its parameters.
pub struct Model<T> {
    /// The model.
    pub gpt: Gpt,
    /// Its parameters.
    pub params: Params<T>,
}

impl<T: Element> Model<T> {
    /// A model whose weights are far from a usual initialisation: every gain, bias and attention pattern matters.
    ///
    /// # Errors
    /// If the model refuses the configuration.
    pub fn rough(config: &ModelConfig, seed: u64) -> Outcome<Self> {
        let mut params = Params::new();
        let gpt = Gpt::new(config, &mut params, seed)?;
        params
            .values_mut()
            .iter_mut()
            .zip(noise(seed))
            .for_each(|(value, noise)| *value += T::from_f64(0.5 * noise));
        Ok(Model { gpt, params })
    }

    /// The loss of a batch and its gradient, in a fresh workspace.
    ///
    /// # Errors
    /// As [`accumulate`].
    pub fn evaluate<W: Workspace<T>>(
        &self,
        batch: &Batch,
        key: Option<u64>,
    ) -> Outcome<(f64, Vec<T>)> {
        let mut gradients = vec![T::ZERO; self.params.len()];
        let loss = accumulate(
            &self.gpt,
            &self.params,
            &mut W::default(),
            batch,
            key,
            &mut gradients,
        )?;
        Ok((loss, gradients))
    }
}

/// The loss of a batch, with its gradient *added* to `gradients`.
///
/// # Errors
/// What the model or the engine refuses.
pub fn accumulate<T: Element, W: Workspace<T>>(
    gpt: &Gpt,
    params: &Params<T>,
    workspace: &mut W,
    batch: &Batch,
    key: Option<u64>,
    gradients: &mut [T],
) -> Outcome<f64> {
    let mut engine = workspace.bind(params, batch.context(key));
    let loss = gpt.loss(
        &mut engine,
        batch.tokens(),
        batch.targets(),
        batch.sequences,
    )?;
    engine.backward_scalar(loss, gradients)?;
    Ok(engine.value(loss).data[0].to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_spread_and_repeats() {
        let numbers: Vec<f64> = noise(3).take(1000).collect();
        assert!(numbers.iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(
            numbers.iter().sum::<f64>().abs() < 60.0,
            "the mean of 1000 is within three deviations of 0"
        );
        assert_eq!(numbers, noise(3).take(1000).collect::<Vec<f64>>());
        assert_ne!(numbers[0], noise(4).next().unwrap_or_default());
    }

    #[test]
    fn random_batches_use_the_vocabulary() {
        let config = mini_style();
        let batch = Batch::random(&config, 40, 1);
        let seen: std::collections::BTreeSet<_> = batch.token_ids().iter().copied().collect();
        assert_eq!(
            seen.into_iter().collect::<Vec<_>>(),
            (0..config.vocab_size as u32).collect::<Vec<_>>()
        );
        assert_eq!(batch.token_ids()[1..5], batch.target_ids()[..4]);
    }
}
