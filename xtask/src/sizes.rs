//! Line counts: printed for whoever wants to know, never a limit.

use crate::files::{TextFile, text_files};
use crate::rust_text;
use anyhow::Result;
use std::collections::BTreeMap;

/// How many of the longest files and functions are shown.
const SHOWN: usize = 10;

/// Lines of Rust by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lines {
    /// Code outside tests.
    code: usize,
    /// Code of tests and benches.
    tests: usize,
    /// Comments and documentation.
    prose: usize,
}

/// A function's name, the line it begins on and its length in lines.
#[derive(Debug, PartialEq)]
struct Function {
    name: String,
    line: usize,
    length: usize,
}

/// Prints lines per package, the longest files and functions, and how long functions usually are.
pub(crate) fn print() -> Result<()> {
    let files: Vec<TextFile> = text_files()?
        .into_iter()
        .filter(|file| file.is("rs"))
        .collect();
    print_packages(&files);
    print_longest_files(&files);
    print_functions(&files);
    Ok(())
}

fn print_packages(files: &[TextFile]) {
    let mut packages = BTreeMap::<&str, Lines>::new();
    for file in files {
        let (found, sum) = (
            count(file),
            packages.entry(package(&file.path)).or_default(),
        );
        sum.code += found.code;
        sum.tests += found.tests;
        sum.prose += found.prose;
    }
    println!(
        "{:<20} {:>7} {:>7} {:>7}",
        "package", "code", "tests", "prose"
    );
    for (name, lines) in &packages {
        println!(
            "{name:<20} {:>7} {:>7} {:>7}",
            lines.code, lines.tests, lines.prose
        );
    }
}

fn print_longest_files(files: &[TextFile]) {
    let mut lengths: Vec<_> = files
        .iter()
        .map(|file| (count(file).code, &file.path))
        .collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    println!("\nlongest files (code outside tests)");
    lengths
        .iter()
        .take(SHOWN)
        .for_each(|(length, path)| println!("{length:>7} {path}"));
}

fn print_functions(files: &[TextFile]) {
    let of_file = |file: &TextFile| {
        let path = file.path.clone();
        functions(&file.text)
            .into_iter()
            .map(move |function| (function, path.clone()))
    };
    let mut all: Vec<_> = files.iter().flat_map(of_file).collect();
    all.sort_by_key(|(function, _)| std::cmp::Reverse(function.length));
    println!("\nlongest functions");
    for (Function { name, line, length }, path) in all.iter().take(SHOWN) {
        println!("{length:>7} {name} {path}:{line}");
    }
    let at = |share: usize| {
        all.get(all.len() * share / 100)
            .map_or(0, |(function, _)| function.length)
    };
    println!(
        "\n{} functions; median {} lines, nine in ten up to {}",
        all.len(),
        at(50),
        at(10)
    );
}

/// The folder of the package a file belongs to.
fn package(path: &str) -> &str {
    let depth = if path.starts_with("crates/") { 1 } else { 0 };
    path.match_indices('/')
        .nth(depth)
        .map_or(path, |(end, _)| &path[..end])
}

fn count(file: &TextFile) -> Lines {
    let code = rust_text::code_only(&file.text);
    // Unit tests stand at the end of a file, behind their attribute; other tests fill files of their own.
    let mut in_tests = ["/tests/", "/benches/"]
        .iter()
        .any(|folder| file.path.contains(folder));
    let mut lines = Lines::default();
    for (code, raw) in code.lines().zip(file.text.lines()) {
        in_tests |= code.trim() == "#[cfg(test)]";
        match (code.trim().is_empty(), raw.trim().is_empty()) {
            (false, _) if in_tests => lines.tests += 1,
            (false, _) => lines.code += 1,
            (true, false) => lines.prose += 1,
            (true, true) => {}
        }
    }
    lines
}

/// The functions that have a body; a function within another counts for both.
fn functions(text: &str) -> Vec<Function> {
    let code = rust_text::code_only(text);
    let mut functions = Vec::new();
    let mut start = 0;
    while let Some(offset) = rust_text::word_at(&code[start..], "fn") {
        let begin = start + offset;
        start = begin + "fn".len();
        let name: String = code[start..]
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if let Some(body) = body_length(&code[start..]).filter(|_| !name.is_empty()) {
            let line = code[..begin].matches('\n').count() + 1;
            functions.push(Function {
                name,
                line,
                length: code[begin..start + body].matches('\n').count() + 1,
            });
        }
    }
    functions
}

/// How many bytes lie before the end of the body, if there is one before the next semicolon outside brackets.
fn body_length(code: &str) -> Option<usize> {
    let (mut brackets, mut braces) = (0_usize, 0_usize);
    for (index, letter) in code.char_indices() {
        match letter {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets = brackets.saturating_sub(1),
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' if braces == 1 => return Some(index + 1),
            '}' => braces = braces.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//! A.\n\nfn one() -> [u8; 2] { [1, 2] }\n\ntrait T { fn none(&self); }\n\
        fn two() {\n    // why\n    if true { \"}\"; }\n}\n\n#[cfg(test)]\nmod tests {}\n";

    #[test]
    fn lines_are_sorted_by_kind() {
        let file = TextFile {
            path: "crates/core/src/a.rs".to_owned(),
            text: TEXT.to_owned(),
        };
        assert_eq!(
            count(&file),
            Lines {
                code: 5,
                tests: 2,
                prose: 2
            }
        );
        let file = TextFile {
            path: "tests/tests/a.rs".to_owned(),
            text: TEXT.to_owned(),
        };
        assert_eq!(
            count(&file),
            Lines {
                code: 0,
                tests: 7,
                prose: 2
            }
        );
    }

    #[test]
    fn functions_with_bodies_are_measured() {
        let function = |name: &str, line, length| Function {
            name: name.to_owned(),
            line,
            length,
        };
        assert_eq!(
            functions(TEXT),
            [function("one", 3, 1), function("two", 6, 4)]
        );
    }

    #[test]
    fn packages_are_folders() {
        assert_eq!(package("crates/core/src/lib.rs"), "crates/core");
        assert_eq!(package("xtask/src/main.rs"), "xtask");
    }
}
