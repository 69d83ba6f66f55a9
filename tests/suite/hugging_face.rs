//! Models in the layout of Hugging Face `transformers`, on the values of `golden/hugging_face.py`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burtorch_gpt::checkpoint::{LoadedModel, load_model};
use burtorch_gpt::generation::Generator;
use burtorch_gpt::hugging_face::{export, import};
use burtorch_gpt::inference::Decoder;
use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_gpt::sampling::Sampling;
use burtorch_gpt::tokenizer::Tokenizer;
use burtorch_gpt::tokenizer::bpe::{SplitRule, Trainer};
use burtorch_optim::{AdamOptions, AdamW, Groups, Optimizer};
use burtorch_tensor::{Context, Engine, Indices, Params, TensorEngine, Workspace};
use burtorch_tests::{Golden, Outcome, close};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Shape and numbers of a tensor.
type Tensor = (Vec<usize>, Vec<f64>);

/// Tensors as they are stored: type, shape and bytes, by name.
type Stored = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/hugging-face")
}

fn expected() -> Outcome<Golden> {
    Golden::load("hugging-face/expected")
}

/// The golden model as a run, and the folder it is in.
fn imported() -> Outcome<(TempDir, LoadedModel)> {
    let folder = tempfile::tempdir()?;
    let run = folder.path().join("run");
    import(&source(), &run, false)?;
    let loaded = load_model(&run.join("model.safetensors"))?;
    Ok((folder, loaded))
}

/// The tensors in a folder of theirs by name.
fn tensors(folder: &Path) -> Outcome<BTreeMap<String, Tensor>> {
    let bytes = fs::read(folder.join("model.safetensors"))?;
    let number = |bytes: &[u8; 4]| f64::from(f32::from_le_bytes(*bytes));
    let tensor = |(name, view): (String, TensorView<'_>)| {
        let numbers = view.data().as_chunks().0.iter().map(number);
        (name, (view.shape().to_vec(), numbers.collect()))
    };
    let file = SafeTensors::deserialize(&bytes)?;
    Ok(file.tensors().into_iter().map(tensor).collect())
}

/// The inputs of the golden sequences, then their targets.
fn batch(golden: &Golden, block: usize) -> Outcome<Vec<u32>> {
    let tokens = golden.integers("tokens")?;
    let rows = || tokens.chunks_exact(block + 1);
    let inputs = rows().flat_map(|row| &row[..block]);
    let targets = rows().flat_map(|row| &row[1..]);
    Ok(inputs.chain(targets).copied().collect())
}

#[test]
fn an_imported_model_has_the_logits_the_loss_and_the_step_of_the_original() -> Outcome {
    let (golden, (folder, mut loaded)) = (expected()?, imported()?);
    let block = loaded.model.config().block_size;
    let indices = batch(&golden, block)?;
    let count = indices.len() / 2;
    let (inputs, targets) = (Indices::new(0, count), Indices::new(count, count));
    let context = Context {
        indices: &indices,
        ..Context::default()
    };
    let wide = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();

    let mut engine = TensorEngine::new();
    let mut pass = engine.bind(&loaded.params, context);
    let logits = loaded.model.logits(&mut pass, inputs, count / block)?;
    let found = wide(pass.value(logits).data);
    close("logits", &found, &golden.numbers("logits")?, 1e-5)?;

    let mut gradient = vec![0.0; loaded.params.len()];
    let mut pass = engine.bind(&loaded.params, context);
    let loss = loaded
        .model
        .loss(&mut pass, inputs, targets, count / block)?;
    close(
        "loss",
        &wide(pass.value(loss).data),
        &golden.numbers("loss")?,
        1e-6,
    )?;
    pass.backward_scalar(loss, &mut gradient)?;

    let tensors_of_ours = loaded.params.entries().iter();
    let shapes = tensors_of_ours.map(|entry| (entry.range(), entry.shape.dims()));
    let decay = golden.setting("/training/weight_decay")?;
    let groups = Groups::decay_matrices(loaded.params.len(), shapes, decay)?;
    let options = AdamOptions {
        beta1: golden.setting("/training/betas/0")?,
        beta2: golden.setting("/training/betas/1")?,
        epsilon: golden.setting("/training/eps")?,
    };
    let rate = golden.setting("/training/lr")? as f32;
    AdamW::new(groups, options)?.step(loaded.params.values_mut(), &gradient, rate)?;

    let run = folder.path().join("run");
    let tokenizer = Tokenizer::load(&run.join("tokenizer.json"))?;
    let out = folder.path().join("stepped");
    export(&loaded.model, &loaded.params, &tokenizer, &out)?;
    for (name, (shape, mut found)) in tensors(&out)? {
        let mut right = golden.numbers(&name)?;
        // A bias of the keys adds the same to all scores of a query, so its gradient is 0. AdamW makes a step as long as any other of
        // what rounding leaves of it, whose sign is nobody's.
        if name.ends_with("c_attn.bias") {
            let keys = shape[0] / 3..2 * shape[0] / 3;
            found.drain(keys.clone());
            right.drain(keys);
        }
        close(&name, &found, &right, 1e-5)?;
    }
    Ok(())
}

