//! Programs as bytes and as files.
//!
//! All numbers are little-endian:
//!
//! | bytes | contents |
//! |---|---|
//! | 8 | `BTPROG\r\n` |
//! | 4 | version of the format: 1 |
//! | 4 | bytes of a number: 4 for `f32`, 8 for `f64` |
//! | 6 × 8 | numbers of inputs, constants, names, instructions, arguments, outputs |
//! | | the inputs: a byte each, 1 if it is used, else 0 |
//! | 8 each | the constants, as `f64` |
//! | | the names of the ops used: a byte for the length, then the name |
//! | 16 each | the instructions: number of the name, three operands |
//! | 4 each | the arguments of ops on many: places of values |
//! | 4 each | the outputs: places of values |
//! | 8 | FNV-1a checksum of all that |
//!
//! Values are placed as in [`Code`]. Since every input has its byte, no count exceeds the size of the file.

use std::path::Path;

use crate::atomic_file::{self, Durability};
use crate::checksum::checksum;
use crate::error::Error;
use crate::float::Float;
use crate::program::Program;
use crate::program::code::Code;
use crate::program::op::{Instruction, Op, Shape};
use crate::program::recorder::MOST;

const MAGIC: [u8; 8] = *b"BTPROG\r\n";
const VERSION: u32 = 1;
const CHECKSUM: usize = 8;

impl<F: Float> Program<F> {
    /// Writes the program to a file. A kill at any moment leaves the old file or the new one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        atomic_file::write(path, &self.to_bytes(), Durability::Durable)
            .map_err(|error| Error::io(path, &error))
    }

    /// Reads a program from a file that [`save`](Self::save) wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], or as [`from_bytes`](Self::from_bytes).
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::from_bytes(&std::fs::read(path).map_err(|error| Error::io(path, &error))?)
    }

    /// The program as bytes, the same on every machine.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let code = &self.code;
        let (mut names, mut numbers) = (Vec::new(), vec![None; Op::ALL.len()]);
        for instruction in &code.instructions {
            numbers[instruction.op as usize].get_or_insert_with(|| {
                names.push(instruction.op.name());
                names.len() as u32 - 1
            });
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((size_of::<F>() as u32).to_le_bytes());
        for count in [
            code.inputs,
            code.constants.len(),
            names.len(),
            code.instructions.len(),
            code.arguments.len(),
            code.outputs.len(),
        ] {
            bytes.extend((count as u64).to_le_bytes());
        }
        bytes.extend(code.used_inputs().iter().map(|&used| u8::from(used)));
        for &constant in &code.constants {
            bytes.extend(constant.to_f64().to_le_bytes());
        }
        for name in names {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
        }
        for instruction in &code.instructions {
            let number = numbers[instruction.op as usize].unwrap_or(0);
            let mut operands = instruction.operands;
            if instruction.op.keeps_slope() {
                // Given anew on reading.
                operands[1] = 0;
            }
            for word in [number].into_iter().chain(operands) {
                bytes.extend(word.to_le_bytes());
            }
        }
        for word in code.arguments.iter().chain(&code.outputs) {
            bytes.extend(word.to_le_bytes());
        }
        let checksum = checksum(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) made. Everything in it is checked, so that a program that was read can be
    /// evaluated like one that was recorded.
    ///
    /// # Errors
    ///
    /// [`Error::BadProgram`], which says at which byte what was expected and what was found.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader { bytes, at: 0 };
        if reader.bytes(MAGIC.len())? != MAGIC {
            return Err(bad(0, "expected a program, found another kind of file"));
        }
        reader.expect_word("version", VERSION)?;
        reader.expect_word("bytes of a number", size_of::<F>() as u32)?;
        let body = bytes.len().saturating_sub(CHECKSUM);
        let found = Reader { bytes, at: body }.long()?;
        if found != checksum(&bytes[..body]) {
            return Err(bad(body, "the checksum does not match the contents"));
        }
        reader.bytes = &bytes[..body];
        Ok(Self {
            code: reader.code()?.into(),
        })
    }
}

fn bad(offset: usize, problem: impl Into<String>) -> Error {
    Error::BadProgram {
        offset,
        problem: problem.into(),
    }
}

