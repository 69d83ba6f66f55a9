//! `tokenizer train`: from texts to a vocabulary.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::meter::Meter;
use super::{check_room, open, rule};
use crate::Error;
use crate::cli::TokenizerTrainArgs;
use crate::commands::{print, print_json, threads};
use crate::memory::peak_resident_bytes;
use crate::progress::note;
use crate::text::grouped;
use crate::tokenizer::bpe::files::hexadecimal;
use crate::tokenizer::bpe::{BpeError, Progress, SplitRule, Trained, Trainer};

/// Single bytes and special tokens are always there.
const BYTES: usize = 256;

/// What came of it.
#[derive(Debug, Serialize)]
struct Outcome {
    vocab_size: usize,
    asked: usize,
    merges: usize,
    bytes: u64,
    seconds: f64,
    peak_rss_mb: Option<f64>,
    sha256: String,
    out: PathBuf,
}

pub(super) fn run(args: &TokenizerTrainArgs) -> Result<(), Error> {
    let start = Instant::now();
    let rule = rule(&args.split)?;
    check(args, &rule)?;
    let mut trainer = Trainer::new(rule)
        .with_threads(threads(args.threads)?)
        .with_specials(args.specials.clone())
        .map_err(|error| Error::setting("--special", "different texts, none empty", error))?;
    let mut bytes = 0;
    for path in &args.texts {
        bytes += read(path, &mut trainer)?;
    }
    let trained = trainer.train(args.vocab_size)?;
    if let Some(shortfall) = trained.shortfall() {
        note(&format!("note: {shortfall}"));
    }
    trained.bpe.save(&args.out)?;
    let outcome = Outcome {
        vocab_size: trained.bpe.size(),
        asked: args.vocab_size,
        merges: trained.bpe.merges().len(),
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        peak_rss_mb: peak_resident_bytes().map(|bytes| bytes as f64 / 1e6),
        sha256: hexadecimal(&trained.bpe.sha256()),
        out: args.out.clone(),
    };
    if args.json {
        print_json(&outcome)
    } else {
        print(&describe(&outcome, &trained))
    }
}

/// Refuses what would only be found out after the texts were read.
fn check(args: &TokenizerTrainArgs, rule: &SplitRule) -> Result<(), Error> {
    let least = BYTES + args.specials.len();
    if args.vocab_size < least {
        let expected = format!(
            "at least {least}, for {BYTES} bytes and {} special tokens",
            args.specials.len()
        );
        return Err(Error::setting("--vocab-size", expected, args.vocab_size));
    }
    let folder = args
        .out
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Error::content(folder, "a folder to write to", "none"));
    }
    for path in &args.texts {
        if path != Path::new("-") {
            let (_, length) = open(path)?;
            check_room(rule, path, length)?;
        }
    }
    Ok(())
}

/// Counts a text; its bytes.
fn read(path: &Path, trainer: &mut Trainer) -> Result<u64, Error> {
    let (text, length) = open(path)?;
    let mut meter = Meter::new("counting", length);
    let mut bytes = 0;
    let read: Result<Result<(), BpeError>, _> = trainer.read(text, &mut |progress| {
        if let Progress::Counted(counted) = progress {
            bytes = counted;
            meter.bytes(counted);
        }
    });
    read.map_err(Error::file(path, "read the text"))??;
    Ok(bytes)
}

fn describe(outcome: &Outcome, trained: &Trained) -> String {
    let least = trained.counts.last();
    let rarest = least.map_or(String::new(), |count| {
        format!(", the last of a pair that occurs {} times", grouped(*count))
    });
    format!(
        "read     {} bytes in {:.2} s\n\
         learned  {} merges{rarest}\n\
         wrote    {}: {} tokens, SHA-256 {}",
        grouped(outcome.bytes),
        outcome.seconds,
        grouped(outcome.merges as u64),
        outcome.out.display(),
        grouped(outcome.vocab_size as u64),
        outcome.sha256,
    )
}
