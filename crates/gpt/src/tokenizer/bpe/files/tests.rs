//! Every kind of file, both ways, and what is refused.

use super::alphabet::Alphabet;
use super::*;
use crate::tokenizer::bpe::Trainer;
use proptest::prelude::*;
use std::sync::LazyLock;

/// GPT-2's vocabulary, of which `tiktoken-rs` has a copy.
fn r50k_text() -> String {
    use base64::Engine;
    let tiktoken = tiktoken_rs::r50k_base().unwrap();
    let line = |token: u32| {
        let bytes = tiktoken.decode_bytes(&[token]).unwrap();
        format!(
            "{} {token}\n",
            base64::engine::general_purpose::STANDARD.encode(bytes)
        )
    };
    (0..50256).map(line).collect()
}

fn small(rule: SplitRule) -> Bpe {
    let mut trainer = Trainer::new(rule)
        .with_specials(vec!["<|end of text|>".into(), "<|x|>".into()])
        .unwrap();
    trainer
        .add(
            "the end of the text, then: ænd 'there's 中文 中文\n\n"
                .repeat(2)
                .as_bytes(),
        )
        .unwrap();
    trainer.train(290).unwrap().bpe
}

static SMALL: LazyLock<Bpe> = LazyLock::new(|| small(SplitRule::Gpt2));

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

fn gpt2() -> Given {
    Given {
        rule: Some(SplitRule::Gpt2),
        ..Given::default()
    }
}

#[test]
fn every_file_comes_back_the_same() {
    let folder = Folder::new();
    for rule in [SplitRule::Gpt2, r"\p{L}+|\s|[^\s\p{L}]+".parse().unwrap()] {
        let bpe = small(rule.clone());
        for name in ["tokenizer.json", "vocab.json", "a.tiktoken"] {
            let path = folder.0.path().join(name);
            bpe.save(&path).unwrap();
            let given = match name {
                "tokenizer.json" => Given::default(),
                "vocab.json" => Given {
                    rule: Some(rule.clone()),
                    ..Given::default()
                },
                _ => Given {
                    rule: Some(rule.clone()),
                    specials: bpe.specials().to_vec(),
                    ..Given::default()
                },
            };
            let back = Bpe::load(&path, &given).unwrap();
            assert!(back == bpe && back.sha256() == bpe.sha256(), "{name}");
        }
    }
    let two = Bpe::load(folder.0.path(), &Given::default()).unwrap_err();
    assert!(
        two.to_string().contains("--split"),
        "a folder stands for its two files: {two}"
    );
}

#[test]
fn bpe_f12_gpt2s_own_files_are_known_by_their_hash() {
    let folder = Folder::new();
    let text = r50k_text();
    assert_eq!(sha256(&text), KNOWN[0].files[0]);
    let bpe = Bpe::load(&folder.file("any name.tiktoken", &text), &Given::default()).unwrap();
    assert_eq!(bpe.rule(), &SplitRule::Gpt2);
    assert_eq!(bpe.specials(), [("<|endoftext|>".to_owned(), 50_256)]);
    assert_eq!((bpe.size(), bpe.merges().len()), (50257, 50_000));
    let other = Given {
        specials: vec![("<end>".into(), 50_256)],
        ..Given::default()
    };
    let other = Bpe::load(&folder.file("other.tiktoken", &text), &other).unwrap();
    assert_eq!(other.specials(), [("<end>".to_owned(), 50_256)]);
    // Its merges are found again: the file is OpenAI's, byte for byte.
    bpe.save(&folder.0.path().join("encoder.json")).unwrap();
    let merges = fs::read_to_string(folder.0.path().join("vocab.bpe")).unwrap();
    assert_eq!(sha256(&merges), KNOWN[0].files[1]);
    let two = Bpe::load(&folder.0.path().join("encoder.json"), &Given::default()).unwrap();
    assert!(two == bpe);
    let path = folder.0.path().join("tokenizer.json");
    bpe.save(&path).unwrap();
    assert!(Bpe::load(&path, &Given::default()).unwrap() == bpe);
    let wrong = Given {
        sha256: Some("00".into()),
        ..Given::default()
    };
    let message = Bpe::load(&path, &wrong).unwrap_err().to_string();
    assert!(message.contains("SHA-256: expected 00, found"), "{message}");
}

#[test]
fn bpe_f11_without_a_split_rule_a_file_is_refused() {
    let folder = Folder::new();
    for name in ["a.tiktoken", "vocab.json"] {
        let path = folder.0.path().join(name);
        SMALL.save(&path).unwrap();
        let message = Bpe::load(&path, &Given::default()).unwrap_err().to_string();
        assert!(
            message.contains("split rule: expected a rule") && message.contains("found none"),
            "{message}"
        );
        assert!(Bpe::load(&path, &gpt2()).is_ok());
    }
    let text = hugging_face::text(&SMALL).unwrap();
    let refused =
        |text: &str, given: &Given| hugging_face::read(text, given).unwrap_err().to_string();
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let other = Given {
        rule: Some(r"\w+".parse().unwrap()),
        ..Given::default()
    };
    assert!(refused(&text, &other).contains(r"split rule: expected \w+, found gpt2"));
    document["pre_tokenizer"] = serde_json::Value::Null;
    assert!(refused(&document.to_string(), &gpt2()).contains("split rule"));
}

