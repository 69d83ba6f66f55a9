//! Scripts in `benches/python` that answer requests: a request is a line, and so is its answer, in JSON.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

use crate::step::Owned;

/// A process of a script, which ends with this.
pub(crate) struct Script {
    process: Owned,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Script {
    pub(crate) fn start(python: &Path, name: &str, arguments: &[&OsStr]) -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let mut child = Command::new(python)
            .arg(folder.join(name))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        Ok(Self {
            process: Owned(child),
            requests: requests.context("no standard input")?,
            answers: BufReader::new(answers.context("no standard output")?),
        })
    }

    pub(crate) fn ask<A: DeserializeOwned>(&mut self, request: impl Display) -> Result<A> {
        // If nobody reads the request, the answer is the end of the output.
        _ = writeln!(self.requests, "{request}");
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the script ended");
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Its largest resident memory so far in megabytes, where the operating system says.
    pub(crate) fn peak_rss_mb(&self) -> Option<f64> {
        self.process.peak_rss_mb()
    }
}
