//! [`Run`]: values that lie one after the other on a tape.

use std::fmt;

use super::groups::{Place, Rule};
use super::{CONSTANT, NodeId, Tape};
use crate::error::Error;
use crate::float::Float;
use crate::scalar::Scalar;
use crate::var::Var;

mod ops;

/// Variables, constants or results that lie one after the other on a [`Tape`], as one small handle that is copied like a number.
///
/// What is computed from runs is recorded as a group of nodes: a few positions, however many values there are. The way back
/// through it is a loop over plain numbers. With slices of [`Var`]s instead, every factor of a dot product is an argument of its
/// own. So a network keeps its weights in runs and takes its layers off them:
///
/// ```
/// use burtorch_core::{Scalar, Tape};
///
/// let tape = Tape::new();
/// let weights = tape.run(&[0.5, -1.0, 2.0, 1.0]); // two rows of two
/// let biases = tape.run(&[0.5, -0.5]);
/// let inputs = tape.constants(&[3.0, 1.0]);
/// let hidden = weights.affine(inputs, biases).tanh();
/// let y = hidden.dot(biases) * 2.0; // a variable like any other
/// y.backward()?;
///
/// assert!((y.value() - (1.0_f64.tanh() - 6.5_f64.tanh())).abs() < 1e-15);
/// let mut gradient = [0.0; 4];
/// weights.grads(&mut gradient)?;
/// assert!((gradient[1] - (1.0 - 1.0_f64.tanh().powi(2))).abs() < 1e-15);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// Code for any [`Scalar`] uses slices; a run is what to reach for when a tape of many weights has to be fast.
///
/// The tape keeps a copy of a run's values for as long as it keeps the nodes. Mistakes are treated as everywhere: runs of two
/// tapes, or of lengths that do not fit, give NaN, and the tape's next pass is an error.
pub struct Run<'t, T> {
    tape: &'t Tape<T>,
    place: Place,
}

impl<T> Clone for Run<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Run<'_, T> {}

impl<T> fmt::Debug for Run<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { node, length, .. } = self.place;
        write!(f, "Run({length} values from node {node} on)")
    }
}

impl<T: Scalar> Tape<T> {
    /// New variables, one after the other, as a run.
    pub fn run(&self, values: &[T]) -> Run<'_, T> {
        let (node, fits) = self.storage.record_variables(values.len());
        if fits {
            self.run_of(Ok(node), values.iter().copied())
        } else {
            self.poisoned_run(values.len())
        }
    }

    /// The run of the nodes from `first` on, one for each value; see [`handles`](Self::handles).
    ///
    /// If not all of them are on the tape, the tape becomes faulty.
    pub fn run_at(&self, first: NodeId, values: &[T]) -> Run<'_, T> {
        let node = self.locate(first, values.len()).map(|node| node as u32);
        self.run_of(node, values.iter().copied())
    }

    /// Constants, as a run.
    pub fn constants(&self, values: &[T]) -> Run<'_, T> {
        self.run_of(Ok(CONSTANT), values.iter().copied())
    }

    /// The values of these handles as a run: of their nodes, if these lie one after the other, else of a new node for each, as
    /// [`Var::retain`] records it.
    pub fn gather(&self, handles: &[Var<'_, T>]) -> Run<'_, T> {
        self.run_of(self.consecutive(handles), handles.iter().map(|x| x.value()))
    }

    /// The first of consecutive nodes that have the values of these handles.
    fn consecutive(&self, handles: &[Var<'_, T>]) -> Result<u32, Error> {
        let op = "gather";
        let places = || handles.iter().map(|x| x.root_on(self));
        if places().any(|place| place.is_err()) {
            Var::fault(Error::MixedTapes { op }, handles.iter().map(|x| x.tape()));
            return Err(Error::MixedTapes { op });
        }
        let mut places = places().flatten();
        if places.clone().all(|(node, _)| node == CONSTANT) {
            return Ok(CONSTANT);
        }
        if let Some(first) = handles.first().and_then(|x| x.as_node())
            && handles
                .iter()
                .zip(first..)
                .all(|(x, node)| x.as_node() == Some(node))
        {
            return Ok(first);
        }
        let first = self.storage.nodes() as u32;
        let recorded = places.all(|place| self.record([place]).1);
        if recorded {
            Ok(first)
        } else {
            self.check().map(|()| first)
        }
    }

    /// The run of these nodes, or of NaN if there was an error.
    fn run_of(
        &self,
        node: Result<u32, Error>,
        values: impl ExactSizeIterator<Item = T>,
    ) -> Run<'_, T> {
        match node {
            Ok(node) => {
                let length = values.len();
                let kept = self
                    .storage
                    .keep(|groups, nodes| groups.keep(nodes, values));
                self.run_kept(node, kept, length)
            }
            Err(error) => {
                self.fault(error);
                self.poisoned_run(values.len())
            }
        }
    }

    /// The run of nodes whose values were kept.
    fn run_kept(&self, node: u32, kept: Result<usize, Error>, length: usize) -> Run<'_, T> {
        let place = match kept {
            Ok(start) => Place::new(node, start, length),
            Err(error) => {
                self.fault(error);
                Place::new(CONSTANT, 0, 0)
            }
        };
        Run { tape: self, place }
    }

    /// The run of new nodes whose values were kept, and which are made by a rule; of constants if there is none.
    fn group(&self, kept: Result<usize, Error>, count: usize, rule: Option<Rule>) -> Run<'_, T> {
        let Some(rule) = rule else {
            return self.run_kept(CONSTANT, kept, count);
        };
        let (node, fits) = self.storage.record_group(count, rule);
        if fits {
            self.run_kept(node, kept, count)
        } else {
            self.poisoned_run(count)
        }
    }

    /// What stands for values that could not be recorded: the error is in the tape.
    #[cold]
    fn poisoned_run(&self, length: usize) -> Run<'_, T> {
        let nans = std::iter::repeat_n(T::constant(T::Primal::NAN), length);
        let kept = self.storage.keep(|groups, nodes| groups.keep(nodes, nans));
        self.run_kept(CONSTANT, kept, length)
    }
}

