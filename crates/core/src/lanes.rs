//! [`Lanes`]: several numbers side by side, for one formula on several samples at once.

use std::fmt;
use std::ops::{
    Add, AddAssign, Div, DivAssign, Index, IndexMut, Mul, MulAssign, Neg, Sub, SubAssign,
};

use crate::float::Float;
use crate::ops::{binary_rows, reduce, reduction_rows, unary_rows};
use crate::scalar::{Number, Scalar};

mod batch;
mod dispatch;
pub(crate) mod functions;
mod placed;
#[cfg(test)]
mod tests;

use placed::Placed;

pub use batch::{per_sample_grads, value_and_grad_batch};
pub use dispatch::{Level, Work, dispatch};

/// `N` numbers side by side: a [`Scalar`] whose operations work on all of them, lane by lane.
///
/// One recording on a `Tape<Lanes<f64, 8>>` serves eight samples; their values and gradients come out side by side.
/// [`value_and_grad_batch`] and [`per_sample_grads`] cut long lists of samples into lanes.
///
/// ```
/// use burtorch_core::lanes::Lanes;
/// use burtorch_core::{Scalar, Tape};
///
/// let tape = Tape::new();
/// let x = tape.var(Lanes::from([1.0, 2.0, 3.0, 4.0]));
/// let y = x.square().select(x * x * x, -x);
/// y.backward()?;
/// assert_eq!(y.value().to_array(), [1.0, 8.0, 27.0, 64.0]);
/// assert_eq!(x.grad()?.to_array(), [3.0, 12.0, 27.0, 48.0]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # What a lane computes
///
/// No lane depends on another: each holds the bits it would hold alone, whatever its place, its neighbours, `N` and the
/// [`Level`]. To that end a recorder records both sides of every [`select`](Scalar::select) (and of `max` and `min`), with a slope of
/// zero for the one not chosen. In one case this shows: if the outer derivative is infinite or NaN, the side that was not
/// chosen gets NaN, where a recording of plain numbers gives it nothing.
///
/// The operators, `recip`, `square`, `cube`, `sqrt`, `rsqrt`, `relu`, `abs`, `max`, `min`, `select` and the sums are those of plain
/// numbers, bit for bit. These functions have formulas of their own, which the compiler turns into vector instructions,
/// with errors in units of the last place (ulp) of `f32` or `f64` within these bounds for all arguments, also where the
/// result is subnormal:
///
/// | function | bound |
/// |---|---|
/// | `exp`, `ln` | 1 |
/// | `exp_m1`, `ln_1p` | 1.5 |
/// | `softplus`, `log_sigmoid` | 2 |
/// | `sigmoid` | 2.5 |
/// | `tanh` | 3 |
///
/// NaN, infinities, signed zeros and overflow give what std gives. All other functions (`sin`, `cos`, `erf`, `erfc`, `gelu`,
/// the powers) call the function of the plain number once per lane.
///
/// # Speed
///
/// A lane costs a fraction of a plain number if the code is compiled for the machine's vectors. On tapes and in programs it is: every op on
/// variables, every sweep, every program runs in the machine's best [`Level`], wherever it is called from. Loops over lanes themselves
/// you run in [`dispatch`]. An op on a tape costs two or three nanoseconds beside its arithmetic, whatever the number of lanes, so ops
/// over many arguments (`sum`, `dot`, `softmax_at`) are better than many small ones.
///
/// Lanes begin at a multiple of 64 bytes, so that no vector lies across two cache lines (a tenth of the time of a program in 8
/// lanes, a sixth in 16); fewer numbers than fill 64 bytes leave the rest of the line empty.
#[derive(Clone, Copy, PartialEq)]
#[repr(align(64))]
pub struct Lanes<T, const N: usize>([T; N]);

impl<T: Copy, const N: usize> Lanes<T, N> {
    /// The same number in every lane.
    #[inline(always)]
    #[must_use]
    pub const fn splat(x: T) -> Self {
        Self([x; N])
    }

    /// Lane `i` holds `lane(i)`.
    #[inline(always)]
    #[must_use]
    pub fn from_fn(lane: impl FnMut(usize) -> T) -> Self {
        Self(std::array::from_fn(lane))
    }

