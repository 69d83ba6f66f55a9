//! Texts to encode and to learn from.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use burtorch_gpt::embedded;

use super::task::Work;

/// Of larger files only the beginning is taken, so that none makes up much of a corpus.
const MOST: usize = 1 << 18;

/// The size of tiny Shakespeare, for what takes its place.
const ENGLISH: usize = 1_115_394;

/// Kinds of text, by the ends of file names; files of the kinds take turns.
const KINDS: [&[&str]; 7] = [
    &["rs"],
    &["md", "txt", "rst"],
    &["py", "pl", "pm", "sh", "js"],
    &["html", "xml", "svg"],
    &["c", "h", "cpp", "hpp"],
    &["json", "toml", "yaml", "conf"],
    &["po", "pod", "tex", "copyright"],
];

/// A text by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Corpus {
    English,
    /// So many megabytes of all kinds.
    Mixed(usize),
}

impl Corpus {
    pub(crate) const ALL: [Self; 3] = [Self::English, Self::Mixed(10), Self::Mixed(100)];

    pub(crate) fn name(self) -> String {
        match self {
            Self::English => "english".into(),
            Self::Mixed(size) => format!("mixed{size}"),
        }
    }

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|corpus| corpus.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("expected {names}, found `{name}`")
        })
    }

    /// Whether it is the text for a work of which no text is named.
    pub(crate) fn is_usual_for(self, work: Work) -> bool {
        match work {
            Work::Train(1024) => self == Self::English,
            Work::Train(_) => self == Self::Mixed(100),
            _ => self != Self::Mixed(100),
        }
    }

    /// Writes it to a file; `english` may say where that text is.
    pub(crate) fn write(self, folder: &Path, english: Option<&Path>) -> Result<PathBuf> {
        let path = folder.join(self.name());
        match self {
            Self::English => fs::write(&path, english_text(english)?)?,
            Self::Mixed(size) => write_mixed(&path, size * 1_000_000)?,
        }
        Ok(path)
    }
}

/// The file that is named, the one beside the repository where texts are shared, or the embedded tales.
fn english_text(named: Option<&Path>) -> Result<String> {
    if let Some(path) = named {
        return fs::read_to_string(path).with_context(|| path.display().to_string());
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join("shared");
    match fs::read_to_string(beside.join("data").join("tinyshakespeare.txt")) {
        Ok(text) => Ok(text),
        Err(_) => {
            eprintln!("english: no tiny Shakespeare here, the embedded tales take its place");
            Ok(embedded::TEXT.chars().cycle().take(ENGLISH).collect())
        }
    }
}

/// Folders in which machines keep text.
fn folders() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.map(|home| home.join("registry").join("src"));
    let shared = ["/usr/share", "/usr/include", "/usr/lib"].map(PathBuf::from);
    sources.into_iter().chain(shared).collect()
}

/// Files of all kinds in turns, in the order of their names, up to `size` bytes.
fn write_mixed(path: &Path, size: usize) -> Result<()> {
    let mut kinds: Vec<Vec<PathBuf>> = vec![Vec::new(); KINDS.len()];
    for folder in folders() {
        collect(&folder, &mut kinds);
    }
    let most = kinds.iter().map(Vec::len).max().unwrap_or_default();
    let turns = (0..most).flat_map(|place| kinds.iter().filter_map(move |kind| kind.get(place)));
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut left = size;
    for text in turns.filter_map(|path| beginning(path)) {
        let text = cut(&text, left.min(MOST));
        file.write_all(text.as_bytes())?;
        left -= text.len();
        if left < 4 {
            break;
        }
    }
    file.flush()?;
    if left == size {
        bail!("no texts were found for a mixed corpus");
    }
    if left > size / 100 {
        eprintln!(
            "the mixed corpus is {} bytes short: there is no more text here",
            left
        );
    }
    Ok(())
}

/// Adds the files below a folder to their kinds; links are not followed.
fn collect(folder: &Path, kinds: &mut [Vec<PathBuf>]) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(&path, kinds),
            Ok(kind) if kind.is_file() => {
                let end = path.extension().or(path.file_name()).unwrap_or_default();
                let end = end.to_string_lossy();
                if let Some(kind) = KINDS.iter().position(|ends| ends.contains(&&*end)) {
                    kinds[kind].push(path);
                }
            }
            _ => {}
        }
    }
}

/// The text of a file, if it is one.
fn beginning(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The longest beginning of at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let mut ends = (0..=most.min(text.len())).rev();
    let end = ends.find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or_default()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(
            (cut("aé", 2), cut("aé", 3), cut("aé", 99)),
            ("a", "aé", "aé")
        );
    }

    #[test]
    fn every_work_has_a_text() {
        for work in Work::ALL {
            assert!(Corpus::ALL.iter().any(|corpus| corpus.is_usual_for(work)));
        }
    }

    #[test]
    fn the_text_that_is_named_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a text");
        fs::write(&path, "some text").unwrap();
        let written = Corpus::English.write(folder.path(), Some(&path)).unwrap();
        assert_eq!(fs::read_to_string(written).unwrap(), "some text");
        assert!(
            Corpus::English
                .write(folder.path(), Some(Path::new("none")))
                .is_err()
        );
    }
}
