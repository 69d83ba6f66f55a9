//! The program `burtorch-gpt`, built for speed, as the pages for users speak of it.

use crate::process::{cargo, output_of};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const NAME: &str = "burtorch-gpt";

/// What ends a command within a line of a shell.
const ENDS: [&str; 5] = [" | ", " > ", " && ", " # ", "; "];

/// The program.
pub(crate) struct Product {
    executable: PathBuf,
}

impl Product {
    /// Builds it.
    pub(crate) fn build() -> Result<Self> {
        let messages = output_of(&mut cargo(&[
            "build",
            "--release",
            "--package",
            NAME,
            "--message-format",
            "json-render-diagnostics",
        ]))?;
        executable(&messages)
            .map(|executable| Self { executable })
            .with_context(|| format!("cargo names no executable of {NAME}"))
    }

    /// Fails if the command, as typed into a shell, is one of this program that it does not understand. With `--help` behind them, all words are
    /// read, and nothing is done.
    pub(crate) fn understands(&self, command: &str) -> Result<()> {
        for words in calls(command) {
            // The shell takes the quotes off; as `$0` the path needs none.
            let script = format!("\"$0\" {words} --help");
            let output = Command::new("sh")
                .args(["-c", &script])
                .arg(&self.executable)
                .output()
                .context("cannot start `sh`")?;
            if !output.status.success() {
                let error = String::from_utf8_lossy(&output.stderr);
                bail!("`{NAME} {words}`: {}", error.trim());
            }
        }
        Ok(())
    }

    /// The JSON that `info` prints with these flags.
    pub(crate) fn info(&self, flags: &str) -> Result<Value> {
        let mut command = Command::new(&self.executable);
        command
            .arg("info")
            .args(flags.split_whitespace())
            .arg("--json");
        let text = output_of(&mut command)?;
        serde_json::from_str(&text).context("`info --json` printed no JSON")
    }
}

/// The executable in cargo's messages, one of which is a line.
fn executable(messages: &str) -> Option<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .find(|path| path.file_stem().is_some_and(|stem| stem == NAME))
}

/// The words behind the program's name in a line for a shell, for each time that it is called: as installed, or through cargo.
fn calls(command: &str) -> Vec<&str> {
    let (installed, through_cargo) = (format!("{NAME} "), format!("-p {NAME} -- "));
    let mut found = Vec::new();
    for part in pieces(command) {
        let part = part.strip_prefix("time ").unwrap_or(part);
        let words = part
            .strip_prefix(&installed)
            .or_else(|| part.split_once(&through_cargo).map(|(_, words)| words));
        found.extend(words);
    }
    found
}

/// The commands of a line.
fn pieces(line: &str) -> Vec<&str> {
    let mut rest = vec![line];
    for end in ENDS {
        rest = rest.iter().flat_map(|piece| piece.split(end)).collect();
    }
    rest.iter().map(|piece| piece.trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found() {
        assert_eq!(calls("burtorch-gpt train --steps 3"), ["train --steps 3"]);
        assert_eq!(calls("time burtorch-gpt train"), ["train"]);
        assert_eq!(
            calls("cargo run --release -p burtorch-gpt -- train # learns"),
            ["train"]
        );
        assert_eq!(
            calls("echo a | burtorch-gpt generate --model m > b && burtorch-gpt eval --model m"),
            ["generate --model m", "eval --model m"]
        );
        assert_eq!(calls("cargo install --path crates/gpt"), [""; 0]);
    }

    #[test]
    fn special_tokens_are_no_ends() {
        let command = "tokenizer train --special '<|endoftext|>' --out a.json b.txt";
        assert_eq!(calls(&format!("burtorch-gpt {command}")), [command]);
    }

    #[test]
    fn the_executable_is_read_from_cargos_messages() {
        let messages = "{\"executable\":null}\n{\"executable\":\"/t/build-script\"}\nno JSON\n{\"executable\":\"/t/burtorch-gpt\"}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/burtorch-gpt")));
        assert_eq!(executable("{}\n"), None);
    }

    /// In place of the program, one that knows a single flag.
    #[test]
    fn what_is_not_understood_is_an_error() {
        let product = Product {
            executable: "true".into(),
        };
        assert!(product.understands("burtorch-gpt train 'a b'").is_ok());
        let product = Product {
            executable: "false".into(),
        };
        assert!(product.understands("cargo test").is_ok());
        let error = product
            .understands("cat a | burtorch-gpt train --setps 1")
            .expect_err("it fails");
        assert!(
            error
                .to_string()
                .starts_with("`burtorch-gpt train --setps 1`")
        );
    }
}
