//! What a user may say about a run: the same names on the command line and in a file.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::{ActivationKind, DEFAULT_STEPS, EngineKind, OptimizerKind, Preset};
use crate::model::ModelConfig;
use crate::parse::{number, whole};

/// Settings that were given, and gaps where none was. See [`Config`](super::Config) for what they mean.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[command(rename_all = "kebab-case")]
pub struct Settings {
    /// Text to learn, UTF-8, or a file of tokens that "tokenizer encode --out" made; its last tenth is kept for validation [default: the embedded tales]
    #[arg(long, value_name = "FILE", help_heading = "Data")]
    pub data: Option<PathBuf>,
    /// How text becomes tokens: "char" (the characters of the text), "bpe:SIZE" (byte-pair encoding of so many tokens, as bpe:1024, learned from the text but for its validation part), or the file of a tokenizer, as that of another run [default: char]
    #[arg(long, value_name = "char|bpe:SIZE|FILE", help_heading = "Data")]
    pub tokenizer: Option<String>,

    /// Model and the settings to train it; each can be changed by its own flag [default: small, with fewer steps]
    #[arg(long, help_heading = "Model")]
    pub preset: Option<Preset>,
    /// Tokens the model looks back on [default: mini 8, small 64, base 256]
    #[arg(long, value_name = "TOKENS", value_parser = whole::<usize>, allow_negative_numbers = true, help_heading = "Model")]
    pub block_size: Option<usize>,
    /// Transformer blocks [default: mini 6, small 4, base 6]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, help_heading = "Model")]
    pub layers: Option<usize>,
    /// Attention heads per block, a divisor of --embed [default: mini 6, small 4, base 6]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, help_heading = "Model")]
    pub heads: Option<usize>,
    /// Numbers per token vector [default: mini 24, small 128, base 384]
    #[arg(long, value_name = "N", value_parser = whole::<usize>, allow_negative_numbers = true, help_heading = "Model")]
    pub embed: Option<usize>,
    /// Share of activations zeroed in training, from 0 to below 1 [default: mini 0, small 0, base 0.2]
    #[arg(long, value_name = "SHARE", value_parser = number, allow_negative_numbers = true, help_heading = "Model")]
    pub dropout: Option<f64>,
    /// Nonlinearity of the MLP; gelu is the exact form with erf, gelu-tanh its approximation in GPT-2 [default: mini relu, small gelu, base gelu]
    #[arg(long, help_heading = "Model")]
    pub activation: Option<ActivationKind>,
    /// Whether normalisations and linear layers other than query, key and value and the head have a bias [default: mini true, small false, base false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Model")]
    pub bias: Option<bool>,
    /// Whether the query, key and value projections have a bias [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Model")]
    pub qkv_bias: Option<bool>,
    /// Whether the head uses the token embedding as its weight [default: mini false, small true, base true]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Model")]
    pub tied_head: Option<bool>,
    /// Whether the head has a bias [default: mini true, small false, base false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Model")]
    pub head_bias: Option<bool>,
    /// Start from the model in the folder of a run or an import instead of random weights; its sizes and its tokenizer hold
    #[arg(long, value_name = "DIR", help_heading = "Model")]
    pub init_from: Option<PathBuf>,

    /// Optimizer steps.
    #[arg(long, help = steps_help(), value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true, help_heading = "Training")]
    pub steps: Option<u64>,
    /// Sequences per step [default: mini 64, small 12, base 4]
    #[arg(long, value_name = "SEQUENCES", value_parser = whole::<usize>, allow_negative_numbers = true, help_heading = "Training")]
    pub batch_size: Option<usize>,
    /// Sequences a thread works on at a time; changes memory and speed, and results by rounding only (and dropout masks) [default: mini 16, small 3, base 1; scalar engine 1]
    #[arg(long, value_name = "SEQUENCES", value_parser = whole::<usize>, allow_negative_numbers = true, help_heading = "Training")]
    pub micro_batch: Option<usize>,
    /// Keep of each block its result only and compute it again on the way back: for long contexts much less memory, a third more time, the same bits
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Training")]
    pub recompute: Option<bool>,
    /// What computes the gradients: kernels on tensors, or every operation on the scalar tape (slow) [default: tensor]
    #[arg(long, help_heading = "Training")]
    pub engine: Option<EngineKind>,
    /// Seed of weights, order of the data, dropout and samples [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u64>, allow_negative_numbers = true, help_heading = "Training")]
    pub seed: Option<u64>,

