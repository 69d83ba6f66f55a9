//! What groups of nodes read: matrices of handles, and where their nodes, values and slopes lie.

use super::{Argument, CONSTANT, Tape};
use crate::error::Error;
use crate::matrix_view::MatrixView;
use crate::ops::constant;
use crate::scalar::Scalar;
use crate::var::Var;

/// Where the nodes of a matrix lie: at equal distances from column to column, and from row to row; a distance of 0 is one node for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lattice {
    /// The first node, or [`CONSTANT`] if all are constants.
    node: u32,
    row_step: u32,
    column_step: u32,
}

impl Lattice {
    /// Constants.
    const NONE: Self = Self {
        node: CONSTANT,
        row_step: 0,
        column_step: 0,
    };

    /// Nodes one behind the other, row by row.
    fn consecutive(node: u32, columns: usize) -> Self {
        Self {
            node,
            row_step: columns as u32,
            column_step: 1,
        }
    }

    /// The lattice of the nodes in the corner of a matrix, if it is one.
    fn of_corner(node: u32, below: Option<u32>, beside: Option<u32>) -> Option<Self> {
        let lattice = Self {
            node,
            row_step: below.map_or(Some(0), |next| next.checked_sub(node))?,
            column_step: beside.map_or(Some(0), |next| next.checked_sub(node))?,
        };
        // Constants have no place from which there is a distance to a node.
        let steps = lattice.row_step != 0 || lattice.column_step != 0;
        (node != CONSTANT || !steps).then_some(lattice)
    }

    pub(super) fn is_constant(self) -> bool {
        self.node == CONSTANT
    }

    /// The first node of a row, and the distance to the next.
    #[inline(always)]
    fn row(self, row: usize) -> (usize, usize) {
        let first = self.node as usize + row * self.row_step as usize;
        (first, self.column_step as usize)
    }
}

/// What is found by looking at every handle of a matrix once.
struct Survey {
    /// Whether all nodes lie on the lattice.
    on_lattice: bool,
    /// Whether all handles are their nodes.
    exact: bool,
    /// Whether all handles are on the tape.
    on_tape: bool,
}

impl Survey {
    fn of<T: Scalar>(matrix: MatrixView<'_, Var<'_, T>>, lattice: Lattice, tape: &Tape<T>) -> Self {
        let mut survey = Self {
            on_lattice: true,
            exact: true,
            on_tape: true,
        };
        for row in 0..matrix.rows() {
            let (mut expected, step) = lattice.row(row);
            let mut look = |x: Var<'_, T>| {
                survey.on_lattice &= x.node() as usize == expected;
                survey.exact &= x.is_node();
                survey.on_tape &= x.tape().is_some_and(|own| std::ptr::eq(own, tape));
                expected += step;
            };
            match matrix.slice(row) {
                Some(row) => row.iter().for_each(|&x| look(x)),
                None => matrix.row(row).for_each(look),
            }
        }
        survey
    }
}

/// A matrix that a group reads, with its values kept row by row.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) nodes: Lattice,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Where among the values of all groups these begin.
    pub(super) start: usize,
    /// Where the derivatives of the values with respect to the nodes begin, unless the values are those of the nodes.
    pub(super) slopes: Option<usize>,
}

impl Operand {
    /// Nothing.
    pub(super) const NONE: Self = Self {
        nodes: Lattice::NONE,
        rows: 0,
        columns: 0,
        start: 0,
        slopes: None,
    };

    #[inline(always)]
    pub(super) fn values<T>(self, kept: &[T]) -> &[T] {
        &kept[self.start..][..self.rows * self.columns]
    }

    /// Adds shares, times the slopes, to the gradients of the numbers from (row, column) on.
    #[inline(always)]
    pub(super) fn add<T: Scalar>(
        self,
        kept: &[T],
        gradients: &mut [T],
        (row, column): (usize, usize),
        shares: &[T],
    ) {
        let (first, step) = self.nodes.row(row);
        let gradients = &mut gradients[first + column * step..];
        let slopes = self.slopes.map(|slopes| {
            let place = slopes + row * self.columns + column;
            &kept[place..][..shares.len()]
        });
        if step == 1 {
            let gradients = gradients[..shares.len()].iter_mut().zip(shares);
            match slopes {
                Some(slopes) => gradients
                    .zip(slopes)
                    .for_each(|((gradient, &share), slope)| *gradient += slope.chain(share)),
                None => gradients.for_each(|(gradient, &share)| *gradient += share),
            }
        } else {
            for (i, &share) in shares.iter().enumerate() {
                gradients[i * step] += slopes.map_or(share, |slopes| slopes[i].chain(share));
            }
        }
    }
}

impl<T: Scalar> Tape<T> {
    /// Keeps what a group needs of a matrix. Where its nodes do not lie at equal distances, each handle gets one of its own, as
    /// [`Var::retain`] would record it.
    ///
    /// # Errors
    ///
    /// [`Error::MixedTapes`] if a handle is another tape's; the tape's error if it is full.
    pub(super) fn operand(
        &self,
        op: &'static str,
        matrix: MatrixView<'_, Var<'_, T>>,
    ) -> Result<Operand, Error> {
        let node = |row, column| matrix.get(row, column).map(Argument::node);
        let corner = node(0, 0).unwrap_or(CONSTANT);
        let lattice = Lattice::of_corner(corner, node(1, 0), node(0, 1));
        let guess = lattice.unwrap_or(Lattice::NONE);
        let survey = Survey::of(matrix, guess, self);
        if !survey.on_tape {
            for x in matrix.iter() {
                x.root_on(self).map_err(|_| Error::MixedTapes { op })?;
            }
        }
        let (nodes, exact) = match lattice {
            Some(lattice) if survey.on_lattice => (lattice, survey.exact || lattice.is_constant()),
            _ => (self.retain_all(matrix)?, true),
        };
        self.storage.keep(|groups, count| {
            let start = groups.keep_matrix(count, matrix, Var::value)?;
            let slopes = match exact {
                true => None,
                false => Some(groups.keep_matrix(count, matrix, |x| x.chained(constant(1.0)))?),
            };
            Ok(Operand {
                nodes,
                rows: matrix.rows(),
                columns: matrix.columns(),
                start,
                slopes,
            })
        })
    }

    /// Records a node for each of these handles.
    fn retain_all(&self, matrix: MatrixView<'_, Var<'_, T>>) -> Result<Lattice, Error> {
        let first = self.storage.nodes() as u32;
        for x in matrix.iter() {
            let (_, fits) = self.record([x.root_on(self)?]);
            if !fits {
                self.check()?;
            }
        }
        Ok(Lattice::consecutive(first, matrix.columns()))
    }
}
