//! Dual numbers: a value and its derivative, carried along together.

use crate::float::Float;
use crate::lanes::Work;
use crate::ops::{
    binary_rows, constant, operator_rows, partial, reduce, reduction_rows, unary_rows,
};
use crate::scalar::{Number, Scalar};
use crate::var::Whole;

#[cfg(test)]
mod tests;

/// A value and its tangent: the derivative of the value along one direction of the inputs (forward mode).
///
/// Give the inputs their values and a direction as tangents, run any formula over [`Scalar`], and read the value and the
/// derivative along that direction off the result. No graph is recorded and no memory is needed, so one direction costs
/// a small multiple of the formula itself, however long it is; a whole gradient needs one run per input, and a
/// [`Tape`](crate::Tape) one altogether.
///
/// ```
/// use burtorch_core::{Dual, Scalar};
///
/// let x = Dual::variable(2.0_f64);
/// let y = x.cube() + 1.0 / x;
/// assert_eq!((y.value, y.tangent), (8.5, 11.75)); // 3x² − 1/x²
/// ```
///
/// The number type may be any [`Scalar`]. `Dual<Dual<f64>>` gives second derivatives along two directions; a tape of dual
/// numbers, `Tape<Dual<f64>>`, gives the derivative of the whole gradient, which is a Hessian-vector product:
///
/// ```
/// use burtorch_core::{Dual, Scalar, Tape};
///
/// let tape = Tape::new();
/// let x = tape.var(Dual::new(3.0, 1.0)); // the direction is (1, 0)
/// let y = tape.var(Dual::new(2.0, 0.0));
/// (x.square() * y).backward()?;
/// assert_eq!(x.grad()?, Dual::new(12.0, 4.0)); // 2xy, and its derivative by x
/// assert_eq!(y.grad()?, Dual::new(9.0, 6.0)); // x², and its derivative by x
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// [`jvp`](crate::jvp), [`hvp`](crate::hvp), [`jacobian_forward`](crate::jacobian_forward) and [`hessian`](crate::hessian) do this
/// for whole functions.
///
/// # Conventions
///
/// Kinks, ties and zeros follow the [table of conventions](crate#conventions), with one difference that forward mode cannot avoid. A
/// tangent of exactly zero is taken to mean that the value does not move, as that of a constant does not; so it stays zero
/// through an infinite derivative, where a tape, which knows its constants, gives NaN: √(x²) at 0 has the tangent 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dual<T> {
    /// The value.
    pub value: T,
    /// Its derivative along the direction.
    pub tangent: T,
}

impl<T: Scalar> Dual<T> {
    /// A number that moves by `tangent`.
    #[inline]
    pub fn new(value: T, tangent: T) -> Self {
        Self { value, tangent }
    }

    /// The variable with respect to which the derivative is taken: its tangent is 1.
    #[inline]
    pub fn variable(value: T) -> Self {
        Self::new(value, constant(1.0))
    }

    /// A number that does not move.
    #[inline]
    fn fixed(value: T) -> Self {
        Self::new(value, constant(0.0))
    }

    /// A function of this number, from its value and its derivative there.
    ///
    /// ```
    /// use burtorch_core::Dual;
    ///
    /// let x = Dual::variable(0.5_f64);
    /// let y = x.custom(x.value.asin(), 1.0 / (1.0 - 0.25_f64).sqrt());
    /// assert_eq!(y.tangent, 1.0 / 0.75_f64.sqrt());
    /// ```
    #[inline]
    #[must_use]
    pub fn custom(self, value: T, derivative: T) -> Self {
        Self::new(value, derivative.chain_forward(self.tangent))
    }

    /// A function of two numbers, from its value and its two derivatives.
    #[inline]
    fn binary(self, other: Self, value: T, (left, right): (T, T)) -> Self {
        let tangent = left.chain_forward(self.tangent) + right.chain_forward(other.tangent);
        Self::new(value, tangent)
    }

    /// What stands for a function of lists whose lengths do not fit: `value` is what the inner numbers make of it.
    #[cold]
    fn mismatch(value: T) -> Self {
        Self::new(value, value)
    }
}

/// The values of a list, for the number type below to refuse in its own way.
#[cold]
fn values<T: Scalar>(xs: &[Dual<T>]) -> Vec<T> {
    xs.iter().map(|x| x.value).collect()
}

macro_rules! dual_operators {
    ($($name:ident { [$operator:ident $symbol:tt $assign:ident $assign_method:ident] $($row:tt)* })*) => {$(
        impl<T: Scalar> std::ops::$operator for Dual<T> {
            type Output = Self;

            #[inline]
            fn $name(self, other: Self) -> Self {
                let (a, b) = (self.value, other.value);
                let y = a $symbol b;
                self.binary(other, y, partial::$name(a, b, y))
            }
        }

        impl<C: Float, T: Scalar<Primal = C>> std::ops::$operator<C> for Dual<T> {
            type Output = Self;

            #[inline]
            fn $name(self, c: C) -> Self {
                let (a, b) = (self.value, T::constant(c));
                let y = a $symbol c;
                self.custom(y, partial::$name(a, b, y).0)
            }
        }

        impl<T: Scalar, R> std::ops::$assign<R> for Dual<T>
        where
            Self: std::ops::$operator<R, Output = Self>,
        {
            #[inline]
            fn $assign_method(&mut self, other: R) {
                *self = *self $symbol other;
            }
        }

        constant_on_the_left! { f32 $operator $name $symbol }
        constant_on_the_left! { f64 $operator $name $symbol }
    )*};
}

