//! Scalar reverse-mode automatic differentiation: a tape with almost no overhead, a table of scalar ops, and gradient checks.
//!
//! # Conventions
#![forbid(unsafe_code)]

mod error;
mod float;
mod ops;
mod record;
mod scalar;
mod tape;
mod var;

pub use error::Error;
pub use float::Float;
pub use scalar::{Number, Operators, Scalar};
pub use tape::{Mark, NodeId, Tape};
pub use var::Var;

/// The value and the gradient of a function at `x`.
///
/// ```
/// use burtorch_core::{Scalar, value_and_grad};
///
/// let (value, gradient) = value_and_grad(|x| x[0] * x[1] + x[0].square(), &[3.0, 4.0])?;
/// assert_eq!((value, gradient), (21.0, vec![10.0, 3.0]));
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// What recording the function left in the tape: lists of different lengths, say.
pub fn value_and_grad<T, F>(f: F, x: &[T]) -> Result<(T, Vec<T>), Error>
where
    T: Scalar,
    F: for<'t> FnOnce(&[Var<'t, T>]) -> Var<'t, T>,
{
    let tape = Tape::new();
    let variables = tape.vars(x);
    let y = f(&variables);
    y.backward()?;
    let gradient = variables
        .iter()
        .map(|x| x.grad())
        .collect::<Result<_, _>>()?;
    Ok((y.value(), gradient))
}
