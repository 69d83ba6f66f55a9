//! Random masks as a pure function of a key: the same mask in forward and backward, on every engine and thread.

/// The key of one layer's mask in one pass.
#[inline]
pub(crate) fn layer_key(pass: u64, stream: u32) -> u64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
    let mut x = pass ^ (u64::from(stream) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The 32 random bits of one element: two rounds of the MurmurHash3 finaliser over the element's number, each mixed with
/// half of the key. Multiplications of 32 bits vectorise.
#[inline(always)]
pub(crate) fn bits(key: u64, element: u32) -> u32 {
    let mix = |mut x: u32| {
        x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
        x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
        x ^ (x >> 16)
    };
    mix(mix(element ^ key as u32).wrapping_add((key >> 32) as u32))
}

/// Keeps each element with probability `1 − p` and scales it by `1/(1 − p)`, so that the mean stays.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mask {
    key: u64,
    /// Elements whose bits are below are dropped. At p = 1 one of 2³² values stays, whose factor is then 0: a threshold
    /// of more than 32 bits would halve the numbers in a vector.
    threshold: u32,
    /// The factor of the elements that stay.
    pub(crate) scale: f64,
}

impl Mask {
    pub(crate) fn new(pass: u64, stream: u32, probability: f64) -> Self {
        let scale = if probability < 1.0 {
            1.0 / (1.0 - probability)
        } else {
            0.0
        };
        Mask {
            key: layer_key(pass, stream),
            threshold: (probability * 2f64.powi(32)) as u32,
            scale,
        }
    }

    /// Whether element `i` stays. Masks of more than 2³² elements repeat themselves.
    #[inline(always)]
    pub(crate) fn keeps(&self, i: usize) -> bool {
        bits(self.key, i as u32) >= self.threshold
    }

    /// The factor of element `i`: 0 or the scale.
    #[inline(always)]
    pub(crate) fn factor(&self, i: usize) -> f64 {
        if self.keeps(i) { self.scale } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f06_the_mean_stays_and_streams_differ() {
        let n = 1_000_000;
        for p in [0.1, 0.25, 0.5, 0.9] {
            let mask = Mask::new(7, 0, p);
            let mean = (0..n).map(|i| mask.factor(i)).sum::<f64>() / n as f64;
            assert!((mean - 1.0).abs() < 0.01, "p = {p}: mean {mean}");
        }
        let mean = (0..n).map(|i| Mask::new(7, 3, 0.25).factor(i)).sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.003);
        let (a, b) = (Mask::new(7, 0, 0.5), Mask::new(7, 1, 0.5));
        let agree = (0..n).filter(|&i| a.keeps(i) == b.keeps(i)).count();
        assert!((agree as f64 / n as f64 - 0.5).abs() < 0.003);
        let neighbours = (1..n).filter(|&i| a.keeps(i) == a.keeps(i - 1)).count();
        assert!((neighbours as f64 / n as f64 - 0.5).abs() < 0.003);
    }

    #[test]
    fn f06_certain_probabilities() {
        assert!((0..1000).all(|i| Mask::new(1, 0, 0.0).factor(i) == 1.0));
        assert!((0..1000).all(|i| Mask::new(1, 0, 1.0).factor(i) == 0.0));
    }
}