    /// The numbers of a slice of length `N`; `None` if it has another length.
    ///
    /// ```
    /// use burtorch_core::lanes::Lanes;
    ///
    /// let samples = [1.0, 2.0, 3.0, 4.0, 5.0];
    /// assert_eq!(Lanes::from_slice(&samples[..2]), Some(Lanes::from([1.0, 2.0])));
    /// assert_eq!(Lanes::<_, 2>::from_slice(&samples), None);
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn from_slice(xs: &[T]) -> Option<Self> {
        xs.try_into().ok().map(Self)
    }

    /// All lanes.
    #[inline(always)]
    #[must_use]
    pub const fn to_array(self) -> [T; N] {
        self.0
    }

    /// All lanes, where they lie.
    #[inline(always)]
    #[must_use]
    pub const fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// `f` of every lane.
    ///
    /// ```
    /// use burtorch_core::lanes::Lanes;
    ///
    /// assert_eq!(Lanes::from([1.0_f32, 2.5]).map(f32::floor).to_array(), [1.0, 2.0]);
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn map(mut self, f: impl Fn(T) -> T) -> Self {
        for x in &mut self.0 {
            *x = f(*x);
        }
        self
    }

    /// `f` of every lane and the same lane of `other`.
    #[inline(always)]
    fn zip(mut self, other: Self, f: impl Fn(T, T) -> T) -> Self {
        for (x, &y) in self.0.iter_mut().zip(&other.0) {
            *x = f(*x, y);
        }
        self
    }
}

impl<T, const N: usize> From<[T; N]> for Lanes<T, N> {
    #[inline(always)]
    fn from(lanes: [T; N]) -> Self {
        Self(lanes)
    }
}

impl<T, const N: usize> From<Lanes<T, N>> for [T; N] {
    #[inline(always)]
    fn from(lanes: Lanes<T, N>) -> Self {
        lanes.0
    }
}

/// Lane `i`; panics beyond the last, as an array does.
impl<T, const N: usize> Index<usize> for Lanes<T, N> {
    type Output = T;

    #[inline(always)]
    fn index(&self, i: usize) -> &T {
        &self.0[i]
    }
}

/// Lane `i`; panics beyond the last, as an array does.
impl<T, const N: usize> IndexMut<usize> for Lanes<T, N> {
    #[inline(always)]
    fn index_mut(&mut self, i: usize) -> &mut T {
        &mut self.0[i]
    }
}

impl<T: Float, const N: usize> Default for Lanes<T, N> {
    /// Zeros.
    #[inline(always)]
    fn default() -> Self {
        Self::splat(T::ZERO)
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for Lanes<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! operators {
    ($($operator:ident $name:ident $assign:ident $assign_method:ident $symbol:tt)*) => {$(
        impl<T: Float, const N: usize> $operator for Lanes<T, N> {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                self.zip(other, |x, y| x $symbol y)
            }
        }

        impl<T: Float, const N: usize> $operator<T> for Lanes<T, N> {
            type Output = Self;

            #[inline(always)]
            fn $name(self, c: T) -> Self {
                self.map(|x| x $symbol c)
            }
        }

        impl<T: Float, const N: usize, R> $assign<R> for Lanes<T, N>
        where
            Self: $operator<R, Output = Self>,
        {
            #[inline(always)]
            fn $assign_method(&mut self, other: R) {
                *self = *self $symbol other;
            }
        }

        number_on_the_left! { f32 $operator $name $symbol }
        number_on_the_left! { f64 $operator $name $symbol }
    )*};
}

macro_rules! number_on_the_left {
    ($float:ident $operator:ident $name:ident $symbol:tt) => {
        impl<const N: usize> $operator<Lanes<$float, N>> for $float {
            type Output = Lanes<$float, N>;

            #[inline(always)]
            fn $name(self, x: Lanes<$float, N>) -> Lanes<$float, N> {
                Lanes::splat(self) $symbol x
            }
        }
    };
}

operators! {
    Add add AddAssign add_assign +
    Sub sub SubAssign sub_assign -
    Mul mul MulAssign mul_assign *
    Div div DivAssign div_assign /
}

impl<T: Float, const N: usize> Neg for Lanes<T, N> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|x| -x)
    }
}

impl<T: Float, const N: usize> Number for Lanes<T, N> {
    type Primal = T;
}

