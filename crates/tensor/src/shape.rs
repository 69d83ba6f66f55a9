//! Shapes of dense row-major tensors: up to four dimensions, `Copy`, no heap.

use std::fmt;

use crate::{Error, Result};

/// The dimensions of a dense tensor stored row by row (the last index runs fastest). No dimension is zero; rank 0 is one
/// number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: [usize; Shape::MAX_RANK],
    rank: usize,
}

impl Shape {
    /// The largest number of dimensions.
    pub const MAX_RANK: usize = 4;

    /// The shape of a single number.
    pub const SCALAR: Shape = Shape {
        dims: [1; Shape::MAX_RANK],
        rank: 0,
    };

    /// A shape with the given dimensions.
    ///
    /// # Errors
    /// [`Error::Shape`] for more than [`Shape::MAX_RANK`] dimensions, a zero, or a product above `isize::MAX / 16`.
    pub fn new(dims: &[usize]) -> Result<Shape> {
        let fail = |reason| {
            Err(Error::Shape {
                dims: dims.to_vec(),
                reason,
            })
        };
        if dims.len() > Self::MAX_RANK {
            return fail("at most four dimensions");
        }
        if dims.contains(&0) {
            return fail("no dimension may be zero");
        }
        match dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) {
            Some(n) if n <= isize::MAX as usize / 16 => {}
            _ => return fail("too many elements"),
        }
        let mut shape = Shape {
            rank: dims.len(),
            ..Shape::SCALAR
        };
        shape.dims[..dims.len()].copy_from_slice(dims);
        Ok(shape)
    }

    /// The dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// The number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of elements: the product of the dimensions, 1 for rank 0.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // no shape is empty
    pub fn len(&self) -> usize {
        self.dims().iter().product()
    }

    /// The last dimension, 1 for rank 0.
    #[must_use]
    pub fn last(&self) -> usize {
        self.dims().last().copied().unwrap_or(1)
    }

    /// The number of rows when the last dimension is taken as the row: `len / last`.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.len() / self.last()
    }

    /// The same shape with another last dimension.
    ///
    /// # Errors
    /// As [`Shape::new`]; also for rank 0.
    pub fn with_last(&self, last: usize) -> Result<Shape> {
        let mut dims = self.dims;
        match self.rank {
            0 => Err(Error::Shape {
                dims: vec![],
                reason: "a single number has no last dimension",
            }),
            rank => {
                dims[rank - 1] = last;
                Shape::new(&dims[..rank])
            }
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_rows_and_elements() -> Result<()> {
        let s = Shape::new(&[2, 3, 4])?;
        assert_eq!((s.len(), s.rows(), s.last(), s.rank()), (24, 6, 4, 3));
        assert_eq!(s.with_last(5)?.dims(), [2, 3, 5]);
        assert_eq!((Shape::SCALAR.len(), Shape::SCALAR.rows()), (1, 1));
        Ok(())
    }

    #[test]
    fn refuses_what_cannot_be_stored() {
        assert!(Shape::new(&[1; 5]).is_err());
        assert!(Shape::new(&[2, 0]).is_err());
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[1 << 32, 1 << 32]).is_err());
    }
}
