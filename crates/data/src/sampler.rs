//! Seeded orders that need no memory: each index is computed from the seed and a number.

use crate::Error;
use crate::error::at_least_one;
use crate::seed::random;

/// Enough for small sets too: after 8 rounds the 720 orders of six items are visibly uneven, after 16 they are not.
const ROUNDS: u64 = 16;

/// Scales 64 random bits to a number below `len`: the upper half of their product, whose bias is below `len / 2⁶⁴`
/// (D. Lemire, *Fast random integer generation in an interval*, 2019, without the rejection step).
fn below(len: u64, bits: u64) -> u64 {
    ((u128::from(bits) * u128::from(len)) >> 64) as u64
}

/// The sum of two numbers below `len`, brought back below it.
fn add_below(len: u64, a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum < len { sum } else { sum - len }
}

/// Every index below `len` once per epoch, in an order that differs from epoch to epoch.
///
/// An order is a keyed permutation, not a shuffled list: it takes 32 bytes whatever `len` is, and any place of any epoch can
/// be asked for directly, so resuming a run needs only its step number.
///
/// The permutation is a generalised Feistel network on pairs `(l, r)` with `l < a`, `r < b`, where
/// `a·b ≥ len` is as tight as `a = ⌈√len⌉` allows; each round adds a keyed hash of one half to the other. Results
/// outside `0..len` are fed in again until they fall inside. Source: J. Black and P. Rogaway, *Ciphers with arbitrary finite domains*,
/// CT-RSA 2002, methods "cycle-walking" and "generalized Feistel". It shuffles well, it does not keep secrets.
///
/// ```
/// use burtorch_data::EpochOrder;
///
/// let order = EpochOrder::new(1, 5)?;
/// let mut epoch: Vec<usize> = (0..5).map(|position| order.index(0, position)).collect();
/// epoch.sort();
/// assert_eq!(epoch, [0, 1, 2, 3, 4]);
/// # Ok::<(), burtorch_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochOrder {
    seed: u64,
    len: u64,
    left: u64,
    right: u64,
}

impl EpochOrder {
    /// The orders of `0..len` under `seed`.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] if there is nothing to put in order.
    pub fn new(seed: u64, len: usize) -> Result<Self, Error> {
        at_least_one("items to put in order", len)?;
        let len = len as u64;
        let floor = len.isqrt();
        let left = if floor * floor == len {
            floor
        } else {
            floor + 1
        };
        Ok(Self {
            seed,
            len,
            left,
            right: len.div_ceil(left),
        })
    }

    /// The index at `position` of `epoch`; a position past the end carries on into the epochs that follow.
    ///
    /// So `index(0, n)` is the n-th draw of a run that goes through epoch after epoch without a break.
    #[must_use]
    pub fn index(&self, epoch: u64, position: u64) -> usize {
        let key = random(self.seed, epoch.wrapping_add(position / self.len));
        let mut index = self.permute(key, position % self.len);
        while index >= self.len {
            index = self.permute(key, index);
        }
        index as usize
    }

    /// One pass through the network: a bijection of `0..left·right`.
    fn permute(&self, key: u64, index: u64) -> u64 {
        let (mut l, mut r) = (index / self.right, index % self.right);
        for round in (0..ROUNDS).step_by(2) {
            l = add_below(self.left, l, below(self.left, random(key ^ r, round)));
            r = add_below(self.right, r, below(self.right, random(key ^ l, round + 1)));
        }
        l * self.right + r
    }
}

/// Indices below `len` drawn evenly and independently, with replacement.
///
/// The draw of a given number depends on the seed and that number alone, so any can be asked for directly.
///
/// ```
/// use burtorch_data::RandomOrder;
///
/// let order = RandomOrder::new(1, 5)?;
/// assert!(order.index(1_000_000) < 5);
/// # Ok::<(), burtorch_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomOrder {
    seed: u64,
    len: u64,
}

impl RandomOrder {
    /// Draws from `0..len` under `seed`.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] if there is nothing to draw from.
    pub fn new(seed: u64, len: usize) -> Result<Self, Error> {
        at_least_one("items to draw from", len)?;
        Ok(Self {
            seed,
            len: len as u64,
        })
    }