    /// The rule for a step; the defaults below depend on it [default: mini sgd, small adamw, base adamw]
    #[arg(long, help_heading = "Optimizer")]
    pub optimizer: Option<OptimizerKind>,
    /// Largest learning rate [default: sgd 3e-4, adam 1e-3, adamw 1e-3]
    #[arg(long, value_name = "RATE", value_parser = number, allow_negative_numbers = true, help_heading = "Optimizer")]
    pub lr: Option<f64>,
    /// Learning rate at the end, reached along a cosine over --steps [default: sgd --lr, adam and adamw a tenth of --lr]
    #[arg(long, value_name = "RATE", value_parser = number, allow_negative_numbers = true, help_heading = "Optimizer")]
    pub min_lr: Option<f64>,
    /// Steps on which the learning rate rises linearly [default: sgd 0, adam and adamw 100 but at most a tenth of --steps]
    #[arg(long, value_name = "STEPS", value_parser = whole::<u64>, allow_negative_numbers = true, help_heading = "Optimizer")]
    pub warmup: Option<u64>,
    /// Decay of matrices (not of biases and gains), per unit of learning rate [default: sgd 0, adam 0, adamw 0.1]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true, help_heading = "Optimizer")]
    pub weight_decay: Option<f64>,
    /// Share of the first moment a step keeps, from 0 to below 1; adam and adamw only [default: 0.9]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true, help_heading = "Optimizer")]
    pub beta1: Option<f64>,
    /// Share of the second moment a step keeps, from 0 to below 1; adam and adamw only [default: 0.99]
    #[arg(long, value_name = "X", value_parser = number, allow_negative_numbers = true, help_heading = "Optimizer")]
    pub beta2: Option<f64>,
    /// Largest Euclidean norm of the whole gradient, 0 for no limit [default: sgd 0, adam 1, adamw 1]
    #[arg(long, value_name = "NORM", value_parser = number, allow_negative_numbers = true, help_heading = "Optimizer")]
    pub grad_clip: Option<f64>,

    /// Steps between two evaluations; each also saves the state [default: 250]
    #[arg(long, value_name = "STEPS", value_parser = whole::<u64>, allow_negative_numbers = true, help_heading = "Progress")]
    pub eval_every: Option<u64>,
    /// Validation batches per evaluation, the same ones each time; the summary at the end takes the whole validation part [default: 20]
    #[arg(long, value_name = "BATCHES", value_parser = whole::<u64>, allow_negative_numbers = true, help_heading = "Progress")]
    pub eval_batches: Option<u64>,
    /// Steps between two samples of text, 0 for one at the end only [default: 0]
    #[arg(long, value_name = "STEPS", value_parser = whole::<u64>, allow_negative_numbers = true, help_heading = "Progress")]
    pub sample_every: Option<u64>,
}

fn steps_help() -> String {
    format!(
        "Optimizer steps [default: mini 3000, small 2000, base 2000; {DEFAULT_STEPS} if no preset is named]"
    )
}

impl Settings {
    /// The settings that describe a model, all but the size of its vocabulary, which is its tokenizer's.
    ///
    /// An activation that `train` does not have stays open.
    #[must_use]
    pub fn of_model(model: &ModelConfig) -> Self {
        Self {
            block_size: Some(model.block_size),
            layers: Some(model.layers),
            heads: Some(model.heads),
            embed: Some(model.embed),
            dropout: Some(model.dropout),
            activation: ActivationKind::of(model.activation),
            bias: Some(model.bias),
            qkv_bias: Some(model.qkv_bias),
            tied_head: Some(model.tied_head),
            head_bias: Some(model.head_bias),
            ..Self::default()
        }
    }

