//! Byte-pair encoding: training, encoding, decoding, and the files of others.
//!
//! Text is bytes. A [`SplitRule`] cuts them into pieces (words, mostly), and within each piece neighbouring tokens become one, those
//! of the lowest rank first (R. Sennrich, B. Haddow, A. Birch, *Neural machine translation of rare words with subword units*, 2016;
//! on bytes: A. Radford et al., *Language models are unsupervised multitask learners*, 2019). Every single byte is a token, so any
//! bytes can be encoded and come back.
//!
//! | job | items |
//! |---|---|
//! | learn a vocabulary | [`Trainer`] |
//! | encode, decode | [`Bpe`], [`Encoder`]; in parts [`StreamEncoder`], [`TextDecoder`] |
//! | special tokens | [`Specials`] |
//! | files of Hugging Face and tiktoken | [`Bpe::load`], [`Bpe::save`], [`Given`] |
//!
//! # Why pieces and tokens can be looked up
//!
//! Say a token *reaches itself* if its own bytes, merged, give it. While a piece is merged, cuts between tokens only vanish. So if two
//! neighbours together have the bytes of a token, nothing was merged across their outer ends so far, and what lies between was merged
//! as if it stood alone: the two are the last step of the merging of these bytes. Two things follow. A pair that is
//! not such a last step never stands side by side, and a list of merges may leave it out. And *merge the pairs of this list* (Hugging Face) is
//! the same rule as *merge what is a token together* (tiktoken), as long as every token reaches itself. All this takes merges that come
//! behind those that make their parts; lists of another order are refused. [`Bpe`] holds exactly the
//! merges that are such last steps, and finds them when it is made.

mod cache;
mod encode;
mod error;
pub(crate) mod files;
mod merges;
mod special;
mod split;
mod stream;
mod tokens;
mod train;

pub use encode::Encoder;
pub use error::BpeError;
pub use files::Given;
pub use merges::Merge;
pub use special::Specials;
pub use split::{Pattern, SplitRule};
pub use stream::{StreamEncoder, TextDecoder};
pub use train::{Progress, Trained, Trainer};

use std::fmt;

use hashbrown::HashSet;
use merges::{Merges, Scratch};
use special::SpecialTokens;
use tokens::{Lookup, Tokens};

/// A byte-pair encoding: vocabulary, merges and split rule.
#[derive(Clone)]
pub struct Bpe {
    rule: SplitRule,
    /// All tokens, special ones too.
    tokens: Tokens,
    merges: Merges,
    /// The tokens that merging can give.
    whole: Lookup,
    specials: SpecialTokens,
}

impl fmt::Debug for Bpe {
    /// What tells one from another at a glance; the tables would fill a book.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpe")
            .field("rule", &self.rule)
            .field("size", &self.size())
            .field("specials", &self.specials.list())
            .finish_non_exhaustive()
    }
}

impl PartialEq for Bpe {
    /// The same ids for the same bytes, and the other way round.
    fn eq(&self, other: &Self) -> bool {
        self.rule == other.rule
            && self.specials == other.specials
            && self.merges.list() == other.merges.list()
            && self.tokens.iter().eq(other.tokens.iter())
    }
}

