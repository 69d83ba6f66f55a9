//! Nodes, arguments and gradients as they lie in memory, and the loop back through them.

use std::cell::{Cell, OnceCell, Ref, RefCell};

use super::groups::{Groups, Place, Rule};
use super::numbers::Numbers;
use super::unchecked::{Columns, MOST, Slices};
use crate::error::Error;
use crate::lanes::Work;
use crate::ops::constant;
use crate::record::Reduction;
use crate::scalar::Scalar;
use crate::var::Held;

/// Wide nodes up to this many arguments have their partial derivatives computed on the stack.
const NARROW: usize = 8;

/// Functions of up to this many arguments are not worth an entrance to the machine's vectors.
const FEW: usize = 4;

/// An argument of an op: a node, or a function of it.
pub(crate) trait Argument<T>: Copy {
    /// Whether ops over many nodes at equal distances may be recorded without a list of them.
    const IN_STEPS: bool = true;

    /// The node.
    fn node(self) -> u32;
    /// Whether it is the node itself.
    fn is_node(self) -> bool;
    /// The derivative with respect to the node of what has this derivative with respect to the argument.
    fn chained(self, partial: T) -> T;
}

/// The node itself, of a graph that is asked for its edges.
impl<T> Argument<T> for u32 {
    const IN_STEPS: bool = false;

    fn node(self) -> u32 {
        self
    }

    fn is_node(self) -> bool {
        true
    }

    fn chained(self, partial: T) -> T {
        partial
    }
}

/// Columns of nodes and arguments, with what is known about the gradients. Node 0 stands for all constants.
pub(super) struct Storage<T> {
    columns: Columns<T>,
    /// The gradients of all nodes from here on are 0.
    swept: Cell<usize>,
    /// Gradients put aside during a pass.
    aside: RefCell<Vec<T>>,
    /// Where the partial derivatives of a wide node are put together.
    scratch: RefCell<Vec<T>>,
    /// The nodes made from runs, whose arguments are not among the others.
    groups: RefCell<Groups<T>>,
    /// Whether there are any, to look no further where there are none.
    has_groups: Cell<bool>,
    /// Values and slopes of handles that do not hold them.
    numbers: Numbers<T>,
    /// The first thing that went wrong in recording.
    fault: OnceCell<Error>,
}

impl<T: Scalar> Storage<T> {
    pub(super) fn new(max_nodes: usize) -> Self {
        let max_nodes = max_nodes.min(T::Held::MOST_NODES);
        let storage = Self {
            columns: Columns::new(max_nodes.min(MOST - 1) + 1),
            swept: Cell::new(0),
            aside: RefCell::default(),
            scratch: RefCell::default(),
            groups: RefCell::default(),
            has_groups: Cell::new(false),
            numbers: Numbers::new(),
            fault: OnceCell::new(),
        };
        storage.record([]);
        storage
    }

    pub(super) fn nodes(&self) -> usize {
        self.columns.nodes()
    }

    pub(super) fn arguments(&self) -> usize {
        self.columns.arguments()
    }

    pub(super) fn bytes(&self) -> usize {
        let scratch = self.aside.borrow().capacity() + self.scratch.borrow().capacity();
        let numbers = scratch + self.numbers.capacity();
        self.columns.bytes() + self.groups.borrow().bytes() + numbers * size_of::<T>()
    }

    /// The parents and the partial derivatives of a node.
    pub(super) fn arguments_of(&self, node: usize) -> (Vec<u32>, Vec<T>) {
        let Some(mut loan) = self.columns.lend() else {
            return (Vec::new(), Vec::new());
        };
        let (parents, partials) = loan.slices().arguments_of(node);
        (parents.to_vec(), partials.to_vec())
    }

    pub(super) fn reserve(&self, nodes: usize, arguments: usize) -> Result<(), Error> {
        let limit = self.columns.limit();
        if nodes >= limit {
            return Err(Error::TapeFull {
                what: "nodes",
                limit: limit - 1,
            });
        }
        if arguments > MOST {
            return Err(Error::TapeFull {
                what: "arguments",
                limit: MOST,
            });
        }
        self.columns
            .reserve(nodes + 1, arguments)
            .map_err(|_| Error::OutOfMemory { nodes, arguments })
    }

