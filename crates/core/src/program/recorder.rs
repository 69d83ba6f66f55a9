//! From a closure to a program: equal results are recorded once, results of constants are computed at once, and what no output
//! needs is left out.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::error::Error;
use crate::float::Float;
use crate::program::code::Code;
use crate::program::op::{Instruction, Op, Shape};

/// The most values a program can have, so that places fit into 32 bits and one number is left over.
pub(super) const MOST: usize = u32::MAX as usize - 1;

/// What a program is recorded into. Its [`Symbol`](super::Symbol)s refer to it.
#[derive(Debug)]
pub(super) struct Recorder<F>(RefCell<Draft<F>>);

/// A value while it is recorded.
#[derive(Clone, Copy, Debug)]
enum Source<F> {
    Input,
    Constant(F),
    /// The result of this instruction.
    Result(u32),
}

#[derive(Debug)]
struct Draft<F> {
    inputs: usize,
    /// The most values there may be.
    limit: usize,
    values: Vec<Source<F>>,
    instructions: Vec<Instruction>,
    /// Per instruction, its first result.
    first_results: Vec<u32>,
    arguments: Vec<u32>,
    constants: HashMap<u64, u32>,
    /// Per op and arguments, the first result.
    known: HashMap<Box<[u32]>, u32>,
    fault: Option<Error>,
}

impl<F: Float> Recorder<F> {
    /// A recorder with its inputs, which are values 0 to `inputs` − 1.
    pub(super) fn new(inputs: usize, limit: usize) -> Result<Self, Error> {
        if inputs > limit {
            return Err(full(limit));
        }
        let mut values = Vec::new();
        let room = values.try_reserve_exact(inputs);
        room.map_err(|_| Error::OutOfMemory {
            nodes: inputs,
            arguments: 0,
        })?;
        values.resize(inputs, Source::Input);
        Ok(Self(RefCell::new(Draft {
            inputs,
            limit,
            values,
            instructions: Vec::new(),
            first_results: Vec::new(),
            arguments: Vec::new(),
            constants: HashMap::new(),
            known: HashMap::new(),
            fault: None,
        })))
    }

    /// Keeps the first error.
    #[cold]
    pub(super) fn fault(&self, error: Error) {
        self.0.borrow_mut().fault.get_or_insert(error);
    }

    /// The value that is always `c`.
    pub(super) fn constant(&self, c: F) -> Option<u32> {
        self.0.borrow_mut().constant(c)
    }

    /// The first result of `op` on values; `exponent` is that of `powi`. None if the program is full, which is then its error.
    pub(super) fn result(&self, op: Op, arguments: &[u32], exponent: i32) -> Option<u32> {
        self.0.borrow_mut().result(op, arguments, exponent)
    }

    /// The program that computes `outputs`.
    pub(super) fn finish(self, outputs: &[u32]) -> Result<Code<F>, Error> {
        let draft = self.0.into_inner();
        match draft.fault {
            Some(error) => Err(error),
            None => Ok(draft.finish(outputs)),
        }
    }
}

fn full(limit: usize) -> Error {
    Error::ProgramFull { limit }
}

impl<F: Float> Draft<F> {
    /// Adds `count` values, unless there is no room.
    fn push(&mut self, source: Source<F>, count: usize) -> Option<u32> {
        let first = self.values.len();
        if count > self.limit - first || self.arguments.len() > MOST {
            self.fault.get_or_insert(full(self.limit));
            return None;
        }
        self.values.resize(first + count, source);
        Some(first as u32)
    }

    fn constant(&mut self, c: F) -> Option<u32> {
        // All numbers of 32 bits are also numbers of 64 bits.
        let bits = c.to_f64().to_bits();
        if let Some(&value) = self.constants.get(&bits) {
            return Some(value);
        }
        let value = self.push(Source::Constant(c), 1)?;
        self.constants.insert(bits, value);
        Some(value)
    }

    fn is_one(&self, value: u32) -> bool {
        matches!(self.values[value as usize], Source::Constant(c) if c == F::ONE)
    }