/// Turns the rows of ops with one argument into methods: those in [`functions`] by the formulas there, the others by that of the
/// plain number.
macro_rules! lanes_unary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {
        $(
            #[inline(always)]
            fn $name(mut self) -> Self {
                // No closure: it could become a function of its own, out of the level's reach.
                for x in &mut self.0 {
                    *x = lane!($name *x);
                }
                self
            }
        )*
    };
}

macro_rules! lane {
    (exp $x:expr) => {
        functions::exp($x)
    };
    (exp_m1 $x:expr) => {
        functions::exp_m1($x)
    };
    (ln $x:expr) => {
        functions::ln($x)
    };
    (ln_1p $x:expr) => {
        functions::ln_1p($x)
    };
    (tanh $x:expr) => {
        functions::tanh($x)
    };
    (sigmoid $x:expr) => {
        functions::sigmoid($x)
    };
    (softplus $x:expr) => {
        functions::softplus($x)
    };
    (log_sigmoid $x:expr) => {
        functions::log_sigmoid($x)
    };
    (gelu_tanh $x:expr) => {
        functions::gelu_tanh($x)
    };
    ($name:ident $x:expr) => {
        Scalar::$name($x)
    };
}

macro_rules! lanes_binary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {
        $(#[inline(always)] fn $name(self, other: Self) -> Self { self.zip(other, Scalar::$name) })*
    };
}

macro_rules! lanes_reduction {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {
        $(#[inline(always)] fn $name(xs: &[Self]) -> Self { reduce::value::$name(xs.len(), |i| xs[i]) })*
    };
}

impl<T: Float, const N: usize> Scalar for Lanes<T, N> {
    type Held = Placed;

    #[inline(always)]
    fn primal(self) -> T {
        self.0.first().copied().unwrap_or(T::NAN)
    }

    #[inline(always)]
    fn constant(c: T) -> Self {
        Self::splat(c)
    }

    #[inline(always)]
    fn stop_gradient(self) -> Self {
        self
    }

    #[inline(always)]
    fn compiled<W: Work>(work: W) -> W::Output {
        dispatch(work)
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        // No early exit: all lanes are compared at once.
        self.0.iter().fold(true, |all, &x| all & (x == T::ZERO))
    }

    #[inline(always)]
    fn all_positive(self) -> Option<bool> {
        None
    }

    #[inline(always)]
    fn all_finite(self) -> bool {
        self.0.iter().fold(true, |all, x| all & x.is_finite())
    }

    #[inline(always)]
    fn at_least(self, other: Self) -> Self {
        self.zip(other, |x, y| x.at_least(y))
    }

    #[inline(always)]
    fn chain(self, outer: Self) -> Self {
        self.zip(
            outer,
            |x, outer| if outer == T::ZERO { outer } else { x * outer },
        )
    }

    #[inline(always)]
    fn select(self, on_positive: Self, otherwise: Self) -> Self {
        Self::from_fn(|i| self.0[i].select(on_positive.0[i], otherwise.0[i]))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |x, y| Scalar::max(x, y))
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |x, y| Scalar::min(x, y))
    }

    unary_rows! { lanes_unary }

    #[inline(always)]
    fn powi(self, n: i32) -> Self {
        self.map(|x| x.powi(n))
    }

    #[inline(always)]
    fn powf(self, c: T) -> Self {
        self.map(|x| x.powf(c))
    }

    binary_rows! { lanes_binary }

    reduction_rows! { lanes_reduction }

    #[inline(always)]
    fn softmax(xs: &[Self], out: &mut [Self]) {
        if xs.len() == out.len() {
            reduce::weights(|i| xs[i], out);
        } else {
            out.fill(Self::splat(T::NAN));
        }
    }

    #[inline(always)]
    fn softmax_at(xs: &[Self], index: usize) -> Self {
        match xs.get(index) {
            Some(&x) => reduce::Exponentials::of(xs.len(), |i| xs[i]).weight(x),
            None => Self::splat(T::NAN),
        }
    }

    #[inline(always)]
    fn dot(a: &[Self], b: &[Self]) -> Self {
        if a.len() != b.len() {
            return Self::splat(T::NAN);
        }
        reduce::value::dot(a.len(), |i| a[i], |i| b[i])
    }

    #[inline(always)]
    fn dot_bias(a: &[Self], b: &[Self], bias: Self) -> Self {
        Self::dot(a, b) + bias
    }
}