    #[inline]
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.fault.get() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Keeps the first error.
    #[cold]
    pub(super) fn fault(&self, error: Error) {
        self.fault.get_or_init(|| error);
    }

    pub(super) fn forgive(&mut self) {
        self.fault.take();
    }

    pub(super) fn truncate(&mut self, nodes: usize) {
        self.columns.truncate(nodes);
        let any = self.groups.get_mut().truncate(nodes);
        self.has_groups.set(any);
        self.numbers.clear(); // Whoever truncates has the tape to himself, so there are no handles.
        let swept = self.swept.get_mut();
        *swept = nodes.min(*swept);
    }

    /// Records a node with these (parent, partial derivative) pairs; its position, and whether it is there. If not, the tape is
    /// faulty from now on.
    #[inline(always)]
    pub(super) fn record<const N: usize>(&self, arguments: [(u32, T); N]) -> (u32, bool) {
        let (node, fits) = self.columns.push(arguments, constant(0.0));
        if !fits {
            self.overflow();
        }
        (node as u32, fits)
    }

    /// Records variables; the position of the first, and whether they are there.
    pub(super) fn record_variables(&self, count: usize) -> (u32, bool) {
        let (first, fits) = self.columns.push_leaves(count, constant(0.0));
        if !fits {
            self.overflow();
        }
        (first as u32, fits)
    }

