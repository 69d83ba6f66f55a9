//! The sizes and choices that make one GPT.

use burtorch_tensor::ops::Activation;
use serde::{Deserialize, Serialize};

use crate::Error;

/// Sizes and choices of a [`Gpt`](super::Gpt). Two models of equal settings have the same parameters.
///
/// ```
/// use burtorch_gpt::model::ModelConfig;
///
/// # fn main() -> Result<(), burtorch_gpt::Error> {
/// let config = ModelConfig { layers: 2, ..ModelConfig::mini(65) };
/// config.validate()?;
/// assert_eq!(config.parameter_count()?, 17_729);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Symbols of the vocabulary, `V`.
    pub vocab_size: usize,
    /// Positions that the model can see at once, the largest `T`.
    pub block_size: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Attention heads of each block, `H`; divides `embed`.
    pub heads: usize,
    /// Width of the residual stream, `C`.
    pub embed: usize,
    /// Probability of every dropout: after the embeddings, on attention weights, at the end of attention and MLP.
    pub dropout: f64,
    /// Activation of the MLPs: `relu`, `gelu` (the erf form), `gelu-tanh` or `identity`.
    #[serde(with = "ActivationName")]
    pub activation: Activation,
    /// Whether normalisations have a bias, and linear layers other than query, key and value and the head.
    pub bias: bool,
    /// Whether the query, key and value projections have a bias.
    pub qkv_bias: bool,
    /// Whether the head uses the token embedding as its weight instead of one of its own.
    pub tied_head: bool,
    /// Whether the head has a bias.
    pub head_bias: bool,
}

/// How files spell an [`Activation`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Activation", rename_all = "kebab-case")]
enum ActivationName {
    Identity,
    Relu,
    Gelu,
    GeluTanh,
}

impl ModelConfig {
    /// Width of the middle of the MLP in units of `embed`.
    pub const EXPANSION: usize = 4;

    /// The model of the BurTorch paper: 46,337 parameters for 65 symbols.
    #[must_use]
    pub fn mini(vocab_size: usize) -> ModelConfig {
        ModelConfig {
            vocab_size,
            block_size: 8,
            layers: 6,
            heads: 6,
            embed: 24,
            dropout: 0.0,
            activation: Activation::Relu,
            bias: true,
            qkv_bias: false,
            tied_head: false,
            head_bias: true,
        }
    }

    /// A model that a laptop trains in a minute or two: no biases, tied head, no dropout.
    #[must_use]
    pub fn small(vocab_size: usize) -> ModelConfig {
        ModelConfig {
            vocab_size,
            block_size: 64,
            layers: 4,
            heads: 4,
            embed: 128,
            dropout: 0.0,
            activation: Activation::Gelu,
            bias: false,
            qkv_bias: false,
            tied_head: true,
            head_bias: false,
        }
    }

    /// [`small`](ModelConfig::small), larger and with dropout.
    #[must_use]
    pub fn base(vocab_size: usize) -> ModelConfig {
        ModelConfig {
            block_size: 256,
            layers: 6,
            heads: 6,
            embed: 384,
            dropout: 0.2,
            ..ModelConfig::small(vocab_size)
        }
    }

    /// Checks that such a model can exist.
    ///
    /// # Errors
    /// [`Error::Setting`], naming the field: a size of 0, heads that do not divide `embed`, a dropout probability outside
    /// `0..=1`, more parameters than can be counted.
    pub fn validate(&self) -> Result<(), Error> {
        for (name, size) in [
            ("vocab_size", self.vocab_size),
            ("block_size", self.block_size),
            ("layers", self.layers),
            ("heads", self.heads),
            ("embed", self.embed),
        ] {
            if size == 0 {
                return Err(Error::setting(name, "at least 1", size));
            }
        }
        if !self.embed.is_multiple_of(self.heads) {
            return Err(Error::setting(
                "embed",
                format!("a multiple of heads {}", self.heads),
                self.embed,
            ));
        }
        if !(0.0..=1.0).contains(&self.dropout) {
            return Err(Error::setting(
                "dropout",
                "a probability from 0 to 1",
                self.dropout,
            ));
        }
        self.parameter_count().map(drop)
    }

    /// The number of parameters, a tied one counted once:
    /// `2·V·C + T·C + layers·(12·C² + 2·C) + C`, less `V·C` for a tied head, plus the biases.
    ///
    /// # Errors
    /// [`Error::Setting`] from 2⁵³ on, far more than any memory holds.
    pub fn parameter_count(&self) -> Result<usize, Error> {
        // Products of whole f64 are exact up to 2⁵³ and, unlike those of integers, cannot overflow before the check.
        let [v, t, c, layers] =
            [self.vocab_size, self.block_size, self.embed, self.layers].map(|n| n as f64);
        let [bias, qkv_bias, head_bias, tied] =
            [self.bias, self.qkv_bias, self.head_bias, self.tied_head].map(f64::from);
        let embeddings = v * c + t * c;
        let norms = (2.0 * layers + 1.0) * c * (1.0 + bias);
        let block_biases = layers * c * ((2.0 + Self::EXPANSION as f64) * bias + 3.0 * qkv_bias);
        let head = head_bias * v - tied * v * c;
        let count = embeddings + norms + self.product_weights() + block_biases + head;
        match count < 9_007_199_254_740_992.0 {
            true => Ok(count as usize),
            false => Err(Error::setting(
                "embed, layers, vocab_size",
                "fewer than 2^53 parameters",
                format!("{count:e}"),
            )),
        }
    }

