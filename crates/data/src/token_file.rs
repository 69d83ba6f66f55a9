//! Tokens in files, with a header that says what they are.
//!
//! The layout is that of llm.c: a header of 256 whole numbers of 32 bits, then the tokens, all little-endian. A magic number and a version tell the
//! width: 20240520 and 1 for 16 bits, 20240801 and 7 for 32; then comes the count. Numbers that llm.c leaves at zero say more here:
//!
//! | number | what |
//! |---|---|
//! | 0, 1 | magic and version |
//! | 2 | count of tokens; for more than 2³¹ − 1 it is −1, and llm.c refuses the file |
//! | 3, 4 | count of tokens, 64 bits |
//! | 5 | size of the vocabulary, 0 if unknown |
//! | 6–13 | SHA-256 of the tokenizer, zeros if unknown |

#[allow(unsafe_code)] // a file as memory; each site says why it is sound
mod mapping;

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::{Error, TokenBuffer, Tokens};
pub use mapping::MappedTokens;

/// Bytes of the header.
const HEADER: usize = 1024;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 16;

/// Bytes of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// Two: tokens below 65,536.
    Two,
    /// Four.
    Four,
}

impl Width {
    /// The narrowest width that holds all tokens of a vocabulary.
    #[must_use]
    pub fn of_vocabulary(size: usize) -> Self {
        if size <= 1 << 16 {
            Self::Two
        } else {
            Self::Four
        }
    }

    /// Bytes of a token.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    fn magic(self) -> (u32, u32) {
        match self {
            Self::Two => (20_240_520, 1),
            Self::Four => (20_240_801, 7),
        }
    }

    /// The width that a header tells.
    fn of_header(header: &[u8; HEADER]) -> Option<Self> {
        let found = (number(header, 0), number(header, 1));
        [Self::Two, Self::Four]
            .into_iter()
            .find(|width| width.magic() == found)
    }
}

/// A number of the header.
fn number(header: &[u8; HEADER], place: usize) -> u32 {
    let (numbers, _) = header.as_chunks::<4>();
    u32::from_le_bytes(numbers[place])
}

/// What a token file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenHeader {
    /// Bytes of a token.
    pub width: Width,
    /// How many tokens there are.
    pub count: u64,
    /// The size of the vocabulary, if the file says.
    pub vocabulary: Option<usize>,
    /// The SHA-256 of the tokenizer, if the file says.
    pub tokenizer: Option<[u8; 32]>,
}

impl TokenHeader {
    fn bytes(&self) -> [u8; HEADER] {
        let (magic, version) = self.width.magic();
        let short = i32::try_from(self.count).unwrap_or(-1) as u32;
        let vocabulary = self.vocabulary.unwrap_or_default() as u32;
        let count = [self.count as u32, (self.count >> 32) as u32];
        let mut header = [0; HEADER];
        for (place, number) in [magic, version, short, count[0], count[1], vocabulary]
            .into_iter()
            .enumerate()
        {
            header[4 * place..4 * place + 4].copy_from_slice(&number.to_le_bytes());
        }
        header[24..56].copy_from_slice(&self.tokenizer.unwrap_or_default());
        header
    }

    /// What a header says of a file of so many bytes; else what was expected and what was found.
    fn parse(header: &[u8; HEADER], length: u64) -> Result<Self, (String, String)> {
        let wrong = |expected: &str, found: String| Err((expected.to_owned(), found));
        let Some(width) = Width::of_header(header) else {
            let found = format!("{} and {}", number(header, 0), number(header, 1));
            return wrong(
                "the magic numbers of a token file (20240520 and 1, or 20240801 and 7)",
                found,
            );
        };
        let short = number(header, 2) as i32;
        let long = u64::from(number(header, 3)) | u64::from(number(header, 4)) << 32;
        let count = match long {
            0 => match u64::try_from(short) {
                Ok(count) => count,
                Err(_) => return wrong("a count of tokens", short.to_string()),
            },
            long => long,
        };
        let expected = count
            .checked_mul(width.bytes() as u64)
            .and_then(|bytes| bytes.checked_add(HEADER as u64));
        if expected != Some(length) {
            return wrong(
                &format!(
                    "{count} tokens of {} bytes behind the header",
                    width.bytes()
                ),
                format!("a file of {length} bytes"),
            );
        }
        let vocabulary = number(header, 5) as usize;
        let mut tokenizer = [0; 32];
        tokenizer.copy_from_slice(&header[24..56]);
        Ok(Self {
            width,
            count,
            vocabulary: (vocabulary > 0).then_some(vocabulary),
            tokenizer: (tokenizer != [0; 32]).then_some(tokenizer),
        })
    }
}

