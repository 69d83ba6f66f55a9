//! Derivatives of whole functions: along a direction, of several results, and of second order.
//!
//! What each costs, for a function of n inputs and m results, as multiples of one recorded evaluation:
//!
//! | | runs | sweeps |
//! |---|---|---|
//! | [`jvp`] | 1, nothing recorded | 0 |
//! | [`jacobian`] | 1 | m |
//! | [`jacobian_forward`] | n, nothing recorded | 0 |
//! | [`hvp`] | 1, of double width | 1, of double width |
//! | [`hessian`] | n + 1, of double width | n + 1, of double width |

use crate::dual::Dual;
use crate::error::Error;
use crate::ops::constant;
use crate::scalar::Scalar;
use crate::tape::Tape;
use crate::var::Var;

/// What [`hvp`] finds at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct HessianVector<T> {
    /// The function's value.
    pub value: T,
    /// Its gradient.
    pub gradient: Vec<T>,
    /// The product of its Hessian with the direction.
    pub product: Vec<T>,
}

/// What [`hessian`] finds at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Curvature<T> {
    /// The function's value.
    pub value: T,
    /// Its gradient.
    pub gradient: Vec<T>,
    /// Its second derivatives: entry `[i][j]` is by the inputs i and j.
    pub hessian: Vec<Vec<T>>,
}

/// The results of a function at `x` and their derivatives along `direction`: the product of its Jacobian with `direction`, in
/// one run without a tape.
///
/// `f` returns an array or a vector.
///
/// ```
/// use burtorch_core::{Scalar, jvp};
///
/// let (values, derivatives) = jvp(|x| [x[0] * x[1], x[0].square()], &[3.0, 2.0], &[1.0, -1.0])?;
/// assert_eq!(values, [6.0, 9.0]);
/// assert_eq!(derivatives, [2.0 - 3.0, 6.0]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::LengthMismatch`] if `direction` is not as long as `x`.
pub fn jvp<T, Y, F>(f: F, x: &[T], direction: &[T]) -> Result<(Vec<T>, Vec<T>), Error>
where
    T: Scalar,
    Y: AsRef<[Dual<T>]>,
    F: FnOnce(&[Dual<T>]) -> Y,
{
    let moving = moving("jvp", x, direction)?;
    Ok(f(&moving)
        .as_ref()
        .iter()
        .map(|y| (y.value, y.tangent))
        .unzip())
}

/// The Jacobian of a function at `x`, in reverse mode: entry `[i][j]` is the derivative of result i by input j.
///
/// The function is recorded once, and each row is one sweep back over what its result depends on. With many more results than
/// inputs, [`jacobian_forward`] is faster.
///
/// ```
/// use burtorch_core::{Scalar, jacobian};
///
/// let rows = jacobian(|x| vec![x[0] * x[1], x[0].square()], &[3.0, 2.0])?;
/// assert_eq!(rows, [[2.0, 3.0], [6.0, 0.0]]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// What recording the function left in the tape.
pub fn jacobian<T, F>(f: F, x: &[T]) -> Result<Vec<Vec<T>>, Error>
where
    T: Scalar,
    F: for<'t> FnOnce(&[Var<'t, T>]) -> Vec<Var<'t, T>>,
{
    let tape = Tape::new();
    let variables = tape.vars(x);
    let results = f(&variables);
    let row = |y: Var<'_, T>| {
        tape.zero_grads();
        tape.backward(&[y], &[constant(1.0)])?;
        gradients(&variables)
    };
    results.into_iter().map(row).collect()
}

/// The Jacobian of a function at `x`, in forward mode: entry `[i][j]` is the derivative of result i by input j.
///
/// The function runs once for each input, without a tape. With more inputs than results, [`jacobian`] is faster.
///
/// `f` returns an array or a vector, of the same length each time.
///
/// ```
/// use burtorch_core::{Scalar, jacobian_forward};
///
/// let rows = jacobian_forward(|x| [x[0].sin(), x[0].cos(), x[0].exp()], &[0.0])?;
/// assert_eq!(rows, [[1.0], [0.0], [1.0]]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::LengthMismatch`] if `f` returns different numbers of results.
pub fn jacobian_forward<T, Y, F>(f: F, x: &[T]) -> Result<Vec<Vec<T>>, Error>
where
    T: Scalar,
    Y: AsRef<[Dual<T>]>,
    F: Fn(&[Dual<T>]) -> Y,
{
    let mut moving = moving("jacobian_forward", x, &vec![constant(0.0); x.len()])?;
    let rows = f(&moving).as_ref().len();
    let mut jacobian = vec![Vec::with_capacity(x.len()); rows];
    for j in 0..x.len() {
        moving[j].tangent = constant(1.0);
        let column = f(&moving);
        let column = column.as_ref();
        same_length("jacobian_forward", rows, column.len())?;
        for (row, y) in jacobian.iter_mut().zip(column) {
            row.push(y.tangent);
        }
        moving[j].tangent = constant(0.0);
    }
    Ok(jacobian)
}

