//! Files of named f32 tensors in the safetensors format, read with distrust.
//!
//! A file is 8 bytes with the length of a JSON header, the header, and the numbers, little-endian. Reading checks the
//! header against the size of the file and against what is expected before a number is read, so a hostile header can
//! ask for no memory beyond itself. Our own facts are one entry of the format's text table, as JSON; among them is a
//! checksum of all numbers, so that a bit that flips on the disk does not go unnoticed. A file without one is accepted.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use burtorch_data::Fnv1a;
use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::{Error, atomic_file};

/// The entry of the text table that is ours.
const FACTS: &str = "burtorch";

/// A header larger than this is refused: it would describe hundreds of thousands of tensors.
const LARGEST_HEADER: u64 = 16 << 20;

/// Bytes that hold the length of the header.
const LENGTH: u64 = 8;

/// Numbers converted at a time.
const CHUNK: usize = 1 << 14;

/// A tensor to be written.
#[derive(Debug, Clone)]
pub(crate) struct Tensor<'a> {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: &'a [f32],
}

/// Facts with the checksum of the numbers beside them.
#[derive(Serialize)]
struct Sealed<'a, T> {
    #[serde(flatten)]
    facts: &'a T,
    checksum: String,
}

/// The checksum among the facts.
#[derive(Deserialize)]
struct Seal {
    checksum: Option<String>,
}

fn shown(hash: Fnv1a) -> String {
    format!("fnv1a-{:016x}", hash.value())
}

/// Replaces the file at `path`, atomically. The facts are a table.
///
/// Refuses numbers that [`TensorFile::read`] would refuse; the old file is then still there.
pub(crate) fn write(
    path: &Path,
    facts: &impl Serialize,
    tensors: &[Tensor<'_>],
) -> Result<(), Error> {
    let sealed = Sealed {
        facts,
        checksum: shown(checksum(tensors)),
    };
    let facts = serde_json::to_string(&sealed)
        .map_err(|error| Error::file(path, "write the file")(error.into()))?;
    write_with(path, &[(FACTS, &facts)], tensors)
}

/// As [`write()`], with this text table.
pub(crate) fn write_with(
    path: &Path,
    table: &[(&str, &str)],
    tensors: &[Tensor<'_>],
) -> Result<(), Error> {
    for Tensor { name, values, .. } in tensors {
        if let Some(found) = values.iter().find(|value| !value.is_finite()) {
            let expected = format!("finite numbers to save in `{name}`");
            return Err(Error::content(path, expected, found.to_string()));
        }
    }
    let header = header(table, tensors)
        .map_err(|error| Error::file(path, "write the file")(io::Error::other(error)))?;
    atomic_file::replace(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        tensors
            .iter()
            .try_for_each(|tensor| write_numbers(file, tensor.values))
    })
}

fn header(
    table: &[(&str, &str)],
    tensors: &[Tensor<'_>],
) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
    let mut end = 0;
    let info = |tensor: &Tensor<'_>| {
        let start = end;
        end += size_of_val(tensor.values);
        let info = TensorInfo {
            dtype: Dtype::F32,
            shape: tensor.shape.clone(),
            data_offsets: (start, end),
        };
        (tensor.name.clone(), info)
    };
    let infos = tensors.iter().map(info).collect();
    let table = table
        .iter()
        .map(|&(name, text)| (name.to_owned(), text.to_owned()));
    let metadata = Metadata::new(Some(table.collect()), infos).map_err(|e| e.to_string())?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize(header.len().next_multiple_of(LENGTH as usize), b' ');
    Ok(header)
}