/// Whether the file at `path` begins like a token file; false if it cannot be read, or is a pipe or device, whose first bytes would be
/// gone if they were read here.
#[must_use]
pub fn is_token_file(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let mut start = [0; HEADER];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start[..8]));
    read.is_ok() && Width::of_header(&start).is_some()
}

/// Reads what a token file says of itself, and checks that it is as long as it says.
///
/// # Errors
///
/// [`Error::Missing`], [`Error::Unreadable`], [`Error::TokenFile`].
pub fn read_token_header(path: impl AsRef<Path>) -> Result<TokenHeader, Error> {
    let path = path.as_ref();
    open(path).map(|opened| opened.1)
}

fn open(path: &Path) -> Result<(File, TokenHeader), Error> {
    let unreadable = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound => Error::Missing {
            path: path.to_owned(),
        },
        _ => Error::Unreadable {
            path: path.to_owned(),
            source,
        },
    };
    let wrong = |(expected, found)| Error::TokenFile {
        path: path.to_owned(),
        expected,
        found,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    if length < HEADER as u64 {
        return Err(wrong((
            format!("a header of {HEADER} bytes"),
            format!("a file of {length}"),
        )));
    }
    let mut header = [0; HEADER];
    file.read_exact(&mut header).map_err(unreadable)?;
    let header = TokenHeader::parse(&header, length).map_err(wrong)?;
    Ok((file, header))
}

/// Reads all tokens of a file, which must be below `vocabulary`, into memory. Where it can be, [`MappedTokens`] is better.
///
/// # Errors
///
/// As [`read_token_header`]; [`Error::TokenFile`] too if the file is of a larger vocabulary, if one of its tokens is not below `vocabulary`,
/// or if memory does not hold them.
pub fn read_tokens(path: impl AsRef<Path>, vocabulary: usize) -> Result<TokenBuffer, Error> {
    let path = path.as_ref();
    let (mut file, header) = open(path)?;
    check_vocabulary(path, &header, vocabulary)?;
    let mut tokens = TokenBuffer::of_width(header.width, vocabulary);
    let room = usize::try_from(header.count)
        .ok()
        .and_then(|count| tokens.reserve(count).ok());
    room.ok_or_else(|| Error::TokenFile {
        path: path.to_owned(),
        expected: "tokens that fit in memory".into(),
        found: header.count.to_string(),
    })?;
    let mut chunk = vec![0; CHUNK];
    let mut part = Vec::with_capacity(CHUNK / header.width.bytes());
    let mut read = 0;
    while read < header.count {
        let bytes = (header.count - read).saturating_mul(header.width.bytes() as u64);
        let chunk = &mut chunk[..bytes.min(CHUNK as u64) as usize];
        file.read_exact(chunk).map_err(|source| Error::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        part.clear();
        match header.width {
            Width::Two => part.extend(numbers(chunk, u16::from_le_bytes).map(u32::from)),
            Width::Four => part.extend(numbers(chunk, u32::from_le_bytes)),
        }
        check_tokens(path, Tokens::from(&part), (read, vocabulary))?;
        tokens.push(&part)?;
        read += part.len() as u64;
    }
    Ok(tokens)
}

/// The numbers of `N` bytes in a chunk.
fn numbers<T, const N: usize>(chunk: &[u8], of: fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    chunk.as_chunks().0.iter().map(move |&bytes| of(bytes))
}

/// Refuses a file of a larger vocabulary.
fn check_vocabulary(path: &Path, header: &TokenHeader, vocabulary: usize) -> Result<(), Error> {
    match header.vocabulary.filter(|&found| found > vocabulary) {
        None => Ok(()),
        Some(found) => Err(Error::TokenFile {
            path: path.to_owned(),
            expected: format!("a vocabulary of at most {vocabulary} tokens"),
            found: found.to_string(),
        }),
    }
}

/// Refuses tokens that are not below `vocabulary`; the first of them is token `start` of the file.
fn check_tokens(
    path: &Path,
    tokens: Tokens<'_>,
    (start, vocabulary): (u64, usize),
) -> Result<(), Error> {
    match tokens.outside(vocabulary) {
        None => Ok(()),
        Some((place, token)) => Err(Error::TokenFile {
            path: path.to_owned(),
            expected: format!("tokens below {vocabulary}"),
            found: format!("{token} as token {}", start + place as u64),
        }),
    }
}

/// Writes a token file as the tokens come, in memory that does not grow.
///
/// The file appears under its name when it is complete: until then it has another one, and is gone if the writer is dropped.
///
/// ```
/// use burtorch_data::{TokenWriter, Width, read_tokens};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("text.tokens");
/// let mut writer = TokenWriter::create(&path, Width::of_vocabulary(300), 300, [7; 32])?;
/// writer.push(&[1, 2, 299])?;
/// assert!(writer.push(&[300]).is_err());
/// assert_eq!(writer.finish()?.count, 3);
/// assert_eq!(read_tokens(&path, 300)?.tokens().to_vec(), [1, 2, 299]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TokenWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
    header: TokenHeader,
    vocabulary: usize,
}

