//! Byte-pair encodings in the files of others. Of two files that belong together one is damaged at a time.

use std::fs;
use std::path::{Path, PathBuf};

use burtorch_gpt::Error;
use burtorch_gpt::tokenizer::Tokenizer;
use burtorch_gpt::tokenizer::bpe::{Bpe, Given, SplitRule, Trainer};
use burtorch_tests::Outcome;

use super::{Load, Target};

/// Text with a bit of everything that split rules tell apart.
const TEXT: &str =
    "Once, there's 1234 ways  to\r\n say \u{e9}t\u{e9} <|endoftext|>\u{8a9e} \u{1f98a}\n\n";

/// A small encoding.
fn encoding(rule: &SplitRule) -> Outcome<Bpe> {
    let mut trainer = Trainer::new(rule.clone()).with_specials(vec!["<|endoftext|>".into()])?;
    trainer.add(TEXT.repeat(3).as_bytes())?;
    Ok(trainer.train(270)?.bpe)
}

/// One that is built in, a hard one with look-around, and an easy one.
fn rules() -> Outcome<[SplitRule; 3]> {
    Ok([
        SplitRule::Gpt2,
        SplitRule::CL100K.parse()?,
        r"\w+|\W".parse()?,
    ])
}

/// Takes an encoding in use: text becomes tokens and, whatever they are, text again.
fn used(path: &Path, given: &Given) -> Result<(), Error> {
    let tokenizer = Tokenizer::load_with(path, given)?;
    let tokens = tokenizer.encode(TEXT, "x")?;
    assert_eq!(tokenizer.decode(&tokens)?, TEXT);
    Ok(())
}

pub(super) fn tokenizer_json(folder: &Path) -> Outcome<Target> {
    let mut seeds = Vec::new();
    for rule in rules()? {
        let path = folder.join("seed.json");
        encoding(&rule)?.save(&path)?;
        seeds.push(fs::read(path)?);
    }
    Ok(Target {
        name: "bpe-tokenizer",
        file: "bpe.json",
        seeds,
        load: Box::new(|path| used(path, &Given::default())),
    })
}

pub(super) fn tiktoken(folder: &Path) -> Outcome<Target> {
    let path = folder.join("seed.tiktoken");
    let rule = SplitRule::Gpt2;
    encoding(&rule)?.save(&path)?;
    let given = Given {
        rule: Some(rule),
        specials: vec![("<|endoftext|>".into(), 269)],
        ..Given::default()
    };
    Ok(Target {
        name: "bpe-tiktoken",
        file: "bpe.tiktoken",
        seeds: vec![fs::read(path)?],
        load: Box::new(move |path| used(path, &given)),
    })
}

pub(super) fn vocabulary(folder: &Path) -> Outcome<Target> {
    two_files(folder, "bpe-vocabulary", "vocab.json")
}

pub(super) fn merges(folder: &Path) -> Outcome<Target> {
    two_files(folder, "bpe-merges", "merges.txt")
}

/// The file of this name damaged, beside a whole one.
fn two_files(folder: &Path, name: &'static str, file: &'static str) -> Outcome<Target> {
    let rule = SplitRule::Gpt2;
    let both = tempfile::tempdir_in(folder)?.keep();
    let damaged: PathBuf = both.join(file);
    encoding(&rule)?.save(&damaged)?;
    let seeds = vec![fs::read(&damaged)?];
    let given = Given {
        rule: Some(rule),
        ..Given::default()
    };
    let load: Load = Box::new(move |path| {
        fs::copy(path, &damaged).map_err(Error::Output)?;
        used(&damaged, &given)
    });
    Ok(Target {
        name,
        file,
        seeds,
        load,
    })
}
