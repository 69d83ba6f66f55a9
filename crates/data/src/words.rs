//! Files with one word per line, for models of names.

use std::path::Path;

use crate::error::at_least_one;
use crate::{Error, parse_text, read_text};

/// A list of words as tokens, with the vocabulary they are written in.
///
/// Token [`Words::BOUNDARY`] stands before and behind every word; tokens 1, 2, … are the characters that occur, in
/// the order of their code points.
///
/// ```
/// use burtorch_data::Words;
///
/// let words = Words::parse("emma\nolivia\nava\n", "names")?;
/// assert_eq!(words.count(), 3);
/// assert_eq!(words.characters().iter().collect::<String>(), "aeilmov");
/// assert_eq!(words.vocabulary_size(), 8);
/// assert_eq!(words.decode(&words.encode("mio")?)?, "mio");
/// # Ok::<(), burtorch_data::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    characters: Vec<char>,
    tokens: Vec<u32>,
    /// Where each word ends in `tokens`.
    ends: Vec<usize>,
}

impl Words {
    /// The token in front of every word and behind it.
    pub const BOUNDARY: u32 = 0;

    /// Reads a words file: see [`read_text`] for the file and [`parse`](Self::parse) for its lines.
    ///
    /// # Errors
    ///
    /// Those of both.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::parse(&read_text(path)?, &path.display().to_string())
    }

    /// The words in `text`, one per line; `name` stands for the file in messages.
    ///
    /// White space around a word is dropped (also the carriage return of a DOS line end), and blank lines are skipped.
    ///
    /// # Errors
    ///
    /// [`Error::NotOneWord`], with the line, if white space or a control character stands inside a word;
    /// [`Error::Empty`] if there is no word at all.
    pub fn parse(text: &str, name: &str) -> Result<Self, Error> {
        let text = parse_text(text.as_bytes(), name)?;
        let words = words_of(text, name)?;
        let characters = characters_of(&words);
        let mut all = Self {
            characters,
            tokens: Vec::new(),
            ends: Vec::new(),
        };
        for word in words {
            let tokens = all.encode(word)?;
            all.tokens.extend(tokens);
            all.ends.push(all.tokens.len());
        }
        Ok(all)
    }

    /// How many words there are: at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// The characters that occur; token `i + 1` stands for `characters()[i]`.
    #[must_use]
    pub fn characters(&self) -> &[char] {
        &self.characters
    }

    /// The number of different tokens: the characters and the boundary.
    #[must_use]
    pub fn vocabulary_size(&self) -> usize {
        self.characters.len() + 1
    }

    /// The tokens of word `index`, without boundaries.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless `index` is below [`count`](Self::count).
    pub fn get(&self, index: usize) -> Result<&[u32], Error> {
        let count = self.count();
        let end = *self.ends.get(index).ok_or(Error::OutOfRange {
            what: "word",
            index,
            count,
        })?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Ok(&self.tokens[start..end])
    }

    /// The tokens of each word in turn, without boundaries.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.tokens[start..end])
    }

    /// The tokens of `word`, without boundaries.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownCharacter`] if the list has no word with some character of it.
    pub fn encode(&self, word: &str) -> Result<Vec<u32>, Error> {
        let token = |found| match self.characters.binary_search(&found) {
            Ok(place) => Ok(place as u32 + 1),
            Err(_) => Err(Error::UnknownCharacter {
                word: word.to_owned(),
                found,
            }),
        };
        word.chars().map(token).collect()
    }

    /// The text of `tokens`; boundaries leave no trace in it.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`] for a token that is not below [`vocabulary_size`](Self::vocabulary_size).
    pub fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        let size = self.vocabulary_size();
        let inner = tokens.iter().filter(|&&token| token != Self::BOUNDARY);
        let character = |&token: &u32| match self.characters.get(token as usize - 1) {
            Some(&character) => Ok(character),
            None => Err(Error::UnknownToken { token, size }),
        };
        inner.map(character).collect()
    }
}

fn words_of<'a>(text: &'a str, name: &str) -> Result<Vec<&'a str>, Error> {
    let mut words = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let word = line.trim();
        if let Some(found) = word.chars().find(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::NotOneWord {
                name: name.to_owned(),
                line: number + 1,
                found,
            });
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    if words.is_empty() {
        Err(Error::Empty {
            name: name.to_owned(),
        })
    } else {
        Ok(words)
    }
}

fn characters_of(words: &[&str]) -> Vec<char> {
    let mut characters: Vec<char> = words.iter().flat_map(|word| word.chars()).collect();
    characters.sort_unstable();
    characters.dedup();
    characters
}

/// What comes next after each `context` tokens of a list of words: one sample per character and one per word end.
///
/// A context that reaches in front of its word is filled up with [`Words::BOUNDARY`], and the last sample of a word has
/// the boundary as its target. This is the data of Y. Bengio et al., *A neural probabilistic language model*, JMLR 2003,
/// with characters for words.
///
/// Handing in some of the words (say, those of the training part) gives the samples of these alone, so a word is
/// never split between two parts.
///
/// ```
/// use burtorch_data::{Samples, Words};
///
/// let words = Words::parse("ab", "names")?; // a = 1, b = 2
/// let samples = Samples::new(words.iter(), 2)?;
/// assert_eq!(samples.count(), 3);
/// assert_eq!(samples.get(0)?, (&[0, 0][..], 1));
/// assert_eq!(samples.get(1)?, (&[0, 1][..], 2));
/// assert_eq!(samples.get(2)?, (&[1, 2][..], 0));
/// # Ok::<(), burtorch_data::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Samples {
    context: usize,
    contexts: Vec<u32>,
    targets: Vec<u32>,
}

