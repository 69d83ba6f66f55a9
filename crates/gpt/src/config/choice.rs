//! Settings that are a choice from a list.

use burtorch_tensor::ops::Activation;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What computes losses and gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// Kernels on whole tensors.
    #[default]
    Tensor,
    /// Every single operation on the scalar tape: slow, and the reference for the kernels.
    Scalar,
}

/// The nonlinearity of the MLP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActivationKind {
    /// max(x, 0).
    Relu,
    /// x·Φ(x), with the error function.
    Gelu,
    /// The approximation of gelu by tanh, as in GPT-2.
    GeluTanh,
}

impl From<ActivationKind> for Activation {
    fn from(kind: ActivationKind) -> Self {
        match kind {
            ActivationKind::Relu => Self::Relu,
            ActivationKind::Gelu => Self::Gelu,
            ActivationKind::GeluTanh => Self::GeluTanh,
        }
    }
}

impl ActivationKind {
    /// The kind of an activation, if `train` has it.
    #[must_use]
    pub fn of(activation: Activation) -> Option<Self> {
        let kinds = [Self::Relu, Self::Gelu, Self::GeluTanh];
        kinds
            .into_iter()
            .find(|&kind| Activation::from(kind) == activation)
    }
}

/// The rule from gradients to steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Plain stochastic gradient descent.
    Sgd,
    /// Adam; weight decay, if any, goes through the gradient.
    Adam,
    /// Adam with decoupled weight decay.
    Adamw,
}

/// What an optimizer brings along when nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimizerDefaults {
    /// Largest learning rate.
    pub lr: f64,
    /// The largest learning rate over that at the end; 1 for a constant one.
    pub lr_over_min_lr: f64,
    /// Most steps of warm-up; it is never more than a tenth of all steps.
    pub warmup: u64,
    /// Weight decay of matrices.
    pub weight_decay: f64,
    /// Memory of first and second moment, where there are any.
    pub betas: Option<(f64, f64)>,
    /// Largest norm of the gradient, 0 for no limit.
    pub grad_clip: f64,
}

impl OptimizerKind {
    /// The settings that go with this optimizer unless others are given.
    #[must_use]
    pub fn defaults(self) -> OptimizerDefaults {
        let adam = OptimizerDefaults {
            lr: 1e-3,
            lr_over_min_lr: 10.0,
            warmup: 100,
            weight_decay: 0.0,
            betas: Some((0.9, 0.99)),
            grad_clip: 1.0,
        };
        match self {
            Self::Sgd => OptimizerDefaults {
                lr: 3e-4,
                lr_over_min_lr: 1.0,
                warmup: 0,
                weight_decay: 0.0,
                betas: None,
                grad_clip: 0.0,
            },
            Self::Adam => adam,
            Self::Adamw => OptimizerDefaults {
                weight_decay: 0.1,
                ..adam
            },
        }
    }
}
