//! What is computed from runs.

use super::Run;
use crate::error::Error;
use crate::float::Float;
use crate::ops::{partial, unary_rows};
use crate::scalar::{Function, Scalar};
use crate::tape::groups::{Place, Rule};
use crate::var::Var;

impl<'t, T: Scalar> Run<'t, T> {
    /// Σᵢ aᵢ; 0 for no values.
    pub fn sum(self) -> Var<'t, T> {
        let x = self.place;
        let value = self.tape.storage.groups().sum(x);
        self.one_node(value, Rule::Sum { x }, [x, x])
    }

    /// Σᵢ aᵢ / n; NaN for no values.
    pub fn mean(self) -> Var<'t, T> {
        self.sum() / T::Primal::from_usize(self.len())
    }

    /// Σᵢ aᵢbᵢ with another run of the same length.
    pub fn dot(self, other: Self) -> Var<'t, T> {
        let (op, expected, found) = ("dot", self.len(), other.len());
        if !std::ptr::eq(self.tape, other.tape) {
            return self.fault(Error::MixedTapes { op }, [other]);
        }
        if expected != found {
            let error = Error::LengthMismatch {
                op,
                expected,
                found,
            };
            return self.fault(error, [other]);
        }
        let (matrix, x, bias) = (self.place, other.place, None);
        let value = self.tape.storage.groups().dot(matrix, x);
        self.one_node(value, Rule::Rows { matrix, x, bias }, [matrix, x])
    }

    /// The node made by a rule from these places, or a constant if they all are.
    fn one_node(self, value: T, rule: Rule, from: [Place; 2]) -> Var<'t, T> {
        let tape = self.tape;
        if from.into_iter().all(Place::is_constant) {
            return tape.constant(value);
        }
        Var::recorded(tape, tape.storage.record_group(1, rule), value)
    }

    /// Leaves an error in the tapes of this and other runs, and gives what stands for the result.
    #[cold]
    fn fault(self, error: Error, others: impl IntoIterator<Item = Self>) -> Var<'t, T> {
        let runs = [self].into_iter().chain(others);
        Var::fault(error, runs.map(|run| Some(run.tape)));
        self.tape.poisoned()
    }

    /// The products with a vector of all rows of this matrix, whose rows are as long as the vector: yᵢ = Σⱼ aᵢⱼxⱼ.
    ///
    /// If this is no whole number of rows, the tape becomes faulty.
    pub fn dots(self, x: Self) -> Self {
        self.rows("dots", x, None)
    }

    /// [`dots`](Self::dots) and a bias for each: yᵢ = Σⱼ aᵢⱼxⱼ + bᵢ, what a linear layer computes.
    ///
    /// All results are recorded as one node group: three positions, however large the matrix. If there is not one bias for each row,
    /// the tape becomes faulty.
    pub fn affine(self, x: Self, biases: Self) -> Self {
        self.rows("affine", x, Some(biases))
    }

    fn rows(self, op: &'static str, x: Self, biases: Option<Self>) -> Self {
        let (tape, matrix) = (self.tape, self.place);
        let rows = self.len().checked_div(x.len()).unwrap_or(0);
        if let Err(error) = self.has_rows(op, x, biases) {
            self.fault(error, [x].into_iter().chain(biases));
            return tape.poisoned_run(rows);
        }
        let (x, bias) = (x.place, biases.map(|run| run.place));
        let kept = tape
            .storage
            .keep(|groups, nodes| groups.keep_rows(nodes, matrix, x, bias));
        let constant = [matrix, x, bias.unwrap_or(x)]
            .into_iter()
            .all(Place::is_constant);
        tape.group(
            kept,
            rows,
            (!constant).then_some(Rule::Rows { matrix, x, bias }),
        )
    }

    /// Whether the rows of this matrix can be multiplied with `x` and have a bias each.
    fn has_rows(self, op: &'static str, x: Self, biases: Option<Self>) -> Result<(), Error> {
        let mut others = [Some(x), biases].into_iter().flatten();
        if others.any(|run| !std::ptr::eq(run.tape, self.tape)) {
            return Err(Error::MixedTapes { op });
        }
        let (width, found) = (x.len(), self.len());
        if width == 0 || !found.is_multiple_of(width) {
            return Err(Error::UnevenRows { width, found });
        }
        let (expected, found) = (found / width, biases.map(Self::len));
        match found {
            Some(found) if found != expected => Err(Error::LengthMismatch {
                op,
                expected,
                found,
            }),
            _ => Ok(()),
        }
    }

    /// f(xᵢ) for each value.
    fn each(self, f: impl Function) -> Self {
        let (tape, x) = (self.tape, self.place);
        let kept = tape
            .storage
            .keep(|groups, nodes| groups.keep_each(nodes, f, x));
        let rule = kept.as_ref().ok().map(|start| Rule::Each {
            x,
            slopes: start + x.length,
        });
        tape.group(kept, x.length, rule.filter(|_| !x.is_constant()))
    }
}

/// Makes the ops with one argument methods of a run.
macro_rules! run_unary {
    ($($(#[$doc:meta])* $name:ident { $($row:tt)* })*) => {
        /// Functions of each value, one node each: all values at once in [`Lanes`](crate::lanes::Lanes), in whose bounds they are right.
        impl<T: Scalar> Run<'_, T> {
            $($(#[$doc])*
            pub fn $name(self) -> Self {
                #[derive(Clone, Copy)]
                struct Op;

                impl Function for Op {
                    #[inline(always)]
                    fn at<S: Scalar>(self, x: S) -> (S, S) {
                        let y = x.$name();
                        (y, partial::$name(x, y))
                    }
                }
                self.each(Op)
            })*
        }
    };
}

unary_rows! { run_unary }
