//! The nodes of a tape of fixed size, and the way back through them, written so that it can dissolve into straight-line code.

use std::cell::{Cell, RefCell};

use super::CONSTANT;
use crate::error::Error;
use crate::ops::constant;
use crate::record::Reduction;
use crate::scalar::Scalar;

/// Nodes whose step back is written out one by one; those beyond are walked in a loop. A compiler turns array elements into
/// registers only where every index is a number it knows, which the counter of a loop is too late.
const WRITTEN_OUT: usize = 64;

/// Calls a macro with the numbers of the nodes whose steps are written out.
macro_rules! written_out {
    ($step:ident) => {
        $step! {
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        }
    };
}

/// What is known per node. Places from the length on hold nothing of meaning.
///
/// The form serves the compiler's limits: it finds what was written to a place only if few writes lie in between. Hence few
/// numbers per node, cells instead of one large cell with its flag, and one word for all that changes with the recording.
pub(super) struct Rows<T, const N: usize> {
    /// The number of nodes, or N + 1 once something went wrong: then nothing more is recorded. In the upper half, how many nodes,
    /// from the first on, have gathered gradients; the others have none yet.
    state: Cell<u64>,
    /// The nodes it depends on, earlier ones; [`CONSTANT`] where there is none.
    parents: Cell<[u64; N]>,
    /// The derivatives with respect to them.
    partials: [Cell<[T; N]>; 2],
    /// During a pass, what is on its way back to the node.
    adjoints: Cell<[T; N]>,
    /// What has been gathered by all passes since the last zeroing.
    gradients: Cell<[T; N]>,
    /// Room for the partial derivatives of one op over many arguments.
    many: RefCell<[T; N]>,
    /// What went wrong, once something has. Running out of places sets nothing here, to be quick.
    fault: Cell<Fault>,
}

/// What can go wrong while recording: an [`Error`] that needs no dropping, or the end of the tape's life would be a place where the
/// compiler has to have it in memory.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    Full,
    Mixed {
        op: &'static str,
    },
    Mismatch {
        op: &'static str,
        expected: usize,
        found: usize,
    },
}

/// Where sums of gradients begin: −0, since x + −0 is x for every x, and needs no addition at run time; x + 0 is not x for −0.
#[inline(always)]
fn nothing<T: Scalar>() -> T {
    constant(-0.0)
}

/// One element of an array in a cell.
#[inline(always)]
fn at<E, const N: usize>(array: &Cell<[E; N]>, index: usize) -> &Cell<E> {
    let slice: &Cell<[E]> = array;
    &slice.as_slice_of_cells()[index]
}

