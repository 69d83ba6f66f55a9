//! The command line.

use crate::suites::{Bench, SUITES, Suite};

/// What the user asked for.
#[derive(Debug)]
pub(crate) enum Command {
    /// Show how to use the program.
    Help,
    /// Measure and report.
    Measure(Selection),
    /// Run one contender so many times without measuring it.
    Repeat {
        bench: &'static Bench,
        contender: String,
        times: u32,
    },
}

/// What is measured, and how it is reported.
#[derive(Debug)]
pub(crate) struct Selection {
    /// One JSON object per line instead of tables.
    pub(crate) json: bool,
    /// Instructions too.
    pub(crate) counts: bool,
    /// Each with its suite.
    pub(crate) benches: Vec<(&'static Suite, &'static Bench)>,
}

/// How to use the program.
pub(crate) fn help() -> String {
    let suite = |suite: &Suite| {
        let (name, about) = (suite.name, suite.about);
        format!("  {name:<7} {about}\n          NAME: {}", suite.names())
    };
    let suites: Vec<_> = SUITES.iter().map(suite).collect();
    format!(
        "Usage: cargo xtask bench [SUITE [NAME…]] [--json] [--counts]

Measures our crates beside the same work written by hand and beside other people's crates: all in turns, in many short rounds.
Every result is checked first; a wrong one does not count. Without a suite, all are measured; without a name, all of the suite.

Suites:
{}

Options:
  --json    one object per line for each variant of ours: bench, variant, min_ns and median_ns (per sample), hand_ns, times_hand,
            fastest_crate, fastest_crate_ns, faster_than_crate; null where there is nothing to compare with. Standard error
            names what is wrong.
  --counts  instructions per sample too (in JSON: instructions), as valgrind's callgrind counts them where it is installed; it
            knows no AVX-512 and runs the code for AVX2

Exit codes: 0 all is well, 1 something failed or a variant of ours is wrong, 2 wrong usage.",
        suites.join("\n")
    )
}

/// Reads the words after the program's name; the error says what is wrong with them.
pub(crate) fn parse(words: &[String]) -> Result<Command, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [.., "--help" | "-h"] | ["help"] => Ok(Command::Help),
        ["--repeat", suite, bench, contender, times] => Ok(Command::Repeat {
            bench: find_bench(find_suite(suite)?, bench)?,
            contender: (*contender).to_owned(),
            times: times
                .parse()
                .map_err(|_| format!("expected how many times, found `{times}`"))?,
        }),
        words => selection(words).map(Command::Measure),
    }
}

fn selection(words: &[&str]) -> Result<Selection, String> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| word.starts_with('-'));
    let unknown = |option: &&&str| !["--json", "--counts"].contains(*option);
    if let Some(option) = options.iter().find(unknown) {
        return Err(format!("there is no option `{option}`"));
    }
    Ok(Selection {
        json: options.contains(&"--json"),
        counts: options.contains(&"--counts"),
        benches: benches(&names)?,
    })
}

/// All benches, those of the suite that is named, or of these those that are named behind it.
fn benches(names: &[&str]) -> Result<Vec<(&'static Suite, &'static Bench)>, String> {
    let all = |suite: &'static Suite| suite.benches.iter().map(move |bench| (suite, bench));
    let Some((suite, names)) = names.split_first() else {
        return Ok(SUITES.iter().flat_map(all).collect());
    };
    let suite = find_suite(suite)?;
    if names.is_empty() {
        return Ok(all(suite).collect());
    }
    let named = names
        .iter()
        .map(|name| Ok((suite, find_bench(suite, name)?)));
    named.collect()
}

fn find_suite(name: &str) -> Result<&'static Suite, String> {
    let suite = SUITES.iter().find(|suite| suite.name == name);
    suite.ok_or_else(|| {
        let names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        format!("there is no suite `{name}`: expected {}", names.join(", "))
    })
}

fn find_bench(suite: &'static Suite, name: &str) -> Result<&'static Bench, String> {
    let bench = suite.benches.iter().find(|bench| bench.name == name);
    bench.ok_or_else(|| {
        let (suite, names) = (suite.name, suite.names());
        format!("there is no bench `{name}` in `{suite}`: expected {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    fn selected(line: &str) -> (Selection, String) {
        match parse_line(line) {
            Ok(Command::Measure(selection)) => {
                let names: Vec<_> = selection.benches.iter().map(|it| it.1.name).collect();
                let names = names.join(" ");
                (selection, names)
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn names_and_options_come_in_any_order() {
        let (selection, names) = selected("--json tape tiny small --counts");
        assert!(selection.json && selection.counts);
        assert_eq!(names, "tiny small");
        let (selection, names) = selected("tape");
        assert!(!selection.json && !selection.counts);
        assert_eq!(names, "tiny small chain10k mlp saveload");
        assert!(selected("").1.starts_with(&names));
    }

    #[test]
    fn help_is_offered_everywhere() {
        for line in ["help", "--help", "tape -h", "tape tiny --help"] {
            assert!(matches!(parse_line(line), Ok(Command::Help)), "{line}");
        }
        for (suite, bench) in selected("").0.benches {
            assert!(help().contains(suite.name) && help().contains(bench.name));
        }
    }

    #[test]
    fn one_contender_can_be_repeated() {
        match parse_line("--repeat tape tiny hand 12") {
            Ok(Command::Repeat {
                bench,
                contender,
                times,
            }) => assert_eq!(
                (bench.name, contender.as_str(), times),
                ("tiny", "hand", 12)
            ),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn wrong_usage_is_named() {
        let faults = [
            ("gpt", "there is no suite `gpt`: expected tape"),
            (
                "tape huge",
                "there is no bench `huge` in `tape`: expected tiny, small",
            ),
            ("tape --fast", "there is no option `--fast`"),
            ("--repeat tape tiny hand often", "found `often`"),
            ("--repeat tape huge hand 1", "there is no bench `huge`"),
        ];
        for (line, message) in faults {
            let problem = parse_line(line).expect_err(line);
            assert!(problem.contains(message), "{line}: {problem}");
        }
    }
}
