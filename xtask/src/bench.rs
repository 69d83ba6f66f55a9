//! The bench program: built with optimisation, then run with the words it was given.

use crate::process::{cargo, run_for_errors, run_status};
use anyhow::{Result, bail};
use std::process::Command;

/// Crates to compare with that nothing but a measurement needs, the most demanding last: the first two take a minute to build, the others
/// ask for a newer compiler than the workspace, though they may build with an older one too.
const DEMANDING: [&str; 4] = ["faer", "gemm", "echidna", "xad-rs"];

/// Builds and runs the program; its exit code. Only what it prints itself is on the standard output.
pub(crate) fn run(words: &[String]) -> Result<u8> {
    let mut command = command("run", build()?);
    run_status(command.arg("--").args(words))
}

/// Builds the program, and the one whose memory and start it measures, with as many of the demanding crates as can be had here;
/// says which these are. The standard error says which are left out, and why.
pub(crate) fn build() -> Result<&'static [&'static str]> {
    build_with(&DEMANDING, |crates| {
        let mut command = command("build", crates);
        run_for_errors(command.args(["--package", "burtorch-gpt"]))
    })
}

fn build_with<'a>(
    mut crates: &'a [&'a str],
    build: impl Fn(&[&str]) -> Result<(bool, String)>,
) -> Result<&'a [&'a str]> {
    loop {
        let (built, errors) = build(crates)?;
        match crates.split_last() {
            _ if built => return Ok(crates),
            Some((last, others)) if !is_our_fault(&errors) => {
                eprintln!("left out of the benches: {last}, which cannot be built here, see above");
                crates = others;
            }
            _ => bail!("the benches cannot be built"),
        }
    }
}

/// Whether cargo's messages say that a package of ours does not compile.
fn is_our_fault(errors: &str) -> bool {
    errors.contains("could not compile `burtorch-")
}

fn command(verb: &str, crates: &[&str]) -> Command {
    let mut command = cargo(&[
        verb,
        "--quiet",
        "--release",
        "--package",
        "burtorch-benches",
        "--ignore-rust-version",
        "--features",
    ]);
    let features = crates.iter().map(|name| format!("burtorch-benches/{name}"));
    command.arg(features.collect::<Vec<_>>().join(","));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_named_together() {
        let command = command("run", &["one", "two"]);
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(words[0], "run");
        assert_eq!(
            words[words.len() - 2..],
            ["--features", "burtorch-benches/one,burtorch-benches/two"]
        );
    }

    #[test]
    fn what_cannot_be_built_is_left_out() {
        let without_two = |crates: &[&str]| {
            let built = !crates.contains(&"two");
            Ok((built, "error: could not compile `two` (lib)".to_owned()))
        };
        let found = build_with(&["one", "two", "three"], without_two);
        assert_eq!(found.expect("one can be built"), ["one"]);
    }

    #[test]
    fn a_fault_of_ours_leaves_nothing_out() {
        let fault = "error: could not compile `burtorch-benches` (bin)";
        let ours = |crates: &[&str]| Ok((crates.is_empty(), fault.to_owned()));
        assert!(build_with(&["one"], ours).is_err());
        let never = |_: &[&str]| Ok((false, String::new()));
        assert!(build_with(&["one"], never).is_err());
    }
}
