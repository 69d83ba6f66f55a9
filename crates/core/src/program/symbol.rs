//! [`Symbol`]: the scalar that a program is recorded with.

use std::fmt;

use crate::error::Error;
use crate::float::Float;
use crate::ops::{binary_rows, operator_rows, reduction_rows, unary_rows};
use crate::program::op::Op;
use crate::program::recorder::Recorder;
use crate::scalar::{Number, Scalar};
use crate::var::Whole;

/// A value of a [`Program`](super::Program) that is being recorded: a name for it, not a number.
///
/// It has no value, because a program has another one at every evaluation. So code that looks at values while it is recorded
/// would freeze what it saw: [`primal`](Scalar::primal) and [`all_positive`](Scalar::all_positive) of anything that depends
/// on an input leave [`Error::NoValue`] in the recording, which [`Program::record`](super::Program::record) returns.
/// Choose with [`select`](Scalar::select), [`max`](Scalar::max), [`min`](Scalar::min), [`at_least`](Scalar::at_least),
/// [`relu`](Scalar::relu) or [`abs`](Scalar::abs): these are ops, which choose anew at every evaluation.
/// Symbols that depend on constants only are numbers, and may be looked at.
pub struct Symbol<'p, F> {
    kind: Kind<'p, F>,
}

enum Kind<'p, F> {
    Constant(F),
    Value(&'p Recorder<F>, u32),
}

impl<F: Copy> Clone for Symbol<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Copy> Copy for Symbol<'_, F> {}

impl<F: Copy> Clone for Kind<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Copy> Copy for Kind<'_, F> {}

impl<F: fmt::Debug> fmt::Debug for Symbol<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Constant(c) => write!(f, "Symbol(constant {c:?})"),
            Kind::Value(_, value) => write!(f, "Symbol(value {value})"),
        }
    }
}

impl<'p, F: Float> Symbol<'p, F> {
    /// Value `value` of `recorder`.
    pub(super) fn value(recorder: &'p Recorder<F>, value: u32) -> Self {
        Self {
            kind: Kind::Value(recorder, value),
        }
    }

    fn number(c: F) -> Self {
        Self {
            kind: Kind::Constant(c),
        }
    }

    fn as_number(self) -> Option<F> {
        match self.kind {
            Kind::Constant(c) => Some(c),
            Kind::Value(..) => None,
        }
    }

