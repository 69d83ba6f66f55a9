//! The text of a run as tokens, and the parts it is cut into.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};

use burtorch_data::{Fnv1a, Split, consecutive, read_text, split};

use crate::config::VALIDATION_FRACTION;
use crate::tokenizer::Tokenizer;
use crate::{Error, embedded};

/// A text, and what it is called.
#[derive(Debug, Clone)]
pub struct Source {
    /// The path, or the name of the embedded text.
    pub name: String,
    /// Where the text is, in a form that does not depend on the working directory; none for the embedded text.
    pub path: Option<PathBuf>,
    /// The text itself.
    pub text: Cow<'static, str>,
}

impl Source {
    /// Reads a file, or takes the embedded text.
    ///
    /// # Errors
    ///
    /// [`Error::Data`], naming the file.
    pub fn load(data: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = data else {
            return Ok(Self {
                name: embedded::NAME.into(),
                path: None,
                text: embedded::TEXT.into(),
            });
        };
        let text = read_text(path)?.into();
        let absolute = path
            .canonicalize()
            .map_err(Error::file(path, "find the file"))?;
        Ok(Self {
            name: path.display().to_string(),
            path: Some(absolute),
            text,
        })
    }

    /// A number that tells this text from others: 64-bit FNV-1a (Fowler, Noll, Vo) of its bytes, and their count. It finds changes, it
    /// does not prove identity.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = Fnv1a::default().with(self.text.as_bytes()).value();
        format!("fnv1a-{hash:016x}-{}", self.text.len())
    }
}

/// The tokens of a text, cut into a training and a validation part.
#[derive(Debug, Clone)]
pub struct Corpus {
    tokens: Vec<u32>,
    cut: usize,
}

impl Corpus {
    /// Encodes and cuts a text for windows of `block_size` tokens.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownCharacter`] from the tokenizer; [`Error::Content`] for a vocabulary of one character, which leaves nothing to
    /// predict; [`Error::TextTooShort`] if a part is too short for one window.
    pub fn new(source: &Source, tokenizer: &Tokenizer, block_size: usize) -> Result<Self, Error> {
        let tokens = tokenizer.encode(&source.text, &source.name)?;
        if tokenizer.size() < 2 {
            let expected = "at least 2 different characters";
            return Err(Error::content(Path::new(&source.name), expected, "1"));
        }
        let cut = split(&tokens, VALIDATION_FRACTION, block_size);
        let Split { training, .. } = cut.map_err(|error| named(error, &source.name))?;
        let cut = training.len();
        Ok(Self { tokens, cut })
    }

    /// The part to train on.
    #[must_use]
    pub fn training(&self) -> &[u32] {
        &self.tokens[..self.cut]
    }

    /// The part that is only measured.
    #[must_use]
    pub fn validation(&self) -> &[u32] {
        &self.tokens[self.cut..]
    }
}

/// The error of a part that is too short, with the name of the text.
fn named(error: burtorch_data::Error, name: &str) -> Error {
    match error {
        burtorch_data::Error::TooShort {
            part,
            length,
            needed,
        } => Error::TextTooShort {
            name: name.to_owned(),
            part,
            length,
            needed,
        },
        other => other.into(),
    }
}

/// Inputs and targets of one window.
pub type Window<'a> = (&'a [u32], &'a [u32]);

/// Windows of a text that do not overlap, spread evenly over it. They are computed, not stored.
#[derive(Debug, Clone, Copy)]
pub struct Spread<'a> {
    tokens: &'a [u32],
    block_size: usize,
    /// Windows that cover the text, and how many of them are taken.
    all: usize,
    taken: usize,
}

impl<'a> Spread<'a> {
    /// At most `most` windows of `tokens`: all if there are no more, and then every token but the first is a target exactly once.
    ///
    /// # Errors
    ///
    /// [`Error::Data`] if there is no window at all.
    pub fn new(tokens: &'a [u32], block_size: usize, most: usize) -> Result<Self, Error> {
        let all = consecutive(tokens, block_size)?.len();
        Ok(Self {
            tokens,
            block_size,
            all,
            taken: all.min(most),
        })
    }

