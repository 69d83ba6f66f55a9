//! Gradients by the tape against differences of the function.

use crate::error::Error;
use crate::tape::Tape;
use crate::var::Var;

/// Compares the gradient of a function with differences of its values, in `f64`.
///
/// The derivative in each coordinate is estimated by the five-point rule
/// (f(x−2h) − 8f(x−h) + 8f(x+h) − f(x+2h)) / 12h, whose error is of order h⁴. Choose points that tell a right derivative from a
/// wrong one: a ReLU whose derivative is its output passes at 1 and fails at 2.
///
/// ```
/// use burtorch_core::{Scalar, Var, gradcheck};
///
/// // The derivative of max(x, 0) is not max(x, 0).
/// fn wrong_relu<'t>(x: Var<'t, f64>) -> Var<'t, f64> {
///     let y = x.value().max(0.0);
///     x.custom(y, y)
/// }
/// assert!(gradcheck(|x| wrong_relu(x[0]), &[1.0]).is_ok());
/// assert!(gradcheck(|x| wrong_relu(x[0]), &[2.0]).is_err());
/// assert!(gradcheck(|x| x[0].relu(), &[2.0]).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradCheck {
    /// h at coordinates up to 1 in size; beyond, it grows with the coordinate.
    pub step: f64,
    /// Largest difference accepted, as a multiple of the largest of 1, the value's and the derivative's size.
    pub tolerance: f64,
}

impl Default for GradCheck {
    /// A step of 1e-4 and a tolerance of 1e-7.
    fn default() -> Self {
        Self {
            step: 1e-4,
            tolerance: 1e-7,
        }
    }
}

/// A gradient that agreed with differences.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The function's value.
    pub value: f64,
    /// Its gradient by the tape.
    pub gradient: Vec<f64>,
    /// Its gradient by differences.
    pub differences: Vec<f64>,
    /// The coordinate in which they differ most, in units of what is accepted there; 0 if there is none.
    pub worst: usize,
}

/// [`GradCheck::run`] with the default step and tolerance.
///
/// # Errors
///
/// As there.
pub fn gradcheck<F>(f: F, x: &[f64]) -> Result<Report, Error>
where
    F: for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>,
{
    GradCheck::default().run(f, x)
}

impl GradCheck {
    /// Checks the gradient of `f` at `x`.
    ///
    /// # Errors
    ///
    /// [`Error::WrongGradient`] with the worst coordinate, also if its derivative or difference is NaN; or what recording left in the tape.
    pub fn run<F>(&self, f: F, x: &[f64]) -> Result<Report, Error>
    where
        F: for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>,
    {
        let (value, gradient) = crate::value_and_grad(&f, x)?;
        let differences: Vec<f64> = (0..x.len()).map(|i| self.difference(&f, x, i)).collect();
        let accepted = |i: usize| self.tolerance * value.abs().max(differences[i].abs()).max(1.0);
        let excess = |&i: &usize| match (gradient[i] - differences[i]).abs() / accepted(i) {
            // A NaN must count as the worst of all.
            ratio if ratio.is_nan() => f64::INFINITY,
            ratio => ratio,
        };
        let worst = (0..x.len())
            .max_by(|i, j| excess(i).total_cmp(&excess(j)))
            .unwrap_or(0);
        if x.is_empty() || excess(&worst) <= 1.0 {
            return Ok(Report {
                value,
                gradient,
                differences,
                worst,
            });
        }
        let (expected, found) = (differences[worst], gradient[worst]);
        Err(Error::WrongGradient {
            coordinate: worst,
            expected,
            found,
            tolerance: accepted(worst),
        })
    }

    /// The five-point difference in coordinate `i`.
    fn difference<F>(&self, f: &F, x: &[f64], i: usize) -> f64
    where
        F: for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>,
    {
        let step = self.step * x[i].abs().max(1.0);
        five_point(step, |offset| {
            let mut moved = x.to_vec();
            moved[i] += offset;
            f(&Tape::new().vars(&moved)).value()
        })
    }
}

/// The derivative at 0 of a function, to order h⁴.
pub(crate) fn five_point(h: f64, f: impl Fn(f64) -> f64) -> f64 {
    (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::Scalar;

    /// The derivative of the reference C++ implementation: upstream times output.
    fn relu_times_output<'t>(x: Var<'t, f64>) -> Var<'t, f64> {
        let y = x.value().max(0.0);
        x.custom(y, y)
    }

    #[test]
    fn a_wrong_relu_passes_at_one_and_fails_at_two() {
        assert!(gradcheck(|x| relu_times_output(x[0]), &[1.0]).is_ok());
        let error = gradcheck(|x| x[0] + relu_times_output(x[1]), &[5.0, 2.0]);
        let Err(Error::WrongGradient {
            coordinate,
            expected,
            found,
            ..
        }) = error
        else {
            panic!("accepted: {error:?}")
        };
        assert_eq!(coordinate, 1);
        assert!((expected - 1.0).abs() < 1e-9);
        assert_eq!(found, 2.0);
    }

    #[test]
    fn nan_is_never_accepted() {
        assert!(gradcheck(|x| x[0].custom(x[0].value(), f64::NAN), &[1.0]).is_err());
        assert!(gradcheck(|x| x[0].ln(), &[-1.0]).is_err());
    }

    #[test]
    fn a_right_gradient_is_reported() {
        let report = gradcheck(|x| x[0].sin() * x[1].exp(), &[1.0, 2.0]).unwrap();
        assert_eq!(report.gradient[0], 1.0_f64.cos() * 2.0_f64.exp());
        assert!(gradcheck(|x| Var::sum(x), &[]).is_ok());
    }
}
