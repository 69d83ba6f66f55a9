//! What can go wrong on a tape, in a program, or in a gradient check.

use std::path::{Path, PathBuf};

/// Errors of this crate.
///
/// Recording never fails at once, so that formulas stay readable: a mistake leaves its error in the
/// tape, turns the affected values into NaN, and every later [`backward`](crate::Tape::backward),
/// [`grad`](crate::Var::grad) and [`check`](crate::Tape::check) returns it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// An operation combined variables of two different tapes.
    #[error("`{op}` combines variables of two different tapes")]
    MixedTapes {
        /// The operation that combined them.
        op: &'static str,
    },

    /// The tape holds as many nodes or arguments as it may.
    #[error("the tape is full: expected at most {limit} {what}")]
    TapeFull {
        /// What ran out: `nodes`, `arguments`, or `numbers` where these lie on the tape, as those of lanes do.
        what: &'static str,
        /// How many of them the tape may hold.
        limit: usize,
    },

    /// The memory that was asked for is not there.
    #[error("no memory for a tape of {nodes} nodes and {arguments} arguments")]
    OutOfMemory {
        /// Nodes that were to fit.
        nodes: usize,
        /// Arguments that were to fit.
        arguments: usize,
    },

    /// This machine has no SIMD level of that name.
    #[error("expected a SIMD level of this machine ({available}), found `{found}`")]
    SimdLevel {
        /// The name.
        found: String,
        /// The names there are.
        available: String,
    },

    /// Work was done at a SIMD level before another one was asked for.
    #[error(
        "the SIMD level {asked} was asked for when {used} had been used already: it belongs at the beginning of a program"
    )]
    SimdLevelInUse {
        /// The level that is used.
        used: &'static str,
        /// The one that was asked for.
        asked: &'static str,
    },

    /// A backward pass began within another one of the same tape: the operators of its numbers call it.
    #[error("the tape is in the middle of a backward pass")]
    Busy,

    /// Two lists that belong together differ in length.
    #[error("`{op}` expected {expected} items in its second list, found {found}")]
    LengthMismatch {
        /// The operation.
        op: &'static str,
        /// Length of the first list.
        expected: usize,
        /// Length of the other list.
        found: usize,
    },

    /// A list that should hold rows of equal length ends within one, or its rows hold nothing.
    #[error("expected rows of {width} numbers each, at least one, found {found} numbers")]
    UnevenRows {
        /// Numbers in a row.
        width: usize,
        /// Numbers in the list.
        found: usize,
    },

    /// The value has no node of its own, hence no gradient slot.
    #[error(
        "this value has no gradient of its own: it is neither a variable, a recorded result, nor retained"
    )]
    NotRetained,

    /// A mark or node id made by another tape.
    #[error("this {what} belongs to another tape")]
    ForeignTape {
        /// `mark`, `node` or `root`.
        what: &'static str,
    },

    /// A mark or node id whose place on the tape has been rewound since.
    #[error("this {what} points at node {position}, but the tape was rewound below it since")]
    Rewound {
        /// `mark` or `node`.
        what: &'static str,
        /// The position it points at.
        position: usize,
    },

    /// A range of nodes that ends beyond the last node.
    #[error("expected nodes up to {end}, but the tape ends at {len}")]
    NoSuchNode {
        /// One past the last node asked for.
        end: usize,
        /// One past the last node there is.
        len: usize,
    },

    /// A program was recorded from code that looks at a value, which there is none of before the program is evaluated.
    #[error(
        "`{op}` asked for a value while a program was recorded: choose with select, max, min, at_least, relu or abs instead"
    )]
    NoValue {
        /// The method that asked.
        op: &'static str,
    },

    /// The program holds as many values as it may.
    #[error("the program is full: expected at most {limit} values")]
    ProgramFull {
        /// How many it may hold.
        limit: usize,
    },

    /// A list of another length than the program, or the tape, has.
    #[error("expected {expected} {what}, found {found}")]
    WrongCount {
        /// What they are: `inputs`, `outputs`, `seeds`, …
        what: &'static str,
        /// How many there must be.
        expected: usize,
        /// How many there are.
        found: usize,
    },

    /// An input that the program does not have.
    #[error("expected an input below {inputs}, found input {input}")]
    NoSuchInput {
        /// The input asked for.
        input: usize,
        /// How many inputs there are.
        inputs: usize,
    },

    /// A file could not be read or written.
    #[error("{}: {message}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kind of failure.
        kind: std::io::ErrorKind,
        /// What the system says.
        message: String,
    },

    /// A file that is not of the kind expected, or is damaged.
    #[error("{}: expected {what} {expected}, found {found}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it: `version`, `the checksum`, …
        what: &'static str,
        /// What was expected of it.
        expected: String,
        /// What it is.
        found: String,
    },

    /// Bytes that are not a program, or not a sound one.
    #[error("not a sound program: byte {offset}: {problem}")]
    BadProgram {
        /// Where the problem is.
        offset: usize,
        /// What was expected and found.
        problem: String,
    },

    /// [`gradcheck`](crate::gradcheck) found a derivative that disagrees with the differences of the function.
    #[error(
        "coordinate {coordinate}: expected derivative {expected:e} from differences, found {found:e}, which differs by more than {tolerance:e}"
    )]
    WrongGradient {
        /// The coordinate with the largest error.
        coordinate: usize,
        /// Its derivative by central differences.
        expected: f64,
        /// Its derivative by the tape.
        found: f64,
        /// The largest difference that would have been accepted.
        tolerance: f64,
    },
}

impl Error {
    /// What the system says about a file.
    pub(crate) fn io(path: &Path, error: &std::io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            kind: error.kind(),
            message: error.to_string(),
        }
    }
}
