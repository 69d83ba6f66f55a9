//! The README's commands: those marked for it are run, all others are at least checked for commands that do not exist.
//!
//! A block is marked by the line `<!-- ci -->` directly before its opening fence. Its lines are run one by one from the root
//! of the repository, with or without a leading `$ `.

use crate::arguments::COMMANDS;
use crate::markdown::{Block, blocks};
use crate::process::{program, root, run};
use anyhow::{Context, Result, bail, ensure};

const MARK: &str = "<!-- ci -->";
const XTASK: &str = "cargo xtask ";

/// Checks and runs the commands of README.md.
pub(crate) fn check() -> Result<()> {
    let text =
        std::fs::read_to_string(root().join("README.md")).context("cannot read README.md")?;
    let commands = commands(&text)?;
    if commands.is_empty() {
        println!("README.md marks no block with {MARK}: nothing to run");
    }
    for (line, command) in commands {
        run(&mut program("sh", &["-c", &command])).with_context(|| format!("README.md:{line}"))?;
    }
    Ok(())
}

/// The commands to run, each with its line; an error if any block names a command of ours that does not exist.
fn commands(text: &str) -> Result<Vec<(usize, String)>> {
    let mut marked = Vec::new();
    for block in blocks(text).iter().filter(|block| block.language == "sh") {
        for (line, command) in commands_of_block(block) {
            check_command(&command).with_context(|| format!("README.md:{line}"))?;
            if block.before == MARK {
                // The README describes the CI that runs it: without this, one would start the other for ever.
                ensure!(
                    !command.contains("xtask ci"),
                    "README.md:{line}: the CI cannot run itself"
                );
                marked.push((line, command));
            }
        }
    }
    Ok(marked)
}

/// The commands of a block, each with its line; a line that ends in a backslash goes on in the next.
fn commands_of_block(block: &Block) -> Vec<(usize, String)> {
    let mut commands: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (index, line) in block.body.iter().enumerate() {
        let line = line.trim();
        let (text, goes_on) = line
            .strip_suffix('\\')
            .map_or((line, false), |head| (head, true));
        match commands.last_mut().filter(|_| continues) {
            Some((_, command)) => command.push_str(text),
            None if text.is_empty() || text.starts_with('#') => {}
            None => commands.push((
                block.line + 1 + index,
                text.trim_start_matches("$ ").to_owned(),
            )),
        }
        continues = goes_on;
    }
    commands
}

fn check_command(command: &str) -> Result<()> {
    for tail in command.split(XTASK).skip(1) {
        let name = tail.split_whitespace().next().unwrap_or_default();
        if !COMMANDS.contains(&name) && !name.starts_with('-') {
            bail!("`cargo xtask` has no command `{name}`");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_blocks_are_run_line_by_line() {
        let text = "<!-- ci -->\n```sh\n# a note\n$ one --flag\n\ntwo \\\n  --more\n```\n\n```sh\nthree\n```\n";
        let expected = [(4, "one --flag".to_owned()), (6, "two --more".to_owned())];
        assert_eq!(commands(text).expect("all is well"), expected);
    }

    #[test]
    fn only_shell_blocks_count() {
        assert_eq!(
            commands("<!-- ci -->\n```text\none\n```\n").expect("all is well"),
            []
        );
    }

    #[test]
    fn unknown_commands_of_ours_are_found() {
        let error = commands("\n```sh\n$ cargo xtask bake\n```\n").expect_err("there is none");
        assert_eq!(
            format!("{error:#}"),
            "README.md:3: `cargo xtask` has no command `bake`"
        );
        assert!(commands("```sh\ncargo xtask sizes && cargo xtask ci --quick\n```\n").is_ok());
    }

    #[test]
    fn the_ci_does_not_run_itself() {
        assert!(commands("<!-- ci -->\n```sh\ncargo xtask ci --quick\n```\n").is_err());
    }
}
