//! Files that are replaced as a whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// Replaces the file at `path` with what `write` writes.
///
/// It is written under another name in the same folder, brought to the disk (`fsync`) and only then renamed, which the operating system does
/// in one piece; then the folder is brought to the disk. Whoever reads `path` at any moment, or after a crash at any
/// moment, finds the old contents or the new ones.
///
/// # Errors
///
/// [`Error::File`] naming `path`; the old file is then still there.
pub fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Error> {
    let temporary = temporary_name(path);
    let written = write_to_disk(&temporary, write).and_then(|()| fs::rename(&temporary, path));
    if let Err(source) = written {
        // Best effort: what matters is the first error, and the next attempt overwrites the file anyway.
        let _ = fs::remove_file(&temporary);
        return Err(Error::file(path, "write the file")(source));
    }
    sync_folder(path).map_err(Error::file(path, "bring the folder to the disk"))
}

/// The name beside `path` under which it is written: one per file, so that a killed program leaves at most one behind.
pub(crate) fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    path.with_file_name(name)
}

fn write_to_disk(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    write(&mut file)?;
    file.into_inner()?.sync_all()
}

/// Brings the folder's own entries to the disk, without which a rename may be lost by a power failure.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        #[cfg(unix)]
        Some(folder) if folder.as_os_str().is_empty() => File::open(".")?.sync_all(),
        #[cfg(unix)]
        Some(folder) => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error as IoError;

    #[test]
    fn f35_a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace(&path, |file| file.write_all(b"old")).unwrap();
        let error = replace(&path, |file| {
            file.write_all(b"ne")?;
            Err(IoError::other("the disk is full"))
        });
        assert!(error.unwrap_err().to_string().contains("the disk is full"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn f35_what_a_killed_program_left_behind_does_not_disturb() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(temporary_name(&path), b"half").unwrap();
        replace(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_does_not_exist_is_named() {
        let error = replace(Path::new("/nowhere/at/all"), |_| Ok(())).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("/nowhere/at/all: cannot write the file")
        );
    }
}