#[test]
fn an_imported_model_writes_what_the_original_writes() -> Outcome {
    let (golden, (_folder, loaded)) = (expected()?, imported()?);
    let prompt = golden.setting("/prompt")? as usize;
    let tokens = golden.integers("tokens")?;
    let greedy = Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
    };
    let mut decoder = Decoder::new(loaded.model.config(), &loaded.params)?;
    let mut generator = Generator::new(&mut decoder, &tokens[..prompt], greedy, 1)?;
    assert_eq!(generator.tokens(50)?, golden.integers("greedy")?);
    Ok(())
}

#[test]
fn f40_an_empty_prompt_begins_where_an_imported_model_begins_texts() -> Outcome {
    let trainer = Trainer::new(SplitRule::Gpt2).with_specials(vec!["<|endoftext|>".into()])?;
    let tokenizer = Tokenizer::Bpe(Box::new(trainer.train(257)?.bpe));
    let config = ModelConfig {
        block_size: 4,
        layers: 1,
        heads: 1,
        embed: 4,
        ..ModelConfig::small(257)
    };
    let mut params = Params::new();
    let model = Gpt::new(&config, &mut params, 1)?;
    let folder = tempfile::tempdir()?;
    let (theirs, run) = (folder.path().join("theirs"), folder.path().join("run"));
    export(&model, &params, &tokenizer, &theirs)?;
    import(&theirs, &run, false)?;
    let imported = Tokenizer::load(&run.join("tokenizer.json"))?;
    assert_eq!(imported.start(), 256);
    // Their programs learn from the configuration where a text begins and ends.
    let config: Value = serde_json::from_slice(&fs::read(theirs.join("config.json"))?)?;
    assert_eq!(config["bos_token_id"], 256);
    assert_eq!(config["eos_token_id"], 256);
    Ok(())
}

#[test]
fn an_exported_import_is_the_original() -> Outcome {
    let (folder, loaded) = imported()?;
    let out = folder.path().join("out");
    let tokenizer = Tokenizer::load(&folder.path().join("run/tokenizer.json"))?;
    export(&loaded.model, &loaded.params, &tokenizer, &out)?;
    assert_eq!(tensors(&out)?, tensors(&source())?);
    let config = |folder: &Path| -> Outcome<Value> {
        Ok(serde_json::from_slice(&fs::read(
            folder.join("config.json"),
        )?)?)
    };
    let (ours, theirs) = (config(&out)?, config(&source())?);
    for (name, value) in theirs.as_object().into_iter().flatten() {
        let known = ours.get(name).filter(|_| !name.ends_with("token_id"));
        assert!(known.is_none_or(|ours| ours == value), "{name}");
    }
    Ok(())
}

/// A copy of the golden folder in which the configuration and the tensors have been changed.
fn changed(config: impl Fn(&mut Value), change: impl Fn(&mut Stored)) -> Outcome<TempDir> {
    let folder = tempfile::tempdir()?;
    let mut settings = serde_json::from_slice(&fs::read(source().join("config.json"))?)?;
    config(&mut settings);
    fs::write(folder.path().join("config.json"), settings.to_string())?;
    let bytes = fs::read(source().join("model.safetensors"))?;
    let mut all = SafeTensors::deserialize(&bytes)?
        .tensors()
        .into_iter()
        .map(|(name, view)| {
            (
                name,
                (view.dtype(), view.shape().to_vec(), view.data().to_vec()),
            )
        })
        .collect();
    change(&mut all);
    let views: Vec<_> = all
        .iter()
        .map(|(name, (dtype, shape, data))| {
            Ok((name, TensorView::new(*dtype, shape.clone(), data)?))
        })
        .collect::<Outcome<_>>()?;
    fs::write(
        folder.path().join("model.safetensors"),
        safetensors::serialize(views, None)?,
    )?;
    Ok(folder)
}

