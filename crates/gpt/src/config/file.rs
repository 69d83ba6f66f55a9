//! Settings as a TOML file: the one a user writes, and the one a run keeps.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Table;

use super::{Config, Settings};
use crate::Error;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bpe::files::hexadecimal;

/// What a run notes about its circumstances beside its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Record {
    /// The version of this program that started the run.
    pub program_version: String,
    /// The text: a path, or the name of the embedded one.
    pub data_name: String,
    /// Fingerprint of the text's bytes, which tells whether it has changed; empty for an imported model.
    pub data_hash: String,
    /// SHA-256 of the tokenizer, in hexadecimal digits; empty for an imported model and for runs of before there was one.
    #[serde(default)]
    pub tokenizer_hash: String,
}

impl Record {
    /// For a model that was imported from a folder.
    #[must_use]
    pub fn imported(source: &Path) -> Self {
        Self {
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            data_name: format!("imported from {}", source.display()),
            data_hash: String::new(),
            tokenizer_hash: String::new(),
        }
    }

    /// Refuses another tokenizer than that of the run, which would give its tokens another meaning.
    ///
    /// # Errors
    ///
    /// [`Error::Content`], naming `path`.
    pub(crate) fn check(&self, tokenizer: &Tokenizer, path: &Path) -> Result<(), Error> {
        let (expected, found) = (&self.tokenizer_hash, hexadecimal(&tokenizer.sha256()));
        if expected.is_empty() || *expected == found {
            return Ok(());
        }
        let expected = format!("the tokenizer of the run, with the SHA-256 {expected}");
        Err(Error::content(path, expected, found))
    }

    /// Whether the model was imported, so that its text is not known.
    #[must_use]
    pub fn is_imported(&self) -> bool {
        self.data_hash.is_empty()
    }
}

/// A configuration file. Its settings have the names of the flags; the table `record` is there if a run wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigFile {
    /// The settings given in it.
    pub settings: Settings,
    /// The circumstances, in the file of a run.
    pub record: Option<Record>,
}

const RECORD: &str = "record";

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    config: &'a Config,
    record: &'a Record,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`Error::File`] or [`Error::Content`], naming `path`.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(Error::file(path, "read the configuration"))?;
        Self::parse(&text)
            .map_err(|error| Error::content(path, "a configuration", one_line(&error, &text)))
    }

    /// Reads the file of a run, which has a record.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load); [`Error::Content`] if there is no record.
    pub fn load_run(path: &Path) -> Result<(Settings, Record), Error> {
        let Self { settings, record } = Self::load(path)?;
        let missing = || Error::content(path, "the table `record` of a run", "none");
        Ok((settings, record.ok_or_else(missing)?))
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let mut table: Table = toml::from_str(text)?;
        let record = table.remove(RECORD).map(Record::deserialize).transpose()?;
        Ok(Self {
            settings: Settings::deserialize(table)?,
            record,
        })
    }

    /// The file of a run: its effective settings and its record.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if the path of the text is not UTF-8, or a number is none that the file could give back.
    pub fn text(config: &Config, record: &Record) -> Result<String, Error> {
        let text = toml::to_string(&Document { config, record })
            .map_err(|error| Error::setting("--data", "what a TOML file can hold", error))?;
        Self::parse(&text).map_err(|error| {
            Error::setting(
                "settings",
                "what a TOML file gives back",
                one_line(&error, &text),
            )
        })?;
        Ok(format!(
            "# The settings of this run, as `train --config` takes them.\n{text}"
        ))
    }
}

/// What is wrong, in one line, and in which line it is where that is known.
fn one_line(error: &toml::de::Error, text: &str) -> String {
    let joined = |message: &str| message.lines().collect::<Vec<_>>().join(" ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!(
            "line {}: {}",
            before.matches('\n').count() + 1,
            joined(error.message())
        ),
        // Without a place the whole error is the message and the name of the setting.
        None => joined(error.to_string().trim()),
    }
}

