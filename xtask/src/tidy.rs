//! Text rules that no compiler checks. Each rule looks at one file and names the lines it does not like.

use crate::files::{TextFile, text_files};
use crate::process::root;
use crate::{markdown, rust_text};
use anyhow::{Result, bail};

/// The only places where `unsafe` may be written: files, or folders when they end in a slash. The first one calls another crate, to be
/// measured; the last one counts allocations, which takes an implementation of an unsafe trait.
const ISLANDS: [&str; 7] = [
    "benches/src/gemm/crate_gemm.rs",
    "crates/core/src/lanes/dispatch.rs",
    "crates/core/src/tape/numbers.rs",
    "crates/core/src/tape/unchecked.rs",
    "crates/data/src/token_file/mapping.rs",
    "crates/tensor/src/kernels/",
    "tests/src/allocator.rs",
];

/// The packages that hold an island: they deny unsafe code and allow it on one module, so they cannot forbid it.
const ISLAND_PACKAGES: [&str; 5] = [
    "benches/",
    "crates/core/",
    "crates/data/",
    "crates/tensor/",
    "tests/",
];

/// Files that must be there whatever else is.
const REQUIRED: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// The kinds of file that people write here, and whose white space is therefore ours to keep.
const WRITTEN: [&str; 6] = ["rs", "toml", "md", "py", "sh", "yml"];

// Forbidden texts are put together from halves, or this file would break its own rules.
const MACHINE_FOLDERS: [&str; 3] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
];
const SHARED_FOLDER: &str = concat!("../sha", "red");
const LEFTOVERS: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
const REGISTRY_SETTINGS: [&str; 3] = ["[source", "[registr", "index ="];
const PUBLIC_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// How a Rust file begins: with its own words, or a crate's with those of its README.
const HEADERS: [&str; 2] = ["//!", "#![doc = include_str!"];

/// Marks left by unfinished or switched-off code.
const UNFINISHED: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// A line and what is wrong with it.
type Fault = (usize, String);

/// The rules, each for one file at a time.
const RULES: [fn(&TextFile) -> Vec<Fault>; 9] = [
    header,
    white_space,
    leftovers,
    unfinished,
    unsafe_outside_islands,
    unsafe_not_forbidden,
    machine_paths,
    registries,
    broken_links,
];

/// Applies every rule to every file of the repository.
pub(crate) fn check() -> Result<()> {
    let files = text_files()?;
    let mut faults: Vec<String> = files.iter().flat_map(faults_in).collect();
    faults.extend(
        REQUIRED
            .iter()
            .filter(|path| !root().join(path).is_file())
            .map(|path| format!("{path}:1: missing")),
    );
    if !faults.is_empty() {
        bail!("faults found: {}\n{}", faults.len(), faults.join("\n"));
    }
    println!("{} text files are tidy", files.len());
    Ok(())
}

/// The files that hold unsafe code.
pub(crate) fn files_with_unsafe() -> Result<Vec<String>> {
    let files = text_files()?.into_iter();
    Ok(files
        .filter(|file| !unsafe_lines(file).is_empty())
        .map(|file| file.path)
        .collect())
}

fn faults_in(file: &TextFile) -> Vec<String> {
    let faults = RULES.iter().flat_map(|rule| rule(file));
    faults
        .map(|(line, fault)| format!("{}:{line}: {fault}", file.path))
        .collect()
}

/// One fault for each line on which `fault` finds one.
fn line_faults(text: &str, fault: impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let found = text.split('\n').enumerate();
    found
        .filter_map(|(index, line)| Some((index + 1, fault(line)?)))
        .collect()
}

fn header(file: &TextFile) -> Vec<Fault> {
    if !file.is("rs") || HEADERS.iter().any(|header| file.text.starts_with(header)) {
        return Vec::new();
    }
    vec![(
        1,
        "a Rust file begins with a `//!` header that says what it is".to_owned(),
    )]
}

fn white_space(file: &TextFile) -> Vec<Fault> {
    if !WRITTEN.iter().any(|extension| file.is(extension)) {
        return Vec::new();
    }
    let mut faults = line_faults(&file.text, |line| {
        let fault = match line {
            _ if line.ends_with('\r') => "carriage return at the end of the line",
            _ if line.contains('\t') => "tab",
            _ if line.ends_with(char::is_whitespace) => "white space at the end of the line",
            _ => return None,
        };
        Some(fault.to_owned())
    });
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        faults.push((
            file.text.lines().count(),
            "the last line is not ended".to_owned(),
        ));
    }
    faults
}

fn leftovers(file: &TextFile) -> Vec<Fault> {
    if !WRITTEN.iter().any(|extension| file.is(extension)) {
        return Vec::new();
    }
    line_faults(&file.text, |line| {
        let word = LEFTOVERS
            .iter()
            .find(|word| rust_text::has_word(line, word))?;
        Some(format!("`{word}` is left over: settle it"))
    })
}

