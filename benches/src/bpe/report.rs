//! What is printed of one contestant.

use anyhow::Result;
use serde::Serialize;

use super::corpus::Corpus;
use super::task::{Task, Who};
use super::turn::Outcome;
use crate::report::number;

/// A line; its fields are what other programs read.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    work: String,
    corpus: String,
    threads: usize,
    who: &'static str,
    mb_per_s: f64,
    seconds: f64,
    peak_rss_mb: Option<f64>,
}

impl Row {
    /// The best of all turns; the memory is that of the smallest, since what others do never makes it less.
    pub(crate) fn new(task: Task, corpus: Corpus, bytes: u64, outcomes: &[Outcome]) -> Self {
        let seconds = outcomes.iter().map(|outcome| outcome.seconds);
        let seconds = seconds.fold(f64::INFINITY, f64::min);
        let memory = outcomes.iter().filter_map(|outcome| outcome.peak_rss_mb);
        Self {
            bench: "bpe",
            work: task.work.name(),
            corpus: corpus.name(),
            threads: task.threads,
            who: task.who.name(),
            mb_per_s: bytes as f64 / 1e6 / seconds,
            seconds,
            peak_rss_mb: memory.reduce(f64::min),
        }
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// The names of the columns of [`line`](Self::line).
    pub(crate) fn header() -> String {
        format!(
            "{:<12} {:<9} {:>7} {:<20} {:>9} {:>9} {:>8} {:>11}",
            "work", "corpus", "threads", "who", "MB/s", "seconds", "RSS MB", "x tiktoken"
        )
    }

    /// The row as a line of the table, beside tiktoken-rs if it is among the `rows` of the contest.
    pub(crate) fn line(&self, rows: &[Self]) -> String {
        let tiktoken = rows.iter().find(|row| row.who == Who::Tiktoken.name());
        let times = tiktoken.map_or("-".to_owned(), |row| number(self.mb_per_s / row.mb_per_s));
        let memory = self.peak_rss_mb.map_or("-".to_owned(), number);
        format!(
            "{:<12} {:<9} {:>7} {:<20} {:>9} {:>9} {:>8} {:>11}",
            self.work,
            self.corpus,
            self.threads,
            self.who,
            number(self.mb_per_s),
            number(self.seconds),
            memory,
            times
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::task::Work;

    #[test]
    fn the_best_turn_counts() {
        let outcome = |seconds, peak_rss_mb| Outcome {
            seconds,
            peak_rss_mb,
            check: 0,
        };
        let outcomes = [outcome(0.5, Some(20.0)), outcome(0.25, Some(30.0))];
        let row = |who, outcomes: &[Outcome]| {
            let task = Task {
                work: Work::EncodeCold,
                threads: 1,
                who,
            };
            Row::new(task, Corpus::English, 1_000_000, outcomes)
        };
        let ours = row(Who::Burtorch, &outcomes);
        let json = concat!(
            r#"{"bench":"bpe","work":"encode-cold","corpus":"english","threads":1,"who":"burtorch","#,
            r#""mb_per_s":4.0,"seconds":0.25,"peak_rss_mb":20.0}"#
        );
        assert_eq!(ours.json().unwrap(), json);
        let rows = [ours, row(Who::Tiktoken, &outcomes[..1])];
        assert!(rows[0].line(&rows).trim_end().ends_with(&number(2.0)));
        assert!(rows[0].line(&[]).ends_with('-'));
    }
}
