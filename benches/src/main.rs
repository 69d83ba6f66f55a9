//! Measures our crates beside hand-written code, other people's crates and the limits of the machine, in turns. Run by
//! `cargo xtask bench`.
//!
//! [`arguments`] reads the command line. For gradients, [`contender`] is what is measured, once it was found right; [`rounds`]
//! measures; [`report`] prints; what there is to measure lies in [`suites`], a module each; [`tape`] holds the scalar graphs.
//! [`gemm`] and [`ops`] are pieces of work whose [`speed`] is measured, [`step`] whole training steps, [`generate`] texts, [`bpe`] tokenizers. [`limits`] says what the
//! machine can do.

// A program for the terminal: printing is its job.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![deny(unsafe_code)]

mod arguments;
mod bpe;
mod contender;
mod counts;
mod gemm;
mod generate;
mod limits;
mod ops;
mod report;
mod rounds;
mod script;
mod speed;
mod step;
mod suites;
mod tape;

use std::process::ExitCode;

use anyhow::{Result, bail};
use arguments::{Command, Selection};
use burtorch_core::lanes::Level;
use suites::Bench;

/// The exit code for a command line that cannot be understood.
const WRONG_USAGE: u8 = 2;

/// The environment variable that asks for another SIMD level of ours than the best of the machine. Programs that are started inherit it.
const SIMD: &str = "BURTORCH_SIMD";

fn main() -> ExitCode {
    if let Some(level) = std::env::var_os(SIMD).filter(|level| !level.is_empty()) {
        match Level::named(&level.to_string_lossy()).and_then(Level::limit) {
            Ok(()) => {}
            Err(error) => {
                eprintln!("error: {SIMD}: {error}");
                return ExitCode::from(WRONG_USAGE);
            }
        }
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let commands = match arguments::parse(&words) {
        Ok(commands) => commands,
        Err(problem) => {
            eprintln!("error: {problem}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match run_all(&commands) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything of ours was right.
fn run_all(commands: &[Command]) -> Result<bool> {
    let mut all_right = true;
    for command in commands {
        all_right &= run(command)?;
    }
    Ok(all_right)
}

fn run(command: &Command) -> Result<bool> {
    match command {
        Command::Help(text) => println!("{text}"),
        Command::Measure(selection) => return measure(selection),
        Command::Gemm(options) => gemm::run(options)?,
        Command::Ops(options) => ops::run(options)?,
        Command::Generate(options) => generate::run(options)?,
        Command::Step(options) => return step::run(options),
        Command::Bpe(options) => return bpe::run(options),
        Command::BpeTurn(turn) => bpe::turn::run(turn)?,
        Command::Repeat {
            bench,
            contender,
            times,
        } => repeat(bench, contender, *times)?,
    }
    Ok(true)
}

fn measure(selection: &Selection) -> Result<bool> {
    let counted = selection.counts && counts::are_possible();
    if selection.counts && !counted {
        eprintln!("valgrind is not installed: instructions are not counted");
    }
    let mut all_right = true;
    for (suite, bench) in &selection.benches {
        for mut contest in (bench.contests)()? {
            let times = rounds::run(&mut contest);
            let counts = if counted {
                counts::of(suite, bench, &contest, &times)
            } else {
                Vec::new()
            };
            let rows = report::rows(bench.name, &contest, &times, &counts);
            if selection.json {
                println!("{}", report::json_lines(&rows)?);
                for fault in rows.iter().filter_map(report::Row::fault) {
                    eprintln!("{fault}");
                }
            } else {
                println!("{}", report::table(&rows));
            }
            all_right &= rows.iter().all(report::Row::is_fine);
        }
    }
    Ok(all_right)
}

/// Does what is measured and nothing else, for a tool that counts instructions.
fn repeat(bench: &Bench, contender: &str, times: u32) -> Result<()> {
    let contests = (bench.contests)()?;
    let mut contenders = contests.into_iter().flat_map(|contest| contest.contenders);
    match contenders.find(|other| other.name == contender) {
        Some(mut found) => found.run(times),
        None => bail!("there is no contender `{contender}` in `{}`", bench.name),
    }
    Ok(())
}
