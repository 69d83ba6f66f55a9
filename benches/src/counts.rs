//! Instructions per sample under callgrind, which do not depend on what else the machine does.

use std::process::{Command, Stdio};

use crate::contender::{Contender, Contest};
use crate::rounds::Times;
use crate::suites::{Bench, Suite};

/// About how long the calls that are counted take without the counting, in nanoseconds, and how many they are at least.
const LENGTH: f64 = 1e6;
const LEAST: u32 = 8;

/// Whether there is a valgrind to count with.
pub(crate) fn are_possible() -> bool {
    let mut command = Command::new("valgrind");
    let status = command.arg("--version").stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The instructions per sample of each contender; nothing if they cannot be counted, which standard error then says.
pub(crate) fn of(
    suite: &Suite,
    bench: &Bench,
    contest: &Contest,
    times: &[Times],
) -> Vec<Option<f64>> {
    let contenders = contest.contenders.iter().zip(times);
    contenders
        .map(|(contender, times)| count(suite, bench, contender, times.minimum))
        .collect()
}

/// The difference of two runs, so that what comes before the first call drops out.
fn count(suite: &Suite, bench: &Bench, contender: &Contender, nanoseconds: f64) -> Option<f64> {
    let samples = contender.samples as f64;
    let calls = ((LENGTH / nanoseconds / samples) as u32).max(LEAST);
    let total = |calls: u32| match instructions([suite.name, bench.name, contender.name], calls) {
        Ok(count) => Some(count),
        Err(problem) => {
            eprintln!("{} {}: not counted: {problem}", bench.name, contender.name);
            None
        }
    };
    let (few, many) = (total(calls)?, total(2 * calls)?);
    Some((many - few) / f64::from(calls) / samples)
}

fn instructions(names: [&str; 3], calls: u32) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .arg("--repeat")
        .args(names)
        .arg(calls.to_string())
        .output()
        .map_err(|error| format!("cannot start valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    collected(&text).ok_or_else(|| {
        let last = text.lines().last().unwrap_or("it printed nothing");
        format!("valgrind ended with {} ({last})", output.status)
    })
}

/// The total in callgrind's closing lines.
fn collected(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once("Collected :")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        let text = "==7== Events    : Ir\n==7== Collected : 1234567\n==7==\n";
        assert_eq!(collected(text), Some(1_234_567.0));
        assert_eq!(collected("==7== killed"), None);
    }
}
