//! Groups of consecutive nodes computed from runs, recorded as a few positions instead of an argument for every factor.

use std::cell::RefCell;

use super::CONSTANT;
use super::kernels::{Each, PassOn, PassOnLayer, Rows, Sum};
use super::unchecked::Slices;
use crate::error::Error;
use crate::lanes::Level;
use crate::matrix_view::MatrixView;
use crate::ops::constant;
use crate::scalar::{Function, Scalar};
use crate::var::Var;

mod layers;

pub(super) use layers::Layer;

/// Nodes at equal distances and where their values are kept, at the same distances.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The first node, or [`CONSTANT`] if these are constants.
    pub(crate) node: u32,
    /// Where in the values of all runs the first one is.
    pub(crate) start: usize,
    pub(crate) length: usize,
    pub(crate) stride: usize,
}

impl Place {
    /// Nodes and values that lie side by side.
    pub(super) fn new(node: u32, start: usize, length: usize) -> Self {
        Self {
            node,
            start,
            length,
            stride: 1,
        }
    }

    pub(crate) fn is_constant(self) -> bool {
        self.node == CONSTANT
    }

    /// These nodes, if they lie at equal distances, one behind the other; where their values are kept is not said.
    #[inline(always)]
    pub(super) fn of_nodes(mut nodes: impl ExactSizeIterator<Item = u32> + Clone) -> Option<Self> {
        let length = nodes.len();
        let mut first_two = nodes.clone();
        let node = first_two.next().unwrap_or(CONSTANT);
        let stride = first_two.next().map_or(1, |next| next.wrapping_sub(node));
        let mut expected = u64::from(node);
        let in_steps = nodes.all(|node| {
            let as_expected = u64::from(node) == expected;
            expected += u64::from(stride);
            as_expected
        });
        let rises = if node == CONSTANT {
            stride == 0 || length <= 1
        } else {
            (1..1 << 31).contains(&stride) // a step back is a large number
        };
        (in_steps && rises).then_some(Self {
            node,
            start: 0,
            length,
            stride: stride as usize,
        })
    }

    /// `length` of them from the one at `index` on, each `step` further than the one before. They must be there; of none and of one
    /// it does not matter where or how far the next would be.
    pub(crate) fn part(self, index: usize, length: usize, step: usize) -> Self {
        let skipped = if length == 0 { 0 } else { index * self.stride };
        let stride = if length < 2 { 1 } else { self.stride * step };
        Self {
            node: if self.is_constant() {
                CONSTANT
            } else {
                self.node + skipped as u32
            },
            start: self.start + skipped,
            length,
            stride,
        }
    }
}

/// How the nodes of a group come about.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// Σⱼ aᵢⱼxⱼ, and biasᵢ if there are any.
    Rows {
        matrix: Place,
        x: Place,
        bias: Option<Place>,
    },
    /// f(xᵢ), with the derivatives from `slopes` on in the values.
    Each { x: Place, slopes: usize },
    /// One node: Σ xᵢ.
    Sum { x: Place },
    /// One node: the sum of these and perhaps of others, times a number that is at `share` in the values.
    Share { x: Place, share: usize },
    /// One node: a function of these and perhaps of others, with the derivatives with respect to these from `slopes` on in the
    /// values.
    Op { x: Place, slopes: usize },
    /// The results of a layer.
    Layer(Layer),
}

struct Group {
    /// The first of its nodes.
    node: usize,
    count: usize,
    rule: Rule,
}

/// The values of runs, and the groups made from them, both in the order of recording.
pub(super) struct Groups<T> {
    values: Vec<T>,
    /// Per list of values, how many nodes there were when it was kept, and where it begins.
    kept: Vec<(usize, usize)>,
    groups: Vec<Group>,
    /// Results on their way to the handles.
    results: Vec<T>,
    /// Room for computing.
    room: RefCell<Vec<T>>,
    /// The vectors of this machine.
    level: Level,
}

fn no_room(nodes: usize, arguments: usize) -> Error {
    Error::OutOfMemory { nodes, arguments }
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            kept: Vec::new(),
            groups: Vec::new(),
            results: Vec::new(),
            room: RefCell::default(),
            level: Level::best(),
        }
    }
}

