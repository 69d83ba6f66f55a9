//! What can be wrong with hyperparameters, buffers and saved states.

use std::ops::Range;

/// Every failure of this crate; a message says what was expected, what was found, and where.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// A hyperparameter lies outside its domain, or is not a number.
    #[error("{what}: expected {expected}, found {found}")]
    Domain {
        /// The hyperparameter.
        what: &'static str,
        /// Its domain in words.
        expected: &'static str,
        /// The value.
        found: f64,
    },
    /// Two settings that exclude each other.
    #[error("{what}: expected {expected}")]
    Combination {
        /// The setting that cannot be honoured.
        what: &'static str,
        /// What it needs.
        expected: &'static str,
    },
    /// A slice does not have the length of the parameter buffer.
    #[error("{what}: expected {expected} numbers, found {found}")]
    Length {
        /// Which slice.
        what: &'static str,
        /// The length of the parameter buffer.
        expected: usize,
        /// The length of the slice.
        found: usize,
    },
    /// A parameter group starts before its predecessor ends, ends before it starts, or leaves the buffer.
    #[error("parameter group {index}: expected a range inside {}..{}, found {}..{}", allowed.start, allowed.end, found.start, found.end)]
    GroupRange {
        /// The place of the group in the list, counted from 0.
        index: usize,
        /// What its predecessors leave of the buffer.
        allowed: Range<usize>,
        /// The range of the group.
        found: Range<usize>,
    },
    /// A gradient, or the norm of all of them, is infinite or not a number; nothing was changed.
    #[error("gradients: expected finite numbers, found {found} at index {index}")]
    NonFinite {
        /// The first place with a number that is not finite.
        index: usize,
        /// That number.
        found: f64,
    },
    /// All gradients are finite, but their norm exceeds the largest `f64`; nothing was changed.
    #[error("gradients: expected a norm within the range of 64-bit numbers, found a larger one")]
    NormOverflow,
    /// A saved state lacks a buffer, or has one that this optimizer does not know.
    #[error("state of {optimizer}: expected the buffers {expected:?}, found {found:?}")]
    StateBuffers {
        /// The optimizer to be restored.
        optimizer: &'static str,
        /// The names of its buffers.
        expected: Vec<String>,
        /// The names in the state.
        found: Vec<String>,
    },
    /// A buffer of a saved state has a wrong length.
    #[error("state of {optimizer}: expected {expected} numbers in {buffer}, found {found}")]
    StateLength {
        /// The optimizer to be restored.
        optimizer: &'static str,
        /// The name of the buffer.
        buffer: String,
        /// The length of the parameter buffer.
        expected: usize,
        /// The length in the state.
        found: usize,
    },
}

/// Accepts a value that is finite and at least 0.
pub(crate) fn not_negative(what: &'static str, found: f64) -> Result<(), Error> {
    domain(what, "a finite number of at least 0", found, found >= 0.0)
}

/// Accepts a value that is finite and above 0.
pub(crate) fn positive(what: &'static str, found: f64) -> Result<(), Error> {
    domain(what, "a finite number above 0", found, found > 0.0)
}

/// Accepts a value from 0 to below 1.
pub(crate) fn below_one(what: &'static str, found: f64) -> Result<(), Error> {
    domain(
        what,
        "a number of at least 0 and below 1",
        found,
        (0.0..1.0).contains(&found),
    )
}

fn domain(
    what: &'static str,
    expected: &'static str,
    found: f64,
    inside: bool,
) -> Result<(), Error> {
    if inside && found.is_finite() {
        Ok(())
    } else {
        Err(Error::Domain {
            what,
            expected,
            found,
        })
    }
}

/// Accepts a slice of `expected` numbers.
pub(crate) fn length(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::Length {
            what,
            expected,
            found,
        })
    }
}