impl<'t, T: Scalar> Run<'t, T> {
    /// Number of values.
    pub fn len(self) -> usize {
        self.place.length
    }

    /// Whether there are no values.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// A name for the first node, which outlives the run: for [`Tape::add_grads`] and [`Tape::run_at`].
    ///
    /// # Errors
    ///
    /// [`Error::NotRetained`] if these are constants, or none; the tape's error if recording failed.
    pub fn id(self) -> Result<NodeId, Error> {
        self.tape.check()?;
        if self.place.is_constant() || self.is_empty() {
            return Err(Error::NotRetained);
        }
        Ok(self.tape.id_of(self.place.node))
    }

    /// Writes the gradients gathered by the nodes to `out`.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCount`] if there is not one place for each, [`Error::NotRetained`] if these are constants; the tape's error if
    /// recording failed.
    pub fn grads(self, out: &mut [T]) -> Result<(), Error> {
        self.tape.check()?;
        if out.len() != self.len() {
            return Err(Error::WrongCount {
                what: "gradients",
                expected: self.len(),
                found: out.len(),
            });
        }
        if self.is_empty() {
            return Ok(());
        }
        self.id()?;
        let (first, stride) = (self.place.node as usize, self.place.stride);
        self.tape.storage.with_gradients(|gradients| {
            if stride == 1 {
                out.copy_from_slice(&gradients[first..first + self.len()]);
            } else {
                let gradients = gradients[first..].iter().step_by(stride);
                out.iter_mut()
                    .zip(gradients)
                    .for_each(|(out, gradient)| *out = *gradient);
            }
        });
        Ok(())
    }

    /// The handle of one value; none beyond the end.
    pub fn get(self, index: usize) -> Option<Var<'t, T>> {
        let value = self.tape.storage.groups().value(self.place, index)?;
        Some(if self.place.is_constant() {
            self.tape.constant(value)
        } else {
            Var::exact(self.tape, self.place.part(index, 1, 1).node, value)
        })
    }

    /// The handles of all values.
    pub fn iter(self) -> impl Iterator<Item = Var<'t, T>> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }

    /// The runs of so many values each (at least one), the last one of those that are left: the rows of a matrix.
    pub fn chunks(self, length: usize) -> impl ExactSizeIterator<Item = Run<'t, T>> {
        let starts = (0..self.len()).step_by(length.max(1));
        starts.map(move |start| self.part(start, length.max(1).min(self.len() - start), 1))
    }

    /// The first `count` values (all, if there are fewer) and the rest.
    pub fn split_at(self, count: usize) -> (Self, Self) {
        let count = count.min(self.len());
        (
            self.part(0, count, 1),
            self.part(count, self.len() - count, 1),
        )
    }

    /// The first value and every `step`-th (at least each) after it: a column of a matrix, after a [`split_at`](Self::split_at).
    ///
    /// ```
    /// use burtorch_core::Tape;
    ///
    /// let tape = Tape::new();
    /// let matrix = tape.run(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]); // two rows of three
    /// let column = matrix.split_at(1).1.step_by(3);
    /// assert_eq!(column.dot(column).value(), 2.0 * 2.0 + 5.0 * 5.0);
    /// ```
    pub fn step_by(self, step: usize) -> Self {
        let step = step.max(1);
        self.part(0, self.len().div_ceil(step), step)
    }

    fn part(self, index: usize, length: usize, step: usize) -> Self {
        let place = self.place.part(index, length, step);
        Self { place, ..self }
    }
}
