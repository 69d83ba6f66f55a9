//! Files of tokenizers: those of Hugging Face and of tiktoken, both ways.
//!
//! | file | split rule | special tokens |
//! |---|---|---|
//! | `tokenizer.json` of Hugging Face, byte-level BPE | in the file | in the file |
//! | `vocab.json` and `merges.txt` (or `encoder.json` and `vocab.bpe`) | must be given | tokens that no merge makes |
//! | `….tiktoken` | must be given | must be given |
//!
//! Of the files of GPT-2, r50k, p50k, cl100k and o200k, rule and special tokens are known by the SHA-256 of what they hold. What is read is checked: ids, ranks,
//! bytes and merges must fit each other, and what would encode differently from the program the file was made for is refused.

mod alphabet;
mod hugging_face;
mod tiktoken;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{Bpe, BpeError, SplitRule};
use crate::{Error, atomic_file};

/// A vocabulary whose files do not say how text is split, but which are known.
struct Known {
    /// SHA-256 of files of it.
    files: &'static [&'static str],
    rule: &'static str,
    specials: &'static [(&'static str, u32)],
}

/// The vocabularies of GPT-2 to GPT-4o.
const KNOWN: [Known; 4] = [
    Known {
        // r50k_base.tiktoken and vocab.bpe
        files: &[
            "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
            "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
        ],
        rule: SplitRule::GPT2,
        specials: &[("<|endoftext|>", 50256)],
    },
    Known {
        // p50k_base.tiktoken
        files: &["94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"],
        rule: SplitRule::GPT2,
        specials: &[("<|endoftext|>", 50256)],
    },
    Known {
        // cl100k_base.tiktoken
        files: &["223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"],
        rule: SplitRule::CL100K,
        specials: &[
            ("<|endoftext|>", 100_257),
            ("<|fim_prefix|>", 100_258),
            ("<|fim_middle|>", 100_259),
            ("<|fim_suffix|>", 100_260),
            ("<|endofprompt|>", 100_276),
        ],
    },
    Known {
        // o200k_base.tiktoken
        files: &["446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"],
        rule: SplitRule::O200K,
        specials: &[("<|endoftext|>", 199_999), ("<|endofprompt|>", 200_018)],
    },
];

/// What is said of a tokenizer beside its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Given {
    /// The split rule, for files that do not carry it.
    pub rule: Option<SplitRule>,
    /// Special tokens that the file does not have.
    pub specials: Vec<(String, u32)>,
    /// The SHA-256 that the file must have, in hexadecimal digits; of two files, that with the merges.
    pub sha256: Option<String>,
}

/// A kind of file.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Format {
    TokenizerJson,
    Tiktoken,
    /// The file of the vocabulary, and that of the merges.
    Two(PathBuf, PathBuf),
}

impl Format {
    /// The kind of a file, by its name; a folder stands for the two files in it.
    fn of(path: &Path) -> Self {
        if path.is_dir() {
            return Self::of(&path.join("vocab.json"));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match &*name {
            "vocab.json" => Self::Two(path.to_owned(), path.with_file_name("merges.txt")),
            "encoder.json" => Self::Two(path.to_owned(), path.with_file_name("vocab.bpe")),
            "merges.txt" => Self::Two(path.with_file_name("vocab.json"), path.to_owned()),
            "vocab.bpe" => Self::Two(path.with_file_name("encoder.json"), path.to_owned()),
            name if name.ends_with(".tiktoken") => Self::Tiktoken,
            _ => Self::TokenizerJson,
        }
    }
}

/// Whether a file of this name holds a byte-pair encoding whatever is in it.
pub(crate) fn is_named_so(path: &Path) -> bool {
    Format::of(path) != Format::TokenizerJson
}

impl Bpe {
    /// Reads a file; its name tells the kind.
    ///
    /// # Errors
    ///
    /// [`Error::File`]; [`Error::Tokenizer`] if the file is not what it should be, or does not carry the split rule and none is given.
    pub fn load(path: &Path, given: &Given) -> Result<Self, Error> {
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Tokenizer { path, source }
        };
        match Format::of(path) {
            Format::TokenizerJson => {
                let text = read(path)?;
                given.check(&sha256(&text)).map_err(wrong(path))?;
                hugging_face::read(&text, given).map_err(wrong(path))
            }
            Format::Tiktoken => {
                let text = read(path)?;
                let (rule, specials) = given.with_known(&sha256(&text)).map_err(wrong(path))?;
                tiktoken::read(&text, rule, specials).map_err(wrong(path))
            }
            Format::Two(vocabulary, merges) => {
                let (words, lines) = (read(&vocabulary)?, read(&merges)?);
                let (rule, _) = given.with_known(&sha256(&lines)).map_err(wrong(&merges))?;
                vocabulary::read(&words, &lines, rule, given).map_err(wrong(&vocabulary))
            }
        }
    }

