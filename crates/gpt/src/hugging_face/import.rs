//! From a folder of `transformers` to a run folder of ours.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use burtorch_tensor::{Entry, Params};
use safetensors::Dtype;

use super::config::Config as TheirConfig;
use super::layout::{HEAD, PREFIX, is_constant, place, transpose};
use super::{CONFIG, MODEL, TOKENIZER, words};
use crate::checkpoint::save_model;
use crate::checkpoint::tensor_file::TensorFile;
use crate::config::{Config, ConfigFile, Record, Settings};
use crate::model::{Gpt, ModelConfig};
use crate::run_directory::RunDirectory;
use crate::tokenizer::bpe::{Bpe, Given, SplitRule};
use crate::tokenizer::{NumberTokenizer, Tokenizer};
use crate::{Error, atomic_file};

/// What was imported.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The model.
    pub model: ModelConfig,
    /// Its parameters, shared ones counted once.
    pub parameters: usize,
    /// The tokenizer; [`Tokenizer::Number`] if there was none.
    pub tokenizer: Tokenizer,
    /// What is different from the original without a difference in what the model says, in words.
    pub notes: Vec<String>,
}

/// Makes the run folder `out`, which must be new or empty, of the GPT-2 in the folder `source`.
///
/// It can generate, be evaluated, and be what a training run starts from. Numbers of other types than f32 are refused, unless
/// `convert` is set. Without files of a tokenizer, tokens are written as numbers ([`NumberTokenizer`]).
///
/// # Errors
///
/// [`Error::Content`] or [`Error::File`], naming the file and the tensor or setting; nothing is left in `out` then.
pub fn import(source: &Path, out: &Path, convert: bool) -> Result<Imported, Error> {
    RunDirectory::check_free(out)?;
    let path = source.join(CONFIG);
    let text = fs::read_to_string(&path).map_err(Error::file(&path, "read the configuration"))?;
    let theirs: TheirConfig = serde_json::from_str(&text)
        .map_err(|e| Error::content(&path, "the configuration of a GPT-2", e.to_string()))?;
    let config = theirs.model();
    let config = config.map_err(|(expected, found)| Error::content(&path, expected, found))?;
    let (model, params) = read_model(&source.join(MODEL), &config, convert)?;
    let tokenizer = read_tokenizer(source, &config)?;
    let mut notes = Vec::new();
    if !theirs.has_one_dropout() {
        notes.push(
            "the dropouts of embeddings, attention and the rest differ; here the last is for all"
                .into(),
        );
    }
    if let Tokenizer::Number(_) = tokenizer {
        notes.push("there is no tokenizer; tokens are written as numbers".into());
    }
    write(source, out, &model, &params, &tokenizer)?;
    Ok(Imported {
        parameters: params.len(),
        model: config,
        tokenizer,
        notes,
    })
}

/// Writes the run folder, the configuration last, as it makes a run of it.
fn write(
    source: &Path,
    out: &Path,
    model: &Gpt,
    params: &Params<f32>,
    tokenizer: &Tokenizer,
) -> Result<(), Error> {
    let config = Config::resolve(&Settings::of_model(model.config()))?;
    let record = Record::imported(source);
    let settings = ConfigFile::text(&config, &record)?;
    let keep_folder = out.exists();
    let (run, _lock) = RunDirectory::create(Some(out), config.preset)?;
    let write = || {
        tokenizer.save(&run.tokenizer())?;
        save_model(&run.model(), model, params, 0)?;
        atomic_file::replace(&run.config(), |file| file.write_all(settings.as_bytes()))
    };
    write().inspect_err(|_| run.discard(keep_folder))
}

