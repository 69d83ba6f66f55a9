//! Which parameters decay, and how fast they learn.

use std::ops::Range;

use crate::Error;
use crate::error::not_negative;

/// A run of neighbouring parameters that share their settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Where the parameters stand in the flat buffer.
    pub range: Range<usize>,
    /// The weight decay λ of these parameters; what it does depends on the optimizer.
    pub weight_decay: f64,
    /// Factor on the learning rate of the step: 1 for the usual rate.
    pub learning_rate_scale: f64,
}

/// The groups of one flat parameter buffer, in order and without overlap.
///
/// A parameter that is in no group is frozen: no step changes it or its moments.
///
/// ```
/// use burtorch_optim::Groups;
///
/// // a 3×2 matrix, its bias of 3, and another 3×3 matrix right behind
/// let tensors = [(0..6, &[3, 2][..]), (6..9, &[3][..]), (9..18, &[3, 3][..])];
/// let groups = Groups::decay_matrices(18, tensors, 0.1)?;
/// let decays: Vec<f64> = groups.iter().map(|group| group.weight_decay).collect();
/// assert_eq!(decays, [0.1, 0.0, 0.1]);
/// # Ok::<(), burtorch_optim::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    length: usize,
    groups: Vec<Group>,
}

/// Whether a parameter of this shape decays by default: matrices and larger do, vectors and single numbers do not.
///
/// Decay pulls the weights of a linear map towards 0; on biases and on the gains of a LayerNorm it only harms. The shape
/// decides, since names are a matter of taste.
#[must_use]
pub fn decays(shape: &[usize]) -> bool {
    shape.len() >= 2
}

impl Groups {
    /// Checks `groups` for a buffer of `length` parameters.
    ///
    /// # Errors
    ///
    /// [`Error::GroupRange`] unless each range starts where or after its predecessor ends, does not end before it starts
    /// and stays inside the buffer; [`Error::Domain`] unless decay and scale are finite and at least 0.
    pub fn new(length: usize, groups: Vec<Group>) -> Result<Self, Error> {
        let mut free = 0;
        for (index, group) in groups.iter().enumerate() {
            let found = group.range.clone();
            if found.start < free || found.end < found.start || found.end > length {
                return Err(Error::GroupRange {
                    index,
                    allowed: free..length,
                    found,
                });
            }
            not_negative("weight decay", group.weight_decay)?;
            not_negative("learning rate scale", group.learning_rate_scale)?;
            free = found.end;
        }
        Ok(Self { length, groups })
    }

    /// One group of all parameters.
    ///
    /// # Errors
    ///
    /// [`Error::Domain`] unless `weight_decay` is finite and at least 0.
    pub fn all(length: usize, weight_decay: f64) -> Result<Self, Error> {
        Self::new(
            length,
            vec![Group {
                range: 0..length,
                weight_decay,
                learning_rate_scale: 1.0,
            }],
        )
    }

    /// The usual groups: tensors for which [`decays`] holds get `weight_decay`, the others none.
    ///
    /// `tensors` are place and shape of each, in the order of the buffer; neighbours with the same decay become one group.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn decay_matrices<'a>(
        length: usize,
        tensors: impl IntoIterator<Item = (Range<usize>, &'a [usize])>,
        weight_decay: f64,
    ) -> Result<Self, Error> {
        let mut groups: Vec<Group> = Vec::new();
        for (range, shape) in tensors {
            let weight_decay = if decays(shape) { weight_decay } else { 0.0 };
            match groups.last_mut() {
                Some(last)
                    if last.range.end == range.start && last.weight_decay == weight_decay =>
                {
                    last.range.end = range.end;
                }
                _ => groups.push(Group {
                    range,
                    weight_decay,
                    learning_rate_scale: 1.0,
                }),
            }
        }
        Self::new(length, groups)
    }

    /// The number of parameters in the buffer, frozen ones included.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The groups, in the order of the buffer.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.groups.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(range: Range<usize>) -> Group {
        Group {
            range,
            weight_decay: 0.1,
            learning_rate_scale: 1.0,
        }
    }

    fn message(groups: Vec<Group>) -> String {
        Groups::new(10, groups).unwrap_err().to_string()
    }

    #[test]
    fn ranges_are_in_order_without_overlap_and_inside() {
        assert!(Groups::new(10, vec![group(0..3), group(3..3), group(5..10)]).is_ok());
        assert_eq!(
            message(vec![group(0..3), group(2..5)]),
            "parameter group 1: expected a range inside 3..10, found 2..5"
        );
        assert_eq!(
            message(vec![group(8..11)]),
            "parameter group 0: expected a range inside 0..10, found 8..11"
        );
        let reversed = Range { start: 4, end: 2 };
        assert!(message(vec![group(reversed)]).contains("found 4..2"));
    }

    #[test]
    fn settings_are_numbers_of_at_least_zero() {
        for bad in [f64::NAN, f64::INFINITY, -0.1] {
            assert!(matches!(
                Groups::all(1, bad),
                Err(Error::Domain {
                    what: "weight decay",
                    ..
                })
            ));
            let scaled = Group {
                learning_rate_scale: bad,
                ..group(0..1)
            };
            assert!(message(vec![scaled]).starts_with("learning rate scale: expected a finite"));
        }
    }

    #[test]
    fn f27_vectors_do_not_decay_and_neighbours_merge() {
        assert!(decays(&[3, 2]) && decays(&[2, 1, 1]) && !decays(&[3]) && !decays(&[]));
        let tensors = [
            (0..6, &[3, 2][..]),
            (6..9, &[3]),
            (9..12, &[3]),
            (14..18, &[2, 2]),
        ];
        let groups = Groups::decay_matrices(18, tensors, 0.5).unwrap();
        let expected = [(0..6, 0.5), (6..12, 0.0), (14..18, 0.5)];
        let found = groups
            .iter()
            .map(|group| (group.range.clone(), group.weight_decay));
        assert!(found.eq(expected));
    }

    #[test]
    fn a_frozen_gap_is_not_merged_over() {
        let tensors = [(0..4, &[2, 2][..]), (5..9, &[2, 2])];
        assert_eq!(
            Groups::decay_matrices(9, tensors, 0.5)
                .unwrap()
                .iter()
                .len(),
            2
        );
    }
}
