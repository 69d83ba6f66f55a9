//! Byte-pair encoding beside tiktoken and its r50k vocabulary, which the crate `tiktoken-rs` brings along.
//!
//! `r50k/cases.jsonl` holds texts with the ids that tiktoken 0.14 for Python gives them (ordinary encoding, or with the special token
//! allowed). Texts and ids are written as lists of (what, how often).

mod vocabularies;

use std::sync::LazyLock;

use burtorch_gpt::embedded;
use burtorch_gpt::tokenizer::bpe::{Bpe, Specials, SplitRule, TextDecoder, Trainer};
use proptest::prelude::*;
use serde::Deserialize;
use tiktoken_rs::CoreBPE;

const END_OF_TEXT: u32 = 50256;

static TIKTOKEN: LazyLock<CoreBPE> = LazyLock::new(|| tiktoken_rs::r50k_base().unwrap());

static R50K: LazyLock<Bpe> = LazyLock::new(|| {
    let bytes = |token| (token, TIKTOKEN.decode_bytes(&[token]).unwrap());
    let tokens = (0..END_OF_TEXT).map(bytes).collect();
    let specials = vec![("<|endoftext|>".to_owned(), END_OF_TEXT)];
    Bpe::from_ranks(SplitRule::Gpt2, tokens, specials).unwrap()
});

#[derive(Deserialize)]
struct Case {
    name: String,
    special: bool,
    text: Vec<(String, usize)>,
    ids: Vec<(u32, usize)>,
}

impl Case {
    fn text(&self) -> String {
        self.text
            .iter()
            .map(|(text, times)| text.repeat(*times))
            .collect()
    }

    fn ids(&self) -> Vec<u32> {
        let runs = self.ids.iter();
        runs.flat_map(|&(id, times)| std::iter::repeat_n(id, times))
            .collect()
    }

    fn specials(&self) -> Specials {
        if self.special {
            Specials::Allowed
        } else {
            Specials::Ordinary
        }
    }
}

