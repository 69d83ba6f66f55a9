//! The commands of the program, a file each.

pub mod completions;
pub mod eval;
pub mod export;
pub mod generate;
pub mod import;
pub mod info;
pub mod man;
pub mod plot;
mod screen;
pub mod tokenizer;
pub mod train;

use std::io::Write;
use std::path::Path;

use crate::checkpoint::{LoadedModel, load_model};
use crate::config::{ConfigFile, Record, Settings};
use crate::run_directory::RunDirectory;
use crate::tokenizer::Tokenizer;
use crate::{Error, progress};

/// Threads of this machine that work at the same time.
fn available_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The number of threads that was asked for, or one for each core.
fn threads(given: Option<usize>) -> Result<usize, Error> {
    match given {
        Some(0) => Err(Error::setting("--threads", "at least 1", 0)),
        Some(threads) => Ok(threads),
        None => Ok(available_threads()),
    }
}

/// The settings of the flags, over those of the file.
fn given(flags: &Settings, file: Option<&Path>) -> Result<Settings, Error> {
    let flags = flags.clone();
    match file {
        Some(path) => Ok(flags.over(ConfigFile::load(path)?.settings)),
        None => Ok(flags),
    }
}

/// Prints a line to standard output.
fn print(line: &str) -> Result<(), Error> {
    writeln!(std::io::stdout().lock(), "{line}").map_err(Error::output)
}

/// Prints a result as one line of JSON.
fn print_json(result: &impl serde::Serialize) -> Result<(), Error> {
    let line = serde_json::to_string(result).map_err(|error| Error::Output(error.into()))?;
    print(&line)
}

/// What this program was called by, so that the commands it proposes work as they are.
fn program() -> String {
    let first = std::env::args_os().next();
    first.map_or_else(
        || env!("CARGO_PKG_NAME").into(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Settings and record of a run, its last model or its best, and its tokenizer, which must fit each other.
fn load(
    run: &RunDirectory,
    best: bool,
) -> Result<(Settings, Record, LoadedModel, Tokenizer), Error> {
    let (settings, record) = ConfigFile::load_run(&run.config())?;
    let tokenizer = Tokenizer::load(&run.tokenizer())?;
    record.check(&tokenizer, &run.tokenizer())?;
    let path = match best {
        true => run.best(),
        false => run.model(),
    };
    if best && !path.exists() {
        let found = "none: the run has not been evaluated yet, and only has a last model";
        return Err(Error::content(&path, "the best model of the run", found));
    }
    let loaded = load_model(&path)?;
    let (expected, found) = (loaded.model.config().vocab_size, tokenizer.size());
    if expected != found {
        let expected = format!("{expected} tokens, as the model has");
        return Err(Error::content(
            &run.tokenizer(),
            expected,
            found.to_string(),
        ));
    }
    if loaded.step == 0 && !record.is_imported() {
        progress::note("note: this model has not been trained yet");
    }
    Ok((settings, record, loaded, tokenizer))
}