impl<T: Scalar> Groups<T> {
    pub(super) fn bytes(&self) -> usize {
        let room = self.results.capacity() + self.room.borrow().capacity();
        (self.values.capacity() + room) * size_of::<T>()
            + self.kept.capacity() * size_of::<(usize, usize)>()
            + self.groups.capacity() * size_of::<Group>()
    }

    /// Keeps values on a tape of so many nodes, for groups recorded from now on; where they begin.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub(super) fn keep(
        &mut self,
        nodes: usize,
        values: impl ExactSizeIterator<Item = T>,
    ) -> Result<usize, Error> {
        let start = self.begin(nodes, values.len())?;
        self.values.extend(values);
        Ok(start)
    }

    /// Makes room for a list of so many values; where it begins.
    fn begin(&mut self, nodes: usize, count: usize) -> Result<usize, Error> {
        let start = self.values.len();
        let room = self.values.try_reserve(count);
        room.map_err(|_| no_room(nodes, start + count))?;
        self.kept.push((nodes, start));
        Ok(start)
    }

    /// Keeps a number of each handle of a matrix, row by row; where they begin.
    pub(super) fn keep_matrix<'t>(
        &mut self,
        nodes: usize,
        matrix: MatrixView<'_, Var<'t, T>>,
        number: impl Fn(Var<'t, T>) -> T,
    ) -> Result<usize, Error> {
        let start = self.begin(nodes, matrix.rows() * matrix.columns())?;
        for row in 0..matrix.rows() {
            match matrix.slice(row) {
                Some(row) => self.values.extend(row.iter().map(|&x| number(x))),
                None => self.values.extend(matrix.row(row).map(&number)),
            }
        }
        Ok(start)
    }

    /// Says that node `node`, the next one, is a function of the nodes at these places; where its derivatives are to be written,
    /// those with respect to the first place first.
    pub(super) fn record_op<const N: usize>(
        &mut self,
        node: usize,
        places: [Place; N],
    ) -> Result<&mut [T], Error> {
        let count = places.iter().map(|place| place.length).sum();
        let start = self.keep(node, std::iter::repeat_n(constant(0.0), count))?;
        let mut slopes = start;
        for x in places {
            if !x.is_constant() {
                self.record(node, 1, Rule::Op { x, slopes });
            }
            slopes += x.length;
        }
        Ok(&mut self.values[start..])
    }

    /// Says that node `node`, the next one, is the sum of the nodes at these places, times `share`.
    pub(super) fn record_share<const N: usize>(
        &mut self,
        node: usize,
        places: [Place; N],
        share: T,
    ) -> Result<(), Error> {
        let share = self.keep(node, [share].into_iter())?;
        for x in places.into_iter().filter(|x| !x.is_constant()) {
            self.record(node, 1, Rule::Share { x, share });
        }
        Ok(())
    }

    /// Forgets what the nodes from `nodes` on had to do with; whether any groups are left.
    #[inline]
    pub(super) fn truncate(&mut self, nodes: usize) -> bool {
        while self.groups.last().is_some_and(|group| group.node >= nodes) {
            self.groups.pop();
        }
        while let Some(&(then, start)) = self.kept.last()
            && then >= nodes
        {
            self.values.truncate(start);
            self.kept.pop();
        }
        !self.groups.is_empty()
    }

    pub(super) fn value(&self, place: Place, index: usize) -> Option<T> {
        let within = index < place.length;
        within.then(|| self.values[place.start + index * place.stride])
    }

    /// Σ aᵢbᵢ.
    pub(super) fn dot(&self, a: Place, b: Place) -> T {
        let mut dot = [constant(0.0)];
        self.level.run(Rows {
            values: &self.values,
            matrix: a,
            x: b,
            bias: None,
            out: &mut dot,
        });
        dot[0]
    }

    /// Σ xᵢ.
    pub(super) fn sum(&self, x: Place) -> T {
        let values = &self.values;
        self.level.run(Sum { values, x })
    }

    /// Keeps Σⱼ aᵢⱼxⱼ, and biasᵢ if there are any, on a tape of so many nodes; where.
    pub(super) fn keep_rows(
        &mut self,
        nodes: usize,
        matrix: Place,
        x: Place,
        bias: Option<Place>,
    ) -> Result<usize, Error> {
        let count = matrix.length.checked_div(x.length).unwrap_or(0);
        let start = self.keep(nodes, std::iter::repeat_n(constant(0.0), count))?;
        let (values, out) = self.values.split_at_mut(start);
        self.level.run(Rows {
            values,
            matrix,
            x,
            bias,
            out,
        });
        Ok(start)
    }

    /// Keeps f(xᵢ) and, behind these, the derivatives, on a tape of so many nodes; where.
    pub(super) fn keep_each(
        &mut self,
        nodes: usize,
        f: impl Function,
        x: Place,
    ) -> Result<usize, Error> {
        let start = self.keep(nodes, std::iter::repeat_n(constant(0.0), 2 * x.length))?;
        let (values, out) = self.values.split_at_mut(start);
        let (out, slopes) = out.split_at_mut(x.length);
        self.level.run(Each {
            values,
            f,
            x,
            out,
            slopes,
        });
        Ok(start)
    }

    /// What was computed last for handles.
    pub(super) fn results(&self) -> &[T] {
        &self.results
    }

    /// Says how the `count` nodes from `node` on come about.
    pub(super) fn record(&mut self, node: usize, count: usize, rule: Rule) {
        self.groups.push(Group { node, count, rule });
    }

    /// How many groups begin at or before node `last`.
    pub(super) fn up_to(&self, last: usize) -> usize {
        self.groups.partition_point(|group| group.node <= last)
    }

    /// The nodes of a group, as first and one past the last.
    pub(super) fn nodes(&self, group: usize) -> (usize, usize) {
        let Group { node, count, .. } = self.groups[group];
        (node, node + count)
    }

    /// Passes the gradients of the nodes of a group on to what they come from.
    #[inline(never)]
    pub(super) fn pass_on(&self, group: usize, columns: &mut Slices<'_, T>) {
        let Group { node, count, rule } = self.groups[group];
        // All that a group comes from lies before it.
        let (to, from) = columns.gradients.split_at_mut(node);
        let (values, from) = (&self.values[..], &from[..count]);
        // Two pieces of work: in one together, the compiler makes no vectors of the loops for runs.
        let Rule::Layer(layer) = rule else {
            return self.level.run(PassOn {
                values,
                rule,
                to,
                from,
            });
        };
        let mut room = self.room.take();
        room.resize(layer.room().max(room.len()), constant(0.0));
        self.level.run(PassOnLayer {
            values,
            layer,
            to,
            from,
            room: &mut room[..layer.room()],
        });
        self.room.replace(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nodes of a place, as first, length and stride.
    fn steps(nodes: &[u32]) -> Option<(u32, usize, usize)> {
        let place = Place::of_nodes(nodes.iter().copied())?;
        Some((place.node, place.length, place.stride))
    }

    #[test]
    fn nodes_at_equal_distances_are_a_place() {
        assert_eq!(steps(&[3, 4, 5]), Some((3, 3, 1)));
        assert_eq!(steps(&[3, 7, 11]), Some((3, 3, 4)));
        assert_eq!(steps(&[3]), Some((3, 1, 1)));
        assert_eq!(steps(&[CONSTANT; 4]).map(|(node, ..)| node), Some(CONSTANT));
        for others in [&[5, 4, 3][..], &[3, 3], &[3, 4, 6], &[CONSTANT, 1, 2]] {
            assert_eq!(steps(others), None, "{others:?}");
        }
        // Beyond the last number there is, distances do not begin anew.
        let step = 1_u32 << 30;
        let wrapped: Vec<u32> = (0..6_u32)
            .map(|i| 7_u32.wrapping_add(step.wrapping_mul(i)))
            .collect();
        assert_eq!(steps(&wrapped[..4]), Some((7, 4, step as usize)));
        assert_eq!(steps(&wrapped), None);
    }

    #[test]
    fn parts_without_neighbours_reach_nowhere() {
        let far = Place {
            node: u32::MAX - 1,
            start: usize::MAX - 1,
            length: 2,
            stride: 1,
        };
        let none = far.part(2, 0, usize::MAX);
        assert_eq!((none.node, none.length, none.stride), (u32::MAX - 1, 0, 1));
        let one = far.part(1, 1, usize::MAX);
        assert_eq!((one.node, one.length, one.stride), (u32::MAX, 1, 1));
    }
}