/// The hash of all numbers as they stand in the file.
fn checksum(tensors: &[Tensor<'_>]) -> Fnv1a {
    let values = tensors.iter().flat_map(|tensor| tensor.values);
    values.fold(Fnv1a::default(), |hash, value| {
        hash.with(&value.to_le_bytes())
    })
}

fn write_numbers(file: &mut dyn Write, values: &[f32]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(4 * CHUNK);
    for chunk in values.chunks(CHUNK) {
        bytes.clear();
        bytes.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
        file.write_all(&bytes)?;
    }
    Ok(())
}

/// A file whose header has been checked against its size.
#[derive(Debug)]
pub(crate) struct TensorFile {
    path: PathBuf,
    file: File,
    header: Header,
    /// Position of the first number in the file.
    start: u64,
}

impl TensorFile {
    /// Opens a file and checks its header.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let unreadable = |error| Error::file(path, "read the checkpoint")(error);
        let mut file = File::open(path).map_err(unreadable)?;
        let size = file.metadata().map_err(unreadable)?.len();
        if size < LENGTH {
            return Err(Error::content(path, "at least 8 bytes", size.to_string()));
        }
        let mut length = [0; LENGTH as usize];
        file.read_exact(&mut length).map_err(unreadable)?;
        let length = u64::from_le_bytes(length);
        if length > LARGEST_HEADER || length > size - LENGTH {
            let expected = format!(
                "a header of at most {} bytes",
                LARGEST_HEADER.min(size - LENGTH)
            );
            return Err(Error::content(
                path,
                expected,
                format!("{length} bytes announced"),
            ));
        }
        let mut text = vec![0; length as usize];
        file.read_exact(&mut text).map_err(unreadable)?;
        let header: Header = serde_json::from_slice(&text)
            .map_err(|error| Error::content(path, "a safetensors header", error.to_string()))?;
        let this = Self {
            path: path.to_owned(),
            file,
            header,
            start: LENGTH + length,
        };
        this.check_layout(size)?;
        Ok(this)
    }

    /// Every tensor must have as many bytes as its shape says, and all together, in some order, must fill the file.
    fn check_layout(&self, size: u64) -> Result<(), Error> {
        for (name, info) in &self.header.tensors {
            let (begin, end) = info.data_offsets;
            let needed = elements(&info.shape)
                .and_then(|n| n.checked_mul(info.dtype.bitsize()))
                .map(|bits| bits / 8);
            if end.checked_sub(begin) != needed || needed.is_none() {
                let expected = format!(
                    "as many bytes as {} and the shape {:?} need in `{name}`",
                    info.dtype, info.shape
                );
                return Err(self.wrong(expected, format!("the range {begin}..{end}")));
            }
        }
        let mut tensors = self.header.tensors.clone();
        tensors.sort_by_key(|(_, info)| info.data_offsets);
        let metadata = Metadata::new(None, tensors).map_err(|error| {
            self.wrong(
                "tensors that follow one another without gap or overlap",
                error.to_string(),
            )
        })?;
        let expected = (metadata.data_len() as u64).saturating_add(self.start);
        if expected != size {
            return Err(self.wrong(format!("{expected} bytes"), format!("{size} bytes")));
        }
        Ok(())
    }

    /// Numbers in all tensors together.
    pub(crate) fn total(&self) -> u64 {
        self.header
            .tensors
            .iter()
            .map(|(_, info)| elements(&info.shape).unwrap_or(0) as u64)
            .sum()
    }

    /// Refuses the file if its numbers are not those that were written, as far as it says what they were.
    pub(crate) fn check_sum(&mut self) -> Result<(), Error> {
        let Seal { checksum } = self.facts()?;
        let Some(expected) = checksum else {
            return Ok(());
        };
        let hash = self
            .file
            .seek(SeekFrom::Start(self.start))
            .and_then(|_| hash_rest(&mut self.file));
        let found = shown(hash.map_err(Error::file(&self.path, "read the checkpoint"))?);
        match found == expected {
            true => Ok(()),
            false => Err(self.wrong(format!("the checksum {expected} of its numbers"), found)),
        }
    }

    /// Our own facts from the header.
    pub(crate) fn facts<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let Some(text) = self.header.table.get(FACTS) else {
            return Err(self.wrong(format!("the entry {FACTS:?} in the header"), "none"));
        };
        serde_json::from_str(text)
            .map_err(|error| self.wrong("the facts of this program", error.to_string()))
    }

    /// Refuses the file unless it holds exactly these tensors, in any order.
    pub(crate) fn expect(&self, expected: &[(String, Vec<usize>)]) -> Result<(), Error> {
        for (name, shape) in expected {
            let Some(info) = self.info(name) else {
                return Err(self.wrong(
                    format!("the tensor `{name}` of shape {shape:?}"),
                    "no such tensor",
                ));
            };
            if info.dtype != Dtype::F32 {
                return Err(self.wrong(
                    format!("numbers of type F32 in `{name}`"),
                    info.dtype.to_string(),
                ));
            }
            if info.shape != *shape {
                return Err(self.wrong(
                    format!("the shape {shape:?} for `{name}`"),
                    format!("{:?}", info.shape),
                ));
            }
        }
        let known: HashSet<&str> = expected.iter().map(|(name, _)| name.as_str()).collect();
        let unknown = |(name, _): &&(String, TensorInfo)| !known.contains(name.as_str());
        match self.header.tensors.iter().find(unknown) {
            Some((name, info)) => Err(self.wrong(
                format!("{} tensors", expected.len()),
                format!("also `{name}` of shape {:?}", info.shape),
            )),
            None => Ok(()),
        }
    }

    /// The tensors of the file: name and shape.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&str, &[usize])> {
        let tensors = self.header.tensors.iter();
        tensors.map(|(name, info)| (name.as_str(), info.shape.as_slice()))
    }

    /// The shape of a tensor, if there is one of that name.
    pub(crate) fn shape(&self, name: &str) -> Option<&[usize]> {
        self.info(name).map(|info| info.shape.as_slice())
    }

    /// The type of a tensor's numbers, if there is one of that name.
    pub(crate) fn dtype(&self, name: &str) -> Option<Dtype> {
        self.info(name).map(|info| info.dtype)
    }

    /// Reads a tensor that has as many numbers as `values`; those that are not f32 are converted.
    pub(crate) fn read(&mut self, name: &str, values: &mut [f32]) -> Result<(), Error> {
        let Some(TensorInfo {
            dtype,
            data_offsets,
            ..
        }) = self.info(name)
        else {
            return Err(self.wrong(format!("the tensor `{name}`"), "no such tensor"));
        };
        let (dtype, position) = (*dtype, SeekFrom::Start(self.start + data_offsets.0 as u64));
        self.file
            .seek(position)
            .map_err(Error::file(&self.path, "read the checkpoint"))?;
        let file = &mut self.file;
        let read = match dtype {
            Dtype::F32 => read_numbers(file, values, f32::from_le_bytes),
            Dtype::F64 => read_numbers(file, values, |bytes| f64::from_le_bytes(bytes) as f32),
            Dtype::F16 => read_numbers(file, values, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Dtype::BF16 => read_numbers(file, values, |bytes| bf16::from_le_bytes(bytes).to_f32()),
            other => {
                let expected = format!("numbers of type F32, F64, F16 or BF16 in `{name}`");
                return Err(self.wrong(expected, other.to_string()));
            }
        };
        read.map_err(Error::file(&self.path, "read the checkpoint"))?;
        match values.iter().position(|value| !value.is_finite()) {
            Some(place) => Err(self.wrong(
                format!("finite numbers in `{name}`"),
                format!("{} at place {place}", values[place]),
            )),
            None => Ok(()),
        }
    }

    /// An error about the contents of this file.
    pub(crate) fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::content(&self.path, expected, found)
    }

    fn info(&self, name: &str) -> Option<&TensorInfo> {
        let place = *self.header.places.get(name)?;
        self.header.tensors.get(place).map(|(_, info)| info)
    }
}

