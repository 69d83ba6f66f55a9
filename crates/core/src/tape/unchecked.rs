//! The columns of a tape, written without bounds checks.
//!
//! A node is written after one comparison for itself and one for its arguments. What that saves against checked pushes is
//! measured in ARCHITECTURE.md.
//!
//! Why it is sound: up to `nodes` and up to `arguments` the columns are initialised, up to `node_room` and `argument_room` they
//! are allocated. Slices of them are only had from a [`Loan`]; as long as it exists, `lent` is set and both rooms are 0, so
//! whatever its owner calls, no push writes, nothing grows and no gradient is read.
#![allow(unsafe_code, reason = "unchecked pushes, as said above")]

use std::cell::{Cell, UnsafeCell};
use std::collections::TryReserveError;
use std::slice;

use super::storage::Argument;

/// The most nodes and the most arguments there can be, so that positions and ends fit into 32 bits.
pub(super) const MOST: usize = u32::MAX as usize - 1;

/// Per node an end among the arguments and a gradient; per argument a parent and a partial derivative.
pub(super) struct Columns<T> {
    nodes: Cell<usize>,
    arguments: Cell<usize>,
    node_room: Cell<usize>,
    argument_room: Cell<usize>,
    /// The most nodes there may be.
    limit: usize,
    /// How many nodes there were when one did not fit, `usize::MAX` if all did. Those pushed since are counted, but are not there.
    full_at: Cell<usize>,
    lent: Cell<bool>,
    ends: UnsafeCell<Vec<u32>>,
    gradients: UnsafeCell<Vec<T>>,
    parents: UnsafeCell<Vec<u32>>,
    partials: UnsafeCell<Vec<T>>,
}

/// The columns as slices.
pub(super) struct Slices<'a, T> {
    /// Per node, one past its last argument; its first is where the node before it ends. They rise.
    pub(super) ends: &'a [u32],
    pub(super) gradients: &'a mut [T],
    parents: &'a [u32],
    partials: &'a [T],
}

impl<'a, T> Slices<'a, T> {
    /// The parents and the partial derivatives of a node.
    #[inline]
    pub(super) fn arguments_of(&self, node: usize) -> (&'a [u32], &'a [T]) {
        let end = self.ends[node] as usize;
        let start = node.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        // SAFETY: ends rise and the last of them is the length of both slices.
        unsafe {
            (
                self.parents.get_unchecked(start..end),
                self.partials.get_unchecked(start..end),
            )
        }
    }
}

