//! Everything that can go wrong between the command line and the files of a run.

use std::io;
use std::path::{Path, PathBuf};

use crate::text::grouped;

/// Every failure of this crate; a message says what was expected, what was found, and where.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or cutting up the text failed.
    #[error(transparent)]
    Data(#[from] burtorch_data::Error),
    /// An op, a shape or the thread pool failed.
    #[error(transparent)]
    Tensor(#[from] burtorch_tensor::Error),
    /// An optimizer, a schedule or clipping refused its settings or its input.
    #[error(transparent)]
    Optimizer(#[from] burtorch_optim::Error),
    /// A setting is outside its range or does not go with another one.
    #[error("{name}: expected {expected}, found {found}")]
    Setting {
        /// The flag, or the name in a configuration file.
        name: &'static str,
        /// What is allowed, in words.
        expected: String,
        /// What was asked for.
        found: String,
    },
    /// A flag contradicts the run that is to be resumed.
    #[error(
        "--{name}: the run in {} has {stored}, found {given}; a run keeps the settings of its start{}",
        run.display(),
        reason(name)
    )]
    Contradiction {
        /// The flag without its dashes.
        name: String,
        /// The run directory.
        run: PathBuf,
        /// The value of the run.
        stored: String,
        /// The value given now.
        given: String,
    },
    /// The data of a run is not what it was.
    #[error(
        "{name}: expected the text the run was started with, {original} of {}, found another of {}{}",
        size(expected),
        size(found),
        difference(expected, found)
    )]
    DataChanged {
        /// The path of the text.
        name: String,
        /// What the text was called when the run was started.
        original: String,
        /// The fingerprint the run has stored.
        expected: String,
        /// The fingerprint of what is there now.
        found: String,
    },
    /// A part of the text has no room for a window and its last target.
    #[error(
        "{name}: expected at least {needed} tokens in the {part} for --block-size {}, found {length} (the last tenth of a text is for validation; a smaller --block-size needs less)",
        needed - 1
    )]
    TextTooShort {
        /// The path of the text.
        name: String,
        /// Which part.
        part: burtorch_data::Part,
        /// Its tokens.
        length: usize,
        /// The tokens it needs.
        needed: usize,
    },
    /// Somebody else trains in the folder.
    #[error("{}: another process is training here", path.display())]
    Busy {
        /// The folder of the run.
        path: PathBuf,
    },
    /// A text holds a character that the vocabulary does not.
    #[error(
        "{name}: the character {character:?} at byte {offset} is not among the {size} of the vocabulary"
    )]
    UnknownCharacter {
        /// The path, or what the text is.
        name: String,
        /// The first unknown character.
        character: char,
        /// Bytes before it.
        offset: usize,
        /// The size of the vocabulary.
        size: usize,
    },
    /// A word of a text of numbers is no token.
    #[error("{name}: expected a token below {size} at byte {offset}, found {found:?}")]
    NoToken {
        /// The path, or what the text is.
        name: String,
        /// The size of the vocabulary.
        size: usize,
        /// The word, or its beginning.
        found: String,
        /// Bytes before it.
        offset: usize,
    },
    /// A token stands for nothing in the vocabulary.
    #[error("token {token} is outside the vocabulary of {size}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        size: usize,
    },
    /// Byte-pair encoding failed.
    #[error(transparent)]
    Bpe(#[from] crate::tokenizer::bpe::BpeError),
    /// The file of a byte-pair encoding is not what it should be.
    #[error("{}: {source}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: crate::tokenizer::bpe::BpeError,
    },
    /// The operating system refused something.
    #[error("{}: cannot {action}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, e.g. `write the file`.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Content {
        /// The file or directory.
        path: PathBuf,
        /// What it should hold.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// Standard output was closed by its reader: no failure of ours.
    #[error("standard output was closed")]
    OutputClosed,
    /// Standard output could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// The loss, the gradient or the logits are no numbers any more.
    #[error("step {step}: the {what} is not finite: {origin}{}; a lower --lr or a --grad-clip helps most often", kept(*saved))]
    Diverged {
        /// The step, counted from 1.
        step: u64,
        /// `loss`, `gradient norm` or `validation loss`.
        what: &'static str,
        /// Where the first such number arose, as far as the search found out.
        origin: String,
        /// The step whose state the folder of the run holds, 0 for the untrained model; none without a folder.
        saved: Option<u64>,
    },
    /// The user ended a run before its end, and its state was saved.
    #[error("stopped behind step {} of {}, which is saved; to go on: {command}", grouped(*step), grouped(*steps))]
    Stopped {
        /// The last step made.
        step: u64,
        /// The steps of the run.
        steps: u64,
        /// The command that goes on.
        command: String,
    },
    /// The user ended the program, which had written all it had until then.
    #[error("stopped")]
    Interrupted,
    /// A model needs a parameter that is not there, or has another shape.
    #[error("the parameter `{name}` of the model: expected the shape {expected}, found {found}")]
    Parameter {
        /// Its name.
        name: String,
        /// The shape it should have.
        expected: String,
        /// The shape it has, or `none`.
        found: String,
    },
    /// The logits of a model are not finite, so no token can be drawn.
    #[error("the model produced the logit {found} for token {token}: expected finite numbers")]
    Logits {
        /// The first token with such a logit.
        token: usize,
        /// The logit.
        found: f32,
    },
}

impl Error {
    /// Whether the caller asked for something impossible (exit code 2) rather than something that failed (1).
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Setting { .. } | Self::Contradiction { .. })
    }

    /// A setting outside its range.
    pub(crate) fn setting(
        name: &'static str,
        expected: impl Into<String>,
        found: impl ToString,
    ) -> Self {
        Self::Setting {
            name,
            expected: expected.into(),
            found: found.to_string(),
        }
    }

    /// A file with the wrong contents.
    pub(crate) fn content(
        path: &Path,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Content {
            path: path.to_owned(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// Turns what the operating system said into an error that names the file.
    pub(crate) fn file(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            action,
            source,
        }
    }

    /// The error of a failed write to standard output.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Output(error),
        }
    }
}

/// Why a setting of a run cannot be changed, where that is not plain.
fn reason(name: &str) -> &'static str {
    match name {
        "steps" => {
            ", and its learning rates depend on the number of steps; --init-from starts a new run from its model"
        }
        _ => "",
    }
}

/// The size of a text, with which its fingerprint ends.
fn size(fingerprint: &str) -> String {
    let (_, end) = fingerprint.rsplit_once('-').unwrap_or_default();
    match end.parse() {
        Ok(bytes) => format!("{} bytes", grouped(bytes)),
        Err(_) => "an unknown size".into(),
    }
}

/// Says so where the size alone does not tell two texts apart.
fn difference(expected: &str, found: &str) -> &'static str {
    if size(expected) == size(found) {
        " that differs"
    } else {
        ""
    }
}

fn kept(saved: Option<u64>) -> String {
    match saved {
        None => String::new(),
        Some(0) => "; the folder of the run holds the untrained model only".into(),
        Some(step) => format!("; the folder of the run holds the state of step {step}"),
    }
}
