//! The GPT as it writes: one position after another, each behind the keys and values of those before it.
//!
//! The same network as [`Gpt::logits`](crate::model::Gpt::logits), without an engine: no tape, no gradient, weights packed once
//! ([`PackedLinear`]), buffers allocated once. Row by row it computes what the engine does, up to rounding, as its tests show.
//!
//! **Bits.** The logits after a position are the same to the last bit whether its predecessors were computed in the same call or in
//! earlier ones, since no sum of a row depends on the rows beside it ([`burtorch_tensor::inference`]). So a text is the same with and
//! without kept keys and values, at every temperature.

mod block;
mod norm;
mod weights;

use burtorch_tensor::inference::PackedLinear;
use burtorch_tensor::ops::Activation;
use burtorch_tensor::{Element, Params};

use crate::Error;
use crate::model::ModelConfig;
use block::{Block, Rows};
use norm::Norm;
use weights::Weights;

/// A model that is given tokens and says what may come next.
///
/// It holds a copy of the weights of its linear layers, and keys and values of up to `block_size` positions.
pub struct Decoder<'a, T> {
    config: ModelConfig,
    /// `[V, C]`
    token_table: &'a [T],
    /// `[block_size, C]`
    position_table: &'a [T],
    blocks: Vec<Block<'a, T>>,
    final_norm: Norm<'a, T>,
    head: PackedLinear<T>,
    rows: Rows<T>,
    logits: Vec<T>,
}

impl<'a, T: Element> Decoder<'a, T> {
    /// For a model of these settings with these parameters.
    ///
    /// # Errors
    ///
    /// As [`ModelConfig::validate`]; [`Error::Parameter`] if a parameter of such a model is missing or has another shape;
    /// [`Error::Tensor`] if memory is short.
    pub fn new(config: &ModelConfig, params: &'a Params<T>) -> Result<Self, Error> {
        config.validate()?;
        let weights = Weights::new(params);
        let (v, t, c) = (config.vocab_size, config.block_size, config.embed);
        let token_table = weights.get("token_embedding.weight", &[v, c])?;
        let head = match config.tied_head {
            true => token_table,
            false => weights.get("head.weight", &[v, c])?,
        };
        let head_bias = weights.bias(config.head_bias, "head.bias", v)?;
        Ok(Self {
            token_table,
            position_table: weights.get("position_embedding.weight", &[t, c])?,
            blocks: (0..config.layers)
                .map(|i| Block::new(&weights, &format!("blocks.{i}"), config))
                .collect::<Result<_, _>>()?,
            final_norm: Norm::new(&weights, "final_norm", config)?,
            head: PackedLinear::new(head, head_bias, c, Activation::Identity)?,
            rows: Rows::new(config)?,
            logits: vec![T::ZERO; v],
            config: config.clone(),
        })
    }

