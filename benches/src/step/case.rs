//! What is trained, and with what.

use std::fmt;

use anyhow::Result;
use burtorch_data::{Batches, Windows};
use burtorch_gpt::config::{Config, EngineKind, Preset, Settings};
use burtorch_gpt::corpus::Source;
use burtorch_gpt::tokenizer::Tokenizer;

/// Symbols of the vocabulary, as many as tiny Shakespeare has, so that sizes are those that others report. The embedded text has a few
/// less.
pub(crate) const VOCABULARY: usize = 65;

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) preset: Preset,
    pub(crate) batch: usize,
    pub(crate) engine: EngineKind,
    pub(crate) threads: usize,
}

impl Case {
    /// The preset's settings, except that nothing is dropped and the learning rate is constant.
    pub(crate) fn config(&self) -> Result<Config> {
        let settings = Settings {
            preset: Some(self.preset),
            batch_size: Some(self.batch),
            engine: Some(self.engine),
            dropout: Some(0.0),
            warmup: Some(0),
            ..Settings::default()
        };
        let min_lr = Some(Config::resolve(&settings)?.lr);
        Ok(Config::resolve(&Settings { min_lr, ..settings })?)
    }

    /// Floating-point operations of a step.
    pub(crate) fn flops(&self) -> f64 {
        let model = self.preset.model(VOCABULARY);
        model.flops_per_token() * (self.batch * model.block_size) as f64
    }

    /// Whether others are measured beside this one: they have one engine, whatever ours is.
    pub(crate) fn has_rivals(&self) -> bool {
        self.engine == EngineKind::Tensor
    }

    /// The name of the engine on the command line.
    pub(crate) fn engine_name(&self) -> &'static str {
        match self.engine {
            EngineKind::Tensor => "tensor",
            EngineKind::Scalar => "scalar",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (preset, engine) = (self.preset.name(), self.engine_name());
        let (batch, threads) = (self.batch, self.threads);
        write!(formatter, "{preset}:{batch} {engine} threads {threads}")
    }
}

/// The embedded text as tokens.
pub(crate) fn tokens() -> Result<Vec<u32>> {
    let source = Source::load(None)?;
    let tokenizer = Tokenizer::characters_of(&source.text);
    Ok(tokenizer.encode(&source.text, &source.name)?)
}

/// The batches of a case, the same for all who make its steps.
pub(crate) fn batches<'a>(config: &Config, tokens: &'a [u32]) -> Result<Batches<'a>> {
    let windows = Windows::new(tokens, config.block_size)?;
    Ok(Batches::shuffled(windows, config.batch_size, config.seed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(preset: Preset, batch: usize) -> Case {
        Case {
            preset,
            batch,
            engine: EngineKind::Tensor,
            threads: 2,
        }
    }

    #[test]
    fn operations_are_those_of_the_presets() {
        // By hand, for mini: 6 · 43,032 weights in products and 12 · 6 layers · 8 positions · 24 numbers, for each of 8 tokens.
        let mini = (6.0 * 43_032.0 + 13_824.0) * 8.0;
        assert_eq!(case(Preset::Mini, 1).flops(), mini);
        for (preset, batch, expected) in [
            (Preset::Mini, 1, 2.18e6),
            (Preset::Mini, 64, 64.0 * 2.18e6),
            (Preset::Small, 12, 3.96e9),
            (Preset::Base, 4, 72.6e9),
        ] {
            let flops = case(preset, batch).flops();
            assert!((flops / expected - 1.0).abs() < 3e-3, "{preset:?}: {flops}");
        }
    }

    #[test]
    fn settings_are_those_of_the_preset_at_a_constant_rate() -> Result<()> {
        let config = case(Preset::Base, 4).config()?;
        assert_eq!((config.dropout, config.grad_clip), (0.0, 1.0));
        let schedule = config.schedule()?;
        let rate = |step| schedule.learning_rate(step);
        assert!(rate(0) == config.lr && rate(5_000_000) == config.lr);
        Ok(())
    }

    #[test]
    fn the_vocabulary_holds_the_text() -> Result<()> {
        let largest = tokens()?.into_iter().max();
        assert!(largest.is_some_and(|token| (token as usize) < VOCABULARY));
        Ok(())
    }

    #[test]
    fn a_case_is_named() {
        let name = case(Preset::Small, 12).to_string();
        assert_eq!(name, "small:12 tensor threads 2");
    }
}
