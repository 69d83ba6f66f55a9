//! Models: our own files, training states, and what is imported from others.

use std::fs;
use std::path::{Path, PathBuf};

use burtorch_gpt::Error;
use burtorch_gpt::checkpoint::{Snapshot, load_model, load_state, save_model, save_state};
use burtorch_gpt::hugging_face::{export, import};
use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_gpt::tokenizer::Tokenizer;
use burtorch_optim::{AdamOptions, AdamW, Groups};
use burtorch_tensor::Params;
use burtorch_tests::Outcome;

use super::{Load, Target, written};

/// The smallest models there are, in two styles.
fn models() -> Outcome<Vec<(Gpt, Params<f32>)>> {
    let size = |style: ModelConfig| ModelConfig {
        block_size: 2,
        layers: 1,
        heads: 1,
        embed: 2,
        ..style
    };
    let model = |config: ModelConfig| {
        let mut params = Params::new();
        Ok((Gpt::new(&config, &mut params, 1)?, params))
    };
    let styles = [
        ModelConfig::small(3),
        ModelConfig {
            head_bias: false,
            ..ModelConfig::mini(3)
        },
    ];
    styles.into_iter().map(|style| model(size(style))).collect()
}

fn adamw(params: &Params<f32>) -> Outcome<AdamW<f32>> {
    Ok(AdamW::new(
        Groups::all(params.len(), 0.1)?,
        AdamOptions::default(),
    )?)
}

pub(super) fn model(folder: &Path) -> Outcome<Target> {
    let mut seeds = Vec::new();
    for (model, params) in models()? {
        seeds.push(written(folder, |path| {
            save_model(path, &model, &params, 7)
        })?);
    }
    let load = |path: &Path| load_model(path).map(drop);
    Ok(Target {
        name: "model",
        file: "model.safetensors",
        seeds,
        load: Box::new(load),
    })
}

pub(super) fn state(folder: &Path) -> Outcome<Target> {
    let (model, params) = models()?.remove(0);
    let optimizer = adamw(&params)?;
    let snapshot = Snapshot {
        step: 7,
        model: &model,
        params: &params,
        optimizer: &optimizer,
        data_hash: "fnv1a-00-1",
    };
    let seeds = vec![written(folder, |path| save_state(path, &snapshot))?];
    let load = move |path: &Path| {
        let (mut params, mut optimizer) = (params.clone(), optimizer.clone());
        load_state(
            path,
            &model,
            &mut params,
            &mut optimizer,
            ("text", "fnv1a-00-1"),
        )
        .map(drop)
    };
    Ok(Target {
        name: "state",
        file: "state.safetensors",
        seeds,
        load: Box::new(load),
    })
}

/// An import from a folder of theirs in which the file at hand takes the place of the one of its name.
fn import_with(folder: &Path, file: &'static str) -> Outcome<(Vec<u8>, Load)> {
    let (model, params) = models()?.remove(1);
    let theirs = tempfile::tempdir_in(folder)?.keep();
    let source: PathBuf = theirs.join("source");
    export(&model, &params, &Tokenizer::characters_of("abc"), &source)?;
    let seed = fs::read(source.join(file))?;
    let load = move |path: &Path| {
        fs::copy(path, source.join(file)).map_err(Error::Output)?;
        let out = theirs.join("out");
        let imported = import(&source, &out, true).map(drop);
        // It may not be there.
        let _ = fs::remove_dir_all(&out);
        imported
    };
    Ok((seed, Box::new(load)))
}

pub(super) fn their_config(folder: &Path) -> Outcome<Target> {
    let (seed, load) = import_with(folder, "config.json")?;
    Ok(Target {
        name: "import-config",
        file: "config.json",
        seeds: vec![seed],
        load,
    })
}

pub(super) fn their_weights(folder: &Path) -> Outcome<Target> {
    let (seed, load) = import_with(folder, "model.safetensors")?;
    Ok(Target {
        name: "import-weights",
        file: "weights.safetensors",
        seeds: vec![seed],
        load,
    })
}

pub(super) fn their_tokenizer(folder: &Path) -> Outcome<Target> {
    let (seed, load) = import_with(folder, "tokenizer.json")?;
    Ok(Target {
        name: "import-tokenizer",
        file: "their-tokenizer.json",
        seeds: vec![seed],
        load,
    })
}
