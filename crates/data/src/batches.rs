//! Batches of windows.

use std::ops::Range;

use crate::error::at_least_one;
use crate::{EpochOrder, Error, RandomOrder, Windows};

/// An endless row of training batches, each of `batch` windows; the batch of a step depends on nothing but its number.
///
/// [`shuffled`](Self::shuffled) batches go through every window once per epoch and run on over its end: the batch
/// there holds the last windows of one epoch and the first of the next, so none is dropped and none is taken twice.
/// [`random`](Self::random) batches draw with replacement.
///
/// ```
/// use burtorch_data::{Batches, Windows};
///
/// let tokens: Vec<u16> = (0..20).collect();
/// let batches = Batches::shuffled(Windows::new(&tokens, 4)?, 3, 1)?;
/// let (mut x, mut y) = ([0; 12], [0; 12]); // [batch · block]
/// for step in 0..100 {
///     batches.fill(step, &mut x, &mut y)?;
///     assert_eq!(y[0], x[0] + 1);
/// }
/// # Ok::<(), burtorch_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Batches<'a> {
    windows: Windows<'a>,
    batch: usize,
    order: Order,
}

#[derive(Debug, Clone, Copy)]
enum Order {
    Shuffled(EpochOrder),
    Random(RandomOrder),
}

impl<'a> Batches<'a> {
    /// Every window once per epoch, in an order of its own for each epoch.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] for a `batch` of 0.
    pub fn shuffled(windows: Windows<'a>, batch: usize, seed: u64) -> Result<Self, Error> {
        let order = Order::Shuffled(EpochOrder::new(seed, windows.count())?);
        Self::new(windows, batch, order)
    }

    /// Windows drawn evenly and independently.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] for a `batch` of 0.
    pub fn random(windows: Windows<'a>, batch: usize, seed: u64) -> Result<Self, Error> {
        let order = Order::Random(RandomOrder::new(seed, windows.count())?);
        Self::new(windows, batch, order)
    }

    fn new(windows: Windows<'a>, batch: usize, order: Order) -> Result<Self, Error> {
        at_least_one("batch size", batch)?;
        Ok(Self {
            windows,
            batch,
            order,
        })
    }

    /// The windows the batches are made of.
    #[must_use]
    pub fn windows(&self) -> Windows<'a> {
        self.windows
    }

    /// Windows in each batch.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// The indices of the windows in the batch of `step`, which counts from 0.
    pub fn indices(&self, step: u64) -> impl ExactSizeIterator<Item = usize> + Clone + use<> {
        let first = step.wrapping_mul(self.batch as u64);
        let order = self.order;
        (0..self.batch).map(move |place| {
            let draw = first.wrapping_add(place as u64);
            match order {
                Order::Shuffled(order) => order.index(0, draw),
                Order::Random(order) => order.index(draw),
            }
        })
    }

    /// Writes the inputs and targets of the batch of `step` into `x` and `y`, both `[batch · block]`, window after window.
    ///
    /// # Errors
    ///
    /// [`Error::BufferSize`] unless both buffers have exactly that length.
    pub fn fill(&self, step: u64, x: &mut [u32], y: &mut [u32]) -> Result<(), Error> {
        let block = self.windows.block();
        let expected = self.batch.saturating_mul(block);
        exactly("batch inputs", x, expected)?;
        exactly("batch targets", y, expected)?;
        let rows = x.chunks_exact_mut(block).zip(y.chunks_exact_mut(block));
        for (index, (x, y)) in self.indices(step).zip(rows) {
            let (inputs, targets) = self.windows.get(index)?;
            inputs.copy_to(x);
            targets.copy_to(y);
        }
        Ok(())
    }
}

fn exactly(what: &'static str, buffer: &[u32], expected: usize) -> Result<(), Error> {
    let found = buffer.len();
    if found == expected {
        Ok(())
    } else {
        Err(Error::BufferSize {
            what,
            expected,
            found,
        })
    }
}

