//! Text to tokens and back.

pub mod bpe;
pub mod character;
pub mod numbers;

use std::fs;
use std::path::Path;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Error, atomic_file};
use bpe::{Bpe, Given, Specials};
pub use character::CharacterTokenizer;
pub use numbers::NumberTokenizer;

/// The version of `tokenizer.json` that this program writes and reads.
const FORMAT: u32 = 1;

/// Tokens, and bytes of text, that are handed on at a time.
const PART: usize = 1 << 14;

/// What GPT-2 and its kin write behind a text.
const END_OF_TEXT: &str = "<|endoftext|>";

/// The tokenizer of a model.
///
/// Files of the first two kinds are our own; that of a byte-pair encoding is the `tokenizer.json` of Hugging Face, which others read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Tokenizer {
    /// One token per character.
    Character(CharacterTokenizer),
    /// Tokens written as numbers.
    Number(NumberTokenizer),
    /// Byte-pair encoding.
    #[serde(skip)]
    Bpe(Box<Bpe>),
}

/// The file: the tokenizer and the version of the format.
#[derive(Serialize, Deserialize)]
struct Document<T> {
    format: u32,
    #[serde(flatten)]
    tokenizer: T,
}

/// What tells the kinds of file apart.
#[derive(Deserialize)]
struct Outline {
    format: Option<IgnoredAny>,
    model: Option<IgnoredAny>,
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
            Self::Bpe(bpe) => bpe.size(),
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
            Self::Bpe(bpe) => Ok(bpe.encode(text.as_bytes())?),
        }
    }

    /// Hands the tokens of `text` on in parts, in memory that does not grow with the text (but for a split rule that is not
    /// [known](bpe::SplitRule::is_known), which is applied to the text as a whole).
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode), and what `take` returns.
    pub fn encode_in_parts(
        &self,
        text: &str,
        name: &str,
        take: &mut dyn FnMut(&[u32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self {
            Self::Character(tokenizer) => in_parts(tokenizer.tokens(text, name), take),
            Self::Number(tokenizer) => in_parts(tokenizer.tokens(text, name), take),
            Self::Bpe(bpe) if !bpe.rule().is_known() => take(&bpe.encode(text.as_bytes())?),
            Self::Bpe(bpe) => {
                let mut encoder = bpe.stream(Specials::Ordinary, 1);
                let mut tokens = Vec::new();
                for part in text.as_bytes().chunks(PART) {
                    encoder.push(part, &mut tokens)?;
                    take(&tokens)?;
                    tokens.clear();
                }
                encoder.finish(&mut tokens)?;
                take(&tokens)
            }
        }
    }

    /// The bytes of `tokens`, which need not begin or end where a character does.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`] or [`Error::Bpe`] for a token outside the vocabulary.
    pub fn decode_bytes(&self, tokens: &[u32]) -> Result<Vec<u8>, Error> {
        match self {
            Self::Bpe(bpe) => Ok(bpe.decode(tokens)?),
            others => others.decode(tokens).map(String::into_bytes),
        }
    }

    /// The text of `tokens`; bytes that are no UTF-8 become `U+FFFD`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`] or [`Error::Bpe`] for a token outside the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        match self {
            Self::Character(tokenizer) => tokenizer.decode(tokens),
            Self::Number(tokenizer) => tokenizer.decode(tokens),
            Self::Bpe(bpe) => Ok(String::from_utf8_lossy(&bpe.decode(tokens)?).into_owned()),
        }
    }

    /// The token an empty prompt starts from: the one that ends a text, since the next begins behind it; else that of the line end; else
    /// token 0.
    #[must_use]
    pub fn start(&self) -> u32 {
        match self {
            Self::Character(tokenizer) => tokenizer.token('\n').unwrap_or(0),
            Self::Number(_) => 0,
            Self::Bpe(bpe) => self.end().unwrap_or_else(|| bpe.byte(b'\n')),
        }
    }

    /// The token that ends a text: the special token `<|endoftext|>`, if there is one.
    #[must_use]
    pub fn end(&self) -> Option<u32> {
        let Self::Bpe(bpe) = self else { return None };
        let mut specials = bpe.specials().iter();
        specials
            .find(|(text, _)| text == END_OF_TEXT)
            .map(|&(_, token)| token)
    }

    /// A hash by which token files tell the tokenizer they were made with.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        match self {
            Self::Bpe(bpe) => bpe.sha256(),
            // Neither kind has anything that JSON could not write.
            others => Sha256::digest(serde_json::to_vec(others).unwrap_or_default()).into(),
        }
    }

    /// Writes the file, atomically.
    ///
    /// # Errors
    ///
    /// [`Error::File`] naming `path`.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        if let Self::Bpe(bpe) = self {
            return bpe.save(path);
        }
        let document = Document {
            format: FORMAT,
            tokenizer: self,
        };
        atomic_file::replace(path, |file| {
            serde_json::to_writer_pretty(&mut *file, &document)?;
            writeln!(file)
        })
    }

    /// Reads a file written by [`save`](Self::save), or any that [`Bpe::load`] reads.
    ///
    /// # Errors
    ///
    /// [`Error::File`], [`Error::Content`] or [`Error::Tokenizer`], naming `path`.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Self::load_with(path, &Given::default())
    }

    /// As [`load`](Self::load), with what is said of a byte-pair encoding beside its file.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_with(path: &Path, given: &Given) -> Result<Self, Error> {
        if bpe::files::is_named_so(path) {
            return Ok(Self::Bpe(Box::new(Bpe::load(path, given)?)));
        }
        let text = fs::read_to_string(path).map_err(Error::file(path, "read the tokenizer"))?;
        let outline = serde_json::from_str(&text);
        if let Ok(Outline {
            format: None,
            model: Some(_),
        }) = outline
        {
            return Ok(Self::Bpe(Box::new(Bpe::load(path, given)?)));
        }
        let document: Document<Self> = serde_json::from_str(&text)
            .map_err(|e| Error::content(path, "a tokenizer", e.to_string()))?;
        if document.format != FORMAT {
            return Err(Error::content(
                path,
                format!("format {FORMAT}"),
                format!("format {}", document.format),
            ));
        }
        given
            .check_plain(&text)
            .map_err(|source| Error::Tokenizer {
                path: path.to_owned(),
                source,
            })?;
        Ok(document.tokenizer)
    }
}

