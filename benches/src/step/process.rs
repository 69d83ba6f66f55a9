//! Memory and start of processes.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::case::Case;
use super::turns::Footprint;

/// The step behind which memory is read: one later than an evaluation and a saved state.
const LAST_STEP: u64 = 3;

/// A process that is ended when it is dropped.
pub(crate) struct Owned(pub(crate) Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Owned {
    /// Its largest resident memory so far in megabytes, where the operating system says.
    pub(crate) fn peak_rss_mb(&self) -> Option<f64> {
        peak_in(&std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?)
    }
}

fn peak_in(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

/// What `burtorch-gpt train` takes for a case, on the embedded text, with a folder and all that a run writes.
pub(crate) fn of_training(case: Case) -> Result<Footprint> {
    let program = program()?;
    if !program.is_file() {
        eprintln!(
            "{case}: no {}: memory and start are not measured",
            program.display()
        );
        return Ok(Footprint::default());
    }
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(program);
    command
        .args(words(case))
        .arg("--out")
        .arg(folder.path().join("run"));
    let start = Instant::now();
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    watch(Owned(child), start)
}

/// The program lies beside this one.
fn program() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    Ok(here.with_file_name(format!("burtorch-gpt{}", std::env::consts::EXE_SUFFIX)))
}

/// So few steps that each of them has a line of its own.
fn words(case: Case) -> Vec<String> {
    let options = [
        ("--preset", case.preset.name().to_owned()),
        ("--batch-size", case.batch.to_string()),
        ("--engine", case.engine_name().to_owned()),
        ("--threads", case.threads.to_string()),
        ("--dropout", "0".to_owned()),
        ("--steps", "20".to_owned()),
        ("--eval-every", (LAST_STEP - 1).to_string()),
        ("--eval-batches", "1".to_owned()),
    ];
    let words = options
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value]);
    std::iter::once("train".to_owned()).chain(words).collect()
}

/// Reads the lines of steps until there is nothing more to learn.
fn watch(mut process: Owned, start: Instant) -> Result<Footprint> {
    let output = process.0.stderr.take().context("no standard error")?;
    let mut start_ms = None;
    let mut last = String::new();
    for line in BufReader::new(output).lines() {
        last = line?;
        match step_of(&last) {
            Some(1) => start_ms = Some(start.elapsed().as_secs_f64() * 1e3),
            Some(LAST_STEP) => {
                let peak_rss_mb = process.peak_rss_mb();
                return Ok(Footprint {
                    peak_rss_mb,
                    start_ms,
                });
            }
            _ => {}
        }
    }
    bail!("burtorch-gpt made no step {LAST_STEP}: {last}")
}

/// The number in `step 3/20  loss …`.
fn step_of(line: &str) -> Option<u64> {
    line.strip_prefix("step ")?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burtorch_gpt::cli::Cli;
    use burtorch_gpt::config::{EngineKind, Preset};
    use clap::Parser;

    #[test]
    fn the_peak_is_found() {
        let status = "Name:\tx\nVmHWM:\t    5000 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(peak_in(status), Some(5.12));
        assert_eq!(peak_in("VmHWM:\t many kB\n"), None);
        assert_eq!(peak_in(""), None);
    }

    #[test]
    fn steps_are_read() {
        assert_eq!(step_of("step 3/20  loss 4.1  lr 1e-3"), Some(3));
        assert_eq!(step_of("model     6 layers"), None);
    }

    #[test]
    fn the_program_takes_the_words() {
        let case = Case {
            preset: Preset::Base,
            batch: 4,
            engine: EngineKind::Scalar,
            threads: 2,
        };
        let words = std::iter::once("burtorch-gpt".to_owned()).chain(words(case));
        assert!(Cli::try_parse_from(words).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_process_is_watched_until_its_last_step() -> Result<()> {
        let watch_script = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stderr(Stdio::piped());
            watch(Owned(command.spawn()?), Instant::now())
        };
        let endless = "for i in 1 2 3; do echo step $i/20 >&2; done; exec cat /dev/zero";
        let found = watch_script(&format!("{endless} >/dev/null"))?;
        assert!(found.start_ms.is_some_and(|ms| ms > 0.0));
        assert_eq!(found.peak_rss_mb.is_some(), cfg!(target_os = "linux"));
        let problem = watch_script("echo it broke >&2").expect_err("no step");
        assert!(problem.to_string().contains("it broke"));
        Ok(())
    }
}