impl Bpe {
    /// The encoding with these tokens, merges by rank, and special tokens.
    ///
    /// A merge that can never happen, because its tokens never stand side by side, is left out; a token that no merge makes is then
    /// only decoded.
    ///
    /// # Errors
    ///
    /// [`BpeError::Content`] if an id stands for two tokens, a byte or a part of a merge has no token, a merge
    /// makes other bytes than those of its parts, stands there twice, or comes before those that make its parts.
    pub fn new(
        rule: SplitRule,
        tokens: Vec<(u32, Vec<u8>)>,
        merges: &[Merge],
        specials: Vec<(String, u32)>,
    ) -> Result<Self, BpeError> {
        let (mut this, _) = Self::bytes_only(rule, tokens, specials)?;
        let mut scratch = Scratch::default();
        let mut bytes = Vec::new();
        let mut pairs = HashSet::with_capacity(merges.len());
        let mut early = Vec::new();
        for (rank, merge) in merges.iter().enumerate() {
            this.concatenate(rank, *merge, &mut bytes)?;
            if !pairs.insert((merge.left, merge.right)) {
                let expected = "a pair that no merge before has";
                let found = named(merge.made, &bytes);
                return Err(BpeError::content(format!("merge {rank}"), expected, found));
            }
            if !(this.is_made(merge.left) && this.is_made(merge.right)) {
                early.push((rank, *merge));
                continue;
            }
            let last_step = this.merges.merge(&bytes, &mut scratch) == [merge.left, merge.right];
            if last_step && this.merges.push(*merge) {
                this.whole.insert(&this.tokens, merge.made);
            }
        }
        // What is left out must be what never happens; a part that a later merge makes would bring it about.
        let is_wrong = |merge: &Merge| this.is_made(merge.left) && this.is_made(merge.right);
        if let Some((rank, merge)) = early.iter().find(|early| is_wrong(&early.1)) {
            let expected = "parts that merges before it make";
            let found = named(merge.made, this.tokens.get(merge.made).unwrap_or_default());
            return Err(BpeError::content(format!("merge {rank}"), expected, found));
        }
        Ok(this)
    }

    /// The encoding whose merges follow from the tokens: two neighbours become one if together they are a token, those of the lowest id
    /// first. This is the rule of `.tiktoken` files.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and [`BpeError::Content`] for a token that shorter ones before it do not make.
    pub fn from_ranks(
        rule: SplitRule,
        tokens: Vec<(u32, Vec<u8>)>,
        specials: Vec<(String, u32)>,
    ) -> Result<Self, BpeError> {
        let (mut this, ordinary) = Self::bytes_only(rule, tokens, specials)?;
        let mut scratch = Scratch::default();
        let tokens = std::mem::take(&mut this.tokens);
        for made in ordinary {
            let bytes = tokens.get(made).unwrap_or_default();
            if bytes.len() == 1 {
                continue;
            }
            match *this.merges.merge(bytes, &mut scratch) {
                [left, right] => this.merges.push(Merge { left, right, made }),
                ref parts => {
                    let found = format!("{} parts that no token before it joins", parts.len());
                    return Err(BpeError::content(
                        named(made, bytes),
                        "two tokens that make it",
                        found,
                    ));
                }
            };
            this.whole.insert(&tokens, made);
        }
        this.tokens = tokens;
        Ok(this)
    }

    /// The encoding without merges, and the ids that are not special.
    fn bytes_only(
        rule: SplitRule,
        mut tokens: Vec<(u32, Vec<u8>)>,
        specials: Vec<(String, u32)>,
    ) -> Result<(Self, Vec<u32>), BpeError> {
        let mut ordinary: Vec<u32> = tokens.iter().map(|token| token.0).collect();
        ordinary.sort_unstable();
        tokens.extend(
            specials
                .iter()
                .map(|(text, id)| (*id, text.clone().into_bytes())),
        );
        let tokens = Tokens::new(tokens)?;
        let mut texts: Vec<&str> = specials.iter().map(|special| special.0.as_str()).collect();
        texts.sort_unstable();
        if let Some(twice) = texts.windows(2).find(|pair| pair[0] == pair[1]) {
            let place = format!("special token {:?}", twice[0]);
            return Err(BpeError::content(place, "one id", "two"));
        }
        let mut all = Lookup::default();
        for &token in &ordinary {
            if !all.insert(&tokens, token) {
                let place = named(token, tokens.get(token).unwrap_or_default());
                return Err(BpeError::content(
                    place,
                    "bytes of its own",
                    "those of another token",
                ));
            }
        }
        let mut bytes = [0; 256];
        let mut whole = Lookup::default();
        for byte in 0..=255_u8 {
            let missing = || {
                BpeError::content(
                    "vocabulary",
                    "a token for every single byte",
                    format!("none for 0x{byte:02X}"),
                )
            };
            let token = all.get(&tokens, &[byte]).ok_or_else(missing)?;
            bytes[byte as usize] = token;
            whole.insert(&tokens, token);
        }
        let this = Self {
            rule,
            tokens,
            merges: Merges::new(bytes),
            whole,
            specials: SpecialTokens::new(specials),
        };
        Ok((this, ordinary))
    }

