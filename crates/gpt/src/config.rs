//! Every hyperparameter of a training run, with its unit, its default and its range.
//!
//! Settings come from three places, the later ones winning: the preset, a configuration file, the command line. All
//! of them are [`Settings`], where nothing has to be said; [`Config::resolve`] fills the gaps and [`Config::validate`]
//! checks the ranges. What belongs to an optimizer (learning rates, warm-up, decay, clipping) has defaults that depend
//! on the optimizer alone ([`OptimizerKind::defaults`]): a preset names its optimizer, and whoever names another gets
//! the defaults of that one.

mod choice;
mod file;
mod preset;
mod settings;

use std::path::PathBuf;

use burtorch_optim::Schedule;
use serde::Serialize;

use crate::Error;
use crate::model::ModelConfig;
use crate::text::grouped;
pub use choice::{ActivationKind, EngineKind, OptimizerDefaults, OptimizerKind};
pub use file::{ConfigFile, Record};
pub(crate) use file::{contradiction, other_model};
pub use preset::{DEFAULT_STEPS, Preset, PresetSettings};
pub use settings::Settings;

/// Share of the text, at its end, that is never trained on.
pub const VALIDATION_FRACTION: f64 = 0.1;

/// The largest model that is tried: above, sizes are more likely a slip than a wish.
const MOST_PARAMETERS: usize = 1 << 31;

/// The most tokens in one step, for the same reason.
const MOST_TOKENS: usize = 1 << 27;

/// The most blocks, for the same reason: each is an object of its own, however few numbers it has.
const MOST_LAYERS: usize = 10_000;

/// All settings of a run, each with a value; the names in a file are those of the flags.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Config {
    /// Where the values come from that were not given.
    pub preset: Preset,
    /// The text file; none for the embedded text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// `char`, or the path of a tokenizer file.
    pub tokenizer: String,
    /// What computes the gradients.
    pub engine: EngineKind,
    /// Optimizer steps.
    pub steps: u64,
    /// Sequences per step.
    pub batch_size: usize,
    /// Sequences that one thread works on at a time.
    pub micro_batch: usize,
    /// Whether blocks are computed again on the way back.
    pub recompute: bool,
    /// Tokens the model looks back on.
    pub block_size: usize,
    /// Transformer blocks.
    pub layers: usize,
    /// Attention heads per block.
    pub heads: usize,
    /// Numbers per token vector.
    pub embed: usize,
    /// Share of activations zeroed in training.
    pub dropout: f64,
    /// Nonlinearity of the MLP.
    pub activation: ActivationKind,
    /// Whether normalisations and linear layers other than query, key and value and the head have a bias.
    pub bias: bool,
    /// Whether the query, key and value projections have a bias.
    pub qkv_bias: bool,
    /// Whether the head uses the token embedding as its weight.
    pub tied_head: bool,
    /// Whether the head has a bias.
    pub head_bias: bool,
    /// The folder whose model the run started from; none for random weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_from: Option<PathBuf>,
    /// How gradients become steps.
    pub optimizer: OptimizerKind,
    /// Largest learning rate.
    pub lr: f64,
    /// Learning rate at the end.
    pub min_lr: f64,
    /// Steps until the largest learning rate.
    pub warmup: u64,
    /// Decay of matrices per unit of learning rate.
    pub weight_decay: f64,
    /// Memory of the first moment (Adam, AdamW).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta1: Option<f64>,
    /// Memory of the second moment (Adam, AdamW).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta2: Option<f64>,
    /// Largest Euclidean norm of the gradient, 0 for no limit.
    pub grad_clip: f64,
    /// Steps between two evaluations and saved states.
    pub eval_every: u64,
    /// Batches per evaluation, the same ones each time.
    pub eval_batches: u64,
    /// Steps between two samples on the way, 0 for none.
    pub sample_every: u64,
    /// Seed of all random streams.
    pub seed: u64,
}

