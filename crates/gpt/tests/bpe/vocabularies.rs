//! The vocabularies after r50k, read from files as tiktoken publishes them, beside the encoders of `tiktoken-rs`.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use burtorch_gpt::embedded;
use burtorch_gpt::tokenizer::bpe::{Bpe, Given, Specials, SplitRule};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tiktoken_rs::CoreBPE;

use super::any_text;

/// A vocabulary with the number of its ordinary ids and what it should be found to be.
struct Vocabulary {
    theirs: CoreBPE,
    ordinary: u32,
    size: usize,
    rule: SplitRule,
    specials: usize,
}

/// The file of a vocabulary: `tiktoken-rs` hands out the tokens, not the file.
fn file(vocabulary: &Vocabulary) -> String {
    let bytes = |id| vocabulary.theirs.decode_bytes(&[id]).ok();
    let special = |bytes: &[u8]| bytes.starts_with(b"<|") && bytes.ends_with(b"|>");
    let tokens = (0..vocabulary.ordinary).filter_map(|id| Some((id, bytes(id)?)));
    let lines = tokens.filter(|(_, bytes)| !special(bytes));
    lines
        .map(|(id, bytes)| format!("{} {id}\n", STANDARD.encode(bytes)))
        .collect()
}

/// Reads the file, whose rule and special tokens are known by its hash, and encodes like the other.
fn is_as_theirs(vocabulary: &Vocabulary) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.tiktoken");
    fs::write(&path, file(vocabulary)).unwrap();
    let ours = Bpe::load(&path, &Given::default()).unwrap();
    assert_eq!(ours.size(), vocabulary.size);
    assert_eq!(ours.rule(), &vocabulary.rule);
    assert_eq!(ours.specials().len(), vocabulary.specials);
    let same = |text: &str| {
        let found = ours.encode(text.as_bytes()).unwrap();
        assert!(found == vocabulary.theirs.encode_ordinary(text), "{text:?}");
        assert_eq!(ours.decode(&found).unwrap(), text.as_bytes());
        let found = ours
            .encode_with(text.as_bytes(), Specials::Allowed)
            .unwrap();
        let expected = vocabulary.theirs.encode_with_special_tokens(text);
        assert!(found == expected, "{text:?}");
    };
    let english: String = embedded::TEXT.chars().take(100_000).collect();
    same(&english);
    same(include_str!("main.rs"));
    let mut stream = ours.stream(Specials::Ordinary, 2);
    let mut found = Vec::new();
    for part in english.as_bytes().chunks(5000) {
        stream.push(part, &mut found).unwrap();
    }
    assert!(found.len() > 20_000, "it streams");
    stream.finish(&mut found).unwrap();
    assert!(found == vocabulary.theirs.encode_ordinary(&english));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
    let done = runner.run(&any_text(), |text| {
        same(&text);
        Ok(())
    });
    done.unwrap();
}

#[test]
fn p50k_is_as_theirs() {
    is_as_theirs(&Vocabulary {
        theirs: tiktoken_rs::p50k_base().unwrap(),
        ordinary: 50_281,
        size: 50_281,
        rule: SplitRule::Gpt2,
        specials: 1,
    });
}

#[test]
fn cl100k_is_as_theirs() {
    is_as_theirs(&Vocabulary {
        theirs: tiktoken_rs::cl100k_base().unwrap(),
        ordinary: 100_256,
        size: 100_277,
        rule: SplitRule::CL100K.parse().unwrap(),
        specials: 5,
    });
}

#[test]
fn o200k_is_as_theirs() {
    is_as_theirs(&Vocabulary {
        theirs: tiktoken_rs::o200k_base().unwrap(),
        ordinary: 199_998,
        size: 200_019,
        rule: SplitRule::O200K.parse().unwrap(),
        specials: 2,
    });
}
