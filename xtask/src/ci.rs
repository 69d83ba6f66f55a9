//! The steps of the CI, in the order they run.

use crate::arguments::Selection;
use crate::counts::Counts;
use crate::process::{cargo, output_of, program, run as run_command, run_watching};
use crate::{bench, layers, readme, sanitize, scratch, tidy};
use anyhow::Result;
use std::time::{Duration, Instant};

/// One check. It may add to the counts of tests, and fails with an error that says what is wrong.
struct Step {
    name: &'static str,
    about: &'static str,
    when: When,
    check: fn(&mut Counts) -> Result<()>,
}

/// The least thorough run that a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum When {
    Quick,
    Normal,
    Full,
}

#[rustfmt::skip] // one step, one line
const STEPS: [Step; 12] = [
    Step { name: "fmt", about: "the code is formatted", when: When::Quick, check: fmt },
    Step { name: "clippy", about: "no lint warns, in any target", when: When::Quick, check: clippy },
    Step { name: "layers", about: "packages depend only on those below them", when: When::Quick, check: |_| layers::check() },
    Step { name: "tidy", about: "text rules hold: headers, unsafe, links", when: When::Quick, check: |_| tidy::check() },
    Step { name: "test", about: "unit, property and integration tests", when: When::Quick, check: test },
    Step { name: "doctest", about: "the examples of the documentation", when: When::Normal, check: doctest },
    Step { name: "docs", about: "the documentation builds without a warning", when: When::Normal, check: docs },
    Step { name: "benches", about: "the benches compile", when: When::Normal, check: benches },
    Step { name: "package", about: "each crate can be packaged for publishing", when: When::Normal, check: package },
    Step { name: "scratch", about: "projects outside the workspace can use single crates", when: When::Normal, check: |_| scratch::check() },
    Step { name: "readme", about: "the commands and figures of README and docs hold", when: When::Normal, check: |_| readme::check() },
    Step { name: "sanitize", about: "unsafe code runs clean under AddressSanitizer or valgrind", when: When::Full, check: sanitize::check },
];

/// The steps, one line each.
pub(crate) fn list() -> String {
    let line = |step: &Step| {
        let when = match step.when {
            When::Quick => "",
            When::Normal => " (not with --quick)",
            When::Full => " (only with --full)",
        };
        format!("  {:<9} {}{when}", step.name, step.about)
    };
    STEPS.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Whether there is a step of this name.
pub(crate) fn has_step(name: &str) -> bool {
    STEPS.iter().any(|step| step.name == name)
}

/// Runs the selected steps up to the first failure and prints a closing table; true when all passed.
pub(crate) fn run(selection: &Selection) -> bool {
    let (report, text) = run_steps(STEPS.iter().filter(|step| is_selected(step, selection)));
    println!("{text}");
    report
}

fn is_selected(step: &Step, selection: &Selection) -> bool {
    match selection {
        Selection::Quick => step.when <= When::Quick,
        Selection::Normal => step.when <= When::Normal,
        Selection::Full => true,
        Selection::Only(name) => step.name == name,
    }
}

/// Runs steps up to the first failure; whether all passed, and the closing text, whose last line holds the counts of tests.
fn run_steps<'a>(steps: impl Iterator<Item = &'a Step>) -> (bool, String) {
    let mut counts = Counts::default();
    let mut closing = format!("{:<9} {:>9}", "step", "seconds");
    let start = Instant::now();
    for step in steps {
        println!("== {}: {}", step.name, step.about);
        let begin = Instant::now();
        let result = (step.check)(&mut counts);
        closing += &row(step.name, begin.elapsed());
        println!(
            "== {}: {}, {:.1} s\n",
            step.name,
            if result.is_ok() { "passed" } else { "FAILED" },
            begin.elapsed().as_secs_f64()
        );
        if let Err(error) = result {
            closing += &format!(
                "\n\nstep {} failed: {error:#}\nrun it alone: cargo xtask ci --only {}",
                step.name, step.name
            );
            // The counts may be clean when it was no test that failed, so this line says it too.
            closing += &format!("\n{counts}, stopped at step {}", step.name);
            return (false, closing);
        }
    }
    closing += &row("all", start.elapsed());
    (true, format!("{closing}\n{counts}"))
}