impl TokenWriter {
    /// Begins a file for tokens below `vocabulary` of the tokenizer with this SHA-256.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`]; [`Error::TokenFile`] if the width does not hold the vocabulary.
    pub fn create(
        path: impl AsRef<Path>,
        width: Width,
        vocabulary: usize,
        tokenizer: [u8; 32],
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        if vocabulary > u32::MAX as usize
            || (width == Width::Two && Width::of_vocabulary(vocabulary) != width)
        {
            let expected = format!("a vocabulary that {} bytes hold", width.bytes());
            return Err(Error::TokenFile {
                path: path.to_owned(),
                expected,
                found: vocabulary.to_string(),
            });
        }
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".tmp");
        let temporary = path.with_file_name(name);
        let file = File::create(&temporary).and_then(|file| {
            let mut file = BufWriter::with_capacity(CHUNK, file);
            file.write_all(&[0; HEADER])?;
            Ok(file)
        });
        let unwritable = |source| Error::Unwritable {
            path: path.to_owned(),
            source,
        };
        let header = TokenHeader {
            width,
            count: 0,
            vocabulary: Some(vocabulary),
            tokenizer: Some(tokenizer),
        };
        Ok(Self {
            path: path.to_owned(),
            file: Some(file.map_err(unwritable)?),
            temporary,
            header,
            vocabulary,
        })
    }

    /// Appends tokens: all of them or, if one is not of the vocabulary, none.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`], [`Error::Unwritable`].
    pub fn push(&mut self, tokens: &[u32]) -> Result<(), Error> {
        let size = self.vocabulary;
        if let Some((_, token)) = Tokens::from(tokens).outside(size) {
            return Err(Error::UnknownToken { token, size });
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let written = match self.header.width {
            Width::Two => tokens
                .iter()
                .try_for_each(|&token| file.write_all(&(token as u16).to_le_bytes())),
            Width::Four => tokens
                .iter()
                .try_for_each(|&token| file.write_all(&token.to_le_bytes())),
        };
        self.header.count += tokens.len() as u64;
        written.map_err(|source| Error::Unwritable {
            path: self.path.clone(),
            source,
        })
    }

    /// Completes the file and brings it to the disk.
    ///
    /// # Errors
    ///
    /// [`Error::Unwritable`].
    pub fn finish(mut self) -> Result<TokenHeader, Error> {
        let complete = |file: BufWriter<File>| {
            let mut file = file.into_inner()?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&self.header.bytes())?;
            file.sync_all()?;
            fs::rename(&self.temporary, &self.path)
        };
        let completed = self.file.take().map_or(Ok(()), complete);
        if let Err(source) = completed {
            // Best effort: what matters is the first error.
            let _ = fs::remove_file(&self.temporary);
            return Err(Error::Unwritable {
                path: self.path.clone(),
                source,
            });
        }
        Ok(self.header)
    }
}

