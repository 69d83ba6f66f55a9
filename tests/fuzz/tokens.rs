//! Texts, files of tokens, and the tokenizers that are our own.

use std::path::Path;

use burtorch_data::{MappedTokens, TokenWriter, Width, read_token_header, read_tokens};
use burtorch_gpt::corpus::{Corpus, Source};
use burtorch_gpt::tokenizer::{NumberTokenizer, Tokenizer};
use burtorch_tests::Outcome;

use super::{Target, written};

pub(super) fn tokenizer(folder: &Path) -> Outcome<Target> {
    let all = [
        Tokenizer::characters_of("the quick brown fox\n\u{e9}\u{1f98a}"),
        Tokenizer::Number(NumberTokenizer::new(50_257)),
    ];
    let mut seeds = Vec::new();
    for tokenizer in &all {
        seeds.push(written(folder, |path| tokenizer.save(path))?);
    }
    let load = |path: &Path| {
        let tokenizer = Tokenizer::load(path)?;
        let first = tokenizer.decode(&[0])?;
        tokenizer.encode(&first, "x").map(drop)
    };
    Ok(Target {
        name: "tokenizer",
        file: "tokenizer.json",
        seeds,
        load: Box::new(load),
    })
}

pub(super) fn text() -> Target {
    let seeds = vec![
        "Once upon a time there was a text.\r\n"
            .repeat(4)
            .into_bytes(),
        "\u{feff}é 語 🦊 ".repeat(8).into_bytes(),
    ];
    let load = |path: &Path| {
        let source = Source::load(Some(path))?;
        let tokenizer = Tokenizer::characters_of(&source.text);
        Corpus::new(&source, &tokenizer, 2).map(drop)
    };
    Target {
        name: "text",
        file: "text.txt",
        seeds,
        load: Box::new(load),
    }
}

/// Files of both widths, one as others write them, without vocabulary and tokenizer.
pub(super) fn token_file(folder: &Path) -> Outcome<Target> {
    const SIZE: usize = 300;
    let tokenizer = Tokenizer::Number(NumberTokenizer::new(SIZE));
    let tokens: Vec<u32> = (0..100).map(|place| place * 7 % SIZE as u32).collect();
    let mut seeds = Vec::new();
    for width in [Width::Two, Width::Four] {
        seeds.push(written(folder, |path| {
            let mut writer = TokenWriter::create(path, width, SIZE, tokenizer.sha256())?;
            writer.push(&tokens)?;
            Ok(writer.finish().map(drop)?)
        })?);
    }
    let mut theirs = seeds[0].clone();
    theirs[12..56].fill(0);
    seeds.push(theirs);
    let load = move |path: &Path| {
        let source = Source::load(Some(path))?;
        if let Some(header) = source.tokens {
            assert_eq!(read_token_header(path)?, header);
            let read = read_tokens(path, SIZE)?;
            if MappedTokens::IS_POSSIBLE {
                assert_eq!(MappedTokens::open(path, SIZE)?.tokens(), read.tokens());
            }
        }
        Corpus::new(&source, &tokenizer, 2).map(drop)
    };
    Ok(Target {
        name: "tokens",
        file: "text.tokens",
        seeds,
        load: Box::new(load),
    })
}
