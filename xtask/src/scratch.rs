//! Projects outside our workspace that use single crates of ours by path, as a user's project does.
//!
//! The templates lie in `tests/scratch/`, one folder each. A fresh copy is made under `target/` and run there. The project
//! `core` has no program of its own: it runs the first example of README.md and must print what the README says.

use crate::markdown::{Block, blocks};
use crate::process::{cargo, output_of, root};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The project that runs the README's example.
const README_PROJECT: &str = "core";

/// How the templates' manifests reach the root of the repository.
const UP_TO_ROOT: &str = "../../..";

/// Makes and runs every project of `tests/scratch`.
pub(crate) fn check() -> Result<()> {
    for template in templates()? {
        let name = template
            .file_name()
            .context("a folder has a name")?
            .to_string_lossy()
            .into_owned();
        check_project(&name, &template).with_context(|| format!("tests/scratch/{name}"))?;
    }
    Ok(())
}

fn templates() -> Result<Vec<PathBuf>> {
    let folder = root().join("tests/scratch");
    let entries =
        fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}

fn check_project(name: &str, template: &Path) -> Result<()> {
    let project = fresh_copy(name, template)?;
    if name != README_PROJECT {
        print!("{}", run(&project)?);
        return Ok(());
    }
    let text = fs::read_to_string(root().join("README.md")).context("cannot read README.md")?;
    let example = example(&text)?;
    fs::create_dir_all(project.join("src"))?;
    fs::write(project.join("src/main.rs"), program_text(&example.code))?;
    let printed = run(&project)?;
    print!("{printed}");
    compare(&printed, &example.output)
}

/// Copies a template to a new folder under `target/`, with the paths to our crates filled in.
fn fresh_copy(name: &str, template: &Path) -> Result<PathBuf> {
    let project = root().join("target/scratch").join(name);
    if project.exists() {
        fs::remove_dir_all(&project)?;
    }
    copy_folder(template, &project)?;
    let manifest = project.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).context("cannot read Cargo.toml")?;
    fs::write(
        &manifest,
        text.replace(UP_TO_ROOT, &root().to_string_lossy()),
    )?;
    // The same versions as in our workspace: nothing is resolved or downloaded anew.
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock"))?;
    Ok(project)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (source, target) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if source.is_dir() {
            copy_folder(&source, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

/// Builds and runs a project; returns what it printed.
fn run(project: &Path) -> Result<String> {
    println!(
        "$ cargo run --quiet  (in {})",
        project.strip_prefix(root()).unwrap_or(project).display()
    );
    let target = root().join("target/scratch/target");
    output_of(
        cargo(&["run", "--quiet"])
            .current_dir(project)
            .env("CARGO_TARGET_DIR", target),
    )
}

/// An example and what it prints.
struct Example {
    code: Vec<String>,
    output: Vec<String>,
}

/// The first Rust block of a text and the text block that follows it.
fn example(text: &str) -> Result<Example> {
    let mut blocks = blocks(text).into_iter().skip_while(|block| !is_rust(block));
    let code = blocks.next().context("README.md has no ```rust example")?;
    let output = blocks.next().filter(|block| block.language == "text");
    let output = output.with_context(|| {
        format!(
            "README.md:{}: a ```text block with what the example prints must follow",
            code.line
        )
    })?;
    Ok(Example {
        code: code.body,
        output: output.body,
    })
}

fn is_rust(block: &Block) -> bool {
    block.language.split(',').next() == Some("rust")
}

/// A whole program: as rustdoc does, an example without `main` is put into one.
fn program_text(code: &[String]) -> String {
    let code = code.join("\n");
    if code.contains("fn main()") {
        return code;
    }
    format!("fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{{\n{code}\n}}\nOk(())\n}}\n")
}

fn compare(printed: &str, expected: &[String]) -> Result<()> {
    let (printed, expected) = (printed.trim_end(), expected.join("\n"));
    let expected = expected.trim_end();
    ensure!(
        printed == expected,
        "the README's example printed\n{printed}\nbut README.md says\n{expected}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_example_and_its_output_are_found() {
        let text = "```sh\nls\n```\n```rust,no_run\nlet a = 1;\n```\nprints\n```text\n1\n```\n";
        let example = example(text).expect("it has both");
        assert_eq!(
            (example.code, example.output),
            (lines("let a = 1;"), lines("1"))
        );
    }

    #[test]
    fn an_example_without_output_is_an_error() {
        assert!(example("no code").is_err());
        assert!(example("```rust\nlet a = 1;\n```\n```sh\nls\n```\n").is_err());
    }

    #[test]
    fn examples_become_programs() {
        assert_eq!(program_text(&lines("fn main() {}")), "fn main() {}");
        assert!(program_text(&lines("let a = f()?;")).contains("{\nlet a = f()?;\n}\nOk(())"));
    }

    #[test]
    fn other_output_is_an_error() {
        assert!(compare("1\n2\n", &lines("1\n2")).is_ok());
        let error = compare("1\n3\n", &lines("1\n2")).expect_err("they differ");
        assert!(
            error
                .to_string()
                .contains("printed\n1\n3\nbut README.md says\n1\n2"),
            "{error}"
        );
    }
}
