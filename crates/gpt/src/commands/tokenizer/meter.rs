//! How far a long reading has come: a bar on a terminal, else a line now and then; on standard error.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::progress::note;
use crate::text::megabytes;

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(10);

/// Shows how much is done.
pub(super) struct Meter {
    bar: Option<ProgressBar>,
    /// The word for what is being done.
    doing: &'static str,
    last: Instant,
}

impl Meter {
    /// For so many bytes, if that is known.
    pub(super) fn new(doing: &'static str, bytes: Option<u64>) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let template = match bytes {
                Some(_) => "{msg} {bar:30} {bytes}/{total_bytes}, {eta} left",
                None => "{msg} {spinner} {bytes}",
            };
            let style = ProgressStyle::with_template(template);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = bytes.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            bar.with_style(style).with_message(doing)
        });
        Self {
            bar,
            doing,
            last: Instant::now(),
        }
    }

    /// So many bytes are done.
    pub(super) fn bytes(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        } else if self.last.elapsed() >= PAUSE {
            self.last = Instant::now();
            note(&format!("{} {}", self.doing, megabytes(done as f64)));
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
