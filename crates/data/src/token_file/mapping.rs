//! A token file as memory: pages come from the disk when they are read, and the operating system takes them back when it needs room.
//!
//! What a program is said to hold grows while it reads, but that is the cache of the file, not memory of the program. The file is opened
//! once, not for every batch.

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

use super::{HEADER, Width, check_tokens, check_vocabulary, open};
use crate::{Error, Tokens};

/// The tokens of a file, as they lie there.
///
/// The file must not be changed or shortened while it is mapped: a program that reads a page that is gone is ended by the operating system.
/// [`TokenWriter`](crate::TokenWriter) replaces files, which does no harm.
///
/// ```
/// use burtorch_data::{MappedTokens, TokenWriter, Width};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("text.tokens");
/// let mut writer = TokenWriter::create(&path, Width::Two, 300, [7; 32])?;
/// writer.push(&[1, 2, 299])?;
/// writer.finish()?;
/// let file = MappedTokens::open(&path, 300)?;
/// assert_eq!(file.tokens().to_vec(), [1, 2, 299]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MappedTokens {
    map: Mmap,
    width: Width,
}

impl MappedTokens {
    /// Whether files can be mapped on this machine: its numbers must begin with their lowest byte.
    pub const IS_POSSIBLE: bool = cfg!(target_endian = "little");

    /// Maps a file and reads it once, to see that its tokens are below `vocabulary`.
    ///
    /// # Errors
    ///
    /// As [`read_tokens`](crate::read_tokens); [`Error::TokenFile`] too on a machine on which files cannot be mapped.
    pub fn open(path: impl AsRef<Path>, vocabulary: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        let (file, header) = open(path)?;
        check_vocabulary(path, &header, vocabulary)?;
        if !Self::IS_POSSIBLE {
            return Err(Error::TokenFile {
                path: path.to_owned(),
                expected: "tokens whose bytes are in the order of this machine".into(),
                found: "the lowest byte first".into(),
            });
        }
        let map = map(&file).map_err(|source| Error::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let width = header.width;
        let this = Self { map, width };
        check_tokens(path, this.tokens(), (0, vocabulary))?;
        Ok(this)
    }

    /// All of them.
    #[must_use]
    pub fn tokens(&self) -> Tokens<'_> {
        let bytes = self.map.get(HEADER..).unwrap_or_default();
        // The map begins at a page and the header is a multiple of four, so nothing is left out in front; the length is a multiple of
        // the width since the header was checked.
        match self.width {
            Width::Two => {
                // SAFETY: every pattern of two bytes is a number.
                let (_, tokens, _) = unsafe { bytes.align_to::<u16>() };
                Tokens::Two(tokens)
            }
            Width::Four => {
                // SAFETY: every pattern of four bytes is a number.
                let (_, tokens, _) = unsafe { bytes.align_to::<u32>() };
                Tokens::Four(tokens)
            }
        }
    }
}

fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is private to `MappedTokens`, which hands out shared slices of it only; that nobody shortens the file is the
    // caller's duty, as the type says.
    unsafe { Mmap::map(file) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TokenWriter, read_tokens};
    use std::fs;

    fn written(width: Width, tokens: &[u32]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tokens");
        let mut writer = TokenWriter::create(&path, width, 1000, [3; 32]).unwrap();
        writer.push(tokens).unwrap();
        writer.finish().unwrap();
        (folder, path)
    }

    #[test]
    fn bpe_f09_tokens_are_read_where_they_lie() {
        let tokens: Vec<u32> = (0..100_000).map(|token| token % 1000).collect();
        for width in [Width::Two, Width::Four] {
            let (_folder, path) = written(width, &tokens);
            let mapped = MappedTokens::open(&path, 1000).unwrap();
            assert_eq!(mapped.tokens().width(), width);
            assert_eq!(mapped.tokens(), Tokens::from(&tokens));
            assert_eq!(mapped.tokens(), read_tokens(&path, 1000).unwrap().tokens());
            // A new file of the same name is another file.
            fs::remove_file(&path).unwrap();
            let last = mapped.tokens().get(99_999..100_000);
            assert_eq!(last, Some(Tokens::from(&[999_u32])));
        }
    }

    #[test]
    fn tokens_of_another_vocabulary_are_refused() {
        for (width, bytes) in [
            (Width::Two, &5000_u16.to_le_bytes()[..]),
            (Width::Four, &5000_u32.to_le_bytes()),
        ] {
            let (_folder, path) = written(width, &[1, 2, 999]);
            let message = MappedTokens::open(&path, 999).unwrap_err().to_string();
            assert!(message.contains("a vocabulary of at most 999"), "{message}");
            let mut file = fs::read(&path).unwrap();
            let place = HEADER + width.bytes();
            file[place..place + width.bytes()].copy_from_slice(bytes);
            fs::write(&path, file).unwrap();
            let message = MappedTokens::open(&path, 1000).unwrap_err().to_string();
            assert!(
                message.contains("expected tokens below 1000, found 5000 as token 1"),
                "{message}"
            );
            let (_folder, path) = written(width, &[]);
            assert!(MappedTokens::open(&path, 1000).unwrap().tokens().is_empty());
        }
    }
}
