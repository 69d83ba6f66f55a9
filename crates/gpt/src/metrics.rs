//! The record of a run, one JSON object a line and a line a step.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;

/// One line of `metrics.jsonl`. Numbers are written with as few digits as bring them back exactly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The step, counted from 1.
    pub step: u64,
    /// Mean loss of the batch before the step, in nats per token.
    pub loss: f64,
    /// Learning rate.
    pub lr: f64,
    /// Euclidean norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Tokens of the batch by the time of the step.
    pub tokens_per_s: f64,
    /// Time of the step in milliseconds, without evaluation and saving.
    pub ms: f64,
    /// At an evaluation: mean loss on validation text behind the step, in nats per token, on the same
    /// windows each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub val_loss: Option<f64>,
    /// Text drawn behind the step, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
}

/// The file, open at its end.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Metrics {
    /// Starts an empty file.
    ///
    /// # Errors
    ///
    /// [`Error::File`], naming `path`.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(Error::file(path, "write the metrics"))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
        })
    }

    /// Opens the file of a run that goes on behind `step`: later lines, and a half-written one, are cut off. The lines that stay are
    /// returned.
    ///
    /// # Errors
    ///
    /// [`Error::File`] or [`Error::Content`], naming `path`.
    pub fn resume(path: &Path, step: u64) -> Result<(Self, Vec<Line>), Error> {
        let text = fs::read(path).map_err(Error::file(path, "read the metrics"))?;
        let (lines, length) = complete_lines(path, &text, step)?;
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .map_err(Error::file(path, "write the metrics"))?;
        file.set_len(length as u64)
            .map_err(Error::file(path, "cut the metrics"))?;
        Ok((
            Self {
                path: path.to_owned(),
                file: BufWriter::new(file),
            },
            lines,
        ))
    }

    /// The lines of a run, whether it has ended or not: a half-written last one is left out.
    ///
    /// # Errors
    ///
    /// [`Error::File`] or [`Error::Content`], naming `path`.
    pub fn read(path: &Path) -> Result<Vec<Line>, Error> {
        let text = fs::read(path).map_err(Error::file(path, "read the metrics"))?;
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        Ok(lines_to(path, &text[..whole], u64::MAX)?.0)
    }

    /// Appends a line; it may stay in memory until [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// [`Error::File`], naming the file.
    pub fn append(&mut self, line: &Line) -> Result<(), Error> {
        let written = serde_json::to_writer(&mut self.file, line).map_err(std::io::Error::from);
        written
            .and_then(|()| self.file.write_all(b"\n"))
            .map_err(Error::file(&self.path, "write the metrics"))
    }

    /// Brings everything appended so far to the disk.
    ///
    /// # Errors
    ///
    /// [`Error::File`], naming the file.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .map_err(Error::file(&self.path, "write the metrics"))
    }
}

/// The lines up to `step`, which must be 1, 2, … and none missing, and the length of their text.
fn lines_to(path: &Path, text: &[u8], step: u64) -> Result<(Vec<Line>, usize), Error> {
    let mut lines = Vec::new();
    let mut length = 0;
    for piece in text.split_inclusive(|byte| *byte == b'\n') {
        let number = lines.len() as u64 + 1;
        if number > step {
            break;
        }
        let line: Line = serde_json::from_slice(piece).map_err(|error| {
            Error::content(
                path,
                format!("a record of step {number}"),
                error.to_string(),
            )
        })?;
        if !piece.ends_with(b"\n") {
            let expected = format!("a line end behind step {number}");
            return Err(Error::content(path, expected, "the end of the file"));
        }
        if line.step != number {
            return Err(Error::content(
                path,
                format!("a line for step {number}"),
                format!("one for {}", line.step),
            ));
        }
        length += piece.len();
        lines.push(line);
    }
    Ok((lines, length))
}

/// As [`lines_to`], where the lines must reach `step`.
fn complete_lines(path: &Path, text: &[u8], step: u64) -> Result<(Vec<Line>, usize), Error> {
    let (lines, length) = lines_to(path, text, step)?;
    if lines.len() as u64 == step {
        return Ok((lines, length));
    }
    let (expected, found) = (
        format!("lines for {step} steps"),
        format!("{} lines", lines.len()),
    );
    Err(Error::content(path, expected, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: u64) -> Line {
        Line {
            step,
            loss: 0.1 + 0.2,
            lr: 1e-3,
            grad_norm: 1.5,
            tokens_per_s: 1e6,
            ms: 0.5,
            val_loss: None,
            sample: None,
        }
    }

    #[test]
    fn f29_lines_behind_the_saved_step_are_cut_and_the_file_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut metrics = Metrics::create(&path).unwrap();
        (1..=5).for_each(|step| metrics.append(&line(step)).unwrap());
        metrics.sync().unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], br#"{"step":6,"lo"#].concat()).unwrap();

        let (mut metrics, lines) = Metrics::resume(&path, 3).unwrap();
        assert_eq!(lines, [line(1), line(2), line(3)]);
        metrics.append(&line(4)).unwrap();
        metrics.append(&line(5)).unwrap();
        metrics.sync().unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
    }

    #[test]
    fn missing_lines_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        fs::write(&path, "{}\n").unwrap();
        assert!(
            Metrics::resume(&path, 1)
                .unwrap_err()
                .to_string()
                .contains("step 1")
        );
        fs::write(&path, serde_json::to_string(&line(1)).unwrap()).unwrap();
        let message = Metrics::resume(&path, 1).unwrap_err().to_string();
        assert!(
            message.ends_with("expected a line end behind step 1, found the end of the file"),
            "{message}"
        );
        assert!(Metrics::resume(&path, 0).unwrap().1.is_empty());
        assert!(
            Metrics::resume(&path, 1)
                .unwrap_err()
                .to_string()
                .contains("found 0 lines")
        );
    }

    #[test]
    fn numbers_come_back_exactly() {
        let text = serde_json::to_string(&line(1)).unwrap();
        assert!(
            text.contains("0.30000000000000004") && !text.contains("val_loss"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line(1));
    }
}
