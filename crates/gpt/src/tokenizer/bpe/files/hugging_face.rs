//! `tokenizer.json` of Hugging Face's `tokenizers`, as far as it is byte-level BPE and nothing else.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{Bpe, BpeError, SplitRule};
use super::Given;
use super::alphabet::Alphabet;
use super::vocabulary::{self, Words};

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    special: bool,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    dropout: Option<f64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    ignore_merges: Option<bool>,
    vocab: Words,
    merges: Vec<Pair>,
}

/// A merge in the old and in the new form.
#[derive(Deserialize)]
#[serde(untagged)]
enum Pair {
    Line(String),
    Two(String, String),
}

/// Reads the file.
pub(super) fn read(text: &str, given: &Given) -> Result<Bpe, BpeError> {
    let document: Document = serde_json::from_str(text).map_err(|error| {
        BpeError::content(
            "file",
            "the tokenizer.json of a byte-level BPE",
            error.to_string(),
        )
    })?;
    check(&document)?;
    let rule = rule(&document.pre_tokenizer)?;
    if let Some(expected) = given.rule.as_ref().filter(|given| **given != rule) {
        return Err(BpeError::content(
            "split rule",
            expected.to_string(),
            rule.to_string(),
        ));
    }
    let mut specials = given.specials.clone();
    for added in document.added_tokens {
        if !added.special || added.single_word || added.lstrip || added.rstrip {
            let place = format!("added token {:?}", added.content);
            return Err(BpeError::content(
                place,
                "a special token without conditions",
                "another",
            ));
        }
        specials.push((added.content, added.id));
    }
    let pairs = document
        .model
        .merges
        .iter()
        .enumerate()
        .map(|(rank, pair)| match pair {
            Pair::Two(left, right) => Ok((left.as_str(), right.as_str())),
            Pair::Line(line) => {
                let wrong = || {
                    BpeError::content(
                        format!("merge {rank}"),
                        "two tokens and a space between",
                        format!("{line:?}"),
                    )
                };
                line.split_once(' ').ok_or_else(wrong)
            }
        });
    let pairs: Vec<_> = pairs.collect::<Result<_, _>>()?;
    let bpe = vocabulary::encoding(rule, document.model.vocab.0, &pairs, specials)?;
    if document.model.ignore_merges == Some(true) {
        check_whole(&bpe)?;
    }
    Ok(bpe)
}

/// Refuses what we would do otherwise.
fn check(document: &Document) -> Result<(), BpeError> {
    let model = &document.model;
    let refuse =
        |place: &str, expected: &str, found: String| Err(BpeError::content(place, expected, found));
    match model.kind.as_deref() {
        Some("BPE") | None => {}
        Some(other) => return refuse("model", "the type BPE", other.to_owned()),
    }
    if !document.normalizer.is_null() {
        return refuse("normalizer", "none", document.normalizer.to_string());
    }
    let post = document.post_processor["type"]
        .as_str()
        .unwrap_or("ByteLevel");
    // What transformers writes since its version 5: a template of the text alone.
    let adds_nothing = post == "TemplateProcessing"
        && document.post_processor["single"] == json!([{"Sequence": {"id": "A", "type_id": 0}}]);
    if post != "ByteLevel" && !adds_nothing {
        return refuse("post_processor", "none, or ByteLevel", post.to_owned());
    }
    if let Some(dropout) = model.dropout.filter(|&share| share != 0.0) {
        return refuse("model.dropout", "none", dropout.to_string());
    }
    for (place, affix) in [
        (
            "model.continuing_subword_prefix",
            &model.continuing_subword_prefix,
        ),
        ("model.end_of_word_suffix", &model.end_of_word_suffix),
    ] {
        if let Some(affix) = affix.as_deref().filter(|affix| !affix.is_empty()) {
            return refuse(place, "none", format!("{affix:?}"));
        }
    }
    Ok(())
}

/// Refuses `{1,3}+`, which is a repetition to the regular expressions of Hugging Face (Oniguruma) and keeps what it found to ours.
fn check_pattern(pattern: &str) -> Result<(), BpeError> {
    let is_count = |text: &str| {
        let digits = text.strip_suffix(',').unwrap_or(text);
        !digits.is_empty() && digits.chars().all(|it| it.is_ascii_digit() || it == ',')
    };
    let possessive = pattern.split('{').skip(1).any(|rest| {
        let ends = rest.split_once('}');
        ends.is_some_and(|(count, behind)| is_count(count) && behind.starts_with('+'))
    });
    if possessive {
        let expected = "none with {…}+, which Hugging Face's programs read in another way";
        return Err(BpeError::content("split rule", expected, pattern));
    }
    Ok(())
}

/// The split rule of a pre-tokenizer.
fn rule(value: &Value) -> Result<SplitRule, BpeError> {
    let byte_level = |value: &Value, regex: bool| {
        value["type"] == "ByteLevel"
            && value["add_prefix_space"] == false
            && value["use_regex"].as_bool().unwrap_or(true) == regex
    };
    if byte_level(value, true) {
        return Ok(SplitRule::Gpt2);
    }
    if let Some([split, bytes]) = value["pretokenizers"].as_array().map(Vec::as_slice) {
        let pattern = split["pattern"]["Regex"].as_str();
        let isolated = split["behavior"] == "Isolated" && split["invert"] == false;
        if let Some(pattern) = pattern.filter(|_| isolated && byte_level(bytes, false)) {
            check_pattern(pattern)?;
            return pattern.parse();
        }
    }
    let expected = "ByteLevel without prefix space, alone or behind an isolating Split by a regular expression";
    Err(BpeError::content(
        "pre_tokenizer (the split rule)",
        expected,
        value.to_string(),
    ))
}

/// Refuses tokens that merging does not give, if pieces are to be looked up first: these would come out then.
fn check_whole(bpe: &Bpe) -> Result<(), BpeError> {
    let special = |token| bpe.specials().iter().any(|special| special.1 == token);
    match bpe
        .tokens()
        .find(|(token, bytes)| !special(*token) && bpe.whole(bytes) != Some(*token))
    {
        None => Ok(()),
        Some((token, _)) => Err(BpeError::content(
            format!("token {token}"),
            "one that merges make, since model.ignore_merges is set",
            "one that none makes",
        )),
    }
}

/// The file of an encoding.
pub(super) fn text(bpe: &Bpe) -> Result<String, BpeError> {
    let alphabet = Alphabet::new();
    let byte_level = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex});
    if let SplitRule::Pattern(pattern) = bpe.rule() {
        check_pattern(pattern.source())?;
    }
    let pre_tokenizer = match bpe.rule() {
        SplitRule::Gpt2 => byte_level(true),
        SplitRule::Pattern(pattern) => json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern.source()}, "behavior": "Isolated", "invert": false},
            byte_level(false),
        ]}),
    };
    let added = bpe.specials().iter().map(|(content, id)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
    });
    let document = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": null,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            // With the special tokens: those that are not in here get other ids from Hugging Face, from the number of words on.
            "vocab": vocabulary::words(bpe, &alphabet)?,
            "merges": vocabulary::pairs(bpe, &alphabet)?,
        },
    });
    Ok(format!("{document:#}\n"))
}
