//! The GPT: a stack of pre-norm transformer blocks between a token embedding and a linear head.
//!
//! Radford et al., *Language models are unsupervised multitask learners*, 2019 (GPT-2), which stacks the decoder of Vaswani
//! et al., *Attention is all you need*, 2017, with the normalisation moved to the front of each sub-layer. The shape letters
//! `B T C H V` are those of [`burtorch_nn`].

mod config;

use burtorch_nn::{
    Block, BlockConfig, Builder, Dropout, Embedding, Init, Layer, LayerNorm, Linear, LinearConfig,
    PositionEmbedding, Recomputed,
};
use burtorch_tensor::ops::CrossEntropy;
use burtorch_tensor::{Element, Engine, Indices, Params};

pub use config::ModelConfig;

use crate::Error;

/// A GPT: handles of its parameters and its settings. The numbers are in a [`Params`] store, and any engine runs it.
#[derive(Debug, Clone)]
pub struct Gpt {
    config: ModelConfig,
    token_embedding: Embedding,
    position_embedding: PositionEmbedding,
    dropout: Dropout,
    blocks: Vec<Block>,
    final_norm: LayerNorm,
    head: Linear,
    recompute: bool,
}

impl Gpt {
    /// Adds the parameters of a model to a store, drawn from `seed`: embeddings and the head [`Init::GPT2`], the two weights
    /// of each block that read the residual stream [`Init::LecunNormal`], the two that write into it [`Init::gpt2_residual`], gains 1,
    /// biases 0.
    ///
    /// GPT-2 draws the readers with its 0.02 too, which suits its 768 numbers per token; at 128 they learn slowly from there.
    ///
    /// # Errors
    /// As [`ModelConfig::validate`]; [`Error::Tensor`] if the store has parameters of these names or memory is short.
    pub fn new<T: Element>(
        config: &ModelConfig,
        params: &mut Params<T>,
        seed: u64,
    ) -> Result<Gpt, Error> {
        config.validate()?;
        let (vocabulary, positions, width) = (config.vocab_size, config.block_size, config.embed);
        let b = &mut Builder::new(params, seed);
        let token_embedding = Embedding::new(b, "token_embedding", vocabulary, width, Init::GPT2)?;
        let position_embedding =
            PositionEmbedding::new(b, "position_embedding", positions, width, Init::GPT2)?;
        let dropout = Dropout::new(b, "dropout", config.dropout)?;
        let block = block_config(config);
        let blocks = (0..config.layers)
            .map(|i| Block::new(b, &format!("blocks.{i}"), block))
            .collect::<Result<_, _>>()?;
        let final_norm = LayerNorm::new(b, "final_norm", width, config.bias)?;
        let head = head(b, config, &token_embedding)?;
        Ok(Gpt {
            config: config.clone(),
            token_embedding,
            position_embedding,
            dropout,
            blocks,
            final_norm,
            head,
            recompute: false,
        })
    }

    /// This model, of whose blocks only results are kept if `recompute` says so ([`Recomputed`]). Nothing else changes.
    #[must_use]
    pub fn with_recompute(self, recompute: bool) -> Gpt {
        Gpt { recompute, ..self }
    }

    /// The settings of the model.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The score of every symbol as the next one, after every position.
    ///
    /// # Shapes
    /// `B·T` tokens, `B = sequences`, `T ≤ block_size` → `[B, T, V]`.
    ///
    /// # Errors
    /// [`Error::Tensor`] for a token outside the vocabulary, more positions than the block has, or a number of tokens that
    /// `sequences` does not divide.
    pub fn logits<E: Engine>(
        &self,
        e: &mut E,
        tokens: Indices,
        sequences: usize,
    ) -> Result<E::Tensor, Error> {
        let x = self.token_embedding.forward(e, tokens, sequences)?; // [B, T, C]
        let x = self.position_embedding.forward(e, x)?; //              [B, T, C]
        let x = self.dropout.forward(e, x)?; //                         [B, T, C]
        let x = self.blocks(e, x)?; //                                  [B, T, C]
        let x = self.final_norm.forward(e, x)?; //                      [B, T, C]
        Ok(self.head.forward(e, x)?) //                                 [B, T, V]
    }

    fn blocks<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor, Error> {
        if !self.recompute {
            return Ok(self.blocks.forward(e, x)?);
        }
        let mut blocks = self.blocks.iter().cloned().map(Recomputed);
        Ok(blocks.try_fold(x, |x, block| block.forward(e, x))?)
    }

