//! Ops over many arguments as values: a type for each row of the table, and for those that have no row.

use crate::ops::{constant, reduce, reduction_rows};
use crate::scalar::Scalar;

/// An op over many arguments, with its arguments. Mark implementations `#[inline(always)]`, as for [`Work`](crate::lanes::Work).
pub(crate) trait Reduction<T> {
    /// Whether it computes a function of every argument, which is worth an entrance to the machine's vectors.
    const OF_FUNCTIONS: bool = false;

    /// Its value.
    fn value(self) -> T;
    /// Its value and its partial derivatives, if these are all the same.
    #[inline(always)]
    fn uniform(&self) -> Option<(T, T)> {
        None
    }
    /// Its value. Writes its partial derivatives to `out`, which has one place for each argument.
    fn with_partials(self, out: &mut [T]) -> T;
}

/// A reduction that has been computed already.
pub(crate) struct Known<T, const N: usize> {
    pub(crate) value: T,
    pub(crate) partials: [T; N],
}

impl<T: Copy, const N: usize> Reduction<T> for Known<T, N> {
    fn value(self) -> T {
        self.value
    }

    fn with_partials(self, out: &mut [T]) -> T {
        out.copy_from_slice(&self.partials);
        self.value
    }
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        #[allow(non_camel_case_types, reason = "named as the row is")]
        pub(crate) struct $name<X>(pub(crate) usize, pub(crate) X);

        impl<T: Scalar, X: Fn(usize) -> T> Reduction<T> for $name<X> {
            const OF_FUNCTIONS: bool = of_functions! { $name };

            #[inline(always)]
            fn value(self) -> T {
                reduce::value::$name(self.0, &self.1)
            }

            #[inline(always)]
            fn uniform(&self) -> Option<(T, T)> {
                uniform! { $name self }
            }

            #[inline(always)]
            fn with_partials(self, out: &mut [T]) -> T {
                with_partials! { $name self out }
            }
        }
    )*};
}

macro_rules! of_functions {
    (logsumexp) => {
        true
    };
    ($name:ident) => {
        false
    };
}

macro_rules! uniform {
    (sum $op:ident) => {
        Some((reduce::value::sum($op.0, &$op.1), constant(1.0)))
    };
    (mean $op:ident) => {
        Some((reduce::value::mean($op.0, &$op.1), reduce::share($op.0)))
    };
    ($name:ident $op:ident) => {
        None
    };
}

macro_rules! with_partials {
    (logsumexp $op:ident $out:ident) => {
        reduce::weights($op.1, $out).logarithm()
    };
    ($name:ident $op:ident $out:ident) => {{
        let y = reduce::value::$name($op.0, &$op.1);
        reduce::partials::$name($op.1, y, $out);
        y
    }};
}

reduction_rows! { reductions }

/// The node that all results of a softmax depend on, ln Σ exp(x(i)). Its value is of no use, the results, which are its partial
/// derivatives too, are handed to a function.
pub(crate) struct Softmax<X, Y>(pub(crate) usize, pub(crate) X, pub(crate) Y);

impl<T: Scalar, X: Fn(usize) -> T, Y: FnMut(usize, T)> Reduction<T> for Softmax<X, Y> {
    const OF_FUNCTIONS: bool = true;

    #[inline(always)]
    fn value(mut self) -> T {
        let exponentials = reduce::Exponentials::of(self.0, &self.1);
        for i in 0..self.0 {
            (self.2)(i, exponentials.weight((self.1)(i)));
        }
        constant(0.0)
    }

    #[inline(always)]
    fn with_partials(mut self, out: &mut [T]) -> T {
        reduce::weights(&self.1, out);
        for (i, &y) in out.iter().enumerate() {
            (self.2)(i, y);
        }
        constant(0.0)
    }
}

/// An entry of the softmax of x(i), and its place.
pub(crate) struct SoftmaxAt<X>(pub(crate) usize, pub(crate) X, pub(crate) usize);

impl<T: Scalar, X: Fn(usize) -> T> Reduction<T> for SoftmaxAt<X> {
    const OF_FUNCTIONS: bool = true;

    #[inline(always)]
    fn value(self) -> T {
        reduce::Exponentials::of(self.0, &self.1).weight((self.1)(self.2))
    }

    #[inline(always)]
    fn with_partials(self, out: &mut [T]) -> T {
        reduce::softmax_at(self.1, self.2, out)
    }
}

/// Σ a(i)b(i) of so many pairs.
pub(crate) struct Dot<A, B>(pub(crate) usize, pub(crate) A, pub(crate) B);

impl<T: Scalar, A: Fn(usize) -> T, B: Fn(usize) -> T> Reduction<T> for Dot<A, B> {
    #[inline(always)]
    fn value(self) -> T {
        reduce::value::dot(self.0, &self.1, &self.2)
    }

    #[inline(always)]
    fn with_partials(self, out: &mut [T]) -> T {
        let y = reduce::value::dot(self.0, &self.1, &self.2);
        reduce::partials::dot(self.0, self.1, self.2, out);
        y
    }
}

/// A dot product and a number that is added to it.
pub(crate) struct Biased<D, T>(pub(crate) D, pub(crate) T);

impl<T: Scalar, D: Reduction<T>> Reduction<T> for Biased<D, T> {
    #[inline(always)]
    fn value(self) -> T {
        self.0.value() + self.1
    }

    #[inline(always)]
    fn with_partials(self, out: &mut [T]) -> T {
        self.0.with_partials(out) + self.1
    }
}
