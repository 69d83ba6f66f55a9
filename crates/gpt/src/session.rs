//! A training run and its folder: start, step, save, stop, go on.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Instant;

use burtorch_data::{Batches, Windows, derive_seed};
use burtorch_tensor::{Params, Workspace};

use crate::best::Best;
use crate::checkpoint::{self, Snapshot};
use crate::config::{Config, ConfigFile, Record};
use crate::corpus::{Corpus, Source, Spread, training_text};
use crate::generation::Generator;
use crate::inference::Decoder;
use crate::memory::{Estimate, TextSize};
use crate::metrics::{Line, Metrics};
use crate::model::{Gpt, ModelConfig};
use crate::plan::Plan;
use crate::progress::note;
use crate::run_directory::RunDirectory;
use crate::run_lock::RunLock;
use crate::sampling::Sampling;
use crate::summary::Summary;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bpe::files::hexadecimal;
use crate::tokenizer::bpe::{self, BpeError, SplitRule};
use crate::trainer::Trainer;
use crate::{Error, atomic_file};

/// Steps over whose batches the training loss of the summary is averaged.
pub const LAST_LOSSES: usize = 100;

/// Characters or tokens of a sample drawn in training.
const SAMPLE_TOKENS: usize = 300;

/// Samples in training are drawn a little below the model's own distribution: fewer slips, still varied.
const SAMPLING: Sampling = Sampling {
    temperature: 0.8,
    top_k: 0,
    top_p: 1.0,
};

/// A training run.
pub struct Session<W> {
    config: Config,
    record: Record,
    directory: RunDirectory,
    tokenizer: Tokenizer,
    corpus: Corpus,
    trainer: Trainer<W>,
    metrics: Metrics,
    last_losses: VecDeque<f64>,
    best: Best,
    /// The step of the state in the folder.
    saved: u64,
    /// Seconds spent in steps by this process, and how many they were.
    stepping: (f64, u64),
    _lock: RunLock,
}

/// The batches of a run, in the order of its seed.
fn batches<'a>(config: &Config, corpus: &'a Corpus) -> Result<Batches<'a>, Error> {
    let windows = Windows::new(corpus.training(), config.block_size)?;
    let seed = derive_seed(config.seed, "shuffling");
    Ok(Batches::shuffled(windows, config.batch_size, seed)?)
}

/// A byte-pair encoding of so many tokens, learned from the part of a text that is trained on.
fn trained_tokenizer(size: &str, source: &Source) -> Result<Tokenizer, Error> {
    let wrong = |found: &str| {
        Error::setting(
            "--tokenizer",
            "bpe:SIZE with a size from 256 to 16777216",
            format!("bpe:{found}"),
        )
    };
    let vocabulary = size.parse().map_err(|_| wrong(size))?;
    let mut trainer = bpe::Trainer::new(SplitRule::Gpt2);
    trainer.add(training_text(&source.text).as_bytes())?;
    let trained = trainer.train(vocabulary).map_err(|error| match error {
        BpeError::VocabularySize { .. } => wrong(size),
        other => other.into(),
    })?;
    if let Some(shortfall) = trained.shortfall() {
        note(&format!("note: {shortfall}"));
    }
    Ok(Tokenizer::Bpe(Box::new(trained.bpe)))
}

/// The tokenizer in the file that was named.
fn given_tokenizer(path: &str) -> Result<Tokenizer, Error> {
    if Path::new(path).is_file() {
        return Tokenizer::load(Path::new(path));
    }
    let expected =
        "`char`, `bpe:SIZE`, or the file of a tokenizer, as tokenizer.json of another run";
    let found = format!("`{path}`, which is no file");
    Err(Error::setting("--tokenizer", expected, found))
}

/// Copies the weights of the model in the folder `origin`, which must be of the same sizes; its steps are not counted.
fn take_weights(origin: &Path, model: &Gpt, params: &mut Params<f32>) -> Result<u64, Error> {
    let path = RunDirectory::open(origin)?.model();
    let loaded = checkpoint::load_model(&path)?;
    // Dropout is no part of what a model has learned.
    let found = ModelConfig {
        dropout: model.config().dropout,
        ..loaded.model.config().clone()
    };
    if found != *model.config() {
        let (expected, found) = (format!("{:?}", model.config()), format!("{found:?}"));
        return Err(Error::content(&path, expected, found));
    }
    params.values_mut().copy_from_slice(loaded.params.values());
    Ok(0)
}

