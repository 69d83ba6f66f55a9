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
use crate::memory::available_bytes;
use crate::text::gigabytes;
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
            let expected = "gpt2, cl100k, o200k, or a regular expression";
            Error::setting("--split", expected, error)
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

/// Refuses a text that would not fit in memory, if the rule needs all of it there.
///
/// A text of unknown length is read until memory ends, which is an error too.
fn check_room(rule: &SplitRule, path: &Path, length: Option<u64>) -> Result<(), Error> {
    let room = available_bytes().unwrap_or(u64::MAX);
    match length.filter(|&length| length > room && !rule.is_known()) {
        None => Ok(()),
        Some(length) => {
            let room = gigabytes(room as f64);
            let expected = format!(
                "a text that fits into the {room} of free memory, as a split rule other than gpt2, cl100k and o200k needs it there as a whole (or several smaller files)"
            );
            Err(Error::content(path, expected, gigabytes(length as f64)))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_text_larger_than_memory_needs_a_rule_that_can_be_applied_to_parts() {
        let path = Path::new("huge.txt");
        let own = rule(r"\w+|\W+").unwrap();
        let message = check_room(&own, path, Some(1 << 60)).unwrap_err();
        let message = message.to_string();
        assert!(
            message.starts_with("huge.txt: expected a text that fits into the "),
            "{message}"
        );
        assert!(
            message.contains("cl100k") && message.ends_with("GB"),
            "{message}"
        );
        assert!(check_room(&own, path, Some(1000)).is_ok());
        assert!(check_room(&own, path, None).is_ok());
        for name in ["gpt2", "cl100k", "o200k"] {
            assert!(check_room(&rule(name).unwrap(), path, Some(1 << 60)).is_ok());
        }
    }
}
