//! The trait [`Scalar`]: one formula, written once, for plain numbers and for everything that records.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use crate::float::{Float, Special};
use crate::lanes::{Lanes, Work, dispatch};
use crate::matrix_view::MatrixView;
use crate::ops::{BEYOND, binary_rows, gelu_argument, layers, reduce, reduction_rows, unary_rows};
use crate::var::{Held, Whole};

/// The plain number a [`Scalar`] is made of.
///
/// It is a trait of its own because the operators of [`Scalar`] mention it.
pub trait Number: Copy + Debug {
    /// `f32` or `f64`.
    type Primal: Float;
}

/// The four operators and their assignments with `Rhs` on the right-hand side. Implemented for whatever has them.
pub trait Operators<Rhs>:
    Add<Rhs, Output = Self>
    + Sub<Rhs, Output = Self>
    + Mul<Rhs, Output = Self>
    + Div<Rhs, Output = Self>
    + AddAssign<Rhs>
    + SubAssign<Rhs>
    + MulAssign<Rhs>
    + DivAssign<Rhs>
{
}

impl<S, Rhs> Operators<Rhs> for S where
    S: Add<Rhs, Output = S>
        + Sub<Rhs, Output = S>
        + Mul<Rhs, Output = S>
        + Div<Rhs, Output = S>
        + AddAssign<Rhs>
        + SubAssign<Rhs>
        + MulAssign<Rhs>
        + DivAssign<Rhs>
{
}

