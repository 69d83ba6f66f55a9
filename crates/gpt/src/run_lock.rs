//! At most one process trains in a folder at a time.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::Error;

/// The name of the file that is locked. It stays when the run ends: removing it would let two processes lock two files of that name.
pub(crate) const NAME: &str = ".lock";

/// The right to write in the folder of a run, held until this value is dropped; the operating system takes it back when the
/// process ends, however it ends.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock of a folder.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] if somebody else has it, [`Error::File`] if it cannot be taken.
    pub fn take(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(NAME);
        let opened = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = opened.map_err(Error::file(&path, "open the lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Busy {
                path: folder.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(Error::file(&path, "take the lock")(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunLock::take(folder.path()).unwrap();
        let message = RunLock::take(folder.path()).unwrap_err().to_string();
        assert!(
            message.ends_with(": another process is training here"),
            "{message}"
        );
        drop(first);
        assert!(RunLock::take(folder.path()).is_ok());
        assert!(RunLock::take(&folder.path().join("nowhere")).is_err());
    }
}
