//! The commands on the pages for users: those marked for it are run, all others are checked for what does not exist.
//!
//! A block is marked by the line `<!-- ci -->` directly before its opening fence. Its lines are run one by one from the root
//! of the repository, with or without a leading `$ `. Of the other commands in `sh` blocks, those of `cargo xtask` must exist, and those of
//! `burtorch-gpt` must be understood by it, flags and values included, although they are not carried out.

use crate::arguments::COMMANDS;
use crate::info_tables;
use crate::markdown::{Block, blocks};
use crate::process::{program, root, run};
use crate::product::Product;
use anyhow::{Context, Result, bail, ensure};

/// The pages, from the root of the repository.
const PAGES: [&str; 4] = [
    "README.md",
    "docs/guide.md",
    "docs/sizes.md",
    "docs/gallery.md",
];
const MARK: &str = "<!-- ci -->";
const XTASK: &str = "cargo xtask ";

/// A command of a page: its line, its text, and whether it is to be run.
#[derive(Debug, PartialEq)]
struct Command {
    line: usize,
    text: String,
    marked: bool,
}

/// Checks the pages, and runs what is marked on them.
pub(crate) fn check() -> Result<()> {
    let product = Product::build()?;
    for page in PAGES {
        check_page(page, &product)?;
    }
    Ok(())
}

fn check_page(page: &str, product: &Product) -> Result<()> {
    let text = std::fs::read_to_string(root().join(page))
        .with_context(|| format!("cannot read {page}"))?;
    let commands = commands(&text).with_context(|| page.to_owned())?;
    for command in &commands {
        let place = || format!("{page}:{}", command.line);
        product.understands(&command.text).with_context(place)?;
    }
    let rows = info_tables::check(page, &text, product)?;
    println!(
        "{page}: {} commands are understood, {rows} rows are those of info",
        commands.len()
    );
    for Command { line, text, .. } in commands.iter().filter(|command| command.marked) {
        run(&mut program("sh", &["-c", text])).with_context(|| format!("{page}:{line}"))?;
    }
    Ok(())
}

/// The commands of the `sh` blocks; an error if one of `cargo xtask` does not exist.
fn commands(text: &str) -> Result<Vec<Command>> {
    let mut found = Vec::new();
    for block in blocks(text).iter().filter(|block| block.language == "sh") {
        for (line, text) in commands_of_block(block) {
            check_command(&text).with_context(|| format!("line {line}"))?;
            let marked = block.before == MARK;
            // The README describes the CI that runs it: without this, one would start the other for ever.
            ensure!(
                !(marked && text.contains("xtask ci")),
                "line {line}: the CI cannot run itself"
            );
            found.push(Command { line, text, marked });
        }
    }
    Ok(found)
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
        let command = |line, text: &str, marked| Command {
            line,
            text: text.to_owned(),
            marked,
        };
        let expected = [
            command(4, "one --flag", true),
            command(6, "two --more", true),
            command(11, "three", false),
        ];
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
            "line 3: `cargo xtask` has no command `bake`"
        );
        assert!(commands("```sh\ncargo xtask sizes && cargo xtask ci --quick\n```\n").is_ok());
    }

    #[test]
    fn the_ci_does_not_run_itself() {
        assert!(commands("<!-- ci -->\n```sh\ncargo xtask ci --quick\n```\n").is_err());
    }

    #[test]
    fn every_page_is_there() {
        for page in PAGES {
            assert!(root().join(page).is_file(), "{page}");
        }
    }
}