/// The text of a new run, its tokenizer and its tokens.
pub(crate) fn read(config: &Config) -> Result<(Source, Tokenizer, Corpus), Error> {
    let source = Source::load(config.data.as_deref())?;
    let name = config.tokenizer.as_str();
    let size = name.strip_prefix("bpe:");
    if source.tokens.is_some() && (name == "char" || size.is_some()) {
        let expected = format!(
            "the file of the tokenizer that made the tokens in {}",
            source.name
        );
        return Err(Error::setting("--tokenizer", expected, name));
    }
    let tokenizer = match (name, size) {
        ("char", _) => Tokenizer::characters_of(&source.text),
        (_, Some(size)) => trained_tokenizer(size, &source)?,
        (path, None) => given_tokenizer(path)?,
    };
    let corpus = Corpus::new(&source, &tokenizer, config.block_size)?;
    Ok((source, tokenizer, corpus))
}

/// The memory that a run on this text will take.
pub(crate) fn estimate(
    config: &Config,
    source: &Source,
    tokenizer: &Tokenizer,
    corpus: &Corpus,
    threads: usize,
) -> Result<Estimate, Error> {
    let encoded = corpus.encoded();
    let size = TextSize {
        bytes: source.text.len(),
        tokens: encoded.tokens().len(),
        token_bytes: encoded.bytes_in_memory(),
        byte_pairs: matches!(tokenizer, Tokenizer::Bpe(_)),
    };
    Estimate::of(config, tokenizer.size(), size, threads)
}

impl<W: Workspace<f32>> Session<W> {
    /// Starts or resumes a run. Everything is checked and made before the first file is written.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with settings, text, tokenizer, saved state or folder.
    pub fn open(plan: Plan, threads: usize) -> Result<Self, Error> {
        match plan {
            Plan::Fresh { config, out } => Self::start(config, out.as_deref(), threads),
            Plan::Resumed {
                config,
                record,
                directory,
            } => Self::resume(config, record, directory, threads),
        }
    }

    fn start(mut config: Config, out: Option<&Path>, threads: usize) -> Result<Self, Error> {
        let (source, tokenizer, corpus) = read(&config)?;
        estimate(&config, &source, &tokenizer, &corpus, threads)?.check()?;
        let record = Record {
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            data_hash: source.fingerprint(),
            data_name: source.name,
            tokenizer_hash: hexadecimal(&tokenizer.sha256()),
        };
        config.data = source.path;
        drop(source.text); // training needs the room
        let mut trainer = Trainer::new(&config, tokenizer.size(), threads)?;
        if let Some(origin) = &config.init_from {
            trainer.restore(|model, params, _| take_weights(origin, model, params))?;
        }

        let settings = ConfigFile::text(&config, &record)?;

        let keep_folder = out.is_some_and(Path::exists);
        let (directory, lock) = RunDirectory::create(out, config.preset)?;
        let begin = || {
            let metrics = Metrics::create(&directory.metrics())?;
            tokenizer.save(&directory.tokenizer())?;
            let mut this = Self {
                config,
                record,
                directory: directory.clone(),
                tokenizer,
                corpus,
                trainer,
                metrics,
                last_losses: VecDeque::new(),
                best: Best::default(),
                saved: 0,
                stepping: (0.0, 0),
                _lock: lock,
            };
            this.save()?;
            // Last, as it makes a run of the folder.
            atomic_file::replace(&directory.config(), |file| {
                file.write_all(settings.as_bytes())
            })?;
            Ok(this)
        };
        begin().inspect_err(|_| directory.discard(keep_folder))
    }