/// Hands tokens on in parts.
fn in_parts(
    tokens: impl Iterator<Item = Result<u32, Error>>,
    take: &mut dyn FnMut(&[u32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut part = Vec::with_capacity(PART);
    for token in tokens {
        part.push(token?);
        if part.len() == PART {
            take(&part)?;
            part.clear();
        }
    }
    take(&part)
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
    fn a_byte_pair_encoding_is_a_tokenizer_like_any_other() {
        let mut trainer = bpe::Trainer::new(bpe::SplitRule::Gpt2);
        trainer.add("naïve naïve naïve".as_bytes()).unwrap();
        let tokenizer = Tokenizer::Bpe(Box::new(trainer.train(258).unwrap().bpe));
        let folder = tempfile::tempdir().unwrap();
        for name in ["tokenizer.json", "t.tiktoken"] {
            let path = folder.path().join(name);
            tokenizer.save(&path).unwrap();
            let given = Given {
                rule: Some(bpe::SplitRule::Gpt2),
                ..Given::default()
            };
            assert_eq!(Tokenizer::load_with(&path, &given).unwrap(), tokenizer);
        }
        let tokens = tokenizer.encode("naïve?\n", "x").unwrap();
        assert_eq!(tokenizer.decode(&tokens).unwrap(), "naïve?\n");
        assert_eq!(tokenizer.decode_bytes(&[0xC3]).unwrap(), [0xC3]);
        assert_eq!(tokenizer.decode(&[0xC3]).unwrap(), "\u{FFFD}");
        assert_eq!((tokenizer.size(), tokenizer.start()), (258, 10));
        let message = tokenizer.decode(&[258]).unwrap_err().to_string();
        assert_eq!(message, "token 258 is outside the vocabulary of 258");
        assert_ne!(tokenizer.sha256(), Tokenizer::characters_of("ab").sha256());
    }

    #[test]
    fn the_parts_are_the_whole() {
        let text = "Once, there's 12 ways\n to say été 語.\n\n ".repeat(1000);
        let numbers = (0..30_000).map(|number| format!(" {number}")).collect();
        let trained = |rule| {
            let mut trainer = bpe::Trainer::new(rule);
            trainer.add(text.as_bytes()).unwrap();
            Tokenizer::Bpe(Box::new(trainer.train(300).unwrap().bpe))
        };
        for (tokenizer, text) in [
            (Tokenizer::characters_of(&text), &text),
            (trained(bpe::SplitRule::Gpt2), &text),
            (trained(r"\s+|\S+".parse().unwrap()), &text),
            (Tokenizer::Number(NumberTokenizer::new(30_000)), &numbers),
        ] {
            let mut parts = Vec::new();
            let mut take = |part: &[u32]| {
                parts.extend_from_slice(part);
                Ok(())
            };
            tokenizer.encode_in_parts(text, "x", &mut take).unwrap();
            assert!(parts == tokenizer.encode(text, "x").unwrap());
            let mut full = |_: &[u32]| {
                Err(Error::NoToken {
                    name: "full".into(),
                    size: 0,
                    found: String::new(),
                    offset: 0,
                })
            };
            assert!(tokenizer.encode_in_parts(text, "x", &mut full).is_err());
        }
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
    fn f40_an_empty_prompt_starts_where_a_text_does() {
        let start = |text| Tokenizer::characters_of(text).start();
        assert_eq!(start("\t\nab"), 1);
        assert_eq!(start("ab"), 0);
        for (specials, expected) in [
            (vec![], 10),
            (vec!["<|other|>".to_owned()], 10),
            (vec!["<|other|>".to_owned(), END_OF_TEXT.to_owned()], 257),
        ] {
            let trainer = bpe::Trainer::new(bpe::SplitRule::Gpt2);
            let trainer = trainer.with_specials(specials).unwrap();
            let bpe = trainer.train(258).unwrap().bpe;
            assert_eq!(Tokenizer::Bpe(Box::new(bpe)).start(), expected);
        }
    }
}
