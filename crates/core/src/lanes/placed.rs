//! What the handle of lanes holds: not the numbers, but where they lie.

use super::Lanes;
use crate::float::Float;
use crate::ops::constant;
use crate::scalar::Scalar;
use crate::tape::{CONSTANT, Tape};
use crate::var::Held;

/// The place of a value among the numbers of its tape, with the slope behind it, and its node; of a constant that is on no tape, the
/// number that all lanes hold.
///
/// Lanes are kept out of handles because users' code, which copies handles, is compiled for every machine: vectors copied in pieces
/// and fetched as a whole soon after wait for each other, and that takes most of the time of a recording.
#[derive(Clone, Copy)]
pub struct Placed(u64);

/// Set beside a node that the value is, so that there is no slope.
const EXACT: u32 = 1 << 31;

impl Placed {
    #[inline(always)]
    fn new(node: u32, place: u32) -> Self {
        Self(u64::from(node) | u64::from(place) << 32)
    }

    /// A constant on no tape; NaN if its lanes differ, for which there is no room.
    ///
    /// Out of line: what read a single lane of a value would have the compiler take all values to pieces.
    #[cold]
    #[inline(never)]
    fn detached<T: Float, const N: usize>(value: &Lanes<T, N>) -> Self {
        let first = value.primal().to_f64();
        let all_same = value.as_slice().iter().all(|x| x.to_f64() == first);
        Self(if all_same { first } else { f64::NAN }.to_bits())
    }

    #[inline(always)]
    fn flagged_node(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    fn is_exact(self) -> bool {
        self.flagged_node() & EXACT != 0
    }

    #[inline(always)]
    fn place(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl<T: Float, const N: usize> Held<Lanes<T, N>> for Placed {
    const MOST_NODES: usize = (EXACT - 1) as usize;

    #[inline(always)]
    fn exact(tape: &Tape<Lanes<T, N>>, node: u32, value: Lanes<T, N>) -> Self {
        Self::new(node | EXACT, tape.hold([value]))
    }

    #[inline(always)]
    fn constant(tape: Option<&Tape<Lanes<T, N>>>, value: Lanes<T, N>) -> Self {
        match tape {
            Some(tape) => Self::new(CONSTANT, tape.hold([value])),
            None => Self::detached(&value),
        }
    }

    #[inline(always)]
    fn stopped(self, tape: Option<&Tape<Lanes<T, N>>>) -> Self {
        match tape {
            Some(_) => Self::new(CONSTANT, self.place()),
            None => self,
        }
    }

    #[inline(always)]
    fn function(
        self,
        own: Option<&Tape<Lanes<T, N>>>,
        tape: Option<&Tape<Lanes<T, N>>>,
        value: Lanes<T, N>,
        partial: Lanes<T, N>,
    ) -> Self {
        match own {
            Some(tape) if self.flagged_node() != CONSTANT => {
                let slope = self.chained(own, partial);
                Self::new(self.flagged_node() & !EXACT, tape.hold([value, slope]))
            }
            _ => Self::constant(tape, value),
        }
    }

    #[inline(always)]
    fn value(self, tape: Option<&Tape<Lanes<T, N>>>) -> Lanes<T, N> {
        match tape {
            Some(tape) => tape.held_at(self.place()),
            None => constant(f64::from_bits(self.0)),
        }
    }

    #[inline(always)]
    fn node(self, tape: Option<&Tape<Lanes<T, N>>>) -> u32 {
        if tape.is_some() {
            self.flagged_node() & !EXACT
        } else {
            CONSTANT
        }
    }

    #[inline(always)]
    fn is_exact(self, tape: Option<&Tape<Lanes<T, N>>>) -> bool {
        tape.is_some() && Self::is_exact(self)
    }

    #[inline(always)]
    fn slope(self, tape: Option<&Tape<Lanes<T, N>>>) -> Lanes<T, N> {
        self.chained(tape, constant(1.0))
    }

    #[inline(always)]
    fn chained(self, tape: Option<&Tape<Lanes<T, N>>>, partial: Lanes<T, N>) -> Lanes<T, N> {
        match tape {
            Some(_) if Self::is_exact(self) => partial,
            Some(tape) if self.flagged_node() != CONSTANT => {
                tape.held_at(self.place() + 1).chain(partial)
            }
            _ => constant(0.0),
        }
    }
}