    /// The index of draw number `draw`.
    #[must_use]
    pub fn index(&self, draw: u64) -> usize {
        below(self.len, random(self.seed, draw)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn epoch(seed: u64, len: usize, epoch: u64) -> Vec<usize> {
        let order = EpochOrder::new(seed, len).unwrap();
        (0..len as u64)
            .map(|position| order.index(epoch, position))
            .collect()
    }

    fn is_permutation(indices: &[usize]) -> bool {
        let mut sorted = indices.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().eq(0..indices.len())
    }

    /// Largest relative distance of a count from the mean count.
    fn unevenness<K: Eq + std::hash::Hash>(draws: impl Iterator<Item = K>, kinds: usize) -> f64 {
        let mut counts = HashMap::new();
        let mut total = 0.0;
        for draw in draws {
            *counts.entry(draw).or_insert(0.0) += 1.0;
            total += 1.0;
        }
        assert_eq!(counts.len(), kinds);
        let mean = total / kinds as f64;
        counts
            .values()
            .map(|count| (count / mean - 1.0_f64).abs())
            .fold(0.0, f64::max)
    }

    #[test]
    fn the_helpers_can_fail() {
        assert!(!is_permutation(&[0, 2, 2]));
        assert!(!is_permutation(&[1, 2, 3]));
        assert!(unevenness([0, 0, 0, 1].into_iter(), 2) > 0.4);
    }

    #[test]
    fn f33_every_length_gives_every_index_once() {
        for len in (1..=300).chain([509, 512, 1021, 1024, 4095, 4096, 4097, 65_537]) {
            assert!(is_permutation(&epoch(7, len, 3)), "length {len}");
        }
    }

    #[test]
    fn f34_seeds_and_epochs_differ_and_repeat() {
        let first = epoch(1, 100, 0);
        assert_eq!(first, epoch(1, 100, 0));
        assert_ne!(first, epoch(1, 100, 1));
        assert_ne!(first, epoch(2, 100, 0));
        assert!(!first.iter().copied().eq(0..100));
    }

    #[test]
    fn a_run_carries_on_into_the_next_epoch() {
        let order = EpochOrder::new(5, 11).unwrap();
        for position in 0..11 {
            assert_eq!(order.index(0, 22 + position), order.index(2, position));
        }
        assert!(order.index(u64::MAX, u64::MAX) < 11);
    }

    #[test]
    fn all_orders_of_a_few_items_are_about_as_frequent() {
        assert!(unevenness((0..2_000).map(|e| epoch(1, 2, e)), 2) < 0.1);
        assert!(unevenness((0..6_000).map(|e| epoch(1, 3, e)), 6) < 0.15);
        assert!(unevenness((0..24_000).map(|e| epoch(1, 4, e)), 24) < 0.15);
        assert!(unevenness((0..120_000).map(|e| epoch(1, 5, e)), 120) < 0.15);
        assert!(unevenness((0..720_000).map(|e| epoch(1, 6, e)), 720) < 0.15);
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let order = epoch(1, 10_000, 0);
        let close = order
            .windows(2)
            .filter(|pair| pair[0].abs_diff(pair[1]) <= 10)
            .count();
        assert!(
            close < 50,
            "expected about 20 of 10,000 close pairs, found {close}"
        );
    }

    #[test]
    fn random_draws_are_even_and_independent_of_each_other() {
        let order = RandomOrder::new(3, 10).unwrap();
        assert!(unevenness((0..100_000).map(|draw| order.index(draw)), 10) < 0.05);
        let pairs = (0..100_000).map(|draw| (order.index(2 * draw), order.index(2 * draw + 1)));
        assert!(unevenness(pairs, 100) < 0.15);
        assert_ne!(order.index(0), RandomOrder::new(4, 10).unwrap().index(0));
    }

    #[test]
    fn nothing_cannot_be_ordered() {
        assert!(EpochOrder::new(1, 0).is_err());
        assert!(RandomOrder::new(1, 0).is_err());
    }

    proptest! {
        #[test]
        fn every_epoch_is_a_permutation(seed: u64, len in 1_usize..3000, number: u64) {
            prop_assert!(is_permutation(&epoch(seed, len, number)));
        }

        #[test]
        fn huge_sets_stay_in_range(seed: u64, len in 1_usize.., position: u64) {
            let order = EpochOrder::new(seed, len).unwrap();
            prop_assert!(order.index(0, position) < len);
            prop_assert!(RandomOrder::new(seed, len).unwrap().index(position) < len);
        }
    }
}