    /// The mean over all positions of `−ln p(target)`, in nats per token.
    ///
    /// # Shapes
    /// `B·T` tokens and as many targets → one number.
    ///
    /// # Errors
    /// As [`Gpt::logits`], also for the targets.
    pub fn loss<E: Engine>(
        &self,
        e: &mut E,
        tokens: Indices,
        targets: Indices,
        sequences: usize,
    ) -> Result<E::Tensor, Error> {
        let logits = self.logits(e, tokens, sequences)?; // [B, T, V]
        let mean = CrossEntropy {
            targets,
            ignore: None,
        };
        Ok(e.apply(mean, [logits])?) //                     []
    }
}

fn block_config(config: &ModelConfig) -> BlockConfig {
    BlockConfig {
        embed: config.embed,
        heads: config.heads,
        hidden: ModelConfig::EXPANSION * config.embed,
        activation: config.activation,
        dropout: config.dropout,
        bias: config.bias,
        qkv_bias: config.qkv_bias,
        init: Init::LecunNormal,
        residual_init: Init::gpt2_residual(config.layers),
    }
}

/// The head, with a weight of its own or with the table of the embedding.
fn head<T: Element>(
    b: &mut Builder<'_, T>,
    config: &ModelConfig,
    token_embedding: &Embedding,
) -> Result<Linear, Error> {
    if !config.tied_head {
        let size = LinearConfig::new(config.embed, config.vocab_size);
        let own = LinearConfig {
            bias: config.head_bias,
            init: Init::GPT2,
            ..size
        };
        return Ok(Linear::new(b, "head", own)?);
    }
    let bias = match config.head_bias {
        true => Some(b.within("head", |b| {
            b.parameter("bias", &[config.vocab_size], Init::ZEROS)
        })?),
        false => None,
    };
    Ok(token_embedding.tied_head(bias))
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_tensor::ops::Activation;
    use burtorch_tensor::{Context, Error as TensorError, ScalarEngine, TensorEngine, Workspace};

    /// Two sequences of six tokens, then their targets.
    const TOKENS: [u32; 24] = [
        3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9,
    ];

    fn tiny(style: ModelConfig) -> ModelConfig {
        ModelConfig {
            vocab_size: 10,
            block_size: 6,
            layers: 2,
            heads: 2,
            embed: 8,
            ..style
        }
    }

    fn styles() -> [ModelConfig; 4] {
        let gpt2 = ModelConfig {
            activation: Activation::GeluTanh,
            bias: true,
            qkv_bias: true,
            ..ModelConfig::small(0)
        };
        [
            tiny(ModelConfig::mini(0)),
            tiny(ModelConfig::small(0)),
            tiny(ModelConfig::base(0)), // with dropout
            tiny(ModelConfig {
                head_bias: true,
                ..gpt2
            }),
        ]
    }

    /// A model whose gains and biases are no longer 1 and 0, so that leaving one out shows.
    fn model(config: &ModelConfig) -> Result<(Gpt, Params<f64>), Error> {
        let mut params = Params::new();
        let gpt = Gpt::new(config, &mut params, 1)?;
        params
            .values_mut()
            .iter_mut()
            .enumerate()
            .for_each(|(i, p)| *p += 0.3 * (7.7 * i as f64).sin());
        Ok((gpt, params))
    }

    fn context(indices: &[u32]) -> Context<'_> {
        Context {
            indices,
            key: 5,
            training: true,
            ..Context::default()
        }
    }

    /// The loss on [`TOKENS`], then its whole gradient.
    fn loss_and_gradient<W: Workspace<f64>>(
        gpt: &Gpt,
        params: &Params<f64>,
    ) -> Result<Vec<f64>, Error> {
        let mut workspace = W::default();
        let mut e = workspace.bind(params, context(&TOKENS));
        let loss = gpt.loss(&mut e, Indices::new(0, 12), Indices::new(12, 12), 2)?;
        let mut numbers = vec![0.0; params.len()];
        e.backward_scalar(loss, &mut numbers)?;
        numbers.insert(0, e.value(loss).data[0]);
        Ok(numbers)
    }

    fn logits<W: Workspace<f64>>(
        gpt: &Gpt,
        params: &Params<f64>,
        tokens: &[u32],
        sequences: usize,
    ) -> Result<Vec<f64>, Error> {
        let mut workspace = W::default();
        let mut e = workspace.bind(
            params,
            Context {
                training: false,
                ..context(tokens)
            },
        );
        let y = gpt.logits(&mut e, Indices::new(0, tokens.len()), sequences)?;
        Ok(e.value(y).data.to_vec())
    }

    /// The first position where two lists differ by more than 1e-10, relative to numbers above 1.
    fn first_difference(a: &[f64], b: &[f64]) -> Option<usize> {
        assert_eq!(a.len(), b.len());
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-10 * a.abs().max(1.0); // false for NaN
        a.iter().zip(b).position(|(&a, &b)| !close(a, b))
    }

    #[test]
    fn the_comparison_can_fail() {
        assert_eq!(first_difference(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(first_difference(&[1.0, 2.0], &[1.0, 2.0 + 1e-9]), Some(1));
        assert_eq!(first_difference(&[f64::NAN], &[f64::NAN]), Some(0));
    }

    #[test]
    fn both_engines_agree_on_the_loss_and_every_gradient() -> Result<(), Error> {
        for config in styles() {
            let (gpt, params) = model(&config)?;
            let tensor = loss_and_gradient::<TensorEngine<f64>>(&gpt, &params)?;
            let scalar = loss_and_gradient::<ScalarEngine<f64>>(&gpt, &params)?;
            assert_eq!(first_difference(&scalar, &tensor), None, "{config:?}");
            for entry in params.entries() {
                let gradient = &tensor[1..][entry.range()];
                assert!(
                    gradient.iter().any(|&g| g != 0.0),
                    "{} got no gradient",
                    entry.name
                );
            }
        }
        Ok(())
    }

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() -> Result<(), Error> {
        let (gpt, mut params) = model(&tiny(ModelConfig::small(0)))?;
        let gradient = loss_and_gradient::<TensorEngine<f64>>(&gpt, &params)?;
        let mut loss_with = |i: usize, change: f64| -> Result<f64, Error> {
            params.values_mut()[i] += change;
            let loss = loss_and_gradient::<TensorEngine<f64>>(&gpt, &params)?[0];
            params.values_mut()[i] -= change;
            Ok(loss)
        };
        for i in (0..gradient.len() - 1).step_by(37) {
            let slope = (loss_with(i, 1e-5)? - loss_with(i, -1e-5)?) / 2e-5;
            assert!(
                (slope - gradient[i + 1]).abs() < 1e-8,
                "parameter {i}: {slope} and {}",
                gradient[i + 1]
            );
        }
        Ok(())
    }

    #[test]
    fn a_new_model_guesses() -> Result<(), Error> {
        let mut params = Params::<f64>::new();
        let gpt = Gpt::new(&tiny(ModelConfig::mini(0)), &mut params, 1)?;
        let loss = loss_and_gradient::<TensorEngine<f64>>(&gpt, &params)?[0];
        assert!(
            (loss - 10f64.ln()).abs() < 0.05,
            "{loss} nats, guessing among 10 is {}",
            10f64.ln()
        );
        Ok(())
    }

    #[test]
    fn fewer_tokens_than_a_block_give_the_logits_of_the_beginning() -> Result<(), Error> {
        for config in styles() {
            let (gpt, params) = model(&config)?;
            let whole = logits::<TensorEngine<f64>>(&gpt, &params, &TOKENS[..6], 1)?;
            for length in 1..6 {
                let part = logits::<TensorEngine<f64>>(&gpt, &params, &TOKENS[..length], 1)?;
                assert_eq!(
                    first_difference(&whole[..length * 10], &part),
                    None,
                    "{length} tokens"
                );
            }
        }
        Ok(())
    }

    #[test]
    fn sequences_do_not_see_each_other() -> Result<(), Error> {
        let (gpt, params) = model(&tiny(ModelConfig::small(0)))?;
        let both = logits::<TensorEngine<f64>>(&gpt, &params, &TOKENS[..12], 2)?;
        for (i, tokens) in TOKENS[..12].chunks(6).enumerate() {
            let alone = logits::<TensorEngine<f64>>(&gpt, &params, tokens, 1)?;
            assert_eq!(first_difference(&both[i * 60..][..60], &alone), None);
        }
        Ok(())
    }

    #[test]
    fn tokens_that_do_not_fit_are_an_error() -> Result<(), Error> {
        fn check<W: Workspace<f64>>(gpt: &Gpt, params: &Params<f64>) {
            let refused =
                |tokens: &[u32], sequences| match logits::<W>(gpt, params, tokens, sequences) {
                    Err(Error::Tensor(error)) => error,
                    other => panic!("{tokens:?} in {sequences} sequences gave {other:?}"),
                };
            assert!(matches!(
                refused(&[1, 10], 1),
                TensorError::Index {
                    position: 1,
                    found: 10,
                    bound: 10,
                    ..
                }
            ));
            let long = refused(&[1; 7], 1).to_string();
            assert!(long.contains('7') && long.contains('6'), "{long}");
            refused(&[1; 5], 2);
            refused(&[1; 5], 0);
            refused(&[], 1);
        }
        let (gpt, params) = model(&tiny(ModelConfig::mini(0)))?;
        check::<TensorEngine<f64>>(&gpt, &params);
        check::<ScalarEngine<f64>>(&gpt, &params);
        let mut workspace = TensorEngine::new();
        let mut e = workspace.bind(&params, context(&[1, 2, 3, 10]));
        let outside = gpt
            .loss(&mut e, Indices::new(0, 2), Indices::new(2, 2), 1)
            .map(drop);
        assert!(
            matches!(
                outside,
                Err(Error::Tensor(TensorError::Index { found: 10, .. }))
            ),
            "{outside:?}"
        );
        Ok(())
    }

    /// The standard deviation around 0 of a parameter.
    fn deviation(params: &Params<f64>, name: &str) -> f64 {
        let entry = params.entries().iter().find(|entry| entry.name == name);
        let values = &params.values()[entry.expect(name).range()];
        (values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64).sqrt()
    }

    #[test]
    fn what_writes_into_the_residual_stream_starts_smaller_with_depth() -> Result<(), Error> {
        let config = ModelConfig {
            layers: 8,
            embed: 64,
            ..tiny(ModelConfig::small(0))
        };
        let mut params = Params::new();
        Gpt::new(&config, &mut params, 1)?;
        for (name, expected) in [
            ("blocks.0.attention.qkv.weight", 1.0 / 8.0), // √64
            ("blocks.0.mlp.expand.weight", 1.0 / 8.0),
            ("blocks.0.attention.projection.weight", 0.02 / 4.0), // √(2·8)
            ("blocks.7.mlp.contract.weight", 0.02 / 4.0),
        ] {
            let found = deviation(&params, name);
            assert!((found / expected - 1.0).abs() < 0.05, "{name}: {found}");
        }
        Ok(())
    }

    /// The logits in training, for the tokens 3 and 1.
    fn training_logits(gpt: &Gpt, params: &Params<f64>) -> Result<Vec<f64>, Error> {
        let mut workspace = TensorEngine::<f64>::new();
        let mut e = workspace.bind(params, context(&TOKENS[..2]));
        let y = gpt.logits(&mut e, Indices::new(0, 2), 1)?;
        Ok(e.value(y).data.to_vec())
    }

    #[test]
    fn certain_dropout_takes_the_embeddings_too() -> Result<(), Error> {
        let mut config = tiny(ModelConfig::small(0));
        let differ = |config: &ModelConfig| -> Result<bool, Error> {
            let (gpt, params) = model(config)?;
            let logits = training_logits(&gpt, &params)?;
            Ok(first_difference(&logits[..10], &logits[10..]).is_some())
        };
        assert!(differ(&config)?, "without dropout the positions differ");
        config.dropout = 1.0;
        assert!(
            !differ(&config)?,
            "with it nothing is left to tell them apart"
        );
        Ok(())
    }

    /// Two dropouts that share a stream would drop the same numbers of their inputs.
    #[test]
    fn every_dropout_of_the_model_has_a_stream_of_its_own() -> Result<(), Error> {
        let config = ModelConfig {
            layers: 3,
            dropout: 0.5,
            ..tiny(ModelConfig::small(0))
        };
        let (gpt, _) = model(&config)?;
        let text = format!("{gpt:?}");
        let streams: Vec<&str> = text
            .split("stream: ")
            .skip(1)
            .map(|rest| &rest[..rest.find([',', ' ', '}']).unwrap_or(rest.len())])
            .collect();
        assert_eq!(streams.len(), 1 + 3 * 3, "{text}");
        let different: std::collections::HashSet<_> = streams.iter().collect();
        assert_eq!(different.len(), streams.len(), "{streams:?}");
        Ok(())
    }

    #[test]
    fn f34_the_two_widths_start_from_the_same_numbers() -> Result<(), Error> {
        let (mut wide, mut narrow) = (Params::<f64>::new(), Params::<f32>::new());
        Gpt::new(&ModelConfig::mini(65), &mut wide, 3)?;
        Gpt::new(&ModelConfig::mini(65), &mut narrow, 3)?;
        let rounded: Vec<f32> = wide.values().iter().map(|&v| v as f32).collect();
        assert_eq!(narrow.values(), rounded);
        Ok(())
    }

    #[test]
    fn f37_a_tied_head_is_no_second_tensor() -> Result<(), Error> {
        let config = tiny(ModelConfig::small(0));
        let (tied, untied) = (
            model(&config)?.1,
            model(&ModelConfig {
                tied_head: false,
                ..config
            })?
            .1,
        );
        assert_eq!(untied.len() - tied.len(), 80);
        assert!(tied.find("head.weight").is_none() && untied.find("head.weight").is_some());
        Ok(())
    }

    #[test]
    fn a_store_that_holds_a_model_refuses_another() -> Result<(), Error> {
        let (_, mut params) = model(&tiny(ModelConfig::mini(0)))?;
        let refused = Gpt::new(&tiny(ModelConfig::mini(0)), &mut params, 1).map(drop);
        assert!(
            matches!(
                refused,
                Err(Error::Tensor(TensorError::DuplicateName { .. }))
            ),
            "{refused:?}"
        );
        Ok(())
    }
}
