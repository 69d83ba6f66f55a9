//! What is shown while training: a bar on a terminal, else plain lines; on standard error in both cases.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::metrics::Line;
use crate::text::{duration, grouped};

/// About how many plain lines a run gets beside those of its evaluations.
const LINES: u64 = 20;

/// Shows the steps of one run.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    steps: u64,
    first: u64,
    start: Instant,
    recent: Recent,
}

/// What the steps since the last line come to.
#[derive(Default)]
struct Recent {
    steps: f64,
    /// Sum of the steps' losses.
    losses: f64,
    tokens: f64,
    seconds: f64,
}

impl Recent {
    fn add(&mut self, line: &Line) {
        let seconds = line.ms / 1e3;
        self.steps += 1.0;
        self.losses += line.loss;
        self.tokens += line.tokens_per_s * seconds;
        self.seconds += seconds;
    }
}

impl Progress {
    /// For a run of `steps` steps of which `made` are behind it.
    #[must_use]
    pub(crate) fn new(made: u64, steps: u64) -> Self {
        let bar = stderr().is_terminal().then(|| bar(made, steps));
        Self {
            bar,
            steps,
            first: made,
            start: Instant::now(),
            recent: Recent::default(),
        }
    }

    /// Shows a step, if it is time to.
    pub(crate) fn show(&mut self, line: &Line) {
        self.recent.add(line);
        let evaluated = line.val_loss.is_some();
        if let Some(bar) = &self.bar {
            bar.set_position(line.step);
            bar.set_message(self.moving(line));
        }
        let stride = (self.steps / LINES).max(1);
        let due = line.step == self.first + 1 || line.step.is_multiple_of(stride);
        if evaluated || (due && self.bar.is_none()) {
            let (step, steps) = (grouped(line.step), grouped(self.steps));
            self.note(&format!("step {step}/{steps}  {}", self.describe(line)));
            self.recent = Recent::default();
        }
        if let Some(sample) = &line.sample {
            self.note(&format!(
                "--- sample at step {} ---\n{}\n---",
                line.step,
                sample.trim_matches('\n')
            ));
        }
    }

    /// Shows a text of its own.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => note(text),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// All there is to say behind a step.
    fn describe(&self, line: &Line) -> String {
        let Line { val_loss, lr, .. } = line;
        let validation = val_loss.map_or_else(String::new, |loss| format!("  val loss {loss:.4}"));
        let (loss, speed) = (self.loss(), self.speed(line));
        format!("loss {loss:.4}{validation}  lr {lr:.2e}  {speed}")
    }

    /// What moves, for beside the bar, where 80 columns must do.
    fn moving(&self, line: &Line) -> String {
        format!("loss {:.4}  {}", self.loss(), self.speed(line))
    }

    /// The mean loss since the last line.
    fn loss(&self) -> f64 {
        self.recent.losses / self.recent.steps
    }

    /// Tokens a second since the last line, and the time left.
    fn speed(&self, line: &Line) -> String {
        let made = (line.step - self.first).max(1);
        let seconds = self.start.elapsed().as_secs_f64() / made as f64;
        let left = seconds * (self.steps - line.step) as f64;
        let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
        let left = if left > Duration::ZERO {
            format!("  {} left", duration(left))
        } else {
            String::new()
        };
        let speed = grouped((self.recent.tokens / self.recent.seconds) as u64);
        format!("{speed} tokens/s{left}")
    }
}

/// Writes a text to standard error. If nobody reads it, that is no reason to stop.
pub(crate) fn note(text: &str) {
    let _ = writeln!(stderr().lock(), "{text}");
}

fn bar(made: u64, steps: u64) -> ProgressBar {
    let template = "{bar:16} {human_pos}/{human_len}  {wide_msg}";
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(steps).with_style(style);
    bar.set_position(made);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_all() {
        let progress = Progress {
            bar: None,
            steps: 2000,
            first: 0,
            start: Instant::now(),
            recent: Recent {
                steps: 4.0,
                losses: 5.0,
                tokens: 768_000.0,
                seconds: 2.0,
            },
        };
        let line = Line {
            step: 2000,
            loss: 2.0,
            lr: 1e-4,
            grad_norm: 0.5,
            tokens_per_s: 1.0,
            ms: 1.0,
            val_loss: Some(1.5),
            sample: None,
        };
        // The mean of the steps, not the loss of the last.
        let expected = "loss 1.2500  val loss 1.5000  lr 1.00e-4  384,000 tokens/s";
        assert_eq!(progress.describe(&line), expected);
        assert_eq!(progress.moving(&line), "loss 1.2500  384,000 tokens/s");
        let middle = Line {
            step: 1000,
            val_loss: None,
            ..line
        };
        assert!(progress.describe(&middle).contains("tokens/s  0 s left"));
        let endless = Progress {
            steps: u64::MAX,
            start: Instant::now() - Duration::from_secs(100),
            ..progress
        };
        assert!(
            endless
                .describe(&Line { step: 1, ..middle })
                .ends_with("min left")
        );
    }
}
