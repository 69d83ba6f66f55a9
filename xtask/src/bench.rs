//! The bench program: built with optimisation, then run with the words it was given.

use crate::process::{cargo, run_status};
use anyhow::Result;
use std::process::Command;

/// What cargo must be told to build it whole. One of the crates that are compared with asks for a newer compiler than it needs.
const BUILD: [&str; 7] = [
    "--quiet",
    "--release",
    "--package",
    "burtorch-benches",
    "--features",
    "xad-rs",
    "--ignore-rust-version",
];

/// The call of cargo that builds the program.
pub(crate) fn build() -> Command {
    command("build", &[])
}

/// Builds and runs the program; its exit code. Only what it prints itself is on the standard output.
pub(crate) fn run(words: &[String]) -> Result<u8> {
    let mut arguments = vec!["--"];
    arguments.extend(words.iter().map(String::as_str));
    run_status(&mut command("run", &arguments))
}

fn command(verb: &str, arguments: &[&str]) -> Command {
    let mut command = cargo(&[verb]);
    command.args(BUILD).args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_after_what_cargo_reads() {
        let command = command("run", &["--", "tape", "--json"]);
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        assert_eq!(words[0], "run");
        assert_eq!(words[words.len() - 3..], ["--", "tape", "--json"]);
        assert!(words.contains(&"burtorch-benches".into()));
    }
}
