//! Nodes and arguments as they lie in memory, and the loop back through them.

use crate::error::Error;
use crate::ops::constant;
use crate::scalar::Scalar;

/// The most nodes and the most arguments a tape can hold, so that positions and ends fit into 32 bits.
const MOST: usize = u32::MAX as usize - 1;

/// Two stacks. A node is an end in the stack of arguments; it begins where the node before it ends.
pub(super) struct Storage<T> {
    /// Per node, one past its last argument. Node 0 stands for all constants.
    ends: Vec<u32>,
    /// Per argument, the node it is; always an earlier one.
    parents: Vec<u32>,
    /// Per argument, the derivative with respect to it.
    partials: Vec<T>,
    /// The most nodes there may be, node 0 among them.
    limit: usize,
    /// The first thing that went wrong in recording.
    pub(super) fault: Option<Error>,
}

impl<T: Scalar> Storage<T> {
    pub(super) fn new(max_nodes: usize) -> Self {
        let limit = max_nodes.min(MOST - 1) + 1;
        Self {
            ends: vec![0],
            parents: Vec::new(),
            partials: Vec::new(),
            limit,
            fault: None,
        }
    }

    pub(super) fn nodes(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn arguments(&self) -> usize {
        self.parents.len()
    }

    pub(super) fn bytes(&self) -> usize {
        (self.ends.capacity() + self.parents.capacity()) * size_of::<u32>()
            + self.partials.capacity() * size_of::<T>()
    }

    pub(super) fn parents_of(&self, node: usize) -> &[u32] {
        let start = node.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.parents[start as usize..self.ends[node] as usize]
    }

    pub(super) fn partials_of(&self, node: usize) -> &[T] {
        let end = self.ends[node] as usize;
        &self.partials[end - self.parents_of(node).len()..end]
    }

    pub(super) fn reserve(&mut self, nodes: usize, arguments: usize) -> Result<(), Error> {
        if nodes >= self.limit {
            return Err(Error::TapeFull {
                what: "nodes",
                limit: self.limit - 1,
            });
        }
        if arguments > MOST {
            return Err(Error::TapeFull {
                what: "arguments",
                limit: MOST,
            });
        }
        self.ends
            .try_reserve(nodes)
            .and_then(|()| self.parents.try_reserve(arguments))
            .and_then(|()| self.partials.try_reserve(arguments))
            .map_err(|_| Error::OutOfMemory { nodes, arguments })
    }

    pub(super) fn truncate(&mut self, nodes: usize) {
        self.ends.truncate(nodes);
        let arguments = self.ends.last().map_or(0, |&end| end as usize);
        self.parents.truncate(arguments);
        self.partials.truncate(arguments);
    }

    /// Whether one more node with so many arguments fits; if not, the tape is faulty from now on.
    #[inline]
    fn has_room(&mut self, arguments: usize) -> bool {
        let fits = self.nodes() < self.limit && self.arguments() + arguments <= MOST;
        if !fits {
            self.overflow();
        }
        fits
    }

    #[cold]
    fn overflow(&mut self) {
        let (what, limit) = if self.nodes() < self.limit {
            ("arguments", MOST)
        } else {
            ("nodes", self.limit - 1)
        };
        self.fault.get_or_insert(Error::TapeFull { what, limit });
    }

    /// Ends the node whose arguments have been pushed.
    #[inline]
    fn close(&mut self) -> u32 {
        let node = self.ends.len() as u32;
        self.ends.push(self.parents.len() as u32);
        node
    }

    #[inline]
    pub(super) fn record<const N: usize>(&mut self, arguments: [(u32, T); N]) -> Option<u32> {
        if !self.has_room(N) {
            return None;
        }
        for (parent, partial) in arguments {
            self.parents.push(parent);
            self.partials.push(partial);
        }
        Some(self.close())
    }

    /// As [`record`](Self::record), with the partial derivatives written by `fill` and then multiplied by the slopes.
    #[inline]
    pub(super) fn record_many(
        &mut self,
        inputs: impl Iterator<Item = (u32, T)> + Clone,
        fill: impl FnOnce(&mut [T]),
    ) -> Option<u32> {
        let (start, count) = (self.arguments(), inputs.clone().count());
        if !self.has_room(count) {
            return None;
        }
        self.parents
            .extend(inputs.clone().map(|(parent, _)| parent));
        self.partials.resize(start + count, constant(0.0));
        let partials = &mut self.partials[start..];
        fill(partials);
        for (partial, (_, slope)) in partials.iter_mut().zip(inputs) {
            *partial = slope.chain(*partial);
        }
        Some(self.close())
    }

    /// Passes the adjoints of the nodes up to `last` on to their arguments, adds them to `gathered`, and leaves them zero.
    pub(super) fn sweep(&self, last: usize, adjoints: &mut [T], gathered: &mut [T]) {
        let zero = constant(0.0);
        let mut end = self.ends[last] as usize;
        for node in (1..=last).rev() {
            let start = self.ends[node - 1] as usize;
            let adjoint = std::mem::replace(&mut adjoints[node], zero);
            if !adjoint.is_zero() {
                gathered[node] += adjoint;
                for (&parent, &partial) in self.parents[start..end]
                    .iter()
                    .zip(&self.partials[start..end])
                {
                    // Not a mere product: some of the numbers in the adjoint may be zero.
                    adjoints[parent as usize] += partial.chain(adjoint);
                }
            }
            end = start;
        }
        adjoints[0] = zero;
    }
}
