//! How bytes are cut into pieces before merging; merges never reach across a cut.

mod block;
mod class;
mod gpt2;
mod pattern;

use std::fmt;
use std::str::FromStr;

pub use pattern::Pattern;

use super::BpeError;
use class::Class;

/// Bytes that may follow a piece and still say where it ends: a character, and one more.
const LOOK_AHEAD: usize = 8;

/// Finds the last place from the third argument to the second at which the bytes can be cut.
type Find = fn(&[u8], usize, usize) -> Option<usize>;

/// The rule by which bytes are cut into pieces. Each piece is merged on its own.
///
/// A tokenizer without its rule is another tokenizer, so every file format either carries the rule or needs it said.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SplitRule {
    /// The rule of GPT-2 and GPT-3, by hand: contractions (`'s 't 're 've 'm 'll 'd`), runs of letters, of digits and of other
    /// characters, each with at most one blank in front, and runs of white space, whose last character is left to what follows.
    /// Written as a regular expression it is [`SplitRule::GPT2`].
    ///
    /// Letters and numbers are the general categories L and N of Unicode 16. A byte that belongs to no UTF-8 character counts as
    /// one character of the kind *other*; so any bytes can be cut, and text is cut as the expression says.
    Gpt2,
    /// A rule of the user's.
    Pattern(Pattern),
}

impl SplitRule {
    /// The expression for [`SplitRule::Gpt2`] (A. Radford et al., *Language models are unsupervised multitask learners*, 2019).
    pub const GPT2: &'static str =
        r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

    /// The same as OpenAI's program for GPT-2 had it, and as most files do.
    const GPT2_AT_LENGTH: &'static str =
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

    /// The expression of the vocabulary cl100k, which tiktoken has: contractions in any case, runs of letters with one other character in
    /// front, up to three digits, runs of other characters with line ends behind, and white space by lines.
    ///
    /// But for one sign it is tiktoken's own: `{1,3}+` there keeps what it found, while the regular expressions of Hugging Face's
    /// `tokenizers` (Oniguruma) read it as a repetition of `{1,3}` and would take any number of digits. Nothing follows the digits, so
    /// `{1,3}` finds the same and means the same to both.
    pub const CL100K: &'static str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";

    const CL100K_OF_TIKTOKEN: &'static str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";

    /// The expression of the vocabulary o200k, likewise; letters are cut where small ones are followed by capital ones, and contractions
    /// stay with their words.
    pub const O200K: &'static str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    /// Calls `visit` with start and end of each piece in turn; together the pieces are `bytes`.
    ///
    /// # Errors
    ///
    /// [`BpeError::Pattern`] if a rule of the user's gives up on these bytes.
    #[inline]
    pub fn pieces(
        &self,
        bytes: &[u8],
        mut visit: impl FnMut(usize, usize),
    ) -> Result<(), BpeError> {
        match self {
            Self::Gpt2 => {
                gpt2::pieces(bytes, visit);
                Ok(())
            }
            Self::Pattern(pattern) => pattern.pieces(bytes, &mut visit),
        }
    }

    /// Whether much text can be cut before all of it is known, so that it need not be in memory as a whole: with the rules that are known
    /// here by name. What an expression of the user's makes of a place may depend on all that follows.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.cut().is_some()
    }

    /// Where text of this rule can be cut.
    fn cut(&self) -> Option<Find> {
        match self {
            Self::Gpt2 => Some(cut_at_blank),
            Self::Pattern(pattern) if [Self::CL100K, Self::O200K].contains(&pattern.source()) => {
                Some(cut_behind_word)
            }
            Self::Pattern(_) => None,
        }
    }

    /// How many leading bytes are cut the same whatever follows `bytes`, and make pieces of their own: what can be used of a stream of
    /// which `bytes` is known. 0 if nothing is certain, as always with a rule of the user's.
    #[must_use]
    pub fn settled(&self, bytes: &[u8]) -> usize {
        let Some(cut) = self.cut() else { return 0 };
        let last = bytes.len().saturating_sub(LOOK_AHEAD);
        let text = || match self {
            Self::Gpt2 => gpt2::last_end_of_text(bytes, last),
            Self::Pattern(_) => 0,
        };
        cut(bytes, last, 1).unwrap_or_else(text)
    }

    /// Cuts `bytes` into at most `count` parts of about the same size, so that the pieces of the parts are the pieces of the whole; with a
    /// rule of the user's into one.
    #[must_use]
    pub fn parts<'a>(&self, bytes: &'a [u8], count: usize) -> Vec<&'a [u8]> {
        let mut parts = Vec::new();
        let mut start = 0;
        if let Some(find) = self.cut() {
            for part in 1..count {
                let wanted = (bytes.len() as u128 * part as u128 / count as u128) as usize;
                if let Some(cut) = find(bytes, wanted, start + 1) {
                    parts.push(&bytes[start..cut]);
                    start = cut;
                }
            }
        }
        parts.push(&bytes[start..]);
        parts
    }
}

