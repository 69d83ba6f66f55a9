//! A run before its first step: what is asked for, checked against what is there.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::config::{Config, ConfigFile, Record, Settings, contradiction};
use crate::run_directory::RunDirectory;

/// A run with its settings known and its engine not yet chosen.
#[derive(Debug)]
pub enum Plan {
    /// A run to be started.
    Fresh {
        /// Its settings.
        config: Config,
        /// Its folder, if one was named.
        out: Option<PathBuf>,
    },
    /// A run to be gone on with.
    Resumed {
        /// Its settings.
        config: Config,
        /// What it noted when it started.
        record: Record,
        /// Its folder.
        directory: RunDirectory,
    },
}

impl Plan {
    /// A new run.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] for impossible settings, [`Error::Content`] if `out` is in use.
    pub fn fresh(given: &Settings, out: Option<&Path>) -> Result<Self, Error> {
        let config = Config::resolve(given)?;
        if let Some(out) = out {
            RunDirectory::check_free(out)?;
        }
        Ok(Self::Fresh {
            config,
            out: out.map(Path::to_owned),
        })
    }

    /// The run in `directory`, whose settings `given` must not contradict; only the path of the text may differ.
    ///
    /// # Errors
    ///
    /// [`Error::Contradiction`], [`Error::Content`], [`Error::File`].
    pub fn resumed(given: &Settings, directory: RunDirectory) -> Result<Self, Error> {
        let path = directory.config();
        let (settings, record) = ConfigFile::load_run(&path)?;
        let mut config = Config::resolve(&settings)
            .map_err(|e| Error::content(&path, "possible settings", e.to_string()))?;
        if let Some((name, stored, given)) = contradiction(given, &config)? {
            return Err(Error::Contradiction {
                name,
                run: directory.path().to_owned(),
                stored,
                given,
            });
        }
        config.data = given.data.clone().or(config.data);
        Ok(Self::Resumed {
            config,
            record,
            directory,
        })
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        match self {
            Self::Fresh { config, .. } | Self::Resumed { config, .. } => config,
        }
    }
}
