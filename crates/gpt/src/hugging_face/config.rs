//! `config.json`.

use burtorch_nn::LayerNorm;
use burtorch_tensor::ops::Activation;
use serde::{Deserialize, Serialize};

use crate::model::ModelConfig;

/// What a `config.json` says that matters here; whatever else is in it is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Config {
    #[serde(default, skip_deserializing)]
    architectures: [&'static str; 1],
    model_type: String,
    vocab_size: usize,
    n_positions: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_inner: Option<usize>,
    #[serde(default = "gelu_new")]
    activation_function: String,
    #[serde(default = "epsilon")]
    layer_norm_epsilon: f64,
    #[serde(default = "dropout")]
    resid_pdrop: f64,
    #[serde(default = "dropout")]
    embd_pdrop: f64,
    #[serde(default = "dropout")]
    attn_pdrop: f64,
    #[serde(default = "yes")]
    tie_word_embeddings: bool,
    #[serde(default = "yes")]
    scale_attn_weights: bool,
    #[serde(default)]
    scale_attn_by_inverse_layer_idx: bool,
    #[serde(default)]
    add_cross_attention: bool,
    #[serde(default, skip_deserializing)]
    torch_dtype: &'static str,
    #[serde(default, skip_deserializing)]
    bos_token_id: Option<u32>,
    #[serde(default, skip_deserializing)]
    eos_token_id: Option<u32>,
}

// What their program takes where the file says nothing.

fn gelu_new() -> String {
    "gelu_new".into()
}

fn epsilon() -> f64 {
    1e-5
}

fn dropout() -> f64 {
    0.1
}

fn yes() -> bool {
    true
}