    /// The values of runs and what was made from them.
    pub(super) fn groups(&self) -> Ref<'_, Groups<T>> {
        self.groups.borrow()
    }

    /// Calls `f` with the values of runs, to which it may add, and the number of nodes.
    pub(super) fn keep<R>(
        &self,
        f: impl FnOnce(&mut Groups<T>, usize) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut groups = self.groups.try_borrow_mut().map_err(|_| Error::Busy)?;
        f(&mut groups, self.nodes())
    }

    /// Records so many nodes made from runs; the position of the first, and whether they are there.
    pub(super) fn record_group(&self, count: usize, rule: Rule) -> (u32, bool) {
        let (first, fits) = self.record_variables(count);
        if fits && count > 0 {
            let kept = self.keep(|groups, _| {
                groups.record(first as usize, count, rule);
                Ok(())
            });
            match kept {
                Ok(()) => self.has_groups.set(true),
                Err(error) => self.fault(error),
            }
        }
        (first, fits)
    }

    /// Keeps numbers until the tape is truncated; the place of the first. If they do not fit, the tape is faulty from now on.
    #[inline(always)]
    pub(super) fn hold<const N: usize>(&self, numbers: [T; N]) -> u32 {
        match self.numbers.push(numbers) {
            Some(place) => place,
            None => self.overflow_of_numbers(),
        }
    }

    #[cold]
    #[inline(never)]
    fn overflow_of_numbers(&self) -> u32 {
        self.fault(Error::TapeFull {
            what: "numbers",
            limit: super::numbers::MOST,
        });
        0
    }

    /// The number at a place.
    #[inline(always)]
    pub(super) fn held_at(&self, place: u32) -> T {
        self.numbers.get(place)
    }

    /// As [`record`](Self::record), for an op over many arguments, those of all `groups`; also gives its value.
    #[inline(always)]
    pub(super) fn record_many<A: Argument<T>, const N: usize>(
        &self,
        groups: [&[A]; N],
        reduction: impl Reduction<T>,
    ) -> ((u32, bool), T) {
        let mut count = 0;
        for group in groups {
            count += group.len();
        }
        if A::IN_STEPS
            && count > NARROW
            && let Some(places) = places_of(groups)
        {
            return self.record_op(groups, places, reduction);
        }
        if let Some((value, partial)) = reduction.uniform() {
            self.columns.push_arguments(groups, count, |_| partial);
            return (self.record([]), value);
        }
        // One call for both, so that the op is compiled once.
        let (mut narrow, mut wide) = ([constant(0.0); NARROW], Vec::new());
        let partials = match narrow.get_mut(..count) {
            Some(narrow) => narrow,
            None => {
                wide = self.scratch.take();
                wide.resize(count, constant(0.0));
                &mut wide[..]
            }
        };
        let recorded = self.record_filled(groups, partials, reduction);
        if count > NARROW {
            self.scratch.replace(wide);
        }
        recorded
    }

    /// Records a node whose partial derivatives are first put together in this slice.
    #[inline(always)]
    fn record_filled<A: Argument<T>, const N: usize>(
        &self,
        groups: [&[A]; N],
        partials: &mut [T],
        reduction: impl Reduction<T>,
    ) -> ((u32, bool), T) {
        let count = partials.len();
        let value = fill(reduction, partials);
        self.columns.push_arguments(groups, count, |i| partials[i]);
        (self.record([]), value)
    }

    /// Records a node whose arguments lie at these places.
    #[inline(always)]
    fn record_op<A: Argument<T>, const N: usize>(
        &self,
        groups: [&[A]; N],
        places: [Place; N],
        reduction: impl Reduction<T>,
    ) -> ((u32, bool), T) {
        let kept = self.keep(|kept, node| {
            if let Some((value, share)) = reduction.uniform()
                && groups
                    .into_iter()
                    .flatten()
                    .all(|argument| argument.is_node())
            {
                return kept.record_share(node, places, share).map(|()| value);
            }
            let partials = kept.record_op(node, places)?;
            let value = fill(reduction, partials);
            let mut partials = partials.iter_mut();
            for group in groups {
                for (argument, partial) in group.iter().zip(&mut partials) {
                    *partial = argument.chained(*partial);
                }
            }
            Ok(value)
        });
        let value = match kept {
            Ok(value) => {
                self.has_groups.set(true);
                value
            }
            Err(error) => {
                self.fault(error);
                constant(f64::NAN)
            }
        };
        (self.record_variables(1), value)
    }

    #[cold]
    fn overflow(&self) {
        let (what, limit) = if self.arguments() < MOST {
            ("nodes", self.columns.limit() - 1)
        } else {
            ("arguments", MOST)
        };
        self.fault(Error::TapeFull { what, limit });
    }

    #[inline]
    pub(super) fn gradient(&self, node: u32) -> T {
        let gradient = self.columns.gradient(node as usize);
        gradient.unwrap_or(constant(0.0))
    }

    /// Calls `f` with the gradients of all nodes.
    pub(super) fn with_gradients(&self, f: impl FnOnce(&mut [T])) {
        if let Some(mut loan) = self.columns.lend() {
            f(loan.slices().gradients);
        }
    }

    pub(super) fn zero_gradients(&self) {
        let swept = self.swept.replace(0);
        self.with_gradients(|gradients| gradients[..swept].fill(constant(0.0)));
    }

    /// Sets the gradients of all nodes but the first.
    pub(super) fn set_gradients(&self, values: &[T]) {
        self.swept.set(values.len() + 1);
        self.with_gradients(|gradients| gradients[1..].copy_from_slice(values));
    }

    /// Adds to every node up to `last` the gradient of what `seed` adds to the gradients of some of them.
    ///
    /// Gradients add up where they lie. That would hand on what earlier passes left in nodes with arguments; so if there are
    /// any such below `swept`, gradients are put aside first and added again afterwards. Variables that come before everything
    /// else hand nothing on and need no such care.
    #[inline]
    pub(super) fn backward(&self, last: usize, seed: impl FnOnce(&mut [T])) -> Result<(), Error> {
        if self.has_groups.get() {
            self.backward_through_groups(last, seed)
        } else {
            self.backward_with(last, seed, None)
        }
    }

    #[inline(never)]
    fn backward_through_groups(
        &self,
        last: usize,
        seed: impl FnOnce(&mut [T]),
    ) -> Result<(), Error> {
        let groups = self.groups.try_borrow().map_err(|_| Error::Busy)?;
        self.backward_with(last, seed, Some(&groups))
    }

    #[inline(always)]
    fn backward_with(
        &self,
        last: usize,
        seed: impl FnOnce(&mut [T]),
        groups: Option<&Groups<T>>,
    ) -> Result<(), Error> {
        let Some(mut loan) = self.columns.lend() else {
            return Err(Error::Busy);
        };
        let (swept, mut columns) = (self.swept.get(), loan.slices());
        let any_group = || groups.is_some_and(|groups| groups.up_to(swept - 1) > 0);
        if swept > 0 && (columns.ends[swept - 1] > 0 || any_group()) {
            self.add_aside(swept, columns, |columns| columns.add(last, seed, groups));
        } else {
            columns.add(last, seed, groups);
        }
        self.swept.set(swept.max(last + 1));
        Ok(())
    }

    /// Calls `add` with all gradients 0, and then adds those there were before.
    #[cold]
    fn add_aside(
        &self,
        swept: usize,
        mut columns: Slices<'_, T>,
        add: impl FnOnce(&mut Slices<'_, T>),
    ) {
        let mut aside = self.aside.take();
        aside.extend_from_slice(&columns.gradients[..swept]);
        columns.gradients[..swept].fill(constant(0.0));
        add(&mut columns);
        for (gradient, earlier) in columns.gradients.iter_mut().zip(aside.drain(..)) {
            *gradient += earlier;
        }
        self.aside.replace(aside);
    }
}

