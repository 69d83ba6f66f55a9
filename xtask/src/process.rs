//! Starting other programs: each command is shown before it runs, and its failure is an error that names it.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The root of the repository, the folder that holds this package.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// A call of the cargo that runs us, from the root of the repository.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// A call of another program, from the root of the repository.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root());
    command
}

/// Runs a command to its end; its output goes to ours.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a command to its end without showing it; its exit code, 1 if a signal ended it.
pub(crate) fn run_status(command: &mut Command) -> Result<u8> {
    let status = command.status().with_context(|| cannot_start(command))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(1))
}

/// Runs a command to its end without showing it; whether it ended well, and what it printed on the standard error, which goes to
/// ours too.
pub(crate) fn run_for_errors(command: &mut Command) -> Result<(bool, String)> {
    let output = command
        .stdout(Stdio::inherit())
        .output()
        .with_context(|| cannot_start(command))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    eprint!("{errors}");
    Ok((output.status.success(), errors))
}

/// As [`run`], and hands each line of the standard output to `see` as it appears.
pub(crate) fn run_watching(command: &mut Command, mut see: impl FnMut(&str)) -> Result<()> {
    println!("$ {}", shown(command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| cannot_start(command))?;
    let output = child
        .stdout
        .take()
        .context("the standard output was not piped")?;
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        see(&line);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs a command quietly and returns its standard output; its standard error goes to ours.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| cannot_start(command))?;
    if !output.status.success() {
        bail!("`{}` ended with {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{}` printed no UTF-8", shown(command)))
}

/// Whether a command starts and ends well; what it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", shown(command))
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!(
            "{}={}",
            name.to_string_lossy(),
            quoted(&value?.to_string_lossy())
        ))
    });
    let program = Path::new(command.get_program())
        .file_stem()
        .unwrap_or(command.get_program());
    let arguments = command
        .get_args()
        .map(|argument| quoted(&argument.to_string_lossy()));
    let words = variables
        .chain([program.to_string_lossy().into_owned()])
        .chain(arguments);
    words.collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    if word.contains(char::is_whitespace) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
        let error =
            run(program("sh", &["-c", "exit 3"]).env("DEPTH", "1")).expect_err("it exits with 3");
        assert!(
            error
                .to_string()
                .contains("`DEPTH=1 sh -c 'exit 3'` ended with exit status: 3"),
            "{error}"
        );
        let error = run(&mut program("no-such-program", &[])).expect_err("there is none");
        assert_eq!(error.to_string(), "cannot start `no-such-program`");
    }

    #[test]
    fn lines_are_seen_even_when_the_command_fails() {
        let mut seen = Vec::new();
        let result = run_watching(
            &mut program("sh", &["-c", "echo one; echo two; exit 1"]),
            |line| seen.push(line.to_owned()),
        );
        assert!(result.is_err());
        assert_eq!(seen, ["one", "two"]);
    }

    #[test]
    fn exit_codes_are_returned() {
        let code_of = |script| run_status(&mut program("sh", &["-c", script])).expect("sh starts");
        assert_eq!(
            [code_of("exit 2"), code_of("exit 0"), code_of("kill $$")],
            [2, 0, 1]
        );
    }

    #[test]
    fn errors_are_returned() {
        let of = |script| run_for_errors(&mut program("sh", &["-c", script])).expect("sh starts");
        assert_eq!(of("echo no >&2; exit 1"), (false, "no\n".to_owned()));
        assert_eq!(of("true"), (true, String::new()));
    }

    #[test]
    fn output_is_returned() {
        assert_eq!(
            output_of(&mut program("echo", &["yes"])).expect("echo works"),
            "yes\n"
        );
        assert!(output_of(&mut program("false", &[])).is_err());
        assert!(succeeds(&mut program("true", &[])) && !succeeds(&mut program("false", &[])));
    }
}
