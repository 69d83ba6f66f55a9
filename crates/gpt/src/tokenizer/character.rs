//! One token per character.

use serde::{Deserialize, Serialize};

use crate::Error;

/// The different characters of a text in ascending order; a character's place is its token.
///
/// ```
/// use burtorch_gpt::tokenizer::CharacterTokenizer;
///
/// let tokenizer = CharacterTokenizer::from_text("banana");
/// let tokens = tokenizer.encode("nab", "example")?;
/// assert_eq!(tokens, [2, 0, 1]);
/// assert_eq!(tokenizer.decode(&tokens)?, "nab");
/// # Ok::<(), burtorch_gpt::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct CharacterTokenizer {
    characters: Vec<char>,
}

/// The form in the file: all characters as one string.
#[derive(Serialize, Deserialize)]
struct Stored {
    characters: String,
}

impl From<CharacterTokenizer> for Stored {
    fn from(tokenizer: CharacterTokenizer) -> Self {
        Self {
            characters: tokenizer.characters.into_iter().collect(),
        }
    }
}

impl TryFrom<Stored> for CharacterTokenizer {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let characters: Vec<char> = stored.characters.chars().collect();
        if characters.is_empty() {
            return Err("expected characters, found none".into());
        }
        match characters.windows(2).find(|pair| pair[0] >= pair[1]) {
            Some(pair) => Err(format!(
                "expected ascending characters, found {:?} after {:?}",
                pair[1], pair[0]
            )),
            None => Ok(Self { characters }),
        }
    }
}

impl CharacterTokenizer {
    /// The tokenizer whose vocabulary is the characters of `text`.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        // One mark for each possible character takes less memory than the text's own ones in any order would.
        let mut found = vec![false; char::MAX as usize + 1];
        text.chars()
            .for_each(|character| found[character as usize] = true);
        Self {
            characters: ('\0'..=char::MAX)
                .filter(|&character| found[character as usize])
                .collect(),
        }
    }

    /// The characters, each at the place of its token.
    #[must_use]
    pub fn characters(&self) -> &[char] {
        &self.characters
    }

    /// Number of different characters.
    #[must_use]
    pub fn size(&self) -> usize {
        self.characters.len()
    }

    /// The token of a character, if the vocabulary has it.
    #[must_use]
    pub fn token(&self, character: char) -> Option<u32> {
        self.characters
            .binary_search(&character)
            .ok()
            .map(|place| place as u32)
    }

    /// The tokens of `text`; `name` says in messages what the text is.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownCharacter`] with the first character outside the vocabulary and its byte offset.
    pub fn encode(&self, text: &str, name: &str) -> Result<Vec<u32>, Error> {
        // Counted first: a vector that grows on the way would hold up to three times the tokens of a large text.
        let mut tokens = Vec::with_capacity(text.chars().count());
        for token in self.tokens(text, name) {
            tokens.push(token?);
        }
        Ok(tokens)
    }

    /// The tokens of `text`, one at a time, up to the first error.
    pub(super) fn tokens(
        &self,
        text: &str,
        name: &str,
    ) -> impl Iterator<Item = Result<u32, Error>> {
        text.char_indices().map(move |(offset, character)| {
            let size = self.size();
            let unknown = || Error::UnknownCharacter {
                name: name.to_owned(),
                character,
                offset,
                size,
            };
            self.token(character).ok_or_else(unknown)
        })
    }

    /// The text of `tokens`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`] for the first token outside the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        let character = |&token: &u32| {
            let found = self.characters.get(token as usize).copied();
            found.ok_or(Error::UnknownToken {
                token,
                size: self.size(),
            })
        };
        tokens.iter().map(character).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn f40_an_unknown_character_is_named_with_its_offset() {
        let tokenizer = CharacterTokenizer::from_text("abc");
        let message = tokenizer
            .encode("abß", "the prompt")
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "the prompt: the character 'ß' at byte 2 is not among the 3 of the vocabulary"
        );
    }

    #[test]
    fn a_token_outside_the_vocabulary_is_refused() {
        let tokenizer = CharacterTokenizer::from_text("abc");
        assert_eq!(
            tokenizer.decode(&[0, 3]).unwrap_err().to_string(),
            "token 3 is outside the vocabulary of 3"
        );
    }

    #[test]
    fn f32_line_ends_and_accents_come_back_exactly() {
        for text in ["a\r\nb", "café", "\u{0}\u{10FFFF}"] {
            let tokenizer = CharacterTokenizer::from_text(text);
            let tokens = tokenizer.encode(text, "text").unwrap();
            assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in ".*") {
            let tokenizer = CharacterTokenizer::from_text(&text);
            let tokens = tokenizer.encode(&text, "text").unwrap();
            prop_assert_eq!(tokens.len(), text.chars().count());
            prop_assert_eq!(tokenizer.decode(&tokens).unwrap(), text);
        }
    }
}
