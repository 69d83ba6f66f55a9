//! What a finished run comes to.

use std::path::PathBuf;

use serde::Serialize;

use crate::text::grouped;

/// The end of a run: one JSON object with `--json`, else a few lines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Optimizer steps.
    pub steps: u64,
    /// Parameters of the model, shared ones once.
    pub params: usize,
    /// Mean loss of the batches of the last steps, 100 at most, each before its step; nats per token.
    pub train_loss: f64,
    /// Loss over the whole validation part; nats per token.
    pub val_loss: f64,
    /// Loss of a model that finds all tokens equally likely; nats per token.
    pub guessing_loss: f64,
    /// Mean time of the steps this process made, in milliseconds; none if it made none.
    pub ms_per_step: Option<f64>,
    /// Training tokens per second of that time.
    pub tokens_per_s: Option<f64>,
    /// Largest resident memory of the process in units of 10⁶ bytes, where the system tells.
    pub peak_rss_mb: Option<f64>,
    /// Seed of the run.
    pub seed: u64,
    /// The folder of the run.
    pub out: PathBuf,
}

impl Summary {
    /// The lines for a reader, with a sample of text in their middle.
    #[must_use]
    pub fn text(&self, sample: &str) -> String {
        let Self {
            steps,
            train_loss,
            val_loss,
            guessing_loss,
            ..
        } = self;
        let speed = match (self.ms_per_step, self.tokens_per_s) {
            (Some(ms), Some(tokens)) => {
                format!(", {ms:.1} ms per step, {} tokens/s", grouped(tokens as u64))
            }
            _ => String::new(),
        };
        let memory = self
            .peak_rss_mb
            .map_or_else(String::new, |mb| format!(", {mb:.0} MB at most"));
        let out = self.out.display();
        format!(
            "after {} steps{speed}{memory}\n\
             training loss    {train_loss:.4} nats per token (mean of the last steps)\n\
             validation loss  {val_loss:.4} nats per token (whole validation part)\n\
             guessing         {guessing_loss:.4} nats per token\n\
             \n--- sample ---\n{}\n--- end of the sample ---\n\n\
             saved in {out}; more text: burtorch-gpt generate --model {out}",
            grouped(*steps),
            sample.trim_matches('\n'),
        )
    }
}
