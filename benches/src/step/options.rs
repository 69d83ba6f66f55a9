//! The command line of the suite, and the cases it names.

use std::path::PathBuf;
use std::process::Command;

use burtorch_gpt::config::{EngineKind, Preset};
use clap::{Parser, ValueEnum};

use super::case::Case;

/// Batch sizes of the preset mini, unless others are named.
const BATCHES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

const FIELDS: &str = "With --json each line has bench, preset, batch, engine (null for others), threads, who (burtorch, torch-eager, \
torch-compile, jax), ms (median of a step), min_ms, times_limit (min_ms over the operations of a step at peak_gflops on each thread), \
peak_gflops (one thread, the best of this contest), peak_rss_mb, start_ms (from the start of the process to the end of its first \
step). For ours, the last two are those of `burtorch-gpt train`; they are null where they cannot be measured.";

/// Whole training steps: forward, backward, clipping, optimizer, without dropout.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask bench step", after_help = FIELDS)]
pub(crate) struct Options {
    /// Presets with their batch sizes, as in mini:1,8,64; without sizes the preset's own, for mini 1,2,4,8,16,32,64
    #[arg(value_name = "PRESET[:BATCH,…]", value_parser = work, default_values = ["mini", "small", "base"])]
    works: Vec<Work>,
    /// Engines of ours; without a word the tensor engine everywhere and the scalar one on mini
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Option<Vec<EngineKind>>,
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_values = ["1", "2"], value_parser = at_least_one)]
    threads: Vec<usize>,
    /// Turns of each
    #[arg(long, default_value = "40", value_parser = at_least_one)]
    pub(crate) rounds: usize,
    /// Seconds after which a contest ends, though not before its fifth round
    #[arg(long, default_value = "60")]
    pub(crate) seconds: u64,
    /// A Python whose PyTorch and JAX, where it has them, make the same steps
    #[arg(long, value_name = "PATH", value_parser = a_python)]
    pub(crate) python: Option<PathBuf>,
    /// One object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// A preset with batch sizes.
#[derive(Clone, Debug, PartialEq)]
struct Work {
    preset: Preset,
    batches: Vec<usize>,
}

fn work(word: &str) -> Result<Work, String> {
    let (name, sizes) = word
        .split_once(':')
        .map_or((word, None), |(name, sizes)| (name, Some(sizes)));
    let preset = Preset::from_str(name, false)
        .map_err(|_| format!("expected mini, small or base, found `{name}`"))?;
    let batches = match sizes {
        Some(sizes) => sizes
            .split(',')
            .map(at_least_one)
            .collect::<Result<_, _>>()?,
        None if preset == Preset::Mini => BATCHES.to_vec(),
        None => vec![preset.settings().batch_size],
    };
    Ok(Work { preset, batches })
}

fn at_least_one(word: &str) -> Result<usize, String> {
    let number = word.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("expected a whole number above 0, found `{word}`"))
}

/// A program that says it is a Python: a mistake shows before anything is measured.
pub(crate) fn a_python(word: &str) -> Result<PathBuf, String> {
    let answer = Command::new(word).arg("--version").output();
    let answer =
        answer.map_err(|error| format!("expected a Python, which cannot be started: {error}"))?;
    // Old ones say it on the standard error.
    let said = [answer.stdout, answer.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    let version = said.concat();
    if version.starts_with("Python ") {
        return Ok(word.into());
    }
    let line = version.lines().next().unwrap_or_default();
    Err(format!(
        "expected a Python, found a program whose version is `{line}`"
    ))
}

impl Options {
    /// Reads the words behind the name of the suite.
    pub(crate) fn read(words: &[&str]) -> Result<Self, clap::Error> {
        Self::try_parse_from(std::iter::once(&"step").chain(words))
    }

    /// The cases of one preset and batch size, for each of these.
    pub(crate) fn contests(&self) -> Vec<Vec<Case>> {
        let works = self.works.iter();
        let sizes = works.flat_map(|work| work.batches.iter().map(|&batch| (work.preset, batch)));
        sizes
            .map(|(preset, batch)| self.cases(preset, batch))
            .collect()
    }

    fn cases(&self, preset: Preset, batch: usize) -> Vec<Case> {
        let case = |engine| {
            move |&threads| Case {
                preset,
                batch,
                engine,
                threads,
            }
        };
        let engines = self.engines_for(preset).iter();
        let cases = engines.flat_map(|&engine| self.threads.iter().map(case(engine)));
        cases.collect()
    }

    /// Steps of the larger presets take the scalar engine a second and more, so it makes them only if it is named.
    fn engines_for(&self, preset: Preset) -> &[EngineKind] {
        match &self.engines {
            Some(engines) => engines,
            None if preset == Preset::Mini => &[EngineKind::Tensor, EngineKind::Scalar],
            None => &[EngineKind::Tensor],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Options::read(&words).map_err(|error| error.to_string())
    }

    fn names(line: &str) -> Vec<String> {
        let contests = read(line).expect(line).contests();
        contests.iter().flatten().map(Case::to_string).collect()
    }

    #[test]
    fn without_a_word_everything_is_measured() {
        let all = names("");
        assert_eq!(all.len(), 7 * 2 * 2 + 2 + 2);
        for one in ["mini:64 scalar threads 2", "base:4 tensor threads 2"] {
            assert!(all.iter().any(|name| name == one), "{all:?}");
        }
    }

    #[test]
    fn a_quick_run_names_what_it_wants() {
        let line = "small mini:8,64 --threads 2 --engines tensor --rounds 3 --json";
        let expected = ["small:12", "mini:8", "mini:64"].map(|it| format!("{it} tensor threads 2"));
        assert_eq!(names(line), expected);
        let options = read(line).unwrap();
        assert!(options.json && options.rounds == 3 && options.python.is_none());
    }

    #[test]
    fn engines_that_are_named_are_measured_everywhere() {
        let found = names("mini:2 small --engines scalar --threads 1,2");
        let expected = ["mini:2", "small:12"]
            .map(|it| [1, 2].map(|threads| format!("{it} scalar threads {threads}")));
        assert_eq!(found, expected.as_flattened());
    }

    #[test]
    fn wrong_usage_is_named() {
        for (line, message) in [
            ("huge", "expected mini, small or base, found `huge`"),
            ("mini:0", "expected a whole number above 0, found `0`"),
            ("mini:", "expected a whole number above 0, found ``"),
            ("--threads two", "found `two`"),
            ("--engines fast", "possible values: tensor, scalar"),
            ("--fast", "unexpected argument '--fast'"),
            ("--python /no/python", "cannot be started"),
            (&format!("--python {}", env!("CARGO")), "version is `cargo"),
        ] {
            let problem = read(line).expect_err(line);
            assert!(problem.contains(message), "{line}: {problem}");
        }
    }
}
