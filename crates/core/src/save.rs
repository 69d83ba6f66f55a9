//! Numbers in files: values and gradients, written as a whole and checked when read.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::atomic_file::{self, Durability};
use crate::checksum::{self, checksum};
use crate::error::Error;
use crate::float::Float;
use crate::tape::Tape;
use crate::var::Var;

const MAGIC: [u8; 8] = *b"BTNUMS\r\n";
const VERSION: u32 = 1;
const HEADER: usize = 24;
const CHECKSUM: usize = 8;

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// Writes numbers to a file, from which [`load_numbers`] reads them back with the same bits.
///
/// The file is written beside `path` and then renamed, so whoever reads `path` finds the old contents or the new ones. With
/// [`Durability::Durable`] that holds through a power failure too.
///
/// The layout, all little-endian:
///
/// | bytes | contents |
/// |---|---|
/// | 8 | `BTNUMS\r\n` |
/// | 4 | version of the format: 1 |
/// | 4 | type of the numbers: `f32` or `f64`, then a byte of 0 |
/// | 8 | count of the numbers |
/// | 4 or 8 each | the numbers |
/// | 8 | [FNV-1a](http://www.isthe.com/chongo/tech/comp/fnv/) checksum, 64 bits, of all that |
///
/// ```
/// use burtorch_core::{Durability, Tape, load_numbers, save_numbers};
///
/// let path = std::env::temp_dir().join(format!("weights-{}.numbers", std::process::id()));
/// save_numbers(&path, &[0.5, -1.25], Durability::Plain)?;
/// let tape = Tape::new();
/// let weights = tape.vars(&load_numbers::<f64>(&path)?);
/// assert_eq!(weights[1].value(), -1.25);
/// # std::fs::remove_file(&path).ok();
/// # Ok::<(), burtorch_core::Error>(())
/// ```
///
/// # Errors
///
/// [`Error::Io`]; the old file is then still there.
pub fn save_numbers<T: Float>(
    path: impl AsRef<Path>,
    numbers: &[T],
    durability: Durability,
) -> Result<(), Error> {
    let path = path.as_ref();
    atomic_file::write(path, &encoded(numbers), durability).map_err(|error| Error::io(path, &error))
}