    fn recorder(self) -> Option<&'p Recorder<F>> {
        match self.kind {
            Kind::Constant(_) => None,
            Kind::Value(recorder, _) => Some(recorder),
        }
    }

    /// The place of this value in `recorder`, if it is there or is a constant.
    pub(super) fn place_in(self, recorder: &Recorder<F>, op: &'static str) -> Option<u32> {
        match self.kind {
            Kind::Constant(c) => recorder.constant(c),
            Kind::Value(own, value) if std::ptr::eq(own, recorder) => Some(value),
            Kind::Value(own, _) => {
                own.fault(Error::MixedTapes { op });
                recorder.fault(Error::MixedTapes { op });
                None
            }
        }
    }

    /// Records `op`, or computes it by `fold` if all arguments are numbers.
    fn apply<const N: usize>(op: Op, arguments: [Self; N], fold: impl FnOnce([F; N]) -> F) -> Self {
        Self::apply_with(op, arguments, 0, fold)
    }

    /// As [`apply`](Self::apply), with the exponent of `powi`.
    fn apply_with<const N: usize>(
        op: Op,
        arguments: [Self; N],
        exponent: i32,
        fold: impl FnOnce([F; N]) -> F,
    ) -> Self {
        let Some(recorder) = arguments.iter().find_map(|x| x.recorder()) else {
            return Self::number(fold(arguments.map(|x| x.primal())));
        };
        let mut places = [0; N];
        for (place, argument) in places.iter_mut().zip(arguments) {
            match argument.place_in(recorder, op.name()) {
                Some(found) => *place = found,
                None => return Self::poison(),
            }
        }
        recorder
            .result(op, &places, exponent)
            .map_or_else(Self::poison, |value| Self::value(recorder, value))
    }

    /// Records an op on all of `groups` and gives its recorder and first result; None if all arguments are numbers.
    fn apply_many<const N: usize>(
        op: Op,
        groups: [&[Self]; N],
    ) -> Option<Option<(&'p Recorder<F>, u32)>> {
        let arguments = groups.concat();
        let recorder = arguments.iter().find_map(|x| x.recorder())?;
        let places: Option<Vec<u32>> = arguments
            .iter()
            .map(|x| x.place_in(recorder, op.name()))
            .collect();
        let first = places.and_then(|places| recorder.result(op, &places, 0));
        Some(first.map(|first| (recorder, first)))
    }

    /// An op with one result on all of `groups`.
    fn reduction<const N: usize>(
        op: Op,
        groups: [&[Self]; N],
        fold: impl FnOnce([Vec<F>; N]) -> F,
    ) -> Self {
        match Self::apply_many(op, groups) {
            None => Self::number(fold(groups.map(numbers))),
            Some(Some((recorder, value))) => Self::value(recorder, value),
            Some(None) => Self::poison(),
        }
    }

    /// What stands for a value that could not be recorded: the error is in the recorder.
    fn poison() -> Self {
        Self::number(F::NAN)
    }

    /// A list has not the length expected.
    fn mismatch(op: Op, [expected, found]: [usize; 2], [a, b]: [&[Self]; 2]) -> Self {
        for recorder in a.iter().chain(b).filter_map(|x| x.recorder()) {
            recorder.fault(Error::LengthMismatch {
                op: op.name(),
                expected,
                found,
            });
        }
        Self::poison()
    }

    #[cold]
    fn looked_at(self, op: &'static str) {
        if let Some(recorder) = self.recorder() {
            recorder.fault(Error::NoValue { op });
        }
    }
}

fn numbers<F: Float>(xs: &[Symbol<'_, F>]) -> Vec<F> {
    xs.iter().map(|x| x.primal()).collect()
}

macro_rules! symbol_operators {
    ($($name:ident { [$operator:ident $symbol:tt $assign:ident $assign_method:ident] $($row:tt)* })*) => {$(
        impl<F: Float> std::ops::$operator for Symbol<'_, F> {
            type Output = Self;

            fn $name(self, other: Self) -> Self {
                Self::apply(Op::$name, [self, other], |[a, b]| a $symbol b)
            }
        }

        impl<F: Float> std::ops::$operator<F> for Symbol<'_, F> {
            type Output = Self;

            fn $name(self, c: F) -> Self {
                self $symbol Self::number(c)
            }
        }

        impl<F: Float, R> std::ops::$assign<R> for Symbol<'_, F>
        where
            Self: std::ops::$operator<R, Output = Self>,
        {
            fn $assign_method(&mut self, other: R) {
                *self = *self $symbol other;
            }
        }

        symbol_constant_on_the_left! { f32 $operator $name $symbol }
        symbol_constant_on_the_left! { f64 $operator $name $symbol }
    )*};
}

macro_rules! symbol_constant_on_the_left {
    ($float:ident $operator:ident $name:ident $symbol:tt) => {
        impl<'p> std::ops::$operator<Symbol<'p, $float>> for $float {
            type Output = Symbol<'p, $float>;

            fn $name(self, x: Symbol<'p, $float>) -> Symbol<'p, $float> {
                Symbol::number(self) $symbol x
            }
        }
    };
}

operator_rows! { symbol_operators }

impl<F: Float> std::ops::Neg for Symbol<'_, F> {
    type Output = Self;

    fn neg(self) -> Self {
        Self::apply(Op::neg, [self], |[x]| -x)
    }
}

impl<F: Float> Number for Symbol<'_, F> {
    type Primal = F;
}

macro_rules! symbol_unary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        fn $name(self) -> Self {
            Self::apply(Op::$name, [self], |[x]| x.$name())
        }
    )*};
}

