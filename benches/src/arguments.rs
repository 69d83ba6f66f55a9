//! The command line.

use crate::tape::BENCHES;

/// What the user asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    /// Show how to use the program.
    Help,
    /// Measure and report.
    Measure(Selection),
    /// Run one contender so many times without measuring it.
    Repeat {
        bench: String,
        contender: String,
        times: u32,
    },
}

/// What is measured, and how it is reported.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Selection {
    /// One JSON object per line instead of tables.
    pub(crate) json: bool,
    /// Instructions too.
    pub(crate) counts: bool,
    /// Names of benches; all if there is none.
    names: Vec<String>,
}

impl Selection {
    pub(crate) fn includes(&self, bench: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| name == bench)
    }
}

/// How to use the program.
pub(crate) fn help() -> String {
    format!(
        "Usage: cargo xtask bench tape [--json] [--counts] [NAME…]

Measures gradients of scalar graphs, recorded afresh or evaluated again, beside the same gradient written by hand and beside the
tapes of other crates: all in turns, in many short rounds. Every value and gradient is checked first; a wrong one does not count.

  NAME      {}; all of them if none is given
  --json    one object per line for each variant of ours: bench, variant, right, min_ns and median_ns (per sample), hand_ns,
            times_hand, fastest_crate, fastest_crate_ns, faster_than_crate; null where there is nothing to compare with
  --counts  instructions per sample under valgrind's callgrind too, where it is installed

Exit codes: 0 all is well, 1 something failed or a variant of ours is wrong, 2 wrong usage.",
        names().join(", ")
    )
}

fn names() -> Vec<&'static str> {
    BENCHES.iter().map(|bench| bench.name).collect()
}

/// Reads the words after the program's name; the error says what is wrong with them.
pub(crate) fn parse(words: &[String]) -> Result<Command, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [.., "--help" | "-h"] | ["help"] => Ok(Command::Help),
        ["tape", "--repeat", bench, contender, times] => Ok(Command::Repeat {
            bench: (*bench).to_owned(),
            contender: (*contender).to_owned(),
            times: times
                .parse()
                .map_err(|_| format!("expected how many times, found `{times}`"))?,
        }),
        ["tape", rest @ ..] => selection(rest).map(Command::Measure),
        [] => Err("what to measure is missing: expected `tape`".to_owned()),
        [other, ..] => Err(format!("there is no bench of `{other}`: expected `tape`")),
    }
}

fn selection(words: &[&str]) -> Result<Selection, String> {
    let mut selection = Selection::default();
    for &word in words {
        match word {
            "--json" => selection.json = true,
            "--counts" => selection.counts = true,
            _ if word.starts_with('-') => return Err(format!("there is no option `{word}`")),
            _ if names().contains(&word) => selection.names.push(word.to_owned()),
            _ => {
                let names = names().join(", ");
                return Err(format!("there is no bench `{word}`: expected {names}"));
            }
        }
    }
    Ok(selection)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    fn selected(line: &str) -> Selection {
        match parse_line(line) {
            Ok(Command::Measure(selection)) => selection,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn names_and_options_come_in_any_order() {
        assert_eq!(selected("tape"), Selection::default());
        let all = selected("tape tiny --json small --counts");
        assert!(all.json && all.counts);
        assert!(all.includes("tiny") && all.includes("small") && !all.includes("mlp"));
        assert!(selected("tape").includes("mlp"));
    }

    #[test]
    fn help_is_offered_everywhere() {
        for line in ["help", "--help", "tape -h", "tape tiny --help"] {
            assert_eq!(parse_line(line), Ok(Command::Help), "{line}");
        }
        assert!(names().iter().all(|name| help().contains(name)));
    }

    #[test]
    fn one_contender_can_be_repeated() {
        let command = Command::Repeat {
            bench: "tiny".to_owned(),
            contender: "hand".to_owned(),
            times: 12,
        };
        assert_eq!(parse_line("tape --repeat tiny hand 12"), Ok(command));
    }

    #[test]
    fn wrong_usage_is_named() {
        let faults = [
            ("", "what to measure is missing"),
            ("gpt", "there is no bench of `gpt`"),
            (
                "tape huge",
                "there is no bench `huge`: expected tiny, small",
            ),
            ("tape --fast", "there is no option `--fast`"),
            ("tape --repeat tiny hand often", "found `often`"),
        ];
        for (line, message) in faults {
            let problem = parse_line(line).expect_err(line);
            assert!(problem.contains(message), "{line}: {problem}");
        }
    }
}