    fn resume(
        config: Config,
        record: Record,
        directory: RunDirectory,
        threads: usize,
    ) -> Result<Self, Error> {
        let lock = RunLock::take(directory.path())?;
        let source = Source::load(config.data.as_deref())?;
        let data_hash = source.fingerprint();
        if data_hash != record.data_hash {
            return Err(Error::DataChanged {
                name: source.name,
                original: record.data_name,
                expected: record.data_hash,
                found: data_hash,
            });
        }
        let tokenizer = Tokenizer::load(&directory.tokenizer())?;
        record.check(&tokenizer, &directory.tokenizer())?;
        let corpus = Corpus::new(&source, &tokenizer, config.block_size)?;
        estimate(&config, &source, &tokenizer, &corpus, threads)?.check()?;
        drop(source.text); // training needs the room
        let mut trainer = Trainer::new(&config, tokenizer.size(), threads)?;
        trainer.restore(|model, params, optimizer| {
            checkpoint::load_state(
                &directory.state(),
                model,
                params,
                optimizer,
                (&source.name, &data_hash),
            )
        })?;
        let (metrics, lines) = Metrics::resume(&directory.metrics(), trainer.steps())?;
        let skipped = lines.len().saturating_sub(LAST_LOSSES);
        let this = Self {
            config,
            record,
            directory,
            tokenizer,
            corpus,
            saved: trainer.steps(),
            trainer,
            metrics,
            last_losses: lines[skipped..].iter().map(|line| line.loss).collect(),
            best: Best::of(&lines),
            stepping: (0.0, 0),
            _lock: lock,
        };
        // The run may have been stopped between saving the state and saving the models.
        this.save_models()?;
        Ok(this)
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The circumstances.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The folder.
    #[must_use]
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// The tokenizer.
    #[must_use]
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The text.
    #[must_use]
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Model and optimizer.
    #[must_use]
    pub fn trainer(&self) -> &Trainer<W> {
        &self.trainer
    }

    /// Whether all steps have been made.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.trainer.steps() >= self.config.steps
    }

    /// The loss of a model that finds every token equally likely: `ln V` nats per token.
    #[must_use]
    pub fn guessing_loss(&self) -> f64 {
        (self.tokenizer.size() as f64).ln()
    }

    /// Makes a step with all that is due behind it: evaluation, sample, a line of metrics, a saved state.
    ///
    /// # Errors
    ///
    /// [`Error::Diverged`], and what the engine or the operating system refuse.
    pub fn advance(&mut self) -> Result<Line, Error> {
        let start = Instant::now();
        let batches = batches(&self.config, &self.corpus)?;
        let stepped = self.trainer.step(&batches);
        let report = stepped.map_err(|error| with_saved(error, self.saved))?;
        let seconds = start.elapsed().as_secs_f64();
        self.note(report.loss, seconds);

        let due = |every: u64| every > 0 && report.step.is_multiple_of(every);
        let evaluate = due(self.config.eval_every) || self.is_finished();
        let line = Line {
            step: report.step,
            loss: report.loss,
            lr: report.lr,
            grad_norm: report.grad_norm,
            tokens_per_s: (self.config.batch_size * self.config.block_size) as f64 / seconds,
            ms: 1e3 * seconds,
            val_loss: if evaluate {
                Some(self.finite_validation()?)
            } else {
                None
            },
            sample: if due(self.config.sample_every) {
                Some(self.sample()?)
            } else {
                None
            },
        };
        if let Some(loss) = line.val_loss {
            self.best.note(line.step, loss);
        }
        self.metrics.append(&line)?;
        if evaluate {
            self.save()?;
        }
        Ok(line)
    }

    fn note(&mut self, loss: f64, seconds: f64) {
        if self.last_losses.len() == LAST_LOSSES {
            self.last_losses.pop_front();
        }
        self.last_losses.push_back(loss);
        self.stepping = (self.stepping.0 + seconds, self.stepping.1 + 1);
    }

    /// The validation loss, which must be a number: else the weights are ruined, and the state saved before is worth more.
    fn finite_validation(&mut self) -> Result<f64, Error> {
        let choice = (self.config.eval_batches as usize).saturating_mul(self.config.batch_size);
        let loss = self.validate(choice)?;
        if loss.is_finite() {
            return Ok(loss);
        }
        Err(Error::Diverged {
            step: self.trainer.steps(),
            what: "validation loss",
            origin: format!("it is {loss} with the weights behind this step"),
            saved: Some(self.saved),
        })
    }

    /// Mean loss on the validation part, in nats per token: on all of its windows, or on so many of them, evenly spread. It is the same
    /// choice every time, so that losses can be compared.
    fn validate(&mut self, most: usize) -> Result<f64, Error> {
        let windows = Spread::new(self.corpus.validation(), self.config.block_size, most)?;
        self.trainer.evaluate(windows)
    }

