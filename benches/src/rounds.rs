//! Measuring in turns: a busy machine then slows all contenders down, not one of them.

use std::time::{Duration, Instant};

use crate::contender::{Contender, Contest};

const ROUNDS: usize = 400;

/// How long one contender runs before it is the next one's turn. Short, so that some rounds fall between two disturbances.
const TURN: Duration = Duration::from_micros(100);

/// Nanoseconds per sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Times {
    pub(crate) minimum: f64,
    pub(crate) median: f64,
}

/// Measures all contenders of a contest, in their order.
pub(crate) fn run(contest: &mut Contest) -> Vec<Times> {
    let contenders = &mut contest.contenders;
    let calls: Vec<u32> = contenders
        .iter_mut()
        .map(|contender| calls_per_turn(|calls| time(contender, calls)))
        .collect();
    let mut rounds = vec![Vec::with_capacity(ROUNDS); calls.len()];
    for _ in 0..ROUNDS {
        for (i, contender) in contenders.iter_mut().enumerate() {
            // What the others left in the caches is not measured.
            contender.run(1);
            let seconds = time(contender, calls[i]).as_secs_f64();
            let samples = f64::from(calls[i]) * contender.samples as f64;
            rounds[i].push(seconds * 1e9 / samples);
        }
    }
    rounds.iter_mut().map(|rounds| summary(rounds)).collect()
}

fn summary(rounds: &mut [f64]) -> Times {
    rounds.sort_by(f64::total_cmp);
    Times {
        minimum: rounds[0],
        median: rounds[rounds.len() / 2],
    }
}

/// How many calls fill a turn; this also warms up whatever there is to warm up.
fn calls_per_turn(mut time: impl FnMut(u32) -> Duration) -> u32 {
    let mut calls = 1;
    while time(calls) < TURN && calls < 1 << 30 {
        calls *= 2;
    }
    calls
}

fn time(contender: &mut Contender, calls: u32) -> Duration {
    let start = Instant::now();
    contender.run(calls);
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_and_median_are_those_of_the_rounds() {
        let times = summary(&mut [5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((times.minimum, times.median), (1.0, 3.0));
    }

    #[test]
    fn a_turn_holds_more_calls_of_what_is_shorter() {
        let taking = |nanoseconds| move |calls| Duration::from_nanos(nanoseconds) * calls;
        assert_eq!(calls_per_turn(taking(1_000_000)), 1);
        assert_eq!(calls_per_turn(taking(1_000)), 128);
        assert_eq!(calls_per_turn(taking(0)), 1 << 30, "it ends");
    }
}
