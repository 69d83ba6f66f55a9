//! The command line of `cargo xtask`.

use crate::ci;

/// The commands there are; the README may mention no other.
pub(crate) const COMMANDS: [&str; 4] = ["ci", "bench", "sizes", "help"];

/// What the user asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum Task {
    /// Show how to use the program.
    Help,
    /// Name the steps of the CI.
    List,
    /// Run steps of the CI.
    Ci(Selection),
    /// Run the program of the package `burtorch-benches` with these words, which it reads itself.
    Bench(Vec<String>),
    /// Print line counts.
    Sizes,
}

/// Which steps of the CI to run.
#[derive(Debug, PartialEq)]
pub(crate) enum Selection {
    /// Those of daily use.
    Quick,
    /// Those a change must pass.
    Normal,
    /// All, including the slow ones.
    Full,
    /// A single one, by name.
    Only(String),
}

/// The text of `cargo xtask help`.
pub(crate) fn help() -> String {
    format!(
        "Usage: cargo xtask COMMAND

Commands:
  ci            run the CI's steps in order and stop at the first failure
    --quick       only what daily work needs
    --full        everything, including the sanitizer
    --only STEP   one step alone
    --list        name the steps and stop
  bench         measure ours beside other code and the machine's limits; `bench help` says more
    tape          [--json] [--counts] [NAME…]
    gemm, ops     [--json] [NAME…]
    step          [--json] [--python PATH] [PRESET[:BATCH,…]…], and more: `bench step --help`
  sizes         print lines per crate and the longest files and functions
  help          print this text

Steps of the CI:
{}

Exit codes: 0 all is well, 1 something failed, 2 wrong usage.",
        ci::list()
    )
}

/// Reads the words after `cargo xtask`; the error says what is wrong with them.
pub(crate) fn parse(words: &[String]) -> Result<Task, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => Err("a command is missing".to_owned()),
        ["bench", rest @ ..] => Ok(Task::Bench(
            rest.iter().map(|&word| word.to_owned()).collect(),
        )),
        [.., "--help" | "-h"] | ["help"] => Ok(Task::Help),
        ["ci", options @ ..] => parse_ci(options),
        ["sizes"] => Ok(Task::Sizes),
        ["help" | "sizes", extra, ..] => Err(format!("unexpected argument `{extra}`")),
        [other, ..] => Err(format!("there is no command `{other}`")),
    }
}

fn parse_ci(options: &[&str]) -> Result<Task, String> {
    match options {
        [] => Ok(Task::Ci(Selection::Normal)),
        ["--quick"] => Ok(Task::Ci(Selection::Quick)),
        ["--full"] => Ok(Task::Ci(Selection::Full)),
        ["--list"] => Ok(Task::List),
        ["--only"] => Err("`--only` needs the name of a step".to_owned()),
        ["--only", step] if ci::has_step(step) => Ok(Task::Ci(Selection::Only((*step).to_owned()))),
        ["--only", step] => Err(format!("there is no step `{step}`")),
        _ => Err(format!(
            "`ci` takes one option of --quick, --full, --only STEP and --list, found `{}`",
            options.join(" ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Task, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn every_selection_has_its_option() {
        let selections = [
            ("ci", Selection::Normal),
            ("ci --quick", Selection::Quick),
            ("ci --full", Selection::Full),
            ("ci --only tidy", Selection::Only("tidy".to_owned())),
        ];
        for (line, selection) in selections {
            assert_eq!(parse_line(line), Ok(Task::Ci(selection)), "{line}");
        }
    }

    #[test]
    fn the_words_after_bench_are_handed_on() {
        let words = ["tape", "tiny", "--json", "--help"].map(str::to_owned);
        assert_eq!(
            parse_line("bench tape tiny --json --help"),
            Ok(Task::Bench(words.to_vec()))
        );
    }

    #[test]
    fn help_is_offered_everywhere() {
        for line in ["help", "--help", "-h", "ci --help", "sizes -h"] {
            assert_eq!(parse_line(line), Ok(Task::Help), "{line}");
        }
    }

    #[test]
    fn every_listed_command_is_understood() {
        for command in COMMANDS {
            assert!(parse_line(command).is_ok(), "{command}");
            assert!(help().contains(&format!("\n  {command} ")), "{command}");
        }
    }

    #[test]
    fn wrong_usage_is_named() {
        let faults = [
            ("", "a command is missing"),
            ("bake", "there is no command `bake`"),
            ("sizes now", "unexpected argument `now`"),
            ("ci --only", "needs the name of a step"),
            ("ci --only bake", "there is no step `bake`"),
            ("ci --quick --full", "found `--quick --full`"),
        ];
        for (line, message) in faults {
            let problem = parse_line(line).expect_err(line);
            assert!(problem.contains(message), "{line}: {problem}");
        }
    }
}
