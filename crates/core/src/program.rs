//! Programs: a computation recorded once, then evaluated at any inputs.
//!
//! A [`Tape`](crate::Tape) records a computation together with the numbers of one evaluation. Where the same computation runs
//! at many inputs, most of that work repeats. A [`Program`] is the computation alone: a list of instructions, from which
//! an [`Evaluator`] computes values and gradients as often as it is asked, without recording and without allocating.
//!
//! ```
//! use burtorch_core::{Program, Scalar};
//!
//! // A function over any scalar. Recording calls it once, with symbols instead of numbers.
//! fn loss<S: Scalar<Primal = f64>>(w: &[S]) -> S {
//!     (w[0] * 2.0 - 1.0).relu() + (w[0] - w[1]).square()
//! }
//!
//! let program = Program::record(2, |w| loss(w))?;
//! let mut evaluator = program.evaluator();
//! let (value, gradient) = evaluator.value_and_gradient(&[3.0, 1.0])?;
//! assert_eq!((value, gradient), (9.0, &[6.0, -4.0][..]));
//!
//! // On the other side of the kink: relu is an instruction, so it chooses anew.
//! let (value, gradient) = evaluator.value_and_gradient(&[0.0, 1.0])?;
//! assert_eq!((value, gradient), (1.0, &[-2.0, 2.0][..]));
//! # Ok::<(), burtorch_core::Error>(())
//! ```
//!
//! # What can be recorded
//!
//! Any function over [`Scalar`](crate::Scalar) that does not look at values. While it is recorded there are none, so
//! [`primal`](crate::Scalar::primal) and [`all_positive`](crate::Scalar::all_positive) of anything that depends on an input make
//! recording fail, instead of making a program that is right at some inputs only:
//!
//! ```
//! use burtorch_core::{Error, Program, Scalar};
//!
//! let branching = Program::record(1, |x| if x[0].primal() > 0.0 { x[0] } else { x[0] * 2.0 });
//! assert_eq!(branching.unwrap_err(), Error::NoValue { op: "primal" });
//! let choosing = Program::record(1, |x| x[0].select(x[0], x[0] * 2.0))?;
//! assert_eq!(choosing.evaluator().values(&[-1.0])?, [-2.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Loops and branches that depend on constants, lengths, or anything else outside are run while recording, and what they do
//! is what the program does ever after.
//!
//! # What is made of it
//!
//! What depends on constants only is computed while recording. What was recorded before is not recorded again (a sum or a
//! product also not with its two terms exchanged). What no output needs is left out. Everything else is one
//! instruction, also the ops on many values (`sum`, `dot`, `softmax`, …). An instruction's value and partial derivatives are those of
//! the table that the tape is made from, and the [conventions](crate#conventions) are the same.
//!
//! # Evaluating
//!
//! - [`Program::evaluator`] for plain numbers; [`Program::evaluator_for`] for the gradient by some of the inputs, which skips what
//!   leads to none of them; [`Evaluator::new`] for any other [`Scalar`](crate::Scalar): on the variables of a tape a program gives
//!   second derivatives, on symbols it becomes part of another program.
//! - On [`Lanes`](crate::lanes::Lanes) several samples are evaluated at once; `Evaluator<Lanes<f64, 8>>` takes long lists of samples.
//! - On [`Dual`](crate::Dual) numbers the gradient carries a Hessian-vector product along.
//! - A program is cheap to clone and can be shared by threads; each thread has evaluators of its own.
//! - [`Program::save`] and [`Program::load`] keep programs in files; [`Program::to_bytes`] and [`Program::from_bytes`] elsewhere.
mod code;
mod evaluator;
mod file;
mod interpret;
mod op;
mod plan;
mod recorder;
mod samples;
mod symbol;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use evaluator::Evaluator;
pub use symbol::Symbol;

use crate::error::Error;
use crate::float::Float;
use code::Code;
use recorder::{MOST, Recorder};

/// A computation recorded once, to be evaluated at any inputs. See the [module](self) for all of it.
///
/// ```
/// use burtorch_core::{Program, Scalar};
///
/// let polar = Program::record_many(2, |x| vec![Scalar::norm(x), x[0] / x[1]])?;
/// assert_eq!((polar.inputs(), polar.outputs(), polar.len()), (2, 2, 2));
/// let mut evaluator = polar.evaluator();
/// assert_eq!(evaluator.values(&[3.0, 4.0])?, [5.0, 0.75]);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Program<F> {
    code: Arc<Code<F>>,
}

impl<F: Float> Program<F> {
    /// Records a function of `inputs` inputs with one output.
    ///
    /// # Errors
    ///
    /// The first of these that happened: [`Error::NoValue`] if the function looks at values, [`Error::LengthMismatch`] if it combines
    /// lists of different lengths, [`Error::MixedTapes`] if it uses symbols of another recording, [`Error::ProgramFull`] if there are more
    /// than 2³² − 2 values, [`Error::OutOfMemory`] if there is no room for so many inputs.
    pub fn record(
        inputs: usize,
        function: impl for<'p> FnOnce(&[Symbol<'p, F>]) -> Symbol<'p, F>,
    ) -> Result<Self, Error> {
        Self::record_many(inputs, |x| vec![function(x)])
    }

    /// Records a function of `inputs` inputs with any number of outputs.
    ///
    /// # Errors
    ///
    /// As [`record`](Self::record).
    pub fn record_many(
        inputs: usize,
        function: impl for<'p> FnOnce(&[Symbol<'p, F>]) -> Vec<Symbol<'p, F>>,
    ) -> Result<Self, Error> {
        Self::record_within(MOST, inputs, function)
    }

    /// Records a function into at most `limit` values.
    fn record_within(
        limit: usize,
        inputs: usize,
        function: impl for<'p> FnOnce(&[Symbol<'p, F>]) -> Vec<Symbol<'p, F>>,
    ) -> Result<Self, Error> {
        let recorder = Recorder::new(inputs, limit)?;
        let symbols: Vec<_> = (0..inputs as u32)
            .map(|input| Symbol::value(&recorder, input))
            .collect();
        let places: Vec<u32> = function(&symbols)
            .into_iter()
            // One that has no place left its error.
            .map(|output| output.place_in(&recorder, "output").unwrap_or(0))
            .collect();
        Ok(Self {
            code: Arc::new(recorder.finish(&places)?),
        })
    }

    /// The number of inputs.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.code.inputs
    }

    /// The number of outputs.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.code.outputs.len()
    }

    /// The number of instructions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.code.instructions.len()
    }

    /// Whether there is no instruction: all outputs are inputs or constants.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What evaluates the program on plain numbers, with the gradient with respect to all inputs.
    /// [`Evaluator::new`] makes one for other numbers.
    #[must_use]
    pub fn evaluator(&self) -> Evaluator<F> {
        Evaluator::new(self)
    }

    /// What evaluates the program on plain numbers, with the gradient with respect to the inputs `wanted` only, in their order.
    /// [`Evaluator::with_gradient_of`] makes one for other numbers.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchInput`].
    pub fn evaluator_for(&self, wanted: &[usize]) -> Result<Evaluator<F>, Error> {
        Evaluator::with_gradient_of(self, wanted)
    }
}