    /// The settings of the model.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Positions behind which the next one comes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks[0].len()
    }

    /// Whether the next token is the first.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all positions.
    pub fn clear(&mut self) {
        self.blocks.iter_mut().for_each(Block::clear);
    }

    /// Puts tokens behind those that were given before; the logits of what comes next, `[V]`.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for no tokens, or more than `block_size` together with those before; [`Error::UnknownToken`]. Then nothing has
    /// changed.
    pub fn extend(&mut self, tokens: &[u32]) -> Result<&[T], Error> {
        self.check(tokens)?;
        let (rows, width) = (tokens.len(), self.config.embed);
        self.embed(tokens);
        let (last, others) = self.blocks.split_last_mut().expect("at least one block");
        for block in others {
            block.forward(&mut self.rows, rows, rows)?;
        }
        // Of the last block only the last position's result is asked for.
        last.forward(&mut self.rows, rows, 1)?;
        let Rows {
            x, normal, norm, ..
        } = &mut self.rows;
        let (x, normal) = (&x[(rows - 1) * width..rows * width], &mut normal[..width]);
        self.final_norm.forward(norm, x, normal)?; //    [1, C]
        self.head.forward(normal, &mut self.logits)?; // [1, V]
        Ok(&self.logits)
    }

    fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        let room = self.config.block_size - self.len();
        if tokens.is_empty() || tokens.len() > room {
            let expected = format!("from 1 to {room} tokens");
            return Err(Error::setting("tokens", expected, tokens.len()));
        }
        let size = self.config.vocab_size;
        match tokens.iter().find(|&&token| token as usize >= size) {
            Some(&token) => Err(Error::UnknownToken { token, size }),
            None => Ok(()),
        }
    }

    /// The vectors of the tokens and of their positions, added: `[rows, C]`.
    fn embed(&mut self, tokens: &[u32]) {
        let width = self.config.embed;
        let positions = self.position_table[self.len() * width..].chunks_exact(width);
        let rows = self.rows.x.chunks_exact_mut(width).zip(positions);
        for ((x, position), &token) in rows.zip(tokens) {
            let vector = &self.token_table[token as usize * width..][..width];
            for ((x, &vector), &position) in x.iter_mut().zip(vector).zip(position) {
                *x = vector + position;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Gpt;
    use burtorch_tensor::{Context, Engine, Indices, ScalarEngine, TensorEngine, Workspace};

    /// Every choice that the settings allow, small and with odd sizes.
    fn styles() -> Vec<ModelConfig> {
        let tiny = |style: ModelConfig| ModelConfig {
            vocab_size: 11,
            block_size: 9,
            layers: 2,
            heads: 2,
            embed: 8,
            ..style
        };
        let gpt2 = ModelConfig {
            activation: Activation::GeluTanh,
            bias: true,
            qkv_bias: true,
            heads: 3,
            embed: 15,
            ..ModelConfig::small(0)
        };
        vec![
            tiny(ModelConfig::mini(0)),
            tiny(ModelConfig::small(0)),
            tiny(ModelConfig::base(0)), // with dropout, which only training has
            ModelConfig {
                vocab_size: 23,
                block_size: 20,
                layers: 1,
                ..gpt2.clone()
            },
            tiny(ModelConfig {
                head_bias: true,
                activation: Activation::Identity,
                ..gpt2
            }),
            ModelConfig {
                layers: 1,
                ..ModelConfig::mini(65)
            },
        ]
    }

    /// A model whose gains and biases are no longer 1 and 0, so that leaving one out shows.
    fn model<T: Element>(config: &ModelConfig) -> (Gpt, Params<T>) {
        let mut params = Params::new();
        let gpt = Gpt::new(config, &mut params, 1).unwrap();
        let numbers = params.values_mut().iter_mut().enumerate();
        numbers.for_each(|(i, p)| *p += T::from_f64(0.3 * (7.7 * i as f64).sin()));
        (gpt, params)
    }

    fn tokens(config: &ModelConfig) -> Vec<u32> {
        (0..config.block_size as u32)
            .map(|i| (i * i + 3 * i) % config.vocab_size as u32)
            .collect()
    }

    /// The logits after every position, by an engine.
    fn engine<T: Element, W: Workspace<T>>(config: &ModelConfig) -> Vec<T> {
        let (gpt, params) = model(config);
        let tokens = tokens(config);
        let context = Context {
            indices: &tokens,
            ..Context::default()
        };
        let mut workspace = W::default();
        let mut e = workspace.bind(&params, context);
        let logits = gpt
            .logits(&mut e, Indices::new(0, tokens.len()), 1)
            .unwrap();
        e.value(logits).data.to_vec()
    }

    /// The logits after every position: its predecessors are all in the same call, or were given before, `at_once` at a time.
    fn decoder<T: Element>(config: &ModelConfig, at_once: Option<usize>) -> Vec<T> {
        let (_, params) = model(config);
        let mut decoder = Decoder::new(config, &params).unwrap();
        let tokens = tokens(config);
        let after = |position: usize| {
            decoder.clear();
            let tokens = &tokens[..=position];
            match at_once {
                None => decoder.extend(tokens).unwrap().to_vec(),
                Some(count) => {
                    let mut parts = tokens.rchunks(count).collect::<Vec<_>>();
                    parts.reverse();
                    let (last, others) = parts.split_last().unwrap();
                    for part in others {
                        decoder.extend(part).unwrap();
                    }
                    decoder.extend(last).unwrap().to_vec()
                }
            }
        };
        (0..config.block_size).flat_map(after).collect()
    }

    /// The largest distance, relative to numbers above 1.
    fn distance<T: Element>(found: &[T], expected: &[T]) -> f64 {
        assert_eq!(found.len(), expected.len());
        let each = found.iter().zip(expected).map(|(&a, &b)| {
            let (a, b) = (a.to_f64(), b.to_f64());
            let distance = (a - b).abs() / b.abs().max(1.0);
            if distance.is_nan() {
                f64::INFINITY
            } else {
                distance
            }
        });
        each.fold(0.0, f64::max)
    }

    #[test]
    fn the_distance_shows_differences() {
        assert_eq!(distance(&[1.0, 20.0], &[1.0, 10.0]), 1.0);
        assert_eq!(distance(&[f64::NAN], &[f64::NAN]), f64::INFINITY);
    }

    #[test]
    fn logits_are_those_of_both_engines_at_every_position() {
        for config in styles() {
            let expected = engine::<f64, TensorEngine<f64>>(&config);
            let found = decoder(&config, None);
            assert!(distance(&found, &expected) < 1e-12, "{config:?}");
            let oracle = engine::<f64, ScalarEngine<f64>>(&config);
            assert!(distance(&found, &oracle) < 1e-11, "{config:?}");
            let narrow = engine::<f32, TensorEngine<f32>>(&config);
            assert!(
                distance(&decoder::<f32>(&config, None), &narrow) < 2e-6,
                "{config:?}"
            );
        }
    }

    #[test]
    fn the_bits_do_not_depend_on_what_was_given_before() {
        let presets = [ModelConfig::mini(65), ModelConfig::small(65)];
        for config in styles().into_iter().chain(presets) {
            let together = decoder::<f32>(&config, None);
            for count in [1, 3] {
                assert!(
                    decoder::<f32>(&config, Some(count)) == together,
                    "{count}: {config:?}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let config = ModelConfig {
            vocab_size: 11,
            block_size: 4,
            ..styles().remove(0)
        };
        let (_, params) = model::<f32>(&config);
        let mut decoder = Decoder::new(&config, &params).unwrap();
        assert!(decoder.is_empty() && decoder.config() == &config);
        decoder.extend(&[1, 2]).unwrap();
        let foreign = decoder.extend(&[3, 11]).unwrap_err().to_string();
        assert!(foreign.contains("11"), "{foreign}");
        let long = decoder.extend(&[1; 3]).unwrap_err().to_string();
        assert!(long.contains("1 to 2") && long.contains('3'), "{long}");
        assert!(decoder.extend(&[]).is_err());
        assert_eq!(decoder.len(), 2);
        let found = decoder.extend(&[3, 4]).unwrap().to_vec();
        decoder.clear();
        assert_eq!(decoder.extend(&[1, 2, 3, 4]).unwrap(), found);
    }

    #[test]
    fn parameters_of_another_model_are_refused() {
        let config = ModelConfig::mini(11);
        let (_, params) = model::<f32>(&config);
        let refused = |other: ModelConfig| {
            let error = Decoder::new(&other, &params).map(drop).unwrap_err();
            error.to_string()
        };
        let missing = refused(ModelConfig {
            layers: 7,
            ..config.clone()
        });
        assert!(
            missing.contains("blocks.6") && missing.contains("none"),
            "{missing}"
        );
        let shape = refused(ModelConfig {
            block_size: 9,
            ..config.clone()
        });
        assert!(
            shape.contains("[9, 24]") && shape.contains("[8, 24]"),
            "{shape}"
        );
        assert!(refused(ModelConfig { heads: 5, ..config }).contains("heads"));
    }
}
