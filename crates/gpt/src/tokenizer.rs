//! Text to tokens and back.

pub mod bpe;
pub mod character;
pub mod numbers;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, atomic_file};
pub use character::CharacterTokenizer;
pub use numbers::NumberTokenizer;

/// The version of `tokenizer.json` that this program writes and reads.
const FORMAT: u32 = 1;

/// The tokenizer of a model; the kinds share one file format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Tokenizer {
    /// One token per character.
    Character(CharacterTokenizer),
    /// Tokens written as numbers.
    Number(NumberTokenizer),
}

/// The file: the tokenizer and the version of the format.
#[derive(Serialize, Deserialize)]
struct Document<T> {
    format: u32,
    #[serde(flatten)]
    tokenizer: T,
}

impl Tokenizer {
    /// The tokenizer with one token for each different character of `text`.
    #[must_use]
    pub fn characters_of(text: &str) -> Self {
        Self::Character(CharacterTokenizer::from_text(text))
    }

    /// Number of different tokens.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Character(tokenizer) => tokenizer.size(),
            Self::Number(tokenizer) => tokenizer.size(),
        }
    }

    /// The tokens of `text`; `name` says in messages what the text is.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownCharacter`] or [`Error::NoToken`] for text the vocabulary cannot write.
    pub fn encode(&self, text: &str, name: &str) -> Result<Vec<u32>, Error> {
        match self {
            Self::Character(tokenizer) => tokenizer.encode(text, name),
            Self::Number(tokenizer) => tokenizer.encode(text, name),
        }
    }

    /// The text of `tokens`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`] for a token outside the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        match self {
            Self::Character(tokenizer) => tokenizer.decode(tokens),
            Self::Number(tokenizer) => tokenizer.decode(tokens),
        }
    }

    /// The token an empty prompt starts from: that of the line end, since text begins behind one, or else token 0.
    #[must_use]
    pub fn start(&self) -> u32 {
        match self {
            Self::Character(tokenizer) => tokenizer.token('\n').unwrap_or(0),
            Self::Number(_) => 0,
        }
    }

    /// Writes the file, atomically.
    ///
    /// # Errors
    ///
    /// [`Error::File`] naming `path`.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let document = Document {
            format: FORMAT,
            tokenizer: self,
        };
        atomic_file::replace(path, |file| {
            serde_json::to_writer_pretty(&mut *file, &document)?;
            writeln!(file)
        })
    }

    /// Reads a file written by [`save`](Self::save).
    ///
    /// # Errors
    ///
    /// [`Error::File`] or [`Error::Content`], naming `path`.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(Error::file(path, "read the tokenizer"))?;
        let document: Document<Self> = serde_json::from_str(&text)
            .map_err(|e| Error::content(path, "a tokenizer", e.to_string()))?;
        if document.format != FORMAT {
            return Err(Error::content(
                path,
                format!("format {FORMAT}"),
                format!("format {}", document.format),
            ));
        }
        Ok(document.tokenizer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(contents: &str) -> Result<Tokenizer, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        fs::write(&path, contents).unwrap();
        Tokenizer::load(&path)
    }

    #[test]
    fn comes_back_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let tokenizer = Tokenizer::characters_of("a\"\\é\r\n\u{1F600}");
        tokenizer.save(&path).unwrap();
        assert_eq!(Tokenizer::load(&path).unwrap(), tokenizer);
    }

    #[test]
    fn f36_files_with_wrong_contents_are_refused() {
        assert!(load(r#"{"format":1,"type":"character","characters":"ab"}"#).is_ok());
        for (contents, word) in [
            ("", "tokenizer"),
            (
                r#"{"format":2,"type":"character","characters":"ab"}"#,
                "format 2",
            ),
            (r#"{"format":1,"type":"morse","characters":"ab"}"#, "morse"),
            (r#"{"format":1,"type":"character","characters":""}"#, "none"),
            (
                r#"{"format":1,"type":"character","characters":"aa"}"#,
                "'a'",
            ),
            (
                r#"{"format":1,"type":"character","characters":"ba"}"#,
                "'a'",
            ),
        ] {
            let message = load(contents).unwrap_err().to_string();
            assert!(
                message.contains(word) && !message.contains('\n'),
                "{message}"
            );
        }
    }

    #[test]
    fn f40_an_empty_prompt_starts_behind_a_line_end_if_there_is_one() {
        let start = |text| Tokenizer::characters_of(text).start();
        assert_eq!(start("\t\nab"), 1);
        assert_eq!(start("ab"), 0);
    }
}