fn elements(shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1_usize, |product, &size| product.checked_mul(size))
}

/// The hash of everything from here to the end.
fn hash_rest(file: &mut File) -> io::Result<Fnv1a> {
    let mut bytes = vec![0; 4 * CHUNK];
    let mut hash = Fnv1a::default();
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(hash),
            count => hash = hash.with(&bytes[..count]),
        }
    }
}

/// Reads numbers of `N` bytes each.
fn read_numbers<const N: usize>(
    file: &mut File,
    values: &mut [f32],
    number: impl Fn([u8; N]) -> f32,
) -> io::Result<()> {
    let mut bytes = vec![0; N * CHUNK.min(values.len())];
    for chunk in values.chunks_mut(CHUNK) {
        let bytes = &mut bytes[..N * chunk.len()];
        file.read_exact(bytes)?;
        for (value, bytes) in chunk.iter_mut().zip(bytes.as_chunks().0) {
            *value = number(*bytes);
        }
    }
    Ok(())
}

/// The header as it stands in the file; unlike a map it notices a name that comes twice.
#[derive(Debug, Default)]
struct Header {
    table: HashMap<String, String>,
    tensors: Vec<(String, TensorInfo)>,
    /// Where in `tensors` a name is.
    places: HashMap<String, usize>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header::default();
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format_args!("`{name}` twice")));
            }
            match name.as_str() {
                "__metadata__" => header.table = map.next_value()?,
                _ => {
                    header.places.insert(name.clone(), header.tensors.len());
                    header.tensors.push((name, map.next_value()?));
                }
            }
        }
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file with this header and this many bytes of numbers.
    fn raw(header: &str, bytes: usize) -> Vec<u8> {
        [
            &(header.len() as u64).to_le_bytes()[..],
            header.as_bytes(),
            &vec![0; bytes],
        ]
        .concat()
    }

    fn open(contents: &[u8]) -> Result<TensorFile, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        std::fs::write(&path, contents).unwrap();
        TensorFile::open(&path)
    }

    fn expected(shape: &[usize]) -> Vec<(String, Vec<usize>)> {
        vec![("a".into(), shape.to_vec())]
    }

    const GOOD: &str = r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;

    #[test]
    fn comes_back_bit_by_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let values: Vec<f32> = (0..40_000)
            .map(|i| f32::from_bits(0x3F00_0000 + i))
            .collect();
        let tensors = [
            Tensor {
                name: "z".into(),
                shape: vec![200, 200],
                values: &values,
            },
            Tensor {
                name: "a".into(),
                shape: vec![2],
                values: &[-0.0, 1e-40],
            },
        ];
        let facts = HashMap::from([("step".to_owned(), 7)]);
        write(&path, &facts, &tensors).unwrap();
        let first = std::fs::read(&path).unwrap();
        write(&path, &facts, &tensors).unwrap();
        assert_eq!(
            std::fs::read(&path).unwrap(),
            first,
            "the same contents give the same bytes"
        );

        let mut file = TensorFile::open(&path).unwrap();
        let found: HashMap<String, serde_json::Value> = file.facts().unwrap();
        assert_eq!(found["step"], 7);
        assert!(file.check_sum().is_ok());
        assert_eq!(file.total(), 40_002);
        let (mut z, mut a) = (vec![0.0; 40_000], [0.0; 2]);
        file.read("a", &mut a).unwrap();
        file.read("z", &mut z).unwrap();
        assert_eq!(z, values);
        assert_eq!(
            a.map(f32::to_bits),
            [(-0.0_f32).to_bits(), 1e-40_f32.to_bits()]
        );
    }

    #[test]
    fn other_readers_of_the_format_understand_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        write(
            &path,
            &HashMap::from([("step", 1)]),
            &[Tensor {
                name: "a".into(),
                shape: vec![1, 2],
                values: &[1.0, 2.0],
            }],
        )
        .unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(tensors.tensor("a").unwrap().shape(), [1, 2]);
        assert_eq!(
            tensors.tensor("a").unwrap().data(),
            [0, 0, 128, 63, 0, 0, 0, 64]
        );
    }

    #[test]
    fn f35_cut_files_are_refused() {
        let whole = raw(GOOD, 24);
        assert!(open(&whole).is_ok());
        for length in [0, 1, 7, 8, 9, whole.len() / 2, whole.len() - 1] {
            let message = open(&whole[..length]).unwrap_err().to_string();
            assert!(message.contains("x.safetensors: expected"), "{message}");
        }
        assert!(
            open(&[&whole[..], &[0]].concat()).is_err(),
            "one byte too many"
        );
    }

    #[test]
    fn f35_a_missing_file_stays_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        assert!(TensorFile::open(&path).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn f36_hostile_headers_are_refused() {
        for (header, bytes, word) in [
            (
                r#"{"a":{"dtype":"F32","shape":[5],"data_offsets":[0,16]}}"#,
                16,
                "`a`",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
                8,
                "`a`",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}"#,
                0,
                "`a`",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,0]}}"#,
                0,
                "`a`",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
                12,
                "overlap",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#,
                8,
                "`a` twice",
            ),
            (
                r#"{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}"#,
                8,
                "F99",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}"#,
                8,
                "-2",
            ),
            ("[]", 0, "header"),
            (r#"{"a":"#, 0, "header"),
        ] {
            let message = open(&raw(header, bytes)).unwrap_err().to_string();
            assert!(
                message.contains(word) && !message.contains('\n'),
                "{message}"
            );
        }
        for length in [1_u64 << 63, u64::MAX, 1 << 40] {
            let message = open(&[length.to_le_bytes(), [0; 8]].concat())
                .unwrap_err()
                .to_string();
            assert!(message.contains(&length.to_string()), "{message}");
        }
    }

    #[test]
    fn f36_wrong_contents_name_tensor_and_both_values() {
        let file = open(&raw(GOOD, 24)).unwrap();
        assert!(file.expect(&expected(&[2, 3])).is_ok());
        let message = file.expect(&expected(&[3, 2])).unwrap_err().to_string();
        assert!(
            message.ends_with("expected the shape [3, 2] for `a`, found [2, 3]"),
            "{message}"
        );
        assert!(
            file.expect(&[])
                .unwrap_err()
                .to_string()
                .contains("also `a`")
        );
        assert!(
            file.expect(&[("b".into(), vec![1])])
                .unwrap_err()
                .to_string()
                .contains("`b`")
        );
        assert!(
            file.facts::<String>()
                .unwrap_err()
                .to_string()
                .contains("burtorch")
        );

        let half = r#"{"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}"#;
        let message = open(&raw(half, 12))
            .unwrap()
            .expect(&expected(&[2, 3]))
            .unwrap_err()
            .to_string();
        assert!(
            message.ends_with("expected numbers of type F32 in `a`, found F16"),
            "{message}"
        );
    }

    #[test]
    fn a_file_without_a_checksum_is_accepted() {
        let header = r#"{"__metadata__":{"burtorch":"{}"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;
        assert!(open(&raw(header, 24)).unwrap().check_sum().is_ok());
    }

    #[test]
    fn f28_numbers_that_could_not_be_read_back_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let tensor = |values| Tensor {
            name: "a".into(),
            shape: vec![2],
            values,
        };
        let facts = HashMap::from([("step", 1)]);
        write(&path, &facts, &[tensor(&[1.0, 2.0])]).unwrap();
        let before = std::fs::read(&path).unwrap();
        let message = write(&path, &facts, &[tensor(&[1.0, f32::INFINITY])])
            .unwrap_err()
            .to_string();
        assert!(
            message.ends_with("expected finite numbers to save in `a`, found inf"),
            "{message}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn f36_a_weight_that_is_no_number_is_found() {
        let mut contents = raw(GOOD, 24);
        let end = contents.len();
        contents[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        let message = open(&contents)
            .unwrap()
            .read("a", &mut [0.0; 6])
            .unwrap_err()
            .to_string();
        assert!(
            message.ends_with("expected finite numbers in `a`, found NaN at place 5"),
            "{message}"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(header in ".{0,60}", extra in 0_usize..40, length in proptest::option::of(any::<u64>())) {
            let mut contents = raw(&header, extra);
            if let Some(length) = length {
                contents[..8].copy_from_slice(&length.to_le_bytes());
            }
            let _ = open(&contents).map(|file| file.expect(&expected(&[1])));
        }

        #[test]
        fn no_changed_byte_makes_it_panic(place in 0_usize..64, byte: u8) {
            let mut contents = raw(GOOD, 24);
            contents[place] = byte;
            let _ = open(&contents).map(|mut file| file.read("a", &mut [0.0; 6]));
        }
    }
}
