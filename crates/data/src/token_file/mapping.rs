//! A token file as memory: pages come from the disk when they are read, and the operating system takes them back when it needs room.
//!
//! What a program is said to hold grows while it reads, but that is the cache of the file, not memory of the program. The file is opened
//! once, not for every batch.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use super::{HEADER, TokenHeader, Width, check_vocabulary, open, token_outside};
use crate::Error;

/// The tokens of a file of width [`Width::Four`], as they lie there.
///
/// The file must not be changed or shortened while it is mapped: a program that reads a page that is gone is ended by the operating system.
/// [`TokenWriter`](crate::TokenWriter) replaces files, which does no harm.
///
/// ```
/// use burtorch_data::{MappedTokens, TokenWriter, Width};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("text.tokens");
/// let mut writer = TokenWriter::create(&path, Width::Four, 300, [7; 32])?;
/// writer.push(&[1, 2, 299])?;
/// writer.finish()?;
/// let tokens = MappedTokens::open(&path, 300)?;
/// assert_eq!(tokens[1..], [2, 299]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MappedTokens {
    map: Mmap,
}

impl MappedTokens {
    /// Whether a file with this header can be mapped: its tokens have four bytes, in the order of this machine.
    #[must_use]
    pub fn is_possible(header: &TokenHeader) -> bool {
        header.width == Width::Four && cfg!(target_endian = "little")
    }

    /// Maps a file and reads it once, to see that its tokens are below `vocabulary`.
    ///
    /// # Errors
    ///
    /// As [`read_tokens`](crate::read_tokens); [`Error::TokenFile`] too for a file that cannot be mapped.
    pub fn open(path: impl AsRef<Path>, vocabulary: usize) -> Result<Self, Error> {
        let path = path.as_ref();
        let (file, header) = open(path)?;
        check_vocabulary(path, &header, vocabulary)?;
        if !Self::is_possible(&header) {
            return Err(Error::TokenFile {
                path: path.to_owned(),
                expected: "tokens of four bytes in the order of this machine".into(),
                found: format!("tokens of {}", header.width.bytes()),
            });
        }
        let map = map(&file).map_err(|source| Error::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let this = Self { map };
        match token_outside(&this, vocabulary) {
            None => Ok(this),
            Some((expected, found)) => Err(Error::TokenFile {
                path: path.to_owned(),
                expected,
                found,
            }),
        }
    }
}

fn map(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is private to `MappedTokens`, which hands out shared slices of it only; that nobody shortens the file is the
    // caller's duty, as the type says.
    unsafe { Mmap::map(file) }
}

impl Deref for MappedTokens {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        let bytes = self.map.get(HEADER..).unwrap_or_default();
        // SAFETY: every pattern of four bytes is a number. The map begins at a page and the header is a multiple of four, so nothing is left
        // out in front; the length is a multiple of four since the header was checked.
        let (_, tokens, _) = unsafe { bytes.align_to::<u32>() };
        tokens
    }
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
        let (_folder, path) = written(Width::Four, &tokens);
        let mapped = MappedTokens::open(&path, 1000).unwrap();
        assert_eq!(mapped.len(), tokens.len());
        assert_eq!(*mapped, tokens[..]);
        assert_eq!(*mapped, read_tokens(&path, 1000).unwrap()[..]);
        // A new file of the same name is another file.
        fs::remove_file(&path).unwrap();
        assert_eq!(mapped[99_999], 999);
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let (_folder, path) = written(Width::Two, &[1, 2]);
        let message = MappedTokens::open(&path, 1000).unwrap_err().to_string();
        assert!(message.contains("tokens of four bytes"), "{message}");
        let (_folder, path) = written(Width::Four, &[1, 2, 999]);
        let message = MappedTokens::open(&path, 999).unwrap_err().to_string();
        assert!(message.contains("a vocabulary of at most 999"), "{message}");
        let mut bytes = fs::read(&path).unwrap();
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&5000_u32.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        let message = MappedTokens::open(&path, 1000).unwrap_err().to_string();
        assert!(
            message.contains("expected tokens below 1000, found 5000 as token 1"),
            "{message}"
        );
        let (_folder, path) = written(Width::Four, &[]);
        assert!(MappedTokens::open(&path, 1000).unwrap().is_empty());
    }
}
