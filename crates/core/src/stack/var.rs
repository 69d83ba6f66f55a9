//! [`StackVar`]: the copyable handle on a value of a tape of fixed size.

use std::fmt;

use super::rows::{Fault, Rows};
use super::{CONSTANT, StackTape};
use crate::error::Error;
use crate::float::Float;
use crate::lanes::Work;
use crate::ops::{binary_rows, constant, operator_rows, partial, reduction_rows, unary_rows};
use crate::record::{
    Reduction, as_work, recorded_binary, recorded_operators, recorded_reduction, recorded_scalar,
    recorded_unary,
};
use crate::scalar::{Number, Scalar};

/// A value on a [`StackTape`]. It holds its value, the node it depends on and the slope to it, as [`Var`](crate::Var) does.
pub struct StackVar<'t, T, const N: usize> {
    /// None for a constant that has met no tape yet.
    tape: Option<&'t StackTape<T, N>>,
    value: T,
    /// Derivative of the value with respect to the node.
    slope: T,
    node: u32,
    /// Whether the handle is its node, rather than a function of it.
    exact: bool,
}

impl<T: Copy, const N: usize> Clone for StackVar<'_, T, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy, const N: usize> Copy for StackVar<'_, T, N> {}

impl<T: fmt::Debug, const N: usize> fmt::Debug for StackVar<'_, T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            value, slope, node, ..
        } = self;
        if *node == CONSTANT {
            return write!(f, "StackVar({value:?}, constant)");
        }
        write!(f, "StackVar({value:?}, node {node}, slope {slope:?})")
    }
}

impl<'t, T: Scalar, const N: usize> StackVar<'t, T, N> {
    /// The handle that is node `node`.
    #[inline(always)]
    pub(super) fn exact(tape: &'t StackTape<T, N>, node: u32, value: T) -> Self {
        Self {
            tape: Some(tape),
            value,
            slope: constant(1.0),
            node,
            exact: true,
        }
    }

    /// A constant, on a tape or not yet.
    #[inline(always)]
    pub(super) fn constant_on(tape: Option<&'t StackTape<T, N>>, value: T) -> Self {
        Self {
            tape,
            value,
            slope: constant(0.0),
            node: CONSTANT,
            exact: false,
        }
    }

    #[inline(always)]
    fn detached(value: T) -> Self {
        Self::constant_on(None, value)
    }

    #[inline(always)]
    fn constant_beside(self, _: Self, value: T) -> Self {
        Self::detached(value)
    }

    #[inline(always)]
    fn is_detached(self) -> bool {
        self.tape.is_none()
    }

    #[inline(always)]
    fn stopped(self) -> Self {
        Self::detached(self.value().stop_gradient())
    }

    #[inline(always)]
    fn compiled<W: Work>(work: W) -> W::Output {
        work.run()
    }

    /// The value.
    #[inline(always)]
    pub fn value(self) -> T {
        self.value
    }

    /// The gradient gathered by the backward passes since the last zeroing; 0 if nothing depended on it.
    ///
    /// # Errors
    ///
    /// [`Error::NotRetained`] if the value has no node of its own; the tape's error if recording failed.
    #[inline(always)]
    pub fn grad(self) -> Result<T, Error> {
        // Not `ok_or`, which makes an error to drop it again.
        let Some(tape) = self.tape else {
            return Err(Error::NotRetained);
        };
        tape.check()?;
        if !self.exact {
            return Err(Error::NotRetained);
        }
        Ok(tape.rows.gradient(self.node))
    }

    /// The same value with a node, hence a gradient, of its own. A handle that is its node already, and a constant, stay what they are.
    #[inline(always)]
    #[must_use]
    pub fn retain(self) -> Self {
        match self.tape {
            Some(tape) if !self.exact && !self.is_constant() => {
                tape.recorded([(self.node, self.slope)], self.value)
            }
            _ => self,
        }
    }

    /// Adds the gradient of this value to the gradients of all nodes it depends on. Same as [`StackTape::backward`] with seed 1.
    ///
    /// # Errors
    ///
    /// The tape's error if recording failed.
    #[inline(always)]
    pub fn backward(self) -> Result<(), Error> {
        let Some(tape) = self.tape else { return Ok(()) };
        tape.check()?;
        tape.rows.sweep(|rows| self.seed(constant(1.0), rows));
        Ok(())
    }

    /// The result of a function of this variable that the caller has computed: its value and its derivative.
    #[inline(always)]
    #[must_use]
    pub fn custom(self, value: T, derivative: T) -> Self {
        self.unary("custom", value, derivative)
    }

    /// Whether this can be a root of a backward pass of `tape`.
    #[inline(always)]
    pub(super) fn may_be_on(self, tape: &StackTape<T, N>) -> bool {
        self.tape.is_none_or(|own| std::ptr::eq(own, tape))
    }

    /// Starts a backward pass from this value.
    #[inline(always)]
    pub(super) fn seed(self, seed: T, rows: &Rows<T, N>) {
        rows.seed(self.node, self.slope.chain(seed));
    }

    #[inline(always)]
    fn is_constant(self) -> bool {
        self.node == CONSTANT
    }

    /// A function of this value alone.
    #[inline(always)]
    fn unary(self, _op: &'static str, value: T, partial: T) -> Self {
        Self {
            value,
            slope: self.slope.chain(partial),
            exact: false,
            ..self
        }
    }

    /// A function of two values.
    #[inline(always)]
    fn binary(self, other: Self, op: &'static str, value: T, (left, right): (T, T)) -> Self {
        if other.is_constant() {
            return Self {
                tape: self.tape.or(other.tape),
                ..self.unary(op, value, left)
            };
        }
        if self.is_constant() {
            return Self {
                tape: other.tape.or(self.tape),
                ..other.unary(op, value, right)
            };
        }
        match (self.tape, other.tape) {
            (Some(a), Some(b)) if std::ptr::eq(a, b) => a.recorded(
                [
                    (self.node, self.slope.chain(left)),
                    (other.node, other.slope.chain(right)),
                ],
                value,
            ),
            _ => Self::fault(Fault::Mixed { op }, [self, other].into_iter()),
        }
    }

    /// A function of all values of `groups`, in their order.
    #[inline(always)]
    fn reduction<const K: usize>(
        op: &'static str,
        groups: [&[Self]; K],
        reduction: impl Reduction<T>,
    ) -> Self {
        let inputs = || groups.into_iter().flatten().copied();
        let Some(tape) = inputs().find_map(|x| x.tape) else {
            return Self::detached(reduction.value());
        };
        if inputs().any(|x| !x.may_be_on(tape)) {
            return Self::fault(Fault::Mixed { op }, inputs());
        }
        tape.recorded_many(inputs().map(|x| (x.node, x.slope)), reduction)
    }

    /// Marks all tapes involved as faulty: a list has not the length expected.
    #[cold]
    fn mismatch(op: &'static str, [expected, found]: [usize; 2], [a, b]: [&[Self]; 2]) -> Self {
        let fault = Fault::Mismatch {
            op,
            expected,
            found,
        };
        Self::fault(fault, a.iter().chain(b).copied())
    }

    /// Marks all tapes involved as faulty.
    #[cold]
    fn fault(fault: Fault, inputs: impl Iterator<Item = Self> + Clone) -> Self {
        for tape in inputs.clone().filter_map(|x| x.tape) {
            tape.rows.fail(fault);
        }
        let tape = inputs.clone().find_map(|x| x.tape);
        Self::constant_on(tape, T::constant(T::Primal::NAN))
    }
}

recorded_scalar! { StackVar [, const N: usize] [, N] {} }
