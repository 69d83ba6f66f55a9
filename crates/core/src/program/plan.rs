//! The way back through a program: which instructions it takes, and where each gradient waits.

use crate::program::code::Code;
use crate::program::op::{Instruction, Op, Shape};

/// The slot of what has no gradient.
pub(super) const NONE: u32 = u32::MAX;

/// An argument or a result of an op on many, and the slot of its gradient.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Its position among the arguments, or among the results.
    pub(super) position: u32,
    pub(super) slot: u32,
}

/// One instruction on the way back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) instruction: Instruction,
    /// The place of the (first) result.
    pub(super) result: u32,
    /// The slot of the gradient of the first result that has one.
    pub(super) gradient: u32,
    /// The slots of the arguments' gradients or [`NONE`]; of an op on many the start of its links, the number of links to
    /// arguments, and that of links to results, which follow.
    pub(super) slots: [u32; 3],
}

impl Step {
    /// The links to arguments and those to results.
    #[inline(always)]
    pub(super) fn links<'a>(&self, links: &'a [Link]) -> (&'a [Link], &'a [Link]) {
        let [start, arguments, results] = self.slots.map(|x| x as usize);
        links[start..start + arguments + results].split_at(arguments)
    }
}

/// Steps from the last to the first. A slot holds the gradient of one value after another: it is taken at the first use met on
/// the way, which is the value's last, and given back at the value's own instruction. Slots are zero before a pass and after.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    pub(super) links: Vec<Link>,
    /// The outputs that depend on the inputs wanted, and where their gradients start from.
    pub(super) seeds: Vec<Link>,
    /// Per input wanted, where its gradient ends up, or [`NONE`].
    pub(super) ends: Vec<u32>,
    /// The number of slots.
    pub(super) slots: usize,
}

impl Plan {
    /// The way back from the outputs to the inputs `wanted`, which are there.
    pub(super) fn new<F: crate::Float>(code: &Code<F>, wanted: &[usize]) -> Self {
        Planner::new(code, wanted).plan(code, wanted)
    }
}

/// Slots while they are given out.
struct Planner {
    /// Per value, whether it depends on an input wanted.
    active: Vec<bool>,
    /// Per value, its slot.
    slots: Vec<u32>,
    free: Vec<u32>,
    count: u32,
}

impl Planner {
    fn new<F: crate::Float>(code: &Code<F>, wanted: &[usize]) -> Self {
        let mut active = vec![false; code.values];
        for &input in wanted {
            active[input] = true;
        }
        let mut result = code.first_result();
        for instruction in &code.instructions {
            let arguments = instruction.arguments(&code.arguments);
            let depends = arguments.iter().enumerate().any(|(position, &argument)| {
                active[argument as usize] && instruction.op.has_partial(position)
            });
            let end = result + instruction.results();
            active[result..end].fill(depends);
            result = end;
        }
        Self {
            active,
            slots: vec![NONE; code.values],
            free: Vec::new(),
            count: 0,
        }
    }

    /// The slot of a value that a gradient is on its way to.
    fn take(&mut self, value: u32) -> u32 {
        let value = value as usize;
        if self.active[value] && self.slots[value] == NONE {
            self.slots[value] = self.free.pop().unwrap_or_else(|| {
                self.count += 1;
                self.count - 1
            });
        }
        self.slots[value]
    }

    /// Gives the slot of a value back, if it has one.
    fn give_back(&mut self, value: usize) {
        if self.slots[value] != NONE {
            self.free.push(self.slots[value]);
        }
    }

    fn take_all(&mut self, op: Op, arguments: &[u32]) -> impl Iterator<Item = Link> {
        (0..).zip(arguments).filter_map(move |(position, &value)| {
            let slot = if op.has_partial(position) {
                self.take(value)
            } else {
                NONE
            };
            (slot != NONE).then_some(Link {
                position: position as u32,
                slot,
            })
        })
    }

    fn plan<F: crate::Float>(mut self, code: &Code<F>, wanted: &[usize]) -> Plan {
        let seeds = self.take_all(Op::sum, &code.outputs).collect();
        let (mut steps, mut links) = (Vec::new(), Vec::new());
        let mut end = code.values;
        for instruction in code.instructions.iter().rev() {
            let results = end - instruction.results()..end;
            end = results.start;
            if self.slots[results.clone()].iter().any(|&slot| slot != NONE) {
                let step = self.step(code, *instruction, results, &mut links);
                steps.push(step);
            }
        }
        Plan {
            steps,
            links,
            seeds,
            ends: wanted.iter().map(|&input| self.slots[input]).collect(),
            slots: self.count as usize,
        }
    }

    fn step<F: crate::Float>(
        &mut self,
        code: &Code<F>,
        instruction: Instruction,
        results: std::ops::Range<usize>,
        links: &mut Vec<Link>,
    ) -> Step {
        let gradients: Vec<u32> = self.slots[results.clone()].to_vec();
        // A step reads the gradients of its results before it writes those of its arguments.
        results.clone().for_each(|value| self.give_back(value));
        let start = links.len() as u32;
        let arguments = instruction.arguments(&code.arguments);
        let mut slots = [NONE; 3];
        for link in self.take_all(instruction.op, arguments) {
            match instruction.op.shape() {
                Shape::Fixed(_) => slots[link.position as usize] = link.slot,
                Shape::Many => links.push(link),
            }
        }
        if instruction.op.shape() == Shape::Many {
            let to_arguments = links.len() as u32 - start;
            if instruction.op == Op::softmax {
                let live = (0..).zip(&gradients).filter(|&(_, &slot)| slot != NONE);
                links.extend(live.map(|(position, &slot)| Link { position, slot }));
            }
            slots = [
                start,
                to_arguments,
                links.len() as u32 - start - to_arguments,
            ];
        }
        Step {
            instruction,
            result: results.start as u32,
            gradient: gradients
                .into_iter()
                .find(|&slot| slot != NONE)
                .unwrap_or(NONE),
            slots,
        }
    }
}