/// Their names of the activations that both know, the one we write first.
const ACTIVATIONS: [(&str, Activation); 4] = [
    ("gelu_new", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("gelu", Activation::Gelu),
    ("relu", Activation::Relu),
];

impl Config {
    /// Of a model of ours.
    ///
    /// # Errors
    ///
    /// What of the model they do not have, in words: what is expected, and what was found.
    pub(super) fn of(model: &ModelConfig) -> Result<Self, (String, String)> {
        let known = ACTIVATIONS
            .iter()
            .find(|(_, activation)| *activation == model.activation);
        let Some((activation, _)) = known else {
            let found = format!("{:?}", model.activation);
            return Err(("an activation that GPT-2 models have".into(), found));
        };
        if model.head_bias {
            let expected = "a model whose head has no bias, as GPT-2 models have none (train with --head-bias=false)";
            return Err((expected.into(), "one with a bias".into()));
        }
        Ok(Self {
            architectures: ["GPT2LMHeadModel"],
            model_type: "gpt2".into(),
            vocab_size: model.vocab_size,
            n_positions: model.block_size,
            n_embd: model.embed,
            n_layer: model.layers,
            n_head: model.heads,
            n_inner: None,
            activation_function: (*activation).into(),
            layer_norm_epsilon: LayerNorm::EPSILON,
            resid_pdrop: model.dropout,
            embd_pdrop: model.dropout,
            attn_pdrop: model.dropout,
            tie_word_embeddings: model.tied_head,
            scale_attn_weights: true,
            scale_attn_by_inverse_layer_idx: false,
            add_cross_attention: false,
            torch_dtype: "float32",
            bos_token_id: None,
            eos_token_id: None,
        })
    }

    /// With the token that begins and ends texts, if there is one.
    pub(super) fn with_end(self, end: Option<u32>) -> Self {
        Self {
            bos_token_id: end,
            eos_token_id: end,
            ..self
        }
    }

    /// The model of ours that it describes.
    ///
    /// # Errors
    ///
    /// What it describes that we do not have, in words: what is expected, and what was found.
    pub(super) fn model(&self) -> Result<ModelConfig, (String, String)> {
        let wrong = |name: &str, expected: String, found: String| {
            Err((format!("{name} {expected}"), found))
        };
        let activation = ACTIVATIONS
            .iter()
            .find(|(name, _)| *name == self.activation_function);
        let Some(&(_, activation)) = activation else {
            let names = ACTIVATIONS.map(|(name, _)| name).join(", ");
            let found = self.activation_function.clone();
            return wrong("activation_function", format!("one of {names}"), found);
        };
        if self.model_type != "gpt2" {
            return wrong("model_type", "gpt2".into(), self.model_type.clone());
        }
        if let Some(inner) = self.n_inner
            && Some(inner) != self.n_embd.checked_mul(ModelConfig::EXPANSION)
        {
            let expected = format!("{} times n_embd {}", ModelConfig::EXPANSION, self.n_embd);
            return wrong("n_inner", expected, inner.to_string());
        }
        if self.layer_norm_epsilon != LayerNorm::EPSILON {
            let (expected, found) = (LayerNorm::EPSILON, self.layer_norm_epsilon);
            return wrong(
                "layer_norm_epsilon",
                expected.to_string(),
                found.to_string(),
            );
        }
        for (name, found, expected) in [
            ("scale_attn_weights", self.scale_attn_weights, true),
            (
                "scale_attn_by_inverse_layer_idx",
                self.scale_attn_by_inverse_layer_idx,
                false,
            ),
            ("add_cross_attention", self.add_cross_attention, false),
        ] {
            if found != expected {
                return wrong(name, expected.to_string(), found.to_string());
            }
        }
        Ok(ModelConfig {
            vocab_size: self.vocab_size,
            block_size: self.n_positions,
            layers: self.n_layer,
            heads: self.n_head,
            embed: self.n_embd,
            dropout: self.resid_pdrop,
            activation,
            bias: true,
            qkv_bias: true,
            tied_head: self.tie_word_embeddings,
            head_bias: false,
        })
    }

    /// Whether the three dropouts of GPT-2 have one probability, as they have here.
    pub(super) fn has_one_dropout(&self) -> bool {
        self.resid_pdrop == self.embd_pdrop && self.embd_pdrop == self.attn_pdrop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpt2() -> ModelConfig {
        ModelConfig {
            activation: Activation::GeluTanh,
            bias: true,
            qkv_bias: true,
            ..ModelConfig::base(11)
        }
    }

    fn read(text: &str) -> Config {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_model_comes_back() {
        for model in [
            gpt2(),
            ModelConfig {
                activation: Activation::Relu,
                tied_head: false,
                ..gpt2()
            },
            ModelConfig {
                activation: Activation::Gelu,
                dropout: 0.0,
                ..gpt2()
            },
        ] {
            let text = serde_json::to_string(&Config::of(&model).unwrap()).unwrap();
            let config = read(&text);
            assert_eq!(config.model(), Ok(model));
            assert!(config.has_one_dropout());
        }
        // Biases that are missing are zeros in theirs.
        let small = Config::of(&ModelConfig::small(11))
            .unwrap()
            .model()
            .unwrap();
        assert!(small.bias && small.qkv_bias);
    }

    #[test]
    fn what_they_do_not_have_is_named() {
        let (expected, _) = Config::of(&ModelConfig::mini(11)).unwrap_err();
        assert!(expected.contains("--head-bias=false"), "{expected}");
        let identity = ModelConfig {
            activation: Activation::Identity,
            ..gpt2()
        };
        assert!(Config::of(&identity).is_err());
    }

    #[test]
    fn what_we_do_not_have_is_named() {
        let sizes = r#""model_type":"gpt2","vocab_size":5,"n_positions":4,"n_embd":6,"n_layer":2,"n_head":3"#;
        let plain = read(&format!("{{{sizes},\"unknown\":[1]}}"));
        let model = plain.model().unwrap();
        assert_eq!(
            (model.dropout, model.tied_head, model.activation),
            (0.1, true, Activation::GeluTanh)
        );
        for (more, words) in [
            (
                r#""activation_function":"silu""#,
                ["activation_function one of gelu_new", "silu"],
            ),
            (r#""n_inner":7"#, ["n_inner 4 times n_embd 6", "7"]),
            (
                r#""layer_norm_epsilon":1e-6"#,
                ["layer_norm_epsilon 0.00001", "0.000001"],
            ),
            (
                r#""scale_attn_weights":false"#,
                ["scale_attn_weights true", "false"],
            ),
            (
                r#""scale_attn_by_inverse_layer_idx":true"#,
                ["scale_attn_by_inverse_layer_idx false", "true"],
            ),
            (
                r#""add_cross_attention":true"#,
                ["add_cross_attention false", "true"],
            ),
        ] {
            let (expected, found) = read(&format!("{{{sizes},{more}}}")).model().unwrap_err();
            assert!(
                expected.starts_with(words[0]) && found == words[1],
                "{expected}, {found}"
            );
        }
        assert!(read(&format!("{{{sizes},\"n_inner\":24}}")).model().is_ok());
        let other = read(&format!("{{{}}}", sizes.replace("gpt2", "llama")));
        assert_eq!(other.model().unwrap_err().1, "llama");
        let uneven = read(&format!("{{{sizes},\"attn_pdrop\":0.0}}"));
        assert!(!uneven.has_one_dropout());
    }
}