/// Reads the weights. Everything is checked against the file's size before memory is taken for a model.
fn read_model(
    path: &Path,
    config: &ModelConfig,
    convert: bool,
) -> Result<(Gpt, Params<f32>), Error> {
    let mut file = TensorFile::open(path)?;
    let count = config.validate().and_then(|()| config.parameter_count());
    let count = count.map_err(|error| file.wrong("a possible model", error.to_string()))?;
    if count as u64 > file.total() {
        let expected = format!("the {count} numbers of the model in {CONFIG}");
        return Err(file.wrong(expected, file.total().to_string()));
    }
    let mut params = Params::new();
    let model = Gpt::new(config, &mut params, 0)?;
    let prefix = match file.shape(&format!("{PREFIX}wte.weight")) {
        Some(_) => PREFIX,
        None => "",
    };
    let name = |theirs: &str| match theirs.strip_prefix(PREFIX) {
        Some(rest) => format!("{prefix}{rest}"),
        None => theirs.to_owned(),
    };
    let mut known = HashSet::from([HEAD.to_owned()]);
    for entry in params.entries().to_vec() {
        let Some(place) = place(&entry.name) else {
            continue;
        };
        let name = name(&place.name);
        check(&file, &name, &entry, place.transposed, convert)?;
        let mut numbers = vec![0.0; entry.shape.len()];
        file.read(&name, &mut numbers)?;
        let target = &mut params.values_mut()[entry.range()];
        match place.transposed {
            true => transpose(&numbers, entry.shape.rows(), target),
            false => target.copy_from_slice(&numbers),
        }
        known.insert(name);
    }
    let mut others = file.tensors().filter(|(name, _)| !is_constant(name));
    match others.find(|(name, _)| !known.contains(*name)) {
        Some((name, shape)) => Err(file.wrong(
            "the tensors of a GPT-2",
            format!("also `{name}` of shape {shape:?}"),
        )),
        None => Ok((model, params)),
    }
}

/// Refuses a tensor of theirs that is missing, or of another shape or type than the parameter of ours asks for.
fn check(
    file: &TensorFile,
    name: &str,
    ours: &Entry,
    transposed: bool,
    convert: bool,
) -> Result<(), Error> {
    let mut expected = ours.shape.dims().to_vec();
    if transposed {
        expected.reverse();
    }
    let (found, dtype) = match (file.shape(name), file.dtype(name)) {
        (Some(shape), Some(dtype)) => (shape, dtype),
        _ => {
            let expected = format!("the tensor `{name}` of shape {expected:?}");
            return Err(file.wrong(expected, "no such tensor"));
        }
    };
    if found != expected {
        let expected = format!("the shape {expected:?} for `{name}`");
        return Err(file.wrong(expected, format!("{found:?}")));
    }
    if dtype != Dtype::F32 && !convert {
        let expected = format!("numbers of type F32 in `{name}` (--convert takes others)");
        return Err(file.wrong(expected, dtype.to_string()));
    }
    Ok(())
}

/// The tokenizer of the folder, which must have as many tokens as the model.
fn read_tokenizer(source: &Path, config: &ModelConfig) -> Result<Tokenizer, Error> {
    let (path, tokenizer) = match find_tokenizer(source)? {
        Some(found) => found,
        None => return Ok(Tokenizer::Number(NumberTokenizer::new(config.vocab_size))),
    };
    if tokenizer.size() != config.vocab_size {
        let expected = format!("{} tokens, as the model has", config.vocab_size);
        return Err(Error::content(
            &path,
            expected,
            tokenizer.size().to_string(),
        ));
    }
    Ok(tokenizer)
}

/// The tokenizer of the folder and its file: of characters, or a byte-pair encoding; of the latter the older pair of files will do, which
/// beside a GPT-2 have its split rule.
fn find_tokenizer(source: &Path) -> Result<Option<(PathBuf, Tokenizer)>, Error> {
    let path = source.join(TOKENIZER);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let path = source.join("vocab.json");
            if !path.is_file() {
                return Ok(None);
            }
            let rule = Some(SplitRule::Gpt2);
            let bpe = Bpe::load(
                &path,
                &Given {
                    rule,
                    ..Given::default()
                },
            )?;
            return Ok(Some((path, Tokenizer::Bpe(Box::new(bpe)))));
        }
        text => text.map_err(Error::file(&path, "read the tokenizer"))?,
    };
    if let Some(tokenizer) = words::read(&text) {
        return Ok(Some((path, Tokenizer::Character(tokenizer))));
    }
    let bpe = Bpe::load(&path, &Given::default()).map_err(|error| {
        let expected = "a tokenizer of characters, or byte-pair encoding (without the file, tokens are written as numbers)";
        Error::content(&path, expected, format!("another: {error}"))
    })?;
    Ok(Some((path, Tokenizer::Bpe(Box::new(bpe)))))
}