impl Drop for TokenWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Nobody asked whether it can be removed.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(width: Width, vocabulary: usize, tokens: &[u32]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tokens");
        let mut writer = TokenWriter::create(&path, width, vocabulary, [3; 32]).unwrap();
        writer.push(tokens).unwrap();
        writer.finish().unwrap();
        (folder, path)
    }

    fn read(path: &Path, vocabulary: usize) -> Vec<u32> {
        read_tokens(path, vocabulary).unwrap().tokens().to_vec()
    }

    #[test]
    fn a_place_is_named_from_the_beginning_of_the_file() {
        let many = CHUNK / 2 + 7;
        let mut tokens = vec![1; many];
        tokens.push(9);
        let (_folder, path) = written(Width::Two, 10, &tokens);
        assert_eq!(read(&path, 10), tokens);
        let mut bytes = fs::read(&path).unwrap();
        bytes[20..24].fill(0); // a file that does not tell its vocabulary
        fs::write(&path, bytes).unwrap();
        let expected = format!("expected tokens below 9, found 9 as token {many}");
        let read = read_tokens(&path, 9).map(drop);
        let mapped = MappedTokens::open(&path, 9).map(drop);
        for refused in [read, mapped] {
            let message = refused.unwrap_err().to_string();
            assert!(message.ends_with(&expected), "{message}");
        }
    }

    #[test]
    fn bpe_f10_ids_that_do_not_fit_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tokens");
        let refused = TokenWriter::create(&path, Width::Two, 100_277, [0; 32])
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("2 bytes") && refused.contains("100277"),
            "{refused}"
        );
        let mut writer = TokenWriter::create(&path, Width::Two, 65_536, [1; 32]).unwrap();
        let message = writer.push(&[0, 100_257]).unwrap_err().to_string();
        assert_eq!(message, "expected tokens below 65536, found 100257");
        writer.push(&[65_535]).unwrap();
        assert_eq!(writer.finish().unwrap().count, 1);
        assert_eq!(read(&path, 65_536), [65_535]);
        let message = read_tokens(&path, 65_535).unwrap_err().to_string();
        assert!(
            message.contains("a vocabulary of at most 65535 tokens, found 65536"),
            "{message}"
        );
        assert_eq!(Width::of_vocabulary(65_537), Width::Four);
    }

    #[test]
    fn files_of_llm_c_are_read_and_theirs_is_our_layout() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("theirs.bin");
        let mut bytes = vec![0; HEADER];
        bytes[..12].copy_from_slice(&[20_240_520_u32, 1, 3].map(u32::to_le_bytes).concat());
        bytes.extend([5_u16, 6, 50_256].map(u16::to_le_bytes).concat());
        fs::write(&path, &bytes).unwrap();
        let header = read_token_header(&path).unwrap();
        assert_eq!(
            header,
            TokenHeader {
                width: Width::Two,
                count: 3,
                vocabulary: None,
                tokenizer: None
            }
        );
        assert_eq!(read(&path, 50_257), [5, 6, 50_256]);
        let message = read_tokens(&path, 50_256).unwrap_err().to_string();
        assert!(
            message.contains("expected tokens below 50256, found 50256 as token 2"),
            "{message}"
        );
        let (_folder, ours) = written(Width::Four, 1 << 17, &[1, 2, 100_000]);
        let ours = fs::read(ours).unwrap();
        assert_eq!(
            ours[..12],
            [20_240_801_u32, 7, 3].map(u32::to_le_bytes).concat()
        );
        assert_eq!(
            ours[HEADER..],
            [1_u32, 2, 100_000].map(u32::to_le_bytes).concat()
        );
    }

    #[test]
    fn counts_beyond_31_bits_are_kept() {
        let header = TokenHeader {
            width: Width::Two,
            count: 5_000_000_000,
            vocabulary: Some(300),
            tokenizer: Some([9; 32]),
        };
        let bytes = header.bytes();
        assert_eq!(number(&bytes, 2) as i32, -1);
        assert_eq!(TokenHeader::parse(&bytes, 10_000_001_024), Ok(header));
        let (expected, found) = TokenHeader::parse(&bytes, 10_000_001_025).unwrap_err();
        assert!(expected.starts_with("5000000000 tokens") && found.ends_with("10000001025 bytes"));
        let endless = TokenHeader {
            count: u64::MAX,
            ..header
        };
        assert!(TokenHeader::parse(&endless.bytes(), 1022).is_err());
    }

    #[test]
    fn what_is_no_token_file_is_named() {
        let (_folder, path) = written(Width::Two, 300, &[1, 2, 3]);
        let bytes = fs::read(&path).unwrap();
        for (bytes, word) in [
            (&b"text"[..], "a header of 1024 bytes, found a file of 4"),
            (
                &bytes[..bytes.len() - 1],
                "3 tokens of 2 bytes behind the header, found a file of 1029 bytes",
            ),
            (&[b'a'; 2000], "magic numbers"),
        ] {
            fs::write(&path, bytes).unwrap();
            let message = read_token_header(&path).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
        let mut negative = bytes;
        negative[8..20].copy_from_slice(&[-3_i32, 0, 0].map(i32::to_le_bytes).concat());
        fs::write(&path, negative).unwrap();
        assert!(
            read_token_header(&path)
                .unwrap_err()
                .to_string()
                .contains("a count of tokens, found -3")
        );
        assert!(matches!(
            read_token_header("none"),
            Err(Error::Missing { .. })
        ));
        assert!(!is_token_file(Path::new("none")));
    }

    #[test]
    fn a_file_that_was_not_finished_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tokens");
        let mut writer = TokenWriter::create(&path, Width::Two, 300, [1; 32]).unwrap();
        writer.push(&[1; 100]).unwrap();
        assert!(!path.exists());
        drop(writer);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let nowhere = folder.path().join("none/a.tokens");
        let message = TokenWriter::create(nowhere, Width::Two, 300, [1; 32])
            .unwrap_err()
            .to_string();
        assert!(message.contains("cannot write"), "{message}");
    }

    proptest! {
        #[test]
        fn tokens_come_back(tokens in prop::collection::vec(0_u32..70_000, 0..200), parts in 1_usize..50) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.tokens");
            for (width, most) in [(Width::Two, 1 << 16), (Width::Four, 70_000)] {
                let tokens: Vec<u32> = tokens.iter().map(|token| token % most).collect();
                let mut writer = TokenWriter::create(&path, width, most as usize, [5; 32]).unwrap();
                tokens.chunks(parts).for_each(|part| writer.push(part).unwrap());
                let header = writer.finish().unwrap();
                prop_assert_eq!(read_token_header(&path).unwrap(), header);
                prop_assert_eq!(header.tokenizer, Some([5; 32]));
                prop_assert!(is_token_file(&path));
                for vocabulary in [most as usize, 80_000] {
                    let read = read_tokens(&path, vocabulary).unwrap();
                    let mapped = MappedTokens::open(&path, vocabulary).unwrap();
                    prop_assert_eq!(read.tokens(), mapped.tokens());
                    prop_assert_eq!(mapped.tokens().width(), width);
                    prop_assert_eq!(read.tokens().to_vec(), &tokens[..]);
                }
            }
        }
    }
}