macro_rules! symbol_binary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        fn $name(self, other: Self) -> Self {
            Self::apply(Op::$name, [self, other], |[a, b]| a.$name(b))
        }
    )*};
}

macro_rules! symbol_reduction {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {$(
        fn $name(xs: &[Self]) -> Self {
            Self::reduction(Op::$name, [xs], |[xs]| F::$name(&xs))
        }
    )*};
}

impl<F: Float> Scalar for Symbol<'_, F> {
    type Held = Whole<Self>;

    fn primal(self) -> F {
        self.as_number().unwrap_or_else(|| {
            self.looked_at("primal");
            F::NAN
        })
    }
    fn constant(c: F) -> Self {
        Self::number(c)
    }
    fn stop_gradient(self) -> Self {
        Self::apply(Op::stop_gradient, [self], |[x]| x)
    }
    /// True for the constant 0 only: what depends on an input is not zero at every evaluation.
    fn is_zero(self) -> bool {
        self.as_number().is_some_and(|c| c == F::ZERO)
    }
    fn all_positive(self) -> Option<bool> {
        let Some(c) = self.as_number() else {
            self.looked_at("all_positive");
            return None;
        };
        Some(c > F::ZERO)
    }
    fn at_least(self, other: Self) -> Self {
        Self::apply(Op::at_least, [self, other], |[a, b]| a.at_least(b))
    }
    fn select(self, on_positive: Self, otherwise: Self) -> Self {
        match self.as_number() {
            Some(c) if c > F::ZERO => on_positive,
            Some(_) => otherwise,
            None => Self::apply(Op::select, [self, on_positive, otherwise], |[c, a, b]| {
                c.select(a, b)
            }),
        }
    }

    unary_rows! { symbol_unary }

    fn powi(self, n: i32) -> Self {
        Self::apply_with(Op::powi, [self], n, |[x]| x.powi(n))
    }
    fn powf(self, c: F) -> Self {
        Self::apply(Op::powf, [self, Self::number(c)], |[x, c]| x.powf(c))
    }

    binary_rows! { symbol_binary }

    reduction_rows! { symbol_reduction }

    fn softmax(xs: &[Self], out: &mut [Self]) {
        if xs.len() != out.len() {
            return out.fill(Self::mismatch(
                Op::softmax,
                [xs.len(), out.len()],
                [xs, out],
            ));
        }
        match Self::apply_many(Op::softmax, [xs]) {
            None => {
                let mut weights = numbers(xs);
                F::softmax(&numbers(xs), &mut weights);
                for (result, weight) in out.iter_mut().zip(weights) {
                    *result = Self::number(weight);
                }
            }
            Some(None) => out.fill(Self::poison()),
            Some(Some((recorder, first))) => {
                for (result, value) in out.iter_mut().zip(first..) {
                    *result = Self::value(recorder, value);
                }
            }
        }
    }
    fn softmax_at(xs: &[Self], index: usize) -> Self {
        if index >= xs.len() {
            let lengths = [index.saturating_add(1), xs.len()];
            return Self::mismatch(Op::softmax, lengths, [xs, &[]]);
        }
        // Entries that nothing depends on are not computed.
        let mut entries = xs.to_vec();
        Self::softmax(xs, &mut entries);
        entries[index]
    }
    fn dot(a: &[Self], b: &[Self]) -> Self {
        if a.len() != b.len() {
            return Self::mismatch(Op::dot, [a.len(), b.len()], [a, b]);
        }
        Self::reduction(Op::dot, [a, b], |[a, b]| F::dot(&a, &b))
    }
    fn dot_bias(a: &[Self], b: &[Self], bias: Self) -> Self {
        if a.len() != b.len() {
            return Self::mismatch(Op::dot_bias, [a.len(), b.len()], [a, b]);
        }
        Self::reduction(Op::dot_bias, [a, b, &[bias]], |[a, b, bias]| {
            F::dot_bias(&a, &b, bias[0])
        })
    }
}
