//! What can go wrong between a file and a batch.

use std::fmt;
use std::path::PathBuf;

/// The piece of the tokens an error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All tokens, before or without a split.
    Whole,
    /// The leading part, which is trained on.
    Training,
    /// The trailing part, which is only measured.
    Validation,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "text",
            Self::Training => "training part",
            Self::Validation => "validation part",
        })
    }
}

/// Every failure of this crate; a message says what was expected, what was found, and where.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no file at the path.
    #[error("{}: expected a text file, found no file", path.display())]
    Missing {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The path leads to a directory.
    #[error("{}: expected a text file, found a directory", path.display())]
    Directory {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The path leads to something that is neither a file nor a directory.
    #[error("{}: expected a text file, found a pipe or device", path.display())]
    NoFile {
        /// The path as it was given.
        path: PathBuf,
    },
    /// The operating system refused to read the file.
    #[error("{}: cannot read the file: {source}", path.display())]
    Unreadable {
        /// The path as it was given.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// There is no text, or nothing but a byte order mark, or (for words) nothing but blank lines.
    #[error("{name}: expected text, found none")]
    Empty {
        /// The path, or the name given to an embedded text.
        name: String,
    },
    /// The bytes are not UTF-8.
    #[error("{name}: expected UTF-8 text, found the byte 0x{byte:02X} at offset {offset}")]
    NotUtf8 {
        /// The path, or the name given to an embedded text.
        name: String,
        /// Bytes before the first bad one, a byte order mark included.
        offset: usize,
        /// The first byte that belongs to no character.
        byte: u8,
    },
    /// The share of tokens for validation is not a number from 0 to below 1.
    #[error("validation fraction: expected at least 0 and below 1, found {fraction}")]
    Fraction {
        /// What was asked for.
        fraction: f64,
    },
    /// A window, a batch or a context of no length was asked for.
    #[error("{what}: expected at least 1, found 0")]
    Zero {
        /// The quantity that was zero.
        what: &'static str,
    },
    /// There are fewer tokens than one window and its last target need.
    #[error("the {part} is too short: expected at least {needed} tokens, found {length}")]
    TooShort {
        /// Which part was too short.
        part: Part,
        /// Tokens found.
        length: usize,
        /// Tokens needed.
        needed: usize,
    },
    /// A window, word or sample was asked for that does not exist.
    #[error("{what}: expected an index below {count}, found {index}")]
    OutOfRange {
        /// What was indexed.
        what: &'static str,
        /// The index asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A buffer does not have the size of a batch.
    #[error("{what}: expected room for {expected} tokens, found {found}")]
    BufferSize {
        /// Which buffer.
        what: &'static str,
        /// Batch size times block size.
        expected: usize,
        /// The length of the buffer handed in.
        found: usize,
    },
    /// The contexts of the samples are more than memory can hold.
    #[error("context: expected one that fits in memory, found {found}")]
    TooLarge {
        /// The length asked for.
        found: usize,
    },
    /// A line of a words file holds something that is not one word.
    #[error("{name}, line {line}: expected one word, found {found:?} inside it")]
    NotOneWord {
        /// The path, or the name given to an embedded text.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// The white space or control character inside the line.
        found: char,
    },
    /// A word holds a character that the vocabulary does not.
    #[error("{word:?}: expected characters of the vocabulary, found {found:?}")]
    UnknownCharacter {
        /// The word to be encoded.
        word: String,
        /// Its first unknown character.
        found: char,
    },
    /// A token file is not what it should be.
    #[error("{}: expected {expected}, found {found}", path.display())]
    TokenFile {
        /// The path as it was given.
        path: PathBuf,
        /// What it should hold.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// The operating system refused to write a file.
    #[error("{}: cannot write the file: {source}", path.display())]
    Unwritable {
        /// The path as it was given.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A token stands for nothing in the vocabulary.
    #[error("expected tokens below {size}, found {token}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        size: usize,
    },
    /// There is no memory for so many more tokens.
    #[error("expected tokens that fit in memory, found {tokens} more")]
    NoMemory {
        /// How many were to come in.
        tokens: usize,
    },
}

/// Refuses a size of zero, naming it.
pub(crate) fn at_least_one(what: &'static str, size: usize) -> Result<(), Error> {
    if size == 0 {
        Err(Error::Zero { what })
    } else {
        Ok(())
    }
}
