//! The repository's files, as git sees them.

use crate::process::{output_of, program, root};
use anyhow::{Context, Result};

/// A text file of the repository.
pub(crate) struct TextFile {
    /// Where it is, from the root, with forward slashes.
    pub(crate) path: String,
    /// What it holds.
    pub(crate) text: String,
}

impl TextFile {
    /// Whether the name ends in `.extension`.
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path
            .rsplit_once('.')
            .is_some_and(|(_, found)| found == extension)
    }
}

/// Every UTF-8 file that is tracked, or new and not ignored; other files, such as golden tensors, are left out.
pub(crate) fn text_files() -> Result<Vec<TextFile>> {
    let list = output_of(&mut program(
        "git",
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    ))
    .context("git must list the repository's files")?;
    let mut files = Vec::new();
    for path in list.split_terminator('\0') {
        let place = root().join(path);
        // A file that was deleted but is still in git's index is no longer part of the tree.
        if !place.is_file() {
            continue;
        }
        let bytes = std::fs::read(&place).with_context(|| format!("cannot read {path}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(TextFile {
                path: path.to_owned(),
                text,
            });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_file_is_listed() {
        let files = text_files().expect("the repository can be listed");
        let this = files
            .iter()
            .find(|file| file.path == "xtask/src/files.rs")
            .expect("this file is listed");
        assert!(this.is("rs") && !this.is("s") && this.text.starts_with("//!"));
        assert!(files.iter().all(|file| !file.path.starts_with("target/")));
    }
}