    /// The argument that is the result, bit for bit and with its derivatives, whatever the arguments are.
    /// (x + 0 is not among these: it turns −0 into 0.)
    fn identity(&self, op: Op, arguments: &[u32]) -> Option<u32> {
        match (op, arguments) {
            (Op::mul | Op::div, &[x, one]) if self.is_one(one) => Some(x),
            (Op::mul, &[one, x]) if self.is_one(one) => Some(x),
            (Op::neg, &[x]) => self.negated(x),
            (Op::select, &[_, a, b]) if a == b => Some(a),
            _ => None,
        }
    }

    /// x, if `value` is −x.
    fn negated(&self, value: u32) -> Option<u32> {
        let Source::Result(instruction) = self.values[value as usize] else {
            return None;
        };
        let instruction = self.instructions[instruction as usize];
        (instruction.op == Op::neg).then_some(instruction.operands[0])
    }

    fn result(&mut self, op: Op, arguments: &[u32], exponent: i32) -> Option<u32> {
        if let Some(same) = self.identity(op, arguments) {
            return Some(same);
        }
        let key = key(op, arguments, exponent);
        if let Some(&value) = self.known.get(&key) {
            return Some(value);
        }
        let operands = match op.shape() {
            Shape::Many => [self.arguments.len() as u32, arguments.len() as u32, 0],
            // Addition and multiplication may exchange their arguments; the key has them in order.
            Shape::Fixed(_) => [1, 2, 3].map(|i| key.get(i).copied().unwrap_or(0)),
        };
        let instruction = Instruction { op, operands };
        let source = Source::Result(self.instructions.len() as u32);
        let first = self.push(source, instruction.results())?;
        if op.shape() == Shape::Many {
            self.arguments.extend_from_slice(arguments);
        }
        self.instructions.push(instruction);
        self.first_results.push(first);
        self.known.insert(key, first);
        Some(first)
    }

    /// Which values and which instructions the outputs need.
    fn needed(&self, outputs: &[u32]) -> (Vec<bool>, Vec<bool>) {
        let mut values = vec![false; self.values.len()];
        for &output in outputs {
            values[output as usize] = true;
        }
        let mut instructions = vec![false; self.instructions.len()];
        for (i, instruction) in self.instructions.iter().enumerate().rev() {
            let first = self.first_results[i] as usize;
            instructions[i] = values[first..first + instruction.results()].contains(&true);
            if instructions[i] {
                for &argument in instruction.arguments(&self.arguments) {
                    values[argument as usize] = true;
                }
            }
        }
        (values, instructions)
    }

    fn finish(self, outputs: &[u32]) -> Code<F> {
        let (needed, kept) = self.needed(outputs);
        let mut places = vec![u32::MAX; self.values.len()];
        let mut constants = Vec::new();
        for (value, source) in self.values.iter().enumerate() {
            match source {
                Source::Input => places[value] = value as u32,
                Source::Constant(c) if needed[value] => {
                    places[value] = (self.inputs + constants.len()) as u32;
                    constants.push(*c);
                }
                _ => {}
            }
        }
        let mut code = Code::new(self.inputs, constants);
        for i in (0..kept.len()).filter(|&i| kept[i]) {
            let mut instruction = self.instructions[i];
            let arguments = instruction.arguments(&self.arguments);
            let moved: Vec<u32> = arguments.iter().map(|&x| places[x as usize]).collect();
            match instruction.op.shape() {
                Shape::Fixed(count) => instruction.operands[..count].copy_from_slice(&moved),
                Shape::Many => {
                    instruction.operands[0] = code.arguments.len() as u32;
                    code.arguments.extend(moved);
                }
            }
            for result in 0..instruction.results() {
                places[self.first_results[i] as usize + result] = (code.values + result) as u32;
            }
            code.push(instruction);
        }
        code.outputs = outputs.iter().map(|&x| places[x as usize]).collect();
        code
    }
}

/// What tells results apart: the op and its arguments.
fn key(op: Op, arguments: &[u32], exponent: i32) -> Box<[u32]> {
    let mut key = Vec::with_capacity(arguments.len() + 2);
    key.push(op as u32);
    key.extend_from_slice(arguments);
    if matches!(op, Op::add | Op::mul) {
        key[1..].sort_unstable();
    }
    if op == Op::powi {
        key.push(exponent as u32);
    }
    key.into_boxed_slice()
}
