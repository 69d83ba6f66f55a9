//! [`Var`]: the copyable handle on a value of a tape.

use std::fmt;

use crate::error::Error;
use crate::float::Float;
use crate::lanes::Work;
use crate::matrix_view::MatrixView;
use crate::ops::{binary_rows, constant, operator_rows, partial, reduction_rows, unary_rows};
use crate::record::{
    Reduction, as_work, recorded_binary, recorded_operators, recorded_reduction, recorded_scalar,
    recorded_unary,
};
use crate::scalar::{Number, Scalar};
use crate::tape::{Argument, CONSTANT, NodeId, Tape};

mod held;
mod parked;

pub(crate) use held::{Held, Whole};
pub use parked::Handles;

/// A value on a [`Tape`]: a small handle that is copied like a number.
///
/// A handle knows its value, the node it depends on, and its slope: the derivative with respect to that node. An op with one
/// argument, or with a constant, changes the value and multiplies the slope, and records nothing; an op on several
/// variables records one node. Hence the gradient of a value is there to be read ([`grad`](Self::grad)) if the handle *is* its
/// node: a variable, the result of an op on several variables, or whatever was [`retain`](Self::retain)ed.
///
/// Values and slopes lie in the handle, but those of [`Lanes`](crate::lanes::Lanes) on the tape until it is rewound, so that handles stay small.
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
pub struct Var<'t, T: Scalar> {
    held: T::Held,
    /// None for a constant that has met no tape yet.
    tape: Option<&'t Tape<T>>,
}

impl<T: Scalar> Clone for Var<'_, T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Scalar> Copy for Var<'_, T> {}

impl<T: Scalar> fmt::Debug for Var<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, node, slope) = (self.value(), self.node(), self.held.slope(self.tape));
        write!(f, "Var({value:?}, node {node}, slope {slope:?})")
    }
}

impl<'t, T: Scalar> Var<'t, T> {
    /// The handle that is node `node`.
    #[inline(always)]
    pub(crate) fn exact(tape: &'t Tape<T>, node: u32, value: T) -> Self {
        Self {
            held: Held::exact(tape, node, value),
            tape: Some(tape),
        }
    }

    /// A constant on `tape`.
    #[inline(always)]
    pub(crate) fn constant_on(tape: Option<&'t Tape<T>>, value: T) -> Self {
        Self {
            held: Held::constant(tape, value),
            tape,
        }
    }

    /// A constant that has met no tape yet.
    #[inline(always)]
    pub(crate) fn detached(value: T) -> Self {
        Self::constant_on(None, value)
    }

    /// Whether this is a constant that has met no tape yet.
    #[inline(always)]
    fn is_detached(self) -> bool {
        self.tape.is_none()
    }

    /// The same value as a constant.
    #[inline(always)]
    fn stopped(self) -> Self {
        Self {
            held: self.held.stopped(self.tape),
            ..self
        }
    }

    /// A constant on the tape of this value or of the other.
    #[inline(always)]
    fn constant_beside(self, other: Self, value: T) -> Self {
        Self::constant_on(self.tape.or(other.tape), value)
    }

    /// Does the work of an op, compiled for the machine's vectors if the numbers are.
    #[inline(always)]
    fn compiled<W: Work>(work: W) -> W::Output {
        T::compiled(work)
    }

    /// What stands for a value that could not be recorded: the error is in the tape.
    #[inline]
    fn poisoned(tape: Option<&'t Tape<T>>) -> Self {
        Self::constant_on(tape, T::constant(T::Primal::NAN))
    }

    /// The value.
    #[inline(always)]
    pub fn value(self) -> T {
        self.held.value(self.tape)
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
            Some(tape) if !self.is_exact() && !self.is_constant() => {
                let argument = (self.node(), self.held.slope(self.tape));
                Self::recorded(tape, tape.record([argument]), self.value())
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
            Some(tape) => tape.backward_from(self.node(), self.held.slope(self.tape)),
            None => Ok(()),
        }
    }