#[test]
fn names_without_prefix_a_stored_head_and_constants_are_accepted() -> Outcome {
    let folder = changed(
        |_| {},
        |all| {
            *all = std::mem::take(all)
                .into_iter()
                .map(|(name, tensor)| (name.replace("transformer.", ""), tensor))
                .collect();
            all.insert(
                "h.0.attn.bias".into(),
                (Dtype::U8, vec![1, 1, 2, 2], vec![1; 4]),
            );
            all.insert("lm_head.weight".into(), all["wte.weight"].clone());
        },
    )?;
    let run = tempfile::tempdir()?;
    let out = run.path().join("run");
    import(folder.path(), &out, false)?;
    let (_kept, original) = imported()?;
    assert_eq!(
        load_model(&out.join("model.safetensors"))?.params,
        original.params
    );
    Ok(())
}

#[test]
fn other_numbers_are_converted_only_if_asked() -> Outcome {
    let halves = |all: &mut Stored| {
        for (dtype, _, data) in all.values_mut() {
            // The upper halves of f32 are numbers in bf16.
            *data = data
                .as_chunks::<4>()
                .0
                .iter()
                .flat_map(|b| [b[2], b[3]])
                .collect();
            *dtype = Dtype::BF16;
        }
    };
    let folder = changed(|_| {}, halves)?;
    let run = tempfile::tempdir()?;
    let out = run.path().join("run");
    let message = import(folder.path(), &out, false)
        .map(drop)
        .expect_err("bf16")
        .to_string();
    assert!(
        message.contains("--convert") && message.contains("BF16"),
        "{message}"
    );
    import(folder.path(), &out, true)?;
    let converted = load_model(&out.join("model.safetensors"))?.params;
    let (_kept, original) = imported()?;
    for (a, b) in converted.values().iter().zip(original.params.values()) {
        assert_eq!(a.to_bits(), b.to_bits() & 0xFFFF_0000);
    }
    Ok(())
}

#[test]
fn f36_what_does_not_fit_is_named_and_leaves_nothing() -> Outcome {
    type Change<'a> = (
        &'a dyn Fn(&mut Value),
        &'a dyn Fn(&mut Stored),
        [&'a str; 2],
    );
    const FIRST: &str = "transformer.h.0.attn.c_attn.weight";
    let nothing = |_: &mut Value| {};
    let none = |_: &mut Stored| {};
    let cases: [Change<'_>; 9] = [
        (
            &|c| c["n_layer"] = json!(3),
            &none,
            ["numbers of the model", "config.json"],
        ),
        (
            &|c| c["n_layer"] = json!(1u64 << 40),
            &none,
            ["numbers of the model", "config.json"],
        ),
        (
            &|c| c["n_embd"] = json!(u64::MAX),
            &none,
            ["possible model", "model.safetensors"],
        ),
        (
            &|c| c["n_layer"] = json!(1),
            &none,
            ["transformer.h.1.", "also"],
        ),
        (&|c| c["n_head"] = json!(3), &none, ["heads", "16"]),
        (
            &|c| c["activation_function"] = json!("silu"),
            &none,
            ["silu", "gelu_new"],
        ),
        (
            &nothing,
            &|all| {
                let bias = all.remove("transformer.ln_f.bias").expect("it is there");
                all.insert("transformer.ln_f.wings".into(), bias);
            },
            ["transformer.ln_f.bias", "no such tensor"],
        ),
        (
            &nothing,
            &|all| all.get_mut(FIRST).expect("it is there").1.reverse(),
            [FIRST, "[16, 48]"],
        ),
        (
            &nothing,
            &|all| {
                let tensor = all.get_mut(FIRST).expect("it is there");
                tensor.2[..4].copy_from_slice(&f32::NAN.to_le_bytes());
            },
            [FIRST, "NaN"],
        ),
    ];
    for (config, change, words) in cases {
        let (folder, run) = (changed(config, change)?, tempfile::tempdir()?);
        let out = run.path().join("run");
        let message = import(folder.path(), &out, false)
            .map(drop)
            .expect_err(words[0])
            .to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
        assert!(!out.exists(), "{words:?}");
    }
    let out = tempfile::tempdir()?;
    let message = import(out.path(), &out.path().join("run"), false);
    assert!(
        message
            .map(drop)
            .expect_err("no files")
            .to_string()
            .contains("config.json")
    );
    Ok(())
}
