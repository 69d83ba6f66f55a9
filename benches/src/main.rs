//! Measures our crates beside hand-written code and other people's crates, in one process and in turns. Run by `cargo xtask bench`.
//!
//! [`arguments`] reads the command line; [`contender`] is what is measured, once it was found right; [`rounds`] measures;
//! [`report`] prints. The folder [`tape`] holds the graphs, one file each, with all that can compute their gradients.

// A program for the terminal: printing is its job.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod arguments;
mod contender;
mod counts;
mod report;
mod rounds;
mod tape;

use std::process::ExitCode;

use anyhow::Result;
use arguments::{Command, Selection};
use contender::Contest;

/// The exit code for a command line that cannot be understood.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let command = match arguments::parse(&words) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("error: {problem}\n\n{}", arguments::help());
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match run(&command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything of ours was right.
fn run(command: &Command) -> Result<bool> {
    match command {
        Command::Help => println!("{}", arguments::help()),
        Command::Measure(selection) => return measure(selection),
        Command::Repeat {
            bench,
            contender,
            times,
        } => repeat(bench, contender, *times)?,
    }
    Ok(true)
}

fn measure(selection: &Selection) -> Result<bool> {
    let mut all_right = true;
    for bench in tape::BENCHES {
        if !selection.includes(bench.name) {
            continue;
        }
        for mut contest in (bench.contests)()? {
            let times = rounds::run(&mut contest);
            let counts = if selection.counts {
                counts::of(bench.name, &contest, &times)
            } else {
                Vec::new()
            };
            let rows = report::rows(bench.name, &contest, &times, &counts);
            if selection.json {
                rows.iter()
                    .filter(|row| row.is_ours())
                    .for_each(|row| println!("{}", row.json()));
            } else {
                println!("{}", report::table(&rows));
            }
            all_right &= rows.iter().all(report::Row::is_fine);
        }
    }
    Ok(all_right)
}

/// Does what is measured and nothing else, for a tool that counts instructions.
fn repeat(bench: &str, contender: &str, times: u32) -> Result<()> {
    let mut contests: Vec<Contest> = Vec::new();
    for known in tape::BENCHES.iter().filter(|known| known.name == bench) {
        contests.extend((known.contests)()?);
    }
    let mut contenders = contests
        .iter_mut()
        .flat_map(|contest| &mut contest.contenders);
    match contenders.find(|other| other.name == contender) {
        Some(found) => found.run(times),
        None => anyhow::bail!("there is no contender `{contender}` in `{bench}`"),
    }
    Ok(())
}