    /// The result of a function of this variable that the caller has computed: its value and its derivative.
    ///
    /// A constant that has met no tape yet holds one number for all lanes; a result whose lanes differ is NaN there.
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
        self.is_exact().then_some(self.node())
    }

    /// The tape and node, if the handle is its node.
    fn own_node(self) -> Result<(&'t Tape<T>, u32), Error> {
        // Not `ok_or`, which makes an error to drop it again.
        let Some(tape) = self.tape else {
            return Err(Error::NotRetained);
        };
        tape.check()?;
        if self.is_exact() {
            Ok((tape, self.node()))
        } else {
            Err(Error::NotRetained)
        }
    }

    /// The handle's place in a backward pass of `tape`: its node and slope.
    pub(crate) fn root_on(self, tape: &Tape<T>) -> Result<(u32, T), Error> {
        match self.tape {
            Some(own) if !std::ptr::eq(own, tape) => Err(Error::ForeignTape { what: "root" }),
            _ => Ok((self.node(), self.held.slope(self.tape))),
        }
    }

    /// The tape, if the handle is on one.
    pub(crate) fn tape(self) -> Option<&'t Tape<T>> {
        self.tape
    }

    #[inline(always)]
    fn is_exact(self) -> bool {
        self.held.is_exact(self.tape)
    }

    #[inline(always)]
    fn is_constant(self) -> bool {
        self.node() == CONSTANT
    }

    /// A function of this value alone.
    #[inline(always)]
    fn unary(self, _op: &'static str, value: T, partial: T) -> Self {
        Self {
            held: self.held.function(self.tape, self.tape, value, partial),
            ..self
        }
    }

    /// A function of two values.
    #[inline(always)]
    fn binary(self, other: Self, op: &'static str, value: T, (left, right): (T, T)) -> Self {
        if other.is_constant() {
            let tape = self.tape.or(other.tape);
            let held = self.held.function(self.tape, tape, value, left);
            return Self { held, tape };
        }
        if self.is_constant() {
            return other.unary(op, value, right);
        }
        match (self.tape, other.tape) {
            (Some(a), Some(b)) if std::ptr::eq(a, b) => {
                let arguments = [
                    (self.node(), self.chained(left)),
                    (other.node(), other.chained(right)),
                ];
                Self::recorded(a, a.record(arguments), value)
            }
            (tape, _) => {
                Self::fault(
                    Error::MixedTapes { op },
                    [self.tape, other.tape].into_iter(),
                );
                Self::poisoned(tape)
            }
        }
    }

    /// A function of all values of `groups`, in their order.
    #[inline(always)]
    fn reduction<const N: usize>(
        op: &'static str,
        groups: [&[Self]; N],
        reduction: impl Reduction<T>,
    ) -> Self {
        let Ok(tape) = Self::common_tape(groups) else {
            let tapes = || groups.into_iter().flatten().map(|x| x.tape);
            Self::fault(Error::MixedTapes { op }, tapes());
            return Self::poisoned(tapes().flatten().next());
        };
        let Some(tape) = tape else {
            return Self::detached(Self::reduction_of_constants(reduction));
        };
        let (node, value) = tape.record_many(groups, reduction);
        Self::recorded(tape, node, value)
    }

    /// Out of line, so that it is compiled once for all levels. The caller makes the handle, as for [`fault`](Self::fault).
    #[cold]
    #[inline(never)]
    fn reduction_of_constants(reduction: impl Reduction<T>) -> T {
        reduction.value()
    }

    /// The tape that all these are on, but for constants that have met none; an error if there are several.
    #[inline(always)]
    fn common_tape<const N: usize>(groups: [&[Self]; N]) -> Result<Option<&'t Tape<T>>, ()> {
        let address = |x: &Self| x.tape.map(std::ptr::from_ref);
        let Some(first) = groups.iter().find_map(|group| group.first()) else {
            return Ok(None);
        };
        let mut all_there = true;
        for group in groups {
            for x in group {
                all_there &= address(x) == address(first);
            }
        }
        if all_there {
            return Ok(first.tape);
        }
        let mut tapes = groups.into_iter().flatten().filter_map(|x| x.tape);
        let tape = tapes.next();
        let same = |other: &'t Tape<T>| tape.is_some_and(|tape| std::ptr::eq(tape, other));
        if tapes.all(same) { Ok(tape) } else { Err(()) }
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

    /// Marks all tapes involved as faulty: a list has not the length expected.
    #[inline(always)]
    fn mismatch(op: &'static str, [expected, found]: [usize; 2], [a, b]: [&[Self]; 2]) -> Self {
        let error = Error::LengthMismatch {
            op,
            expected,
            found,
        };
        let tapes = a.iter().chain(b).map(|x| x.tape);
        Self::fault(error, tapes.clone());
        Self::poisoned(tapes.flatten().next())
    }

    /// Marks all tapes involved as faulty. Neither takes handles nor makes one: those passed would be fetched whole before every op
    /// to have them ready, one returned would be kept in memory, with all handles that may take its place.
    #[cold]
    #[inline(never)]
    pub(crate) fn fault(error: Error, tapes: impl Iterator<Item = Option<&'t Tape<T>>>) {
        for tape in tapes.flatten() {
            tape.fault(error.clone());
        }
    }
}

impl<T: Scalar> Argument<T> for Var<'_, T> {
    #[inline(always)]
    fn node(self) -> u32 {
        self.held.node(self.tape)
    }

    #[inline(always)]
    fn is_node(self) -> bool {
        self.is_exact() || self.is_constant()
    }

    #[inline(always)]
    fn chained(self, partial: T) -> T {
        self.held.chained(self.tape, partial)
    }
}

recorded_scalar! { Var [] [] {
    fn affine(
        x: MatrixView<'_, Self>,
        weights: MatrixView<'_, Self>,
        biases: Option<&[Self]>,
        out: &mut Vec<Self>,
    ) {
        Self::record_affine(x, weights, biases, out);
    }

    fn layer_norm(
        x: MatrixView<'_, Self>,
        gains: &[Self],
        biases: Option<&[Self]>,
        epsilon: T::Primal,
        out: &mut Vec<Self>,
    ) {
        Self::record_layer_norm(x, gains, biases, epsilon, out);
    }

    fn causal_attention(
        x: MatrixView<'_, Self>,
        heads: usize,
        mask: Option<&dyn Fn(usize, usize, usize) -> T::Primal>,
        out: &mut Vec<Self>,
    ) {
        Self::record_attention(x, heads, mask, out);
    }
} }
