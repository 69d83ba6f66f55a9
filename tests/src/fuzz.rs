//! Files that have been damaged at random, some of them cleverly.

use burtorch_data::derive_seed;

/// Numbers at which arithmetic goes wrong, as a text file spells them.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1",
    "7",
    "255",
    "65536",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e308",
    "-0.0",
    "null",
];

/// Lengths and offsets at which arithmetic goes wrong, as a binary file has them.
const WORDS: [u64; 6] = [0, 1, 255, 1 << 31, 1 << 63, u64::MAX];

/// Bytes in which a file with a header has most of it.
const HEADER: usize = 64;

/// Damages files. The same seed always damages them in the same way.
#[derive(Debug, Clone)]
pub struct Mutator(u64);

impl Mutator {
    /// With this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`, which is at least 1.
    fn below(&mut self, end: usize) -> usize {
        self.0 = derive_seed(self.0, "fuzz");
        (self.0 % end as u64) as usize
    }

    /// A range of up to `most` of `len` places; it may be empty.
    fn range(&mut self, len: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let length = self.below(most.min(len - start) + 1);
        start..start + length
    }

    /// One of some files, with a few damages.
    ///
    /// # Panics
    ///
    /// Without files.
    pub fn damaged(&mut self, files: &[Vec<u8>]) -> Vec<u8> {
        let mut file = files[self.below(files.len())].clone();
        for _ in 0..=self.below(4) {
            self.damage(&mut file, files);
        }
        file
    }

    fn damage(&mut self, file: &mut Vec<u8>, files: &[Vec<u8>]) {
        match self.below(9) {
            0 if !file.is_empty() => {
                let place = self.below(file.len());
                file[place] ^= 1 << self.below(8);
            }
            1 => {
                let range = self.range(file.len(), 8);
                let byte = [0, 0xFF, b'"', b'{', b'9', b'\n', b' '][self.below(7)];
                file[range].fill(byte);
            }
            2 => drop(file.drain(self.range(file.len(), 64))),
            3 => {
                let copied = file[self.range(file.len(), 64)].to_vec();
                let place = self.below(file.len() + 1);
                file.splice(place..place, copied);
            }
            4 => {
                let place = self.below(file.len() + 1);
                let count = self.below(16);
                let random: Vec<u8> = (0..count).map(|_| self.below(256) as u8).collect();
                file.splice(place..place, random);
            }
            5 => file.truncate(self.below(file.len() + 1)),
            6 => {
                let other = &files[self.below(files.len())];
                let other = &other[self.range(other.len(), other.len())];
                let place = self.below(file.len() + 1);
                file.truncate(place);
                file.extend_from_slice(other);
            }
            7 => {
                let word = WORDS[self.below(WORDS.len())].to_le_bytes();
                // Most files say at their beginning what they are and how long.
                let places = [0, self.below(HEADER), self.below(file.len() + 1)];
                let place = places[self.below(3)].min(file.len());
                let end = file.len().min(place + word.len());
                file[place..end].copy_from_slice(&word[..end - place]);
            }
            _ => self.replace_number(file),
        }
    }

    /// Puts another number in the place of one that is spelled out.
    fn replace_number(&mut self, file: &mut Vec<u8>) {
        let from = self.below(file.len() + 1);
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let Some(start) = file[from..].iter().position(is_digit) else {
            return;
        };
        let start = from + start;
        let length = file[start..].iter().take_while(|b| is_digit(b)).count();
        let number = NUMBERS[self.below(NUMBERS.len())];
        file.splice(start..start + length, number.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn damages_differ_and_can_be_repeated() {
        let files = [b"{\"size\": 12, \"name\": \"x\"}".to_vec(), vec![0; 40]];
        let damaged = |seed| Mutator::new(seed).damaged(&files);
        let all: HashSet<_> = (0..1000).map(damaged).collect();
        assert!(all.len() > 700, "{} of 1000", all.len());
        assert!((0..100).all(|seed| damaged(seed) == damaged(seed)));
        let holds = |word: &str| {
            all.iter()
                .any(|file| String::from_utf8_lossy(file).contains(word))
        };
        assert!(holds("\"size\": 18446744073709551615"));
        let empty = (0..100).map(|seed| Mutator::new(seed).damaged(&[vec![]]));
        assert!(empty.collect::<HashSet<_>>().len() > 10);
    }
}