impl Config {
    /// Fills what `given` leaves open, and checks the result.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`], naming the flag.
    pub fn resolve(given: &Settings) -> Result<Self, Error> {
        let preset = given.preset.unwrap_or_default();
        let (base, model) = (preset.settings(), preset.model(1));
        let kind = given.optimizer.unwrap_or(base.optimizer);
        let optimizer = kind.defaults();
        let default_steps = if given.preset.is_some() {
            base.steps
        } else {
            DEFAULT_STEPS
        };
        let steps = given.steps.unwrap_or(default_steps);
        let batch_size = given.batch_size.unwrap_or(base.batch_size);
        let lr = given.lr.unwrap_or(optimizer.lr);
        let engine = given.engine.unwrap_or_default();
        // The scalar engine keeps handles of all results, and is no slower one sequence at a time.
        let micro_batch = match engine {
            EngineKind::Tensor => base.micro_batch,
            EngineKind::Scalar => 1,
        };
        let config = Self {
            preset,
            data: given.data.clone(),
            tokenizer: given.tokenizer.clone().unwrap_or_else(|| "char".into()),
            engine,
            steps,
            batch_size,
            micro_batch: given
                .micro_batch
                .unwrap_or(micro_batch.min(batch_size.max(1))),
            recompute: given.recompute.unwrap_or(false),
            block_size: given.block_size.unwrap_or(model.block_size),
            layers: given.layers.unwrap_or(model.layers),
            heads: given.heads.unwrap_or(model.heads),
            embed: given.embed.unwrap_or(model.embed),
            dropout: given.dropout.unwrap_or(model.dropout),
            activation: given.activation.unwrap_or(base.activation),
            bias: given.bias.unwrap_or(model.bias),
            qkv_bias: given.qkv_bias.unwrap_or(model.qkv_bias),
            tied_head: given.tied_head.unwrap_or(model.tied_head),
            head_bias: given.head_bias.unwrap_or(model.head_bias),
            init_from: given.init_from.clone(),
            optimizer: kind,
            lr,
            min_lr: given.min_lr.unwrap_or(lr / optimizer.lr_over_min_lr),
            warmup: given.warmup.unwrap_or(optimizer.warmup.min(steps / 10)),
            weight_decay: given.weight_decay.unwrap_or(optimizer.weight_decay),
            beta1: given.beta1.or(optimizer.betas.map(|betas| betas.0)),
            beta2: given.beta2.or(optimizer.betas.map(|betas| betas.1)),
            grad_clip: given.grad_clip.unwrap_or(optimizer.grad_clip),
            eval_every: given.eval_every.unwrap_or(250),
            eval_batches: given.eval_batches.unwrap_or(20),
            sample_every: given.sample_every.unwrap_or(0),
            seed: given.seed.unwrap_or(1),
        };
        config.validate()?;
        Ok(config)
    }

