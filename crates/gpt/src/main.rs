//! The program `burtorch-gpt`. Exit codes: 0 done, 1 failed with a message, 2 wrong usage, 130 stopped by Ctrl-C.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use burtorch_core::lanes::Level;
use burtorch_gpt::interrupt::INTERRUPTED;
use burtorch_gpt::{Error, cli};
use clap::Parser;
use clap::error::ErrorKind;

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;

/// The environment variable that asks for another SIMD level than the best of the machine.
const SIMD: &str = "BURTORCH_SIMD";

fn main() -> ExitCode {
    if let Some(level) = std::env::var_os(SIMD).filter(|level| !level.is_empty()) {
        match Level::named(&level.to_string_lossy()).and_then(Level::limit) {
            Ok(()) => {}
            Err(error) => return complain(&format!("error: {SIMD}: {error}"), WRONG_USAGE),
        }
    }
    let arguments = match cli::Cli::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return explain(&error),
    };
    match cli::run(&arguments) {
        Ok(()) | Err(Error::OutputClosed) => ExitCode::SUCCESS,
        Err(Error::Interrupted) => ExitCode::from(INTERRUPTED),
        Err(stopped @ Error::Stopped { .. }) => complain(&stopped.to_string(), INTERRUPTED),
        Err(error) => {
            let code = if error.is_usage() {
                WRONG_USAGE
            } else {
                FAILED
            };
            complain(&format!("error: {error}"), code)
        }
    }
}

/// Shows help where help was asked for, or where no command was given; else says what is wrong, in one line.
fn explain(error: &clap::Error) -> ExitCode {
    let no_command = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if error.use_stderr() && !no_command {
        return complain(&cli::one_line(error), WRONG_USAGE);
    }
    // Whoever closes the pipe has read enough.
    let _ = error.print();
    if no_command {
        ExitCode::from(WRONG_USAGE)
    } else {
        ExitCode::SUCCESS
    }
}

fn complain(message: &str, code: u8) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(code)
}
