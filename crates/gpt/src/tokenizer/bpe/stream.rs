//! Encoding and decoding what comes in parts.

use std::thread;

use super::{Bpe, BpeError, Encoder, Specials};

/// Bytes that one thread should have at least.
const SHARE: usize = 1 << 16;

/// Encodes bytes that come in parts, cut anywhere, to the tokens of the whole, on several threads.
///
/// It keeps what the bytes to come could change: with a rule that is [known](super::SplitRule::is_known) the last piece or two, so memory
/// does not grow with the text, but with its longest piece; with a rule of the user's everything up to the end.
#[derive(Debug)]
pub struct StreamEncoder<'a> {
    bpe: &'a Bpe,
    specials: Specials,
    /// One for each thread.
    encoders: Vec<Encoder<'a>>,
    waiting: Vec<u8>,
    /// The length from which on another look at what waits may pay.
    look: usize,
}

impl<'a> StreamEncoder<'a> {
    pub(super) fn new(bpe: &'a Bpe, specials: Specials, threads: usize) -> Self {
        Self {
            bpe,
            specials,
            encoders: (0..threads.max(1)).map(|_| bpe.encoder()).collect(),
            waiting: Vec::new(),
            look: 0,
        }
    }

    /// Takes the next bytes and appends the tokens that are certain.
    ///
    /// # Errors
    ///
    /// [`BpeError::Pattern`] if a split rule of the user's gives up.
    pub fn push(&mut self, bytes: &[u8], tokens: &mut Vec<u32>) -> Result<(), BpeError> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() < self.look {
            return Ok(());
        }
        let settled = self.settled();
        let waiting = std::mem::take(&mut self.waiting);
        let encoded = self.encode(&waiting[..settled], tokens);
        self.waiting = waiting;
        self.waiting.drain(..settled);
        // A long piece is looked at each time it has doubled, not with every part.
        self.look = if settled == 0 {
            2 * self.waiting.len()
        } else {
            0
        };
        encoded
    }

    /// Appends the tokens of what is left. The encoder can then take another text.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub fn finish(&mut self, tokens: &mut Vec<u32>) -> Result<(), BpeError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.look = 0;
        self.encode(&waiting, tokens)
    }

    /// Leading bytes of what waits whose tokens cannot change.
    fn settled(&self) -> usize {
        match self.specials {
            Specials::Ordinary => self.bpe.rule().settled(&self.waiting),
            Specials::Allowed => self.bpe.specials.settled(self.bpe.rule(), &self.waiting),
        }
    }

    fn encode(&mut self, bytes: &[u8], tokens: &mut Vec<u32>) -> Result<(), BpeError> {
        let specials = self.specials;
        let parts = match specials {
            Specials::Ordinary => {
                let count = self.encoders.len().min(bytes.len().div_ceil(SHARE)).max(1);
                self.bpe.rule().parts(bytes, count)
            }
            Specials::Allowed => vec![bytes],
        };
        let Some((last, others)) = parts.split_last() else {
            return Ok(());
        };
        let (mine, theirs) = self.encoders.split_at_mut(1);
        let Some((first, others)) = others.split_first() else {
            return mine[0].encode_with(last, specials, tokens);
        };
        let rest: Vec<&[u8]> = others.iter().chain([last]).copied().collect();
        let results = thread::scope(|scope| {
            let works = rest.iter().zip(theirs).map(|(part, encoder)| {
                scope.spawn(move || {
                    let mut tokens = Vec::with_capacity(part.len() / 3);
                    encoder.encode(part, &mut tokens).map(|()| tokens)
                })
            });
            let works: Vec<_> = works.collect();
            let mine = mine[0].encode(first, tokens);
            let join = |work: thread::ScopedJoinHandle<'_, _>| {
                work.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            let theirs: Vec<Result<Vec<u32>, BpeError>> = works.into_iter().map(join).collect();
            mine.map(|()| theirs)
        })?;
        for result in results {
            tokens.extend_from_slice(&result?);
        }
        Ok(())
    }
}

/// Turns bytes that come in parts, cut anywhere, into text; bytes that are no UTF-8 become `U+FFFD`.
///
/// ```
/// use burtorch_gpt::tokenizer::bpe::TextDecoder;
///
/// let mut decoder = TextDecoder::default();
/// assert_eq!(decoder.push(b"caf\xC3"), "caf");
/// assert_eq!(decoder.push(b"\xA9"), "é");
/// assert_eq!(decoder.finish(), "");
/// ```
#[derive(Debug, Clone, Default)]
pub struct TextDecoder {
    /// The beginning of a character.
    waiting: Vec<u8>,
}

impl TextDecoder {
    /// Takes the next bytes; the text that is certain.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.waiting.extend_from_slice(bytes);
        let mut text = String::new();
        let mut used = 0;
        for chunk in self.waiting.utf8_chunks() {
            text.push_str(chunk.valid());
            used += chunk.valid().len();
            let invalid = chunk.invalid();
            let is_last = used + invalid.len() == self.waiting.len();
            if invalid.is_empty() || (is_last && may_go_on(invalid)) {
                break;
            }
            text.push(char::REPLACEMENT_CHARACTER);
            used += invalid.len();
        }
        self.waiting.drain(..used);
        text
    }

    /// What is left: nothing, or one `U+FFFD` for a character that never ended.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.waiting);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// Whether these bytes, which are no character, are the beginning of one.
fn may_go_on(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}
