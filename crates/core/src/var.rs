//! [`Var`]: the copyable handle on a value of a tape.

use std::fmt;

use crate::error::Error;
use crate::float::Float;
use crate::ops::{
    binary_rows, constant, operator_rows, partial, reduce, reduction_rows, unary_rows,
};
use crate::record::{
    recorded_binary, recorded_operators, recorded_reduction, recorded_scalar, recorded_unary,
};
use crate::scalar::{Number, Scalar};
use crate::tape::{CONSTANT, NodeId, Tape};

/// A value on a [`Tape`]: a small handle that is copied like a number.
///
/// A handle holds its value, the node it depends on, and its slope: the derivative with respect to that node. An op with one
/// argument, or with a constant, changes the value and multiplies the slope, and records nothing; an op on several
/// variables records one node. Hence the gradient of a value is there to be read ([`grad`](Self::grad)) if the handle *is* its
/// node: a variable, the result of an op on several variables, or whatever was [`retain`](Self::retain)ed.
///
/// ```
/// use burtorch_core::{Scalar, Tape};
///
/// let tape = Tape::new();
/// let (x, y) = (tape.var(3.0), tape.var(4.0));
/// let hidden = (x * y).ln().retain();
/// (hidden * 2.0).exp().backward()?; // (xy)²
/// assert!((x.grad()? - 96.0).abs() < 1e-12);
/// assert!((hidden.grad()? - 288.0).abs() < 1e-12);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
#[repr(C)]
pub struct Var<'t, T> {
    value: T,
    /// None for a constant that has met no tape yet. Between the two numbers, so that they are not fetched as one vector just
    /// after they were stored one by one, which would wait for both stores to end.
    tape: Option<&'t Tape<T>>,
    /// Derivative of the value with respect to the node.
    slope: T,
    node: u32,
    /// Whether the handle is its node, rather than a function of it.
    exact: bool,
}

impl<T: Copy> Clone for Var<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for Var<'_, T> {}

impl<T: fmt::Debug> fmt::Debug for Var<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            value, slope, node, ..
        } = self;
        write!(f, "Var({value:?}, node {node}, slope {slope:?})")
    }
}

impl<'t, T: Scalar> Var<'t, T> {
    /// The handle that is node `node`.
    #[inline]
    pub(crate) fn exact(tape: &'t Tape<T>, node: u32, value: T) -> Self {
        Self {
            tape: Some(tape),
            value,
            slope: constant(1.0),
            node,
            exact: true,
        }
    }

    /// A constant on `tape`.
    #[inline]
    pub(crate) fn constant_on(tape: Option<&'t Tape<T>>, value: T) -> Self {
        Self {
            tape,
            value,
            slope: constant(0.0),
            node: CONSTANT,
            exact: false,
        }
    }

    /// A constant that has met no tape yet.
    #[inline]
    pub(crate) fn detached(value: T) -> Self {
        Self::constant_on(None, value)
    }

    /// What stands for a value that could not be recorded: the error is in the tape.
    #[inline]
    fn poisoned(tape: Option<&'t Tape<T>>) -> Self {
        Self::constant_on(tape, T::constant(T::Primal::NAN))
    }

    /// The value.
    #[inline]
    pub fn value(self) -> T {
        self.value
    }

    /// The gradient gathered by the backward passes since the last zeroing; 0 if nothing depended on it.
    ///
    /// # Errors
    ///
    /// [`Error::NotRetained`] if the value has no node of its own; the tape's error if recording failed.
    #[inline]
    pub fn grad(self) -> Result<T, Error> {
        let (tape, node) = self.own_node()?;
        Ok(tape.gradient_at(node))
    }

    /// A name for the node that outlives the handle; see [`Tape::handle`].
    ///
    /// # Errors
    ///
    /// As [`grad`](Self::grad).
    pub fn id(self) -> Result<NodeId, Error> {
        let (tape, node) = self.own_node()?;
        Ok(tape.id_of(node))
    }

    /// The same value with a node, hence a gradient, of its own. A handle that is its node already, and a constant, stay what they are.
    #[inline]
    pub fn retain(self) -> Self {
        match self.tape {
            Some(tape) if !self.exact && !self.is_constant() => {
                Self::recorded(tape, tape.record([(self.node, self.slope)]), self.value)
            }
            _ => self,
        }
    }

