//! The merges, and how a piece is merged.
//!
//! All pieces are merged by the same rule: of all neighbouring tokens that can become one, those of the lowest rank do, the
//! leftmost first. Short pieces look for them from left to right, which is fastest while everything is in registers and the first
//! cache; long ones keep them in a heap, so that time grows as n log n.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;

/// The rank of two tokens that make none.
const NONE: u32 = u32::MAX;

/// From this many bytes on, a heap is faster.
const LONG: usize = 100;

/// Two tokens that become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merge {
    /// The token in front.
    pub left: u32,
    /// The token behind it.
    pub right: u32,
    /// The token of the bytes of both.
    pub made: u32,
}

/// Merges by rank, and the rank of every pair.
#[derive(Debug, Clone)]
pub(super) struct Merges {
    list: Vec<Merge>,
    ranks: HashMap<(u32, u32), u32>,
    /// The tokens of single bytes, and the bytes of such tokens.
    bytes: [u32; 256],
    byte_of: HashMap<u32, u8>,
    /// The ranks of pairs of bytes, by 256 times the first and the second.
    byte_ranks: Vec<u32>,
}

/// Memory for merging, used again for every piece.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    /// The tokens of the piece so far, and where it was long, also those that are parts of others now.
    tokens: Vec<u32>,
    /// The rank of each token with the next.
    ranks: Vec<u32>,
    /// Neighbours in a long piece.
    links: Vec<Link>,
    heap: BinaryHeap<Reverse<(u32, usize)>>,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    before: usize,
    behind: usize,
}

impl Merges {
    /// No merges yet; `bytes` are the tokens of the single bytes.
    pub(super) fn new(bytes: [u32; 256]) -> Self {
        Self {
            list: Vec::new(),
            ranks: HashMap::new(),
            bytes,
            byte_of: (0..=255).map(|byte| (bytes[byte as usize], byte)).collect(),
            byte_ranks: vec![NONE; 1 << 16],
        }
    }

    /// Adds a merge of the next rank; false if its pair has one already.
    pub(super) fn push(&mut self, merge: Merge) -> bool {
        let rank = self.list.len() as u32;
        if rank == NONE || self.ranks.contains_key(&(merge.left, merge.right)) {
            return false;
        }
        self.ranks.insert((merge.left, merge.right), rank);
        self.list.push(merge);
        let byte = |token| self.byte_of.get(&token).copied().map(usize::from);
        if let (Some(left), Some(right)) = (byte(merge.left), byte(merge.right)) {
            self.byte_ranks[left << 8 | right] = rank;
        }
        true
    }

    /// All merges by rank.
    pub(super) fn list(&self) -> &[Merge] {
        &self.list
    }

    /// The token of a single byte.
    pub(super) fn byte(&self, byte: u8) -> u32 {
        self.bytes[byte as usize]
    }

    /// The tokens of a piece, in the memory of `scratch`.
    #[inline]
    pub(super) fn merge<'a>(&self, piece: &[u8], scratch: &'a mut Scratch) -> &'a [u32] {
        let Scratch { tokens, ranks, .. } = scratch;
        tokens.clear();
        ranks.clear();
        tokens.extend(piece.iter().map(|&byte| self.bytes[byte as usize]));
        let pairs = piece.windows(2);
        ranks.extend(pairs.map(|pair| self.byte_ranks[(pair[0] as usize) << 8 | pair[1] as usize]));
        if piece.len() < LONG {
            self.merge_short(tokens, ranks);
        } else {
            self.merge_long(scratch);
        }
        &scratch.tokens
    }

    fn rank(&self, left: u32, right: u32) -> u32 {
        self.ranks.get(&(left, right)).copied().unwrap_or(NONE)
    }

    fn merge_short(&self, tokens: &mut Vec<u32>, ranks: &mut Vec<u32>) {
        while let Some((place, rank)) = lowest(ranks) {
            tokens[place] = self.list[rank as usize].made;
            tokens.remove(place + 1);
            ranks.remove(place);
            if place < ranks.len() {
                ranks[place] = self.rank(tokens[place], tokens[place + 1]);
            }
            if place > 0 {
                ranks[place - 1] = self.rank(tokens[place - 1], tokens[place]);
            }
        }
    }

    fn merge_long(&self, scratch: &mut Scratch) {
        let Scratch {
            tokens,
            ranks,
            links,
            heap,
        } = scratch;
        let end = tokens.len();
        ranks.push(NONE);
        links.clear();
        links.extend((0..end).map(|place| Link {
            before: place.wrapping_sub(1),
            behind: place + 1,
        }));
        let mut room = std::mem::take(heap).into_vec();
        room.clear();
        let possible = ranks.iter().enumerate().filter(|it| *it.1 != NONE);
        room.extend(possible.map(|(place, &rank)| Reverse((rank, place))));
        *heap = BinaryHeap::from(room);
        while let Some(Reverse((rank, place))) = heap.pop() {
            if ranks[place] != rank {
                continue; // one of its tokens has become another
            }
            tokens[place] = self.list[rank as usize].made;
            let Link { before, behind } = links[place];
            let next = links[behind].behind;
            ranks[behind] = NONE;
            links[place].behind = next;
            ranks[place] = NONE;
            if next < end {
                links[next].before = place;
                ranks[place] = self.rank(tokens[place], tokens[next]);
            }
            if ranks[place] != NONE {
                heap.push(Reverse((ranks[place], place)));
            }
            if before < end {
                ranks[before] = self.rank(tokens[before], tokens[place]);
                if ranks[before] != NONE {
                    heap.push(Reverse((ranks[before], before)));
                }
            }
        }
        let (mut place, mut count) = (0, 0);
        while place < end {
            tokens[count] = tokens[place];
            count += 1;
            place = links[place].behind;
        }
        tokens.truncate(count);
    }
}

