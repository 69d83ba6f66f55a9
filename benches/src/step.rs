//! Whole training steps of the presets: forward, backward, clipping, optimizer; ours, and the same in PyTorch and JAX.
//!
//! [`options`] reads the command line and lists the [`case`]s. Those of one preset and batch size form a contest: all that can make
//! such a step take turns, and the peak probe with them, so that a busy machine slows all of them down. [`ours`] makes steps in this
//! process, [`python`] in processes of the scripts in `benches/python`. These start from our weights, on our batches, and must have
//! our losses in the first steps. [`process`] measures memory and start of a process; for ours that is the program `burtorch-gpt`.

mod case;
mod options;
mod ours;
mod process;
mod python;
mod report;
mod turns;

use anyhow::Result;

use case::{Case, tokens};
pub(crate) use options::{Options, a_python};
use ours::Ours;
pub(crate) use process::Owned;
use python::Rival;
use report::Row;
use turns::{Contestant, Limits};

/// Who makes our steps.
const OURS: &str = "burtorch";

/// Measures and prints what the options name; false if what ours does is not what the others do.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let tokens = tokens()?;
    if !options.json {
        println!("{}", Row::header());
    }
    let mut all_right = true;
    for contest in options.contests() {
        let mut field = Vec::new();
        for &case in &contest {
            field.push(Contestant::new(case, OURS, Ours::new(case, &tokens)?));
        }
        let (rivals, agree) = rivals(options, &contest, &tokens);
        all_right &= agree;
        field.extend(rivals);
        let peak = turns::run(&mut field, Limits::of(options))?;
        for contestant in field {
            let row = Row::new(contestant, peak)?;
            if options.json {
                println!("{}", row.json()?);
            } else {
                println!("{}", row.line());
            }
        }
    }
    Ok(all_right)
}

/// The others that can make the steps of a contest, and whether all of them agree with ours.
fn rivals<'a>(options: &Options, contest: &[Case], tokens: &[u32]) -> (Vec<Contestant<'a>>, bool) {
    let (mut found, mut agree) = (Vec::new(), true);
    let Some(python) = &options.python else {
        return (found, agree);
    };
    for &case in contest.iter().filter(|case| case.has_rivals()) {
        for who in python::WHO {
            match Rival::start(python, who, case, tokens) {
                Ok(Some(rival)) => found.push(Contestant::new(case, who, rival)),
                Ok(None) => {}
                Err(error) => {
                    eprintln!("{case} {who}: left out: {error:#}");
                    agree = false;
                }
            }
        }
    }
    (found, agree)
}
