//! Named models with the settings to train them.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{ActivationKind, OptimizerKind};
use crate::model::ModelConfig;

/// Steps when no preset is named: a little shorter than the preset small, for a first look at the embedded text.
pub const DEFAULT_STEPS: u64 = 1500;

/// A model, and how it is trained unless something else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The model of the BurTorch paper (arXiv 2503.13795): 46,337 parameters for 65 characters.
    Mini,
    /// The laptop setting: about 0.8 million parameters.
    #[default]
    Small,
    /// About 10.7 million parameters: for patience.
    Base,
}

/// How a preset is trained; its model is [`Preset::model`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PresetSettings {
    /// Optimizer steps.
    pub steps: u64,
    /// Sequences per step.
    pub batch_size: usize,
    /// Sequences that one thread works on at a time.
    pub micro_batch: usize,
    /// Nonlinearity of the MLP.
    pub activation: ActivationKind,
    /// The optimizer, whose own defaults apply.
    pub optimizer: OptimizerKind,
}

impl Preset {
    /// The settings of this preset.
    #[must_use]
    pub fn settings(self) -> PresetSettings {
        let (activation, optimizer) = (ActivationKind::Gelu, OptimizerKind::Adamw);
        let small = PresetSettings {
            steps: 2000,
            batch_size: 12,
            micro_batch: 3,
            activation,
            optimizer,
        };
        match self {
            Self::Mini => PresetSettings {
                steps: 3000,
                batch_size: 64,
                micro_batch: 16,
                activation: ActivationKind::Relu,
                optimizer: OptimizerKind::Sgd,
            },
            Self::Small => small,
            Self::Base => PresetSettings {
                batch_size: 4,
                // Weights are turned for each micro-batch: with one sequence at a time a step takes 7 % longer.
                micro_batch: 2,
                ..small
            },
        }
    }

    /// The model of this preset.
    #[must_use]
    pub fn model(self, vocab_size: usize) -> ModelConfig {
        match self {
            Self::Mini => ModelConfig::mini(vocab_size),
            Self::Small => ModelConfig::small(vocab_size),
            Self::Base => ModelConfig::base(vocab_size),
        }
    }

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mini => "mini",
            Self::Small => "small",
            Self::Base => "base",
        }
    }
}
