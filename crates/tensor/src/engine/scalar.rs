//! The exact engine: every op records its formula on the scalar tape, the granularity of the BurTorch paper.
//!
//! Parameters are recorded once and stay on the tape; each pass rewinds it to behind them. Their handles are made anew for
//! every op that reads them, with the values they have then, so that those of a large model never lie in memory together.

mod pass;

pub use pass::{ScalarPass, ScalarRef};

use std::ops::Range;

use burtorch_core::{Handles, Mark, NodeId, Tape, Var};
use pass::{Applied, Place};

use crate::params::Entry;
use crate::{Context, Element, Params, Result, Workspace};

/// The memory of the scalar engine: a tape that is rewound, not freed, from pass to pass. It does not grow with the number of
/// passes, so pieces of a batch that run one after the other take the memory of one.
pub struct ScalarEngine<T: Element> {
    tape: Tape<T>,
    variables: Option<Variables>,
    memory: Memory<T>,
}

/// The parameters on the tape, in the order of the flat buffer.
struct Variables {
    /// Of each tensor its end in the flat buffer and its first node.
    tensors: Vec<(usize, Option<NodeId>)>,
    /// Behind all of them.
    end: Mark,
}

impl Variables {
    /// The tape with nothing behind these parameters: rewound if they are those `kept`, else another one.
    fn ready<'v, T: Element>(
        kept: &'v mut Option<Self>,
        tape: &mut Tape<T>,
        params: &Params<T>,
    ) -> Result<&'v Self> {
        let entries = params.entries();
        let variables = match kept.take().filter(|kept| kept.are_of(entries)) {
            Some(variables) => {
                tape.rewind(variables.end)?;
                variables
            }
            None => {
                *tape = Tape::with_capacity(params.len(), 0)?;
                Self::record(tape, entries)?
            }
        };
        Ok(kept.insert(variables))
    }

    /// Records variables on an empty tape.
    fn record<T: Element>(tape: &Tape<T>, entries: &[Entry]) -> Result<Self> {
        let mut tensors = Vec::with_capacity(entries.len());
        for Range { start, end } in entries.iter().map(Entry::range) {
            let mut nodes = (start..end).map(|_| tape.var(T::ZERO));
            let first = nodes.next().map(Var::id).transpose()?;
            nodes.for_each(drop);
            tensors.push((end, first));
        }
        tape.check()?;
        Ok(Variables {
            tensors,
            end: tape.mark(),
        })
    }

    /// Whether these are the parameters of such a table.
    fn are_of(&self, entries: &[Entry]) -> bool {
        let ends = entries.iter().map(|entry| entry.range().end);
        ends.eq(self.tensors.iter().map(|&(end, _)| end))
    }
}

/// What a pass writes down, kept for the next one.
struct Memory<T: Element> {
    values: Vec<T>,
    tensors: Vec<Place>,
    /// Of each parameter the tensor it is in this pass.
    bound: Vec<Option<usize>>,
    applied: Vec<Applied>,
    results: Handles<T>,
    inputs: Handles<T>,
    result: Handles<T>,
}

impl<T: Element> Memory<T> {
    fn new() -> Self {
        Memory {
            values: Vec::new(),
            tensors: Vec::new(),
            bound: Vec::new(),
            applied: Vec::new(),
            results: Handles::new(),
            inputs: Handles::new(),
            result: Handles::new(),
        }
    }

    /// Makes it ready for a pass over so many parameters.
    fn clear(&mut self, parameters: usize) {
        self.values.clear();
        self.tensors.clear();
        self.applied.clear();
        self.bound.clear();
        self.bound.resize(parameters, None);
    }

    fn bytes(&self) -> usize {
        let handles = self.results.bytes() + self.inputs.bytes() + self.result.bytes();
        handles
            + self.values.capacity() * size_of::<T>()
            + self.tensors.capacity() * size_of::<Place>()
            + self.bound.capacity() * size_of::<Option<usize>>()
            + self.applied.capacity() * size_of::<Applied>()
    }
}

impl<T: Element> ScalarEngine<T> {
    /// An engine with an empty tape.
    #[must_use]
    pub fn new() -> Self {
        ScalarEngine {
            tape: Tape::new(),
            variables: None,
            memory: Memory::new(),
        }
    }

    /// Bytes held by the tape, by the handles of results and by their values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tape.bytes() + self.memory.bytes()
    }
}

impl<T: Element> Default for ScalarEngine<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Element> Workspace<T> for ScalarEngine<T> {
    type Pass<'a> = ScalarPass<'a, T>;

    fn bind<'a>(&'a mut self, params: &'a Params<T>, context: Context<'a>) -> ScalarPass<'a, T> {
        let variables = Variables::ready(&mut self.variables, &mut self.tape, params);
        self.memory.clear(params.entries().len());
        ScalarPass::new(&self.tape, variables, &mut self.memory, params, context)
    }
}