/// The last place from `from` to `to` at which ASCII white space follows another ASCII character.
///
/// With the rule of GPT-2 nothing but a run of white space can hold both sides of any cut, and that run begins there.
fn cut_at_blank(bytes: &[u8], to: usize, from: usize) -> Option<usize> {
    let blank = |byte: u8| byte == b' ' || (b'\t'..=b'\r').contains(&byte);
    (from..=to)
        .rev()
        .find(|&cut| blank(bytes[cut]) && bytes[cut - 1].is_ascii() && !blank(bytes[cut - 1]))
}

/// The last place from `from` to `to` at which a space, or a comma or stop of Chinese and Japanese, follows a letter or digit, or a letter
/// or digit a line end.
///
/// With [`SplitRule::CL100K`] and [`SplitRule::O200K`] no piece has a space or such a sign behind its first character unless all is white
/// space or all are signs, so a piece begins there. Those that end with a letter or digit look at no more than the next character, and neither one
/// of these nor an end of the text lets them go on. No piece has a letter or digit behind a line end, and white space that ends with
/// a line end is one piece also at the end of the text.
fn cut_behind_word(bytes: &[u8], to: usize, from: usize) -> Option<usize> {
    let is_word = |class| matches!(class, Class::Letter | Class::Number);
    (from..=to).rev().find(|&cut| {
        let next = &bytes[cut..];
        let line_end = matches!(bytes[cut - 1], b'\n' | b'\r');
        let is_sign = [&b" "[..], "、".as_bytes(), "。".as_bytes(), "，".as_bytes()]
            .iter()
            .any(|sign| next.starts_with(sign));
        (is_sign && class::last(&bytes[..cut]).is_some_and(is_word))
            || (line_end && class::first(next).is_some_and(|it| is_word(it.0)))
    })
}

impl fmt::Display for SplitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpt2 => f.write_str("gpt2"),
            Self::Pattern(pattern) => f.write_str(pattern.source()),
        }
    }
}

impl FromStr for SplitRule {
    type Err = BpeError;

