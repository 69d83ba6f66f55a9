//! The tests of the crates that hold unsafe code, under AddressSanitizer where there is a nightly toolchain, else under valgrind.

use crate::counts::Counts;
use crate::process::{cargo, output_of, program, run_watching, succeeds};
use crate::tidy;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;

/// Runs the tests, if any file of a crate holds unsafe code; the allocator that tests count with needs no proof of its own.
pub(crate) fn check(counts: &mut Counts) -> Result<()> {
    let mut files = tidy::files_with_unsafe()?;
    files.retain(|file| file.starts_with("crates/"));
    if files.is_empty() {
        println!("no file holds unsafe code: nothing to check");
        return Ok(());
    }
    println!("unsafe code in {}", files.join(", "));
    let packages = packages(&files)?;
    let host = host()?;
    let mut command = if has_address_sanitizer() {
        address_sanitizer(&host)
    } else if succeeds(&mut program("valgrind", &["--version"])) {
        valgrind(&host)
    } else {
        bail!("neither a nightly toolchain with AddressSanitizer nor valgrind is installed");
    };
    for package in &packages {
        command.args(["--package", package]);
    }
    run_watching(&mut command, |line| counts.add_line(line))
}

/// The names of the packages whose folders hold the files.
fn packages(files: &[String]) -> Result<BTreeSet<String>> {
    let folder = |file: &String| file.split("/src/").next().map(str::to_owned);
    let folders: BTreeSet<String> = files.iter().filter_map(folder).collect();
    folders.iter().map(|folder| package_name(folder)).collect()
}

fn package_name(folder: &str) -> Result<String> {
    let manifest = format!("{folder}/Cargo.toml");
    let id = output_of(&mut cargo(&["pkgid", "--manifest-path", &manifest]))?;
    // An identifier ends in `#name@version`.
    let name = id
        .trim()
        .rsplit('#')
        .next()
        .and_then(|end| end.split('@').next());
    Ok(name
        .with_context(|| format!("cannot read the name in `{id}`"))?
        .to_owned())
}

/// The triple of this machine.
fn host() -> Result<String> {
    let version = output_of(&mut program("rustc", &["-vV"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}

/// Whether a nightly toolchain is installed.
fn has_address_sanitizer() -> bool {
    succeeds(&mut program(
        "rustup",
        &["run", "nightly", "rustc", "--version"],
    ))
}

fn address_sanitizer(host: &str) -> std::process::Command {
    let arguments = [
        "run",
        "nightly",
        "cargo",
        "test",
        "--no-fail-fast",
        "--tests",
        "--target",
        host,
    ];
    let mut command = program("rustup", &arguments);
    // With a target given, build scripts and macros are left as they are; a folder of its own spares the other builds.
    command
        .env("RUSTFLAGS", "-Zsanitizer=address")
        // Tests ask for more memory than there is, and expect an error instead of an end.
        .env("ASAN_OPTIONS", "allocator_may_return_null=1")
        .env("CARGO_TARGET_DIR", "target/sanitize");
    command
}

fn valgrind(host: &str) -> std::process::Command {
    let mut command = cargo(&["test", "--no-fail-fast", "--tests"]);
    let runner = format!(
        "CARGO_TARGET_{}_RUNNER",
        host.to_uppercase().replace('-', "_")
    );
    command.env(runner, "valgrind --quiet --error-exitcode=99");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_by_their_files() {
        let files = [
            "crates/core/src/tape/unchecked.rs",
            "crates/core/src/a.rs",
            "crates/tensor/src/kernels/b.rs",
        ];
        let names = packages(&files.map(str::to_owned)).expect("the packages exist");
        assert_eq!(
            names.into_iter().collect::<Vec<_>>(),
            ["burtorch-core", "burtorch-tensor"]
        );
    }

    #[test]
    fn a_folder_without_a_package_is_an_error() {
        assert!(packages(&["docs/src/a.rs".to_owned()]).is_err());
    }
}
