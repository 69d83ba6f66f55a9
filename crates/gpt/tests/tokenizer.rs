//! The command `tokenizer`, and training with its files, as a user meets them.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder to work in, with a text in it.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        fs::write(desk.path("book.txt"), text()).unwrap();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the program with words set apart by spaces, and what it reads from standard input.
    fn run(&self, arguments: &str, input: &[u8]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_burtorch-gpt"))
            .current_dir(self.0.path())
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that refuses its arguments reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    fn done_with(&self, arguments: &str, input: &[u8]) -> Vec<u8> {
        let output = self.run(arguments, input);
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {message}");
        output.stdout
    }

    fn done(&self, arguments: &str) -> String {
        String::from_utf8(self.done_with(arguments, b"")).unwrap()
    }

    fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.done(arguments)).unwrap()
    }

    /// The message of a command that must fail with this code.
    fn refused(&self, arguments: &str, code: i32) -> String {
        let output = self.run(arguments, b"");
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments}: {message}");
        assert_eq!(
            message.trim_end().lines().count(),
            1,
            "{arguments}: {message}"
        );
        message
    }
}

/// Words that come again, in an order that does not.
fn text() -> String {
    let words = [
        "the", "hare", "and", "fox", "ran", "over", "hill", "wood", "dawn", "naïve",
    ];
    let mut state = 7_u32;
    let word = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let end = if state >> 20 & 7 == 0 { ".\n" } else { " " };
        words[(state >> 24) as usize % words.len()].to_owned() + end
    };
    (0..4000).map(word).collect()
}

#[test]
fn a_text_comes_back_from_the_tokens_of_a_learned_vocabulary() {
    let desk = Desk::new();
    let found = desk.json("tokenizer train --vocab-size 280 --out book.json book.txt --json");
    assert_eq!(
        (found["vocab_size"].as_u64(), found["asked"].as_u64()),
        (Some(280), Some(280))
    );
    assert_eq!(found["bytes"].as_u64(), Some(text().len() as u64));

    let ids = desk.done("tokenizer encode --tokenizer book.json book.txt");
    assert!(ids.lines().count() < text().len() / 2);
    assert!(ids.lines().all(|line| line.parse::<u32>().unwrap() < 280));
    let back = desk.done_with("tokenizer decode --tokenizer book.json", ids.as_bytes());
    assert_eq!(String::from_utf8(back).unwrap(), text());

    let output = desk.run(
        "tokenizer encode --tokenizer book.json --out book.tokens --threads 2 -",
        text().as_bytes(),
    );
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && note.contains("tokens in") && output.stdout.is_empty(),
        "{note}"
    );
    assert_eq!(
        desk.done("tokenizer decode --tokenizer book.json book.tokens"),
        text()
    );
    let header = burtorch_data::read_token_header(desk.path("book.tokens")).unwrap();
    assert_eq!(
        (header.count, header.vocabulary),
        (ids.lines().count() as u64, Some(280))
    );

    let info = desk.json("tokenizer info --tokenizer book.json --json");
    assert_eq!(info["sha256"], found["sha256"]);
    assert_eq!(
        (info["kind"].as_str(), info["split"].as_str()),
        (Some("bpe"), Some("gpt2"))
    );
    assert!(
        desk.done("tokenizer info --tokenizer book.json")
            .contains("280 tokens")
    );
}

/// A pipe with a name is read from its beginning, as standard input is.
#[cfg(target_os = "linux")]
#[test]
fn nothing_of_a_pipe_is_lost() {
    let desk = Desk::new();
    desk.done("tokenizer train --vocab-size 280 --out book.json book.txt");
    let ids = desk.done("tokenizer encode --tokenizer book.json book.txt");
    let decode = "tokenizer decode --tokenizer book.json /dev/stdin";
    let back = desk.done_with(decode, ids.as_bytes());
    assert_eq!(String::from_utf8(back).unwrap(), text());
}