/// Writes the values of these variables to a file, as [`save_numbers`] does.
///
/// A tape itself holds no values, its handles do; [`Graph::values`](crate::graph::Graph::values) are those of a whole graph.
///
/// # Errors
///
/// As there.
pub fn save_values<T: Float>(
    path: impl AsRef<Path>,
    variables: &[Var<'_, T>],
    durability: Durability,
) -> Result<(), Error> {
    let values: Vec<T> = variables.iter().map(|x| x.value()).collect();
    save_numbers(path, &values, durability)
}

/// Writes the gradients of these variables to a file, as [`save_numbers`] does.
///
/// # Errors
///
/// As there, and as [`Var::grad`].
pub fn save_gradients<T: Float>(
    path: impl AsRef<Path>,
    variables: &[Var<'_, T>],
    durability: Durability,
) -> Result<(), Error> {
    let gradients: Vec<T> = variables
        .iter()
        .map(|x| x.grad())
        .collect::<Result<_, _>>()?;
    save_numbers(path, &gradients, durability)
}

impl<T: Float> Tape<T> {
    /// Writes the gradients of all nodes to a file, in the order of recording, as [`save_numbers`] does.
    ///
    /// # Errors
    ///
    /// As there; the tape's error if recording failed.
    pub fn save_gradients(
        &self,
        path: impl AsRef<Path>,
        durability: Durability,
    ) -> Result<(), Error> {
        save_numbers(path, &self.grads()?, durability)
    }

    /// Sets the gradients of all nodes to those in a file that [`save_gradients`](Self::save_gradients) wrote for a tape with as many nodes.
    ///
    /// # Errors
    ///
    /// As [`load_numbers`]; [`Error::BadFile`] if there are not as many gradients as nodes; the tape's error if recording failed. Then
    /// no gradient changes.
    pub fn load_gradients(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let gradients = load_numbers(path)?;
        expect(path, "a count of", self.len(), gradients.len(), |n| {
            n.to_string()
        })?;
        self.set_grads(&gradients)
    }
}

/// Reads the numbers of a file that [`save_numbers`] wrote.
///
/// Every field is checked before memory is asked for, so that a damaged or foreign file cannot ask for more than it holds.
///
/// # Errors
///
/// [`Error::Io`] if the file cannot be read, [`Error::BadFile`] if it holds something else: another kind of file or version, the other
/// type of number, too few or too many bytes, or a checksum that does not fit.
pub fn load_numbers<T: Float>(path: impl AsRef<Path>) -> Result<Vec<T>, Error> {
    let path = path.as_ref();
    let io = |error| Error::io(path, &error);
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length < (HEADER + CHECKSUM) as u64 {
        return Err(Error::BadFile {
            path: path.to_owned(),
            what: "a size in bytes of",
            expected: format!("at least {}", HEADER + CHECKSUM),
            found: length.to_string(),
        });
    }
    let mut header = [0; HEADER];
    file.read_exact(&mut header).map_err(io)?;
    let count = count_in::<T>(path, &header, length)?;
    let (numbers, expected) = body(&mut file, &header, count).map_err(io)?;
    let mut stored = [0; CHECKSUM];
    file.read_exact(&mut stored).map_err(io)?;
    let found = u64::from_le_bytes(stored);
    expect(path, "the checksum", expected, found, |sum| {
        format!("{sum:016x}")
    })?;
    Ok(numbers)
}

/// The numbers after the header, and the checksum of the header and them.
fn body<T: Float>(file: &mut File, header: &[u8], count: usize) -> std::io::Result<(Vec<T>, u64)> {
    let mut numbers = Vec::new();
    numbers.try_reserve_exact(count)?;
    let size = size_of::<T>();
    let mut sum = checksum(header);
    let mut piece = vec![0; PIECE.min(count * size)];
    while numbers.len() < count {
        let piece = &mut piece[..PIECE.min((count - numbers.len()) * size)];
        file.read_exact(piece)?;
        sum = checksum::extended(sum, piece);
        numbers.extend(piece.chunks_exact(size).map(T::from_bytes));
    }
    Ok((numbers, sum))
}

/// The count in a header that is as it must be for a file of this length.
fn count_in<T: Float>(path: &Path, header: &[u8; HEADER], length: u64) -> Result<usize, Error> {
    let escaped = |bytes: &[u8]| format!("\"{}\"", bytes.escape_ascii());
    expect(
        path,
        "a file that begins with",
        &MAGIC[..],
        &header[..8],
        escaped,
    )?;
    let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    expect(path, "version", VERSION, version, |v| v.to_string())?;
    expect(
        path,
        "numbers of type",
        &type_name::<T>()[..],
        &header[12..16],
        escaped,
    )?;
    let count = u64::from_le_bytes(std::array::from_fn(|i| header[16 + i]));
    // The count is compared with what the length leaves room for, as the length it asks for need not be a number.
    let room = (length - (HEADER + CHECKSUM) as u64) / size_of::<T>() as u64;
    expect(path, "a count of", room, count, |n| n.to_string())?;
    let whole = (HEADER + CHECKSUM) as u64 + room * size_of::<T>() as u64;
    expect(path, "a size in bytes of", whole, length, |n| n.to_string())?;
    usize::try_from(count).map_err(|_| Error::io(path, &std::io::ErrorKind::OutOfMemory.into()))
}

fn expect<X: PartialEq>(
    path: &Path,
    what: &'static str,
    expected: X,
    found: X,
    shown: impl Fn(X) -> String,
) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::BadFile {
        path: path.to_owned(),
        what,
        expected: shown(expected),
        found: shown(found),
    })
}

/// `f32` or `f64` in four bytes.
fn type_name<T: Float>() -> [u8; 4] {
    let mut name = [0; 4];
    name.iter_mut()
        .zip(T::NAME.bytes())
        .for_each(|(to, from)| *to = from);
    name
}

fn encoded<T: Float>(numbers: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + size_of_val(numbers) + CHECKSUM);
    bytes.extend(MAGIC);
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(type_name::<T>());
    bytes.extend((numbers.len() as u64).to_le_bytes());
    for number in numbers {
        number.append_bytes(&mut bytes);
    }
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}