fn unfinished(file: &TextFile) -> Vec<Fault> {
    if !file.is("rs") {
        return Vec::new();
    }
    line_faults(&rust_text::code_only(&file.text), |line| {
        let mark = UNFINISHED.iter().find(|mark| line.contains(**mark))?;
        Some(format!("`{mark}` does not belong into finished code"))
    })
}

fn unsafe_outside_islands(file: &TextFile) -> Vec<Fault> {
    if ISLANDS.iter().any(|island| is_within(&file.path, island)) {
        return Vec::new();
    }
    let fault = || format!("unsafe code is allowed only in {}", ISLANDS.join(", "));
    unsafe_lines(file)
        .into_iter()
        .map(|line| (line, fault()))
        .collect()
}

fn is_within(path: &str, island: &str) -> bool {
    path == island || (island.ends_with('/') && path.starts_with(island))
}

/// The lines whose code, not prose, holds the keyword.
fn unsafe_lines(file: &TextFile) -> Vec<usize> {
    if !file.is("rs") {
        return Vec::new();
    }
    let code = rust_text::code_only(&file.text);
    let lines = code.lines().enumerate();
    lines
        .filter(|(_, line)| rust_text::has_word(line, "unsafe"))
        .map(|(index, _)| index + 1)
        .collect()
}

fn unsafe_not_forbidden(file: &TextFile) -> Vec<Fault> {
    if !file.path.ends_with("src/lib.rs") && !file.path.ends_with("src/main.rs") {
        return Vec::new();
    }
    let code = rust_text::code_only(&file.text);
    let has = |attribute: &str| code.lines().any(|line| line.trim_end() == attribute);
    let holds_island = ISLAND_PACKAGES
        .iter()
        .any(|package| file.path.starts_with(package));
    if has("#![forbid(unsafe_code)]") || (holds_island && has("#![deny(unsafe_code)]")) {
        return Vec::new();
    }
    vec![(1, "the crate must say `#![forbid(unsafe_code)]`".to_owned())]
}

fn machine_paths(file: &TextFile) -> Vec<Fault> {
    line_faults(&file.text, |line| {
        if line.contains(SHARED_FOLDER) {
            return Some(format!("`{SHARED_FOLDER}` lies outside the repository"));
        }
        let folder = MACHINE_FOLDERS
            .iter()
            .find(|folder| holds_absolute(line, folder))?;
        Some(format!(
            "a path under `{folder}` exists on one machine only"
        ))
    })
}

/// Whether `folder` stands in `line` as the beginning of a path and not within a longer one.
fn holds_absolute(line: &str, folder: &str) -> bool {
    let continues = |letter: char| letter.is_alphanumeric() || "._-~".contains(letter);
    line.match_indices(folder)
        .any(|(start, _)| !line[..start].ends_with(continues))
}

/// Packages come from the public registry; which mirror serves them is the machine's affair.
fn registries(file: &TextFile) -> Vec<Fault> {
    let in_settings = file.path.starts_with(".cargo/") || file.path.ends_with("Cargo.toml");
    let in_lock = file.path.ends_with("Cargo.lock");
    line_faults(&file.text, |line| {
        let line = line.trim();
        if in_settings
            && REGISTRY_SETTINGS
                .iter()
                .any(|setting| line.starts_with(setting))
        {
            return Some(
                "a registry is set here: leave that to the machine's own settings".to_owned(),
            );
        }
        let source = line.strip_prefix("source = ")?.trim_matches('"');
        (in_lock && source != PUBLIC_REGISTRY)
            .then(|| format!("`{source}` is not the public registry"))
    })
}

fn broken_links(file: &TextFile) -> Vec<Fault> {
    if !file.is("md") {
        return Vec::new();
    }
    let folder = root()
        .join(&file.path)
        .parent()
        .map_or(root().to_owned(), std::path::Path::to_owned);
    let links = markdown::links(&file.text).into_iter();
    links
        .filter_map(|(line, link)| {
            let target = local_target(&link)?;
            (!folder.join(target).exists())
                .then(|| (line, format!("the link to `{target}` leads nowhere")))
        })
        .collect()
}

