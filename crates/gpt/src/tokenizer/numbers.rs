//! Tokens written as numbers, for models that came without a tokenizer.

use serde::{Deserialize, Serialize};

use crate::Error;

/// A vocabulary of which only the size is known: a token is written as its number, with a space in front.
///
/// ```
/// use burtorch_gpt::tokenizer::NumberTokenizer;
///
/// let tokenizer = NumberTokenizer::new(100);
/// assert_eq!(tokenizer.encode("7 42\n0", "example")?, [7, 42, 0]);
/// assert_eq!(tokenizer.decode(&[7, 42])?, " 7 42");
/// # Ok::<(), burtorch_gpt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NumberTokenizer {
    size: usize,
}

impl NumberTokenizer {
    /// For a vocabulary of `size` tokens.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self { size }
    }

    /// Number of tokens.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The tokens in `text`, which are set apart by white space; `name` says in messages what the text is.
    ///
    /// # Errors
    ///
    /// [`Error::NoToken`] for the first word that is no number below the size of the vocabulary.
    pub fn encode(&self, text: &str, name: &str) -> Result<Vec<u32>, Error> {
        self.tokens(text, name).collect()
    }

    /// The tokens in `text`, one at a time.
    pub(super) fn tokens(
        &self,
        text: &str,
        name: &str,
    ) -> impl Iterator<Item = Result<u32, Error>> {
        text.split_whitespace().map(move |word| {
            let token = word.parse().ok();
            token
                .filter(|&token: &u32| (token as usize) < self.size)
                .ok_or_else(|| Error::NoToken {
                    name: name.to_owned(),
                    size: self.size,
                    found: word.chars().take(20).collect(),
                    offset: word.as_ptr().addr() - text.as_ptr().addr(),
                })
        })
    }

    /// The numbers of `tokens`.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`] with the first token outside the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, Error> {
        let size = self.size;
        let word = |&token: &u32| match (token as usize) < size {
            true => Ok(format!(" {token}")),
            false => Err(Error::UnknownToken { token, size }),
        };
        tokens.iter().map(word).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_tokens_are_named_with_their_place() {
        let tokenizer = NumberTokenizer::new(10);
        assert!(tokenizer.encode("", "x").unwrap().is_empty());
        for (text, found, offset) in [
            ("1 ten 2", "ten", 2),
            (" 10", "10", 1),
            ("1 -1", "-1", 2),
            ("4294967296", "4294967296", 0),
        ] {
            let message = tokenizer.encode(text, "x").unwrap_err().to_string();
            let words = [
                format!("{found:?}"),
                format!("at byte {offset}"),
                "below 10".into(),
            ];
            assert!(words.iter().all(|word| message.contains(word)), "{message}");
        }
        assert!(tokenizer.decode(&[3, 10]).is_err());
    }
}
