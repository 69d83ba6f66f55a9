//! A run before its first step: what is asked for, checked against what is there.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::checkpoint;
use crate::config::{Config, ConfigFile, Record, Settings, contradiction, other_model};
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
    /// [`Error::Setting`] for impossible settings, [`Error::Content`] if `out` is in use; those of [`with_origin`].
    pub fn fresh(given: &Settings, out: Option<&Path>) -> Result<Self, Error> {
        let config = Config::resolve(&with_origin(given)?)?;
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
        if !directory.state().exists() {
            let (expected, found) = (
                "a saved state to resume",
                "none; an imported model is trained with --init-from",
            );
            return Err(Error::content(directory.path(), expected, found));
        }
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

/// Fills the gaps in `given` with the sizes of the model that training is to start from (`--init-from`), and its tokenizer.
///
/// # Errors
///
/// [`Error::Contradiction`] if another model was asked for, and whatever is wrong with the folder or the file.
pub fn with_origin(given: &Settings) -> Result<Settings, Error> {
    let Some(origin) = &given.init_from else {
        return Ok(given.clone());
    };
    let run = RunDirectory::open(origin)?;
    let model = Settings::of_model(&checkpoint::model_config(&run.model())?);
    if let Some((name, stored, given)) = other_model(given, &model)? {
        return Err(Error::Contradiction {
            name,
            run: origin.clone(),
            stored,
            given,
        });
    }
    let tokenizer = run.tokenizer();
    let shown = tokenizer.to_str().map(str::to_owned);
    let shown = shown.ok_or_else(|| Error::content(&tokenizer, "a path in UTF-8", "another"))?;
    Ok(given.clone().over(Settings {
        tokenizer: Some(shown),
        ..model
    }))
}