#[test]
fn bytes_that_are_no_text_come_back_too() {
    let desk = Desk::new();
    desk.done("tokenizer train --vocab-size 280 --out t.tiktoken book.txt");
    let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    let ids = desk.done_with(
        "tokenizer encode --tokenizer t.tiktoken --split gpt2",
        &bytes,
    );
    let back = desk.done_with(
        "tokenizer decode --tokenizer t.tiktoken --split gpt2 -",
        &ids,
    );
    assert_eq!(back, bytes);
}

#[test]
fn special_tokens_are_text_unless_asked_for() {
    let desk = Desk::new();
    desk.done("tokenizer train --vocab-size 270 --special <end> --out t.json book.txt");
    let ordinary = desk.done_with("tokenizer encode --tokenizer t.json", b"a<end>b");
    assert_eq!(String::from_utf8(ordinary).unwrap().lines().count(), 7);
    let asked = desk.done_with(
        "tokenizer encode --tokenizer t.json --allow-special",
        b"a<end>b",
    );
    assert_eq!(String::from_utf8(asked).unwrap(), "97\n269\n98\n");
    assert_eq!(
        desk.done_with("tokenizer decode --tokenizer t.json", b"97 269\t98\n\n"),
        b"a<end>b"
    );
}

#[test]
fn bpe_f07_a_text_with_too_little_in_it_is_no_failure() {
    let desk = Desk::new();
    fs::write(desk.path("abc.txt"), "abc").unwrap();
    let output = desk.run("tokenizer train --vocab-size 300 --out t.json abc.txt", b"");
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success());
    assert_eq!(
        note,
        "note: asked for 300 tokens, the text supports only 258\n"
    );
}

#[test]
fn wrong_usage_and_wrong_files_are_named() {
    let desk = Desk::new();
    desk.done("tokenizer train --vocab-size 260 --out t.tiktoken book.txt");
    fs::write(desk.path("tokens.txt"), "1 2\n3 x4\n").unwrap();
    for (arguments, code, words) in [
        (
            "tokenizer train --vocab-size 255 --out t.json book.txt",
            2,
            &["--vocab-size", "at least 256", "255"][..],
        ),
        (
            "tokenizer train --vocab-size 300 --out t.json --split ( book.txt",
            2,
            &["--split", "regular expression"],
        ),
        (
            "tokenizer train --vocab-size 300 --out none/t.json book.txt",
            1,
            &["none", "a folder to write to"],
        ),
        (
            "tokenizer train --vocab-size 300 --out t.json book.txt none.txt",
            1,
            &["none.txt", "cannot open"],
        ),
        (
            "tokenizer train --vocab-size 300 --out t.json",
            2,
            &["TEXT"],
        ),
        (
            "tokenizer encode --tokenizer t.tiktoken book.txt",
            1,
            &["t.tiktoken", "split rule", "--split"],
        ),
        (
            "tokenizer encode --tokenizer none.json book.txt",
            1,
            &["none.json"],
        ),
        (
            "tokenizer encode --tokenizer book.txt book.txt",
            1,
            &["book.txt", "a tokenizer"],
        ),
        (
            "tokenizer encode --tokenizer t.tiktoken --split gpt2 .",
            1,
            &["a folder"],
        ),
        (
            "tokenizer encode --tokenizer t.tiktoken --split gpt2 --sha256 00 book.txt",
            1,
            &["SHA-256", "expected 00"],
        ),
        (
            "tokenizer decode --tokenizer t.tiktoken --split gpt2 tokens.txt",
            1,
            &["tokens.txt", "line 2", "x4"],
        ),
        (
            "train --tokenizer bpe:100 --data book.txt",
            2,
            &["--tokenizer", "bpe:SIZE", "bpe:100"],
        ),
        (
            "train --tokenizer bpe:many --data book.txt",
            2,
            &["--tokenizer", "bpe:SIZE", "bpe:many"],
        ),
    ] {
        let message = desk.refused(arguments, code);
        assert!(message.starts_with("error: "), "{message}");
        assert!(
            words.iter().all(|word| message.contains(word)),
            "{arguments}: {message}"
        );
    }
    let output = desk.run(
        "tokenizer decode --tokenizer t.tiktoken --split gpt2",
        b"1 260",
    );
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("token 260 is outside the vocabulary of 260")
    );
}