macro_rules! constant_on_the_left {
    ($float:ident $operator:ident $name:ident $symbol:tt) => {
        impl<T: Scalar<Primal = $float>> std::ops::$operator<Dual<T>> for $float {
            type Output = Dual<T>;

            #[inline]
            fn $name(self, x: Dual<T>) -> Dual<T> {
                Dual::fixed(T::constant(self)) $symbol x
            }
        }
    };
}

operator_rows! { dual_operators }

impl<T: Scalar> std::ops::Neg for Dual<T> {
    type Output = Self;

    #[inline]
    fn neg(self) -> Self {
        Self::new(-self.value, -self.tangent)
    }
}

macro_rules! dual_unary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline]
        fn $name(self) -> Self {
            let y = self.value.$name();
            self.custom(y, partial::$name(self.value, y))
        }
    )*};
}

macro_rules! dual_binary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline]
        fn $name(self, other: Self) -> Self {
            let (a, b) = (self.value, other.value);
            let y = a.$name(b);
            self.binary(other, y, partial::$name(a, b, y))
        }
    )*};
}

/// Ops over many numbers run their formula on dual numbers: unlike the partial derivatives, that takes no memory.
macro_rules! dual_reduction {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[inline]
        fn $name(xs: &[Self]) -> Self {
            reduce::value::$name(xs.len(), |i| xs[i])
        }
    )*};
}

impl<T: Scalar> Number for Dual<T> {
    type Primal = T::Primal;
}

impl<T: Scalar> Scalar for Dual<T> {
    type Held = Whole<Self>;

    #[inline(always)]
    fn compiled<W: Work>(work: W) -> W::Output {
        T::compiled(work)
    }

    #[inline(always)]
    fn compiled_side_by_side<W: Work>(work: W) -> W::Output {
        T::compiled_side_by_side(work)
    }

    #[inline]
    fn primal(self) -> T::Primal {
        self.value.primal()
    }
    #[inline]
    fn constant(c: T::Primal) -> Self {
        Self::fixed(T::constant(c))
    }
    #[inline]
    fn stop_gradient(self) -> Self {
        Self::fixed(self.value.stop_gradient())
    }
    #[inline]
    fn is_zero(self) -> bool {
        self.value.is_zero() && self.tangent.is_zero()
    }
    #[inline]
    fn all_positive(self) -> Option<bool> {
        self.value.all_positive()
    }
    #[inline]
    fn all_finite(self) -> bool {
        self.value.all_finite() && self.tangent.all_finite()
    }
    #[inline]
    fn at_least(self, other: Self) -> Self {
        Self::fixed(self.value.at_least(other.value))
    }
    #[inline]
    fn chain(self, outer: Self) -> Self {
        self.binary(
            outer,
            self.value.chain(outer.value),
            (outer.value, self.value),
        )
    }
    #[inline]
    fn chain_forward(self, tangent: Self) -> Self {
        let value = self.value.chain_forward(tangent.value);
        self.binary(tangent, value, (tangent.value, self.value))
    }
    #[inline]
    fn select(self, on_positive: Self, otherwise: Self) -> Self {
        let of = |a: T, b: T| self.value.select(a, b);
        Self::new(
            of(on_positive.value, otherwise.value),
            of(on_positive.tangent, otherwise.tangent),
        )
    }

    #[inline(always)]
    fn exp_each<const N: usize>(mut xs: [Self; N]) -> [Self; N] {
        let values: [T; N] = T::exp_each(std::array::from_fn(|i| xs[i].value));
        for (x, y) in xs.iter_mut().zip(values) {
            *x = x.custom(y, partial::exp(x.value, y));
        }
        xs
    }

    unary_rows! { dual_unary }

    #[inline]
    fn powi(self, n: i32) -> Self {
        let y = self.value.powi(n);
        self.custom(y, partial::powi(self.value, y, n))
    }
    #[inline]
    fn powf(self, c: T::Primal) -> Self {
        self.custom(self.value.powf(c), partial::powf(self.value, c))
    }

    binary_rows! { dual_binary }

    reduction_rows! { dual_reduction }

    fn softmax(xs: &[Self], out: &mut [Self]) {
        if xs.len() == out.len() {
            reduce::weights(|i| xs[i], out);
            return;
        }
        let mut refused = values(out);
        T::softmax(&values(xs), &mut refused);
        for (y, value) in out.iter_mut().zip(refused) {
            *y = Self::mismatch(value);
        }
    }
    fn softmax_at(xs: &[Self], index: usize) -> Self {
        match xs.get(index) {
            Some(&x) => reduce::Exponentials::of(xs.len(), |i| xs[i]).weight(x),
            None => Self::mismatch(T::softmax_at(&values(xs), index)),
        }
    }

    fn dot(a: &[Self], b: &[Self]) -> Self {
        if a.len() != b.len() {
            return Self::mismatch(T::dot(&values(a), &values(b)));
        }
        reduce::value::dot(a.len(), |i| a[i], |i| b[i])
    }
    fn dot_bias(a: &[Self], b: &[Self], bias: Self) -> Self {
        Self::dot(a, b) + bias
    }
}
