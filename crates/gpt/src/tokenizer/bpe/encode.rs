//! From bytes to tokens.

use super::cache::{self, Cache, END, ROOM, SHORT};
use super::merges::Scratch;
use super::{Bpe, BpeError, Specials};

/// Sets of the cache of an encoder that has much to do, as a power of two: 16,384 pieces in half a megabyte.
const MOST_BITS: u32 = 13;

/// Tokens collected before they are handed on.
const BATCH: usize = 1024;

/// Encodes with the memory of what it met: pieces that come again are looked up. The memory does not grow with the text.
///
/// ```
/// use burtorch_gpt::tokenizer::bpe::{Bpe, SplitRule, Trainer};
///
/// let mut trainer = Trainer::new(SplitRule::Gpt2);
/// trainer.add(b"low lower lowest")?;
/// let bpe = trainer.train(260)?.bpe;
/// let mut encoder = bpe.encoder();
/// let mut tokens = Vec::new();
/// encoder.encode(b"slow", &mut tokens)?;
/// assert_eq!(bpe.decode(&tokens)?, b"slow");
/// # Ok::<(), burtorch_gpt::tokenizer::bpe::BpeError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Encoder<'a> {
    bpe: &'a Bpe,
    words: Words<'a>,
}

/// What an encoder does with a piece.
#[derive(Debug, Clone)]
struct Words<'a> {
    bpe: &'a Bpe,
    cache: Cache,
    scratch: Scratch,
}

impl<'a> Encoder<'a> {
    /// An encoder for about so many bytes: with few to encode, a large cache would cost more than it saves.
    pub(super) fn new(bpe: &'a Bpe, bytes: usize) -> Self {
        let pieces = (bytes / 8).max(2).ilog2();
        Self {
            bpe,
            words: Words {
                bpe,
                cache: Cache::new(pieces.clamp(1, MOST_BITS)),
                scratch: Scratch::default(),
            },
        }
    }

    /// Appends the tokens of `bytes`; special tokens are text.
    ///
    /// # Errors
    ///
    /// [`BpeError::Pattern`] if a split rule of the user's gives up.
    pub fn encode(&mut self, bytes: &[u8], tokens: &mut Vec<u32>) -> Result<(), BpeError> {
        let mut batch = [0_u32; BATCH];
        let mut filled = 0;
        let words = &mut self.words;
        self.bpe.rule().pieces(bytes, |start, end| {
            if filled > BATCH - ROOM {
                tokens.extend_from_slice(&batch[..filled]);
                filled = 0;
            }
            let length = end - start;
            let found = match bytes.get(start..start + 16) {
                Some(within) if length <= SHORT => {
                    // Sixteen bytes at a known place are one load, and the length only masks them.
                    let within = within.first_chunk().unwrap_or(&[0; 16]);
                    words.short(cache::key_within(within, length), &bytes[start..end])
                }
                None if length <= SHORT => {
                    words.short(cache::key(&bytes[start..end]), &bytes[start..end])
                }
                _ => None,
            };
            // All four are copied and the batch grows by those that count: no branch depends on how many there are.
            if let Some(found) = found {
                batch[filled..filled + ROOM].copy_from_slice(&found);
                filled += found.iter().filter(|&&token| token != END).count();
            } else {
                tokens.extend_from_slice(&batch[..filled]);
                filled = 0;
                words.long(&bytes[start..end], tokens);
            }
        })?;
        tokens.extend_from_slice(&batch[..filled]);
        Ok(())
    }

    /// As [`encode`](Self::encode), with special tokens as told.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_with(
        &mut self,
        mut bytes: &[u8],
        specials: Specials,
        tokens: &mut Vec<u32>,
    ) -> Result<(), BpeError> {
        if specials == Specials::Allowed {
            while let Some((start, end, token)) = self.bpe.specials.find(bytes) {
                self.encode(&bytes[..start], tokens)?;
                tokens.push(token);
                bytes = &bytes[end..];
            }
        }
        self.encode(bytes, tokens)
    }
}

impl Words<'_> {
    /// The tokens of a short piece; none if they are too many for an entry.
    #[inline]
    fn short(&mut self, key: cache::Key, piece: &[u8]) -> Option<[u32; ROOM]> {
        match self.cache.get(key) {
            found @ Some(_) => found,
            None => self.new_short(key, piece),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_short(&mut self, key: cache::Key, piece: &[u8]) -> Option<[u32; ROOM]> {
        let mut tokens = [END; ROOM];
        if let Some(token) = self.bpe.whole(piece) {
            tokens[0] = token;
        } else {
            let found = self.bpe.merges.merge(piece, &mut self.scratch);
            tokens.get_mut(..found.len())?.copy_from_slice(found);
        }
        self.cache.insert(key, tokens);
        Some(tokens)
    }

    #[cold]
    #[inline(never)]
    fn long(&mut self, piece: &[u8], tokens: &mut Vec<u32>) {
        if let Some(found) = self.cache.get_long(piece) {
            tokens.extend_from_slice(found);
        } else if let Some(token) = self.bpe.whole(piece) {
            tokens.push(token);
        } else {
            let found = self.bpe.merges.merge(piece, &mut self.scratch);
            tokens.extend_from_slice(found);
            self.cache.insert_long(piece, found);
        }
    }
}
