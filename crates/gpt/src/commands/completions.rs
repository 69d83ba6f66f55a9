//! `completions`: what a shell needs to complete commands and flags.

use std::io::Write;

use clap::CommandFactory;

use crate::Error;
use crate::cli::{Cli, CompletionsArgs};

/// Writes the file of a shell to standard output.
///
/// # Errors
///
/// [`Error::Output`] and [`Error::OutputClosed`].
pub fn run(args: &CompletionsArgs) -> Result<(), Error> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    std::io::stdout().write_all(&text).map_err(Error::output)
}
