//! From a model of ours to a folder that `transformers` loads.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use burtorch_tensor::{Entry, Params};
use serde_json::json;

use super::config::Config;
use super::layout::{place, transpose};
use super::{CONFIG, MODEL, TOKENIZER, TOKENIZER_CONFIG, words};
use crate::checkpoint::tensor_file::{Tensor, write_with};
use crate::model::{Gpt, ModelConfig};
use crate::tokenizer::Tokenizer;
use crate::{Error, atomic_file};

/// Writes `config.json`, `model.safetensors` and, as far as there is one, the tokenizer to the folder `out`, which must be new or
/// empty. Biases that the model does not have are written as zeros.
///
/// # Errors
///
/// [`Error::Setting`] for a model that GPT-2 cannot be, [`Error::Content`] if there is something in the folder, [`Error::File`] if it cannot be written.
pub fn export(
    model: &Gpt,
    params: &Params<f32>,
    tokenizer: &Tokenizer,
    out: &Path,
) -> Result<(), Error> {
    let config = Config::of(model.config());
    let config = config.map_err(|(expected, found)| Error::setting("--model", expected, found))?;
    // As GPT-2 has it: one token begins and ends texts.
    let config = config.with_end(tokenizer.end());
    make_folder(out)?;
    write_tensors(model.config(), params, &out.join(MODEL))?;
    let facts = json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.config().block_size,
        "clean_up_tokenization_spaces": false,
    });
    let facts = format!("{facts:#}\n");
    match tokenizer {
        Tokenizer::Character(tokenizer) => {
            write_text(&out.join(TOKENIZER), &words::text(tokenizer))?;
            write_text(&out.join(TOKENIZER_CONFIG), &facts)?;
        }
        Tokenizer::Bpe(bpe) => {
            bpe.save(&out.join(TOKENIZER))?;
            bpe.save(&out.join("vocab.json"))?; // and merges.txt
            write_text(&out.join(TOKENIZER_CONFIG), &facts)?;
        }
        Tokenizer::Number(_) => {}
    }
    let config = serde_json::to_string_pretty(&config)
        .map_err(|error| Error::file(out, "write the configuration")(error.into()))?;
    // Last, as it makes a model of the folder.
    write_text(&out.join(CONFIG), &format!("{config}\n"))
}

fn make_folder(out: &Path) -> Result<(), Error> {
    match fs::read_dir(out).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::content(
            out,
            "a new or empty folder",
            "one with files in it",
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(out).map_err(Error::file(out, "make the folder"))
        }
        Err(error) => Err(Error::file(out, "use it as a folder")(error)),
    }
}

fn write_text(path: &Path, text: &str) -> Result<(), Error> {
    atomic_file::replace(path, |file| file.write_all(text.as_bytes()))
}

/// Writes the weights under their names.
fn write_tensors(config: &ModelConfig, params: &Params<f32>, path: &Path) -> Result<(), Error> {
    let with_biases = with_all_biases(config, params)?;
    let theirs: Vec<_> = with_biases
        .entries()
        .iter()
        .filter_map(|entry| tensor(entry, &with_biases.values()[entry.range()]))
        .collect();
    let tensors: Vec<_> = theirs
        .iter()
        .map(|(name, shape, values)| Tensor {
            name: name.clone(),
            shape: shape.clone(),
            values,
        })
        .collect();
    write_with(path, &[("format", "pt")], &tensors)
}

/// The parameters, with zeros for the biases that the model does not have.
fn with_all_biases(config: &ModelConfig, params: &Params<f32>) -> Result<Params<f32>, Error> {
    let config = ModelConfig {
        bias: true,
        qkv_bias: true,
        ..config.clone()
    };
    let mut all = Params::new();
    Gpt::new(&config, &mut all, 0)?; // in which biases are 0
    for entry in params.entries() {
        let target = all.entries().iter().find(|other| other.name == entry.name);
        if let Some(range) = target.map(Entry::range) {
            all.values_mut()[range].copy_from_slice(&params.values()[entry.range()]);
        }
    }
    Ok(all)
}

/// A parameter as they store it: name, shape and numbers.
fn tensor(entry: &Entry, values: &[f32]) -> Option<(String, Vec<usize>, Vec<f32>)> {
    let place = place(&entry.name)?;
    let (mut shape, mut values) = (entry.shape.dims().to_vec(), values.to_vec());
    if place.transposed {
        let ours = values.clone();
        transpose(&ours, entry.shape.last(), &mut values);
        shape.reverse();
    }
    Some((place.name, shape, values))
}