    /// Writes a file, or two; the name tells the kind. Each is replaced atomically.
    ///
    /// # Errors
    ///
    /// [`Error::File`]; [`Error::Tokenizer`] if the encoding cannot be written in this kind of file.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let wrong = |source| Error::Tokenizer {
            path: path.to_owned(),
            source,
        };
        match Format::of(path) {
            Format::TokenizerJson => write(path, &hugging_face::text(self).map_err(wrong)?),
            Format::Tiktoken => write(path, &tiktoken::text(self).map_err(wrong)?),
            Format::Two(vocabulary, merges) => {
                let (words, lines) = vocabulary::texts(self).map_err(wrong)?;
                write(&vocabulary, &words)?;
                write(&merges, &lines)
            }
        }
    }

    /// The SHA-256 of all that decides what is encoded and decoded: two encodings with the same are the same.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut text = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        text(self.rule().to_string().as_bytes());
        for (token, bytes) in self.tokens() {
            text(&token.to_le_bytes());
            text(bytes);
        }
        for merge in self.merges() {
            text(
                &[merge.left, merge.right, merge.made]
                    .map(u32::to_le_bytes)
                    .concat(),
            );
        }
        for (special, token) in self.specials() {
            text(special.as_bytes());
            text(&token.to_le_bytes());
        }
        hash.finalize().into()
    }
}

impl Given {
    /// Refuses a file of another hash than the one that was named.
    fn check(&self, found: &str) -> Result<(), BpeError> {
        match &self.sha256 {
            Some(expected) if !expected.eq_ignore_ascii_case(found) => {
                Err(BpeError::content("SHA-256", expected, found))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a file of no byte-pair encoding, if it has another hash than the one named or is said to have what only such encodings have.
    pub(crate) fn check_plain(&self, text: &str) -> Result<(), BpeError> {
        self.check(&sha256(text))?;
        if self.rule.is_some() || !self.specials.is_empty() {
            let expected = "a byte-pair encoding, for a split rule or special tokens";
            return Err(BpeError::content("file", expected, "another tokenizer"));
        }
        Ok(())
    }

    /// Rule and special tokens of a file that has none, by its hash or as given.
    fn with_known(&self, sha256: &str) -> Result<(SplitRule, Vec<(String, u32)>), BpeError> {
        self.check(sha256)?;
        let known = KNOWN.iter().find(|known| known.files.contains(&sha256));
        let rule = match (&self.rule, known) {
            (Some(rule), _) => rule.clone(),
            (None, Some(known)) => known.rule.parse()?,
            (None, None) => {
                let expected = "a rule, which this kind of file does not carry (say --split gpt2, cl100k, o200k, or a regular expression)";
                return Err(BpeError::content("split rule", expected, "none"));
            }
        };
        let mut specials = self.specials.clone();
        for &(text, token) in known.map_or(&[][..], |known| known.specials) {
            if !self.specials.iter().any(|special| special.1 == token) {
                specials.push((text.into(), token));
            }
        }
        Ok((rule, specials))
    }
}

fn sha256(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(Error::file(path, "read the tokenizer"))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    atomic_file::replace(path, |file| file.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests;