/// The first setting in `given` that differs from the run's: its name, the run's value and the given one.
///
/// The path of the data is left out, since a text may move; its fingerprint tells whether it is the same.
///
/// # Errors
///
/// [`Error::Setting`] for settings that a TOML file cannot hold.
pub(crate) fn contradiction(
    given: &Settings,
    run: &Config,
) -> Result<Option<(String, String, String)>, Error> {
    let given = table(&Settings {
        data: None,
        ..given.clone()
    })?;
    let run = table(&Config {
        data: None,
        ..run.clone()
    })?;
    let differs = |(name, given): (String, toml::Value)| {
        let stored = run.get(&name);
        let shown = stored.map_or_else(|| "none".into(), ToString::to_string);
        (stored != Some(&given)).then(|| (name, shown, given.to_string()))
    };
    Ok(given.into_iter().find_map(differs))
}

/// The first setting given that a model has otherwise: its name, the model's value and the given one. Dropout is no part of what a
/// model has learned.
///
/// # Errors
///
/// [`Error::Setting`] for settings that a TOML file cannot hold.
pub(crate) fn other_model(
    given: &Settings,
    model: &Settings,
) -> Result<Option<(String, String, String)>, Error> {
    let model = table(&Settings {
        dropout: None,
        ..model.clone()
    })?;
    let differs = |(name, given): (String, toml::Value)| {
        let stored = model.get(&name)?;
        (*stored != given).then(|| (name, stored.to_string(), given.to_string()))
    };
    Ok(table(given)?.into_iter().find_map(differs))
}

fn table(settings: &impl Serialize) -> Result<Table, Error> {
    Table::try_from(settings)
        .map_err(|error| Error::setting("settings", "what a TOML file can hold", error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    fn record() -> Record {
        Record {
            program_version: "0.1.0".into(),
            data_name: "x".into(),
            data_hash: "00ff".into(),
            tokenizer_hash: "ff00".into(),
        }
    }

    #[test]
    fn a_run_s_own_file_gives_the_same_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        for preset in [Preset::Mini, Preset::Small, Preset::Base] {
            let given = Settings {
                preset: Some(preset),
                data: Some("a b.txt".into()),
                ..Settings::default()
            };
            let config = Config::resolve(&given).unwrap();
            fs::write(&path, ConfigFile::text(&config, &record()).unwrap()).unwrap();
            let file = ConfigFile::load(&path).unwrap();
            assert_eq!(file.record, Some(record()));
            assert_eq!(Config::resolve(&file.settings).unwrap(), config);
        }
    }

    #[test]
    fn the_names_are_those_of_the_flags() {
        let text = "block-size = 32\nmin-lr = 1e-5\nactivation = \"relu\"\noptimizer = \"adamw\"\n";
        let settings = ConfigFile::parse(text).unwrap().settings;
        assert_eq!(
            (settings.block_size, settings.min_lr),
            (Some(32), Some(1e-5))
        );
    }

    #[test]
    fn wrong_files_are_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        for (text, word) in [
            ("stepz = 3", "stepz"),
            ("steps = -1", "steps"),
            ("steps = \"many\"", "steps"),
            ("seed = 1\nsteps = ", "configuration, found line 2: "),
            ("optimizer = \"sdg\"", "sdg"),
        ] {
            fs::write(&path, text).unwrap();
            let message = ConfigFile::load(&path).unwrap_err().to_string();
            assert!(
                message.contains(word) && !message.contains('\n'),
                "{message}"
            );
        }
        assert!(ConfigFile::load(folder.path()).is_err());
    }

    #[test]
    fn numbers_that_do_not_come_back_are_refused() {
        let mut config = Config::resolve(&Settings::default()).unwrap();
        config.eval_batches = u64::MAX;
        assert!(ConfigFile::text(&config, &record()).is_err());
    }

    #[test]
    fn a_contradiction_names_both_values() {
        let run = Config::resolve(&Settings {
            steps: Some(100),
            ..Settings::default()
        })
        .unwrap();
        let same = Settings {
            steps: Some(100),
            lr: Some(1e-3),
            data: Some("moved".into()),
            ..Settings::default()
        };
        assert_eq!(contradiction(&same, &run).unwrap(), None);
        let other = Settings {
            steps: Some(200),
            ..Settings::default()
        };
        assert_eq!(
            contradiction(&other, &run).unwrap(),
            Some(("steps".into(), "100".into(), "200".into()))
        );
    }
}
