//! The repository's own commands, run as `cargo xtask COMMAND`: the CI and what it is made of.
//!
//! [`arguments`] reads the command line, [`ci`] holds the list of steps, and each check that is more than a call of cargo
//! has a file of its own. This package depends on none of ours, so that it can judge them all.

// A program for the terminal: printing is its job.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod ci;
mod counts;
mod files;
mod info_tables;
mod layers;
mod markdown;
mod process;
mod product;
mod readme;
mod rust_text;
mod sanitize;
mod scratch;
mod sizes;
mod tidy;

use arguments::Task;
use std::process::ExitCode;

/// The exit code for a command line that cannot be understood.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let task = match arguments::parse(&words) {
        Ok(task) => task,
        Err(problem) => {
            eprintln!("error: {problem}\n\n{}", arguments::help());
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match run(&task) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one command; its exit code is 1 when it ran to its end and found a fault, which it has already reported.
fn run(task: &Task) -> anyhow::Result<u8> {
    match task {
        Task::Help => println!("{}", arguments::help()),
        Task::List => println!("{}", ci::list()),
        Task::Ci(selection) => return Ok(u8::from(!ci::run(selection))),
        Task::Bench(words) => return bench::run(words),
        Task::Sizes => sizes::print()?,
    }
    Ok(0)
}
