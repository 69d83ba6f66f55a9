//! The command line.

use crate::bpe;
use crate::generate;
use crate::speed;
use crate::step;
use crate::suites::{Bench, SUITES, Suite};

/// The word by which the program calls itself for one turn of the suite `bpe`.
pub(crate) const BPE_TURN: &str = "--bpe-turn";

/// What the user asked for.
#[derive(Debug)]
pub(crate) enum Command {
    /// Show how to use the program, or one suite.
    Help(String),
    /// Measure gradients and report.
    Measure(Selection),
    /// Measure matrix products.
    Gemm(speed::Options),
    /// Measure ops and optimizers.
    Ops(speed::Options),
    /// Measure the writing of text.
    Generate(generate::Options),
    /// Measure training steps.
    Step(step::Options),
    /// Measure byte-pair encoding.
    Bpe(bpe::Options),
    /// Make one turn of that.
    BpeTurn(bpe::turn::Turn),
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

Measures our crates beside the same work written by hand, beside other people's crates and beside the limits of the machine: all in
turns, in many short rounds. Without a suite, all are measured; without a name, all of the suite.

Suites:
{}
  gemm    matrix products at the presets' sizes, beside other crates and the machine's multiply-adds
          NAME: part of a size, as in 8x24
  ops     ops and optimizers at the presets' sizes, beside the machine's multiply-adds or copies of as many bytes
          NAME: part of a name, as in mini or attention
  step    whole training steps of the presets, beside the machine's multiply-adds, PyTorch and JAX
          options of its own: cargo xtask bench step --help
  bpe     byte-pair encoding: encoding, decoding, training, beside other crates and, in Python, tiktoken and tokenizers
          options of its own: cargo xtask bench bpe --help
  generate
          text written by models of the presets' sizes, with and without kept keys and values
          options of its own: cargo xtask bench generate --help

Options of gemm and ops:
  --json    one object per line: bench, what, pass, who, us (median of a call), min_us, gflops or gb_per_s, times_limit (min_us over
            the operations at peak_gflops, or over a copy that moves as many bytes), peak_gflops (multiply-adds, one thread)

Options of tape, whose results are checked first; a wrong one does not count:
  --json    one object per line for each variant of ours: bench, variant, min_ns and median_ns (per sample), hand_ns, times_hand,
            fastest_crate, fastest_crate_ns, faster_than_crate; null where there is nothing to compare with. Standard error
            names what is wrong.
  --counts  instructions per sample too (in JSON: instructions), as valgrind's callgrind counts them where it is installed; it
            knows no AVX-512 and runs the code for AVX2

Environment:
  BURTORCH_SIMD  portable, avx2 or avx512: ours runs at this SIMD level; other crates and the machine's multiply-adds keep to the best

Exit codes: 0 all is well, 1 something failed or a variant of ours is wrong, 2 wrong usage.",
        suites.join("\n")
    )
}

/// Reads the words after the program's name, as what is to be done one after the other; the error says what is wrong with them, and
/// how to use what they name.
pub(crate) fn parse(words: &[String]) -> Result<Vec<Command>, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let suite = words.iter().position(|word| !word.starts_with('-'));
    let others = words.iter().enumerate().filter(|it| Some(it.0) != suite);
    let others: Vec<_> = others.map(|(_, &word)| word).collect();
    match suite.map(|place| words[place]) {
        Some("step") => Ok(vec![own(step::Options::read(&others), Command::Step)?]),
        Some("generate") => Ok(vec![own(
            generate::Options::read(&others),
            Command::Generate,
        )?]),
        Some("bpe") if words[0] != BPE_TURN => {
            Ok(vec![own(bpe::Options::read(&others), Command::Bpe)?])
        }
        name => commands(&words, name, &others).map_err(|it| format!("{it}\n\n{}", help())),
    }
}

/// What all words, of which one may name a suite and the others stand beside it, ask for.
fn commands(words: &[&str], name: Option<&str>, others: &[&str]) -> Result<Vec<Command>, String> {
    match words {
        [.., "--help" | "-h"] | ["help"] => Ok(vec![Command::Help(help())]),
        ["--repeat", suite, bench, contender, times] => Ok(vec![Command::Repeat {
            bench: find_bench(find_suite(suite)?, bench)?,
            contender: (*contender).to_owned(),
            times: times
                .parse()
                .map_err(|_| format!("expected how many times, found `{times}`"))?,
        }]),
        [BPE_TURN, work, threads, who, text, vocabulary] => {
            Ok(vec![Command::BpeTurn(bpe::turn::Turn {
                task: bpe::turn::Task::parse([*work, *threads, *who])?,
                text: text.into(),
                vocabulary: vocabulary.into(),
            })])
        }
        _ if name == Some("gemm") => Ok(vec![Command::Gemm(speed(others)?)]),
        _ if name == Some("ops") => Ok(vec![Command::Ops(speed(others)?)]),
        words => {
            let selection = selection(words)?;
            let json = if selection.json { &["--json"][..] } else { &[] };
            let mut commands = vec![Command::Measure(selection)];
            if name.is_none() {
                commands.push(Command::Gemm(speed(json)?));
                commands.push(Command::Ops(speed(json)?));
                commands.push(own(step::Options::read(json), Command::Step)?);
                commands.push(own(generate::Options::read(json), Command::Generate)?);
                commands.push(own(bpe::Options::read(json), Command::Bpe)?);
            }
            Ok(commands)
        }
    }
}

