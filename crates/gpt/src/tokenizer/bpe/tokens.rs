//! The bytes of every token, and the token of bytes.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use super::BpeError;

/// More ids than tokens there may be, so that a file of few tokens cannot make a large table.
const GAPS: usize = 4096;

/// Tokens by id. An id may stand for nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    bytes: Vec<u8>,
    /// Where each token begins in `bytes`, and the end; a token of no bytes is none.
    starts: Vec<u32>,
}

impl Tokens {
    /// The tokens of these ids, each of at least one byte.
    pub(super) fn new(mut tokens: Vec<(u32, Vec<u8>)>) -> Result<Self, BpeError> {
        tokens.sort_unstable_by_key(|token| token.0);
        let most = 2 * tokens.len() + GAPS;
        let mut this = Self::default();
        for (id, bytes) in &tokens {
            let place = || format!("token {id}");
            if (*id as usize) >= most {
                let expected = format!("an id below {most}, as there are {} tokens", tokens.len());
                return Err(BpeError::content(place(), expected, id.to_string()));
            }
            if (*id as usize) < this.starts.len() {
                return Err(BpeError::content(place(), "one token of this id", "two"));
            }
            if bytes.is_empty() {
                return Err(BpeError::content(place(), "at least one byte", "none"));
            }
            let start = this.position()?;
            this.starts.resize(*id as usize + 1, start);
            this.bytes.extend_from_slice(bytes);
        }
        let end = this.position()?;
        this.starts.push(end);
        Ok(this)
    }

    fn position(&self) -> Result<u32, BpeError> {
        u32::try_from(self.bytes.len()).map_err(|_| BpeError::TooMany {
            what: "bytes in tokens",
            most: u64::from(u32::MAX),
        })
    }

    /// One more than the largest id.
    pub(super) fn size(&self) -> usize {
        self.starts.len() - 1
    }

    /// The bytes of a token.
    #[inline]
    pub(super) fn get(&self, token: u32) -> Option<&[u8]> {
        let place = token as usize;
        let range = *self.starts.get(place)? as usize..*self.starts.get(place + 1)? as usize;
        self.bytes.get(range).filter(|bytes| !bytes.is_empty())
    }

    /// All ids with their bytes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        (0..self.size() as u32).filter_map(|token| Some((token, self.get(token)?)))
    }
}

/// The token of bytes, for some of the tokens. Takes five bytes or so for each; the bytes themselves lie in [`Tokens`].
#[derive(Debug, Clone, Default)]
pub(super) struct Lookup {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Lookup {
    /// Enters a token; false if one of the same bytes is there.
    pub(super) fn insert(&mut self, tokens: &Tokens, token: u32) -> bool {
        let Some(bytes) = tokens.get(token) else {
            return false;
        };
        if self.get(tokens, bytes).is_some() {
            return false;
        }
        let rehash = |&token: &u32| self.hasher.hash_one(tokens.get(token).unwrap_or_default());
        let hash = self.hasher.hash_one(bytes);
        self.table.insert_unique(hash, token, rehash);
        true
    }

    /// The token of these bytes.
    #[inline]
    pub(super) fn get(&self, tokens: &Tokens, bytes: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(bytes);
        let found = self
            .table
            .find(hash, |&token| tokens.get(token) == Some(bytes));
        found.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(list: &[(u32, &[u8])]) -> Result<Tokens, BpeError> {
        Tokens::new(
            list.iter()
                .map(|(id, bytes)| (*id, bytes.to_vec()))
                .collect(),
        )
    }

    #[test]
    fn ids_may_have_gaps() {
        let found = tokens(&[(3, b"abc"), (0, b"a"), (5, b"b")]).unwrap();
        assert_eq!(found.size(), 6);
        let all: Vec<_> = found.iter().collect();
        assert_eq!(all, [(0, &b"a"[..]), (3, b"abc"), (5, b"b")]);
        for none in [1, 2, 4, 6, u32::MAX] {
            assert_eq!(found.get(none), None);
        }
        let mut lookup = Lookup::default();
        assert!(lookup.insert(&found, 3) && !lookup.insert(&found, 3) && !lookup.insert(&found, 4));
        assert_eq!(lookup.get(&found, b"abc"), Some(3));
        assert_eq!(lookup.get(&found, b"a"), None);
    }

    #[test]
    fn impossible_ids_are_refused_before_memory_is_taken() {
        for (list, word) in [
            (&[(u32::MAX, &b"a"[..])][..], "an id below 4098"),
            (&[(1, b"a"), (1, b"b")], "one token of this id"),
            (&[(1, b"")], "at least one byte"),
        ] {
            let message = tokens(list).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
        assert_eq!(tokens(&[]).unwrap().size(), 0);
    }
}