impl Samples {
    /// The samples of `words`, each given by its tokens without boundaries.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] for a `context` of 0, [`Error::TooLarge`] for one that takes more memory than there is.
    pub fn new<'a>(
        words: impl IntoIterator<Item = &'a [u32]>,
        context: usize,
    ) -> Result<Self, Error> {
        at_least_one("context", context)?;
        let mut samples = Self {
            context,
            contexts: Vec::new(),
            targets: Vec::new(),
        };
        for word in words {
            samples.reserve(word.len().saturating_add(1))?;
            samples.add(word);
        }
        Ok(samples)
    }

    /// Takes the memory for so many more samples, or refuses. The padded word is shorter than that.
    fn reserve(&mut self, count: usize) -> Result<(), Error> {
        let found = self.context;
        let more = found.saturating_mul(count).saturating_add(count);
        let taken = self.contexts.try_reserve(more);
        taken.map_err(|_| Error::TooLarge { found })
    }

    fn add(&mut self, word: &[u32]) {
        let mut padded = vec![Words::BOUNDARY; self.context];
        padded.extend_from_slice(word);
        padded.push(Words::BOUNDARY);
        for window in padded.windows(self.context + 1) {
            self.contexts.extend_from_slice(&window[..self.context]);
            self.targets.push(window[self.context]);
        }
    }

    /// How many samples there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.targets.len()
    }

    /// All contexts, one after the other: `[count · context]`.
    #[must_use]
    pub fn contexts(&self) -> &[u32] {
        &self.contexts
    }

    /// All targets: `[count]`.
    #[must_use]
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Context and target of sample `index`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless `index` is below [`count`](Self::count).
    pub fn get(&self, index: usize) -> Result<(&[u32], u32), Error> {
        let count = self.count();
        let target = *self.targets.get(index).ok_or(Error::OutOfRange {
            what: "sample",
            index,
            count,
        })?;
        let start = index * self.context;
        Ok((&self.contexts[start..start + self.context], target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_words_and_blank_ones_are_skipped() {
        let words = Words::parse("emma\r\n\n  ava \n", "names.txt").unwrap();
        let all: Vec<String> = words
            .iter()
            .map(|word| words.decode(word).unwrap())
            .collect();
        assert_eq!(all, ["emma", "ava"]);
        assert_eq!(words.get(1).unwrap(), words.encode("ava").unwrap());
        assert!(words.get(2).is_err());
    }

    #[test]
    fn f32_lines_that_are_no_word_are_named() {
        let error = Words::parse("emma\n\nanna maria\n", "names.txt")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "names.txt, line 3: expected one word, found ' ' inside it"
        );
        let error = Words::parse("\n \n", "names.txt").unwrap_err().to_string();
        assert_eq!(error, "names.txt: expected text, found none");
        assert!(Words::parse("", "names.txt").is_err());
    }

    #[test]
    fn strangers_are_named() {
        let words = Words::parse("ab", "x").unwrap();
        let error = words.encode("abc").unwrap_err().to_string();
        assert_eq!(
            error,
            "\"abc\": expected characters of the vocabulary, found 'c'"
        );
        let error = words.decode(&[1, 3]).unwrap_err().to_string();
        assert_eq!(error, "expected tokens below 3, found 3");
    }

    #[test]
    fn files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names.txt");
        std::fs::write(&path, "\u{FEFF}zoé\n").unwrap();
        let words = Words::read(&path).unwrap();
        assert_eq!(words.characters(), ['o', 'z', 'é']);
        assert!(matches!(
            Words::read(folder.path()),
            Err(Error::Directory { .. })
        ));
    }

    #[test]
    fn no_context_is_refused() {
        assert!(Samples::new([&[1_u32][..]], 0).is_err());
        for huge in [usize::MAX, usize::MAX / 8] {
            let refused = Samples::new([&[1_u32][..]], huge).unwrap_err();
            assert!(matches!(refused, Error::TooLarge { found } if found == huge));
        }
        let samples = Samples::new([&[1_u32][..]], 1).unwrap();
        let error = samples.get(2).unwrap_err().to_string();
        assert_eq!(error, "sample: expected an index below 2, found 2");
    }

    proptest! {
        #[test]
        fn words_come_back(list in prop::collection::vec("[a-zäöé]{1,9}", 1..20)) {
            let words = Words::parse(&list.join("\n"), "x").unwrap();
            let back: Vec<String> = words.iter().map(|word| words.decode(word).unwrap()).collect();
            prop_assert_eq!(back, list);
        }

        #[test]
        fn targets_are_the_words_and_contexts_what_was_before(
            list in prop::collection::vec("[a-d]{1,6}", 1..10),
            context in 1_usize..5,
        ) {
            let words = Words::parse(&list.join("\n"), "x").unwrap();
            let samples = Samples::new(words.iter(), context).unwrap();
            let targets: Vec<u32> = words.iter().flat_map(|word| [word, &[0]].concat()).collect();
            prop_assert_eq!(samples.targets(), targets);
            for index in 1..samples.count() {
                let (before, (now, _)) = (samples.get(index - 1).unwrap(), samples.get(index).unwrap());
                let expected = match before.1 {
                    Words::BOUNDARY => vec![0; context],
                    last => [&before.0[1..], &[last]].concat(),
                };
                prop_assert_eq!(now, expected);
            }
        }
    }
}
