//! Values and gradients of long lists of samples, several samples at a time.

use super::Lanes;
use crate::error::Error;
use crate::float::Float;
use crate::tape::Tape;
use crate::var::Var;

/// The values of `f` at many points, and the gradient at each of them.
///
/// `points` holds one point after the other, `width` coordinates each. `N` of them are evaluated side by side; the last
/// lanes of the last group are filled up and dropped again. Returned are one value per point and the gradients, laid
/// out as the points are. What comes out for a point does not depend on `N`, on the points beside it, or on the
/// machine's vectors, bit for bit.
///
/// ```
/// use burtorch_core::Scalar;
/// use burtorch_core::lanes::value_and_grad_batch;
///
/// // Three points with two coordinates each.
/// let points = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// let (values, gradients) = value_and_grad_batch::<8, _, _>(|x| x[0] * x[1] + x[0].square(), &points, 2)?;
/// assert_eq!(values, [3.0, 21.0, 55.0]);
/// assert_eq!(gradients, [4.0, 1.0, 10.0, 3.0, 16.0, 5.0]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::UnevenRows`] if `points` is no whole number of points, or what recording `f` left in the tape.
pub fn value_and_grad_batch<const N: usize, T, F>(
    f: F,
    points: &[T],
    width: usize,
) -> Result<(Vec<T>, Vec<T>), Error>
where
    T: Float,
    F: for<'t> Fn(&[Var<'t, Lanes<T, N>>]) -> Var<'t, Lanes<T, N>>,
{
    let rows = Rows::new(points, width)?;
    rows.differentiate(|tape, point: &[Lanes<T, N>]| {
        let variables = tape.vars(point);
        let y = f(&variables);
        (y, variables)
    })
}

/// The loss `f(parameters, sample)` of many samples, and for each of them its gradient with respect to the parameters.
///
/// `samples` holds one sample after the other, `width` numbers each. Returned are one loss per sample and, one after the
/// other, as many gradients of the length of `parameters`. All else is as in [`value_and_grad_batch`].
///
/// ```
/// use burtorch_core::Scalar;
/// use burtorch_core::lanes::per_sample_grads;
///
/// // Squared errors of a line through the samples (x, y).
/// let samples = [1.0, 2.0, 2.0, 4.0, 3.0, 7.0];
/// let (losses, gradients) = per_sample_grads::<4, _, _>(
///     |w, sample| (w[0] * sample[0] + w[1] - sample[1]).square(),
///     &[2.0, 0.0],
///     &samples,
///     2,
/// )?;
/// assert_eq!(losses, [0.0, 0.0, 1.0]);
/// assert_eq!(gradients, [0.0, 0.0, 0.0, 0.0, -6.0, -2.0]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// As [`value_and_grad_batch`].
pub fn per_sample_grads<const N: usize, T, F>(
    f: F,
    parameters: &[T],
    samples: &[T],
    width: usize,
) -> Result<(Vec<T>, Vec<T>), Error>
where
    T: Float,
    F: for<'t> Fn(&[Var<'t, Lanes<T, N>>], &[Var<'t, Lanes<T, N>>]) -> Var<'t, Lanes<T, N>>,
{
    let rows = Rows::new(samples, width)?;
    let parameters: Vec<_> = parameters.iter().map(|&w| Lanes::splat(w)).collect();
    rows.differentiate(|tape, sample| {
        let variables = tape.vars(&parameters);
        let constants: Vec<_> = sample.iter().map(|&x| tape.constant(x)).collect();
        let y = f(&variables, &constants);
        (y, variables)
    })
}

/// A list of rows of equal length.
struct Rows<'a, T> {
    numbers: &'a [T],
    width: usize,
    count: usize,
}

impl<'a, T: Float> Rows<'a, T> {
    fn new(numbers: &'a [T], width: usize) -> Result<Self, Error> {
        let found = numbers.len();
        match found.checked_div(width) {
            Some(count) if count * width == found => Ok(Self {
                numbers,
                width,
                count,
            }),
            _ => Err(Error::UnevenRows { width, found }),
        }
    }

    /// Column after column of the rows from `first` on, a row per lane; the last row fills lanes that are left over.
    fn side_by_side<const N: usize>(&self, first: usize, columns: &mut [Lanes<T, N>]) {
        for (column, lanes) in columns.iter_mut().enumerate() {
            *lanes = Lanes::from_fn(|lane| {
                let row = (first + lane).min(self.count - 1);
                self.numbers[row * self.width + column]
            });
        }
    }

    /// Values and gradients of what `record` makes of each group of rows: a result, and the variables to differentiate it by.
    fn differentiate<const N: usize>(
        &self,
        record: impl for<'t> Fn(&'t Tape<Lanes<T, N>>, &[Lanes<T, N>]) -> Recorded<'t, T, N>,
    ) -> Result<(Vec<T>, Vec<T>), Error> {
        const { assert!(N > 0, "a group needs at least one lane") };
        let (mut values, mut gradients) = (Vec::with_capacity(self.count), Vec::new());
        let mut tape = Tape::new();
        let mut columns = vec![Lanes::default(); self.width];
        for first in (0..self.count).step_by(N) {
            tape.clear();
            self.side_by_side(first, &mut columns);
            let (y, variables) = record(&tape, &columns);
            y.backward()?;
            let used = N.min(self.count - first);
            values.extend_from_slice(&y.value().as_slice()[..used]);
            append_lanes(&variables, used, &mut gradients)?;
        }
        Ok((values, gradients))
    }
}

type Recorded<'t, T, const N: usize> = (Var<'t, Lanes<T, N>>, Vec<Var<'t, Lanes<T, N>>>);

/// Appends the gradients of the variables, once for each of the first `used` lanes.
fn append_lanes<T: Float, const N: usize>(
    variables: &[Var<'_, Lanes<T, N>>],
    used: usize,
    gradients: &mut Vec<T>,
) -> Result<(), Error> {
    let (start, width) = (gradients.len(), variables.len());
    gradients.resize(start + used * width, T::ZERO);
    for (column, variable) in variables.iter().enumerate() {
        let gradient = variable.grad()?;
        for lane in 0..used {
            gradients[start + lane * width + column] = gradient[lane];
        }
    }
    Ok(())
}
