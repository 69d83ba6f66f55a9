//! The crate's error type.

use crate::Shape;

/// What a caller of this crate can get wrong. Every message names the op or tensor, what was expected and what was found.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape has more than [`Shape::MAX_RANK`] dimensions, a dimension of zero, or more elements than memory can hold.
    #[error("shape {dims:?} is not usable: {reason}")]
    Shape {
        /// The dimensions asked for.
        dims: Vec<usize>,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// An op was given inputs whose shapes it cannot combine.
    #[error("{op}: expected {expected}, found {found}")]
    Mismatch {
        /// The op's name.
        op: &'static str,
        /// What the op needs, in words.
        expected: String,
        /// What it was given.
        found: String,
    },
    /// An index (token id, target) lies outside the table it points into.
    #[error("{op}: index {found} at position {position} is outside 0..{bound}")]
    Index {
        /// The op's name.
        op: &'static str,
        /// Position within the op's indices.
        position: usize,
        /// The index found there.
        found: u32,
        /// Number of rows or classes.
        bound: usize,
    },
    /// A [`Segment`](crate::Segment) began a backward pass.
    #[error(
        "a segment began a backward pass: it may only compute, since it is run again within such a pass"
    )]
    BackwardInSegment,
    /// The number of values does not fit the shape or buffer they are meant for.
    #[error("{what}: expected {expected} numbers, found {found}")]
    Length {
        /// What the numbers are for.
        what: String,
        /// The number needed.
        expected: usize,
        /// The number given.
        found: usize,
    },
    /// A gradient was asked of a result that is not one number.
    #[error("backward without a seed needs a root of one element, found shape {found}")]
    NotScalar {
        /// The root's shape.
        found: Shape,
    },
    /// A hyperparameter of an op is outside its range.
    #[error("{op}: {name} must be {expected}, found {found}")]
    Setting {
        /// The op's name.
        op: &'static str,
        /// The setting.
        name: &'static str,
        /// The allowed range, in words.
        expected: &'static str,
        /// The value found.
        found: f64,
    },
    /// Two parameters of one store share a name.
    #[error("a parameter named {name} exists already")]
    DuplicateName {
        /// The name used twice.
        name: String,
    },
    /// A parameter or tensor handle belongs to another store or another pass.
    #[error("{what} {index} is not one of the {count} here: it belongs elsewhere")]
    Foreign {
        /// Kind of handle.
        what: &'static str,
        /// The handle's number.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// With the search for non-finite numbers on: the first op that produced one.
    #[error("{op} (node {node}) produced a non-finite number in its {phase} pass")]
    NonFinite {
        /// The op's name.
        op: &'static str,
        /// The op's position in the pass, from 0; a recomputed segment counts as one op, and its ops have its position.
        node: usize,
        /// `forward` or `backward`.
        phase: &'static str,
    },
    /// With the search for non-finite numbers on: backward was handed one.
    #[error("{what}: expected finite numbers, found {found} at position {position}")]
    NotFinite {
        /// `seed of the root` or `gradients`.
        what: &'static str,
        /// Its place.
        position: usize,
        /// NaN or an infinity.
        found: f64,
    },
    /// The system has not enough memory for a tensor.
    #[error("out of memory: no room for {numbers} more numbers")]
    OutOfMemory {
        /// How many were asked for.
        numbers: usize,
    },
    /// The scalar tape refused.
    #[error("scalar tape: {0}")]
    Tape(#[from] burtorch_core::Error),
    /// Two results that should agree do not; reported by [`check_op`](crate::check_op).
    #[error("{op}: {what} at {position}: expected {expected:e}, found {found:e}")]
    Disagreement {
        /// The op's name.
        op: &'static str,
        /// Which comparison failed.
        what: String,
        /// Position in the flat result.
        position: usize,
        /// The reference.
        expected: f64,
        /// The value checked.
        found: f64,
    },
    /// The thread pool could not be made.
    #[error("cannot start {threads} threads: {reason}")]
    Threads {
        /// The number asked for.
        threads: usize,
        /// The system's answer.
        reason: String,
    },
}

/// The crate's result type.
pub type Result<T> = std::result::Result<T, Error>;

/// Refuses a number of values that is not the one needed.
pub(crate) fn check_len(what: impl std::fmt::Display, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Length {
        what: what.to_string(),
        expected,
        found,
    })
}

/// Refuses numbers among which one is not finite.
pub(crate) fn check_finite<T: burtorch_core::Float>(what: &'static str, x: &[T]) -> Result<()> {
    match x.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(position) => Err(Error::NotFinite {
            what,
            position,
            found: x[position].to_f64(),
        }),
    }
}
