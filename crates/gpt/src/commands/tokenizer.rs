//! `tokenizer`: learning, using and looking at tokenizers.

mod decode;
mod encode;
mod info;
mod meter;
mod train;

use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;

use crate::Error;
use crate::cli::{TokenizerCommand, TokenizerFile};
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bpe::{Given, SplitRule};

/// Does what the command says.
///
/// # Errors
///
/// Whatever is wrong with arguments, files or tokens.
pub fn run(command: &TokenizerCommand) -> Result<(), Error> {
    match command {
        TokenizerCommand::Train(args) => train::run(args),
        TokenizerCommand::Encode(args) => encode::run(args),
        TokenizerCommand::Decode(args) => decode::run(args),
        TokenizerCommand::Info(args) => info::run(args),
    }
}

/// A split rule of the command line.
fn rule(text: &str) -> Result<SplitRule, Error> {
    text.parse()
        .map_err(|error: crate::tokenizer::bpe::BpeError| {
            Error::setting("--split", "gpt2, or a regular expression", error)
        })
}

impl TokenizerFile {
    fn load(&self) -> Result<Tokenizer, Error> {
        let given = Given {
            rule: self.split.as_deref().map(rule).transpose()?,
            specials: self.specials.clone(),
            sha256: self.sha256.clone(),
        };
        Tokenizer::load_with(&self.tokenizer, &given)
    }
}

/// What a file or standard input (`-`) holds, and how many bytes it has, if that is known.
fn open(path: &Path) -> Result<(Box<dyn Read>, Option<u64>), Error> {
    if path == Path::new("-") {
        return Ok((Box::new(stdin().lock()), None));
    }
    let file = File::open(path).map_err(Error::file(path, "open the file"))?;
    let facts = file
        .metadata()
        .map_err(Error::file(path, "open the file"))?;
    if facts.is_dir() {
        return Err(Error::content(path, "a file", "a folder"));
    }
    Ok((Box::new(file), facts.is_file().then_some(facts.len())))
}
