//! What the machine can do at best, measured in the same run as everything else: multiply-adds a second, and bytes a second.

use std::hint::black_box;
use std::time::Instant;

use pulp::{Arch, Simd, WithSimd};

/// Sums that grow side by side: enough to hide the latency of a multiply-add, few enough for the registers of AVX2.
const SUMS: usize = 12;

/// Multiply-adds on each sum in one measurement, which takes a third of a millisecond.
const ROUNDS: usize = 50_000;

/// The largest speed seen so far. One measurement may be disturbed, the best of many is the limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak(f64);

impl Peak {
    /// Measures once more.
    pub(crate) fn probe(&mut self) {
        let start = Instant::now();
        let operations = Arch::new().dispatch(MultiplyAdds);
        self.0 = self
            .0
            .max(operations as f64 / start.elapsed().as_secs_f64());
    }

    /// As if a probe had found this many operations a second.
    #[cfg(test)]
    pub(crate) fn of(flops: f64) -> Self {
        Self(flops)
    }

    /// f32 operations a second of one thread, a multiply-add counted as two.
    pub(crate) fn flops(self) -> f64 {
        self.0
    }
}

/// Independent multiply-adds in registers at the machine's best SIMD level; the number of operations.
struct MultiplyAdds;

impl WithSimd for MultiplyAdds {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        // They approach 2: no infinity, and nothing subnormal.
        let (half, one) = (
            simd.splat_f32s(black_box(0.5)),
            simd.splat_f32s(black_box(1.0)),
        );
        let mut sums = [simd.splat_f32s(0.0); SUMS];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = simd.mul_add_f32s(*sum, half, one);
            }
        }
        black_box(sums.map(|sum| simd.reduce_sum_f32s(sum)));
        2 * ROUNDS * SUMS * S::F32_LANES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_all_probes_counts() {
        let mut peak = Peak::default();
        peak.probe();
        let first = peak.flops();
        peak.probe();
        assert!(first > 0.0 && peak.flops() >= first);
    }
}