/// The product of the Hessian of a function at `x` with `direction`, with its value and gradient (forward over reverse).
///
/// The function is recorded on a tape of dual numbers, so all three together cost about two gradients, whatever the number of inputs;
/// the Hessian itself is never formed.
///
/// ```
/// use burtorch_core::{Scalar, hvp};
///
/// let at = hvp(|x| x[0].square() * x[1], &[3.0, 2.0], &[1.0, 0.0])?;
/// assert_eq!(at.value, 18.0);
/// assert_eq!(at.gradient, [12.0, 9.0]); // 2xy, x²
/// assert_eq!(at.product, [4.0, 6.0]); // the first column of the Hessian
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// For many products in a row, keep a `Tape<Dual<f64>>`: once it was [cleared](Tape::clear), it records again without allocating.
///
/// # Errors
///
/// [`Error::LengthMismatch`] if `direction` is not as long as `x`, or what recording the function left in the tape.
pub fn hvp<T, F>(f: F, x: &[T], direction: &[T]) -> Result<HessianVector<T>, Error>
where
    T: Scalar,
    F: for<'t> FnOnce(&[Var<'t, Dual<T>>]) -> Var<'t, Dual<T>>,
{
    let (y, slopes) = dual_gradient(&Tape::new(), f, &moving("hvp", x, direction)?)?;
    let (gradient, product) = slopes.into_iter().map(|g| (g.value, g.tangent)).unzip();
    Ok(HessianVector {
        value: y.value,
        gradient,
        product,
    })
}

/// The Hessian of a function at `x`, with its value and gradient: one [`hvp`] for each input, on one tape.
///
/// Its two halves are computed independently of each other and agree up to rounding.
///
/// ```
/// use burtorch_core::{Scalar, hessian};
///
/// let at = hessian(|x| x[0].square() * x[1], &[3.0, 2.0])?;
/// assert_eq!((at.value, at.gradient), (18.0, vec![12.0, 9.0]));
/// assert_eq!(at.hessian, [[4.0, 6.0], [6.0, 0.0]]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// What recording the function left in the tape.
pub fn hessian<T, F>(f: F, x: &[T]) -> Result<Curvature<T>, Error>
where
    T: Scalar,
    F: for<'t> Fn(&[Var<'t, Dual<T>>]) -> Var<'t, Dual<T>>,
{
    let mut tape = Tape::new();
    let mut moving = moving("hessian", x, &vec![constant(0.0); x.len()])?;
    let (y, slopes) = dual_gradient(&tape, &f, &moving)?;
    let mut rows = Vec::with_capacity(x.len());
    for i in 0..x.len() {
        tape.clear();
        moving[i].tangent = constant(1.0);
        let (_, slopes) = dual_gradient(&tape, &f, &moving)?;
        rows.push(slopes.iter().map(|slope| slope.tangent).collect());
        moving[i].tangent = constant(0.0);
    }
    Ok(Curvature {
        value: y.value,
        gradient: slopes.iter().map(|slope| slope.value).collect(),
        hessian: rows,
    })
}

/// The inputs, each with the tangent it moves by.
fn moving<T: Scalar>(op: &'static str, x: &[T], direction: &[T]) -> Result<Vec<Dual<T>>, Error> {
    same_length(op, x.len(), direction.len())?;
    let pairs = x.iter().zip(direction);
    Ok(pairs.map(|(&x, &by)| Dual::new(x, by)).collect())
}

fn same_length(op: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::LengthMismatch {
        op,
        expected,
        found,
    })
}

/// A function's value and gradient, and how both change along the tangents of `x`.
fn dual_gradient<T, F>(
    tape: &Tape<Dual<T>>,
    f: F,
    x: &[Dual<T>],
) -> Result<(Dual<T>, Vec<Dual<T>>), Error>
where
    T: Scalar,
    F: for<'t> FnOnce(&[Var<'t, Dual<T>>]) -> Var<'t, Dual<T>>,
{
    let variables = tape.vars(x);
    let y = f(&variables);
    y.backward()?;
    Ok((y.value(), gradients(&variables)?))
}

fn gradients<T: Scalar>(variables: &[Var<'_, T>]) -> Result<Vec<T>, Error> {
    variables.iter().map(|x| x.grad()).collect()
}
