//! `plot`: the curves of runs as one picture.

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};

use super::print;
use crate::cli::PlotArgs;
use crate::metrics::Metrics;
use crate::plot::{Curves, svg, terminal};
use crate::progress::note;
use crate::run_directory::RunDirectory;
use crate::{Error, atomic_file};

/// Where the picture of several runs goes when nothing is said.
const SEVERAL: &str = "curves.svg";

/// Draws the runs, and prints where the picture is; on a terminal, each run's losses in characters too.
///
/// # Errors
///
/// [`Error::Content`] for a folder that is no run or a run without a step, and whatever the operating system refuses.
pub fn run(args: &PlotArgs) -> Result<(), Error> {
    let runs: Vec<_> = args
        .runs
        .iter()
        .map(|path| RunDirectory::open(path))
        .collect::<Result<_, _>>()?;
    let curves: Vec<_> = runs.iter().map(read).collect::<Result<_, _>>()?;
    let out = match (&args.out, &runs[..]) {
        (Some(out), _) => out.clone(),
        (None, [run]) => run.curve(),
        (None, _) => PathBuf::from(SEVERAL),
    };
    write(&curves, &out)?;
    if stderr().is_terminal() {
        for curves in &curves {
            note(&format!("{}\n{}\n", curves.name, terminal::losses(curves)));
        }
    }
    print(&out.display().to_string())
}

/// What there is to draw of a run.
pub(super) fn read(run: &RunDirectory) -> Result<Curves, Error> {
    let lines = Metrics::read(&run.metrics())?;
    if lines.is_empty() {
        let expected = "at least one step to draw";
        return Err(Error::content(&run.metrics(), expected, "none"));
    }
    Ok(Curves {
        name: run.path().display().to_string(),
        lines,
    })
}

/// Draws the picture of some runs to a file.
pub(super) fn write(curves: &[Curves], out: &Path) -> Result<(), Error> {
    let text = svg::picture(curves).map_err(|found| Error::content(out, "a picture", found))?;
    atomic_file::replace(out, |file| file.write_all(text.as_bytes()))
}
