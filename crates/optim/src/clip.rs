//! Norms of gradients, and limits on them.

use burtorch_core::Float;
use burtorch_core::lanes::{Work, dispatch};

use crate::Error;
use crate::error::positive;

/// Sums that run side by side, so that the compiler can keep them in SIMD registers; a fixed number for fixed bits.
const LANES: usize = 32;

/// Gradients whose squares are summed in `T` before the sum goes on in f64: 64 terms in each lane.
const BLOCK: usize = 64 * LANES;

/// The Euclidean norm `√(Σ gᵢ²)` of all gradients as one vector, in f64.
///
/// Squares are summed in short runs, and the runs in f64. If squares leave the range of `T`, all numbers are
/// divided by the largest and summed in f64 instead. So neither many terms nor large or small ones cost digits: the
/// relative error stays below 64 roundings of `T`, in practice near one.
/// The result is not finite if a gradient is not, or if the norm exceeds the largest f64.
///
/// ```
/// assert_eq!(burtorch_optim::global_norm(&[3.0_f32, 4.0]), 5.0);
/// let norm = burtorch_optim::global_norm(&[3e20_f32, 4e20]); // squares overflow f32
/// assert!((norm / 5e20 - 1.0).abs() < 1e-7);
/// ```
#[must_use]
pub fn global_norm<T: Float>(gradients: &[T]) -> f64 {
    let sum = dispatch(SumOfSquares(gradients));
    // A square that vanished is below MIN_POSITIVE; above this sum all of them together are below one rounding.
    let trusted = gradients.len() as f64 * (T::MIN_POSITIVE.to_f64() / T::EPSILON.to_f64());
    if sum > trusted && sum.is_finite() {
        sum.sqrt()
    } else {
        scaled_norm(gradients)
    }
}

/// `Σ gᵢ²`: side by side in blocks in a fixed order, the blocks' sums in f64.
struct SumOfSquares<'a, T>(&'a [T]);

impl<T: Float> Work for SumOfSquares<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let mut sum = 0.0;
        for block in self.0.chunks(BLOCK) {
            let mut lanes = [T::ZERO; LANES];
            let (chunks, rest) = block.as_chunks::<LANES>();
            for chunk in chunks {
                for (lane, &g) in lanes.iter_mut().zip(chunk) {
                    *lane += g * g;
                }
            }
            for lane in lanes {
                sum += lane.to_f64();
            }
            for g in rest {
                sum += (*g * *g).to_f64();
            }
        }
        sum
    }
}

/// The norm of numbers whose squares `T` does not hold: `s · √(Σ (gᵢ/s)²)` with `s` the largest of them.
fn scaled_norm<T: Float>(gradients: &[T]) -> f64 {
    let sizes = gradients.iter().map(|g| g.to_f64().abs());
    let largest = sizes.clone().fold(0.0, largest_of);
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    let shares = sizes.map(|size| size / largest);
    largest * shares.map(|share| share * share).sum::<f64>().sqrt()
}

