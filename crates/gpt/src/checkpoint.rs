//! Saved models and saved states of training.
//!
//! Two kinds of file, both in the safetensors format. A *model* is what generation and evaluation need: the weights, the settings of
//! the model and the step they are from. A *state* is all that training needs to go on, in one file, so that a crash between two
//! files cannot tear it apart: the weights, what the optimizer remembers, the step, and which text it was. Random
//! streams and the position in the data are functions of seed and step, so they need no room.
//!
//! A tensor that is used twice (a tied head) is one entry of the parameter store, and so one tensor in the file.

pub(crate) mod tensor_file;

use std::path::Path;

use burtorch_optim::Optimizer;
use burtorch_tensor::{Entry, Params};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::model::{Gpt, ModelConfig};
use tensor_file::{Tensor, TensorFile};

/// The version of both kinds of file that this program writes and reads.
const FORMAT: u32 = 1;

/// In a state file, what the optimizer remembers is under this and the buffer's name.
const OPTIMIZER: &str = "optimizer.";

/// What a model file says about itself.
#[derive(Debug, Serialize, Deserialize)]
struct ModelFacts {
    format: u32,
    step: u64,
    model: ModelConfig,
}

/// What a state file says about itself.
#[derive(Debug, Serialize, Deserialize)]
struct StateFacts {
    format: u32,
    step: u64,
    model: ModelConfig,
    data_hash: String,
    optimizer: String,
    optimizer_step: u64,
}

/// A model from a file.
#[derive(Debug)]
pub struct LoadedModel {
    /// The model.
    pub model: Gpt,
    /// Its weights.
    pub params: Params<f32>,
    /// Training steps behind them.
    pub step: u64,
}

/// Writes a model, atomically.
///
/// # Errors
///
/// [`Error::File`] naming `path`; the file before is then still there.
pub fn save_model(path: &Path, model: &Gpt, params: &Params<f32>, step: u64) -> Result<(), Error> {
    let facts = ModelFacts {
        format: FORMAT,
        step,
        model: model.config().clone(),
    };
    tensor_file::write(path, &facts, &weights(params))
}

/// The settings of the model in a file, without its weights.
///
/// # Errors
///
/// As [`load_model`], for what comes before the weights.
pub fn model_config(path: &Path) -> Result<ModelConfig, Error> {
    Ok(model_facts(&TensorFile::open(path)?)?.model)
}

/// What a model file says about itself, which must be a model that has as many numbers as the file.
fn model_facts(file: &TensorFile) -> Result<ModelFacts, Error> {
    let facts: ModelFacts = file.facts()?;
    check_format(file, facts.format)?;
    check_size(file, &facts.model, file.total())?;
    Ok(facts)
}

/// Refuses a model that cannot be, or has more numbers than `total`: before memory is taken for a model of that size.
pub(crate) fn check_size(file: &TensorFile, model: &ModelConfig, total: u64) -> Result<(), Error> {
    let count = model
        .parameter_count()
        .and_then(|count| model.validate().map(|()| count));
    let count = count.map_err(|error| file.wrong("a possible model", error.to_string()))?;
    if count as u64 == total {
        return Ok(());
    }
    let expected = format!("the {count} numbers of its model");
    Err(file.wrong(expected, total.to_string()))
}

/// Reads a model.
///
/// # Errors
///
/// [`Error::File`] if the file cannot be read, [`Error::Content`] if it is not a whole and consistent model: the message
/// names the tensor, what was expected and what was found.
pub fn load_model(path: &Path) -> Result<LoadedModel, Error> {
    let mut file = TensorFile::open(path)?;
    let ModelFacts { step, model, .. } = model_facts(&file)?;
    let mut params = Params::new();
    let model = Gpt::new(&model, &mut params, 0)?;
    file.expect(&table(&params))?;
    let values = read_weights(&mut file, &params)?;
    file.check_sum()?;
    params.values_mut().copy_from_slice(&values);
    Ok(LoadedModel {
        model,
        params,
        step,
    })
}

/// The state of training between two steps, to be saved.
pub struct Snapshot<'a> {
    /// Steps made.
    pub step: u64,
    /// The model.
    pub model: &'a Gpt,
    /// Its weights.
    pub params: &'a Params<f32>,
    /// The optimizer, with all it remembers.
    pub optimizer: &'a dyn Optimizer<f32>,
    /// Fingerprint of the text.
    pub data_hash: &'a str,
}

/// Writes a state, atomically.
///
/// # Errors
///
/// [`Error::File`] naming `path`; the state before is then still there.
pub fn save_state(path: &Path, snapshot: &Snapshot<'_>) -> Result<(), Error> {
    let facts = StateFacts {
        format: FORMAT,
        step: snapshot.step,
        model: snapshot.model.config().clone(),
        data_hash: snapshot.data_hash.to_owned(),
        optimizer: snapshot.optimizer.name().to_owned(),
        optimizer_step: snapshot.optimizer.steps(),
    };
    let buffers = snapshot.optimizer.buffers();
    let buffers = buffers.into_iter().map(|(name, values)| Tensor {
        name: format!("{OPTIMIZER}{name}"),
        shape: vec![values.len()],
        values,
    });
    let tensors: Vec<_> = weights(snapshot.params)
        .into_iter()
        .chain(buffers)
        .collect();
    tensor_file::write(path, &facts, &tensors)
}

