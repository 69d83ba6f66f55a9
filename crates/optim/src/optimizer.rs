//! What all optimizers have in common.

use std::collections::BTreeMap;

use burtorch_core::Float;

use crate::Error;
use crate::error::{length, not_negative};

/// A rule that turns gradients into better parameters.
///
/// ```
/// use burtorch_optim::{AdamOptions, AdamW, Groups, Optimizer, Sgd, SgdOptions};
///
/// let groups = Groups::all(2, 0.0)?;
/// let mut optimizers: Vec<Box<dyn Optimizer<f64>>> = vec![
///     Box::new(Sgd::new(groups.clone(), SgdOptions::default())?),
///     Box::new(AdamW::new(groups, AdamOptions::default())?),
/// ];
/// for optimizer in &mut optimizers {
///     let mut parameters = [1.0, -2.0];
///     for _ in 0..3000 {
///         let gradients = parameters.map(|p| 2.0 * (p - 3.0)); // of (p − 3)²
///         optimizer.step(&mut parameters, &gradients, 0.01)?;
///     }
///     assert!(parameters.iter().all(|p| (p - 3.0).abs() < 0.01), "{}", optimizer.name());
/// }
/// # Ok::<(), burtorch_optim::Error>(())
/// ```
pub trait Optimizer<T: Float>: Send {
    /// Changes `parameters` by one step against `gradients`, which have the same layout.
    ///
    /// # Errors
    ///
    /// [`Error::Length`] unless both slices have the length the optimizer was made for, [`Error::Domain`] unless
    /// `learning_rate` is finite and at least 0. Nothing is changed then.
    fn step(
        &mut self,
        parameters: &mut [T],
        gradients: &[T],
        learning_rate: T,
    ) -> Result<(), Error>;

    /// The name in lower case, as on the command line.
    fn name(&self) -> &'static str;

    /// Steps made so far.
    fn steps(&self) -> u64;

    /// The buffers it remembers, each of the length of the parameters, by name: `"first_moment"`, `"second_moment"`, `"momentum"`.
    fn buffers(&self) -> Vec<(&'static str, &[T])>;

    /// All that the optimizer remembers, copied out.
    fn state(&self) -> State<T> {
        let copies = self.buffers().into_iter();
        State {
            step: self.steps(),
            buffers: copies
                .map(|(name, buffer)| (name.to_owned(), buffer.to_vec()))
                .collect(),
        }
    }

    /// Carries on from `state`: every later step has the same bits as without the break.
    ///
    /// # Errors
    ///
    /// [`Error::StateBuffers`] or [`Error::StateLength`] if the state belongs to another kind of optimizer or to a model
    /// of another size. Nothing is changed then.
    fn restore(&mut self, state: State<T>) -> Result<(), Error>;
}

/// The memory of an optimizer between two steps.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct State<T> {
    /// Steps made so far.
    pub step: u64,
    /// The buffers, by the names of [`Optimizer::buffers`].
    pub buffers: BTreeMap<String, Vec<T>>,
}

impl<T: Float> State<T> {
    /// Moves the state into `step` and `buffers`, after checking that names and lengths are the same.
    pub(crate) fn move_into<const N: usize>(
        mut self,
        optimizer: &'static str,
        step: &mut u64,
        buffers: [(&str, &mut Vec<T>); N],
    ) -> Result<(), Error> {
        for (name, buffer) in &buffers {
            self.check(optimizer, name, buffer.len(), &buffers)?;
        }
        if self.buffers.len() != N {
            return Err(self.wrong_buffers(optimizer, &buffers));
        }
        for (name, buffer) in buffers {
            if let Some(saved) = self.buffers.remove(name) {
                *buffer = saved;
            }
        }
        *step = self.step;
        Ok(())
    }

    fn check(
        &self,
        optimizer: &'static str,
        name: &str,
        expected: usize,
        buffers: &[(&str, &mut Vec<T>)],
    ) -> Result<(), Error> {
        match self.buffers.get(name) {
            None => Err(self.wrong_buffers(optimizer, buffers)),
            Some(saved) if saved.len() != expected => Err(Error::StateLength {
                optimizer,
                buffer: name.to_owned(),
                expected,
                found: saved.len(),
            }),
            Some(_) => Ok(()),
        }
    }

    fn wrong_buffers(&self, optimizer: &'static str, buffers: &[(&str, &mut Vec<T>)]) -> Error {
        Error::StateBuffers {
            optimizer,
            expected: buffers.iter().map(|(name, _)| (*name).to_owned()).collect(),
            found: self.buffers.keys().cloned().collect(),
        }
    }
}

/// The checks every step begins with; `expected` is the length of the parameter buffer. Returns the learning rate.
pub(crate) fn check_step<T: Float>(
    expected: usize,
    parameters: &[T],
    gradients: &[T],
    learning_rate: T,
) -> Result<f64, Error> {
    length("parameters", expected, parameters.len())?;
    length("gradients", expected, gradients.len())?;
    let learning_rate = learning_rate.to_f64();
    not_negative("learning rate", learning_rate)?;
    Ok(learning_rate)
}
