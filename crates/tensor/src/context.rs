//! What may change from one run of a graph to the next while the graph itself stays: integers, mask key, mode.

use crate::{Error, Result};

/// A run of integers (token ids, targets) in the [`Context`] of a pass. Ops store this handle instead of the integers, so
/// that the same op serves every batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Indices {
    start: usize,
    len: usize,
}

impl Indices {
    /// The integers `start..start + len` of the context.
    #[must_use]
    pub fn new(start: usize, len: usize) -> Self {
        Indices { start, len }
    }

    /// How many integers these are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The inputs of one pass that are no tensors.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context<'a> {
    /// The integers that [`Indices`] point into.
    pub indices: &'a [u32],
    /// Key of the random masks of this pass: derived from the user's seed, the step and the micro-batch.
    pub key: u64,
    /// Whether dropout is active.
    pub training: bool,
    /// Whether to look at every result for NaN and infinities and stop at the first op that produced one. Slow.
    pub find_non_finite: bool,
}

impl<'a> Context<'a> {
    /// The integers behind a handle.
    ///
    /// # Errors
    /// [`Error::Length`] if the handle reaches past the context's integers.
    pub fn get(&self, op: &'static str, indices: Indices) -> Result<&'a [u32]> {
        let end = indices.start.saturating_add(indices.len);
        self.indices
            .get(indices.start..end)
            .ok_or_else(|| Error::Length {
                what: format!("{op}: indices in the context"),
                expected: end,
                found: self.indices.len(),
            })
    }

    /// The integers behind a handle that [`Context::get`] accepted before.
    ///
    /// # Panics
    /// If it did not: kernels run only after the shape rule checked their handles.
    #[must_use]
    pub fn checked(&self, indices: Indices) -> &'a [u32] {
        &self.indices[indices.start..indices.start + indices.len]
    }
}
