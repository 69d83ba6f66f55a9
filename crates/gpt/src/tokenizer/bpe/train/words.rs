//! How often each piece of text occurs.

use std::hash::BuildHasher;
use std::thread;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::super::special::SpecialTokens;
use super::super::{BpeError, SplitRule};

/// Different pieces with their counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    /// The bytes of all of them, one behind the other.
    bytes: Vec<u8>,
    table: HashTable<Word>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    start: usize,
    end: usize,
    count: u64,
}

impl Words {
    /// Counts the pieces of a text; special tokens are borders.
    pub(super) fn add(
        &mut self,
        rule: &SplitRule,
        specials: &SpecialTokens,
        mut text: &[u8],
    ) -> Result<(), BpeError> {
        loop {
            let border = specials.find(text);
            let end = border.map_or(text.len(), |(start, ..)| start);
            let part = &text[..end];
            rule.pieces(part, |start, end| self.add_piece(&part[start..end], 1))?;
            match border {
                Some((_, end, _)) => text = &text[end..],
                None => return Ok(()),
            }
        }
    }

    /// Counts a piece.
    #[inline]
    pub(super) fn add_piece(&mut self, piece: &[u8], count: u64) {
        let Self {
            bytes,
            table,
            hasher,
        } = self;
        let hash = hasher.hash_one(piece);
        if let Some(word) = table.find_mut(hash, |word| bytes[word.start..word.end] == *piece) {
            word.count = word.count.saturating_add(count);
            return;
        }
        let start = bytes.len();
        bytes.extend_from_slice(piece);
        let end = bytes.len();
        let rehash = |word: &Word| hasher.hash_one(&bytes[word.start..word.end]);
        table.insert_unique(hash, Word { start, end, count }, rehash);
    }

    /// Adds the counts of others.
    pub(super) fn append(&mut self, mut other: Self) {
        if other.table.len() > self.table.len() {
            std::mem::swap(self, &mut other);
        }
        for (piece, count) in other.iter() {
            self.add_piece(piece, count);
        }
    }

    /// All pieces and how often they occur, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let words = self.table.iter();
        words.map(|word| (&self.bytes[word.start..word.end], word.count))
    }

    /// Number of different pieces, and of their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.table.len(), self.bytes.len())
    }
}

/// Counts the pieces of a text, cut at places that do not matter, each part on a thread and in words of its own.
pub(super) fn add_in_parallel(
    rule: &SplitRule,
    specials: &SpecialTokens,
    text: &[u8],
    all: Vec<&mut Words>,
) -> Result<(), BpeError> {
    let parts = match specials.list() {
        [] => rule.parts(text, all.len()),
        _ => vec![text],
    };
    let works = parts.into_iter().zip(all);
    thread::scope(|scope| {
        let works = works.map(|(part, words)| scope.spawn(move || words.add(rule, specials, part)));
        let works: Vec<_> = works.collect();
        works.into_iter().try_for_each(|work| {
            work.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}
