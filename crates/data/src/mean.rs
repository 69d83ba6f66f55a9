//! Means over batches of different sizes.

/// The mean over all samples, from the means of batches that need not have the same size.
///
/// `mean = Σ countᵢ · meanᵢ / Σ countᵢ`. The plain mean of the batch means would give the samples of a short last
/// batch more weight than the others.
///
/// ```
/// use burtorch_data::WeightedMean;
///
/// let mut mean = WeightedMean::default();
/// mean.add(2.0, 3); // samples 1, 2, 3
/// mean.add(5.0, 3); // samples 4, 5, 6
/// mean.add(7.0, 1); // sample 7
/// assert_eq!(mean.value(), Some(4.0));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WeightedMean {
    sum: f64,
    count: u64,
}

impl WeightedMean {
    /// Takes in the mean over `count` samples.
    pub fn add(&mut self, mean: f64, count: usize) {
        if count > 0 {
            self.sum += mean * count as f64;
            self.count += count as u64;
        }
    }

    /// The mean so far; `None` before the first sample.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Samples taken in so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_mean() {
        let mut mean = WeightedMean::default();
        mean.add(f64::NAN, 0);
        assert_eq!(mean.value(), None);
        assert_eq!(mean.count(), 0);
    }
}