impl<T: Copy> Columns<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            nodes: Cell::new(0),
            arguments: Cell::new(0),
            node_room: Cell::new(0),
            argument_room: Cell::new(0),
            limit: limit.min(MOST),
            full_at: Cell::new(usize::MAX),
            lent: Cell::new(false),
            ends: UnsafeCell::default(),
            gradients: UnsafeCell::default(),
            parents: UnsafeCell::default(),
            partials: UnsafeCell::default(),
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn nodes(&self) -> usize {
        self.nodes.get().min(self.full_at.get())
    }

    pub(super) fn arguments(&self) -> usize {
        self.arguments.get().min(MOST)
    }

    pub(super) fn bytes(&self) -> usize {
        // SAFETY: only capacities are read, which a lent slice does not cover.
        let [positions, numbers] = unsafe {
            [
                (*self.ends.get()).capacity() + (*self.parents.get()).capacity(),
                (*self.gradients.get()).capacity() + (*self.partials.get()).capacity(),
            ]
        };
        positions * size_of::<u32>() + numbers * size_of::<T>()
    }

    /// The gradient of a node, if it is there and the columns are not lent.
    #[inline]
    pub(super) fn gradient(&self, node: usize) -> Option<T> {
        if self.lent.get() || node >= self.nodes() {
            return None;
        }
        // SAFETY: the node is there, so its gradient is initialised, and nothing is lent.
        Some(unsafe { *(*self.gradients.get()).as_ptr().add(node) })
    }

    /// Pushes a node with these (parent, partial derivative) pairs, and gives its position and whether it fitted. If not, nothing
    /// more is written until [`truncate`](Self::truncate).
    ///
    /// The position does not depend on whether the columns had to grow; so where all of a graph is visible, the
    /// compiler works out all positions.
    #[inline(always)]
    pub(super) fn push<const N: usize>(
        &self,
        arguments: [(u32, T); N],
        gradient: T,
    ) -> (usize, bool) {
        let (node, start) = (self.nodes.get(), self.arguments.get());
        let end = start + N;
        let has_room = node < self.node_room.get() && end <= self.argument_room.get();
        let fits = has_room || self.make_room(node + 1, end);
        if fits {
            // SAFETY: there is room for this node and for arguments up to `end`, and nothing is lent.
            unsafe {
                let parents = (*self.parents.get()).as_mut_ptr().add(start);
                let partials = (*self.partials.get()).as_mut_ptr().add(start);
                for (i, (parent, partial)) in arguments.into_iter().enumerate() {
                    parents.add(i).write(parent);
                    partials.add(i).write(partial);
                }
                (*self.ends.get()).as_mut_ptr().add(node).write(end as u32);
                let gradients = (*self.gradients.get()).as_mut_ptr();
                gradients.add(node).write(gradient);
            }
        }
        self.nodes.set(node + 1);
        self.arguments.set(end);
        (node, fits)
    }

    /// Pushes the arguments of the node that will be pushed next, as one without further arguments: those of all groups, which are
    /// `count`, with these partial derivatives.
    #[inline(always)]
    pub(super) fn push_arguments<A: Argument<T>, const N: usize>(
        &self,
        groups: [&[A]; N],
        count: usize,
        partials: impl Fn(usize) -> T,
    ) {
        let (start, mut place) = (self.arguments.get(), self.arguments.get());
        let end = start + count;
        if end <= self.argument_room.get() || self.make_room(self.nodes.get(), end) {
            for group in groups {
                for argument in &group[..group.len().min(end - place)] {
                    let (parent, partial) =
                        (argument.node(), argument.chained(partials(place - start)));
                    // SAFETY: there is room up to `end`, and nothing is lent. What the lines above call is arithmetic of this crate's
                    // numbers (`Scalar` is sealed), which does not reach this tape; and room is never given back.
                    unsafe {
                        (*self.parents.get()).as_mut_ptr().add(place).write(parent);
                        let partials = (*self.partials.get()).as_mut_ptr();
                        partials.add(place).write(partial);
                    }
                    place += 1;
                }
            }
        }
        self.arguments.set(end);
    }

    /// Pushes so many nodes without arguments, and gives the position of the first and whether they fitted.
    pub(super) fn push_leaves(&self, count: usize, gradient: T) -> (usize, bool) {
        let (node, end) = (self.nodes.get(), self.arguments.get());
        let fits = node + count <= self.node_room.get() || self.make_room(node + count, end);
        if fits {
            // SAFETY: there is room for `count` more nodes, and nothing is lent.
            unsafe {
                let ends = (*self.ends.get()).as_mut_ptr().add(node);
                let gradients = (*self.gradients.get()).as_mut_ptr().add(node);
                if end == 0 {
                    ends.write_bytes(0, count); // variables that come before everything else, by far the fastest way
                } else {
                    (0..count).for_each(|i| ends.add(i).write(end as u32));
                }
                (0..count).for_each(|i| gradients.add(i).write(gradient));
            }
        }
        self.nodes.set(node + count);
        (node, fits)
    }

    /// Whether the columns take nothing.
    fn is_closed(&self) -> bool {
        self.lent.get() || self.full_at.get() < usize::MAX
    }

    /// Makes room for so many nodes and arguments in all, or closes the columns to all pushes until they are truncated.
    #[cold]
    #[inline(never)]
    fn make_room(&self, nodes: usize, arguments: usize) -> bool {
        let may = !self.is_closed() && nodes <= self.limit && arguments <= MOST;
        if may && self.reserve(nodes, arguments).is_ok() {
            return true;
        }
        self.full_at.set(self.nodes());
        self.node_room.set(0);
        self.argument_room.set(0);
        false
    }

    /// Allocates room for so many nodes and arguments in all.
    pub(super) fn reserve(&self, nodes: usize, arguments: usize) -> Result<(), TryReserveError> {
        if self.is_closed() {
            return Ok(());
        }
        let (old_nodes, old_arguments) = (self.nodes.get(), self.arguments.get());
        // SAFETY: nothing is lent, so these are the only references; the lengths set are those of the initialised parts.
        unsafe {
            let (ends, gradients) = (&mut *self.ends.get(), &mut *self.gradients.get());
            let (parents, partials) = (&mut *self.parents.get(), &mut *self.partials.get());
            ends.set_len(old_nodes);
            gradients.set_len(old_nodes);
            parents.set_len(old_arguments);
            partials.set_len(old_arguments);
            ends.try_reserve(nodes - old_nodes)?;
            gradients.try_reserve(nodes - old_nodes)?;
            parents.try_reserve(arguments - old_arguments)?;
            partials.try_reserve(arguments - old_arguments)?;
        }
        self.measure_rooms();
        Ok(())
    }

    fn measure_rooms(&self) {
        // SAFETY: nothing is lent here, and only capacities are read.
        let (nodes, arguments) = unsafe {
            (
                (*self.ends.get())
                    .capacity()
                    .min((*self.gradients.get()).capacity()),
                (*self.parents.get())
                    .capacity()
                    .min((*self.partials.get()).capacity()),
            )
        };
        self.node_room.set(nodes.min(self.limit));
        self.argument_room.set(arguments.min(MOST));
    }

    /// Drops all nodes from `nodes` on.
    pub(super) fn truncate(&mut self, nodes: usize) {
        let nodes = nodes.min(self.nodes());
        let ends = self.ends.get_mut().as_ptr();
        let end = nodes.checked_sub(1).map_or(0, |last| {
            // SAFETY: this node is there, so its end is initialised.
            unsafe { *ends.add(last) }
        });
        self.nodes.set(nodes);
        self.arguments.set(end as usize);
        if self.full_at.replace(usize::MAX) < usize::MAX {
            self.measure_rooms();
        }
    }

    /// Lends the columns, unless they are lent already.
    #[inline(always)]
    pub(super) fn lend(&self) -> Option<Loan<'_, T>> {
        if self.lent.replace(true) {
            return None;
        }
        Some(Loan {
            columns: self,
            rooms: (self.node_room.replace(0), self.argument_room.replace(0)),
        })
    }
}

