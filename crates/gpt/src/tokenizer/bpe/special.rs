//! Special tokens: ids that no text has unless it is asked for.

use super::SplitRule;

/// Whether the text of a special token, as it stands in what is encoded, becomes that token.
///
/// Text that others wrote should be [`Ordinary`](Self::Ordinary): else a document could end another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Specials {
    /// It is text like any other.
    #[default]
    Ordinary,
    /// It becomes the token.
    Allowed,
}

/// The special tokens of a vocabulary, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SpecialTokens {
    list: Vec<(String, u32)>,
    /// Whether a special token begins with this byte; of no length if there are no special tokens.
    begins: Vec<bool>,
}

impl SpecialTokens {
    pub(super) fn new(mut list: Vec<(String, u32)>) -> Self {
        list.sort_unstable_by_key(|special| special.1);
        let mut begins = vec![false; if list.is_empty() { 0 } else { 256 }];
        for (text, _) in &list {
            if let Some(&byte) = text.as_bytes().first() {
                begins[byte as usize] = true;
            }
        }
        Self { list, begins }
    }

    pub(super) fn list(&self) -> &[(String, u32)] {
        &self.list
    }

    /// As [`SplitRule::settled`], if special tokens end pieces.
    pub(super) fn settled(&self, rule: &SplitRule, bytes: &[u8]) -> usize {
        let lengths = self.list.iter().map(|special| special.0.len());
        let longest = lengths.max().unwrap_or(0);
        let mut start = 0;
        // Of these no longer one can take the place: as many bytes as that would have are there.
        while let Some((from, to, _)) = self.find(&bytes[start..]) {
            if start + from + longest > bytes.len() {
                break;
            }
            start += to;
        }
        let rest = &bytes[start..];
        start + rule.settled(&rest[..rest.len().saturating_sub(longest)])
    }

    /// The first special token in `bytes`: where it is, and its id. Of several at one place, the longest.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<(usize, usize, u32)> {
        if self.list.is_empty() {
            return None;
        }
        let candidates = bytes.iter().enumerate();
        let mut candidates = candidates.filter(|it| self.begins[*it.1 as usize]);
        candidates.find_map(|(place, _)| {
            let here = |special: &&(String, u32)| bytes[place..].starts_with(special.0.as_bytes());
            let found = self.list.iter().filter(here).max_by_key(|it| it.0.len())?;
            Some((place, place + found.0.len(), found.1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_longest_is_found() {
        let list = [("<b>", 2), ("<a>", 1), ("<a><b>", 3)];
        let specials = SpecialTokens::new(list.map(|(text, id)| (text.into(), id)).into());
        assert_eq!(specials.find(b"x<a><b>"), Some((1, 7, 3)));
        assert_eq!(specials.find(b"<<a><c><b>"), Some((1, 4, 1)));
        assert_eq!(specials.find(b"<a"), None);
        assert_eq!(specials.list()[0].1, 1);
        assert_eq!(SpecialTokens::default().find(b"<a>"), None);
    }

    #[test]
    fn a_special_token_that_a_longer_one_may_take_the_place_of_is_not_settled() {
        let list = [("<a>", 1), ("<a><b>", 3)];
        let specials = SpecialTokens::new(list.map(|(text, id)| (text.into(), id)).into());
        let settled = |text: &str| specials.settled(&SplitRule::Gpt2, text.as_bytes());
        let before = "some words before it";
        assert!(settled(&format!("{before}<a>")) <= before.len());
        assert!(settled(&format!("{before}<a><")) <= before.len());
        assert!(settled(&format!("{before}<a>tw")) <= before.len());
        assert_eq!(settled(&format!("{before}<a>two")), before.len() + 3);
        assert_eq!(settled(&format!("{before}<a><b>")), before.len() + 6);
    }
}
