//! A tape of fixed size that lives on the stack, for small graphs of known size.

use std::fmt;

use crate::error::Error;
use crate::float::Float;
use crate::record::Reduction;
use crate::scalar::Scalar;

mod rows;
mod var;

use rows::Rows;
pub use var::StackVar;

/// The node of all constants; none has this number.
const CONSTANT: u32 = u32::MAX;

/// A [`Tape`](crate::Tape) of at most `N` nodes that allocates nothing.
///
/// Where a whole recording is visible in one function, the compiler sees through the tape: numbers of nodes become constants,
/// nodes become registers, and what remains is about the gradient one would have written by hand. For that, make a new tape for
/// each gradient, make variables one by one instead of in arrays or loops, and let the recorded functions be inlined
/// (`#[inline(always)]` where they are large). Where the compiler
/// does not see it all, and beyond 64 nodes, this is a tape like the other, only without growth, marks and names of nodes.
///
/// ```
/// use burtorch_core::{Scalar, StackTape};
///
/// let tape = StackTape::<f64, 8>::new();
/// let (a, b) = (tape.var(-41.0), tape.var(2.0));
/// let (c, d) = (a + b, a * b + b.cube());
/// let g = (c - d).square() / 2.0;
/// g.backward()?;
/// assert_eq!((g.value(), a.grad()?, b.grad()?), (612.5, -35.0, 1050.0));
/// assert_eq!(tape.len(), 6);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # How many nodes are needed
///
/// | recorded | nodes |
/// |---|---|
/// | a variable; a value that is retained for the first time | 1 |
/// | an op with one argument, or with constants besides one variable | 0 |
/// | an op with two arguments | 1 |
/// | an op over n arguments, constants included (`dot` of two lists of m has 2m, `dot_bias` 2m + 1) | n − 1, but at least 1 |
/// | `softmax` of n arguments | 2n − 1 |
///
/// A node has two arguments. An op over many is a chain of nodes that pass its gradient on unchanged, so that its gradients
/// are those of [`Tape`](crate::Tape) to the bit. In `f64`, a node takes 48 bytes: a tape of many thousand does not belong on
/// the stack.
///
/// One node more than `N` is an [`Error::TapeFull`]. As with other mistakes, the value that could not be recorded is NaN, and
/// `backward`, `grad` and `check` return the error; a tape that holds an error records nothing more until it is cleared.
///
/// # Handles
///
/// As with [`Tape`](crate::Tape), handles that would outlive their nodes do not compile:
///
/// ```compile_fail,E0502
/// let mut tape = burtorch_core::StackTape::<f64, 4>::new();
/// let x = tape.var(1.0);
/// tape.clear(); // `x` is still borrowed from the tape
/// assert_eq!(x.value(), 1.0);
/// ```
pub struct StackTape<T, const N: usize> {
    rows: Rows<T, N>,
}

impl<T: Scalar, const N: usize> Default for StackTape<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Scalar, const N: usize> fmt::Debug for StackTape<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StackTape({} of {N} nodes)", self.len())
    }
}

impl<T: Scalar, const N: usize> StackTape<T, N> {
    /// An empty tape.
    #[must_use]
    #[inline(always)]
    pub fn new() -> Self {
        Self { rows: Rows::new() }
    }

    /// A new variable.
    #[inline(always)]
    pub fn var(&self, value: T) -> StackVar<'_, T, N> {
        self.recorded([], value)
    }

    /// New variables, one after the other on the tape.
    #[inline(always)]
    pub fn vars<const K: usize>(&self, values: [T; K]) -> [StackVar<'_, T, N>; K] {
        values.map(|value| self.var(value))
    }

    /// A constant: a value that has no gradient.
    #[inline(always)]
    pub fn constant(&self, value: T) -> StackVar<'_, T, N> {
        StackVar::constant_on(Some(self), value)
    }

    /// Adds to every node the gradient of Σᵢ seedᵢ·rootᵢ.
    ///
    /// Gradients add up over calls until they are zeroed. A gradient of exactly 0 passes on 0 whatever the slopes are.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] if there are not as many seeds as roots, [`Error::ForeignTape`] if a root is another tape's, the
    /// tape's error if recording failed.
    #[inline(always)]
    pub fn backward(&self, roots: &[StackVar<'_, T, N>], seeds: &[T]) -> Result<(), Error> {
        self.check()?;
        if roots.len() != seeds.len() {
            return Err(Error::LengthMismatch {
                op: "backward",
                expected: roots.len(),
                found: seeds.len(),
            });
        }
        if roots.iter().any(|root| !root.may_be_on(self)) {
            return Err(Error::ForeignTape { what: "root" });
        }
        self.rows.sweep(|rows| {
            for (root, &seed) in roots.iter().zip(seeds) {
                root.seed(seed, rows);
            }
        });
        Ok(())
    }

    /// Sets the gradients of all nodes to 0.
    #[inline(always)]
    pub fn zero_grads(&self) {
        self.rows.zero_gradients();
    }

    /// Drops everything recorded, an error that recording left included.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.rows.clear();
    }

    /// Whether everything recorded so far is sound.
    ///
    /// # Errors
    ///
    /// The first error that recording left in the tape.
    #[inline(always)]
    pub fn check(&self) -> Result<(), Error> {
        if self.rows.is_sound() {
            Ok(())
        } else {
            Err(self.rows.error())
        }
    }

    /// Number of nodes.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether nothing has been recorded.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The handle of a new node with at most two (parent, partial derivative) pairs, or poison if there is no room for it.
    #[inline(always)]
    fn recorded<const K: usize>(&self, arguments: [(u32, T); K], value: T) -> StackVar<'_, T, N> {
        match self.rows.record(arguments) {
            Some(node) => StackVar::exact(self, node, value),
            None => self.poisoned(),
        }
    }

    /// The handle of an op over many arguments, given as (node, slope) pairs.
    #[inline(always)]
    fn recorded_many(
        &self,
        inputs: impl DoubleEndedIterator<Item = (u32, T)> + Clone,
        reduction: impl Reduction<T>,
    ) -> StackVar<'_, T, N> {
        match self.rows.record_many(inputs, reduction) {
            Some((node, value)) => StackVar::exact(self, node, value),
            None => self.poisoned(),
        }
    }

    /// What stands for a value that could not be recorded: the error is in the tape.
    #[cold]
    fn poisoned(&self) -> StackVar<'_, T, N> {
        self.constant(T::constant(T::Primal::NAN))
    }
}
