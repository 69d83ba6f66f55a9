//! The tape: two stacks of numbers, a mark to rewind to, and one loop back through them.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use crate::error::Error;
use crate::ops::constant;
use crate::record::Reduction;
use crate::scalar::Scalar;
use crate::var::Var;

mod groups;
mod kernels;
mod layers;
mod numbers;
mod operand;
mod run;
mod storage;
mod unchecked;

pub use run::Run;
pub(crate) use storage::Argument;
use storage::Storage;

/// The node of all constants. Its gradient means nothing and is never read.
pub(crate) const CONSTANT: u32 = 0;

/// A record of a computation, along which gradients are passed back.
///
/// A tape is a value like any other: make as many as you like, one per thread for instance. Variables made on it
/// ([`var`](Self::var)) are [`Scalar`]s; what is computed from them is recorded; [`Var::backward`] then adds the gradient of
/// a result to every node it depends on. The order of nodes is an order in which they can be computed, so the way back
/// is one loop, without recursion, sorting or hashing.
///
/// [`mark`](Self::mark) and [`rewind`](Self::rewind) keep what came first (parameters, say) and drop the rest with all memory kept
/// for the next recording. Rewinding needs the tape for itself, so handles that would outlive their nodes do not compile:
///
/// ```compile_fail,E0502
/// let mut tape = burtorch_core::Tape::new();
/// let mark = tape.mark();
/// let v = tape.var(5.0);
/// tape.rewind(mark)?; // `v` is still borrowed from the tape
/// assert_eq!(v.value(), 5.0);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// The parameters before the mark are picked up again, with old or new values, by [`handle`](Self::handle):
///
/// ```
/// use burtorch_core::Tape;
///
/// let mut tape = Tape::new();
/// let weight = tape.var(0.0).id()?;
/// let mark = tape.mark();
/// let mut value = 1.0;
/// for _ in 0..60 {
///     let w = tape.handle(weight, value);
///     ((w - 3.0) * (w - 3.0)).backward()?;
///     value -= 0.25 * tape.grad(weight)?;
///     tape.zero_grads();
///     tape.rewind(mark)?;
/// }
/// assert!((value - 3.0_f64).abs() < 1e-12);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
pub struct Tape<T> {
    /// Tells tapes apart: a random number, since an address may be used again.
    identity: u64,
    storage: Storage<T>,
    history: History,
}

/// A place on a tape to [`rewind`](Tape::rewind) to. It belongs to the tape that made it.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    identity: u64,
    moment: u64,
    nodes: usize,
    faulty: bool,
}

/// A name for a node that does not borrow the tape, for use after rewinding. It belongs to the tape that made it.
#[derive(Clone, Copy, Debug)]
pub struct NodeId {
    identity: u64,
    moment: u64,
    node: u32,
}

/// Which nodes have been dropped since when.
#[derive(Default)]
struct History {
    /// Number of rewinds so far.
    moment: u64,
    /// Rewinds as (moment, nodes left), without those that a later one went below: both rise from entry to entry.
    cuts: Vec<(u64, usize)>,
}

impl History {
    fn cut(&mut self, nodes: usize) {
        self.moment += 1;
        while self.cuts.last().is_some_and(|&(_, left)| left >= nodes) {
            self.cuts.pop();
        }
        self.cuts.push((self.moment, nodes));
    }

    /// Whether the first `nodes` nodes are still those of that moment.
    fn unchanged_since(&self, moment: u64, nodes: usize) -> bool {
        let later = self.cuts.partition_point(|&(cut, _)| cut <= moment);
        self.cuts.get(later).is_none_or(|&(_, left)| nodes <= left)
    }
}

impl<T: Scalar> Default for Tape<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Scalar> fmt::Debug for Tape<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tape")
            .field("len", &self.len())
            .field("arguments", &self.arguments())
            .field("bytes", &self.bytes())
            .finish()
    }
}

