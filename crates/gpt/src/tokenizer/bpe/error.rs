//! What can go wrong with byte-pair encoding.

/// Every failure of this module; a message says what was expected, what was found, and where.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BpeError {
    /// A split rule cannot be understood, or gave up on a text.
    #[error(
        "split rule: expected a regular expression that can be used, found `{pattern}`: {reason}"
    )]
    Pattern {
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Vocabulary or merges do not make a tokenizer.
    #[error("{place}: expected {expected}, found {found}")]
    Content {
        /// The token, line or field.
        place: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A token stands for nothing in the vocabulary.
    #[error("token {token} is outside the vocabulary of {size}")]
    UnknownToken {
        /// The token.
        token: u32,
        /// The size of the vocabulary.
        size: usize,
    },
    /// A vocabulary was asked for that cannot be trained.
    #[error(
        "vocabulary size: expected at least {least} ({bytes} bytes, {specials} special tokens) and at most {most}, found {found}"
    )]
    VocabularySize {
        /// The least possible size.
        least: usize,
        /// Single bytes among it.
        bytes: usize,
        /// Special tokens among it.
        specials: usize,
        /// The largest possible size.
        most: usize,
        /// What was asked for.
        found: usize,
    },
    /// There is more to count than the counters can hold.
    #[error("counts: expected at most {most} {what} together, found more")]
    TooMany {
        /// What was counted.
        what: &'static str,
        /// How many can be.
        most: u64,
    },
}

impl BpeError {
    /// A rule that cannot be used; what the parser says goes over several lines, of which one is enough.
    pub(super) fn pattern(pattern: &str, reason: &dyn std::error::Error) -> Self {
        let reason = reason.to_string();
        let reason = reason.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        Self::Pattern {
            pattern: pattern.to_owned(),
            reason,
        }
    }

    /// Something that is not what it should be.
    pub(super) fn content(
        place: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Content {
            place: place.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }
}
