//! What their tensors are called, and how they lie in memory.

/// What stands before the name of a tensor that belongs to the model and not to its head. Some files leave it out.
pub(super) const PREFIX: &str = "transformer.";

/// The weight of a head that is not tied.
pub(super) const HEAD: &str = "lm_head.weight";

/// A tensor of theirs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place {
    /// Its name, with the prefix.
    pub(super) name: String,
    /// Whether rows and columns are exchanged.
    pub(super) transposed: bool,
}

/// Where the parameter of ours with this name is; `None` for one that they do not have, the bias of the head.
pub(super) fn place(ours: &str) -> Option<Place> {
    let (layer, kind) = ours.rsplit_once('.')?;
    let (name, transposed) = match layer {
        "token_embedding" => (format!("{PREFIX}wte.{kind}"), false),
        "position_embedding" => (format!("{PREFIX}wpe.{kind}"), false),
        "final_norm" => (format!("{PREFIX}ln_f.{kind}"), false),
        "head" if kind == "weight" => (HEAD.to_owned(), false),
        _ => {
            let (number, layer) = layer.strip_prefix("blocks.")?.split_once('.')?;
            let (layer, product) = match layer {
                "norm_1" => ("ln_1", false),
                "attention.qkv" => ("attn.c_attn", true),
                "attention.projection" => ("attn.c_proj", true),
                "norm_2" => ("ln_2", false),
                "mlp.expand" => ("mlp.c_fc", true),
                "mlp.contract" => ("mlp.c_proj", true),
                _ => return None,
            };
            let name = format!("{PREFIX}h.{number}.{layer}.{kind}");
            (name, product && kind == "weight")
        }
    };
    Some(Place { name, transposed })
}

/// Whether a tensor is no parameter but a constant that old versions stored: the causal mask, and what it puts in place of a score.
pub(super) fn is_constant(theirs: &str) -> bool {
    theirs.ends_with(".attn.bias") || theirs.ends_with(".attn.masked_bias")
}

/// Writes a matrix with `columns` columns into `target` with rows and columns exchanged.
pub(super) fn transpose(matrix: &[f32], columns: usize, target: &mut [f32]) {
    let rows = matrix.len() / columns;
    for (row, numbers) in matrix.chunks_exact(columns).enumerate() {
        for (column, &number) in numbers.iter().enumerate() {
            target[column * rows + row] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Gpt, ModelConfig};
    use burtorch_tensor::Params;
    use std::collections::HashSet;

    #[test]
    fn every_parameter_but_the_bias_of_the_head_has_a_place_of_its_own() {
        let config = ModelConfig {
            qkv_bias: true,
            layers: 2,
            ..ModelConfig::mini(7)
        };
        let mut params = Params::<f32>::new();
        Gpt::new(&config, &mut params, 1).unwrap();
        let names: Vec<&str> = params
            .entries()
            .iter()
            .map(|entry| entry.name.as_str())
            .collect();
        let without: Vec<_> = names.iter().filter(|name| place(name).is_none()).collect();
        assert_eq!(without, [&"head.bias"]);
        let places: HashSet<_> = names
            .iter()
            .filter_map(|name| place(name))
            .map(|p| p.name)
            .collect();
        assert_eq!(places.len() + 1, names.len());
        let qkv = place("blocks.1.attention.qkv.weight").unwrap();
        assert_eq!(
            (qkv.name.as_str(), qkv.transposed),
            ("transformer.h.1.attn.c_attn.weight", true)
        );
        assert!(!place("blocks.1.attention.qkv.bias").unwrap().transposed);
        assert!(
            ["blocks.1.wings.weight", "wings", "blocks.1"]
                .map(place)
                .iter()
                .all(Option::is_none)
        );
    }

    #[test]
    fn rows_become_columns() {
        let mut target = [0.0; 6];
        transpose(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3, &mut target);
        assert_eq!(target, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}