/// The maximum, but NaN if one of both is.
fn largest_of(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

/// Scales all gradients so that their [`global_norm`] is at most `max`, and returns the norm before that.
///
/// `g ← g · max / norm` if `norm > max` (R. Pascanu et al., *On the difficulty of training recurrent neural networks*, ICML 2013,
/// algorithm 1); otherwise no bit changes.
///
/// # Errors
///
/// [`Error::Domain`] unless `max` is finite and above 0; [`Error::NonFinite`] with the first place that holds an
/// infinity or NaN, and [`Error::NormOverflow`] if there is none but the norm is too large for f64. On an error nothing is changed,
/// so a caller that skips the step then has lost nothing.
///
/// ```
/// let mut gradients = [3.0, 4.0];
/// assert_eq!(burtorch_optim::clip_by_global_norm(&mut gradients, 1.0)?, 5.0);
/// assert!((gradients[0] - 0.6_f64).abs() < 1e-15 && (gradients[1] - 0.8).abs() < 1e-15);
/// # Ok::<(), burtorch_optim::Error>(())
/// ```
pub fn clip_by_global_norm<T: Float>(gradients: &mut [T], max: f64) -> Result<f64, Error> {
    positive("largest gradient norm", max)?;
    let norm = global_norm(gradients);
    if !norm.is_finite() {
        return Err(first_non_finite(gradients).unwrap_or(Error::NormOverflow));
    }
    if norm > max {
        let scale = T::from_f64(max / norm);
        dispatch(|| gradients.iter_mut().for_each(|g| *g *= scale));
    }
    Ok(norm)
}

/// Brings every gradient into `−limit ..= limit`: `g ← min(max(g, −limit), limit)`.
///
/// # Errors
///
/// [`Error::Domain`] unless `limit` is finite and above 0; [`Error::NonFinite`] with the first place that holds an
/// infinity or NaN. On an error nothing is changed.
///
/// ```
/// let mut gradients = [0.5, -3.0_f32];
/// burtorch_optim::clip_by_value(&mut gradients, 1.0)?;
/// assert_eq!(gradients, [0.5, -1.0]);
/// # Ok::<(), burtorch_optim::Error>(())
/// ```
pub fn clip_by_value<T: Float>(gradients: &mut [T], limit: f64) -> Result<(), Error> {
    positive("gradient limit", limit)?;
    if let Some(error) = first_non_finite(gradients) {
        return Err(error);
    }
    let limit = T::from_f64(limit);
    dispatch(|| bound(gradients, limit));
    Ok(())
}

#[inline(always)]
fn bound<T: Float>(gradients: &mut [T], limit: T) {
    for g in gradients {
        *g = if *g > limit { limit } else { *g };
        *g = if *g < -limit { -limit } else { *g };
    }
}

fn first_non_finite<T: Float>(gradients: &[T]) -> Option<Error> {
    if dispatch(|| all_finite(gradients)) {
        return None;
    }
    let index = gradients.iter().position(|g| !g.is_finite())?;
    Some(Error::NonFinite {
        index,
        found: gradients[index].to_f64(),
    })
}

/// Without leaving early, which would keep it from going over several numbers at once.
#[inline(always)]
fn all_finite<T: Float>(gradients: &[T]) -> bool {
    gradients.iter().fold(true, |all, g| all & g.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_core::lanes::Level;
    use proptest::prelude::*;

    fn clipped<T: Float>(gradients: &[T], max: f64) -> (f64, Vec<T>) {
        let mut gradients = gradients.to_vec();
        let norm = clip_by_global_norm(&mut gradients, max).unwrap();
        (norm, gradients)
    }

    fn close<T: Float>(found: &[T], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let found = found.to_f64();
            assert!(
                (found - expected).abs() <= tolerance * expected.abs(),
                "{found} is not {expected}"
            );
        }
    }

    #[test]
    fn f28_one_norm_for_all() {
        let (norm, gradients) = clipped(&[3.0_f64, 4.0], 1.0);
        assert_eq!(norm, 5.0);
        close(&gradients, &[0.6, 0.8], 1e-15);
        let (norm, gradients) = clipped(&[3.0_f32, 4.0], 1.0);
        assert_eq!(norm, 5.0);
        close(&gradients, &[0.6, 0.8], 2e-7);
    }

    #[test]
    fn f28_small_gradients_keep_their_bits() {
        assert_eq!(clipped(&[0.0_f32, -0.0], 1.0), (0.0, vec![0.0, -0.0]));
        assert_eq!(clipped(&[0.3_f32, 0.4], 1.0).1, [0.3, 0.4]);
        assert_eq!(clipped(&[3.0_f64, 4.0], 5.0).1, [3.0, 4.0]);
        assert_eq!(clipped::<f64>(&[], 5.0), (0.0, vec![]));
    }

    #[test]
    fn f28_a_norm_that_is_not_finite_changes_nothing() {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
            for (place, others) in [(0, 2.0), (1, 0.0), (20, 1e30)] {
                let mut gradients = [others; 21];
                gradients[place] = bad;
                let before = gradients.map(f32::to_bits);
                let error = clip_by_global_norm(&mut gradients, 1.0).unwrap_err();
                assert!(matches!(error, Error::NonFinite { index, .. } if index == place));
                assert!(clip_by_value(&mut gradients, 1.0).is_err());
                assert_eq!(gradients.map(f32::to_bits), before);
            }
        }
        let mut huge = [f64::MAX, f64::MAX];
        assert_eq!(
            clip_by_global_norm(&mut huge, 1.0),
            Err(Error::NormOverflow)
        );
        assert_eq!(huge, [f64::MAX; 2]);
    }

    #[test]
    fn f28_squares_may_leave_the_range_of_the_numbers() {
        let (norm, gradients) = clipped(&[3e20_f32, 4e20], 1.0);
        assert!((norm / 5e20 - 1.0).abs() < 1e-7);
        close(&gradients, &[0.6, 0.8], 2e-7);
        let (norm, gradients) = clipped(&[3e200_f64, 4e200], 1.0);
        assert!((norm / 5e200 - 1.0).abs() < 1e-15);
        close(&gradients, &[0.6, 0.8], 1e-15);
        assert!((global_norm(&[3e-200_f64, 4e-200]) / 5e-200 - 1.0).abs() < 1e-15);
        assert!((global_norm(&[3e-40_f32, 4e-40]) / 5e-40 - 1.0).abs() < 1e-4);
    }

    #[test]
    fn f12_norms_of_many_terms() {
        assert_eq!(
            global_norm(&vec![1.0_f32; 20_000_000]),
            20_000_000_f64.sqrt()
        );
        let expected = f64::from(0.1_f32) * 1e7_f64.sqrt();
        assert!((global_norm(&vec![0.1_f32; 10_000_000]) / expected - 1.0).abs() < 1e-6);
    }

    #[test]
    fn every_simd_level_gives_the_same_bits() {
        for n in [1, 31, 33, 100, 2047, 5000] {
            let gradients: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
            let sum = |level: Level| level.run(SumOfSquares(&gradients)).to_bits();
            for level in Level::available() {
                assert_eq!(sum(Level::portable()), sum(level), "{level:?}, {n}");
                let mut bounded = gradients.clone();
                level.run(|| bound(&mut bounded, 1.5));
                let clamped = gradients.iter().map(|g| g.clamp(-1.5, 1.5));
                assert!(bounded.iter().copied().eq(clamped), "{level:?}, {n}");
            }
        }
    }

    #[test]
    fn one_bad_number_anywhere_is_found_at_every_simd_level() {
        for level in Level::available() {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for n in [1, 15, 64, 77] {
                    assert!(level.run(|| all_finite(&vec![f32::MAX; n])));
                    for place in 0..n {
                        let mut gradients = vec![1e30_f32; n];
                        gradients[place] = bad;
                        assert!(
                            !level.run(|| all_finite(&gradients)),
                            "{level:?}, {place} of {n}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn limits_are_numbers_above_zero() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(clip_by_global_norm(&mut [1.0_f32], bad).is_err());
            assert!(clip_by_value(&mut [1.0_f32], bad).is_err());
        }
    }

    proptest! {
        #[test]
        fn clipping_shortens_and_keeps_the_direction(
            gradients in prop::collection::vec(-1e3..1e3_f64, 1..100),
            max in 1e-3..1e3,
        ) {
            let plain = gradients.iter().map(|g| g * g).sum::<f64>().sqrt();
            let (norm, clipped) = clipped(&gradients, max);
            prop_assert!((norm - plain).abs() <= 1e-13 * plain);
            prop_assert!(global_norm(&clipped) <= max.min(norm) * (1.0 + 1e-14));
            let scale = (max / norm).min(1.0);
            for (clipped, g) in clipped.iter().zip(&gradients) {
                prop_assert!((clipped - scale * g).abs() <= 1e-14 * g.abs());
            }
        }

        #[test]
        fn values_end_up_inside_the_limit(g: f32, limit in 1e-3..1e3) {
            prop_assume!(g.is_finite());
            let mut gradients = [g];
            clip_by_value(&mut gradients, limit).unwrap();
            prop_assert_eq!(gradients[0], g.clamp(-limit as f32, limit as f32));
        }
    }
}
