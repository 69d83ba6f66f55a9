//! Writing text with models of the presets' sizes, on one thread: tokens a second, drawing included.
//!
//! A token costs one position as long as the block has room, and a window once it is full. So what is measured is told apart: a text
//! that ends with the block, one that moves the window on with every token, and one that moves it on by half a block at a time; each
//! with kept keys and values, and without. With a Python, `transformers` writes the same with the same weights, in turn with us.

mod options;
mod transformers;
mod work;

use anyhow::Result;
use burtorch_gpt::config::Preset;
use burtorch_gpt::inference::Decoder;
use burtorch_gpt::model::Gpt;
use burtorch_tensor::Params;
use serde::Serialize;

use crate::report::number;
use crate::rounds::{Limits, Times, in_turns_within};
pub(crate) use options::Options;
use transformers::Writer;
use work::{Text, Work};

/// Symbols that the model tells apart.
const VOCABULARY: usize = 65;

/// A line; its fields are what other programs read.
#[derive(Debug, Serialize)]
struct Row {
    bench: &'static str,
    preset: &'static str,
    text: &'static str,
    who: &'static str,
    cache: bool,
    us: f64,
    min_us: f64,
    tokens_per_s: f64,
}

/// Measures and prints what the options name.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.json {
        println!("{}", Row::header());
    }
    for &preset in &options.presets {
        contest(preset, options)?;
    }
    Ok(())
}

fn contest(preset: Preset, options: &Options) -> Result<()> {
    let config = preset.model(VOCABULARY);
    let mut params = Params::new();
    let model = Gpt::new(&config, &mut params, 1)?;
    let mut decoders = Vec::new();
    for _ in 0..work::ALL.len() {
        decoders.push(Decoder::new(model.config(), &params)?);
    }
    let theirs = match &options.python {
        None => None,
        Some(python) => Writer::start(python, preset, (&model, &params))?,
    };
    let ours = work::ALL.iter().zip(&mut decoders);
    let mut field = Vec::new();
    for (&(text, cache), decoder) in ours {
        field.push(Work::ours(text, cache, decoder)?);
    }
    if let Some(writer) = &theirs {
        field.extend(transformers::works(writer, config.block_size));
    }
    let mut calls = Vec::new();
    let mut names = Vec::new();
    for work in field {
        names.push((work.text, work.who, work.cache, work.tokens));
        calls.push(work.call);
    }
    let limits = Limits {
        rounds: options.rounds,
        seconds: options.seconds,
    };
    let times = in_turns_within(limits, &mut calls, || {});
    for ((text, who, cache, tokens), times) in names.into_iter().zip(times) {
        let row = Row::new(preset, (text, who, cache), tokens, times);
        if options.json {
            println!("{}", serde_json::to_string(&row)?);
        } else {
            println!("{}", row.line());
        }
    }
    Ok(())
}

impl Row {
    /// `times` are nanoseconds for so many tokens.
    fn new(
        preset: Preset,
        (text, who, cache): (Text, &'static str, bool),
        tokens: usize,
        times: Times,
    ) -> Self {
        let each = |nanoseconds: f64| nanoseconds / 1e3 / tokens as f64;
        Self {
            bench: "generate",
            preset: preset.name(),
            text: text.name(),
            who,
            cache,
            us: each(times.median),
            min_us: each(times.minimum),
            tokens_per_s: 1e6 / each(times.minimum),
        }
    }

    /// The names of the columns of [`line`](Self::line).
    fn header() -> String {
        format!(
            "{:<6} {:<12} {:<12} {:<6} {:>10} {:>10} {:>10}",
            "preset", "text", "who", "cache", "us", "min us", "tokens/s"
        )
    }

    fn line(&self) -> String {
        format!(
            "{:<6} {:<12} {:<12} {:<6} {:>10} {:>10} {:>10.0}",
            self.preset,
            self.text,
            self.who,
            if self.cache { "yes" } else { "no" },
            number(self.us),
            number(self.min_us),
            self.tokens_per_s
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_for_one_token() {
        let times = Times {
            minimum: 8e4,
            median: 16e4,
        };
        let row = Row::new(Preset::Mini, (Text::Block, "burtorch", true), 8, times);
        assert_eq!((row.us, row.min_us, row.tokens_per_s), (20.0, 10.0, 1e5));
        let json = concat!(
            r#"{"bench":"generate","preset":"mini","text":"block","who":"burtorch","cache":true,"us":20.0,"#,
            r#""min_us":10.0,"tokens_per_s":100000.0}"#
        );
        assert_eq!(serde_json::to_string(&row).unwrap(), json);
        assert!(row.line().ends_with(" 100000"));
    }

    #[test]
    fn a_short_run_measures_everything() -> Result<()> {
        let options = Options::read(&["mini", "--json", "--rounds", "1", "--seconds", "0"])?;
        run(&options)
    }
}
