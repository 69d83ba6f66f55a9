//! The same in Python, by the script `benches/python/bpe.py`.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use serde::Deserialize;

use super::task::Work;
use super::turn::Outcome;
use super::{Options, Vocabulary};

/// What the script prints.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Missing { missing: String },
    Measured(Outcome),
}

/// One turn of a library; none if this Python does not have it.
pub(crate) fn measure(
    options: &Options,
    name: &str,
    work: Work,
    text: &Path,
    vocabulary: &Vocabulary,
) -> Result<Option<Outcome>> {
    let Some(python) = &options.python else {
        return Ok(None);
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("python")
        .join("bpe.py");
    let mut command = Command::new(python);
    command.arg(script).arg(name).arg(work.name()).arg(text);
    command
        .arg(&vocabulary.tiktoken)
        .arg(&vocabulary.hugging_face);
    let output = command.output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{name}: {}",
            message.trim().lines().last().unwrap_or_default()
        );
    }
    match serde_json::from_slice(&output.stdout)? {
        Answer::Measured(outcome) => Ok(Some(outcome)),
        Answer::Missing { missing } => {
            eprintln!(
                "{}: no module `{missing}` in {}",
                work.name(),
                python.display()
            );
            Ok(None)
        }
    }
}
