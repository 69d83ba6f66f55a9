//! The residual block that transformers are a stack of.

use burtorch_tensor::ops::{self, Activation};
use burtorch_tensor::{Element, Engine, Result};

use crate::{Attention, AttentionConfig, Builder, Init, Layer, LayerNorm, Mlp, MlpConfig};

/// `y = x + layer(x)` (He et al., *Deep residual learning for image recognition*, 2015, eq. 1).
///
/// # Shapes
/// Any shape that the layer keeps.
#[derive(Debug, Clone)]
pub struct Residual<L>(
    /// What is added.
    pub L,
);

impl<L: Layer> Layer for Residual<L> {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        let y = self.0.forward(e, x)?;
        e.apply(ops::Add, [x, y])
    }
}

/// Settings of a [`Block`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockConfig {
    /// Width `C` of the rows.
    pub embed: usize,
    /// Number `H` of heads; divides `embed`.
    pub heads: usize,
    /// Width in the middle of the MLP; `4·embed` in GPT-2.
    pub hidden: usize,
    /// Activation of the MLP.
    pub activation: Activation,
    /// Probability of all dropouts of the block.
    pub dropout: f64,
    /// Whether normalisations and linear layers other than the query, key and value projection have a bias.
    pub bias: bool,
    /// Whether the query, key and value projection has a bias.
    pub qkv_bias: bool,
    /// First numbers of the weights.
    pub init: Init,
    /// First numbers of the two weights that write into the residual stream.
    pub residual_init: Init,
}

impl BlockConfig {
    fn attention(self) -> AttentionConfig {
        let BlockConfig {
            embed,
            heads,
            dropout,
            bias,
            qkv_bias,
            init,
            residual_init,
            ..
        } = self;
        AttentionConfig {
            embed,
            heads,
            dropout,
            qkv_bias,
            bias,
            init,
            residual_init,
        }
    }

    fn mlp(self) -> MlpConfig {
        let BlockConfig {
            embed,
            hidden,
            activation,
            dropout,
            bias,
            init,
            residual_init,
            ..
        } = self;
        MlpConfig {
            embed,
            hidden,
            activation,
            dropout,
            bias,
            init,
            residual_init,
        }
    }
}

/// Attention and MLP, each normalised before and added to its input (pre-norm: Radford et al., 2019, section 2.3;
/// analysed by Xiong et al., *On layer normalization in the transformer architecture*, 2020).
///
/// # Shapes
/// `[B, T, C]` → `[B, T, C]`. Parameters: those of `norm_1`, `attention`, `norm_2` and `mlp`.
#[derive(Debug, Clone)]
pub struct Block {
    attention: Residual<(LayerNorm, Attention)>,
    mlp: Residual<(LayerNorm, Mlp)>,
}

impl Block {
    /// Adds the parameters.
    ///
    /// # Errors
    /// As [`Attention::new`] and [`Mlp::new`].
    pub fn new<T: Element>(
        b: &mut Builder<'_, T>,
        name: &str,
        config: BlockConfig,
    ) -> Result<Block> {
        let BlockConfig { embed, bias, .. } = config;
        b.within(name, |b| {
            let norm_1 = LayerNorm::new(b, "norm_1", embed, bias)?;
            let attention = Attention::new(b, "attention", config.attention())?;
            let norm_2 = LayerNorm::new(b, "norm_2", embed, bias)?;
            let mlp = Mlp::new(b, "mlp", config.mlp())?;
            Ok(Block {
                attention: Residual((norm_1, attention)),
                mlp: Residual((norm_2, mlp)),
            })
        })
    }
}

impl Layer for Block {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        let x = self.attention.forward(e, x)?; // [B, T, C]
        self.mlp.forward(e, x) // [B, T, C]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, check_agreement, context, numbers, on_both_engines, run};

    const CONFIG: BlockConfig = BlockConfig {
        embed: 4,
        heads: 2,
        hidden: 16,
        activation: Activation::Relu,
        dropout: 0.0,
        bias: true,
        qkv_bias: false,
        init: Init::XavierNormal,
        residual_init: Init::XavierNormal,
    };

    on_both_engines! {
        fn f06_certain_dropout_leaves_the_input<W>() {
            let (layer, mut params) = build(|b| Block::new(b, "block", BlockConfig { dropout: 1.0, ..CONFIG }))?;
            params.values_mut().fill(0.5);
            let x = numbers(12);
            let of = |training| run::<W>(&layer, &params, (&x, &[1, 3, 4]), context(training)).map(|f| f.result);
            assert_eq!(of(true)?, x);
            assert_ne!(of(false)?, x);
            Ok(())
        }

        fn a_block_whose_last_weights_are_0_is_the_identity<W>() {
            let config = BlockConfig { residual_init: Init::ZEROS, ..CONFIG };
            let (layer, params) = build(|b| Block::new(b, "block", config))?;
            let x = numbers(24);
            assert_eq!(run::<W>(&layer, &params, (&x, &[2, 3, 4]), context(true))?.result, x);
            Ok(())
        }
    }

    #[test]
    fn both_engines_agree() -> Result<()> {
        for (bias, qkv_bias, dropout) in
            [(true, false, 0.0), (false, false, 0.0), (true, true, 0.2)]
        {
            let (layer, params) = build(|b| {
                Block::new(
                    b,
                    "block",
                    BlockConfig {
                        bias,
                        qkv_bias,
                        dropout,
                        ..CONFIG
                    },
                )
            })?;
            check_agreement(&layer, &params, &[2, 3, 4], context(true))?;
        }
        Ok(())
    }

    #[test]
    fn only_what_writes_into_the_residual_stream_starts_smaller() -> Result<()> {
        let (init, residual_init) = (Init::Constant(2.0), Init::Constant(3.0));
        let config = BlockConfig {
            init,
            residual_init,
            ..CONFIG
        };
        let (_, params) = build(|b| Block::new(b, "block", config))?;
        let first = |name| {
            params
                .find(name)
                .map(|id| params.array(id).map(|a| a[[0, 0]]))
                .transpose()
        };
        assert_eq!(first("block.attention.qkv.weight")?, Some(2.0));
        assert_eq!(first("block.attention.projection.weight")?, Some(3.0));
        assert_eq!(first("block.mlp.expand.weight")?, Some(2.0));
        assert_eq!(first("block.mlp.contract.weight")?, Some(3.0));
        Ok(())
    }

    #[test]
    fn parameters_have_their_names_and_sizes() -> Result<()> {
        let (_, params) = build(|b| Block::new(b, "block", CONFIG))?;
        let table: Vec<String> = params
            .entries()
            .iter()
            .map(|e| format!("{} {}", e.name, e.shape))
            .collect();
        let expected = [
            "block.norm_1.weight [4]",
            "block.norm_1.bias [4]",
            "block.attention.qkv.weight [12, 4]",
            "block.attention.projection.weight [4, 4]",
            "block.attention.projection.bias [4]",
            "block.norm_2.weight [4]",
            "block.norm_2.bias [4]",
            "block.mlp.expand.weight [16, 4]",
            "block.mlp.expand.bias [16]",
            "block.mlp.contract.weight [4, 16]",
            "block.mlp.contract.bias [4]",
        ];
        assert_eq!(table, expected);
        Ok(())
    }
}
