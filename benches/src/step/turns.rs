//! Measuring in turns.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::case::Case;
use super::options::Options;
use crate::limits::Peak;

/// About how long a turn is.
const TURN: f64 = 20e-3;

/// Rounds that are made however long they take.
const LEAST_ROUNDS: usize = 5;

/// Something that makes training steps.
pub(crate) trait Stepper {
    /// The seconds that each of the next steps takes.
    fn steps(&mut self, count: usize) -> Result<Vec<f64>>;

    /// Largest resident memory and time to the first step of a process that trains like this, as far as they can be measured.
    fn process(&mut self) -> Result<Footprint>;
}

/// What a process takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Footprint {
    pub(crate) peak_rss_mb: Option<f64>,
    pub(crate) start_ms: Option<f64>,
}

/// One who makes the steps of a case, and how long they took.
pub(crate) struct Contestant<'a> {
    pub(crate) case: Case,
    pub(crate) who: &'static str,
    pub(crate) stepper: Box<dyn Stepper + 'a>,
    pub(crate) seconds: Vec<f64>,
    /// Steps of a turn.
    count: usize,
}

impl<'a> Contestant<'a> {
    pub(crate) fn new(case: Case, who: &'static str, stepper: impl Stepper + 'a) -> Self {
        Self {
            case,
            who,
            stepper: Box::new(stepper),
            seconds: Vec::new(),
            count: 1,
        }
    }

    /// Finds out how many steps make a turn; what is slow in the first steps is over then.
    fn warm_up(&mut self) -> Result<()> {
        self.stepper.steps(2)?;
        let seconds = self.stepper.steps(1)?[0];
        self.count = steps_per_turn(seconds);
        Ok(())
    }

    /// What the others left in the caches is not measured, unless steps are so long that it does not matter.
    fn turn(&mut self) -> Result<()> {
        let unmeasured = usize::from(self.count > 1);
        let seconds = self.stepper.steps(self.count + unmeasured)?;
        self.seconds.extend(&seconds[unmeasured..]);
        Ok(())
    }
}

fn steps_per_turn(seconds: f64) -> usize {
    (TURN / seconds).max(1.0) as usize
}

/// When a contest ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    rounds: usize,
    time: Duration,
}

impl Limits {
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            rounds: options.rounds,
            time: Duration::from_secs(options.seconds),
        }
    }

    fn reached(&self, round: usize, start: Instant) -> bool {
        round >= self.rounds || (round >= LEAST_ROUNDS && start.elapsed() > self.time)
    }
}

/// Lets all take turns, and the probe of the peak with them, which is returned.
pub(crate) fn run(field: &mut [Contestant<'_>], limits: Limits) -> Result<Peak> {
    let mut peak = Peak::default();
    for contestant in &mut *field {
        contestant.warm_up()?;
    }
    let start = Instant::now();
    let mut round = 0;
    while !limits.reached(round, start) {
        for contestant in &mut *field {
            peak.probe();
            contestant.turn()?;
        }
        round += 1;
    }
    Ok(peak)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_gpt::config::{EngineKind, Preset};

    /// Takes as many milliseconds as it has made steps.
    struct Tiring(usize);

    impl Stepper for Tiring {
        fn steps(&mut self, count: usize) -> Result<Vec<f64>> {
            self.0 += count;
            Ok((self.0 - count..self.0).map(|i| 1e-3 * i as f64).collect())
        }

        fn process(&mut self) -> Result<Footprint> {
            Ok(Footprint::default())
        }
    }

    #[test]
    fn turns_follow_the_warm_up_and_leave_out_their_first_step() -> Result<()> {
        let case = Case {
            preset: Preset::Mini,
            batch: 1,
            engine: EngineKind::Tensor,
            threads: 1,
        };
        let mut field = [Contestant::new(case, "burtorch", Tiring(0))];
        let limits = Limits {
            rounds: 2,
            time: Duration::MAX,
        };
        run(&mut field, limits)?;
        // Steps 0 to 2 were the warm-up, the last of which took 2 ms: ten make a turn.
        assert_eq!(field[0].seconds.len(), 20);
        assert_eq!(field[0].seconds[0], 1e-3 * 4.0);
        assert_eq!(field[0].seconds[10], 1e-3 * 15.0);
        Ok(())
    }

    #[test]
    fn time_ends_a_contest_but_not_too_early() {
        let limits = Limits {
            rounds: 100,
            time: Duration::ZERO,
        };
        let start = Instant::now() - Duration::from_secs(1);
        assert!(!limits.reached(LEAST_ROUNDS - 1, start) && limits.reached(LEAST_ROUNDS, start));
    }

    #[test]
    fn long_steps_fill_a_turn_alone() {
        assert_eq!([1e-3, 0.5].map(steps_per_turn), [20, 1]);
    }
}
