//! A vocabulary of visible characters and merges as pairs of them: `vocab.json` and `merges.txt`, and the heart of `tokenizer.json`.

use std::fmt;

use hashbrown::{HashMap, HashSet};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::super::{Bpe, BpeError, Merge, SplitRule};
use super::Given;
use super::alphabet::Alphabet;

/// The first line of a file of merges.
const VERSION: &str = "#version: 0.2";

/// Words and their ids, as they stand in the file; a word that stands there twice is there twice.
#[derive(Debug)]
pub(super) struct Words(pub(super) Vec<(String, u32)>);

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tokens and their ids")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Words, M::Error> {
                let mut words = Vec::new();
                while let Some(word) = map.next_entry()? {
                    words.push(word);
                }
                Ok(Words(words))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Reads the two files.
pub(super) fn read(
    words: &str,
    lines: &str,
    rule: SplitRule,
    given: &Given,
) -> Result<Bpe, BpeError> {
    let Words(words) = serde_json::from_str(words)
        .map_err(|error| BpeError::content("vocabulary", "JSON", error.to_string()))?;
    let lines = lines.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("#version"));
    let pairs: Vec<(&str, &str)> = lines
        .map(|(place, line)| {
            let pair = line.split_once(' ').filter(|pair| !pair.1.contains(' '));
            let wrong = || {
                BpeError::content(
                    format!("merges, line {}", place + 1),
                    "two tokens and a space between",
                    format!("{line:?}"),
                )
            };
            pair.ok_or_else(wrong)
        })
        .collect::<Result<_, _>>()?;
    // A token of several bytes that nothing makes is special: these files have no other mark.
    let made: HashSet<String> = pairs
        .iter()
        .map(|(left, right)| format!("{left}{right}"))
        .collect();
    let is_special = |word: &str| word.chars().count() > 1 && !made.contains(word);
    let specials = words.iter().filter(|word| is_special(&word.0)).cloned();
    let specials: Vec<_> = specials.chain(given.specials.iter().cloned()).collect();
    encoding(rule, words, &pairs, specials)
}

/// The encoding of words, pairs and special tokens, which may be among the words.
pub(super) fn encoding(
    rule: SplitRule,
    words: Vec<(String, u32)>,
    pairs: &[(&str, &str)],
    mut specials: Vec<(String, u32)>,
) -> Result<Bpe, BpeError> {
    let mut ids: HashMap<&str, u32> = HashMap::with_capacity(words.len());
    for (word, id) in &words {
        if ids.insert(word, *id).is_some() {
            return Err(BpeError::content(
                format!("token {word:?}"),
                "one id",
                "two",
            ));
        }
    }
    let mut merges = Vec::with_capacity(pairs.len());
    let mut both = String::new();
    for (rank, (left, right)) in pairs.iter().enumerate() {
        both.clear();
        both.extend([*left, *right]);
        let id = |word: &str| {
            let missing = || {
                BpeError::content(
                    format!("merge {rank}"),
                    "tokens of the vocabulary",
                    format!("{word:?}"),
                )
            };
            ids.get(word).copied().ok_or_else(missing)
        };
        merges.push(Merge {
            left: id(left)?,
            right: id(right)?,
            made: id(&both)?,
        });
    }
    drop(ids);
    specials.sort_unstable();
    specials.dedup();
    let alphabet = Alphabet::new();
    let mut tokens = Vec::with_capacity(words.len());
    for word in words {
        if specials.binary_search(&word).is_ok() {
            continue;
        }
        let (word, id) = word;
        let foreign = || {
            BpeError::content(
                format!("token {id}"),
                "the characters that stand for bytes",
                format!("{word:?}"),
            )
        };
        tokens.push((id, alphabet.bytes(&word).ok_or_else(foreign)?));
    }
    Bpe::new(rule, tokens, &merges, specials)
}

/// Words of an encoding with their ids, special ones as they are.
pub(super) fn words(bpe: &Bpe, alphabet: &Alphabet) -> Result<Map<String, Value>, BpeError> {
    let special = |token| bpe.specials().iter().find(|special| special.1 == token);
    let mut words = Map::new();
    for (token, bytes) in bpe.tokens() {
        let word = match special(token) {
            Some((text, _)) => text.clone(),
            None => alphabet.text(bytes),
        };
        let place = format!("token {token} ({word:?})");
        if words.insert(word, token.into()).is_some() {
            return Err(BpeError::content(
                place,
                "a name of its own in this kind of file",
                "that of another token",
            ));
        }
    }
    Ok(words)
}

/// The merges of an encoding, each as two words and a space.
pub(super) fn pairs(bpe: &Bpe, alphabet: &Alphabet) -> Result<Vec<String>, BpeError> {
    let pair = |merge: &Merge| {
        let (left, right) = (bpe.bytes(merge.left)?, bpe.bytes(merge.right)?);
        Ok(format!("{} {}", alphabet.text(left), alphabet.text(right)))
    };
    bpe.merges().iter().map(pair).collect()
}

/// The two files of an encoding.
pub(super) fn texts(bpe: &Bpe) -> Result<(String, String), BpeError> {
    let alphabet = Alphabet::new();
    let words = Value::Object(words(bpe, &alphabet)?);
    let pairs = pairs(bpe, &alphabet)?;
    let lines: String = std::iter::once(VERSION.to_owned())
        .chain(pairs)
        .map(|line| line + "\n")
        .collect();
    Ok((words.to_string(), lines))
}
