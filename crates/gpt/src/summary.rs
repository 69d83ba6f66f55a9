//! What a finished run comes to.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::text::{grouped, quoted};

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
    /// The step with the lowest validation loss of all evaluations, whose model is `best.safetensors`; none without an evaluation.
    pub best_step: Option<u64>,
    /// That loss, on the windows that every evaluation takes; nats per token.
    pub best_val_loss: Option<f64>,
    /// Mean time of the steps this process made, in milliseconds; none if it made none.
    pub ms_per_step: Option<f64>,
    /// Training tokens per second of that time.
    pub tokens_per_s: Option<f64>,
    /// Largest resident memory of the process in units of 10⁶ bytes, where the system tells.
    pub peak_rss_mb: Option<f64>,
    /// Seed of the run.
    pub seed: u64,
    /// The folder of the run; in JSON as it is shown, since a path need not be UTF-8.
    #[serde(serialize_with = "shown")]
    pub out: PathBuf,
}

impl Summary {
    /// The lines for a reader, with a sample of text in their middle; `program` is what this program is called by.
    #[must_use]
    pub fn text(&self, sample: &str, program: &str) -> String {
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
        let best = self.best();
        let out = self.out.display();
        format!(
            "after {} steps{speed}{memory}\n\
             training loss    {train_loss:.4} nats per token (mean of the last steps)\n\
             validation loss  {val_loss:.4} nats per token (whole validation part)\n{best}\
             guessing         {guessing_loss:.4} nats per token\n\
             \n--- sample ---\n{}\n--- end of the sample ---\n\n\
             saved in {out}; more text: {} generate --model {}",
            grouped(*steps),
            sample.trim_matches('\n'),
            quoted(program),
            quoted(&out.to_string()),
        )
    }
}

impl Summary {
    /// A line about the best model, if that is another than the last.
    fn best(&self) -> String {
        match (self.best_step, self.best_val_loss) {
            (Some(step), Some(loss)) if step != self.steps => format!(
                "lowest           {loss:.4} behind step {}, on the windows of every evaluation: that model is kept too, for generate and eval with \
                 --best\n",
                grouped(step)
            ),
            _ => String::new(),
        }
    }
}

fn shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(out: PathBuf) -> Summary {
        Summary {
            steps: 1000,
            params: 1,
            train_loss: 1.5,
            val_loss: 2.5,
            guessing_loss: 4.0,
            best_step: Some(400),
            best_val_loss: Some(2.25),
            ms_per_step: None,
            tokens_per_s: None,
            peak_rss_mb: None,
            seed: 1,
            out,
        }
    }

    #[test]
    fn the_command_for_more_text_can_be_pasted() {
        let text = summary("my runs/a".into()).text("once", "target/debug/burtorch-gpt");
        let command = "more text: target/debug/burtorch-gpt generate --model 'my runs/a'";
        assert!(text.ends_with(command), "{text}");
        assert!(text.contains("2.2500 behind step 400"), "{text}");
        let last = Summary {
            best_step: Some(1000),
            ..summary("a".into())
        };
        assert!(!last.text("once", "x").contains("--best"));
    }

    #[cfg(unix)]
    #[test]
    fn f40_a_folder_that_is_not_utf_8_is_no_failure() {
        use std::os::unix::ffi::OsStringExt;
        let out = std::ffi::OsString::from_vec(b"ru\xFFn".to_vec());
        let json = serde_json::to_string(&summary(out.into())).unwrap();
        assert!(json.ends_with("\"out\":\"ru\u{FFFD}n\"}"), "{json}");
    }
}