    /// `gpt2`, `cl100k`, `o200k`, or a regular expression; those of [`SplitRule::GPT2`] and [`SplitRule::CL100K`] are recognised, also as
    /// OpenAI's programs have them.
    fn from_str(text: &str) -> Result<Self, BpeError> {
        match text {
            "gpt2" | Self::GPT2 | Self::GPT2_AT_LENGTH => Ok(Self::Gpt2),
            "o200k" => Self::O200K.parse(),
            "cl100k" | Self::CL100K_OF_TIKTOKEN => Self::CL100K.parse(),
            pattern => Ok(Self::Pattern(Pattern::new(pattern)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn pieces(rule: &SplitRule, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        rule.pieces(bytes, |start, end| found.push(bytes[start..end].to_vec()))
            .unwrap();
        found
    }

    /// Text that is full of the rule's special cases.
    fn tricky() -> impl Strategy<Value = String> {
        let words = prop_oneof![
            Just("'s"),
            Just("'ll"),
            Just("'"),
            Just("''"),
            Just("ll"),
            Just("s"),
            Just(" "),
            Just("  "),
            Just("\n"),
            Just("\t"),
            Just("\u{a0}"),
            Just("\u{3000}"),
            Just("é"),
            Just("abc"),
            Just("12"),
            Just("½"),
            Just("..."),
            Just("“"),
            Just("ß"),
            Just("\u{301}"),
            Just("中文"),
            Just("😀"),
            Just("Ⅷ"),
            Just("\u{85}"),
            Just("re"),
            Just("'Ve"),
            Just("aB"),
            Just("\r\n"),
            Just("/"),
            Just("abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"),
            Just("                                                                          "),
        ];
        prop::collection::vec(words, 0..60).prop_map(|words| words.concat())
    }

    fn expression() -> SplitRule {
        SplitRule::Pattern(Pattern::new(SplitRule::GPT2).unwrap())
    }

    fn known() -> impl Strategy<Value = SplitRule> {
        let names = prop::sample::select(vec!["gpt2", "cl100k", "o200k"]);
        names.prop_map(|name| name.parse().unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        #[test]
        fn the_rule_by_hand_is_the_expression(text in prop_oneof![tricky(), "[ -~\n\t]{0,200}", any::<String>(), r"[\p{L}\p{N}\s' ]{0,80}"]) {
            prop_assert_eq!(pieces(&SplitRule::Gpt2, text.as_bytes()), pieces(&expression(), text.as_bytes()));
        }

        #[test]
        fn pieces_are_the_whole_for_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for rule in [SplitRule::Gpt2, expression()] {
                prop_assert_eq!(pieces(&rule, &bytes).concat(), &bytes[..]);
            }
        }

        #[test]
        fn bpe_f11_parts_are_cut_where_nothing_changes(rule in known(), text in tricky(), count in 1_usize..9) {
            let parts = rule.parts(text.as_bytes(), count);
            prop_assert!(parts.len() <= count);
            let apart: Vec<_> = parts.iter().flat_map(|part| pieces(&rule, part)).collect();
            prop_assert_eq!(apart, pieces(&rule, text.as_bytes()));
        }

        #[test]
        fn what_is_settled_stays(rule in known(), text in prop_oneof![tricky(), "[a-z中é]{0,99}"], more in tricky(), cut in any::<prop::sample::Index>()) {
            let whole = text + &more;
            let known = &whole.as_bytes()[..cut.index(whole.len() + 1)];
            let (first, rest) = whole.as_bytes().split_at(rule.settled(known));
            let apart = [pieces(&rule, first), pieces(&rule, rest)].concat();
            prop_assert_eq!(apart, pieces(&rule, whole.as_bytes()));
        }
    }

    #[test]
    fn bpe_f11_lines_are_no_places_to_cut() {
        let text = b"one\n\n  two\n";
        let whole = pieces(&SplitRule::Gpt2, text);
        assert_eq!(
            whole,
            [&b"one"[..], b"\n\n ", b" two", b"\n"].map(<[u8]>::to_vec)
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_other_characters() {
        let found = pieces(&SplitRule::Gpt2, b"a\xFF\xFEb \xE4\xB8 \xE4\xB8\xAD!\x80");
        let expected: [&[u8]; 6] = [
            b"a",
            b"\xFF\xFE",
            b"b",
            b" \xE4\xB8",
            b" \xE4\xB8\xAD",
            b"!\x80",
        ];
        assert_eq!(found, expected.map(<[u8]>::to_vec));
    }

    #[test]
    fn much_text_without_a_blank_is_settled_too() {
        let text = "中文，".repeat(100);
        let settled = SplitRule::Gpt2.settled(text.as_bytes());
        assert!(settled > text.len() - 20, "{settled}");
        assert_eq!(
            SplitRule::Gpt2.settled(b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
            0
        );
        assert_eq!(expression().settled(text.as_bytes()), 0);
        for name in ["cl100k", "o200k"] {
            let rule: SplitRule = name.parse().unwrap();
            let text = "some words of a text ".repeat(9);
            assert!(rule.is_known() && rule.settled(text.as_bytes()) > text.len() - 20);
            assert_eq!(rule.parts(text.as_bytes(), 4).len(), 4);
        }
        assert!(!expression().is_known());
        assert_eq!(expression().parts(b"some words of a text", 2).len(), 1);
    }

    #[test]
    fn text_of_any_script_is_settled_piece_by_piece() {
        let names = ["cl100k", "o200k", SplitRule::CL100K_OF_TIKTOKEN];
        for rule in names.map(|name| SplitRule::from_str(name).unwrap()) {
            for text in ["слово за словом ", "中文中文，中文中文。", "中文中文！\n"]
            {
                let text = text.repeat(40);
                let settled = rule.settled(text.as_bytes());
                assert!(settled > text.len() - 60, "{text}: {settled}");
            }
        }
    }

    #[test]
    fn rules_have_names() {
        for rule in [SplitRule::Gpt2, SplitRule::from_str(r"\w+|\W+").unwrap()] {
            assert_eq!(SplitRule::from_str(&rule.to_string()).unwrap(), rule);
        }
        assert_eq!(
            SplitRule::from_str(SplitRule::GPT2).unwrap(),
            SplitRule::Gpt2
        );
        let message = SplitRule::from_str("(").unwrap_err().to_string();
        assert!(
            message.starts_with("split rule: expected a regular expression"),
            "{message}"
        );
    }
}