    /// Draws a text and makes it the run's sample. The same step always gives the same text.
    ///
    /// It is drawn in the memory of training, which takes it back at its next step.
    fn sample(&mut self) -> Result<String, Error> {
        let seed = derive_seed(self.config.seed, "sample").wrapping_add(self.trainer.steps());
        self.trainer.release();
        let mut decoder = Decoder::new(self.trainer.model().config(), self.trainer.params())?;
        let prompt = [self.tokenizer.start()];
        // A sample shows how far the model is. It need not see as much as can be, which would take many times as long.
        let stride = self.config.block_size.div_ceil(2);
        let generator = Generator::new(&mut decoder, &prompt, SAMPLING, seed)?;
        let mut generator = generator.with_stride(stride)?;
        let text = self.tokenizer.decode(&generator.tokens(SAMPLE_TOKENS)?)?;
        atomic_file::replace(&self.directory.sample(), |file| writeln!(file, "{text}"))?;
        Ok(text)
    }

    /// Saves the state and the model. The metrics come first, so that no saved state is without its lines.
    fn save(&mut self) -> Result<(), Error> {
        self.metrics.sync()?;
        let (model, params) = (self.trainer.model(), self.trainer.params());
        let step = self.trainer.steps();
        let snapshot = Snapshot {
            step,
            model,
            params,
            optimizer: self.trainer.optimizer(),
            data_hash: &self.record.data_hash,
        };
        checkpoint::save_state(&self.directory.state(), &snapshot)?;
        self.saved = step;
        self.save_models()
    }

    /// Saves the state now, wherever the run stands, so that resuming it goes on from here.
    ///
    /// # Errors
    ///
    /// What the operating system refuses.
    pub fn save_now(&mut self) -> Result<(), Error> {
        if self.saved == self.trainer.steps() {
            return Ok(());
        }
        self.save()
    }

    /// Mean loss of the batches of the last steps, 100 at most, in nats per token; not a number before the first.
    #[must_use]
    pub fn training_loss(&self) -> f64 {
        self.last_losses.iter().sum::<f64>() / self.last_losses.len() as f64
    }

    /// The lowest validation loss so far.
    #[must_use]
    pub fn best(&self) -> &Best {
        &self.best
    }

    fn save_models(&self) -> Result<(), Error> {
        let (trainer, step) = (&self.trainer, self.trainer.steps());
        let save =
            |path: &Path| checkpoint::save_model(path, trainer.model(), trainer.params(), step);
        save(&self.directory.model())?;
        match self.best.found() {
            Some((best, _)) if best == step => save(&self.directory.best()),
            _ => Ok(()),
        }
    }

    /// Sums the run up when all steps are made, and draws the last sample.
    ///
    /// # Errors
    ///
    /// What the engine or the operating system refuse.
    pub fn summary(&mut self) -> Result<(Summary, String), Error> {
        let val_loss = self.validate(usize::MAX)?;
        let sample = self.sample()?;
        let (seconds, steps) = self.stepping;
        let per_step = (steps > 0).then(|| seconds / steps as f64);
        let tokens = (self.config.batch_size * self.config.block_size) as f64;
        let summary = Summary {
            steps: self.trainer.steps(),
            params: self.trainer.params().len(),
            train_loss: self.training_loss(),
            val_loss,
            best_step: self.best.found().map(|(step, _)| step),
            best_val_loss: self.best.found().map(|(_, loss)| loss),
            guessing_loss: self.guessing_loss(),
            ms_per_step: per_step.map(|seconds| 1e3 * seconds),
            tokens_per_s: per_step.map(|seconds| tokens / seconds),
            peak_rss_mb: crate::memory::peak_resident_bytes().map(|bytes| bytes as f64 / 1e6),
            seed: self.config.seed,
            out: self.directory.path().to_owned(),
        };
        Ok((summary, sample))
    }
}