/// The words of the suites `gemm` and `ops`.
fn speed(words: &[&str]) -> Result<speed::Options, String> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| word.starts_with('-'));
    match options.iter().find(|option| **option != "--json") {
        Some(option) => Err(format!("there is no option `{option}` of this suite")),
        None => Ok(speed::Options {
            names: names.into_iter().map(str::to_owned).collect(),
            json: !options.is_empty(),
        }),
    }
}

/// A suite with options of its own.
fn own<O>(
    options: Result<O, clap::Error>,
    command: impl Fn(O) -> Command,
) -> Result<Command, String> {
    match options {
        Ok(options) => Ok(command(options)),
        Err(error) if error.use_stderr() => {
            let problem = error.to_string();
            let problem = problem.strip_prefix("error: ").unwrap_or(&problem);
            Err(problem.trim_end().to_owned())
        }
        Err(help) => Ok(Command::Help(help.to_string())),
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
        let mut names: Vec<_> = SUITES.iter().map(|suite| suite.name).collect();
        names.extend(["gemm", "ops", "step", "generate", "bpe"]);
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

    fn parse_all(line: &str) -> Result<Vec<Command>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    /// The first of the commands.
    fn parse_line(line: &str) -> Result<Command, String> {
        Ok(parse_all(line)?.swap_remove(0))
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
            assert!(matches!(parse_line(line), Ok(Command::Help(_))), "{line}");
        }
        for (suite, bench) in selected("").0.benches {
            assert!(help().contains(suite.name) && help().contains(bench.name));
        }
    }

    #[test]
    fn suites_may_have_words_of_their_own() {
        for line in [
            "step --json mini:8 --rounds 3",
            "--json step mini:8 --rounds 3",
        ] {
            let commands = parse_all(line).expect(line);
            assert!(
                matches!(&commands[..], [Command::Step(options)] if options.json && options.rounds == 3)
            );
        }
        assert!(matches!(
            parse_line("generate --json base"),
            Ok(Command::Generate(options)) if options.json
        ));
        match parse_line("step --help") {
            Ok(Command::Help(text)) => {
                assert!(text.contains("--python") && text.contains("times_limit"))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_fault_is_called_one_once_and_shown_with_the_usage_of_its_suite() {
        for line in ["step huge", "step small --engines wings", "tape huge"] {
            let problem = parse_line(line).expect_err(line);
            assert!(!problem.starts_with("error"), "{problem}");
            let of_all = problem.contains("Suites:");
            assert_eq!(of_all, !line.starts_with("step"), "{problem}");
        }
        let problem = parse_line("step huge").expect_err("no such preset");
        assert!(problem.contains("`huge`"), "{problem}");
    }

    #[test]
    fn products_and_ops_are_chosen_by_parts_of_their_names() {
        let expected = speed::Options {
            names: vec!["8x24".to_owned()],
            json: true,
        };
        for (line, other) in [("gemm 8x24 --json", "gemm"), ("--json ops 8x24", "ops")] {
            match parse_line(line) {
                Ok(Command::Gemm(options)) if other == "gemm" => assert_eq!(options, expected),
                Ok(Command::Ops(options)) if other == "ops" => assert_eq!(options, expected),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(parse_line("gemm --help"), Ok(Command::Help(_))));
        let problem = parse_line("gemm --counts").expect_err("only tape counts");
        assert!(problem.contains("no option `--counts`"), "{problem}");
    }

    #[test]
    fn without_a_suite_all_are_measured() {
        for (line, json) in [("", false), ("--json --counts", true)] {
            let commands = parse_all(line).expect(line);
            assert!(matches!(
                &commands[..],
                [Command::Measure(tape), Command::Gemm(gemm), Command::Ops(ops), Command::Step(steps), Command::Generate(texts), Command::Bpe(bpe)]
                    if [tape.json, gemm.json, ops.json, steps.json, texts.json, bpe.json] == [json; 6]
            ));
        }
    }

    #[test]
    fn a_turn_of_the_tokenizers_is_understood() {
        let commands = parse_all("--bpe-turn encode-cold 2 burtorch text vocabulary").unwrap();
        assert!(matches!(&commands[..], [Command::BpeTurn(turn)] if turn.task.threads == 2));
        assert!(
            matches!(parse_line("bpe decode --json"), Ok(Command::Bpe(options)) if options.json)
        );
        assert!(
            parse_line("bpe fast")
                .expect_err("no such work")
                .contains("`fast`")
        );
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
            (
                "gpt",
                "there is no suite `gpt`: expected tape, gemm, ops, step, generate, bpe",
            ),
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