/// Puts a saved state back into the parameters of `model` and into its optimizer, and returns the step it is from.
///
/// # Errors
///
/// As [`load_model`]; [`Error::DataChanged`] if the state belongs to another text; [`Error::Content`] if it belongs to another model
/// or optimizer. Neither parameters nor optimizer are changed then.
pub fn load_state(
    path: &Path,
    model: &Gpt,
    params: &mut Params<f32>,
    optimizer: &mut dyn Optimizer<f32>,
    (data_name, data_hash): (&str, &str),
) -> Result<u64, Error> {
    let mut file = TensorFile::open(path)?;
    let facts: StateFacts = file.facts()?;
    check_format(&file, facts.format)?;
    if facts.data_hash != data_hash {
        let (expected, found) = (facts.data_hash, data_hash.to_owned());
        return Err(Error::DataChanged {
            name: data_name.to_owned(),
            original: data_name.to_owned(),
            expected,
            found,
        });
    }
    if facts.optimizer != optimizer.name() {
        return Err(file.wrong(format!("a state of {}", optimizer.name()), facts.optimizer));
    }
    if facts.model != *model.config() {
        return Err(file.wrong(
            format!("{:?}", model.config()),
            format!("{:?}", facts.model),
        ));
    }
    let mut state = optimizer.state();
    let buffers = state
        .buffers
        .iter()
        .map(|(name, values)| (format!("{OPTIMIZER}{name}"), vec![values.len()]));
    file.expect(&table(params).into_iter().chain(buffers).collect::<Vec<_>>())?;
    for (name, values) in &mut state.buffers {
        file.read(&format!("{OPTIMIZER}{name}"), values)?;
    }
    state.step = facts.optimizer_step;
    let values = read_weights(&mut file, params)?;
    file.check_sum()?;
    optimizer.restore(state)?;
    params.values_mut().copy_from_slice(&values);
    Ok(facts.step)
}

fn check_format(file: &TensorFile, format: u32) -> Result<(), Error> {
    if format == FORMAT {
        Ok(())
    } else {
        Err(file.wrong(format!("format {FORMAT}"), format!("format {format}")))
    }
}

fn weights(params: &Params<f32>) -> Vec<Tensor<'_>> {
    let tensor = |entry: &Entry| Tensor {
        name: entry.name.clone(),
        shape: entry.shape.dims().to_vec(),
        values: &params.values()[entry.range()],
    };
    params.entries().iter().map(tensor).collect()
}

fn table(params: &Params<f32>) -> Vec<(String, Vec<usize>)> {
    params
        .entries()
        .iter()
        .map(|entry| (entry.name.clone(), entry.shape.dims().to_vec()))
        .collect()
}

