//! What is printed of one contestant.

use anyhow::Result;
use serde::Serialize;

use super::OURS;
use super::turns::{Contestant, Footprint};
use crate::limits::Peak;
use crate::report::number;

/// A line; its fields are what other programs read.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    bench: &'static str,
    preset: &'static str,
    batch: usize,
    /// Others have none of our engines.
    engine: Option<&'static str>,
    threads: usize,
    who: &'static str,
    ms: f64,
    min_ms: f64,
    times_limit: f64,
    peak_gflops: f64,
    peak_rss_mb: Option<f64>,
    start_ms: Option<f64>,
}

impl Row {
    pub(crate) fn new(mut contestant: Contestant<'_>, peak: Peak) -> Result<Self> {
        let Footprint {
            peak_rss_mb,
            start_ms,
        } = contestant.stepper.process()?;
        let case = contestant.case;
        let seconds = &mut contestant.seconds;
        seconds.sort_by(f64::total_cmp);
        let (least, median) = (seconds[0], seconds[seconds.len() / 2]);
        let limit = case.flops() / (peak.flops() * case.threads as f64);
        let is_ours = contestant.who == OURS;
        Ok(Self {
            bench: "step",
            preset: case.preset.name(),
            batch: case.batch,
            engine: is_ours.then(|| case.engine_name()),
            threads: case.threads,
            who: contestant.who,
            ms: 1e3 * median,
            min_ms: 1e3 * least,
            times_limit: least / limit,
            peak_gflops: peak.flops() / 1e9,
            peak_rss_mb,
            start_ms,
        })
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// The names of the columns of [`line`](Self::line).
    pub(crate) fn header() -> String {
        format!(
            "{:<6} {:>5} {:<6} {:>7} {:<13} {:>9} {:>9} {:>8} {:>9} {:>7} {:>9}",
            "preset",
            "batch",
            "engine",
            "threads",
            "who",
            "ms",
            "min ms",
            "x limit",
            "GFLOP/s",
            "RSS MB",
            "start ms"
        )
    }

    pub(crate) fn line(&self) -> String {
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
        format!(
            "{:<6} {:>5} {:<6} {:>7} {:<13} {:>9.4} {:>9.4} {:>8} {:>9} {:>7} {:>9}",
            self.preset,
            self.batch,
            self.engine.unwrap_or("-"),
            self.threads,
            self.who,
            self.ms,
            self.min_ms,
            number(self.times_limit),
            number(self.peak_gflops),
            shown(self.peak_rss_mb),
            shown(self.start_ms)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::case::Case;
    use crate::step::turns::Stepper;
    use burtorch_gpt::config::{EngineKind, Preset};

    struct Idle;

    impl Stepper for Idle {
        fn steps(&mut self, _: usize) -> Result<Vec<f64>> {
            Ok(Vec::new())
        }

        fn process(&mut self) -> Result<Footprint> {
            Ok(Footprint {
                peak_rss_mb: Some(9.5),
                start_ms: None,
            })
        }
    }

    #[test]
    fn the_json_has_every_field() -> Result<()> {
        let case = Case {
            preset: Preset::Mini,
            batch: 8,
            engine: EngineKind::Tensor,
            threads: 2,
        };
        let mut contestant = Contestant::new(case, "jax", Idle);
        contestant.seconds = vec![4e-3, 2e-3, 3e-3];
        // At this speed each of two threads does half of a step in a millisecond.
        let peak = Peak::of(case.flops() / 2.0 / 1e-3);
        let row = Row::new(contestant, peak)?;
        let expected = concat!(
            r#"{"bench":"step","preset":"mini","batch":8,"engine":null,"threads":2,"who":"jax","ms":3.0,"min_ms":2.0,"#,
            r#""times_limit":2.0,"peak_gflops":8.704512,"peak_rss_mb":9.5,"start_ms":null}"#
        );
        assert_eq!(row.json()?, expected);
        assert!(row.line().contains(" jax ") && row.line().ends_with(" -"));
        Ok(())
    }
}