    /// How many windows there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.taken
    }

    /// How many windows have `block_size` tokens: all, or all but the last one, which is never taken when some are left out.
    #[must_use]
    pub fn whole(&self) -> usize {
        self.taken.min((self.tokens.len() - 1) / self.block_size)
    }

    /// The windows with these numbers.
    ///
    /// # Panics
    ///
    /// For numbers from [`count`](Self::count) on, as an index out of bounds would.
    pub fn windows(self, places: Range<usize>) -> impl Iterator<Item = Window<'a>> + Clone {
        places.map(move |place| {
            let number = place as u128 * self.all as u128 / self.taken as u128;
            let start = number as usize * self.block_size;
            let end = (start + self.block_size).min(self.tokens.len() - 1);
            (&self.tokens[start..end], &self.tokens[start + 1..=end])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_text_has_another_fingerprint() {
        let source = |text: &'static str| Source {
            name: "x".into(),
            path: None,
            text: text.into(),
        };
        assert_eq!(source("a").fingerprint(), "fnv1a-af63dc4c8601ec8c-1");
        assert_ne!(source("ab").fingerprint(), source("ba").fingerprint());
    }

    #[test]
    fn f31_a_short_text_is_refused_with_both_numbers() {
        for (length, part) in [(5, "training"), (40, "validation")] {
            let text = "abcde".repeat(length / 5);
            let source = Source {
                name: "x".into(),
                path: None,
                text: text.into(),
            };
            let tokenizer = Tokenizer::characters_of(&source.text);
            let error = Corpus::new(&source, &tokenizer, 8).unwrap_err().to_string();
            let start = format!("x: expected at least 9 tokens in the {part} part");
            assert!(error.starts_with(&start), "{error}");
            assert!(error.contains("for --block-size 8, found 4"), "{error}");
        }
    }

    #[test]
    fn f31_a_text_of_one_character_is_refused() {
        let source = Source {
            name: "x".into(),
            path: None,
            text: "a".repeat(500).into(),
        };
        let tokenizer = Tokenizer::characters_of(&source.text);
        let error = Corpus::new(&source, &tokenizer, 8).unwrap_err().to_string();
        assert_eq!(
            error,
            "x: expected at least 2 different characters, found 1"
        );
    }

    #[test]
    fn the_two_parts_are_the_whole_and_share_nothing() {
        let text = "abcdefghij".repeat(10);
        let source = Source {
            name: "x".into(),
            path: None,
            text: text.into(),
        };
        let tokenizer = Tokenizer::characters_of(&source.text);
        let corpus = Corpus::new(&source, &tokenizer, 8).unwrap();
        assert_eq!(
            (corpus.training().len(), corpus.validation().len()),
            (90, 10)
        );
        let whole = tokenizer.encode(&source.text, "x").unwrap();
        assert_eq!([corpus.training(), corpus.validation()].concat(), whole);
    }

    #[test]
    fn few_windows_are_all_taken() {
        let tokens: Vec<u32> = (0..10).collect();
        let found = Spread::new(&tokens, 4, 99).unwrap();
        assert_eq!((found.count(), found.whole()), (3, 2));
        let targets = found.windows(0..3).flat_map(|(_, y)| y);
        assert!(targets.eq(&tokens[1..]));
    }

    #[test]
    fn many_windows_are_thinned_evenly() {
        let tokens: Vec<u32> = (0..1002).collect(); // 250 whole windows of 4 and one of 1
        for most in [1, 2, 7, 249, 250] {
            let found = Spread::new(&tokens, 4, most).unwrap();
            assert_eq!((found.count(), found.whole()), (most, most));
            let windows: Vec<Window<'_>> = found.windows(0..most).collect();
            let starts: Vec<u32> = windows.iter().map(|(x, _)| x[0]).collect();
            if most == 2 {
                assert_eq!(starts, [0, 500]);
            }
            assert!(starts.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(
                windows
                    .iter()
                    .all(|(x, y)| x.len() == 4 && y[3] == x[3] + 1)
            );
        }
    }
}
