//! Causal self-attention with several heads.

use burtorch_tensor::ops::CausalAttention;
use burtorch_tensor::{Element, Engine, Error, Result};

use crate::dropout::check_probability;
use crate::{Builder, Dropout, Init, Layer, Linear, LinearConfig};

/// Settings of an [`Attention`] layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionConfig {
    /// Width `C` of the rows.
    pub embed: usize,
    /// Number `H` of heads; divides `embed`.
    pub heads: usize,
    /// Probability of dropping an attention weight, and an element of the result.
    pub dropout: f64,
    /// Whether the query, key and value projection has a bias.
    pub qkv_bias: bool,
    /// Whether the output projection has a bias.
    pub bias: bool,
    /// First numbers of the query, key and value projection.
    pub init: Init,
    /// First numbers of the output projection, which writes into the residual stream.
    pub residual_init: Init,
}

/// Each position takes a mean of the values of itself and the positions before it, weighted by
/// `softmax(q kᵀ/√(C/H))`, head by head (Vaswani et al., *Attention is all you need*, 2017, eq. 1 and section 3.2.2).
///
/// # Shapes
/// `[B, T, C]` → `[B, T, C]`. Parameters: `qkv.weight` `[3C, C]`, `qkv.bias` `[3C]`, `projection.weight` `[C, C]`,
/// `projection.bias` `[C]`.
#[derive(Debug, Clone)]
pub struct Attention {
    qkv: Linear,
    heads: CausalAttention,
    projection: Linear,
    dropout: Dropout,
}

impl Attention {
    /// Adds the parameters.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if `heads` does not divide `embed`; [`Error::Setting`] for a dropout probability outside
    /// `0..=1`; what [`Builder::parameter`] refuses.
    pub fn new<T: Element>(
        b: &mut Builder<'_, T>,
        name: &str,
        config: AttentionConfig,
    ) -> Result<Attention> {
        let AttentionConfig {
            embed,
            heads,
            dropout,
            ..
        } = config;
        check_heads(embed, heads)?;
        check_probability("attention dropout", dropout)?;
        let projected = LinearConfig {
            bias: config.qkv_bias,
            init: config.init,
            ..LinearConfig::new(embed, 3 * embed)
        };
        let written = LinearConfig {
            bias: config.bias,
            init: config.residual_init,
            ..LinearConfig::new(embed, embed)
        };
        b.within(name, |b| {
            Ok(Attention {
                qkv: Linear::new(b, "qkv", projected)?,
                heads: CausalAttention {
                    heads,
                    dropout,
                    stream: b.stream("heads"),
                },
                projection: Linear::new(b, "projection", written)?,
                dropout: Dropout::new(b, "dropout", dropout)?,
            })
        })
    }

    /// The op, which drops no weight outside of training.
    fn heads<E: Engine>(&self, e: &E) -> CausalAttention {
        match e.training() {
            true => self.heads,
            false => CausalAttention {
                dropout: 0.0,
                ..self.heads
            },
        }
    }
}

impl Layer for Attention {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        let qkv = self.qkv.forward(e, x)?; // [B, T, 3C]
        let heads = self.heads(e);
        let mixed = e.apply(heads, [qkv])?; // [B, T, C]
        let y = self.projection.forward(e, mixed)?; // [B, T, C]
        self.dropout.forward(e, y) // [B, T, C]
    }
}

