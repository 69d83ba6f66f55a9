//! Comparisons that fail with the place and the size of the difference.

use burtorch_tensor::{Element, Params};

use crate::Outcome;

/// Requires `|found − expected| ≤ tolerance · max |expected|` for every element; a NaN or an infinity on one side only is
/// a difference.
///
/// # Errors
/// The position, both values and the scale of the first element that is too far off, or both lengths if they differ.
pub fn close<T: Element>(what: &str, found: &[T], expected: &[f64], tolerance: f64) -> Outcome {
    close_at(what, found, expected, tolerance, scale_of(expected))
}

/// The largest finite magnitude.
fn scale_of(numbers: &[f64]) -> f64 {
    numbers
        .iter()
        .filter(|x| x.is_finite())
        .fold(0.0, |scale, x| scale.max(x.abs()))
}

fn close_at<T: Element>(
    what: &str,
    found: &[T],
    expected: &[f64],
    tolerance: f64,
    scale: f64,
) -> Outcome {
    if found.len() != expected.len() {
        return Err(format!(
            "{what}: expected {} numbers, found {}",
            expected.len(),
            found.len()
        )
        .into());
    }
    for (position, (found, &expected)) in found.iter().map(|x| x.to_f64()).zip(expected).enumerate()
    {
        // NaN is neither near nor equal.
        let near = (found - expected).abs() <= tolerance * scale;
        if !near && found != expected {
            let judged = format!("at a scale of {scale:e} and a tolerance of {tolerance:e}");
            return Err(format!(
                "{what}[{position}]: expected {expected:e}, found {found:e}, {judged}"
            )
            .into());
        }
    }
    Ok(())
}

/// The tolerance of a comparison in `T`, which is `f64` or `f32`.
#[must_use]
pub fn tolerance<T: Element>(double: f64, single: f64) -> f64 {
    if T::NAME == "f64" { double } else { single }
}

/// How far below the whole buffer a tensor may be before it is judged by the whole: terms of that size that cancel leave
/// their rounding behind, and nothing else.
const CANCELLED: f64 = 1e-4;

/// [`close`] for each tensor of two flat buffers by itself, so that a small gradient is not judged by a large one.
///
/// # Errors
/// As [`close`], naming the tensor.
pub fn close_by_tensor<T: Element, U: Element>(
    params: &Params<U>,
    found: &[T],
    expected: &[f64],
    tolerance: f64,
) -> Outcome {
    if (found.len(), expected.len()) != (params.len(), params.len()) {
        let (layout, found, expected) = (params.len(), found.len(), expected.len());
        return Err(format!(
            "{layout} parameters, but {found} numbers to be compared with {expected}"
        )
        .into());
    }
    let floor = CANCELLED * scale_of(expected);
    params.entries().iter().try_for_each(|entry| {
        let (found, expected) = (&found[entry.range()], &expected[entry.range()]);
        close_at(
            &entry.name,
            found,
            expected,
            tolerance,
            scale_of(expected).max(floor),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_tensor::Shape;

    #[test]
    fn accepts_what_is_within_the_tolerance() -> Outcome {
        close("x", &[1.0, -2.0], &[1.0 + 1e-9, -2.0], 1e-9)?;
        close("x", &[f64::INFINITY], &[f64::INFINITY], 0.0)?;
        close("x", &[0.0_f32], &[0.0], 0.0)
    }

    #[test]
    fn rejects_what_is_not() {
        let rejected: [(&[f64], &[f64]); 6] = [
            (&[1.0, -2.0], &[1.0 + 1e-8, -2.0]),
            (&[f64::NAN], &[1.0]),
            (&[1.0], &[f64::NAN]),
            (&[f64::INFINITY, 1.0], &[1e300, 1.0]),
            (&[1.0], &[1.0, 1.0]),
            (&[1e-300], &[0.0]),
        ];
        for (found, expected) in rejected {
            assert!(
                close("x", found, expected, 1e-9).is_err(),
                "{found:?} passes for {expected:?}"
            );
        }
    }

    #[test]
    fn judges_each_tensor_by_its_own_scale() -> Outcome {
        let mut params = Params::<f64>::new();
        params.add("large", Shape::new(&[1])?, &[0.0])?;
        params.add("small", Shape::new(&[1])?, &[0.0])?;
        close_by_tensor(&params, &[1.0 + 1e-10, 1e-3], &[1.0, 1e-3], 1e-9)?;
        let wrong = close_by_tensor(&params, &[1.0, 1e-3 + 1e-10], &[1.0, 1e-3], 1e-9);
        let message = wrong.unwrap_err().to_string();
        assert!(message.starts_with("small[0]"), "{message}");
        assert!(close_by_tensor(&params, &[1.0], &[1.0], 1e-9).is_err());
        Ok(())
    }

    #[test]
    fn judges_what_has_cancelled_by_the_whole() -> Outcome {
        let mut params = Params::<f64>::new();
        params.add("large", Shape::new(&[1])?, &[0.0])?;
        params.add("cancelled", Shape::new(&[1])?, &[0.0])?;
        close_by_tensor(&params, &[1.0, 3e-17], &[1.0, -2e-17], 1e-10)?;
        assert!(close_by_tensor(&params, &[1.0, 3e-14], &[1.0, -2e-17], 1e-10).is_err());
        Ok(())
    }
}
