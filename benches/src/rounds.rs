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

/// When measuring ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) rounds: u32,
    /// Seconds behind which no round begins, though not before [`LEAST_ROUNDS`] are made.
    pub(crate) seconds: u64,
}

/// Rounds that are made however long they take.
const LEAST_ROUNDS: u32 = 3;

/// For calls that may be long.
const FEWER_ROUNDS: Limits = Limits {
    rounds: 150,
    seconds: u64::MAX,
};

/// Measures calls, in their order, and does something of its own between two turns. Nanoseconds per call.
pub(crate) fn in_turns(calls: &mut [Box<dyn FnMut() + '_>], between: impl FnMut()) -> Vec<Times> {
    in_turns_within(FEWER_ROUNDS, calls, between)
}

/// As [`in_turns`], within other limits.
pub(crate) fn in_turns_within(
    limits: Limits,
    calls: &mut [Box<dyn FnMut() + '_>],
    mut between: impl FnMut(),
) -> Vec<Times> {
    let time = |call: &mut dyn FnMut(), times: u32| {
        let start = Instant::now();
        (0..times).for_each(|_| call());
        start.elapsed()
    };
    let counts: Vec<u32> = calls
        .iter_mut()
        .map(|call| calls_per_turn(|times| time(call, times)))
        .collect();
    let mut rounds = vec![Vec::new(); counts.len()];
    let start = Instant::now();
    for round in 0..limits.rounds {
        if round >= LEAST_ROUNDS && start.elapsed().as_secs() >= limits.seconds {
            break;
        }
        for (i, call) in calls.iter_mut().enumerate() {
            between();
            call();
            let nanoseconds = time(call, counts[i]).as_secs_f64() * 1e9;
            rounds[i].push(nanoseconds / f64::from(counts[i]));
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
    fn time_ends_measuring_but_not_too_early() {
        let mut between = 0;
        let limits = |rounds, seconds| Limits { rounds, seconds };
        for (limits, expected) in [
            (limits(9, 0), LEAST_ROUNDS),
            (limits(2, 0), 2),
            (limits(9, 60), 9),
        ] {
            let mut calls: [Box<dyn FnMut()>; 1] = [Box::new(|| {})];
            in_turns_within(limits, &mut calls, || between += 1);
            assert_eq!(between, expected);
            between = 0;
        }
    }

    #[test]
    fn calls_take_turns() {
        let order = std::cell::RefCell::new(Vec::new());
        let call = |name: char, pause: u64| -> Box<dyn FnMut() + '_> {
            let order = &order;
            Box::new(move || {
                order.borrow_mut().push(name);
                std::thread::sleep(Duration::from_micros(pause));
            })
        };
        let times = in_turns(&mut [call('a', 100), call('b', 300)], || {
            order.borrow_mut().push('-');
        });
        assert!(times[0].minimum >= 1e5 && times[1].minimum >= 3e5);
        let order: String = order.borrow().iter().collect();
        assert!(order.ends_with("-bb-aa-bb"), "{order}");
    }

    #[test]
    fn a_turn_holds_more_calls_of_what_is_shorter() {
        let taking = |nanoseconds| move |calls| Duration::from_nanos(nanoseconds) * calls;
        assert_eq!(calls_per_turn(taking(1_000_000)), 1);
        assert_eq!(calls_per_turn(taking(1_000)), 128);
        assert_eq!(calls_per_turn(taking(0)), 1 << 30, "it ends");
    }
}