/// The right to look at the columns, which are closed to everybody else as long as it exists.
pub(super) struct Loan<'a, T> {
    columns: &'a Columns<T>,
    rooms: (usize, usize),
}

impl<T: Copy> Loan<'_, T> {
    #[inline(always)]
    pub(super) fn slices(&mut self) -> Slices<'_, T> {
        let columns = self.columns;
        let nodes = columns.nodes();
        // SAFETY: so many elements are initialised, and nothing else refers to them as long as they are lent.
        unsafe {
            let ends = slice::from_raw_parts((*columns.ends.get()).as_ptr(), nodes);
            let arguments = if nodes == 0 {
                0
            } else {
                ends[nodes - 1] as usize
            };
            let gradients = (*columns.gradients.get()).as_mut_ptr();
            Slices {
                ends,
                gradients: slice::from_raw_parts_mut(gradients, nodes),
                parents: slice::from_raw_parts((*columns.parents.get()).as_ptr(), arguments),
                partials: slice::from_raw_parts((*columns.partials.get()).as_ptr(), arguments),
            }
        }
    }
}

impl<T> Drop for Loan<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.columns.full_at.get() == usize::MAX {
            self.columns.node_room.set(self.rooms.0);
            self.columns.argument_room.set(self.rooms.1);
        }
        self.columns.lent.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns with `nodes` nodes of two arguments.
    fn columns(nodes: u32) -> Columns<f64> {
        let columns = Columns::new(1000);
        for node in 0..nodes {
            columns.push([(node, 1.0), (node, 2.0)], f64::from(node));
        }
        columns
    }

    #[test]
    fn what_was_pushed_is_there() {
        let columns = columns(100);
        columns.push_arguments([&[7, 8]], 2, |i| [0.5, 0.25][i]);
        assert_eq!(columns.push([], 9.0), (100, true));
        assert_eq!(columns.push_leaves(500, -1.0), (101, true));
        {
            let mut loan = columns.lend().unwrap();
            let slices = loan.slices();
            assert_eq!(slices.arguments_of(0), (&[0, 0][..], &[1.0, 2.0][..]));
            assert_eq!(slices.arguments_of(99), (&[99, 99][..], &[1.0, 2.0][..]));
            assert_eq!(slices.arguments_of(100), (&[7, 8][..], &[0.5, 0.25][..]));
            assert_eq!(slices.arguments_of(600), (&[][..], &[][..]));
            assert_eq!((slices.gradients[99], slices.gradients[600]), (99.0, -1.0));
        }
        assert_eq!((columns.nodes(), columns.arguments()), (601, 202));
        assert_eq!(
            (columns.gradient(100), columns.gradient(601)),
            (Some(9.0), None)
        );
    }

    #[test]
    fn lent_columns_take_and_show_nothing() {
        let mut columns = columns(10);
        let mut loan = columns.lend().unwrap();
        assert_eq!(columns.gradient(3), None);
        assert!(columns.lend().is_none());
        assert!(columns.reserve(1 << 20, 1 << 20).is_ok());
        columns.push_arguments([&[1; 3]], 3, |_| 1.0);
        assert!(!columns.push_leaves(1, 0.0).1);
        for _ in 0..100 {
            assert!(!columns.push([(1, 1.0)], 0.0).1);
        }
        assert_eq!((loan.slices().gradients.len(), columns.nodes()), (10, 10));
        drop(loan);
        assert_eq!(columns.gradient(3), Some(3.0));
        assert!(!columns.push([], 0.0).1);
        columns.truncate(5);
        assert_eq!((columns.nodes(), columns.arguments()), (5, 10));
        assert_eq!(columns.push([], 0.0), (5, true));
    }

    #[test]
    fn full_columns_stay_closed_until_truncated() {
        let mut columns = Columns::new(3);
        let pushed: Vec<_> = (0..5).map(|_| columns.push([(0, 1.0)], 0.0).1).collect();
        assert_eq!(pushed, [true, true, true, false, false]);
        assert_eq!(columns.nodes(), 3);
        columns.push_arguments([&[0; 3]], 3, |_| 1.0);
        assert!(!columns.push([], 0.0).1);
        columns.truncate(10);
        assert_eq!((columns.nodes(), columns.arguments()), (3, 3));
        columns.truncate(1);
        assert!(!columns.push_leaves(3, 0.0).1);
        columns.truncate(1);
        assert_eq!(columns.push_leaves(2, 0.0), (1, true));
    }
}
