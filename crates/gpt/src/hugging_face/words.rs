//! `tokenizer.json` of a tokenizer with a token for each character: a word of one character each, in theirs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tokenizer::CharacterTokenizer;

/// The only parts of their file that a character tokenizer needs.
#[derive(Serialize, Deserialize)]
struct Words {
    #[serde(rename = "type")]
    kind: String,
    vocab: BTreeMap<String, u32>,
}

#[derive(Deserialize)]
struct Document {
    model: Words,
}

/// Their file for a tokenizer of ours.
pub(super) fn text(tokenizer: &CharacterTokenizer) -> String {
    let characters = tokenizer.characters().iter().map(char::to_string);
    let model = json!({
        "type": "WordLevel",
        "vocab": characters.zip(0u32..).collect::<BTreeMap<_, _>>(),
        "unk_token": "<unk>",
    });
    let every_character = json!({
        "type": "Split",
        "pattern": {"Regex": "[\\s\\S]"},
        "behavior": "Isolated",
        "invert": false,
    });
    let document = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": every_character,
        "post_processor": null,
        "decoder": {"type": "Fuse"},
        "model": model,
    });
    format!("{document:#}\n")
}

/// The tokenizer in a file of theirs, if it has a token for each of its characters and no other.
pub(super) fn read(text: &str) -> Option<CharacterTokenizer> {
    let Document { model } = serde_json::from_str(text).ok()?;
    let character = |(place, (word, &token)): (usize, (&String, &u32))| {
        let mut characters = word.chars();
        let first = characters.next()?;
        (characters.next().is_none() && place == token as usize).then_some(first)
    };
    // Strings and characters have the same order.
    let characters: Option<String> = model.vocab.iter().enumerate().map(character).collect();
    let characters = characters.filter(|all| !all.is_empty() && model.kind == "WordLevel")?;
    Some(CharacterTokenizer::from_text(&characters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_comes_back() {
        let tokenizer = CharacterTokenizer::from_text("\0\n\"\\ aZ\u{7f}éß\u{2028}語🦀");
        assert_eq!(read(&text(&tokenizer)), Some(tokenizer));
    }

    #[test]
    fn other_tokenizers_are_none_of_characters() {
        for model in [
            r#"{"type":"BPE","vocab":{"a":0}}"#,
            r#"{"type":"WordLevel","vocab":{}}"#,
            r#"{"type":"WordLevel","vocab":{"ab":0}}"#,
            r#"{"type":"WordLevel","vocab":{"":0}}"#,
            r#"{"type":"WordLevel","vocab":{"a":1}}"#,
            r#"{"type":"WordLevel","vocab":{"a":0,"b":2}}"#,
            r#"{"type":"WordLevel","vocab":{"b":0,"a":1}}"#,
        ] {
            assert_eq!(read(&format!("{{\"model\":{model}}}")), None, "{model}");
        }
        assert_eq!(read("{}"), None);
        assert!(read(r#"{"model":{"type":"WordLevel","vocab":{"a":0,"b":1}}}"#).is_some());
    }
}