/// The file a link names; nothing for addresses, places within the same page and paths of Rust items.
fn local_target(link: &str) -> Option<&str> {
    let link = link.trim_start_matches('<').trim_end_matches('>');
    if link.contains("://")
        || link.contains("::")
        || link.starts_with("mailto:")
        || link.starts_with("crate")
    {
        return None;
    }
    link.split('#').next().filter(|target| !target.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        faults_in(&TextFile {
            path: path.to_owned(),
            text: text.to_owned(),
        })
    }

    fn assert_fault(path: &str, text: &str, expected: &str) {
        let found = faults(path, text);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{path}: {text:?} gave {found:?}"
        );
    }

    #[test]
    fn this_repository_is_tidy() {
        check().expect("every text rule holds");
    }

    #[test]
    fn tidy_files_pass() {
        let code = "//! Unsafe code, todo!() and dbg!() may be spoken of: unsafe.\n#![forbid(unsafe_code)]\n\
            /* unsafe */ const A: &str = \"unsafe todo!()\"; // #[ignore]\n";
        assert_eq!(faults("crates/nn/src/lib.rs", code), [""; 0]);
        assert_eq!(
            faults("data.txt", "tabs\tand spaces are data \r\n"),
            [""; 0]
        );
        assert_eq!(
            faults(
                "notes.md",
                "[a](https://example.org/work/a) [b](#b) [c](crate::C) `[d](d.md)`\n"
            ),
            [""; 0]
        );
    }

    #[test]
    fn files_need_a_header() {
        assert_fault(
            "a.rs",
            "fn main() {}\n",
            "a.rs:1: a Rust file begins with a `//!` header",
        );
    }

    #[test]
    fn white_space_is_kept() {
        assert_fault("a.rs", "//! A.\n\tfn a() {}\n", "a.rs:2: tab");
        assert_fault("a.md", "one \ntwo\n", "a.md:1: white space at the end");
        assert_fault("a.toml", "a = 1\r\n", "a.toml:1: carriage return");
        assert_fault("a.py", "a = 1\nb = 2", "a.py:2: the last line is not ended");
    }

    #[test]
    fn nothing_is_left_over() {
        for word in LEFTOVERS {
            assert_fault("a.rs", &format!("//! A.\n// {word} later\n"), "a.rs:2: `");
            assert_eq!(faults("a.md", &format!("{word}s\n")), [""; 0]);
        }
    }

    #[test]
    fn code_is_finished() {
        for mark in [
            "todo!()",
            "unimplemented!()",
            "dbg!(1)",
            "#[ignore]",
            "#[ignore = \"slow\"]",
        ] {
            assert_fault("a.rs", &format!("//! A.\n\n{mark}\n"), "a.rs:3: `");
        }
    }

    #[test]
    fn unsafe_stays_on_its_islands() {
        let code = "//! A.\nfn a() { unsafe { b() } }\n";
        assert_fault(
            "crates/nn/src/a.rs",
            code,
            "crates/nn/src/a.rs:2: unsafe code is allowed only in",
        );
        assert_fault(
            "crates/core/src/tape.rs",
            code,
            "crates/core/src/tape.rs:2: unsafe",
        );
        assert_eq!(faults("crates/core/src/tape/unchecked.rs", code), [""; 0]);
        assert_eq!(faults("crates/tensor/src/kernels/avx.rs", code), [""; 0]);
    }

    #[test]
    fn crates_forbid_unsafe() {
        assert_fault(
            "crates/nn/src/lib.rs",
            "//! A.\n",
            "crates/nn/src/lib.rs:1: the crate must say",
        );
        let denied = "//! A.\n#![deny(unsafe_code)]\n";
        assert_fault("crates/gpt/src/main.rs", denied, "the crate must say");
        assert_eq!(faults("crates/core/src/lib.rs", denied), [""; 0]);
        assert_fault(
            "a/src/lib.rs",
            "//! A.\n// #![forbid(unsafe_code)]\n",
            "the crate must say",
        );
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_fault(
                "a.txt",
                &format!("\nsee {folder}a\n"),
                "a.txt:2: a path under",
            );
            assert_eq!(
                faults("a.txt", &format!("see https://example.org{folder}a\n")),
                [""; 0]
            );
        }
        assert_fault(
            "a.md",
            &format!("--data {SHARED_FOLDER}/a\n"),
            "lies outside the repository",
        );
    }

    #[test]
    fn registries_are_the_machines_affair() {
        assert_fault(
            ".cargo/config.toml",
            "[source.crates-io]\n",
            "config.toml:1: a registry is set here",
        );
        assert_fault(
            "a/Cargo.toml",
            "[registries.mine]\n",
            "a registry is set here",
        );
        assert_fault(
            "Cargo.lock",
            "source = \"sparse+https://mirror.example/\"\n",
            "is not the public registry",
        );
        assert_eq!(
            faults("Cargo.lock", &format!("source = \"{PUBLIC_REGISTRY}\"\n")),
            [""; 0]
        );
    }

    #[test]
    fn links_lead_somewhere() {
        assert_fault(
            "xtask/a.md",
            "\n[a](no-such-file.md#part)\n",
            "xtask/a.md:2: the link to `no-such-file.md`",
        );
        assert_eq!(
            faults("xtask/a.md", "[a](../Cargo.toml) [b](../crates/core)\n"),
            [""; 0]
        );
    }
}
