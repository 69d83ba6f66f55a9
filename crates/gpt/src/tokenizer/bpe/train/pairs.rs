//! Pairs of neighbouring tokens in all different pieces, how often and where they occur, kept up to date while pairs are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;

use super::super::{BpeError, Merge};
use super::BYTES;
use super::words::Words;

/// Slots that are searched together for a pair: pieces are shorter, but for a few.
const UNIT: usize = 64;

/// A slot between two pieces.
const BORDER: u32 = u32::MAX;

/// A slot within a token.
const WITHIN: u32 = u32::MAX - 1;

/// Marks the last slot of a token of several.
const END: u32 = 1 << 31;

/// Different pieces as tokens, and their pairs.
///
/// There is one slot for each byte. The first slot of a token holds its id, the last one too, with a mark; so both neighbours of a
/// token are found at once, and a merge moves nothing. Slots make up units; where a pair occurs is said by the unit in which its first token
/// begins.
///
/// A new pair has a new token in it, so it comes up in one merge only: then its count and its units are written down. From then on its
/// count falls or stays. Hence the queue may hold old counts: whoever comes up with one that is too large is put back with the right one.
#[derive(Debug)]
pub(super) struct Pairs {
    slots: Vec<u32>,
    /// Where each unit begins, and the end of the last.
    starts: Vec<u32>,
    /// How often the piece of each unit occurs.
    weights: Vec<u64>,
    /// Bytes of each token.
    lengths: Vec<u32>,
    known: HashMap<(u32, u32), Pair>,
    queue: BinaryHeap<(u64, Reverse<(u32, u32)>)>,
    /// What a merge changes, by the neighbour in front and behind.
    before: Changes,
    behind: Changes,
}

#[derive(Debug, Default)]
struct Pair {
    count: u64,
    /// In ascending order; some may have lost the pair.
    units: Vec<u32>,
}

/// What a merge does to the pairs with a neighbour.
#[derive(Debug, Default)]
struct Changes {
    /// By neighbour.
    list: Vec<Change>,
    /// Neighbours whose change is not empty.
    touched: Vec<u32>,
}

#[derive(Debug, Default)]
struct Change {
    /// How often the neighbour has lost the part it stood beside.
    lost: u64,
    /// The pair of the neighbour and the new token.
    gained: Pair,
}

impl Changes {
    fn of(&mut self, neighbour: u32) -> &mut Change {
        let change = &mut self.list[neighbour as usize];
        if change.lost == 0 && change.gained.units.is_empty() {
            self.touched.push(neighbour);
        }
        change
    }
}

impl Change {
    fn gain(&mut self, unit: u32, weight: u64) {
        self.gained.count += weight;
        if self.gained.units.last() != Some(&unit) {
            self.gained.units.push(unit);
        }
    }
}

/// The token that begins in a slot; none at a border.
fn beginning(slot: u32) -> Option<u32> {
    (slot != BORDER).then_some(slot)
}

/// The token that ends in a slot; none at a border.
fn ending(slot: u32) -> Option<u32> {
    (slot != BORDER).then_some(slot & !END)
}

impl Pairs {
    pub(super) fn new(words: Words) -> Result<Self, BpeError> {
        let (count, bytes) = words.size();
        let slots = 1 + count + bytes;
        if slots > u32::MAX as usize {
            return Err(BpeError::TooMany {
                what: "bytes of different pieces",
                most: u64::from(u32::MAX),
            });
        }
        let mut this = Self {
            slots: Vec::with_capacity(slots),
            starts: Vec::with_capacity(count + 1),
            weights: Vec::with_capacity(count),
            lengths: vec![1; BYTES],
            known: HashMap::new(),
            queue: BinaryHeap::new(),
            before: Changes::default(),
            behind: Changes::default(),
        };
        this.slots.push(BORDER);
        let mut total = 0_u64;
        for (piece, weight) in words.iter() {
            total = weight
                .checked_mul(piece.len() as u64)
                .and_then(|more| total.checked_add(more))
                .filter(|&total| total <= i64::MAX as u64)
                .ok_or(BpeError::TooMany {
                    what: "bytes of text",
                    most: i64::MAX as u64,
                })?;
            this.add(piece, weight);
        }
        drop(words);
        this.starts.push(this.slots.len() as u32);
        this.count_all();
        Ok(this)
    }

    fn add(&mut self, piece: &[u8], weight: u64) {
        if piece.len() < 2 || weight == 0 {
            return; // has no pairs
        }
        for unit in piece.chunks(UNIT) {
            self.starts.push(self.slots.len() as u32);
            self.weights.push(weight);
            self.slots.extend(unit.iter().map(|&byte| u32::from(byte)));
        }
        self.slots.push(BORDER);
    }

