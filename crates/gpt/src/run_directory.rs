//! The folder of a run: which files it holds, and how it comes to be.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::Preset;
use crate::run_lock::{self, RunLock};
use crate::{Error, atomic_file};

/// Where runs go when nothing is said.
pub const RUNS: &str = "runs";

/// The folder of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes the folder of a new run, `out` or the first free `runs/PRESET-N`, and takes its lock. It becomes a run with its
    /// `config.toml`, which is to be written last.
    ///
    /// # Errors
    ///
    /// As [`check_free`](Self::check_free) and [`RunLock::take`], or [`Error::File`] if the folder cannot be made.
    pub fn create(out: Option<&Path>, preset: Preset) -> Result<(Self, RunLock), Error> {
        let path = match out {
            Some(out) => {
                Self::check_free(out)?;
                fs::create_dir_all(out).map_err(Error::file(out, "make the folder"))?;
                out.to_owned()
            }
            None => create_numbered(Path::new(RUNS), preset.name())?,
        };
        let lock = RunLock::take(&path)?;
        // Whoever had the lock until now may have made a run of the folder.
        Self::check_free(&path)?;
        Ok((Self { path }, lock))
    }

    /// Removes what a failed start has written; the folder too, unless it was there before or something else is in it.
    ///
    /// Best effort: what matters to the caller is the error that ended the start.
    pub fn discard(&self, keep_folder: bool) {
        for name in FILES {
            let _ = fs::remove_file(self.path.join(name));
        }
        if !keep_folder {
            let _ = fs::remove_file(self.path.join(run_lock::NAME));
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Whether a new run can go there: the folder does not exist, is empty, or holds nothing but what a start that was killed has left.
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
            Ok(entries) => match is_unused(out, entries) {
                true => Ok(()),
                false => Err(Error::content(
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
        let found = match (path.is_dir(), path.exists()) {
            (true, _) => "a folder without config.toml",
            (false, true) => "a file",
            (false, false) => "no folder",
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
            let run = Self::open(&path).ok()?;
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
        self.path.join(TOKENIZER)
    }

    /// The model as of the last save.
    #[must_use]
    pub fn model(&self) -> PathBuf {
        self.path.join(MODEL)
    }

    /// The model of the step with the lowest validation loss so far.
    #[must_use]
    pub fn best(&self) -> PathBuf {
        self.path.join(BEST)
    }

    /// The curves of the run.
    #[must_use]
    pub fn curve(&self) -> PathBuf {
        self.path.join(CURVE)
    }

    /// The state of training as of the last save.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path.join(STATE)
    }

    /// One line per step.
    #[must_use]
    pub fn metrics(&self) -> PathBuf {
        self.path.join(METRICS)
    }

    /// The latest text drawn from the model.
    #[must_use]
    pub fn sample(&self) -> PathBuf {
        self.path.join(SAMPLE)
    }
}

const CONFIG: &str = "config.toml";
const TOKENIZER: &str = "tokenizer.json";
const MODEL: &str = "model.safetensors";
const BEST: &str = "best.safetensors";
const CURVE: &str = "curve.svg";
const STATE: &str = "state.safetensors";
const METRICS: &str = "metrics.jsonl";
const SAMPLE: &str = "sample.txt";

/// The files of a run, in the order a start writes them, and then those it does not.
const FILES: [&str; 8] = [
    METRICS, TOKENIZER, STATE, MODEL, CONFIG, SAMPLE, BEST, CURVE,
];

/// Whether a folder without `config.toml` can be used: it holds only files of ours, and no metrics of any step, so that nothing
/// anybody trained is lost.
fn is_unused(out: &Path, entries: fs::ReadDir) -> bool {
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let temporary = FILES.map(|name| atomic_file::temporary_name(Path::new(name)));
    let known = |name: &OsString| {
        FILES.iter().any(|known| name == known) || temporary.iter().any(|known| known == name)
    };
    let mut others = names
        .iter()
        .filter(|name| *name != run_lock::NAME)
        .peekable();
    let nothing = others.peek().is_none();
    let no_step = || fs::metadata(out.join(METRICS)).is_ok_and(|metrics| metrics.len() == 0);
    nothing || (others.all(known) && no_step())
}

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
        let (run, lock) = RunDirectory::create(Some(&out), Preset::Mini).unwrap();
        let refused = RunDirectory::create(Some(&out), Preset::Mini).unwrap_err();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        drop(lock);
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
    fn what_a_killed_start_left_does_not_disturb_but_a_trained_model_does() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        for name in [
            METRICS,
            TOKENIZER,
            STATE,
            run_lock::NAME,
            ".model.safetensors.tmp",
        ] {
            fs::write(out.join(name), "").unwrap();
        }
        assert!(RunDirectory::check_free(out).is_ok());
        fs::write(out.join("letter"), "").unwrap();
        assert!(RunDirectory::check_free(out).is_err());
        fs::remove_file(out.join("letter")).unwrap();
        fs::write(out.join(METRICS), "{}").unwrap();
        assert!(RunDirectory::check_free(out).is_err());
        fs::remove_file(out.join(METRICS)).unwrap();
        assert!(RunDirectory::check_free(out).is_err());
    }

    #[test]
    fn a_file_is_no_folder_of_a_run() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let message = RunDirectory::open(file.path()).unwrap_err().to_string();
        assert!(message.ends_with("found a file"), "{message}");
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
            fs::write(folder.path().join(name).join(CONFIG), "").unwrap();
            let state = fs::File::create(folder.path().join(name).join(STATE)).unwrap();
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
