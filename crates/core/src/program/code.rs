//! What a program consists of.

use crate::float::Float;
use crate::program::op::Instruction;

/// Instructions over values, which are known by their places: first the inputs, then the constants, then the results of the
/// instructions in their order. Arguments lie before results.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Code<F> {
    pub(super) inputs: usize,
    pub(super) constants: Vec<F>,
    pub(super) instructions: Vec<Instruction>,
    /// The arguments of ops on many.
    pub(super) arguments: Vec<u32>,
    pub(super) outputs: Vec<u32>,
    /// The number of values.
    pub(super) values: usize,
    /// The number of slopes that are kept.
    pub(super) slopes: usize,
    /// The most arguments that an op on many has.
    pub(super) widest: usize,
}

impl<F: Float> Code<F> {
    /// Code without instructions and outputs.
    pub(super) fn new(inputs: usize, constants: Vec<F>) -> Self {
        Self {
            inputs,
            values: inputs + constants.len(),
            constants,
            instructions: Vec::new(),
            arguments: Vec::new(),
            outputs: Vec::new(),
            slopes: 0,
            widest: 0,
        }
    }

    /// Adds an instruction, whose arguments are there.
    pub(super) fn push(&mut self, mut instruction: Instruction) {
        if instruction.op.keeps_slope() {
            instruction.operands[1] = self.slopes as u32;
            self.slopes += 1;
        }
        self.values += instruction.results();
        self.widest = self
            .widest
            .max(instruction.arguments(&self.arguments).len());
        self.instructions.push(instruction);
    }

    /// The place of the first result.
    pub(super) fn first_result(&self) -> usize {
        self.inputs + self.constants.len()
    }

    /// Per input, whether an instruction or an output uses it.
    pub(super) fn used_inputs(&self) -> Vec<bool> {
        let mut used = vec![false; self.inputs];
        let arguments = self
            .instructions
            .iter()
            .flat_map(|instruction| instruction.arguments(&self.arguments));
        for &place in arguments.chain(&self.outputs) {
            if let Some(used) = used.get_mut(place as usize) {
                *used = true;
            }
        }
        used
    }
}
