//! Byte-pair encoding: encoding with the r50k vocabulary, decoding, training; ours beside the crates `tiktoken-rs` and `bpe` and, in
//! Python, tiktoken and tokenizers.
//!
//! [`options`] reads the command line and lists the [`task`]s, [`corpus`] makes the texts. Every measurement is a process of its own ([`turn`]), so
//! that its memory is its own too; those of one task take turns. What is encoded must have the same tokens whoever does it.

mod corpus;
mod options;
mod python;
mod report;
mod task;
pub(crate) mod turn;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use burtorch_gpt::tokenizer::bpe::{Bpe, Given};

use crate::arguments::BPE_TURN;
use corpus::Corpus;
pub(crate) use options::Options;
use report::Row;
use task::{Task, Who, Work};
use turn::Outcome;

/// Tokens of r50k, but for the special one.
const R50K: u32 = 50_256;

/// The vocabulary in files that the processes read.
#[derive(Debug)]
struct Vocabulary {
    tiktoken: PathBuf,
    hugging_face: PathBuf,
}

impl Vocabulary {
    /// Takes it from `tiktoken-rs`.
    fn write(folder: &Path) -> Result<Self> {
        let tiktoken = tiktoken_rs::r50k_base()?;
        let mut text = String::new();
        for token in 0..R50K {
            let bytes = tiktoken.decode_bytes(&[token]).context("r50k has gaps")?;
            text += &format!("{} {token}\n", STANDARD.encode(bytes));
        }
        let this = Self {
            tiktoken: folder.join("r50k.tiktoken"),
            hugging_face: folder.join("tokenizer.json"),
        };
        std::fs::write(&this.tiktoken, text)?;
        Bpe::load(&this.tiktoken, &Given::default())?.save(&this.hugging_face)?;
        Ok(this)
    }
}

/// Measures and prints what the options name; false if somebody's tokens are not those of the others.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let vocabulary = Vocabulary::write(folder.path())?;
    if !options.json {
        println!("{}", Row::header());
    }
    let mut all_agree = true;
    for corpus in options.corpora() {
        let text = corpus.write(folder.path(), options.english.as_deref())?;
        for (work, threads) in options.works(corpus) {
            all_agree &= contest(options, corpus, &text, (work, threads), &vocabulary)?;
        }
        std::fs::remove_file(text)?;
    }
    Ok(all_agree)
}

/// Somebody with what their processes measured.
struct Contestant {
    task: Task,
    outcomes: Vec<Outcome>,
}

/// Lets all that can do a task take turns, and prints a line for each.
fn contest(
    options: &Options,
    corpus: Corpus,
    text: &Path,
    (work, threads): (Work, usize),
    vocabulary: &Vocabulary,
) -> Result<bool> {
    let who = Who::all_for(work, threads, options.python.is_some());
    let task = |who| Task { work, threads, who };
    let mut field: Vec<_> = who
        .map(|who| Contestant {
            task: task(who),
            outcomes: Vec::new(),
        })
        .collect();
    for round in 0..options.rounds_of(work) {
        for contestant in &mut field {
            if round > 0 && contestant.outcomes.is_empty() {
                continue; // cannot do it here
            }
            let found = match contestant.task.who.python_name() {
                None => Some(measure(contestant.task, text, vocabulary)?),
                Some(name) => python::measure(options, name, work, text, vocabulary)?,
            };
            contestant.outcomes.extend(found);
        }
    }
    field.retain(|contestant| !contestant.outcomes.is_empty());
    let mut checks = field.iter().map(|contestant| contestant.outcomes[0].check);
    let first = checks.next();
    let agree = !work.is_comparable() || checks.all(|check| Some(check) == first);
    if !agree {
        eprintln!(
            "{} {}: not all have the same tokens",
            work.name(),
            corpus.name()
        );
    }
    let bytes = std::fs::metadata(text)?.len();
    let rows: Vec<_> = field
        .into_iter()
        .map(|contestant| Row::new(contestant.task, corpus, bytes, &contestant.outcomes))
        .collect();
    for row in &rows {
        println!(
            "{}",
            if options.json {
                row.json()?
            } else {
                row.line(&rows)
            }
        );
    }
    Ok(agree)
}

/// Runs this program again for one turn.
fn measure(task: Task, text: &Path, vocabulary: &Vocabulary) -> Result<Outcome> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(BPE_TURN).args(task.words());
    command.arg(text).arg(&vocabulary.tiktoken);
    let output = command.output()?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}", task.words().join(" "), message.trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
