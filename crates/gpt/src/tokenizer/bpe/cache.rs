//! Pieces that were encoded before, in memory that does not grow.

use hashbrown::HashMap;

/// The end of an entry with fewer tokens than it has room for.
pub(super) const END: u32 = u32::MAX;

/// Tokens that an entry has room for.
pub(super) const ROOM: usize = 4;

/// Bytes of a piece that an entry has room for; the last byte of its key is the length.
pub(super) const SHORT: usize = 15;

/// Bytes that the longer pieces and their tokens may take.
const LONG_BYTES: usize = 4 << 20;

/// Longer pieces are not kept.
const LONGEST: usize = 256;

/// A short piece as a number: its bytes, zeros, its length.
pub(super) type Key = [u64; 2];

/// A short piece and its tokens. The key of no piece is 0.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Key,
    tokens: [u32; ROOM],
}

/// Two entries that share the lower bits of their hash, the one entered last in front. They fill a line of the processor's cache.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Set([Entry; 2]);

/// The tokens of pieces. Short ones lie in a table of sets, where a new one takes the place of the older one; the
/// others in a map, which is emptied when it is full.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    sets: Vec<Set>,
    /// Bits of the hash that are left out.
    shift: u32,
    long: HashMap<Box<[u8]>, Box<[u32]>>,
    long_bytes: usize,
}

/// The key of a piece of at most [`SHORT`] bytes.
#[inline]
pub(super) fn key(piece: &[u8]) -> Key {
    let mut bytes = [0; 16];
    bytes[..piece.len()].copy_from_slice(piece);
    bytes[SHORT] = piece.len() as u8;
    split(u128::from_le_bytes(bytes))
}

/// The key of the first `length` of these bytes, at most [`SHORT`].
#[inline]
pub(super) fn key_within(bytes: &[u8; 16], length: usize) -> Key {
    let kept = (1_u128 << (8 * length)) - 1;
    split(u128::from_le_bytes(*bytes) & kept | (length as u128) << (8 * SHORT))
}

#[inline]
fn split(number: u128) -> Key {
    [number as u64, (number >> 64) as u64]
}

impl Cache {
    /// A cache of 2 to the power of `bits` sets, at least one bit.
    pub(super) fn new(bits: u32) -> Self {
        let empty = Entry {
            key: [0; 2],
            tokens: [END; ROOM],
        };
        Self {
            sets: vec![Set([empty; 2]); 1 << bits],
            shift: u64::BITS - bits,
            long: HashMap::new(),
            long_bytes: 0,
        }
    }

    /// Two products, so that the upper bits depend on every byte.
    #[inline]
    fn place(&self, key: Key) -> usize {
        let first = key[0].wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let second = key[1].wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((first ^ second) >> self.shift) as usize
    }

    /// The tokens of a short piece, then [`END`] up to the room of an entry.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<[u32; ROOM]> {
        let Set([first, second]) = &self.sets[self.place(key)];
        if first.key == key {
            return Some(first.tokens);
        }
        (second.key == key).then_some(second.tokens)
    }

    /// Keeps the tokens of a short piece.
    pub(super) fn insert(&mut self, key: Key, tokens: [u32; ROOM]) {
        let place = self.place(key);
        let Set([first, second]) = &mut self.sets[place];
        *second = *first;
        *first = Entry { key, tokens };
    }

    /// The tokens of a piece that no entry has room for.
    pub(super) fn get_long(&self, piece: &[u8]) -> Option<&[u32]> {
        self.long.get(piece).map(|tokens| &**tokens)
    }

    /// Keeps the tokens of such a piece, unless it is very long.
    pub(super) fn insert_long(&mut self, piece: &[u8], tokens: &[u32]) {
        if piece.len() > LONGEST {
            return;
        }
        let bytes = 64 + piece.len() + size_of_val(tokens);
        if self.long_bytes + bytes > LONG_BYTES {
            self.long.clear();
            self.long_bytes = 0;
        }
        self.long_bytes += bytes;
        self.long.insert(piece.into(), tokens.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_a_line() {
        assert_eq!(size_of::<Set>(), 64);
    }

    #[test]
    fn keys_tell_all_short_pieces_apart() {
        let bytes: [u8; 16] = *b"the quick fox\0\0!";
        let mut keys = vec![key(b"\0"), key(b"\0\0"), key(b"")];
        for length in 0..=SHORT {
            assert_eq!(key(&bytes[..length]), key_within(&bytes, length));
            keys.push(key(&bytes[..length]));
        }
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), SHORT + 3, "the empty piece twice");
    }

    #[test]
    fn the_older_one_makes_room() {
        let mut cache = Cache::new(1);
        let words: Vec<Key> = (0..100_u32).map(|word| key(&word.to_le_bytes())).collect();
        let set = cache.place(words[0]);
        let same: Vec<Key> = words
            .iter()
            .copied()
            .filter(|&it| cache.place(it) == set)
            .collect();
        for (token, &word) in same.iter().enumerate() {
            cache.insert(word, [token as u32, END, END, END]);
            assert_eq!(cache.get(word).unwrap()[0], token as u32);
            if token >= 2 {
                assert_eq!(cache.get(same[token - 1]).unwrap()[0], token as u32 - 1);
                assert_eq!(cache.get(same[token - 2]), None);
            }
        }
    }

    #[test]
    fn pieces_of_one_set_are_told_apart_by_all_their_bytes() {
        let mut cache = Cache::new(1);
        let piece = |number: u8| key(&[b"the same"[..].to_vec(), vec![b'a' + number]].concat());
        for number in 0..20 {
            assert_eq!(cache.get(piece(number)), None);
            cache.insert(piece(number), [number.into(); ROOM]);
            assert_eq!(cache.get(piece(number)), Some([number.into(); ROOM]));
        }
    }

    #[test]
    fn longer_pieces_never_fill_the_memory() {
        let mut cache = Cache::new(1);
        for number in 0..100_000_u64 {
            let piece = format!("a piece of text with the number {number}");
            cache.insert_long(piece.as_bytes(), &[1, 2, 3]);
            assert!(cache.long_bytes <= LONG_BYTES);
            assert_eq!(cache.get_long(piece.as_bytes()), Some(&[1, 2, 3][..]));
        }
        assert!(cache.long.len() < 50_000);
        cache.insert_long(&[b'a'; LONGEST + 1], &[1]);
        assert_eq!(cache.get_long(&[b'a'; LONGEST + 1]), None);
    }
}