/// The error of a step, with what the folder of the run holds.
fn with_saved(error: Error, step: u64) -> Error {
    match error {
        Error::Diverged {
            step: found,
            what,
            origin,
            ..
        } => Error::Diverged {
            step: found,
            what,
            origin,
            saved: Some(step),
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{OptimizerKind, Preset, Settings};
    use burtorch_tensor::TensorEngine;
    use std::fs;
    use std::path::PathBuf;

    type Tensors = Session<TensorEngine<f32>>;

    fn settings(steps: u64) -> Settings {
        Settings {
            block_size: Some(8),
            layers: Some(1),
            heads: Some(2),
            embed: Some(8),
            batch_size: Some(4),
            micro_batch: Some(2),
            dropout: Some(0.1),
            steps: Some(steps),
            eval_every: Some(5),
            sample_every: Some(4),
            eval_batches: Some(2),
            ..Settings::default()
        }
    }

    fn fresh(settings: &Settings, out: &Path) -> Tensors {
        Session::open(Plan::fresh(settings, Some(out)).unwrap(), 1).unwrap()
    }

    fn resumed(settings: &Settings, out: &Path) -> Result<Tensors, Error> {
        Session::open(Plan::resumed(settings, RunDirectory::open(out)?)?, 2)
    }

    fn advance(session: &mut Tensors, steps: u64) {
        (0..steps).for_each(|_| drop(session.advance().unwrap()));
    }

    /// All that must be equal: everything but the times.
    fn outcome(out: &Path) -> (Vec<u8>, Vec<u8>, Vec<Line>) {
        let run = RunDirectory::open(out).unwrap();
        let text = fs::read_to_string(run.metrics()).unwrap();
        let timeless = |line| Line {
            ms: 0.0,
            tokens_per_s: 0.0,
            ..serde_json::from_str(line).unwrap()
        };
        (
            fs::read(run.model()).unwrap(),
            fs::read(run.state()).unwrap(),
            text.lines().map(timeless).collect(),
        )
    }

    #[test]
    fn f29_a_broken_off_run_ends_with_the_bits_of_an_unbroken_one() {
        for optimizer in [OptimizerKind::Adamw, OptimizerKind::Sgd] {
            let settings = Settings {
                optimizer: Some(optimizer),
                ..settings(18)
            };
            let folder = tempfile::tempdir().unwrap();
            let (straight, broken) = (folder.path().join("a"), folder.path().join("b"));
            let mut session = fresh(&settings, &straight);
            advance(&mut session, 18);
            let expected = (
                session.summary().unwrap().0.train_loss,
                session.summary().unwrap().0.val_loss,
            );

            // Stops behind a save, between two saves, and at once; the lines behind the save are there already.
            advance(&mut fresh(&settings, &broken), 5);
            for steps in [7, 0, 3, 4] {
                advance(&mut resumed(&Settings::default(), &broken).unwrap(), steps);
            }
            let mut session = resumed(&Settings::default(), &broken).unwrap();
            assert_eq!(session.trainer().steps(), 10);
            advance(&mut session, 8);
            assert!(session.is_finished());
            assert!(outcome(&straight) == outcome(&broken), "{optimizer:?}");
            // As if it had been stopped between its last two files.
            fs::write(broken.join("model.safetensors"), "old").unwrap();
            let summary = session.summary().unwrap().0;
            assert_eq!((summary.train_loss, summary.val_loss), expected);
            drop(session);

            let again = resumed(&Settings::default(), &broken)
                .unwrap()
                .summary()
                .unwrap()
                .0;
            assert_eq!(
                (again.train_loss, again.val_loss, again.ms_per_step),
                (expected.0, expected.1, None)
            );
            assert!(outcome(&straight) == outcome(&broken), "{optimizer:?}");
        }
    }

    #[test]
    fn the_run_folder_holds_what_is_promised() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a");
        let mut session = fresh(&settings(10), &out);
        advance(&mut session, 10);
        let (summary, sample) = session.summary().unwrap();
        let run = session.directory().clone();
        assert_eq!(
            fs::read_to_string(run.sample()).unwrap(),
            format!("{sample}\n")
        );
        assert_eq!(sample.chars().count(), SAMPLE_TOKENS);
        let (_, _, lines) = outcome(&out);
        let marks: Vec<_> = lines
            .iter()
            .map(|line| (line.val_loss.is_some(), line.sample.is_some()))
            .collect();
        let expected: Vec<_> = (1..=10)
            .map(|step| (step % 5 == 0, step % 4 == 0))
            .collect();
        assert_eq!(marks, expected);
        // The last evaluation takes the windows that all take, the summary the whole part.
        assert_eq!(lines[9].val_loss, session.validate(2 * 4).ok());
        assert_ne!(lines[9].val_loss, Some(summary.val_loss));
        let loaded = checkpoint::load_model(&run.model()).unwrap();
        assert_eq!(
            (loaded.step, &loaded.params),
            (10, session.trainer().params())
        );
        assert!(
            !fs::read_dir(&out).unwrap().any(|f| f
                .unwrap()
                .file_name()
                .to_string_lossy()
                .ends_with(".tmp"))
        );
    }

    #[test]
    fn what_contradicts_the_run_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a");
        drop(fresh(&settings(10), &out));
        let message = |given: Settings| resumed(&given, &out).err().unwrap().to_string();
        let steps = message(Settings {
            steps: Some(11),
            ..Settings::default()
        });
        assert!(
            steps.starts_with("--steps: the run in ")
                && steps.contains("has 10, found 11; a run keeps the settings of its start")
                && steps.contains("depend on the number of steps; --init-from"),
            "{steps}"
        );
        assert!(
            message(Settings {
                preset: Some(Preset::Mini),
                ..Settings::default()
            })
            .contains("--preset")
        );
        assert!(
            resumed(
                &Settings {
                    steps: Some(10),
                    ..Settings::default()
                },
                &out
            )
            .is_ok()
        );
        assert!(
            Plan::fresh(&settings(10), Some(&out))
                .unwrap_err()
                .to_string()
                .contains("--resume")
        );
    }

    #[test]
    fn a_changed_text_is_refused_and_a_moved_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let text = |start: &str| format!("{start}{}", "the same old words. ".repeat(30));
        let with = |data: PathBuf| Settings {
            data: Some(data),
            ..Settings::default()
        };
        fs::write(path("text"), text("a")).unwrap();
        drop(fresh(
            &Settings {
                data: Some(path("text")),
                ..settings(10)
            },
            &path("out"),
        ));
        fs::rename(path("text"), path("moved")).unwrap();
        assert!(
            resumed(&Settings::default(), &path("out"))
                .err()
                .unwrap()
                .to_string()
                .contains("found no file")
        );
        assert!(resumed(&with(path("moved")), &path("out")).is_ok());
        fs::write(path("moved"), text("b")).unwrap();
        let error = resumed(&with(path("moved")), &path("out")).err().unwrap();
        assert!(matches!(error, Error::DataChanged { .. }), "{error}");
        let message = error.to_string();
        let words = ["text of 601 bytes, found another of 601 bytes that differs"];
        assert!(words.iter().all(|w| message.contains(w)), "{message}");
    }

    #[test]
    fn one_session_at_a_time_works_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a");
        let mut session = fresh(&settings(10), &out);
        advance(&mut session, 7);
        session.metrics.sync().unwrap();
        let before = outcome(&out);
        let error = resumed(&Settings::default(), &out).err().unwrap();
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        assert!(outcome(&out) == before, "the metrics were cut");
        drop(session);
        assert!(resumed(&Settings::default(), &out).is_ok());
    }

    #[test]
    fn f28_a_ruined_model_does_not_replace_the_saved_one() {
        let folder = tempfile::tempdir().unwrap();
        let ruin = Settings {
            preset: Some(Preset::Mini),
            lr: Some(3e38),
            eval_every: Some(1),
            ..settings(3)
        };
        let mut session = fresh(&ruin, folder.path());
        let before = fs::read(session.directory().state()).unwrap();
        let message = session.advance().unwrap_err().to_string();
        assert!(
            message.starts_with("step 1: the validation loss is not finite")
                && message
                    .contains("the folder of the run holds the untrained model only; a lower --lr"),
            "{message}"
        );
        assert!(fs::read(session.directory().state()).unwrap() == before);
    }

    #[test]
    fn a_failed_start_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a");
        let model = out.join("model.safetensors");
        fs::create_dir_all(model.join("in the way")).unwrap();
        fs::write(out.join("metrics.jsonl"), "").unwrap();
        let plan = Plan::fresh(&settings(10), Some(&out)).unwrap();
        let error = Tensors::open(plan, 1).err().unwrap().to_string();
        assert!(error.contains("model.safetensors: cannot write"), "{error}");
        let left: Vec<_> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != ".lock")
            .collect();
        assert_eq!(left, ["model.safetensors"]);
    }

    #[test]
    fn f34_another_seed_is_another_order_of_the_data() {
        let folder = tempfile::tempdir().unwrap();
        let session = fresh(&settings(1), folder.path());
        let order = |seed| {
            let config = Config {
                seed,
                ..session.config.clone()
            };
            let batches = batches(&config, &session.corpus).unwrap();
            batches.indices(0).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn f29_a_resumed_run_averages_as_many_losses_as_another() {
        let folder = tempfile::tempdir().unwrap();
        let long = Settings {
            eval_every: Some(120),
            ..settings(130)
        };
        let mut session = fresh(&long, folder.path());
        advance(&mut session, 125);
        drop(session);
        let mut session = resumed(&Settings::default(), folder.path()).unwrap();
        assert_eq!(session.last_losses.len(), LAST_LOSSES);
        advance(&mut session, 10);
        assert_eq!(session.last_losses.len(), LAST_LOSSES);
        let (_, _, lines) = outcome(folder.path());
        let last: f64 = lines[30..].iter().map(|line| line.loss).sum();
        let found = session.summary().unwrap().0.train_loss;
        assert!((found - last / 100.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn samples_differ_from_step_to_step() {
        let folder = tempfile::tempdir().unwrap();
        let still = Settings {
            lr: Some(0.0),
            sample_every: Some(1),
            ..settings(3)
        };
        let mut session = fresh(&still, folder.path());
        let mut sample = || session.advance().unwrap().sample.unwrap();
        assert_ne!(sample(), sample());
    }

    #[test]
    fn f35_a_state_that_is_cut_or_foreign_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        drop(fresh(&settings(10), &a));
        drop(fresh(
            &Settings {
                embed: Some(16),
                ..settings(10)
            },
            &b,
        ));
        let (run_a, run_b) = (
            RunDirectory::open(&a).unwrap(),
            RunDirectory::open(&b).unwrap(),
        );
        let whole = fs::read(run_a.state()).unwrap();
        for length in [0, 7, whole.len() / 2] {
            fs::write(run_a.state(), &whole[..length]).unwrap();
            let message = resumed(&Settings::default(), &a).err().unwrap().to_string();
            assert!(message.contains("state.safetensors: expected"), "{message}");
        }
        fs::copy(run_b.state(), run_a.state()).unwrap();
        assert!(resumed(&Settings::default(), &a).is_err());
        fs::remove_file(run_a.state()).unwrap();
        assert!(resumed(&Settings::default(), &a).is_err());
        assert!(!run_a.state().exists());
    }

    #[test]
    fn nothing_is_written_when_something_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let (data, out) = (folder.path().join("text"), folder.path().join("out"));
        fs::write(&data, "abcde").unwrap();
        let plan = Plan::fresh(
            &Settings {
                data: Some(data),
                ..settings(10)
            },
            Some(&out),
        )
        .unwrap();
        assert!(Tensors::open(plan, 1).is_err());
        let plan = Plan::fresh(
            &Settings {
                tokenizer: Some("nowhere.json".into()),
                ..settings(10)
            },
            Some(&out),
        )
        .unwrap();
        assert!(Tensors::open(plan, 1).is_err());
        assert!(!out.exists());
    }

    #[test]
    fn another_runs_tokenizer_can_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let tokenizer = fresh(&settings(10), &a).directory().tokenizer();
        let given = Settings {
            tokenizer: Some(tokenizer.display().to_string()),
            ..settings(10)
        };
        assert_eq!(
            fresh(&given, &b).tokenizer(),
            &Tokenizer::load(&tokenizer).unwrap()
        );
    }

    #[test]
    fn the_text_is_learned() {
        let folder = tempfile::tempdir().unwrap();
        let mut session = fresh(
            &Settings {
                lr: Some(0.01),
                dropout: Some(0.0),
                ..settings(200)
            },
            folder.path(),
        );
        advance(&mut session, 200);
        let summary = session.summary().unwrap().0;
        assert!(
            summary.train_loss < summary.guessing_loss - 1.0,
            "{summary:?}"
        );
        assert!(
            summary.val_loss < summary.guessing_loss - 1.0,
            "{summary:?}"
        );
    }
}