/// Turns the rows of ops with one argument into trait methods.
macro_rules! declare_unary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {
        $($(#[$doc])* #[track_caller] fn $name(self) -> Self;)*
    };
}

/// Turns the rows of ops with two arguments into trait methods.
macro_rules! declare_binary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {
        $($(#[$doc])* #[track_caller] fn $name(self, other: Self) -> Self;)*
    };
}

/// Turns the rows of ops over a slice into trait functions.
macro_rules! declare_reduction {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {
        $($(#[$doc])* #[track_caller] fn $name(xs: &[Self]) -> Self;)*
    };
}

/// A number that may record what is done to it.
///
/// Its methods pass on where they were called (`#[track_caller]`), which a [`Graph`](crate::graph::Graph) keeps.
///
/// A function over a `Scalar` runs on `f32`, on `f64`, on tape variables ([`Var`](crate::Var)) and on the nodes of a
/// drawing ([`Node`](crate::graph::Node)). Operators take another scalar or a plain number on the right.
/// The rules for kinks, ties and zeros are in the [table of conventions](crate#conventions).
///
/// It is sealed: the numbers and recorders of this crate are all scalars there are, and the tape's unchecked code relies on that.
///
/// Some methods share their names with inherent ones of `f32` and `f64` and compute the same, with one exception:
/// [`max`](Self::max) and [`min`](Self::min) hand on a NaN, the inherent ones drop it.
///
/// ```
/// use burtorch_core::{Float, Scalar, value_and_grad};
///
/// fn rosenbrock<S: Scalar>(x: S, y: S) -> S {
///     (x - x.constant_like(S::Primal::from_f64(1.0))).square() + (y - x.square()).square() * S::Primal::from_f64(100.0)
/// }
/// assert_eq!(rosenbrock(1.0, 2.0), 100.0);
/// let (value, gradient) = value_and_grad(|x| rosenbrock(x[0], x[1]), &[1.0, 2.0])?;
/// assert_eq!((value, gradient), (100.0, vec![-400.0, 200.0]));
/// # Ok::<(), burtorch_core::Error>(())
/// ```
pub trait Scalar:
    Number + Operators<Self> + Operators<<Self as Number>::Primal> + Neg<Output = Self>
{
    /// What a handle of a tape of such numbers holds of its value.
    #[doc(hidden)]
    type Held: Held<Self>;

    /// The plain value; of a scalar that holds several numbers, the first.
    ///
    /// Formulas that branch on it are not the same function everywhere; prefer [`select`](Self::select),
    /// [`max`](Self::max) and [`min`](Self::min).
    fn primal(self) -> Self::Primal;

    /// A number that never changes: nothing is recorded for it and it has no gradient.
    fn constant(c: Self::Primal) -> Self;

    /// [`constant`](Self::constant), for code that has a value at hand rather than a type.
    #[inline]
    fn constant_like(self, c: Self::Primal) -> Self {
        Self::constant(c)
    }

    /// The same value, through which no gradient flows.
    fn stop_gradient(self) -> Self;

    /// Whether this is exactly zero in every part, so that its multiples may be left out.
    fn is_zero(self) -> bool;

    /// `Some(true)` if every number in this is greater than zero, `Some(false)` if none is, `None` if they differ or might: of
    /// [`Lanes`](crate::lanes::Lanes) always, so that what is recorded does not depend on which samples stand side by side.
    fn all_positive(self) -> Option<bool>;

    /// Whether every number in this is finite: neither infinite nor NaN.
    #[inline]
    fn all_finite(self) -> bool {
        self.primal().is_finite()
    }

    /// 1 where this is at least `other` or NaN, 0 elsewhere; a constant.
    fn at_least(self, other: Self) -> Self;

    /// This times `outer`, but exactly zero wherever `outer` is zero, even if this is infinite or NaN.
    ///
    /// It is the chain rule with the convention that a dead branch contributes nothing.
    #[inline]
    fn chain(self, outer: Self) -> Self {
        if outer.is_zero() { outer } else { self * outer }
    }

    /// This times `tangent`, but exactly zero wherever either is zero, even if the other is infinite or NaN.
    ///
    /// It is the chain rule of forward mode ([`Dual`](crate::Dual)), where a tangent of zero means that nothing there moves.
    #[inline]
    fn chain_forward(self, tangent: Self) -> Self {
        if self.is_zero() {
            self
        } else {
            self.chain(tangent)
        }
    }

    /// `on_positive` where this is greater than zero, `otherwise` elsewhere (also where this is NaN).
    ///
    /// Only the chosen one takes part in the gradient.
    #[track_caller]
    fn select(self, on_positive: Self, otherwise: Self) -> Self;

    /// The larger one; `self` on ties; NaN if either is NaN. The gradient goes to the one returned.
    #[inline]
    #[track_caller]
    fn max(self, other: Self) -> Self {
        self.at_least(other).select(self, other)
    }

    /// The smaller one; `self` on ties; NaN if either is NaN. The gradient goes to the one returned.
    #[inline]
    #[track_caller]
    fn min(self, other: Self) -> Self {
        (-self).at_least(-other).select(self, other)
    }

    /// Does a piece of arithmetic on such numbers, compiled for the machine's vectors if they hold several: tapes do every op so.
    #[doc(hidden)]
    #[inline(always)]
    fn compiled<W: Work>(work: W) -> W::Output {
        work.run()
    }

    /// As [`compiled`](Self::compiled), for arithmetic on many such numbers, which fill vectors also where one alone does not.
    #[doc(hidden)]
    #[inline(always)]
    fn compiled_side_by_side<W: Work>(work: W) -> W::Output {
        work.run()
    }

    /// The exponentials of `xs`, for ops that need many: computed side by side where that is faster, so that the last digit may
    /// differ from that of [`exp`](Self::exp).
    #[doc(hidden)]
    #[inline(always)]
    fn exp_each<const N: usize>(mut xs: [Self; N]) -> [Self; N] {
        for x in &mut xs {
            *x = x.exp();
        }
        xs
    }

    /// Puts f(x) in the place of every x and the derivatives into `slopes`: side by side where that is faster, so that last digits
    /// may differ from those of the function of one number.
    #[doc(hidden)]
    #[inline(always)]
    fn map_each(f: impl Function, xs: &mut [Self], slopes: &mut [Self]) {
        for (x, slope) in xs.iter_mut().zip(slopes) {
            (*x, *slope) = f.at(*x);
        }
    }

    unary_rows! { declare_unary }

    /// xⁿ. Derivative n·xⁿ⁻¹, which is 0 for n = 0 also at x = 0.
    #[track_caller]
    fn powi(self, n: i32) -> Self;

    /// xᶜ for a plain exponent. Derivative c·xᶜ⁻¹, which is 0 for c = 0 also at x = 0.
    #[track_caller]
    fn powf(self, c: Self::Primal) -> Self;

    binary_rows! { declare_binary }

    reduction_rows! { declare_reduction }

    /// exp(xᵢ) / Σⱼ exp(xⱼ), written to `out`. Entries of −∞ get 0, and if all are −∞ every result is 0.
    ///
    /// If the lengths differ, all of `out` is NaN.
    #[track_caller]
    fn softmax(xs: &[Self], out: &mut [Self]);

    /// The entry at `index` of [`softmax`](Self::softmax), exp(xₖ) / Σⱼ exp(xⱼ) with k the index: one node on a tape, where softmax takes one
    /// for each entry. Derivatives yₖ(1 − yₖ) for xₖ and −yₖyᵢ for the others.
    ///
    /// NaN if there is no such entry; on a tape also an [`Error`](crate::Error), as for lists of different lengths.
    #[track_caller]
    fn softmax_at(xs: &[Self], index: usize) -> Self;

    /// Σᵢ aᵢbᵢ; NaN if the lengths differ.
    #[track_caller]
    fn dot(a: &[Self], b: &[Self]) -> Self;

    /// Σᵢ aᵢbᵢ + bias; NaN if the lengths differ.
    #[track_caller]
    fn dot_bias(a: &[Self], b: &[Self], bias: Self) -> Self;

    /// What a linear layer computes: the products of all rows of `x` with all rows of `weights`, and a bias for each of the latter,
    /// yᵢⱼ = Σₖ xᵢₖwⱼₖ + bⱼ, appended to `out` row by row.
    ///
    /// NaN if the rows of the two differ in length, or if there is not one bias for each row of the weights; on a tape also an
    /// [`Error`](crate::Error). A tape records all results together, and may add in another order than [`dot`](Self::dot).
    ///
    /// ```
    /// use burtorch_core::{MatrixView, Scalar};
    ///
    /// let (x, weights) = ([1.0, 2.0], [3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    /// let mut y = Vec::new();
    /// Scalar::affine(MatrixView::new(&x, 2), MatrixView::new(&weights, 2), Some(&[0.5, 0.0, -0.5]), &mut y);
    /// assert_eq!(y, [11.5, 17.0, 22.5]);
    /// ```
    #[track_caller]
    fn affine(
        x: MatrixView<'_, Self>,
        weights: MatrixView<'_, Self>,
        biases: Option<&[Self]>,
        out: &mut Vec<Self>,
    ) {
        layers::affine(x, weights, biases, out);
    }

    /// Layer normalisation ([Ba, Kiros and Hinton 2016](https://arxiv.org/abs/1607.06450), equation 4): from each row of `x` its mean μ is
    /// taken away, and it is scaled by its variance σ², then by a gain and moved by a bias for each column,
    /// yᵢⱼ = (xᵢⱼ − μᵢ)/√(σᵢ² + ε)·gⱼ + bⱼ, appended to `out` row by row.
    ///
    /// NaN if there is not one gain, and one bias if there are any, for each column; on a tape also an [`Error`](crate::Error).
    #[track_caller]
    fn layer_norm(
        x: MatrixView<'_, Self>,
        gains: &[Self],
        biases: Option<&[Self]>,
        epsilon: Self::Primal,
        out: &mut Vec<Self>,
    ) {
        layers::layer_norm(x, gains, biases, epsilon, out);
    }

    /// Causal self-attention of a sequence ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762), equation 1): a row of `x` holds the
    /// queries of all heads at one position, then the keys, then the values, so it has 3·heads·d columns. For each head,
    /// yᵢ = Σⱼ softmaxⱼ(qᵢ·kⱼ/√d)·vⱼ over the positions j ≤ i, each weight times `mask(head, i, j)` if there is a mask. The results of all
    /// heads side by side, heads·d numbers a position, are appended to `out` row by row.
    ///
    /// NaN if the columns are not 3·heads·d for a whole d above 0; on a tape also an [`Error`](crate::Error).
    #[track_caller]
    fn causal_attention(
        x: MatrixView<'_, Self>,
        heads: usize,
        mask: Option<&dyn Fn(usize, usize, usize) -> Self::Primal>,
        out: &mut Vec<Self>,
    ) {
        layers::causal_attention(x, heads, mask, out);
    }
}

/// A function of one number.
#[doc(hidden)]
pub trait Function: Copy {
    /// Its value and its derivative.
    fn at<S: Scalar>(self, x: S) -> (S, S);
}

/// How many plain numbers a function is computed of at once.
const SIDE_BY_SIDE: usize = 8;

/// Turns the rows of ops with one argument into methods of a plain number.
macro_rules! float_unary {
    ($($(#[$doc:meta])* $name:ident { value: |$x:ident| $value:expr, $($row:tt)* })*) => {
        $(#[inline] fn $name(self) -> Self { let $x = self; $value })*
    };
}

/// Turns the rows of ops with two arguments into methods of a plain number.
macro_rules! float_binary {
    ($($(#[$doc:meta])* $name:ident { value: |$a:ident, $b:ident| $value:expr, $($row:tt)* })*) => {
        $(#[inline] fn $name(self, other: Self) -> Self { let ($a, $b) = (self, other); $value })*
    };
}

/// Turns the rows of ops over a slice into functions of a plain number.
macro_rules! float_reduction {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {
        $(#[inline] fn $name(xs: &[Self]) -> Self { reduce::value::$name(xs.len(), |i| xs[i]) })*
    };
}

macro_rules! float_scalar {
    ($type:ident) => {
        impl Number for $type {
            type Primal = Self;
        }

        impl Scalar for $type {
            type Held = Whole<Self>;

            #[inline]
            fn primal(self) -> Self {
                self
            }
            #[inline]
            fn constant(c: Self) -> Self {
                c
            }
            #[inline]
            fn stop_gradient(self) -> Self {
                self
            }
            #[inline]
            fn is_zero(self) -> bool {
                self == 0.0
            }
            #[inline]
            fn all_positive(self) -> Option<bool> {
                Some(self > 0.0)
            }
            #[inline]
            fn at_least(self, other: Self) -> Self {
                if self >= other || self.is_nan() {
                    1.0
                } else {
                    0.0
                }
            }
            #[inline]
            fn select(self, on_positive: Self, otherwise: Self) -> Self {
                if self > 0.0 { on_positive } else { otherwise }
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                // One comparison waits for `self`, which in the maximum of many is the last result.
                let larger = if other > self { other } else { self };
                if other.is_nan() { other } else { larger }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let smaller = if other < self { other } else { self };
                if other.is_nan() { other } else { smaller }
            }

            #[inline(always)]
            fn compiled_side_by_side<W: Work>(work: W) -> W::Output {
                dispatch(work)
            }

            #[inline(always)]
            fn exp_each<const N: usize>(xs: [Self; N]) -> [Self; N] {
                Lanes::from(xs).exp().to_array()
            }

            #[inline(always)]
            fn map_each(f: impl Function, xs: &mut [Self], slopes: &mut [Self]) {
                let groups = xs.chunks_mut(SIDE_BY_SIDE);
                for (xs, slopes) in groups.zip(slopes.chunks_mut(SIDE_BY_SIDE)) {
                    let mut lanes = [0.0; SIDE_BY_SIDE];
                    lanes[..xs.len()].copy_from_slice(xs);
                    let (y, slope) = f.at(Lanes::from(lanes));
                    xs.copy_from_slice(&y.to_array()[..xs.len()]);
                    slopes.copy_from_slice(&slope.to_array()[..slopes.len()]);
                }
            }

            unary_rows! { float_unary }

            #[inline]
            fn powi(self, n: i32) -> Self {
                $type::powi(self, n)
            }
            #[inline]
            fn powf(self, c: Self) -> Self {
                $type::powf(self, c)
            }

            binary_rows! { float_binary }

            reduction_rows! { float_reduction }

            fn softmax(xs: &[Self], out: &mut [Self]) {
                if xs.len() == out.len() {
                    reduce::weights(|i| xs[i], out);
                } else {
                    out.fill(Self::NAN);
                }
            }
            fn softmax_at(xs: &[Self], index: usize) -> Self {
                xs.get(index).map_or(Self::NAN, |&x| {
                    reduce::Exponentials::of(xs.len(), |i| xs[i]).weight(x)
                })
            }
            fn dot(a: &[Self], b: &[Self]) -> Self {
                if a.len() != b.len() {
                    return Self::NAN;
                }
                reduce::value::dot(a.len(), |i| a[i], |i| b[i])
            }
            fn dot_bias(a: &[Self], b: &[Self], bias: Self) -> Self {
                Self::dot(a, b) + bias
            }
        }
    };
}

float_scalar!(f32);
float_scalar!(f64);