    /// Adds the gradient of this value to the gradients of all nodes it depends on. Same as [`Tape::backward`] with seed 1.
    ///
    /// # Errors
    ///
    /// The tape's error if recording failed.
    #[inline]
    pub fn backward(self) -> Result<(), Error> {
        match self.tape {
            Some(tape) => tape.backward_from(self.node, self.slope),
            None => Ok(()),
        }
    }

    /// The result of a function of this variable that the caller has computed: its value and its derivative.
    ///
    /// ```
    /// use burtorch_core::Tape;
    ///
    /// let tape = Tape::new();
    /// let x = tape.var(0.5_f64);
    /// let y = x.custom(x.value().asin(), 1.0 / (1.0 - 0.25_f64).sqrt());
    /// y.backward()?;
    /// assert_eq!(x.grad()?, 1.0 / 0.75_f64.sqrt());
    /// # Ok::<(), burtorch_core::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn custom(self, value: T, derivative: T) -> Self {
        self.unary("custom", value, derivative)
    }

    /// The node that the handle is, if it is one.
    pub(crate) fn as_node(self) -> Option<u32> {
        self.exact.then_some(self.node)
    }

    /// The tape and node, if the handle is its node.
    fn own_node(self) -> Result<(&'t Tape<T>, u32), Error> {
        // Not `ok_or`, which makes an error to drop it again.
        let Some(tape) = self.tape else {
            return Err(Error::NotRetained);
        };
        tape.check()?;
        if self.exact {
            Ok((tape, self.node))
        } else {
            Err(Error::NotRetained)
        }
    }

    /// The handle's place in a backward pass of `tape`: its node and slope.
    pub(crate) fn root_on(self, tape: &Tape<T>) -> Result<(u32, T), Error> {
        match self.tape {
            Some(own) if !std::ptr::eq(own, tape) => Err(Error::ForeignTape { what: "root" }),
            _ => Ok((self.node, self.slope)),
        }
    }

    #[inline]
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
            (Some(a), Some(b)) if std::ptr::eq(a, b) => {
                let arguments = [
                    (self.node, self.slope.chain(left)),
                    (other.node, other.slope.chain(right)),
                ];
                Self::recorded(a, a.record(arguments), value)
            }
            (tape, _) => {
                Self::fault(Error::MixedTapes { op }, [self, other].into_iter());
                Self::poisoned(tape)
            }
        }
    }

    /// A function of all values of `groups`, whose partial derivatives `fill` writes in their order.
    #[inline(always)]
    fn reduction<const N: usize>(
        op: &'static str,
        groups: [&[Self]; N],
        value: T,
        fill: impl FnOnce(&mut [T]),
    ) -> Self {
        let inputs = || groups.into_iter().flatten().copied();
        let Some(tape) = inputs().find_map(|x| x.tape) else {
            return Self::detached(value);
        };
        if inputs().any(|x| x.tape.is_some_and(|other| !std::ptr::eq(other, tape))) {
            Self::fault(Error::MixedTapes { op }, inputs());
            return Self::poisoned(Some(tape));
        }
        let inputs = inputs().map(|x| (x.node, x.slope));
        Self::recorded(tape, tape.record_many(inputs, fill), value)
    }

    /// The exact handle of a node just recorded, with a NaN if the tape was full.
    #[inline(always)]
    pub(crate) fn recorded(tape: &'t Tape<T>, (node, fits): (u32, bool), value: T) -> Self {
        let value = if fits {
            value
        } else {
            T::constant(T::Primal::NAN)
        };
        Self::exact(tape, node, value)
    }

    /// Marks all tapes involved as faulty: the two slices differ in length.
    #[cold]
    fn mismatch(op: &'static str, [a, b]: [&[Self]; 2]) -> Self {
        let error = Error::LengthMismatch {
            op,
            expected: a.len(),
            found: b.len(),
        };
        let inputs = a.iter().chain(b).copied();
        Self::fault(error, inputs.clone());
        Self::poisoned(inputs.into_iter().find_map(|x| x.tape))
    }

    /// Marks all tapes involved as faulty. The caller makes the handle: one that was returned from here would be kept in
    /// memory, with all handles that may take its place.
    #[cold]
    #[inline(never)]
    pub(crate) fn fault(error: Error, inputs: impl Iterator<Item = Self>) {
        for tape in inputs.filter_map(|x| x.tape) {
            tape.fault(error.clone());
        }
    }
}

recorded_scalar! { Var }
