//! Independent streams from one seed.

/// The odd integer nearest to 2⁶⁴ divided by the golden ratio: the step between the inputs of [`mix`].
pub(crate) const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection of the 64-bit numbers in which every input bit moves about half of the output bits.
///
/// This is the output function of SplitMix64 (Steele, Lea, Flood, *Fast splittable pseudorandom number generators*,
/// OOPSLA 2014), with the constants of Stafford's variant 13.
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The `counter`-th number of the random stream `seed`: SplitMix64 with direct access.
pub(crate) fn random(seed: u64, counter: u64) -> u64 {
    mix(seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// The seed of one named purpose (`"initialisation"`, `"shuffling"`, `"dropout"`, …) under the user's one seed.
///
/// Purposes do not disturb each other: drawing more numbers for dropout leaves the order of the data as it was. The
/// name is hashed with 64-bit FNV-1a (Fowler, Noll, Vo), the hash is added to the scrambled seed, and
/// the sum is scrambled again by SplitMix64's output function. The value for a given seed and name is part of
/// this crate's contract and never changes, as saved runs depend on it.
///
/// ```
/// let dropout = burtorch_data::derive_seed(1, "dropout");
/// assert_eq!(dropout, burtorch_data::derive_seed(1, "dropout"));
/// assert_ne!(dropout, burtorch_data::derive_seed(1, "shuffling"));
/// assert_ne!(dropout, burtorch_data::derive_seed(2, "dropout"));
/// ```
#[must_use]
pub fn derive_seed(seed: u64, stream: &str) -> u64 {
    mix(random(seed, 0).wrapping_add(Fnv1a::default().with(stream.as_bytes()).value()))
}

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo) of bytes that come piece by piece: `hash ← (hash ⊕ byte) · prime`.
///
/// It tells changed bytes from unchanged ones; it keeps no secret and proves no origin.
///
/// ```
/// use burtorch_data::Fnv1a;
///
/// let whole = Fnv1a::default().with(b"abc").value();
/// assert_eq!(Fnv1a::default().with(b"a").with(b"bc").value(), whole);
/// assert_ne!(Fnv1a::default().with(b"acb").value(), whole);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Default for Fnv1a {
    /// The hash of no bytes.
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Fnv1a {
    /// The hash of the bytes so far and these behind them.
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        }))
    }

    /// The hash as a number.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn published_values_of_the_two_parts() {
        let fnv1a = |bytes: &[u8]| Fnv1a::default().with(bytes).value();
        assert_eq!(fnv1a(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(random(0, 0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random(0, 1), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn f34_purposes_and_seeds_have_their_own_streams() {
        let names = [
            "initialisation",
            "shuffling",
            "dropout",
            "sampling",
            "layer 0",
            "layer 1",
        ];
        let seeds: HashSet<u64> = (0..100)
            .flat_map(|seed| names.map(|name| derive_seed(seed, name)))
            .collect();
        assert_eq!(seeds.len(), 600);
    }

    #[test]
    fn values_stay_what_saved_runs_were_made_with() {
        assert_eq!(derive_seed(0, ""), 0x69DD_497C_ADF9_1C08);
        assert_eq!(derive_seed(1, "dropout"), 0x68E6_9B58_38EC_B0A0);
        assert_eq!(derive_seed(u64::MAX, "shuffling"), 0x2B14_6C9B_8C11_36CA);
    }
}
