//! [`Evaluator`]: the numbers of a program, and the memory they are computed in.

use std::sync::Arc;

use crate::error::Error;
use crate::lanes::Level;
use crate::ops::constant;
use crate::program::Program;
use crate::program::code::Code;
use crate::program::interpret::{Backward, Forward};
use crate::program::plan::{NONE, Plan};
use crate::scalar::Scalar;

/// Evaluates a [`Program`] on numbers of type `T`, again and again in the same memory: nothing is allocated after it was made.
///
/// It stands alone, so it can be kept in a struct or moved to another thread; a clone shares what never changes.
/// Results are slices of its memory, there until the next evaluation. Gradients do not add up over evaluations.
///
/// ```
/// use burtorch_core::{Program, Scalar, Tape, program::Evaluator};
///
/// let program = Program::record_many(2, |x| vec![x[0] * x[1], x[0].exp() + x[1].cube()])?;
/// let mut evaluator = program.evaluator();
/// assert_eq!(evaluator.values(&[0.0, 2.0])?, [0.0, 9.0]);
/// // Seeds weigh the outputs: here the gradient of the second one.
/// let (values, gradient) = evaluator.values_and_gradient(&[0.0, 2.0], &[0.0, 1.0])?;
/// assert_eq!((values, gradient), (&[0.0, 9.0][..], &[1.0, 12.0][..]));
///
/// // By the second input only, and for a program with one output.
/// let program = Program::record(2, |x| x[0].exp() * x[1])?;
/// let mut evaluator = program.evaluator_for(&[1])?;
/// assert_eq!(evaluator.value_and_gradient(&[0.0, 2.0])?, (2.0, &[1.0][..]));
///
/// // On the variables of a tape, where gradients have gradients.
/// let tape = Tape::new();
/// let x = tape.vars(&[0.0, 2.0]);
/// let mut evaluator = Evaluator::new(&program);
/// let (_, gradient) = evaluator.value_and_gradient(&x)?;
/// gradient[0].backward()?;
/// assert_eq!((x[0].grad()?, x[1].grad()?), (2.0, 1.0));
/// # Ok::<(), burtorch_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Evaluator<T: Scalar> {
    code: Arc<Code<T::Primal>>,
    plan: Arc<Plan>,
    /// The vectors of this machine.
    pub(super) level: Level,
    values: Vec<T>,
    /// The derivatives that were computed beside their values.
    slopes: Vec<T>,
    /// The slots of the plan; all zero between passes.
    slots: Vec<T>,
    /// As much as the widest op needs.
    scratch: Vec<T>,
    outputs: Vec<T>,
    gradient: Vec<T>,
}

impl<T: Scalar> Evaluator<T> {
    /// For the gradient with respect to all inputs.
    #[must_use]
    pub fn new(program: &Program<T::Primal>) -> Self {
        let all: Vec<usize> = (0..program.inputs()).collect();
        Self::planned(&program.code, &all)
    }

    /// For the gradient with respect to the inputs `wanted` only, in their order: the way back leaves out everything that leads
    /// to none of them.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchInput`].
    pub fn with_gradient_of(program: &Program<T::Primal>, wanted: &[usize]) -> Result<Self, Error> {
        let inputs = program.inputs();
        match wanted.iter().find(|&&input| input >= inputs) {
            Some(&input) => Err(Error::NoSuchInput { input, inputs }),
            None => Ok(Self::planned(&program.code, wanted)),
        }
    }

    fn planned(code: &Arc<Code<T::Primal>>, wanted: &[usize]) -> Self {
        let plan = Plan::new(code, wanted);
        let zeros = |count: usize| vec![constant::<T>(0.0); count];
        let mut values = zeros(code.values);
        for (value, &c) in values[code.inputs..].iter_mut().zip(&code.constants) {
            *value = T::constant(c);
        }
        Self {
            values,
            slopes: zeros(code.slopes),
            slots: zeros(plan.slots),
            scratch: zeros(code.widest),
            outputs: zeros(code.outputs.len()),
            gradient: zeros(wanted.len()),
            plan: Arc::new(plan),
            level: Level::best(),
            code: Arc::clone(code),
        }
    }

    /// The outputs at inputs `x`.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCount`] if there are not as many numbers as inputs.
    pub fn values(&mut self, x: &[T]) -> Result<&[T], Error> {
        self.evaluate(x, false)?;
        Ok(&self.outputs)
    }

    /// The outputs at inputs `x`, and the gradient of Σᵢ seedᵢ·outputᵢ there.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCount`] if there are not as many numbers as inputs, or not as many seeds as outputs.
    pub fn values_and_gradient(&mut self, x: &[T], seeds: &[T]) -> Result<(&[T], &[T]), Error> {
        check_count("seeds", self.code.outputs.len(), seeds.len())?;
        self.evaluate(x, true)?;
        self.pull_back(|output| seeds[output]);
        Ok((&self.outputs, &self.gradient))
    }

    /// The value and the gradient at inputs `x`, of a program with one output.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCount`] if there are not as many numbers as inputs, or not exactly one output.
    pub fn value_and_gradient(&mut self, x: &[T]) -> Result<(T, &[T]), Error> {
        check_count("outputs", 1, self.code.outputs.len())?;
        self.evaluate(x, true)?;
        self.pull_back(|_| constant(1.0));
        Ok((self.outputs[0], &self.gradient))
    }

    /// The number of inputs.
    pub(super) fn inputs(&self) -> usize {
        self.code.inputs
    }

    /// Where the inputs lie.
    pub(super) fn inputs_mut(&mut self) -> &mut [T] {
        &mut self.values[..self.code.inputs]
    }

    /// The outputs computed last.
    pub(super) fn outputs(&self) -> &[T] {
        &self.outputs
    }

    /// The gradient computed last.
    pub(super) fn gradient(&self) -> &[T] {
        &self.gradient
    }

    /// Computes the outputs at inputs `x`, as [`run`](Self::run).
    fn evaluate(&mut self, x: &[T], will_come_back: bool) -> Result<(), Error> {
        check_count("inputs", self.code.inputs, x.len())?;
        self.inputs_mut().copy_from_slice(x);
        self.run(will_come_back);
        Ok(())
    }

    /// Computes the outputs at the inputs present, and what [`pull_back`](Self::pull_back) needs if that is to follow.
    pub(super) fn run(&mut self, will_come_back: bool) {
        self.level.run(Forward {
            code: &self.code,
            values: &mut self.values,
            slopes: will_come_back.then_some(&mut self.slopes[..]),
        });
        for (output, &place) in self.outputs.iter_mut().zip(&self.code.outputs) {
            *output = self.values[place as usize];
        }
    }

    /// Computes the gradient at the values present.
    pub(super) fn pull_back(&mut self, seed: impl Fn(usize) -> T) {
        for link in &self.plan.seeds {
            self.slots[link.slot as usize] += seed(link.position as usize);
        }
        self.level.run(Backward {
            code: &self.code,
            plan: &self.plan,
            values: &self.values,
            slopes: &self.slopes,
            gradients: &mut self.slots,
            scratch: &mut self.scratch,
        });
        for (gradient, &slot) in self.gradient.iter_mut().zip(&self.plan.ends) {
            *gradient = match slot {
                NONE => constant(0.0),
                slot => self.slots[slot as usize],
            };
        }
        for &slot in &self.plan.ends {
            if slot != NONE {
                self.slots[slot as usize] = constant(0.0);
            }
        }
    }
}

/// Refuses a list of another length than expected.
pub(super) fn check_count(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::WrongCount {
            what,
            expected,
            found,
        })
    }
}