const TINY: &str = "--block-size 8 --layers 1 --heads 1 --embed 8 --batch-size 4 --steps 20 --eval-every 10 --json";

#[test]
fn a_model_is_trained_on_tokens_of_several_characters() {
    let desk = Desk::new();
    let found = desk.json(&format!(
        "train --data book.txt --tokenizer bpe:280 --out run {TINY}"
    ));
    assert!(found["val_loss"].as_f64().unwrap() < 280_f64.ln());
    let info = desk.json("tokenizer info --tokenizer run/tokenizer.json --json");
    assert_eq!(info["vocab_size"].as_u64(), Some(280));

    let generated = desk.done("generate --model run --prompt fox --tokens 30");
    assert!(
        generated.starts_with("fox") && generated.len() > 30,
        "{generated}"
    );
    let eval = desk.json("eval --model run --json");
    let number = |name: &str| eval[name].as_f64().unwrap();
    let bits = number("loss") * number("tokens") / std::f64::consts::LN_2 / number("bytes");
    assert!((number("bits_per_byte") - bits).abs() < 1e-9);
    assert!(number("bytes") > number("tokens"));
    // The last tenth, but for the first token.
    let validation = text().len() as f64 / 10.0;
    assert!((number("bytes") - validation).abs() < 30.0, "{eval}");

    desk.done("train --out run --resume --json");
    let message = desk.refused("train --out run --resume --tokenizer char", 2);
    assert!(
        message.contains("--tokenizer") && message.contains("bpe:280"),
        "{message}"
    );
}

#[test]
fn a_model_is_trained_on_a_file_of_tokens() {
    let desk = Desk::new();
    desk.done("tokenizer train --vocab-size 280 --out t.json book.txt");
    desk.done("tokenizer encode --tokenizer t.json --out book.tokens book.txt");
    let found = desk.json(&format!(
        "train --data book.tokens --tokenizer t.json --out run {TINY}"
    ));
    assert!(found["val_loss"].as_f64().unwrap() < 280_f64.ln());
    let eval = desk.json("eval --model run --json");
    assert!(eval["tokens"].as_u64().unwrap() > 100);
    assert!(
        desk.json("eval --model run --data book.tokens --json")["tokens"].as_u64()
            > eval["tokens"].as_u64()
    );
    // A file that is mapped gives the same bits.
    desk.done("tokenizer encode --tokenizer t.json --out wide.tokens --wide book.txt");
    let mapped = desk.json(&format!(
        "train --data wide.tokens --tokenizer t.json --out wide {TINY}"
    ));
    assert_eq!(mapped["val_loss"], found["val_loss"]);
    assert_eq!(mapped["train_loss"], found["train_loss"]);
    let message = desk.refused("train --data book.tokens", 2);
    assert!(
        message.contains("the tokenizer that made the tokens in book.tokens"),
        "{message}"
    );
    desk.done("tokenizer train --vocab-size 281 --out other.json book.txt");
    let message = desk.refused("train --data book.tokens --tokenizer other.json", 1);
    assert!(
        message.contains("book.tokens") && message.contains("SHA-256"),
        "{message}"
    );
}

#[test]
fn help_teaches() {
    let desk = Desk::new();
    assert!(desk.done("tokenizer --help").contains("Learn a vocabulary"));
    for (command, words) in [
        ("train", &["--vocab-size", "Examples:", "border"][..]),
        ("encode", &["--allow-special", "one number a line", "llm.c"]),
        ("decode", &["Examples:", "token file"]),
        ("info", &["--sha256", "Example:"]),
    ] {
        let help = desk.done(&format!("tokenizer {command} --help"));
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(help.contains(word), "{command}: {word}: {help}");
        }
    }
}