/// Where the nodes of all groups lie, if at equal distances in each.
#[inline(always)]
fn places_of<T, A: Argument<T>, const N: usize>(groups: [&[A]; N]) -> Option<[Place; N]> {
    let mut places = [Place::default(); N];
    for (place, group) in places.iter_mut().zip(groups) {
        *place = Place::of_nodes(group.iter().map(|argument| argument.node()))?;
    }
    Some(places)
}

/// The value of an op over many arguments; writes its partial derivatives to `partials`.
#[inline(always)]
fn fill<T: Scalar, R: Reduction<T>>(reduction: R, partials: &mut [T]) -> T {
    if R::OF_FUNCTIONS && partials.len() > FEW {
        T::compiled_side_by_side(Partials {
            reduction,
            out: partials,
        })
    } else {
        reduction.with_partials(partials)
    }
}

/// The value and the partial derivatives of an op over many arguments, as a piece of work.
struct Partials<'o, T, R> {
    reduction: R,
    out: &'o mut [T],
}

impl<T: Scalar, R: Reduction<T>> Work for Partials<'_, T, R> {
    type Output = T;

    #[inline(always)]
    fn run(self) -> T {
        self.reduction.with_partials(self.out)
    }
}

/// The way back, as a piece of work.
struct Sweep<'s, 'a, T> {
    columns: &'s mut Slices<'a, T>,
    before: usize,
    last: usize,
}

impl<T: Scalar> Work for Sweep<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.columns.sweep_compiled(self.before, self.last);
    }
}

impl<T: Scalar> Slices<'_, T> {
    /// Lets `seed` add to the gradients, and passes those of the nodes up to `last` on to their arguments.
    #[inline(always)]
    fn add(&mut self, last: usize, seed: impl FnOnce(&mut [T]), groups: Option<&Groups<T>>) {
        seed(self.gradients);
        match groups {
            None => self.sweep(0, last),
            Some(groups) => self.sweep_with(groups, last),
        }
        self.gradients[0] = constant(0.0);
    }

    /// As [`sweep`](Self::sweep) from `last` down, through the groups as well. Of a group that goes on behind `last`, the gradients
    /// there are 0.
    fn sweep_with(&mut self, groups: &Groups<T>, mut last: usize) {
        for group in (0..groups.up_to(last)).rev() {
            let (first, end) = groups.nodes(group);
            self.sweep(end - 1, last);
            groups.pass_on(group, self);
            last = first - 1;
        }
        self.sweep(0, last);
    }

    /// Passes the gradients of the nodes behind `before` up to `last` on to their arguments.
    #[inline(always)]
    fn sweep(&mut self, before: usize, last: usize) {
        T::compiled(Sweep {
            columns: self,
            before,
            last,
        });
    }

    /// The loop of [`sweep`](Self::sweep).
    ///
    /// The gradient of the node next in line is kept in a register as well as in memory: in a chain, where it is what has just
    /// been added to, waiting for the memory would take most of the time.
    #[inline(always)]
    fn sweep_compiled(&mut self, before: usize, last: usize) {
        let (mut next, mut node) = (self.gradients[last], last);
        // Nodes that end at 0, and all before them, are variables.
        while node > before && self.ends[node] > 0 {
            let gradient = next;
            let (parents, partials) = self.arguments_of(node);
            node -= 1;
            next = self.gradients[node];
            if !gradient.is_zero() {
                for (&parent, &partial) in parents.iter().zip(partials) {
                    // Not a mere product: some of the numbers in the gradient may be zero.
                    let share = partial.chain(gradient);
                    self.gradients[parent as usize] += share;
                    if parent as usize == node {
                        next += share;
                    }
                }
            }
        }
    }
}
