//! The command line of the suite.

use std::path::PathBuf;

use burtorch_gpt::config::Preset;
use clap::Parser;

const FIELDS: &str = "Texts, by models of the presets' sizes with 65 symbols, drawn at temperature 0.8:
  block    from one token on, as many as the block holds: each costs one position, if keys and values are kept
  beyond   behind a full block, the window moving on with every token: each costs the whole window
  stride   behind a full block, the window moving on by half a block at once (generate --stride)

With --python, transformers (GPT2LMHeadModel, one thread) writes with the same weights: block by its generate, and without kept keys and \
values, block and beyond, in a loop as nanoGPT's. It must write our tokens at temperature 0. What goes through the pipe is measured too, \
some tens of microseconds a turn.

With --json each line has bench, preset, text, who (burtorch or transformers), cache (whether keys and values are kept), us (median, a token), \
min_us, tokens_per_s (by min_us).";

/// Text from models of the presets, one thread, with and without kept keys and values in turns.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask bench generate", after_help = FIELDS)]
pub(crate) struct Options {
    /// Presets
    #[arg(value_name = "PRESET", value_enum, default_values = ["mini", "small"])]
    pub(crate) presets: Vec<Preset>,
    /// Turns of each
    #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Seconds after which a preset ends, though not before its third round
    #[arg(long, default_value = "60")]
    pub(crate) seconds: u64,
    /// A Python whose transformers, where it has them, write the same texts
    #[arg(long, value_name = "PATH", value_parser = crate::step::a_python)]
    pub(crate) python: Option<PathBuf>,
    /// One object per line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// Reads the words behind the name of the suite.
    pub(crate) fn read(words: &[&str]) -> Result<Self, clap::Error> {
        Self::try_parse_from(std::iter::once(&"generate").chain(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() {
        let options = Options::read(&[]).unwrap();
        assert_eq!(options.presets, [Preset::Mini, Preset::Small]);
        let options = Options::read(&["base", "--rounds", "3", "--json"]).unwrap();
        assert!(options.presets == [Preset::Base] && options.rounds == 3 && options.json);
    }

    #[test]
    fn wrong_usage_is_named() {
        for (words, message) in [
            (&["huge"][..], "'huge'"),
            (&["--rounds", "0"], "'0'"),
            (&["--fast"], "'--fast'"),
            (&["--python", "/no/python"], "cannot be started"),
        ] {
            let problem = Options::read(words).unwrap_err().to_string();
            assert!(problem.contains(message), "{problem}");
        }
    }
}