/// The leftmost place of the lowest rank, and the rank.
#[inline]
fn lowest(ranks: &[u32]) -> Option<(usize, u32)> {
    let lowest = ranks.iter().copied().min().filter(|&rank| rank != NONE)?;
    let place = ranks.iter().position(|&rank| rank == lowest)?;
    Some((place, lowest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes are their own tokens; token 256 + rank is made of the pair of that rank.
    fn merges(pairs: &[(u32, u32)]) -> Merges {
        let mut merges = Merges::new(std::array::from_fn(|byte| byte as u32));
        for &(left, right) in pairs {
            let made = 256 + merges.list().len() as u32;
            assert!(merges.push(Merge { left, right, made }));
        }
        merges
    }

    /// The rule as it is stated.
    fn plainly(merges: &Merges, piece: &[u8]) -> Vec<u32> {
        let mut tokens: Vec<u32> = piece.iter().map(|&byte| u32::from(byte)).collect();
        loop {
            let pairs = tokens.windows(2).enumerate();
            let ranked = pairs.map(|(place, pair)| (merges.rank(pair[0], pair[1]), place));
            match ranked.min() {
                Some((rank, place)) if rank != NONE => {
                    tokens.splice(place..place + 2, [merges.list()[rank as usize].made]);
                }
                _ => return tokens,
            }
        }
    }

    fn random_merges() -> impl Strategy<Value = Merges> {
        let pair = (any::<prop::sample::Index>(), any::<prop::sample::Index>());
        prop::collection::vec(pair, 1..40).prop_map(|pairs| {
            let mut merges = merges(&[]);
            for (left, right) in pairs {
                let count = merges.list().len();
                let token = |index: prop::sample::Index| match index.index(3 + count) {
                    place @ 0..3 => b"abc"[place].into(),
                    place => 256 + place as u32 - 3,
                };
                merges.push(Merge {
                    left: token(left),
                    right: token(right),
                    made: 256 + count as u32,
                });
            }
            merges
        })
    }

    proptest! {
        #[test]
        fn short_and_long_pieces_are_merged_by_the_same_rule(merges in random_merges(), piece in "[abcd]{0,250}") {
            let scratch = &mut Scratch::default();
            let expected = plainly(&merges, piece.as_bytes());
            prop_assert_eq!(merges.merge(piece.as_bytes(), scratch), &expected[..]);
            for end in [0, 1, 2, 20, 99] {
                let piece = &piece.as_bytes()[..end.min(piece.len())];
                prop_assert_eq!(merges.merge(piece, scratch), plainly(&merges, piece));
            }
        }
    }

    #[test]
    fn equal_letters_are_merged_from_the_left() {
        let merges = merges(&[(97, 97), (256, 256)]);
        let scratch = &mut Scratch::default();
        assert_eq!(merges.merge(&[b'a'; 7], scratch), [257, 256, 97]);
        assert_eq!(merges.merge(&[b'a'; 203], scratch)[49..], [257, 256, 97]);
    }

    #[test]
    fn a_pair_has_one_rank() {
        let mut merges = merges(&[(97, 98)]);
        let again = Merge {
            left: 97,
            right: 98,
            made: 300,
        };
        assert!(!merges.push(again));
    }
}