    /// These settings, and those of `lower` in their gaps.
    #[must_use]
    pub fn over(self, lower: Self) -> Self {
        Self {
            data: self.data.or(lower.data),
            tokenizer: self.tokenizer.or(lower.tokenizer),
            preset: self.preset.or(lower.preset),
            block_size: self.block_size.or(lower.block_size),
            layers: self.layers.or(lower.layers),
            heads: self.heads.or(lower.heads),
            embed: self.embed.or(lower.embed),
            dropout: self.dropout.or(lower.dropout),
            activation: self.activation.or(lower.activation),
            bias: self.bias.or(lower.bias),
            qkv_bias: self.qkv_bias.or(lower.qkv_bias),
            tied_head: self.tied_head.or(lower.tied_head),
            head_bias: self.head_bias.or(lower.head_bias),
            init_from: self.init_from.or(lower.init_from),
            steps: self.steps.or(lower.steps),
            batch_size: self.batch_size.or(lower.batch_size),
            micro_batch: self.micro_batch.or(lower.micro_batch),
            recompute: self.recompute.or(lower.recompute),
            engine: self.engine.or(lower.engine),
            seed: self.seed.or(lower.seed),
            optimizer: self.optimizer.or(lower.optimizer),
            lr: self.lr.or(lower.lr),
            min_lr: self.min_lr.or(lower.min_lr),
            warmup: self.warmup.or(lower.warmup),
            weight_decay: self.weight_decay.or(lower.weight_decay),
            beta1: self.beta1.or(lower.beta1),
            beta2: self.beta2.or(lower.beta2),
            grad_clip: self.grad_clip.or(lower.grad_clip),
            eval_every: self.eval_every.or(lower.eval_every),
            eval_batches: self.eval_batches.or(lower.eval_batches),
            sample_every: self.sample_every.or(lower.sample_every),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_last_wins_and_gaps_are_filled() {
        let lower = Settings {
            steps: Some(1),
            seed: Some(2),
            ..Settings::default()
        };
        let upper = Settings {
            steps: Some(3),
            lr: Some(0.5),
            ..Settings::default()
        };
        let both = upper.over(lower);
        assert_eq!(
            (both.steps, both.seed, both.lr, both.beta1),
            (Some(3), Some(2), Some(0.5), None)
        );
    }

    /// A field forgotten in `over` would be lost: every one is set here, through the names in a file.
    #[test]
    fn no_field_is_forgotten() {
        let all = Settings {
            data: Some("d".into()),
            tokenizer: Some("t".into()),
            preset: Some(Preset::Base),
            block_size: Some(1),
            layers: Some(2),
            heads: Some(3),
            embed: Some(4),
            dropout: Some(0.5),
            activation: Some(ActivationKind::Relu),
            bias: Some(true),
            qkv_bias: Some(true),
            tied_head: Some(true),
            head_bias: Some(true),
            init_from: Some("f".into()),
            steps: Some(6),
            batch_size: Some(7),
            micro_batch: Some(8),
            recompute: Some(true),
            engine: Some(EngineKind::Scalar),
            seed: Some(9),
            optimizer: Some(OptimizerKind::Adam),
            lr: Some(1.0),
            min_lr: Some(1.1),
            warmup: Some(12),
            weight_decay: Some(1.3),
            beta1: Some(1.4),
            beta2: Some(1.5),
            grad_clip: Some(1.6),
            eval_every: Some(17),
            eval_batches: Some(18),
            sample_every: Some(19),
        };
        assert_eq!(all.clone().over(Settings::default()), all);
        assert_eq!(Settings::default().over(all.clone()), all);
        let text = toml::to_string(&all).unwrap();
        assert_eq!(toml::from_str::<Settings>(&text).unwrap(), all);
    }
}
