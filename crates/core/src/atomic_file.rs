//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Makes `bytes` the contents of `path`. A kill at any moment leaves the old contents or the new: they are written beside it,
/// brought to the disk, and renamed.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = beside(path)?;
    let written = write_new(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written.and_then(|()| sync_folder(path))
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

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
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