    /// Checks every range, and what has to go together.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`], naming the flag.
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_counts()?;
        self.validate_optimizer()?;
        let within = |name, found, range: std::ops::Range<f64>| {
            let expected = format!(
                "a number of at least {} and below {} in 32 bits",
                range.start, range.end
            );
            range
                .contains(&f64::from(found as f32))
                .then_some(())
                .ok_or_else(|| Error::setting(name, expected, found))
        };
        within("--dropout", self.dropout, 0.0..1.0)?;
        self.beta1
            .map_or(Ok(()), |beta| within("--beta1", beta, 0.0..1.0))?;
        self.beta2
            .map_or(Ok(()), |beta| within("--beta2", beta, 0.0..1.0))
    }

    fn validate_counts(&self) -> Result<(), Error> {
        for (name, found) in [
            ("--steps", self.steps),
            ("--batch-size", self.batch_size as u64),
            ("--micro-batch", self.micro_batch as u64),
            ("--block-size", self.block_size as u64),
            ("--layers", self.layers as u64),
            ("--heads", self.heads as u64),
            ("--embed", self.embed as u64),
            ("--eval-every", self.eval_every),
            ("--eval-batches", self.eval_batches),
        ] {
            if found == 0 {
                return Err(Error::setting(name, "at least 1", found));
            }
        }
        if self.micro_batch > self.batch_size {
            let expected = format!("at most --batch-size {}", self.batch_size);
            return Err(Error::setting("--micro-batch", expected, self.micro_batch));
        }
        if !self.embed.is_multiple_of(self.heads) {
            let expected = format!("a divisor of --embed {}", self.embed);
            return Err(Error::setting("--heads", expected, self.heads));
        }
        self.validate_sizes()
    }

    /// Refuses sizes that could only end in an exhausted memory.
    fn validate_sizes(&self) -> Result<(), Error> {
        if self.layers > MOST_LAYERS {
            let expected = format!("at most {MOST_LAYERS}");
            return Err(Error::setting("--layers", expected, self.layers));
        }
        let tokens = self.batch_size.checked_mul(self.block_size);
        if tokens.is_none_or(|tokens| tokens > MOST_TOKENS) {
            let expected = format!("at most {MOST_TOKENS} tokens per step");
            let found = format!("{} times --block-size {}", self.batch_size, self.block_size);
            return Err(Error::setting("--batch-size", expected, found));
        }
        let parameters = self.model(1).parameter_count();
        if parameters
            .as_ref()
            .is_ok_and(|count| *count <= MOST_PARAMETERS)
        {
            return Ok(());
        }
        let count = parameters.map_or_else(|_| "over 2^53".into(), |count| grouped(count as u64));
        let expected = format!(
            "a model of at most {} parameters",
            grouped(MOST_PARAMETERS as u64)
        );
        let found = format!("{count} with {} and {}", self.embed, self.layers);
        Err(Error::setting("--embed and --layers", expected, found))
    }

    fn validate_optimizer(&self) -> Result<(), Error> {
        for (name, found) in [
            ("--lr", self.lr),
            ("--min-lr", self.min_lr),
            ("--weight-decay", self.weight_decay),
            ("--grad-clip", self.grad_clip),
        ] {
            // The arithmetic of training is in f32, where a number above 3.4e38 is infinite.
            if !(found >= 0.0 && (found as f32).is_finite()) {
                let expected = "a number of at least 0 that is finite in 32 bits";
                return Err(Error::setting(name, expected, found));
            }
        }
        if self.min_lr > self.lr {
            return Err(Error::setting(
                "--min-lr",
                format!("at most --lr {}", self.lr),
                self.min_lr,
            ));
        }
        if self.warmup > self.steps {
            return Err(Error::setting(
                "--warmup",
                format!("at most --steps {}", self.steps),
                self.warmup,
            ));
        }
        let wanted = self.optimizer.defaults().betas.is_some();
        for (name, beta) in [("--beta1", self.beta1), ("--beta2", self.beta2)] {
            if let Some(beta) = beta.filter(|_| !wanted) {
                return Err(Error::setting(
                    name,
                    "--optimizer adam or adamw with it",
                    format!("{beta} with sgd"),
                ));
            }
        }
        Ok(())
    }

    /// The model these settings describe, for a vocabulary of this size.
    #[must_use]
    pub fn model(&self, vocab_size: usize) -> ModelConfig {
        ModelConfig {
            block_size: self.block_size,
            layers: self.layers,
            heads: self.heads,
            embed: self.embed,
            dropout: self.dropout,
            activation: self.activation.into(),
            bias: self.bias,
            qkv_bias: self.qkv_bias,
            tied_head: self.tied_head,
            head_bias: self.head_bias,
            vocab_size,
        }
    }

    /// The learning rate of every step: a warm-up, then half a cosine wave from `lr` to `min_lr` over all steps, which
    /// is a constant where the two are equal.
    ///
    /// # Errors
    ///
    /// [`Error::Optimizer`] for values that [`validate`](Self::validate) refuses too.
    pub fn schedule(&self) -> Result<Schedule, Error> {
        Ok(Schedule::warmup_cosine(
            self.lr,
            self.min_lr,
            self.warmup,
            self.steps,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(given: Settings) -> Config {
        Config::resolve(&given).unwrap()
    }

    fn message(given: Settings) -> String {
        let error = Config::resolve(&given).unwrap_err();
        assert!(error.is_usage());
        error.to_string()
    }

    #[test]
    fn without_a_word_it_is_the_small_preset_with_its_own_number_of_steps() {
        let config = config(Settings::default());
        assert_eq!(
            (config.preset, config.steps),
            (Preset::Small, DEFAULT_STEPS)
        );
        assert_eq!(
            (config.layers, config.heads, config.embed, config.block_size),
            (4, 4, 128, 64)
        );
        assert_eq!(
            (config.batch_size, config.micro_batch, config.dropout),
            (12, 3, 0.0)
        );
    }

    #[test]
    fn the_small_preset_is_as_documented() {
        let config = config(Settings {
            preset: Some(Preset::Small),
            ..Settings::default()
        });
        assert_eq!(
            (config.optimizer, config.lr, config.min_lr),
            (OptimizerKind::Adamw, 1e-3, 1e-4)
        );
        assert_eq!(
            (config.warmup, config.beta1, config.beta2),
            (100, Some(0.9), Some(0.99))
        );
        assert_eq!(
            (config.weight_decay, config.grad_clip, config.steps),
            (0.1, 1.0, 2000)
        );
    }

    #[test]
    fn the_mini_preset_is_plain_gradient_descent() {
        let config = config(Settings {
            preset: Some(Preset::Mini),
            ..Settings::default()
        });
        assert_eq!(
            (config.optimizer, config.lr, config.min_lr),
            (OptimizerKind::Sgd, 3e-4, 3e-4)
        );
        assert_eq!(
            (
                config.warmup,
                config.beta1,
                config.grad_clip,
                config.weight_decay
            ),
            (0, None, 0.0, 0.0)
        );
        assert_eq!((config.batch_size, config.micro_batch), (64, 16));
        let schedule = config.schedule().unwrap();
        assert!(
            (0..10_000)
                .step_by(97)
                .all(|step| schedule.learning_rate(step) == 3e-4)
        );
    }

    #[test]
    fn another_optimizer_brings_its_own_defaults() {
        let config = config(Settings {
            preset: Some(Preset::Mini),
            optimizer: Some(OptimizerKind::Adamw),
            lr: Some(2e-3),
            steps: Some(3000),
            ..Settings::default()
        });
        assert_eq!((config.lr, config.min_lr, config.warmup), (2e-3, 2e-4, 100));
        assert_eq!((config.beta1, config.beta2), (Some(0.9), Some(0.99)));
        assert_eq!((config.weight_decay, config.grad_clip), (0.1, 1.0));
    }

    #[test]
    fn f30_short_runs_and_long_warm_ups() {
        let given = |steps, warmup| Settings {
            steps: Some(steps),
            warmup,
            ..Settings::default()
        };
        assert_eq!(config(given(50, None)).warmup, 5);
        assert_eq!(config(given(5, None)).warmup, 0);
        for warmup in [0, 50] {
            let schedule = config(given(50, Some(warmup))).schedule().unwrap();
            assert!((0..60).all(|step| schedule.learning_rate(step) > 0.0));
        }
        assert_eq!(
            message(given(50, Some(51))),
            "--warmup: expected at most --steps 50, found 51"
        );
    }

    #[test]
    fn f40_each_impossible_setting_is_named() {
        let default = Settings::default;
        for (given, start) in [
            (
                Settings {
                    heads: Some(5),
                    embed: Some(24),
                    ..default()
                },
                "--heads: expected a divisor of --embed 24",
            ),
            (
                Settings {
                    steps: Some(0),
                    ..default()
                },
                "--steps: expected at least 1, found 0",
            ),
            (
                Settings {
                    batch_size: Some(0),
                    ..default()
                },
                "--batch-size",
            ),
            (
                Settings {
                    micro_batch: Some(13),
                    ..default()
                },
                "--micro-batch: expected at most --batch-size 12",
            ),
            (
                Settings {
                    dropout: Some(1.0),
                    ..default()
                },
                "--dropout",
            ),
            (
                Settings {
                    lr: Some(f64::NAN),
                    ..default()
                },
                "--lr",
            ),
            (
                Settings {
                    lr: Some(-1.0),
                    ..default()
                },
                "--lr",
            ),
            (
                Settings {
                    min_lr: Some(1.0),
                    ..default()
                },
                "--min-lr: expected at most --lr 0.001",
            ),
            (
                Settings {
                    beta2: Some(1.0),
                    ..default()
                },
                "--beta2",
            ),
            (
                Settings {
                    preset: Some(Preset::Mini),
                    beta1: Some(0.9),
                    ..default()
                },
                "--beta1: expected --optimizer",
            ),
            (
                Settings {
                    grad_clip: Some(f64::INFINITY),
                    ..default()
                },
                "--grad-clip",
            ),
            (
                Settings {
                    embed: Some(1 << 40),
                    heads: Some(1),
                    ..default()
                },
                "--embed and --layers: expected a model of at most 2,147,483,648 parameters, found over 2^53",
            ),
            (
                Settings {
                    layers: Some(10_000),
                    embed: Some(1024),
                    ..default()
                },
                "--embed and --layers: expected a model of at most 2,147,483,648 parameters, found 125,",
            ),
            (
                Settings {
                    layers: Some(10_001),
                    ..default()
                },
                "--layers: expected at most 10000, found 10001",
            ),
            (
                Settings {
                    lr: Some(1e39),
                    ..default()
                },
                "--lr: expected a number of at least 0 that is finite in 32 bits",
            ),
            (
                Settings {
                    beta2: Some(0.999_999_999_99),
                    ..default()
                },
                "--beta2",
            ),
            (
                Settings {
                    dropout: Some(0.999_999_999_9),
                    ..default()
                },
                "--dropout",
            ),
            (
                Settings {
                    batch_size: Some(usize::MAX),
                    ..default()
                },
                "--batch-size",
            ),
        ] {
            let message = message(given);
            assert!(message.starts_with(start), "{message}");
        }
    }

    #[test]
    fn the_mini_model_has_the_papers_parts() {
        let model = config(Settings {
            preset: Some(Preset::Mini),
            ..Settings::default()
        })
        .model(65);
        assert_eq!(model, ModelConfig::mini(65));
        assert_eq!(model.parameter_count().unwrap(), 46_337);
    }
}