fn cases() -> Vec<Case> {
    let lines = include_str!("../r50k/cases.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn bpe_f01_f02_every_case_has_the_ids_of_tiktoken() {
    let cases = cases();
    assert_eq!(cases.len(), 37);
    for case in cases {
        let (text, ids) = (case.text(), case.ids());
        let found = R50K.encode_with(text.as_bytes(), case.specials()).unwrap();
        assert!(
            found == ids,
            "{}: {:?}",
            case.name,
            &found[..found.len().min(20)]
        );
        assert_eq!(R50K.decode(&ids).unwrap(), text.as_bytes(), "{}", case.name);
        let mut stream = R50K.stream(case.specials(), 2);
        let mut found = Vec::new();
        for part in text.as_bytes().chunks(7) {
            stream.push(part, &mut found).unwrap();
        }
        stream.finish(&mut found).unwrap();
        assert!(found == ids, "{} in parts", case.name);
    }
}

#[test]
fn bpe_f01_a_million_equal_characters_take_no_quadratic_time() {
    let found = R50K.encode("^".repeat(1_000_000).as_bytes()).unwrap();
    assert_eq!(found.len(), 250_000);
    assert!(found.iter().all(|&id| id == found[0]));
}

#[test]
fn bpe_f02_documents_cannot_end_each_other() {
    let text = b"before<|endoftext|>after";
    let ordinary = [19052, 27, 91, 437, 1659, 5239, 91, 29, 8499];
    assert_eq!(R50K.encode(text).unwrap(), ordinary);
    let asked = R50K.encode_with(text, Specials::Allowed).unwrap();
    assert_eq!(asked, [19052, END_OF_TEXT, 8499]);
    assert_eq!(R50K.decode(&asked).unwrap(), text);
}

#[test]
fn bpe_f11_lines_are_no_unit_of_encoding() {
    assert_eq!(
        R50K.encode(b"one\n\n  two\n").unwrap(),
        [505, 628, 220, 734, 198]
    );
}

#[test]
fn whole_texts_are_encoded_as_tiktoken_does() {
    let manifest = include_str!("../../Cargo.toml");
    let source = include_str!("main.rs");
    for text in [embedded::TEXT, manifest, source] {
        let found = R50K.encode(text.as_bytes()).unwrap();
        assert!(found == TIKTOKEN.encode_ordinary(text));
        assert_eq!(R50K.decode(&found).unwrap(), text.as_bytes());
    }
}

#[test]
fn an_encoder_that_met_a_piece_gives_the_same_ids_again() {
    let mut encoder = R50K.encoder();
    let mut found = Vec::new();
    encoder
        .encode(embedded::TEXT.as_bytes(), &mut found)
        .unwrap();
    let first = found.split_off(0);
    encoder
        .encode(embedded::TEXT.as_bytes(), &mut found)
        .unwrap();
    assert!(found == first);
}

fn any_text() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(
        prop_oneof![
            Just(" the".to_owned()),
            Just("'ll".to_owned()),
            Just("\n\n".to_owned()),
            Just("    ".to_owned()),
            Just("COMINIUS".to_owned()),
            Just("<|endoftext|>".to_owned()),
            Just("internationalization".to_owned()),
            Just("iPhone'LL/\r\n".to_owned()),
            "[ -~]{1,8}",
            r"\p{L}{1,6}",
            r"\p{N}{1,4}",
            r"\s{1,4}",
            any::<String>(),
        ],
        0..40,
    );
    words.prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_unicode_is_encoded_as_tiktoken_does(text in any_text()) {
        prop_assert_eq!(R50K.encode(text.as_bytes()).unwrap(), TIKTOKEN.encode_ordinary(&text));
        let special = R50K.encode_with(text.as_bytes(), Specials::Allowed).unwrap();
        prop_assert_eq!(special, TIKTOKEN.encode_with_special_tokens(&text));
    }

    #[test]
    fn any_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..400), text in any_text()) {
        for bytes in [&bytes[..], text.as_bytes(), &[text.as_bytes(), &bytes].concat()] {
            let tokens = R50K.encode(bytes).unwrap();
            prop_assert_eq!(R50K.decode(&tokens).unwrap(), bytes);
        }
    }

    #[test]
    fn parts_on_any_number_of_threads_are_the_whole(
        text in any_text(), times in 1_usize..5, part in 1_usize..60, threads in 1_usize..4, allowed in any::<bool>()
    ) {
        let specials = if allowed { Specials::Allowed } else { Specials::Ordinary };
        let text = text.repeat(times);
        let mut stream = R50K.stream(specials, threads);
        let mut found = Vec::new();
        for part in text.as_bytes().chunks(part) {
            stream.push(part, &mut found).unwrap();
        }
        stream.finish(&mut found).unwrap();
        prop_assert_eq!(found, R50K.encode_with(text.as_bytes(), specials).unwrap());
    }

    #[test]
    fn text_comes_out_of_its_tokens_one_by_one(text in any_text(), bytes in prop::collection::vec(any::<u8>(), 0..30)) {
        for bytes in [text.as_bytes(), &bytes] {
            let mut decoder = TextDecoder::default();
            let mut found = String::new();
            for token in R50K.encode(bytes).unwrap() {
                found += &decoder.push(R50K.bytes(token).unwrap());
            }
            found += &decoder.finish();
            prop_assert_eq!(found, String::from_utf8_lossy(bytes));
        }
    }
}

#[test]
fn much_text_on_threads_is_encoded_as_on_one() {
    let text = embedded::TEXT.repeat(3);
    let expected = R50K.encode(text.as_bytes()).unwrap();
    for threads in [1, 2, 3] {
        let mut stream = R50K.stream(Specials::Ordinary, threads);
        let mut found = Vec::new();
        stream.push(text.as_bytes(), &mut found).unwrap();
        assert!(
            found.len() > expected.len() - 10,
            "nearly all is certain at once"
        );
        stream.finish(&mut found).unwrap();
        assert!(found == expected);
    }
}

#[test]
fn a_rule_of_the_users_is_used() {
    let rule: SplitRule = r"\d|\D+".parse().unwrap();
    let mut trainer = Trainer::new(rule.clone());
    trainer.add(b"12 12 12 ab ab").unwrap();
    let bpe = trainer.train(300).unwrap().bpe;
    assert!(
        bpe.tokens()
            .all(|(_, bytes)| bytes.len() == 1 || !bytes.iter().any(u8::is_ascii_digit))
    );
    assert_eq!(bpe.rule(), &rule);
    let tokens = bpe.encode(b" 12ab").unwrap();
    assert_eq!(bpe.decode(&tokens).unwrap(), b" 12ab");
}