    /// Floating-point operations of one training step, forward and backward, for each token of a full block:
    /// `6·W + 12·layers·T·C`, `W` the weights in matrix products (head included). A weight costs a multiplication and an
    /// addition forward and twice that backward (one product for each of the two gradients); so do the `2·T·C` products
    /// of queries with keys and of attention weights with values, which are counted without the causal mask. The same
    /// count as in Chowdhery et al., *PaLM*, 2022, appendix B.
    #[must_use]
    pub fn flops_per_token(&self) -> f64 {
        let [t, c, layers] = [self.block_size, self.embed, self.layers].map(|n| n as f64);
        6.0 * self.product_weights() + 12.0 * layers * t * c
    }

    /// Weights in matrix products: query, key, value and output projections 4·C² a block, MLP 8·C², head V·C.
    fn product_weights(&self) -> f64 {
        let [v, c, layers] = [self.vocab_size, self.embed, self.layers].map(|n| n as f64);
        let mlp = 2.0 * Self::EXPANSION as f64 * c * c;
        layers * (4.0 * c * c + mlp) + v * c
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Gpt;
    use burtorch_tensor::Params;
    use proptest::prelude::*;

    fn message(config: &ModelConfig) -> String {
        config
            .validate()
            .expect_err("an impossible setting")
            .to_string()
    }

    #[test]
    fn the_model_of_the_paper_has_46_337_parameters() -> Result<(), Error> {
        assert_eq!(ModelConfig::mini(65).parameter_count()?, 46_337);
        Ok(())
    }

    #[test]
    fn impossible_settings_name_the_field_and_the_numbers() {
        let mini = || ModelConfig::mini(65);
        assert_eq!(
            message(&ModelConfig { heads: 5, ..mini() }),
            "embed: expected a multiple of heads 5, found 24"
        );
        assert_eq!(
            message(&ModelConfig { heads: 0, ..mini() }),
            "heads: expected at least 1, found 0"
        );
        assert_eq!(
            message(&ModelConfig {
                vocab_size: 0,
                ..mini()
            }),
            "vocab_size: expected at least 1, found 0"
        );
        for dropout in [-0.1, 1.2, f64::NAN] {
            let found = message(&ModelConfig { dropout, ..mini() });
            assert!(
                found.starts_with("dropout: ") && found.contains(&dropout.to_string()),
                "{found}"
            );
        }
    }

    #[test]
    fn silly_sizes_are_an_error() {
        let huge = ModelConfig {
            vocab_size: usize::MAX,
            block_size: usize::MAX,
            layers: usize::MAX,
            heads: 1,
            embed: usize::MAX,
            ..ModelConfig::mini(1)
        };
        assert!(message(&huge).contains("fewer than 2^53 parameters"));
        assert!(huge.flops_per_token().is_finite());
    }

    #[test]
    fn presets_are_valid() -> Result<(), Error> {
        for preset in [ModelConfig::mini, ModelConfig::small, ModelConfig::base] {
            preset(65).validate()?;
        }
        Ok(())
    }

    #[test]
    fn operations_are_those_of_the_written_out_sum() {
        let config = ModelConfig {
            vocab_size: 5,
            block_size: 3,
            layers: 2,
            heads: 1,
            embed: 4,
            ..ModelConfig::mini(5)
        };
        let weights = 2.0 * (3.0 * 16.0 + 16.0 + 64.0 + 64.0) + 20.0;
        let attention = 2.0 * (2.0 * (2.0 * 3.0 * 4.0)); // layers, two products, two operations each
        assert_eq!(config.flops_per_token(), 3.0 * (2.0 * weights + attention));
    }

    #[test]
    fn files_spell_activations_in_lower_case_and_refuse_unknown_fields() {
        let text = toml::to_string(&ModelConfig {
            activation: Activation::GeluTanh,
            ..ModelConfig::base(9)
        });
        let text = text.expect("a configuration can be written");
        assert!(text.contains("activation = \"gelu-tanh\""), "{text}");
        let read: ModelConfig = toml::from_str(&text).expect("what was written can be read");
        assert_eq!(
            read,
            ModelConfig {
                activation: Activation::GeluTanh,
                ..ModelConfig::base(9)
            }
        );
        let unknown = toml::from_str::<ModelConfig>(&format!("{text}wings = 2\n"))
            .expect_err("an unknown field");
        assert!(unknown.to_string().contains("wings"), "{unknown}");
    }

    proptest! {
        #[test]
        fn the_count_is_what_a_model_adds(
            sizes in (1usize..6, 1usize..6, 1usize..4, 1usize..4, 1usize..4),
            flags in any::<[bool; 4]>(),
        ) {
            let (vocab_size, block_size, layers, heads, width) = sizes;
            let [bias, qkv_bias, tied_head, head_bias] = flags;
            let embed = heads * width;
            let config = ModelConfig {
                vocab_size, block_size, layers, heads, embed, bias, qkv_bias, tied_head, head_bias,
                ..ModelConfig::mini(1)
            };
            let mut params = Params::<f32>::new();
            Gpt::new(&config, &mut params, 1)?;
            prop_assert_eq!(params.len(), config.parameter_count()?);
        }
    }
}
