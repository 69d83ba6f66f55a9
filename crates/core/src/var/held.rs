//! What a handle holds of its value: all of it, or its place on the tape.

use crate::ops::constant;
use crate::scalar::Scalar;
use crate::tape::{CONSTANT, Tape};

/// What a handle holds, besides its tape: value, node, slope, and whether it is its node.
///
/// It is told the handle's tape at every turn, rather than holding it, so that a handle of small parts fits into two registers.
pub trait Held<T: Scalar>: Copy {
    /// The most nodes that can be told apart.
    const MOST_NODES: usize = usize::MAX;

    /// A value that is node `node`.
    fn exact(tape: &Tape<T>, node: u32, value: T) -> Self;
    /// A constant, on a tape or on none yet.
    fn constant(tape: Option<&Tape<T>>, value: T) -> Self;
    /// The same value as a constant.
    #[inline(always)]
    fn stopped(self, tape: Option<&Tape<T>>) -> Self {
        Self::constant(tape, self.value(tape).stop_gradient())
    }
    /// A function of this value, which is on the tape `own`, and of constants, with its partial derivative, for a handle on `tape`.
    fn function(self, own: Option<&Tape<T>>, tape: Option<&Tape<T>>, value: T, partial: T) -> Self;
    /// The value.
    fn value(self, tape: Option<&Tape<T>>) -> T;
    /// The node it depends on.
    fn node(self, tape: Option<&Tape<T>>) -> u32;
    /// Whether it is its node.
    fn is_exact(self, tape: Option<&Tape<T>>) -> bool;
    /// Its derivative with respect to the node.
    fn slope(self, tape: Option<&Tape<T>>) -> T;
    /// The derivative with respect to the node of what has this derivative with respect to the value.
    #[inline(always)]
    fn chained(self, tape: Option<&Tape<T>>, partial: T) -> T {
        self.slope(tape).chain(partial)
    }
}

/// Behind the bits of a node.
const EXACT: u64 = 1 << 32;

/// All of it, for numbers that fit into registers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Whole<T> {
    value: T,
    /// The node, and [`EXACT`] if the handle is it. One number, as what is stored in parts and fetched whole just after waits for
    /// the stores to end; between the two others for the same reason, lest they are fetched as one vector.
    place: u64,
    slope: T,
}

impl<T: Scalar> Held<T> for Whole<T> {
    #[inline(always)]
    fn exact(_: &Tape<T>, node: u32, value: T) -> Self {
        Self {
            value,
            place: u64::from(node) | EXACT,
            slope: constant(1.0),
        }
    }

    #[inline(always)]
    fn constant(_: Option<&Tape<T>>, value: T) -> Self {
        Self {
            value,
            place: CONSTANT.into(),
            slope: constant(0.0),
        }
    }

    #[inline(always)]
    fn function(self, _: Option<&Tape<T>>, _: Option<&Tape<T>>, value: T, partial: T) -> Self {
        Self {
            value,
            place: self.place & !EXACT,
            slope: self.slope.chain(partial),
        }
    }

    #[inline(always)]
    fn value(self, _: Option<&Tape<T>>) -> T {
        self.value
    }

    #[inline(always)]
    fn node(self, _: Option<&Tape<T>>) -> u32 {
        self.place as u32
    }

    #[inline(always)]
    fn is_exact(self, _: Option<&Tape<T>>) -> bool {
        self.place & EXACT != 0
    }

    #[inline(always)]
    fn slope(self, _: Option<&Tape<T>>) -> T {
        self.slope
    }
}
