//! Many samples through one program, several at a time.

use crate::error::Error;
use crate::float::Float;
use crate::lanes::Lanes;
use crate::program::evaluator::{Evaluator, check_count};

/// For long lists of samples. `N` of them are evaluated side by side; the last lanes of the last group are filled up and
/// dropped again. What comes out for a sample does not depend on `N`, on the samples beside it, or on the machine, bit for bit.
/// It differs from that of plain numbers by the last digits in which [`Lanes`] differ from them. Nothing is allocated.
///
/// ```
/// use burtorch_core::lanes::Lanes;
/// use burtorch_core::{Program, Scalar, program::Evaluator};
///
/// let program = Program::record(2, |x| x[0] * x[1] + x[0].square())?;
/// let mut evaluator = Evaluator::<Lanes<f64, 8>>::new(&program);
/// // Three samples with two inputs each.
/// let samples = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let (mut values, mut gradients) = ([0.0; 3], [0.0; 6]);
/// evaluator.gradients_of_samples(&samples, &mut values, &mut gradients)?;
/// assert_eq!(values, [3.0, 21.0, 55.0]);
/// assert_eq!(gradients, [4.0, 1.0, 10.0, 3.0, 16.0, 5.0]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
impl<F: Float, const N: usize> Evaluator<Lanes<F, N>> {
    const LANES: usize = {
        assert!(N > 0, "no lanes to evaluate samples in");
        N
    };

    /// Writes the outputs at every sample to `values`: one row after the other, like `samples`.
    ///
    /// # Errors
    ///
    /// [`Error::UnevenRows`] if `samples` is no whole number of samples, or the program has no inputs; [`Error::WrongCount`] if
    /// there is not room for exactly as many outputs.
    pub fn values_of_samples(&mut self, samples: &[F], values: &mut [F]) -> Result<(), Error> {
        let count = self.samples_in(samples)?;
        check_count("values", count * self.outputs().len(), values.len())?;
        for first in (0..count).step_by(Self::LANES) {
            self.place(samples, first, count);
            self.run(false);
            scatter(self.outputs(), first, values);
        }
        Ok(())
    }

    /// Writes the value and the gradient at every sample, of a program with one output: one gradient after the other.
    ///
    /// # Errors
    ///
    /// As [`values_of_samples`](Self::values_of_samples), and [`Error::WrongCount`] if there is not exactly one output or not room for
    /// exactly as many gradients.
    pub fn gradients_of_samples(
        &mut self,
        samples: &[F],
        values: &mut [F],
        gradients: &mut [F],
    ) -> Result<(), Error> {
        let count = self.samples_in(samples)?;
        check_count("outputs", 1, self.outputs().len())?;
        check_count("values", count, values.len())?;
        check_count("gradients", count * self.gradient().len(), gradients.len())?;
        for first in (0..count).step_by(Self::LANES) {
            self.place(samples, first, count);
            self.run(true);
            self.pull_back(|_| Lanes::splat(F::ONE));
            scatter(self.outputs(), first, values);
            scatter(self.gradient(), first, gradients);
        }
        Ok(())
    }

    /// The number of samples.
    fn samples_in(&self, samples: &[F]) -> Result<usize, Error> {
        let (width, found) = (self.inputs(), samples.len());
        match found.checked_div(width) {
            Some(count) if count * width == found => Ok(count),
            _ => Err(Error::UnevenRows { width, found }),
        }
    }

    /// Makes the samples from `first` on the inputs, a sample per lane; the last one fills lanes that are left over.
    fn place(&mut self, samples: &[F], first: usize, count: usize) {
        let width = self.inputs();
        for (i, input) in self.inputs_mut().iter_mut().enumerate() {
            *input = Lanes::from_fn(|lane| samples[(first + lane).min(count - 1) * width + i]);
        }
    }
}

/// Writes a number per lane and column to the rows from `first` on, as far as there are rows.
fn scatter<F: Float, const N: usize>(columns: &[Lanes<F, N>], first: usize, rows: &mut [F]) {
    let width = columns.len();
    if width == 0 {
        return;
    }
    for (lane, row) in rows.chunks_exact_mut(width).skip(first).take(N).enumerate() {
        for (number, column) in row.iter_mut().zip(columns) {
            *number = column[lane];
        }
    }
}
