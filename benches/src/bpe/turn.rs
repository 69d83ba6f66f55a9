//! One turn: a process that does one thing a few times, and says how long it took and how much memory.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bpe_crate::byte_pair_encoding::{BytePairEncoding, find_hash_factor_for_dictionary};
use burtorch_data::Fnv1a;
use burtorch_gpt::memory::peak_resident_bytes;
use burtorch_gpt::tokenizer::bpe::{Bpe, Given, Specials, SplitRule, Trainer};
use serde::{Deserialize, Serialize};
use tiktoken_rs::CoreBPE;

pub(crate) use super::task::Task;
use super::task::{Who, Work};

/// Repetitions end after this time, but not before the second.
const TIME: Duration = Duration::from_millis(400);

/// A task with its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) task: Task,
    pub(crate) text: PathBuf,
    pub(crate) vocabulary: PathBuf,
}

/// What a turn tells.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Outcome {
    /// Of the best repetition.
    pub(crate) seconds: f64,
    pub(crate) peak_rss_mb: Option<f64>,
    /// Of the tokens, or of the bytes when decoding.
    pub(crate) check: u64,
}

/// Does it and prints the outcome.
pub(crate) fn run(turn: &Turn) -> Result<()> {
    let (seconds, check) = match turn.task.work {
        Work::Train(size) => train(turn, size)?,
        work => code(turn, work)?,
    };
    let outcome = Outcome {
        seconds,
        peak_rss_mb: peak_resident_bytes().map(|bytes| bytes as f64 / 1e6),
        check,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// Seconds of the fastest repetition, and what the last one made.
fn best<T>(mut work: impl FnMut() -> T) -> (f64, T) {
    let start = Instant::now();
    let mut least = f64::INFINITY;
    let mut repetitions = 0;
    loop {
        let begin = Instant::now();
        let made = black_box(work());
        least = least.min(begin.elapsed().as_secs_f64());
        repetitions += 1;
        if repetitions >= 2 && start.elapsed() > TIME {
            return (least, made);
        }
    }
}

fn check(tokens: &[u32]) -> u64 {
    let bytes = |hash: Fnv1a, token: &u32| hash.with(&token.to_le_bytes());
    tokens.iter().fold(Fnv1a::default(), bytes).value()
}

fn train(turn: &Turn, size: usize) -> Result<(f64, u64)> {
    let text = fs::File::open(&turn.text)?;
    let start = Instant::now();
    let mut trainer = Trainer::new(SplitRule::Gpt2).with_threads(turn.task.threads);
    trainer.read(text, &mut |_| ())??;
    let trained = trainer.train(size)?;
    let seconds = start.elapsed().as_secs_f64();
    let merges = trained.bpe.merges().iter();
    let merges: Vec<u32> = merges.flat_map(|merge| [merge.left, merge.right]).collect();
    Ok((seconds, check(&merges)))
}

fn code(turn: &Turn, work: Work) -> Result<(f64, u64)> {
    let text = fs::read_to_string(&turn.text)?;
    let bpe = || Bpe::load(&turn.vocabulary, &Given::default());
    match turn.task.who {
        Who::Burtorch => ours(&bpe()?, &text, work, turn.task.threads),
        Who::Bpe => with_bpe(&bpe()?, &text, work),
        _ => tiktoken(&tiktoken_rs::r50k_base()?, &text, work),
    }
}

fn ours(bpe: &Bpe, text: &str, work: Work, threads: usize) -> Result<(f64, u64)> {
    let bytes = text.as_bytes();
    if work == Work::Decode {
        let tokens = bpe.encode(bytes)?;
        let (seconds, bytes) = best(|| bpe.decode(&tokens));
        return Ok((seconds, Fnv1a::default().with(&bytes?).value()));
    }
    let encode = |encoder: &mut burtorch_gpt::tokenizer::bpe::StreamEncoder<'_>| {
        let mut tokens = Vec::with_capacity(bytes.len() / 3);
        encoder.push(bytes, &mut tokens)?;
        encoder.finish(&mut tokens).map(|()| tokens)
    };
    let (seconds, tokens) = match (work, threads) {
        (Work::EncodeCold, 1) => best(|| bpe.encode(bytes)),
        (Work::EncodeCold, _) => best(|| encode(&mut bpe.stream(Specials::Ordinary, threads))),
        (_, 1) => {
            let mut encoder = bpe.encoder();
            best(|| {
                let mut tokens = Vec::with_capacity(bytes.len() / 3);
                encoder.encode(bytes, &mut tokens).map(|()| tokens)
            })
        }
        _ => {
            let mut encoder = bpe.stream(Specials::Ordinary, threads);
            best(|| encode(&mut encoder))
        }
    };
    Ok((seconds, check(&tokens?)))
}

fn tiktoken(tiktoken: &CoreBPE, text: &str, work: Work) -> Result<(f64, u64)> {
    if work == Work::Decode {
        let tokens = tiktoken.encode_ordinary(text);
        let (seconds, bytes) = best(|| tiktoken.decode_bytes(&tokens));
        let bytes = bytes
            .ok()
            .context("tiktoken-rs does not decode its tokens")?;
        return Ok((seconds, Fnv1a::default().with(&bytes).value()));
    }
    let (seconds, tokens) = best(|| tiktoken.encode_ordinary(text));
    Ok((seconds, check(&tokens)))
}

fn with_bpe(ours: &Bpe, text: &str, work: Work) -> Result<(f64, u64)> {
    let words = || {
        let all = ours.tokens().take(super::R50K as usize);
        all.map(|(_, bytes)| bytes.to_vec())
    };
    let factor = find_hash_factor_for_dictionary(words());
    let bpe = BytePairEncoding::from_dictionary(words(), Some(factor));
    let mut encode = || {
        let mut tokens = Vec::new();
        let pieces = SplitRule::Gpt2.pieces(text.as_bytes(), |start, end| {
            tokens.extend(bpe.encode_via_backtracking(&text.as_bytes()[start..end]));
        });
        pieces.map(|()| tokens)
    };
    if work == Work::Decode {
        let tokens = encode()?;
        let (seconds, bytes) = best(|| bpe.decode_tokens(&tokens));
        return Ok((seconds, Fnv1a::default().with(&bytes).value()));
    }
    let (seconds, tokens) = best(&mut encode);
    Ok((seconds, check(&tokens?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpe::Vocabulary;

    #[test]
    fn all_have_the_same_tokens_and_the_same_text() {
        let folder = tempfile::tempdir().unwrap();
        let vocabulary = Vocabulary::write(folder.path()).unwrap().tiktoken;
        let text = folder.path().join("text");
        fs::write(
            &text,
            "Before we proceed any further, hear me speak. 嗎 ".repeat(20),
        )
        .unwrap();
        for work in [Work::EncodeCold, Work::EncodeWarm, Work::Decode] {
            let checks = [
                (Who::Burtorch, 1),
                (Who::Burtorch, 2),
                (Who::Tiktoken, 1),
                (Who::Bpe, 1),
            ]
            .map(|(who, threads)| {
                let task = Task { work, threads, who };
                let turn = Turn {
                    task,
                    text: text.clone(),
                    vocabulary: vocabulary.clone(),
                };
                code(&turn, work).unwrap().1
            });
            assert!(
                checks.iter().all(|check| *check == checks[0]),
                "{work:?}: {checks:?}"
            );
        }
        let task = Task {
            work: Work::Train(300),
            threads: 2,
            who: Who::Burtorch,
        };
        let turn = Turn {
            task,
            text,
            vocabulary,
        };
        assert!(train(&turn, 300).unwrap().0 > 0.0);
    }

    #[test]
    fn the_fastest_repetition_counts() {
        let mut calls = 0;
        let (seconds, last) = best(|| {
            calls += 1;
            std::thread::sleep(Duration::from_millis(if calls == 2 { 5 } else { 100 }));
            calls
        });
        assert!(seconds < 0.09 && last >= 4, "{seconds}");
    }
}