    /// The bytes of both parts of a merge, which must be those of what it makes.
    fn concatenate(&self, rank: usize, merge: Merge, bytes: &mut Vec<u8>) -> Result<(), BpeError> {
        bytes.clear();
        for token in [merge.left, merge.right] {
            let part = self.tokens.get(token);
            let missing = || {
                BpeError::content(
                    format!("merge {rank}"),
                    "tokens of the vocabulary",
                    format!("{token}"),
                )
            };
            bytes.extend_from_slice(part.ok_or_else(missing)?);
        }
        let made = self.tokens.get(merge.made).unwrap_or_default();
        if made != bytes {
            let expected = format!("a token of the bytes {:?}", String::from_utf8_lossy(bytes));
            let found = named(merge.made, made);
            return Err(BpeError::content(format!("merge {rank}"), expected, found));
        }
        Ok(())
    }

    /// The rule by which bytes are cut into pieces.
    #[must_use]
    pub fn rule(&self) -> &SplitRule {
        &self.rule
    }

    /// One more than the largest id; what a model's vocabulary must hold.
    #[must_use]
    pub fn size(&self) -> usize {
        self.tokens.size()
    }

    /// All tokens with their bytes, special ones too, by id.
    pub fn tokens(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.tokens.iter()
    }

    /// The merges by rank.
    #[must_use]
    pub fn merges(&self) -> &[Merge] {
        self.merges.list()
    }

    /// The special tokens by id.
    #[must_use]
    pub fn specials(&self) -> &[(String, u32)] {
        self.specials.list()
    }

    /// The token of a single byte.
    #[must_use]
    pub fn byte(&self, byte: u8) -> u32 {
        self.merges.byte(byte)
    }

    /// The bytes of a token.
    ///
    /// # Errors
    ///
    /// [`BpeError::UnknownToken`].
    #[inline]
    pub fn bytes(&self, token: u32) -> Result<&[u8], BpeError> {
        let size = self.size();
        let unknown = BpeError::UnknownToken { token, size };
        self.tokens.get(token).ok_or(unknown)
    }

    /// Whether merging gives this token.
    fn is_made(&self, token: u32) -> bool {
        self.tokens.get(token).and_then(|bytes| self.whole(bytes)) == Some(token)
    }

    /// The token of all of a piece, if there is one.
    #[inline]
    fn whole(&self, piece: &[u8]) -> Option<u32> {
        self.whole.get(&self.tokens, piece)
    }

    /// An encoder for much text.
    #[must_use]
    pub fn encoder(&self) -> Encoder<'_> {
        Encoder::new(self, usize::MAX)
    }

    /// An encoder for bytes that come in parts, on so many threads.
    #[must_use]
    pub fn stream(&self, specials: Specials, threads: usize) -> StreamEncoder<'_> {
        StreamEncoder::new(self, specials, threads)
    }

    /// The tokens of `bytes`; special tokens are text.
    ///
    /// # Errors
    ///
    /// [`BpeError::Pattern`] if a split rule of the user's gives up.
    pub fn encode(&self, bytes: &[u8]) -> Result<Vec<u32>, BpeError> {
        self.encode_with(bytes, Specials::Ordinary)
    }

    /// The tokens of `bytes`, special tokens as told.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_with(&self, bytes: &[u8], specials: Specials) -> Result<Vec<u32>, BpeError> {
        let mut tokens = Vec::with_capacity(bytes.len() / 3);
        Encoder::new(self, bytes.len()).encode_with(bytes, specials, &mut tokens)?;
        Ok(tokens)
    }

    /// The bytes of `tokens`; that of a special token is its text. They need not be UTF-8: a character may lie in several tokens.
    ///
    /// # Errors
    ///
    /// [`BpeError::UnknownToken`] for the first token that stands for nothing.
    pub fn decode(&self, tokens: &[u32]) -> Result<Vec<u8>, BpeError> {
        let mut bytes = Vec::with_capacity(4 * tokens.len());
        for &token in tokens {
            bytes.extend_from_slice(self.bytes(token)?);
        }
        Ok(bytes)
    }
}

/// A token in messages.
fn named(token: u32, bytes: &[u8]) -> String {
    format!("token {token} ({:?})", String::from_utf8_lossy(bytes))
}