/// Their programs would take any number of digits for one piece, ours three at most.
#[test]
fn counts_that_keep_what_they_found_do_not_go_to_hugging_face() {
    let keeping = small(r"\p{N}{1,3}+|\P{N}+".parse().unwrap());
    let message = hugging_face::text(&keeping).unwrap_err().to_string();
    assert!(message.contains("{…}+"), "{message}");
    let plain = small(r"\p{N}{1,3}|\P{N}+".parse().unwrap());
    let text = hugging_face::text(&plain).unwrap();
    assert!(hugging_face::read(&text, &Given::default()).unwrap() == plain);
    let message = hugging_face::read(&text.replace("{1,3}", "{1,3}+"), &Given::default());
    let message = message.unwrap_err().to_string();
    assert!(message.contains("{…}+"), "{message}");
}

#[test]
fn what_would_encode_differently_is_refused() {
    let text = hugging_face::text(&SMALL).unwrap();
    for (from, to, word) in [
        (
            r#""add_prefix_space": false"#,
            r#""add_prefix_space": true"#,
            "pre_tokenizer",
        ),
        (
            r#""normalizer": null"#,
            r#""normalizer": {"type":"NFC"}"#,
            "normalizer",
        ),
        (
            r#""post_processor": null"#,
            r#""post_processor": {"type":"TemplateProcessing"}"#,
            "post_processor",
        ),
        (r#""dropout": null"#, r#""dropout": 0.1"#, "model.dropout"),
        (
            r#""continuing_subword_prefix": null"#,
            r###""continuing_subword_prefix": "##""###,
            "model.continuing_subword_prefix",
        ),
        (
            r#""end_of_word_suffix": null"#,
            r#""end_of_word_suffix": "</w>""#,
            "model.end_of_word_suffix",
        ),
        (r#""type": "BPE""#, r#""type": "WordPiece""#, "WordPiece"),
        (r#""special": true"#, r#""special": false"#, "added token"),
        (r#""lstrip": false"#, r#""lstrip": true"#, "added token"),
        (r#""!": 33"#, r#""unheard": 33"#, "0x21"),
        (r#""!": 33"#, r#""!": 34"#, "token 34"),
        (r#""!": 33"#, r#""!": 33, "!": 1000"#, "one id"),
        (r#""!": 33"#, r#""!": 4294967295"#, "an id below"),
        (r#""!": 33"#, r#""!": -1"#, "-1"),
        (
            r#""!": 33"#,
            r#""!": 33, "a b": 1000"#,
            "characters that stand for bytes",
        ),
        (r#""h e""#, r#""he""#, "merge"),
        (r#""h e""#, r#""h ex""#, "merge"),
        (r#""merges""#, r#""fusions""#, "merges"),
    ] {
        assert!(text.contains(from), "{from}");
        let message = hugging_face::read(&text.replace(from, to), &Given::default())
            .expect_err(to)
            .to_string();
        assert!(
            message.contains(word) && !message.contains('\n'),
            "{to}: {message}"
        );
    }
    // What transformers has written since its version 5 adds nothing.
    let template = r#""post_processor": {"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}]}"#;
    let template = text.replacen(r#""post_processor": null"#, template, 1);
    assert!(hugging_face::read(&template, &Given::default()).unwrap() == *SMALL);
    let ignoring = text.replacen(r#""ignore_merges": false"#, r#""ignore_merges": true"#, 1);
    assert!(hugging_face::read(&ignoring, &Given::default()).unwrap() == *SMALL);
    let unmade = ignoring.replacen(r#""!": 33"#, r#""!": 33, "!!!!": 999"#, 1);
    let message = hugging_face::read(&unmade, &Given::default())
        .unwrap_err()
        .to_string();
    assert!(message.contains("ignore_merges"), "{message}");
}

#[test]
fn merges_that_never_happen_do_not_matter() {
    // Llama's files list every way to cut a token in two.
    let mut words: Vec<_> = (0..=255)
        .map(|byte| (Alphabet::new().text(&[byte]), u32::from(byte)))
        .collect();
    words.extend([("ab".into(), 256), ("bc".into(), 257), ("abc".into(), 258)]);
    let pairs = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")];
    let all = vocabulary::encoding(SplitRule::Gpt2, words.clone(), &pairs, Vec::new()).unwrap();
    let needed = vocabulary::encoding(SplitRule::Gpt2, words, &pairs[..3], Vec::new()).unwrap();
    assert!(all == needed);
    assert_eq!(all.encode(b"abcbcab").unwrap(), [258, 257, 256]);
}

#[test]
fn a_tiktoken_file_names_its_faults() {
    let text = tiktoken::text(&SMALL).unwrap();
    let read = |text: &str| tiktoken::read(text, SplitRule::Gpt2, Vec::new());
    assert!(read(&text).is_ok());
    let last = text.lines().last().unwrap();
    let last_id: usize = last.split_once(' ').unwrap().1.parse().unwrap();
    for (text, word) in [
        (text.replacen("IQ== 33\n", "", 1), "0x21".to_owned()),
        (
            text.replacen("IQ== 33\n", "IQ== x\n", 1),
            "line 34".to_owned(),
        ),
        (
            text.replacen("IQ== 33\n", "I*== 33\n", 1),
            "line 34".to_owned(),
        ),
        (
            text.replacen("IQ== 33\n", "IQ== 4000000000\n", 1),
            "an id below".to_owned(),
        ),
        (text.clone() + "IQ== 2000\n", "bytes of its own".to_owned()),
        (text.clone() + "IQ==\n", format!("line {}", last_id + 2)),
        (
            text.clone() + "cXdlcnR5 2000\n",
            "two tokens that make it".to_owned(),
        ),
        (text.clone() + " 2000\n", "at least one byte".to_owned()),
        (String::new(), "0x00".to_owned()),
    ] {
        let message = read(&text).unwrap_err().to_string();
        assert!(message.contains(&word), "{word}: {message}");
    }
}

#[test]
fn what_a_kind_of_file_cannot_hold_is_not_written() {
    let byte = |byte: u8| (u32::from(byte), vec![byte]);
    let mut tokens: Vec<_> = (0..=255).map(byte).collect();
    tokens.extend([(300, b"ab".to_vec()), (299, b"abc".to_vec())]);
    let merges = [(97, 98, 300), (300, 99, 299)].map(|(left, right, made)| super::super::Merge {
        left,
        right,
        made,
    });
    let bpe = Bpe::new(SplitRule::Gpt2, tokens.clone(), &merges, Vec::new()).unwrap();
    assert!(
        tiktoken::text(&bpe)
            .unwrap_err()
            .to_string()
            .contains("ascend")
    );
    let unmade = Bpe::new(SplitRule::Gpt2, tokens.clone(), &merges[..1], Vec::new()).unwrap();
    assert!(
        tiktoken::text(&unmade)
            .unwrap_err()
            .to_string()
            .contains("token 299")
    );
    let twice = Bpe::new(SplitRule::Gpt2, tokens, &merges, vec![("ab".into(), 400)]).unwrap();
    assert!(
        vocabulary::texts(&twice)
            .unwrap_err()
            .to_string()
            .contains("name of its own")
    );
}

#[test]
fn hashes_tell_encodings_apart() {
    let other = small(r"\S+|\s+".parse().unwrap());
    assert_ne!(other.sha256(), SMALL.sha256());
    let mut trainer = Trainer::new(SplitRule::Gpt2);
    trainer.add(b"other words").unwrap();
    assert_ne!(trainer.train(258).unwrap().bpe.sha256(), SMALL.sha256());
    assert_eq!(small(SplitRule::Gpt2).sha256(), SMALL.sha256());
}

proptest! {
    #[test]
    fn bytes_that_were_changed_never_panic(place in any::<prop::sample::Index>(), byte in any::<u8>(), kind in 0..3) {
        let text = match kind {
            0 => hugging_face::text(&SMALL).unwrap(),
            1 => tiktoken::text(&SMALL).unwrap(),
            _ => vocabulary::texts(&SMALL).unwrap().1,
        };
        let mut bytes = text.into_bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let text = String::from_utf8_lossy(&bytes);
        let words = vocabulary::texts(&SMALL).unwrap().0;
        let read = match kind {
            0 => hugging_face::read(&text, &Given::default()),
            1 => tiktoken::read(&text, SplitRule::Gpt2, Vec::new()),
            _ => vocabulary::read(&words, &text, SplitRule::Gpt2, &Given::default()),
        };
        if let Ok(bpe) = read {
            let text = "the end of the text";
            prop_assert_eq!(bpe.decode(&bpe.encode(text.as_bytes()).unwrap()).unwrap(), text.as_bytes());
        }
    }
}

#[test]
fn merges_before_those_that_make_their_parts_and_merges_twice_are_refused() {
    let byte = |byte: u8| (u32::from(byte), vec![byte]);
    let mut tokens: Vec<_> = (0..=255).map(byte).collect();
    tokens.extend([(256, b"ab".to_vec()), (257, b"abc".to_vec())]);
    let merge = |left, right, made| super::super::Merge { left, right, made };
    let (ab, abc) = (merge(97, 98, 256), merge(256, 99, 257));
    let new = |merges: &[_]| Bpe::new(SplitRule::Gpt2, tokens.clone(), merges, Vec::new());
    assert_eq!(new(&[ab, abc]).unwrap().encode(b"abc").unwrap(), [257]);
    let refused = |merges: &[_]| new(merges).unwrap_err().to_string();
    assert!(refused(&[abc, ab]).starts_with("merge 0: expected parts that merges before it make"));
    assert!(
        refused(&[ab, abc, ab]).starts_with("merge 2: expected a pair that no merge before has")
    );
    // Nothing makes its left part, so it never happens.
    assert!(new(&[abc]).is_ok());
}
