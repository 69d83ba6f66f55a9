//! The two-layer network inside each block.

use burtorch_tensor::ops::Activation;
use burtorch_tensor::{Element, Engine, Result};

use crate::{Builder, Dropout, Init, Layer, Linear, LinearConfig};

/// Settings of an [`Mlp`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MlpConfig {
    /// Width `C` of the rows.
    pub embed: usize,
    /// Width in the middle; `4·embed` in GPT-2.
    pub hidden: usize,
    /// Applied in the middle.
    pub activation: Activation,
    /// Probability of dropping an element of the result.
    pub dropout: f64,
    /// Whether both linear layers have a bias.
    pub bias: bool,
    /// First numbers of the first weight.
    pub init: Init,
    /// First numbers of the second weight, which writes into the residual stream.
    pub residual_init: Init,
}

/// `y = activation(x w₁ᵀ + b₁) w₂ᵀ + b₂`, each row by itself (Vaswani et al., 2017, eq. 2), then dropout.
///
/// # Shapes
/// `[.., C]` → `[.., C]`. Parameters: `expand.weight` `[hidden, C]`, `expand.bias` `[hidden]`, `contract.weight`
/// `[C, hidden]`, `contract.bias` `[C]`.
#[derive(Debug, Clone)]
pub struct Mlp {
    expand: Linear,
    contract: Linear,
    dropout: Dropout,
}

impl Mlp {
    /// Adds the parameters.
    ///
    /// # Errors
    /// As [`Builder::parameter`] and [`Dropout::new`].
    pub fn new<T: Element>(b: &mut Builder<'_, T>, name: &str, config: MlpConfig) -> Result<Mlp> {
        let MlpConfig {
            embed,
            hidden,
            activation,
            dropout,
            bias,
            init,
            residual_init,
        } = config;
        let expand = LinearConfig {
            inputs: embed,
            outputs: hidden,
            bias,
            activation,
            init,
        };
        let contract = LinearConfig {
            bias,
            init: residual_init,
            ..LinearConfig::new(hidden, embed)
        };
        b.within(name, |b| {
            Ok(Mlp {
                expand: Linear::new(b, "expand", expand)?,
                contract: Linear::new(b, "contract", contract)?,
                dropout: Dropout::new(b, "dropout", dropout)?,
            })
        })
    }
}

impl Layer for Mlp {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        let hidden = self.expand.forward(e, x)?; // [.., hidden]
        let y = self.contract.forward(e, hidden)?; // [.., C]
        self.dropout.forward(e, y) // [.., C]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, check_agreement, context, on_both_engines, run};

    const CONFIG: MlpConfig = MlpConfig {
        embed: 3,
        hidden: 12,
        activation: Activation::Gelu,
        dropout: 0.0,
        bias: true,
        init: Init::XavierNormal,
        residual_init: Init::XavierNormal,
    };

    on_both_engines! {
        fn f06_certain_dropout_leaves_nothing<W>() {
            let (layer, mut params) = build(|b| Mlp::new(b, "mlp", MlpConfig { dropout: 1.0, ..CONFIG }))?;
            params.values_mut().fill(0.5);
            let of = |training| run::<W>(&layer, &params, (&[1.0, 2.0, 3.0], &[1, 3]), context(training)).map(|f| f.result);
            assert_eq!(of(true)?, [0.0; 3]);
            assert_ne!(of(false)?, [0.0; 3]);
            Ok(())
        }

        fn the_activation_is_between_the_two_layers_only<W>() {
            let config = MlpConfig { embed: 1, hidden: 1, activation: Activation::Relu, ..CONFIG };
            let (layer, mut params) = build(|b| Mlp::new(b, "mlp", config))?;
            params.values_mut().copy_from_slice(&[1.0, 0.0, -2.0, 0.5]); // expand w, b; contract w, b
            let found = run::<W>(&layer, &params, (&[3.0, -3.0], &[2, 1]), context(false))?;
            assert_eq!(found.result, [-5.5, 0.5]);
            Ok(())
        }
    }

    #[test]
    fn both_engines_agree() -> Result<()> {
        for (bias, dropout, count) in [(true, 0.0, 87), (false, 0.0, 72), (true, 0.3, 87)] {
            let (layer, params) = build(|b| {
                Mlp::new(
                    b,
                    "mlp",
                    MlpConfig {
                        bias,
                        dropout,
                        ..CONFIG
                    },
                )
            })?;
            assert_eq!(params.len(), count);
            check_agreement(&layer, &params, &[2, 4, 3], context(true))?;
        }
        Ok(())
    }
}
