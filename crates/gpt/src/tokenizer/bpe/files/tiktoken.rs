//! `.tiktoken`: a token in each line, as base 64, and its rank, which is its id.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::{Bpe, BpeError, SplitRule};

/// Reads the file.
pub(super) fn read(
    text: &str,
    rule: SplitRule,
    specials: Vec<(String, u32)>,
) -> Result<Bpe, BpeError> {
    let mut tokens = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if line.is_empty() {
            continue;
        }
        let token = line
            .split_once(' ')
            .and_then(|(token, rank)| Some((rank.parse().ok()?, STANDARD.decode(token).ok()?)));
        let wrong = || {
            BpeError::content(
                format!("line {}", place + 1),
                "a token in base 64 and its rank",
                format!("{line:?}"),
            )
        };
        tokens.push(token.ok_or_else(wrong)?);
    }
    Bpe::from_ranks(rule, tokens, specials)
}

/// The file of an encoding, without its special tokens.
pub(super) fn text(bpe: &Bpe) -> Result<String, BpeError> {
    let made = bpe.merges().iter().map(|merge| merge.made);
    if !made.is_sorted_by(|one, next| one < next) {
        let expected = "merges whose ids ascend with their ranks, as this kind of file needs";
        return Err(BpeError::content("merges", expected, "others"));
    }
    let special = |token| bpe.specials().iter().any(|special| special.1 == token);
    let mut text = String::new();
    for (token, bytes) in bpe.tokens().filter(|token| !special(token.0)) {
        if bpe.whole(bytes) != Some(token) {
            let expected = "one that merges make, as this kind of file needs";
            return Err(BpeError::content(
                format!("token {token}"),
                expected,
                "one that none makes",
            ));
        }
        text += &format!("{} {token}\n", STANDARD.encode(bytes));
    }
    Ok(text)
}