/// The positions of one epoch of `count` samples in batches of `batch`, the last one smaller if they do not divide.
///
/// Give a batch the weight `range.len() / count`, for example with [`WeightedMean`](crate::WeightedMean); for a shuffled
/// epoch look the positions up in an [`EpochOrder`].
///
/// # Errors
///
/// [`Error::Zero`] for a `batch` of 0.
///
/// ```
/// let batches: Vec<_> = burtorch_data::epoch_batches(7, 3)?.collect();
/// assert_eq!(batches, [0..3, 3..6, 6..7]);
/// # Ok::<(), burtorch_data::Error>(())
/// ```
pub fn epoch_batches(
    count: usize,
    batch: usize,
) -> Result<impl ExactSizeIterator<Item = Range<usize>> + Clone, Error> {
    at_least_one("batch size", batch)?;
    Ok((0..count.div_ceil(batch)).map(move |number| {
        let start = number * batch;
        start..start.saturating_add(batch).min(count)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WeightedMean;
    use proptest::prelude::*;

    fn draws(batches: &Batches<'_>, steps: Range<u64>) -> Vec<usize> {
        steps.flat_map(|step| batches.indices(step)).collect()
    }

    #[test]
    fn f33_the_last_batch_has_the_right_weight() {
        let losses = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let (mut mean, mut sizes) = (WeightedMean::default(), Vec::new());
        for range in epoch_batches(losses.len(), 3).unwrap() {
            let batch = &losses[range];
            sizes.push(batch.len());
            mean.add(batch.iter().sum::<f64>() / batch.len() as f64, batch.len());
        }
        assert_eq!(sizes, [3, 3, 1]);
        assert_eq!(mean.value(), Some(4.0));
    }

    #[test]
    fn impossible_batches_are_refused() {
        let windows = Windows::new(&[1_u16, 2, 3], 1).unwrap();
        assert!(Batches::shuffled(windows, 0, 1).is_err());
        assert!(Batches::random(windows, 0, 1).is_err());
        assert!(epoch_batches(7, 0).is_err());
        let batches = Batches::shuffled(windows, 2, 1).unwrap();
        let error = batches
            .fill(0, &mut [0; 2], &mut [0; 3])
            .unwrap_err()
            .to_string();
        assert_eq!(error, "batch targets: expected room for 2 tokens, found 3");
    }

    #[test]
    fn f34_a_batch_depends_on_seed_and_step_only() {
        let tokens: Vec<u32> = (0..1000).collect();
        let windows = Windows::new(&tokens, 8).unwrap();
        for make in [Batches::shuffled, Batches::random] {
            let first = make(windows, 4, 1).unwrap();
            let second = make(windows, 4, 1).unwrap();
            assert_eq!(draws(&first, 5..50), draws(&second, 0..50)[20..]);
            assert_ne!(
                draws(&first, 0..50),
                draws(&make(windows, 4, 2).unwrap(), 0..50)
            );
            assert!(first.indices(u64::MAX).all(|index| index < windows.count()));
        }
    }

    #[test]
    fn fill_writes_the_windows_of_the_indices() {
        let tokens: Vec<u16> = (100..140).collect();
        let batches = Batches::random(Windows::new(&tokens, 6).unwrap(), 3, 9).unwrap();
        let (mut x, mut y) = ([0; 18], [0; 18]);
        batches.fill(4, &mut x, &mut y).unwrap();
        for (row, index) in batches.indices(4).enumerate() {
            let (inputs, targets) = batches.windows().get(index).unwrap();
            assert_eq!(x[6 * row..6 * row + 6], inputs.to_vec());
            assert_eq!(y[6 * row..6 * row + 6], targets.to_vec());
        }
    }

    proptest! {
        #[test]
        fn f33_each_epoch_holds_every_window_once(count in 1_usize..60, batch in 1_usize..70, seed: u64) {
            let tokens: Vec<u32> = (0..=count as u32).collect();
            let batches = Batches::shuffled(Windows::new(&tokens, 1).unwrap(), batch, seed).unwrap();
            let steps = (3 * count).div_ceil(batch) as u64;
            for epoch in draws(&batches, 0..steps).chunks_exact(count) {
                let mut indices = epoch.to_vec();
                indices.sort_unstable();
                prop_assert!(indices.into_iter().eq(0..count));
            }
        }

        #[test]
        fn epoch_batches_cover_the_epoch(count in 0_usize..200, batch in 1_usize..50) {
            let batches = epoch_batches(count, batch).unwrap();
            prop_assert!(batches.clone().flatten().eq(0..count));
            prop_assert!(batches.clone().all(|range| (1..=batch).contains(&range.len())));
            prop_assert_eq!(batches.len(), count.div_ceil(batch));
        }
    }
}