impl<T: Scalar> Tape<T> {
    /// An empty tape, which grows as needed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(usize::MAX)
    }

    /// An empty tape with room for `nodes` nodes with `arguments` arguments among them (two for each operator).
    ///
    /// # Errors
    ///
    /// [`Error::TapeFull`] if a tape cannot have that many, [`Error::OutOfMemory`] if the machine cannot.
    pub fn with_capacity(nodes: usize, arguments: usize) -> Result<Self, Error> {
        let tape = Self::new();
        tape.storage.reserve(nodes, arguments)?;
        Ok(tape)
    }

    /// An empty tape that holds at most `max_nodes` nodes; one more is an [`Error::TapeFull`].
    #[must_use]
    pub fn with_limit(max_nodes: usize) -> Self {
        Self {
            identity: RandomState::new().hash_one(0),
            storage: Storage::new(max_nodes),
            history: History::default(),
        }
    }

    /// A new variable.
    #[inline]
    pub fn var(&self, value: T) -> Var<'_, T> {
        Var::recorded(self, self.storage.record([]), value)
    }

    /// New variables, one after the other on the tape.
    pub fn vars(&self, values: &[T]) -> Vec<Var<'_, T>> {
        values.iter().map(|&value| self.var(value)).collect()
    }

    /// A constant: a value that has no gradient.
    #[inline]
    pub fn constant(&self, value: T) -> Var<'_, T> {
        Var::constant_on(Some(self), value)
    }

    /// The handle of a node that is still on the tape, with the value given.
    ///
    /// A tape holds slopes, not values; so a variable can get a new value for the next recording. Nodes that were recorded
    /// with the old one and are still there keep their slopes.
    ///
    /// If the node is another tape's or was dropped, the tape becomes faulty.
    pub fn handle(&self, id: NodeId, value: T) -> Var<'_, T> {
        match self.locate(id, 1) {
            Ok(node) => Var::exact(self, node as u32, value),
            Err(error) => {
                self.fault(error);
                self.poisoned()
            }
        }
    }

    /// The handles of the nodes from `first` on, one for each value: variables made by [`vars`](Self::vars), say.
    ///
    /// If not all of them are on the tape, the tape becomes faulty and there is no handle.
    pub fn handles<'t>(
        &'t self,
        first: NodeId,
        values: &[T],
    ) -> impl ExactSizeIterator<Item = Var<'t, T>> {
        let (start, values) = match self.locate(first, values.len()) {
            Ok(start) => (start, values),
            Err(error) => {
                self.fault(error);
                (0, &[][..])
            }
        };
        values
            .iter()
            .enumerate()
            .map(move |(i, &value)| Var::exact(self, (start + i) as u32, value))
    }

    /// Adds to every node the gradient of Σᵢ seedᵢ·rootᵢ.
    ///
    /// Gradients add up over calls until they are zeroed. Where the gradient of a node is exactly 0, nothing is passed on from
    /// it, so a dead branch contributes 0 whatever its slopes are.
    ///
    /// # Errors
    ///
    /// [`Error::LengthMismatch`] if there are not as many seeds as roots, [`Error::ForeignTape`] if a root is another tape's, the
    /// tape's error if recording failed.
    pub fn backward(&self, roots: &[Var<'_, T>], seeds: &[T]) -> Result<(), Error> {
        self.check()?;
        if roots.len() != seeds.len() {
            return Err(Error::LengthMismatch {
                op: "backward",
                expected: roots.len(),
                found: seeds.len(),
            });
        }
        let mut last = CONSTANT;
        for root in roots {
            last = last.max(root.root_on(self)?.0);
        }
        self.storage.backward(last as usize, |gradients| {
            for (root, &seed) in roots.iter().zip(seeds) {
                if let Ok((node, slope)) = root.root_on(self) {
                    gradients[node as usize] += slope.chain(seed);
                }
            }
        })
    }

    /// [`backward`](Self::backward) for one root that is this tape's, with seed 1.
    pub(crate) fn backward_from(&self, node: u32, slope: T) -> Result<(), Error> {
        self.check()?;
        self.storage.backward(node as usize, |gradients| {
            gradients[node as usize] += slope;
        })
    }

    /// The gradient gathered by a node.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTape`], [`Error::Rewound`], or the tape's error if recording failed.
    pub fn grad(&self, id: NodeId) -> Result<T, Error> {
        self.check()?;
        let node = self.locate(id, 1)?;
        Ok(self.gradient_at(node as u32))
    }

    /// Adds the gradients of the nodes from `first` on to `out`, in their order.
    ///
    /// # Errors
    ///
    /// As [`grad`](Self::grad), and [`Error::NoSuchNode`] if the tape ends before `out` does.
    pub fn add_grads(&self, first: NodeId, out: &mut [T]) -> Result<(), Error> {
        self.check()?;
        let start = self.locate(first, out.len())?;
        self.storage.with_gradients(|gradients| {
            for (sum, &gradient) in out.iter_mut().zip(&gradients[start..]) {
                *sum += gradient;
            }
        });
        Ok(())
    }

    /// The gradients gathered by all nodes, in the order of recording.
    ///
    /// # Errors
    ///
    /// The tape's error if recording failed.
    pub fn grads(&self) -> Result<Vec<T>, Error> {
        self.check()?;
        let nodes = 1..self.storage.nodes();
        Ok(nodes.map(|node| self.gradient_at(node as u32)).collect())
    }

    /// Sets the gradients of all nodes, in the order of recording, to those of another time: what [`grads`](Self::grads) gave.
    ///
    /// # Errors
    ///
    /// [`Error::WrongCount`] if there are not as many as nodes, the tape's error if recording failed.
    pub fn set_grads(&self, values: &[T]) -> Result<(), Error> {
        self.check()?;
        if values.len() != self.len() {
            return Err(Error::WrongCount {
                what: "gradients",
                expected: self.len(),
                found: values.len(),
            });
        }
        self.storage.set_gradients(values);
        Ok(())
    }

    /// Sets the gradients of all nodes to 0.
    pub fn zero_grads(&self) {
        self.storage.zero_gradients();
    }

    /// Sets the gradients of `count` nodes from `first` on to 0.
    ///
    /// # Errors
    ///
    /// As [`add_grads`](Self::add_grads).
    pub fn zero_grads_in(&self, first: NodeId, count: usize) -> Result<(), Error> {
        let start = self.locate(first, count)?;
        let zero = constant(0.0);
        self.storage
            .with_gradients(|gradients| gradients[start..start + count].fill(zero));
        Ok(())
    }

    /// The present end of the tape, to [`rewind`](Self::rewind) to.
    pub fn mark(&self) -> Mark {
        Mark {
            identity: self.identity,
            moment: self.history.moment,
            nodes: self.storage.nodes(),
            faulty: self.check().is_err(),
        }
    }

    /// Drops all nodes recorded after `mark`, with their gradients. Memory is kept, and so are the gradients before the mark.
    ///
    /// An error that recording left in the tape goes too, unless it is older than the mark.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTape`] if another tape made the mark, [`Error::Rewound`] if the tape was rewound to an earlier mark since it was
    /// made. Nothing is dropped then.
    pub fn rewind(&mut self, mark: Mark) -> Result<(), Error> {
        if mark.identity != self.identity {
            return Err(Error::ForeignTape { what: "mark" });
        }
        if !self.history.unchanged_since(mark.moment, mark.nodes) {
            return Err(Error::Rewound {
                what: "mark",
                position: mark.nodes,
            });
        }
        self.truncate(mark.nodes);
        if !mark.faulty {
            self.storage.forgive();
        }
        Ok(())
    }

    /// Drops everything but the memory.
    pub fn clear(&mut self) {
        self.truncate(1);
        self.storage.forgive();
    }

    fn truncate(&mut self, nodes: usize) {
        self.storage.truncate(nodes);
        self.history.cut(nodes);
    }

    /// Whether everything recorded so far is sound.
    ///
    /// # Errors
    ///
    /// The first error that recording left in the tape.
    pub fn check(&self) -> Result<(), Error> {
        self.storage.check()
    }

    /// Number of nodes: variables, results of ops on several variables, and retained values.
    pub fn len(&self) -> usize {
        self.storage.nodes() - 1
    }

    /// Whether nothing has been recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of arguments of all nodes together.
    pub fn arguments(&self) -> usize {
        self.storage.arguments()
    }

    /// Memory held, in bytes, with that kept for later.
    pub fn bytes(&self) -> usize {
        self.storage.bytes()
    }

    /// Keeps numbers for handles until the tape is rewound; the place of the first, or that of NaN if they do not fit.
    #[inline(always)]
    pub(crate) fn hold<const N: usize>(&self, numbers: [T; N]) -> u32 {
        self.storage.hold(numbers)
    }

    /// The number at a place.
    #[inline(always)]
    pub(crate) fn held_at(&self, place: u32) -> T {
        self.storage.held_at(place)
    }

    /// Records a node with these (parent, partial derivative) pairs.
    #[inline(always)]
    pub(crate) fn record<const N: usize>(&self, arguments: [(u32, T); N]) -> (u32, bool) {
        self.storage.record(arguments)
    }

    /// Records a node for an op over the arguments of all `groups`, and computes its value.
    #[inline(always)]
    pub(crate) fn record_many<A: Argument<T>, const N: usize>(
        &self,
        groups: [&[A]; N],
        reduction: impl Reduction<T>,
    ) -> ((u32, bool), T) {
        self.storage.record_many(groups, reduction)
    }

    /// Keeps the first error.
    #[cold]
    pub(crate) fn fault(&self, error: Error) {
        self.storage.fault(error);
    }

    #[cold]
    fn poisoned(&self) -> Var<'_, T> {
        use crate::float::Float;
        self.constant(T::constant(T::Primal::NAN))
    }

    pub(crate) fn gradient_at(&self, node: u32) -> T {
        self.storage.gradient(node)
    }

    /// The nodes that node `node` was computed from.
    pub(crate) fn parents_of(&self, node: u32) -> Vec<u32> {
        self.storage.arguments_of(node as usize).0
    }

    /// The derivatives of node `node` by each of those.
    pub(crate) fn partials_of(&self, node: u32) -> Vec<T> {
        self.storage.arguments_of(node as usize).1
    }

    pub(crate) fn id_of(&self, node: u32) -> NodeId {
        NodeId {
            identity: self.identity,
            moment: self.history.moment,
            node,
        }
    }

    /// The position of a node that is still there, as are the `count` nodes from it on.
    fn locate(&self, id: NodeId, count: usize) -> Result<usize, Error> {
        let position = id.node as usize;
        if id.identity != self.identity {
            return Err(Error::ForeignTape { what: "node" });
        }
        let (end, len) = (position.saturating_add(count), self.storage.nodes());
        // A rewind may have left the first of several nodes and put others behind it.
        let kept = |nodes| self.history.unchanged_since(id.moment, nodes);
        if kept(position + 1) && end > len {
            Err(Error::NoSuchNode { end, len })
        } else if kept(end.max(position + 1)) {
            Ok(position)
        } else {
            Err(Error::Rewound {
                what: "node",
                position,
            })
        }
    }
}