fn row(name: &str, time: Duration) -> String {
    format!("\n{name:<9} {:>9.1}", time.as_secs_f64())
}

fn fmt(_: &mut Counts) -> Result<()> {
    run_command(&mut cargo(&["fmt", "--all", "--check"]))
}

fn clippy(_: &mut Counts) -> Result<()> {
    run_command(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

fn test(counts: &mut Counts) -> Result<()> {
    // Examples of the documentation have a step of their own.
    let mut command = cargo(&[
        "test",
        "--workspace",
        "--no-fail-fast",
        "--lib",
        "--bins",
        "--tests",
    ]);
    run_watching(&mut command, |line| counts.add_line(line))
}

fn doctest(counts: &mut Counts) -> Result<()> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast", "--doc"]);
    run_watching(&mut command, |line| counts.add_line(line))
}

fn docs(_: &mut Counts) -> Result<()> {
    run_command(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn benches(_: &mut Counts) -> Result<()> {
    run_command(&mut cargo(&["bench", "--workspace", "--no-run"]))?;
    let crates = bench::build()?;
    println!("the benches compare with reverse and {crates:?}");
    Ok(())
}

/// Packages depend on each other, so one call makes them all. They are not built again here: cargo unpacks them into a
/// cache that it keys by folder and version, and on a second run in a folder would build against the files of the first.
fn package(_: &mut Counts) -> Result<()> {
    let mut command = cargo(&[
        "package",
        "--workspace",
        "--exclude",
        "xtask",
        "--exclude",
        "burtorch-tests",
        "--exclude",
        "burtorch-benches",
        "--no-verify",
    ]);
    let changes = output_of(&mut program("git", &["status", "--porcelain"]))?;
    // At a desk one checks before one commits; in CI a change means that some step wrote into the tree.
    if !changes.is_empty() && std::env::var_os("CI").is_none() {
        command.arg("--allow-dirty");
    }
    run_command(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn step(name: &'static str, check: fn(&mut Counts) -> Result<()>) -> Step {
        Step {
            name,
            about: "a trial",
            when: When::Quick,
            check,
        }
    }

    fn passes(counts: &mut Counts) -> Result<()> {
        counts.passed += 2;
        Ok(())
    }

    fn fails(counts: &mut Counts) -> Result<()> {
        counts.failed += 1;
        bail!("it broke")
    }

    fn never(_: &mut Counts) -> Result<()> {
        panic!("no step runs after a failure")
    }

    #[test]
    fn the_last_line_sums_the_tests() {
        let (passed, closing) = run_steps([step("one", passes), step("two", passes)].iter());
        assert!(
            passed && closing.ends_with("\n4 passed, 0 failed"),
            "{closing}"
        );
    }

    #[test]
    fn the_first_failure_stops_the_run_and_says_how_to_repeat_it() {
        let (passed, closing) = run_steps(
            [
                step("one", passes),
                step("two", fails),
                step("three", never),
            ]
            .iter(),
        );
        assert!(!passed);
        assert!(
            closing
                .contains("step two failed: it broke\nrun it alone: cargo xtask ci --only two\n"),
            "{closing}"
        );
        assert!(
            closing.ends_with("\n2 passed, 1 failed, stopped at step two"),
            "{closing}"
        );
    }

    #[test]
    fn each_selection_takes_its_steps() {
        let names = |selection| {
            let steps = STEPS.iter().filter(|step| is_selected(step, &selection));
            steps.map(|step| step.name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(Selection::Quick), "fmt clippy layers tidy test");
        let normal = "fmt clippy layers tidy test doctest docs benches package scratch readme";
        assert_eq!(names(Selection::Normal), normal);
        assert_eq!(names(Selection::Full), format!("{normal} sanitize"));
        assert_eq!(names(Selection::Only("docs".to_owned())), "docs");
    }

    #[test]
    fn steps_are_known_by_name() {
        assert!(has_step("sanitize") && !has_step("bake"));
        assert!(STEPS.iter().all(|step| list().contains(step.about)));
    }
}
