//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What must not leave a damaged file behind. The less, the faster; whoever reads a damaged file is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the old contents are overwritten in place, with a few microseconds of system calls. A program killed meanwhile, or
    /// two that write at a time, leave a mixture.
    Plain,
    /// A killed program: the new contents are written beside the old, then renamed.
    Atomic,
    /// A power failure too: before it is renamed, the file is brought to the disk, and then the folder (milliseconds).
    Durable,
}

/// Makes `bytes` the contents of `path`.
pub(crate) fn write(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<()> {
    match durability {
        Durability::Plain => overwrite(path, bytes),
        Durability::Atomic => replace(&linked(path), bytes, |_| Ok(())),
        Durability::Durable => {
            let path = linked(path);
            replace(&path, bytes, File::sync_all).and_then(|()| sync_folder(&path))
        }
    }
}

/// What a link leads to: that is replaced, not the link. A path at which there is nothing yet is itself.
fn linked(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Writes in place. The old contents are cut off only where they are longer: emptying the file first, as is the custom, makes some file systems
/// bring it to the disk at once.
fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.write_all(bytes)?;
    let length = bytes.len() as u64;
    if file.metadata()?.len() > length {
        file.set_len(length)?;
    }
    Ok(())
}

/// A kill at any moment leaves the old contents or the new: they are written beside it, finished, and renamed. A file that is there keeps
/// its permissions.
fn replace(
    path: &Path,
    bytes: &[u8],
    finish: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = beside(path)?;
    let written = write_new(&temporary, bytes, finish)
        .and_then(|()| match fs::metadata(path) {
            Ok(old) => fs::set_permissions(&temporary, old.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// A path in the same folder that no other writer has, known by a random number.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path does not end in the name of a file",
        )
    })?;
    let mut name = name.to_os_string();
    name.push(format!(".{:016x}.tmp", RandomState::new().hash_one(0)));
    Ok(path.with_file_name(name))
}

fn write_new(
    path: &Path,
    bytes: &[u8],
    finish: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    finish(&file)
}

/// Brings the new name to the disk, where folders can be opened as files.
fn sync_folder(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match path.parent().filter(|folder| *folder != Path::new("")) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}