fn check_heads(embed: usize, heads: usize) -> Result<()> {
    // No multiple of 0 but 0 itself, and that is no width either.
    match embed > 0 && embed.is_multiple_of(heads) {
        true => Ok(()),
        false => Err(Error::Mismatch {
            op: "attention",
            expected: format!("embed to be a positive multiple of heads {heads}"),
            found: format!("embed {embed}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, check_agreement, context, numbers, on_both_engines, run};
    use burtorch_tensor::{TensorEngine, Workspace};

    const CONFIG: AttentionConfig = AttentionConfig {
        embed: 4,
        heads: 2,
        dropout: 0.0,
        qkv_bias: true,
        bias: true,
        init: Init::XavierNormal,
        residual_init: Init::XavierNormal,
    };

    /// Results for one sequence of three positions, with another number in the last of them.
    fn results<W: Workspace<f64>>(last: f64) -> Result<Vec<f64>> {
        let (layer, params) = build(|b| Attention::new(b, "attention", CONFIG))?;
        let mut x = numbers(12);
        x[11] = last;
        Ok(run::<W>(&layer, &params, (&x, &[1, 3, 4]), context(false))?.result)
    }

    on_both_engines! {
        fn a_position_does_not_see_later_ones<W>() {
            let (before, after) = (results::<W>(0.1)?, results::<W>(0.9)?);
            assert_eq!(before[..8], after[..8]);
            assert_ne!(before[8..], after[8..]);
            Ok(())
        }

        fn f06_certain_dropout_leaves_nothing<W>() {
            let config = AttentionConfig { dropout: 1.0, ..CONFIG };
            let (layer, mut params) = build(|b| Attention::new(b, "attention", config))?;
            params.values_mut().fill(0.5); // a bias behind the dropped weights
            let x = numbers(12);
            let of = |training| run::<W>(&layer, &params, (&x, &[1, 3, 4]), context(training)).map(|f| f.result);
            assert_eq!(of(true)?, [0.0; 12]);
            assert_ne!(of(false)?, [0.0; 12]);
            Ok(())
        }

        fn evaluation_drops_nothing<W>() {
            let (plain, params) = build(|b| Attention::new(b, "attention", CONFIG))?;
            let (dropping, _) = build(|b| Attention::new(b, "attention", AttentionConfig { dropout: 0.5, ..CONFIG }))?;
            let x = numbers(24);
            let of = |layer, training| run::<W>(layer, &params, (&x, &[2, 3, 4]), context(training)).map(|f| f.result);
            assert_eq!(of(&plain, true)?, of(&dropping, false)?);
            assert_ne!(of(&plain, true)?, of(&dropping, true)?);
            Ok(())
        }
    }

    #[test]
    fn both_engines_agree() -> Result<()> {
        for (qkv_bias, bias, heads, dropout, count) in [
            (true, true, 2, 0.0, 80),
            (false, true, 4, 0.0, 68),
            (false, false, 1, 0.0, 64),
            (true, true, 2, 0.2, 80),
        ] {
            let config = AttentionConfig {
                qkv_bias,
                bias,
                heads,
                dropout,
                ..CONFIG
            };
            let (layer, params) = build(|b| Attention::new(b, "attention", config))?;
            assert_eq!(params.len(), count);
            check_agreement(&layer, &params, &[2, 3, 4], context(true))?;
        }
        Ok(())
    }

    #[test]
    fn attention_weights_and_results_have_masks_of_their_own() -> Result<()> {
        let (layer, _) = build(|b| {
            Attention::new(
                b,
                "attention",
                AttentionConfig {
                    dropout: 0.5,
                    ..CONFIG
                },
            )
        })?;
        let (other, _) = build(|b| Dropout::new(b, "attention.heads", 0.5))?;
        let mask = |layer: &Dropout| {
            let params = burtorch_tensor::Params::new();
            run::<TensorEngine<f64>>(layer, &params, (&[1.0; 64], &[64]), context(true))
                .map(|f| f.result)
        };
        assert_ne!(mask(&layer.dropout)?, mask(&other)?);
        Ok(())
    }

    #[test]
    fn impossible_settings_are_refused_with_their_numbers() {
        let message = |config| {
            let refused = build(|b| Attention::new(b, "attention", config)).map(drop);
            refused.expect_err("an impossible setting").to_string()
        };
        let heads = message(AttentionConfig {
            embed: 24,
            heads: 5,
            ..CONFIG
        });
        assert!(heads.contains("24") && heads.contains('5'), "{heads}");
        assert!(message(AttentionConfig { heads: 0, ..CONFIG }).contains("heads 0"));
        assert!(message(AttentionConfig { embed: 0, ..CONFIG }).contains("embed 0"));
        assert!(
            message(AttentionConfig {
                dropout: 1.5,
                ..CONFIG
            })
            .contains("1.5")
        );
    }
}