/// All weights, for a store of this layout: read as a whole before anything is changed.
fn read_weights(file: &mut TensorFile, params: &Params<f32>) -> Result<Vec<f32>, Error> {
    let mut values = vec![0.0; params.len()];
    for entry in params.entries() {
        file.read(&entry.name, &mut values[entry.range()])?;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_optim::{AdamOptions, AdamW, Groups};
    use std::fs;

    /// The model of F37: the vocabulary has 3 symbols, vectors have 2 numbers, and the head is the embedding.
    fn config() -> ModelConfig {
        ModelConfig {
            block_size: 2,
            layers: 1,
            heads: 1,
            embed: 2,
            ..ModelConfig::small(3)
        }
    }

    fn model(config: &ModelConfig, seed: u64) -> (Gpt, Params<f32>) {
        let mut params = Params::new();
        let model = Gpt::new(config, &mut params, seed).unwrap();
        (model, params)
    }

    fn adamw(params: &Params<f32>) -> AdamW<f32> {
        AdamW::new(
            Groups::all(params.len(), 0.0).unwrap(),
            AdamOptions::default(),
        )
        .unwrap()
    }

    fn save(path: &Path, model: &Gpt, params: &Params<f32>, optimizer: &AdamW<f32>, step: u64) {
        let snapshot = Snapshot {
            step,
            model,
            params,
            optimizer,
            data_hash: "text",
        };
        save_state(path, &snapshot).unwrap();
    }

    #[test]
    fn f37_a_tied_head_is_one_tensor_and_stays_tied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let (model, params) = model(&config(), 1);
        save_model(&path, &model, &params, 7).unwrap();
        let bytes = fs::read(&path).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert!(tensors.names().iter().all(|name| !name.starts_with("head")));
        assert_eq!(
            tensors.tensor("token_embedding.weight").unwrap().shape(),
            [3, 2]
        );

        let loaded = load_model(&path).unwrap();
        assert_eq!(loaded.step, 7);
        assert_eq!(loaded.params, params);
        assert_eq!(
            loaded.params.len(),
            loaded.model.config().parameter_count().unwrap()
        );
        assert!(loaded.model.config().tied_head);
    }

    #[test]
    fn f29_training_goes_on_with_the_same_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        let (gpt, mut params) = model(&config(), 1);
        let mut optimizer = adamw(&params);
        let count = params.len();
        let gradients = |step: usize| vec![[1.0, -0.5, 0.25, 2.0, -1.0][step]; count];
        for step in 0..3 {
            optimizer
                .step(params.values_mut(), &gradients(step), 0.1)
                .unwrap();
        }
        save(&path, &gpt, &params, &optimizer, 3);

        let (other, mut restored) = model(&config(), 2);
        let mut fresh = adamw(&restored);
        assert_eq!(
            load_state(&path, &other, &mut restored, &mut fresh, ("x", "text")).unwrap(),
            3
        );
        for step in 3..5 {
            optimizer
                .step(params.values_mut(), &gradients(step), 0.1)
                .unwrap();
            fresh
                .step(restored.values_mut(), &gradients(step), 0.1)
                .unwrap();
        }
        assert_eq!(restored, params);
        assert_eq!(fresh.state(), optimizer.state());
    }

    #[test]
    fn f36_a_failed_load_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        let (gpt, mut params) = model(&config(), 1);
        let mut optimizer = adamw(&params);
        save(&path, &gpt, &params, &optimizer, 3);
        let mut bytes = fs::read(&path).unwrap();
        let end = bytes.len();
        bytes[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
        fs::write(&path, &bytes).unwrap();

        params.values_mut().fill(0.5);
        let before = (params.clone(), optimizer.state());
        let error =
            load_state(&path, &gpt, &mut params, &mut optimizer, ("x", "text")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected finite numbers in `optimizer.second_moment`, found inf"),
            "{error}"
        );
        assert_eq!((params, optimizer.state()), before);
    }

    #[test]
    fn f36_a_changed_bit_is_found_by_the_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let (gpt, mut params) = model(&config(), 1);
        let mut optimizer = adamw(&params);
        let flip = || {
            let mut bytes = fs::read(&path).unwrap();
            let last = bytes.len() - 4;
            bytes[last] ^= 1;
            fs::write(&path, bytes).unwrap();
        };
        save_model(&path, &gpt, &params, 1).unwrap();
        flip();
        let message = load_model(&path).unwrap_err().to_string();
        assert!(message.contains("expected the checksum "), "{message}");

        save(&path, &gpt, &params, &optimizer, 3);
        flip();
        params.values_mut().fill(0.5);
        let before = (params.clone(), optimizer.state());
        let message = load_state(&path, &gpt, &mut params, &mut optimizer, ("x", "text"))
            .unwrap_err()
            .to_string();
        assert!(message.contains("expected the checksum "), "{message}");
        assert_eq!((params, optimizer.state()), before);
    }

    #[test]
    fn f36_a_state_of_another_optimizer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        let (gpt, mut params) = model(&config(), 1);
        save(&path, &gpt, &params, &adamw(&params), 3);
        let groups = Groups::all(params.len(), 0.0).unwrap();
        let mut adam = burtorch_optim::Adam::new(groups, AdamOptions::default()).unwrap();
        let message = load_state(&path, &gpt, &mut params, &mut adam, ("x", "text"))
            .unwrap_err()
            .to_string();
        assert!(
            message.ends_with("expected a state of adam, found adamw"),
            "{message}"
        );
    }

    #[test]
    fn f36_states_of_another_run_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        let (gpt, mut params) = model(&config(), 1);
        let mut optimizer = adamw(&params);
        save(&path, &gpt, &params, &optimizer, 3);
        let error = load_state(
            &path,
            &gpt,
            &mut params,
            &mut optimizer,
            ("book.txt", "other"),
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("book.txt: expected the text the run was started with"),
            "{error}"
        );

        let wider = ModelConfig {
            embed: 4,
            ..config()
        };
        let (gpt, mut params) = model(&wider, 1);
        let error =
            load_state(&path, &gpt, &mut params, &mut optimizer, ("x", "text")).unwrap_err();
        assert!(error.to_string().contains("embed: 4"), "{error}");
    }

    #[test]
    fn f36_a_model_that_lies_about_its_size_takes_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let (gpt, params) = model(&config(), 1);
        for huge in [1 << 20, 1 << 40, usize::MAX] {
            let facts = ModelFacts {
                format: FORMAT,
                step: 0,
                model: ModelConfig {
                    vocab_size: huge,
                    ..config()
                },
            };
            tensor_file::write(&path, &facts, &weights(&params)).unwrap();
            let message = load_model(&path).unwrap_err().to_string();
            assert!(message.contains("model.safetensors: expected"), "{message}");
        }
        let facts = ModelFacts {
            format: 2,
            step: 0,
            model: gpt.config().clone(),
        };
        tensor_file::write(&path, &facts, &weights(&params)).unwrap();
        assert!(
            load_model(&path)
                .unwrap_err()
                .to_string()
                .ends_with("expected format 1, found format 2")
        );
    }
}
