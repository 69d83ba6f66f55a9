//! Scalar reverse-mode automatic differentiation: a tape with almost no overhead, a table of scalar ops, and gradient checks.
//!
//! Write a formula once over [`Scalar`]; run it on `f32` or `f64`, or on the variables of a [`Tape`] for its gradient:
//!
//! ```
//! use burtorch_core::{Error, Scalar, Tape};
//!
//! fn loss<S: Scalar>(w: &[S], x: &[S]) -> S {
//!     (S::dot_bias(&w[..2], x, w[2]).tanh() + S::mean_of_squares(w)).softplus()
//! }
//!
//! fn main() -> Result<(), Error> {
//!     let tape = Tape::new();
//!     let weights = tape.vars(&[0.5, -1.0, 0.25]);
//!     let inputs = [tape.constant(2.0), tape.constant(3.0)];
//!     let y = loss(&weights, &inputs);
//!     y.backward()?;
//!     assert_eq!(y.value(), loss(&[0.5, -1.0, 0.25], &[2.0, 3.0]));
//!     assert!(weights[0].grad()? > 0.0);
//!     Ok(())
//! }
//! ```
//!
//! - [`value_and_grad`] is the same in one line; [`gradcheck`] compares a gradient with differences of the function.
//! - [`Tape`] explains recording, marks, and gradients that add up; [`Var`] which values have a gradient of their own.
//! - [`StackTape`] is a tape of fixed size that the compiler can turn into straight-line code: small graphs in a few nanoseconds.
//! - [`Run`]s are variables one after the other: layers of networks and dot products at little more than they cost by hand.
//! - [`Scalar`] lists the ops. [`graph::Graph`] is a recording to draw and look through.
//! - [`find_non_finite`](graph::find_non_finite) names the op, label and line that an infinity or NaN comes from.
//! - [`Dual`] numbers carry a derivative along: [`jvp`] and [`jacobian_forward`] with them, [`jacobian`] by a tape.
//! - [`Program`] is a function recorded once and evaluated at many inputs; the module [`program`] explains it.
//! - [`lanes::Lanes`] are several samples side by side in one recording or program; [`lanes::value_and_grad_batch`] cuts long lists
//!   of samples into lanes.
//! - [`save_numbers`] and [`load_numbers`] keep values and gradients in files that are checked when they are read.
//!
//! For second derivatives, [`hvp`] multiplies the Hessian with a direction and [`hessian`] gives all of it. They record on a tape of
//! dual numbers; everything here is generic over the number type, so a tape of tape variables, `Tape<Var<f64>>`, works too.
//!
//! ```
//! use burtorch_core::{Scalar, hvp};
//!
//! fn energy<S: Scalar>(x: &[S]) -> S {
//!     x[0].cube() * x[1] + x[1].exp()
//! }
//! let at = hvp(|x| energy(x), &[3.0, 0.0], &[1.0, 2.0])?;
//! assert_eq!(at.gradient, [0.0, 28.0]); // 3x²y, x³ + eʸ
//! assert_eq!(at.product, [54.0, 29.0]); // (6xy, 3x²)·(1, 2), (3x², eʸ)·(1, 2)
//! # Ok::<(), burtorch_core::Error>(())
//! ```
//!
//! # Conventions
//!
//! What is computed where mathematics leaves a choice:
//!
//! | case | value | derivative |
//! |---|---|---|
//! | `relu` at 0; `abs` at 0 | 0 | 0 |
//! | `max`, `min` of equal numbers | that number | 1 for the first, 0 for the second |
//! | `max`, `min` with a NaN | NaN | 1 for the NaN (the first of two), 0 for the other |
//! | `select(c, a, b)` with c = 0 or NaN | b | 1 for b; nothing for a or c |
//! | `sqrt` at 0 | 0 | +∞ |
//! | `norm` of zeros, or of nothing | 0 | 0 |
//! | `powi(0)`, `powf(0)` | 1 | 0 |
//! | `pow`: 0⁰ | 1 | 0 for base and exponent |
//! | `pow`: 0ᵉ, e > 0 | 0 | base e·0ᵉ⁻¹ (0, 1 or +∞); exponent 0 |
//! | `pow`: 0ᵉ, e < 0 | +∞ | −∞ for both |
//! | `pow`: negative base | as `powf` of std: NaN unless e is whole | exponent NaN, where it is a variable |
//! | 1/0; 0/0 | +∞; NaN | +∞ and −∞; NaN |
//! | `product` with zeros | 0 | the product of the other factors |
//! | `logsumexp` of −∞ only, or of nothing | −∞ | 0 |
//! | `softmax` of −∞ only | 0 | 0 |
//! | `relu` of NaN | NaN | 0 |
//! | `norm`, `logsumexp` with an infinity | as mathematics says | NaN |
//! | `pow(NaN, 0)` | 1 | NaN for both |
//! | `max`, `min`, `select` of values of two tapes | the chosen value, on its own tape | as that tape says |
//! | `sum`, `product` of nothing | 0, 1 | |
//! | `mean`, `mean_of_squares`, `variance` of nothing | NaN | |
//! | `dot`, `softmax` of different lengths; `softmax_at` beyond the end | NaN | an [`Error`] from the tape |
//! | `affine`, `layer_norm`, `causal_attention` of lists that do not fit | NaN | an [`Error`] from the tape |
//! | a branch whose outer derivative is exactly 0 | | 0, even if its own is infinite or NaN (on a tape of tapes: in its first derivative) |
//! | an infinite outer derivative times an inner 0 | | NaN; 0 in forward mode, see [`Dual`](Dual#conventions) |
//!
//! Subnormal numbers are computed with, never flushed. Sums are added pairwise (those of `affine` on a tape in blocks). A mistake in recording (tapes mixed, a full tape)
//! yields NaN at once and its [`Error`] from the next `backward`, `grad` or `check`; nothing here panics.
#![deny(unsafe_code)]

mod atomic_file;
mod check;
mod checksum;
mod derivatives;
mod dual;
mod error;
mod float;
pub mod graph;
pub mod lanes;
mod matrix_view;
mod ops;
pub mod program;
#[cfg(test)]
mod random;
mod record;
mod save;
mod scalar;
mod stack;
mod tape;
mod var;

pub use atomic_file::Durability;
pub use check::{GradCheck, Report, gradcheck};
pub use derivatives::{Curvature, HessianVector, hessian, hvp, jacobian, jacobian_forward, jvp};
pub use dual::Dual;
pub use error::Error;
pub use float::Float;
pub use matrix_view::MatrixView;
pub use program::Program;
pub use save::{load_numbers, save_gradients, save_numbers, save_values};
pub use scalar::{Number, Operators, Scalar};
pub use stack::{StackTape, StackVar};
pub use tape::{Mark, NodeId, Run, Tape};
pub use var::{Handles, Var};

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

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