impl<T: Scalar, const N: usize> Rows<T, N> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        const { assert!(N < u32::MAX as usize, "numbers of nodes have 32 bits") };
        let zero = constant::<T>(0.0);
        Self {
            state: Cell::new(0),
            parents: Cell::new([0; N]),
            partials: [Cell::new([zero; N]), Cell::new([zero; N])],
            adjoints: Cell::new([zero; N]),
            gradients: Cell::new([zero; N]),
            many: RefCell::new([zero; N]),
            fault: Cell::new(Fault::Full),
        }
    }

    /// Number of nodes.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        (self.state.get() as u32 as usize).min(N)
    }

    #[inline(always)]
    fn gathered(&self) -> usize {
        (self.state.get() >> 32) as usize
    }

    #[inline(always)]
    fn set(&self, len: usize, gathered: usize) {
        self.state.set(len as u64 | (gathered as u64) << 32);
    }

    #[inline(always)]
    pub(super) fn is_sound(&self) -> bool {
        self.state.get() as u32 as usize <= N
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.set(0, 0);
        self.fault.set(Fault::Full);
    }

    #[cold]
    pub(super) fn error(&self) -> Error {
        match self.fault.get() {
            Fault::Full => Error::TapeFull {
                what: "nodes",
                limit: N,
            },
            Fault::Mixed { op } => Error::MixedTapes { op },
            Fault::Mismatch {
                op,
                expected,
                found,
            } => Error::LengthMismatch {
                op,
                expected,
                found,
            },
        }
    }

    /// Keeps the first fault.
    #[cold]
    pub(super) fn fail(&self, fault: Fault) {
        if self.is_sound() {
            self.fault.set(fault);
        }
        self.set(N + 1, 0);
    }

    #[cold]
    fn overflow(&self) -> Option<u32> {
        self.fail(Fault::Full);
        None
    }

    /// Writes a node behind the last, if there is room.
    #[inline(always)]
    fn push(&self, arguments: [(u32, T); 2]) -> Option<u32> {
        if N == 0 {
            return self.overflow();
        }
        let state = self.state.get();
        let node = state as u32 as usize;
        // Without a branch: behind one, the compiler no longer knows what is in memory. What does not fit goes to the last place,
        // from which nobody reads any more.
        let (fits, place) = (node < N, node.min(N - 1));
        let [(a, to_a), (b, to_b)] = arguments;
        at(&self.parents, place).set(u64::from(a) | u64::from(b) << 32);
        at(&self.partials[0], place).set(to_a);
        at(&self.partials[1], place).set(to_b);
        self.state.set(state + u64::from(node <= N));
        fits.then_some(node as u32)
    }

    /// The arguments of a node.
    #[inline(always)]
    fn arguments(&self, node: usize) -> [(u32, T); 2] {
        let parents = at(&self.parents, node).get();
        [
            (parents as u32, at(&self.partials[0], node).get()),
            ((parents >> 32) as u32, at(&self.partials[1], node).get()),
        ]
    }

    /// Records a node with at most two (parent, partial derivative) pairs.
    #[inline(always)]
    pub(super) fn record<const K: usize>(&self, arguments: [(u32, T); K]) -> Option<u32> {
        const { assert!(K <= 2, "a node has at most two arguments") };
        let none = (CONSTANT, constant(0.0));
        self.push(std::array::from_fn(|i| {
            arguments.get(i).copied().unwrap_or(none)
        }))
    }

    /// Records a chain of nodes with these (parent, slope) pairs for an op over many arguments, and computes its value.
    ///
    /// The last argument comes first, so that on the way back gradients are added in the order of the arguments.
    #[inline(always)]
    pub(super) fn record_many(
        &self,
        inputs: impl DoubleEndedIterator<Item = (u32, T)> + Clone,
        reduction: impl Reduction<T>,
    ) -> Option<(u32, T)> {
        let many = &mut *self.many.borrow_mut();
        let Some(partials) = many.get_mut(..inputs.clone().count()) else {
            self.overflow();
            return None;
        };
        let value = reduction.with_partials(partials);
        for ((_, slope), partial) in inputs.clone().zip(&mut *partials) {
            *partial = slope.chain(*partial);
        }
        let parents = inputs.rev().map(|(parent, _)| parent);
        let mut rest = parents.zip(partials.iter().rev().copied());
        let none = (CONSTANT, constant(0.0));
        let (last, before) = (rest.next().unwrap_or(none), rest.next().unwrap_or(none));
        let node = self.push([before, last])?;
        let node = rest.try_fold(node, |node, argument| {
            self.push([argument, (node, constant(1.0))])
        });
        node.map(|node| (node, value))
    }

    /// Passes on what `seed` adds to the adjoints, from the last node to the first, and adds it to the gradients.
    #[inline(always)]
    pub(super) fn sweep(&self, seed: impl FnOnce(&Self)) {
        let (len, gathered) = (self.len(), self.gathered());
        // Reads the arguments of all nodes before anything is written, first to last; then come the steps, last to first.
        macro_rules! steps {
            () => {
                self.begin(len);
                seed(self);
                if N > WRITTEN_OUT {
                    for node in (WRITTEN_OUT..len).rev() {
                        self.step(node, self.arguments(node), gathered);
                    }
                }
            };
            ($node:literal $($rest:literal)*) => {
                let arguments = if $node < N && $node < len { self.arguments($node) } else { [(CONSTANT, constant(0.0)); 2] };
                steps! { $($rest)* }
                if $node < N && $node < len {
                    self.step($node, arguments, gathered);
                }
            };
        }
        written_out! { steps }
        self.set(len, len);
    }

    /// Nothing is on its way to any node.
    #[inline(always)]
    fn begin(&self, len: usize) {
        macro_rules! begin {
            ($($node:literal)*) => {$(
                if $node < N && $node < len {
                    at(&self.adjoints, $node).set(nothing());
                }
            )*};
        }
        written_out! { begin }
        if N > WRITTEN_OUT {
            for node in WRITTEN_OUT..len {
                at(&self.adjoints, node).set(nothing());
            }
        }
    }

    /// Adds to what is on its way to a node; a constant takes nothing.
    #[inline(always)]
    pub(super) fn seed(&self, node: u32, amount: T) {
        if (node as usize) < self.len() {
            self.add(node as usize, amount);
        }
    }

    #[inline(always)]
    fn add(&self, node: usize, amount: T) {
        let adjoint = at(&self.adjoints, node);
        adjoint.set(adjoint.get() + amount);
    }

    #[inline(always)]
    fn step(&self, node: usize, arguments: [(u32, T); 2], gathered: usize) {
        let adjoint = at(&self.adjoints, node).get();
        let gradient = at(&self.gradients, node);
        gradient.set(if node < gathered {
            gradient.get() + adjoint
        } else {
            adjoint
        });
        for (parent, partial) in arguments {
            if (parent as usize) < node {
                self.add(parent as usize, partial.chain(adjoint));
            }
        }
    }

    /// The gradient of a node: 0, not −0, if there is none.
    #[inline(always)]
    pub(super) fn gradient(&self, node: u32) -> T {
        if (node as usize) < self.gathered().min(N) {
            at(&self.gradients, node as usize).get() + constant::<T>(0.0)
        } else {
            constant(0.0)
        }
    }

    #[inline(always)]
    pub(super) fn zero_gradients(&self) {
        self.set(self.state.get() as u32 as usize, 0);
    }
}
