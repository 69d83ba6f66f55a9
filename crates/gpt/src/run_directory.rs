//! The folder of a run: which files it holds, and how it comes to be.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Error;
use crate::config::Preset;

/// Where runs go when nothing is said.
pub const RUNS: &str = "runs";

/// The folder of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes the folder of a new run: `out`, or the first free `runs/PRESET-N`.
    ///
    /// # Errors
    ///
    /// As [`check_free`](Self::check_free), or [`Error::File`] if the folder cannot be made.
    pub fn create(out: Option<&Path>, preset: Preset) -> Result<Self, Error> {
        let path = match out {
            Some(out) => {
                Self::check_free(out)?;
                fs::create_dir_all(out).map_err(Error::file(out, "make the folder"))?;
                out.to_owned()
            }
            None => create_numbered(Path::new(RUNS), preset.name())?,
        };
        Ok(Self { path })
    }

    /// Whether a new run can go there: the folder does not exist or is empty.
    ///
    /// # Errors
    ///
    /// [`Error::Content`] saying what is there, [`Error::File`] if it cannot be looked at.
    pub fn check_free(out: &Path) -> Result<(), Error> {
        if out.join(CONFIG).exists() {
            let found = "one with a run in it (--resume goes on with it)";
            return Err(Error::content(out, "a new or empty folder", found));
        }
        match fs::read_dir(out) {
            Ok(mut entries) => match entries.next() {
                None => Ok(()),
                Some(_) => Err(Error::content(
                    out,
                    "a new or empty folder",
                    "one with files in it",
                )),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::file(out, "use it as a folder")(error)),
        }
    }

    /// The folder of a run that exists.
    ///
    /// # Errors
    ///
    /// [`Error::Content`] if there is no run.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let this = Self {
            path: path.to_owned(),
        };
        if this.config().is_file() {
            return Ok(this);
        }
        let found = if path.is_dir() {
            "a folder without config.toml"
        } else {
            "no folder"
        };
        Err(Error::content(path, "the folder of a run", found))
    }

    /// The run under `runs` whose state was saved last.
    ///
    /// # Errors
    ///
    /// [`Error::Content`] if there is none with a saved state.
    pub fn newest(runs: &Path) -> Result<Self, Error> {
        let entries = fs::read_dir(runs).into_iter().flatten().flatten();
        let saved = |path: PathBuf| {
            let run = Self { path };
            let time: SystemTime = fs::metadata(run.state()).ok()?.modified().ok()?;
            Some((time, run))
        };
        let newest = entries
            .filter_map(|entry| saved(entry.path()))
            .max_by_key(|(time, _)| *time);
        newest
            .map(|(_, run)| run)
            .ok_or_else(|| Error::content(runs, "a run to resume", "none with a saved state"))
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The settings and circumstances.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path.join(CONFIG)
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> PathBuf {
        self.path.join("tokenizer.json")
    }

    /// The model as of the last save.
    #[must_use]
    pub fn model(&self) -> PathBuf {
        self.path.join("model.safetensors")
    }

    /// The state of training as of the last save.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path.join("state.safetensors")
    }

    /// One line per step.
    #[must_use]
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// The latest text drawn from the model.
    #[must_use]
    pub fn sample(&self) -> PathBuf {
        self.path.join("sample.txt")
    }
}

const CONFIG: &str = "config.toml";

/// Makes `parent/name-N` for the first N from 1 that nobody has; making a folder fails if it exists, so two programs never get the same.
fn create_numbered(parent: &Path, name: &str) -> Result<PathBuf, Error> {
    fs::create_dir_all(parent).map_err(Error::file(parent, "make the folder"))?;
    let mut number = 1_u64;
    loop {
        let path = parent.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::file(&path, "make the folder")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_number_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let names: Vec<_> = (0..3)
            .map(|_| create_numbered(&runs, "mini").unwrap())
            .collect();
        assert_eq!(
            names,
            ["mini-1", "mini-2", "mini-3"].map(|name| runs.join(name))
        );
        fs::remove_dir(&names[1]).unwrap();
        assert_eq!(create_numbered(&runs, "mini").unwrap(), names[1]);
    }

    #[test]
    fn f40_a_folder_in_use_and_an_impossible_one_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        assert!(RunDirectory::check_free(&out).is_ok());
        let run = RunDirectory::create(Some(&out), Preset::Mini).unwrap();
        assert!(RunDirectory::open(&out).is_err());
        assert!(
            RunDirectory::check_free(&out).is_ok(),
            "an empty folder will do"
        );
        fs::write(run.sample(), "").unwrap();
        assert!(
            RunDirectory::check_free(&out)
                .unwrap_err()
                .to_string()
                .contains("files in it")
        );
        fs::write(run.config(), "").unwrap();
        assert!(
            RunDirectory::check_free(&out)
                .unwrap_err()
                .to_string()
                .contains("--resume")
        );
        assert_eq!(RunDirectory::open(&out).unwrap(), run);
        let inside_a_file = run.config().join("x");
        assert!(RunDirectory::create(Some(&inside_a_file), Preset::Mini).is_err());
        assert!(RunDirectory::check_free(&run.config()).is_err());
    }

    #[test]
    fn the_newest_run_is_the_one_saved_last() {
        let folder = tempfile::tempdir().unwrap();
        assert!(RunDirectory::newest(&folder.path().join("none")).is_err());
        for name in ["a", "b", "c"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert!(RunDirectory::newest(folder.path()).is_err());
        for (name, seconds) in [("a", 10), ("b", 30), ("c", 20)] {
            let state =
                fs::File::create(folder.path().join(name).join("state.safetensors")).unwrap();
            state
                .set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
                .unwrap();
        }
        assert_eq!(
            RunDirectory::newest(folder.path()).unwrap().path(),
            folder.path().join("b")
        );
    }
}