    /// Counts the pairs of bytes.
    fn count_all(&mut self) {
        let mut all: Vec<Pair> = Vec::new();
        all.resize_with(BYTES * BYTES, Pair::default);
        for (unit, &weight) in self.weights.iter().enumerate() {
            // The pair across its end is this unit's; at the end of a piece there is a border.
            let range = self.starts[unit] as usize..=self.starts[unit + 1] as usize;
            let end = (*range.end()).min(self.slots.len() - 1);
            for pair in self.slots[*range.start()..=end].windows(2) {
                if pair[1] == BORDER {
                    break;
                }
                let pair = &mut all[BYTES * pair[0] as usize + pair[1] as usize];
                pair.count += weight;
                if pair.units.last() != Some(&(unit as u32)) {
                    pair.units.push(unit as u32);
                }
            }
        }
        for (place, pair) in all.into_iter().enumerate() {
            if pair.count > 0 {
                self.enter(((place / BYTES) as u32, (place % BYTES) as u32), pair);
            }
        }
    }

    fn enter(&mut self, tokens: (u32, u32), mut pair: Pair) {
        pair.units.shrink_to_fit();
        self.queue.push((pair.count, Reverse(tokens)));
        self.known.insert(tokens, pair);
    }

    /// The commonest pair, with its right count; no longer in the queue.
    fn commonest(&mut self) -> Option<((u32, u32), Pair)> {
        while let Some((count, Reverse(tokens))) = self.queue.pop() {
            let Some(pair) = self.known.remove(&tokens) else {
                continue;
            };
            if pair.count == count {
                return Some((tokens, pair));
            }
            if pair.count > 0 {
                self.queue.push((pair.count, Reverse(tokens)));
                self.known.insert(tokens, pair);
            }
        }
        None
    }

    /// Makes the commonest pair a token, of the smallest ids if there are several; with the count of the pair. None if no pair is left.
    pub(super) fn merge_commonest(&mut self) -> Option<(Merge, u64)> {
        let ((left, right), pair) = self.commonest()?;
        let made = self.lengths.len() as u32;
        let merge = Merge { left, right, made };
        let length = self.lengths[left as usize] + self.lengths[right as usize];
        self.lengths.push(length);
        for changes in [&mut self.before, &mut self.behind] {
            changes
                .list
                .resize_with(self.lengths.len(), Change::default);
        }
        for &unit in &pair.units {
            self.merge_unit(merge, unit);
        }
        self.apply(merge);
        Some((merge, pair.count))
    }

    fn merge_unit(&mut self, merge: Merge, unit: u32) {
        let start = self.starts[unit as usize] as usize;
        let end = self.starts[unit as usize + 1] as usize;
        let left = self.lengths[merge.left as usize] as usize;
        let right = self.lengths[merge.right as usize] as usize;
        let mut place = start;
        while place < end {
            let slot = self.slots[place];
            if slot >= END {
                place += 1; // within a token of the unit before, or a border
                continue;
            }
            if slot != merge.left || self.slots[place + left] != merge.right {
                place += self.lengths[slot as usize] as usize;
                continue;
            }
            self.note(merge, unit, place, place + left + right);
            self.slots[place + left - 1] = WITHIN;
            self.slots[place + left] = WITHIN;
            self.slots[place + left + right - 1] = END | merge.made;
            self.slots[place] = merge.made;
            place += left + right;
        }
    }

    /// Writes down what the neighbours lose and gain by a merge of the slots from `place` to `end`.
    fn note(&mut self, merge: Merge, unit: u32, place: usize, end: usize) {
        let weight = self.weights[unit as usize];
        if let Some(neighbour) = ending(self.slots[place - 1]) {
            if neighbour == merge.made {
                // The merge just before this one took it for another pair.
                self.behind.of(merge.left).gained.count -= weight;
            } else {
                self.before.of(neighbour).lost += weight;
            }
            let begins = place - self.lengths[neighbour as usize] as usize;
            let unit = self.unit_of(unit, begins);
            self.before.of(neighbour).gain(unit, weight);
        }
        if let Some(neighbour) = beginning(self.slots[end]) {
            let change = self.behind.of(neighbour);
            change.lost += weight;
            change.gain(unit, weight);
        }
    }

    /// The unit of a slot that is in this one or before.
    fn unit_of(&self, mut unit: u32, slot: usize) -> u32 {
        while self.starts[unit as usize] as usize > slot {
            unit -= 1;
        }
        unit
    }

    /// Brings counts and queue up to date.
    fn apply(&mut self, merge: Merge) {
        let Merge { left, right, made } = merge;
        while let Some(neighbour) = self.before.touched.pop() {
            let change = std::mem::take(&mut self.before.list[neighbour as usize]);
            self.exchange((neighbour, left), (neighbour, made), change);
        }
        while let Some(neighbour) = self.behind.touched.pop() {
            let change = std::mem::take(&mut self.behind.list[neighbour as usize]);
            self.exchange((right, neighbour), (made, neighbour), change);
        }
    }

    fn exchange(&mut self, old: (u32, u32), new: (u32, u32), change: Change) {
        // The pair that is merged is not known any more; it may overlap itself.
        if let Some(pair) = self.known.get_mut(&old) {
            pair.count -= change.lost;
        }
        if change.gained.count > 0 {
            self.enter(new, change.gained);
        }
    }
}