/// Bytes that may be anything.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let rest = &self.bytes[self.at..];
        let found = rest.get(..count).ok_or_else(|| {
            let left = rest.len();
            bad(
                self.at,
                format!("expected {count} more bytes, found {left}"),
            )
        })?;
        self.at += count;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    fn word(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    fn expect_word(&mut self, what: &str, expected: u32) -> Result<(), Error> {
        let (offset, found) = (self.at, self.word()?);
        if found == expected {
            Ok(())
        } else {
            Err(bad(
                offset,
                format!("expected {what} {expected}, found {found}"),
            ))
        }
    }

    /// A count of things that take at least `size` bytes each.
    fn count(&mut self, what: &str, size: usize) -> Result<usize, Error> {
        let (offset, found) = (self.at, self.long()?);
        let most = self.bytes.len() / size;
        match usize::try_from(found) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(bad(
                offset,
                format!("{found} {what} do not fit into the file"),
            )),
        }
    }

    fn words(&mut self, count: usize) -> Result<Vec<u32>, Error> {
        (0..count).map(|_| self.word()).collect()
    }

    fn code<F: Float>(&mut self) -> Result<Code<F>, Error> {
        let inputs = self.count("inputs", 1)?;
        let constants = self.count("constants", 8)?;
        let names = self.count("names", 1)?;
        let instructions = self.count("instructions", 16)?;
        let arguments = self.count("arguments", 4)?;
        let outputs = self.count("outputs", 4)?;
        if inputs + constants + instructions + arguments > MOST {
            return Err(bad(self.at, "there are too many values"));
        }
        let used = self.bytes(inputs)?;
        let constants = (0..constants).map(|_| self.number());
        let mut code = Code::new(inputs, constants.collect::<Result<_, _>>()?);
        let names: Vec<Op> = (0..names).map(|_| self.op()).collect::<Result<_, _>>()?;
        let start = self.at;
        self.bytes(instructions * 16)?;
        code.arguments = self.words(arguments)?;
        let (end, mut run) = (self.at, 0);
        self.at = start;
        for _ in 0..instructions {
            let instruction = self.instruction(&code, &names, run)?;
            if instruction.op.shape() == Shape::Many {
                run = instruction.run().end;
            }
            code.push(instruction);
        }
        self.at = end;
        code.outputs = self.words(outputs)?;
        if let Some(place) = code.outputs.iter().find(|&&x| x as usize >= code.values) {
            let values = code.values;
            return Err(bad(
                end,
                format!("expected an output below {values}, found {place}"),
            ));
        }
        let unread = self.bytes.len() - self.at + code.arguments.len() - run;
        let flags = code.used_inputs().into_iter().map(u8::from);
        if unread != 0 || !flags.eq(used.iter().copied()) {
            return Err(bad(self.at, "the counts do not match the contents"));
        }
        Ok(code)
    }

    fn number<F: Float>(&mut self) -> Result<F, Error> {
        self.array()
            .map(|bytes| F::from_f64(f64::from_le_bytes(bytes)))
    }

    fn op(&mut self) -> Result<Op, Error> {
        let offset = self.at;
        let [length] = self.array()?;
        let name = String::from_utf8_lossy(self.bytes(length.into())?);
        let op = Op::ALL.iter().find(|op| op.name() == name);
        op.copied()
            .ok_or_else(|| bad(offset, format!("there is no op `{}`", name.escape_debug())))
    }

    /// An instruction whose arguments lie before it; one on many has its run of arguments from `run` on.
    fn instruction<F: Float>(
        &mut self,
        code: &Code<F>,
        names: &[Op],
        run: usize,
    ) -> Result<Instruction, Error> {
        let offset = self.at;
        let number = self.word()?;
        let operands = [self.word()?, self.word()?, self.word()?];
        let &op = names.get(number as usize).ok_or_else(|| {
            let count = names.len();
            bad(
                offset,
                format!("expected an op below {count}, found {number}"),
            )
        })?;
        let instruction = Instruction { op, operands };
        let (unused, fits) = match op.shape() {
            Shape::Many => {
                let end = u64::from(operands[0]) + u64::from(operands[1]);
                let fits = operands[0] as usize == run && end <= code.arguments.len() as u64;
                (&operands[2..], fits && op.accepts(operands[1] as usize))
            }
            Shape::Fixed(_) if op == Op::powi => (&operands[2..], true),
            Shape::Fixed(count) => (&operands[count..], true),
        };
        if !fits || unused.iter().any(|&operand| operand != 0) {
            let name = op.name();
            return Err(bad(
                offset,
                format!("`{name}` does not have the operands {operands:?}"),
            ));
        }
        let arguments = instruction.arguments(&code.arguments);
        if let Some(place) = arguments.iter().find(|&&x| x as usize >= code.values) {
            let (name, values) = (op.name(), code.values);
            return Err(bad(
                offset,
                format!("expected an argument of `{name}` below {values}, found {place}"),
            ));
        }
        let constants = code.inputs..code.first_result();
        if op == Op::powf && !constants.contains(&(operands[1] as usize)) {
            return Err(bad(offset, "the exponent of `powf` is not a constant"));
        }
        Ok(instruction)
    }
}

/// Makes the checksum right.
#[cfg(test)]
pub(super) fn repair(bytes: &mut [u8]) {
    let (body, sum) = bytes.split_at_mut(bytes.len() - CHECKSUM);
    sum.copy_from_slice(&checksum(body).to_le_bytes());
}
