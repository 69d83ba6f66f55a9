//! A rule of the user's, as a regular expression.

use fancy_regex::{Regex, RegexBuilder};

use super::super::BpeError;

/// Bytes that the compiled form of an expression, or of each part of one with look-around, may have. That of o200k has 0.2 MB; a repetition
/// such as `\p{L}{1000}` would else take as much as it likes.
const SIZE: usize = 1 << 19;

/// A regular expression in the syntax of the crate `fancy-regex` (look-around included), whose matches are the pieces.
///
/// What lies between two matches is a piece of its own, and so is what is no UTF-8: nothing is lost.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Pattern {}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    ///
    /// [`BpeError::Pattern`] for one that cannot be understood.
    pub fn new(source: &str) -> Result<Self, BpeError> {
        let built = RegexBuilder::new(source).delegate_size_limit(SIZE).build();
        let regex = built.map_err(|error| BpeError::pattern(source, &error))?;
        Ok(Self { regex })
    }

    /// The expression as it was given.
    #[must_use]
    pub fn source(&self) -> &str {
        self.regex.as_str()
    }

    /// Calls `visit` with start and end of each piece in turn.
    pub(super) fn pieces(
        &self,
        bytes: &[u8],
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), BpeError> {
        let mut offset = 0;
        for chunk in bytes.utf8_chunks() {
            self.text(chunk.valid(), offset, visit)?;
            offset += chunk.valid().len();
            let invalid = chunk.invalid().len();
            if invalid > 0 {
                visit(offset, offset + invalid);
                offset += invalid;
            }
        }
        Ok(())
    }

    fn text(
        &self,
        text: &str,
        offset: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), BpeError> {
        let mut end = 0;
        for found in self.regex.find_iter(text) {
            let found = found.map_err(|error| BpeError::pattern(self.source(), &error))?;
            if end < found.start() {
                visit(offset + end, offset + found.start());
            }
            if found.start() < found.end() {
                visit(offset + found.start(), offset + found.end());
            }
            end = found.end();
        }
        if end < text.len() {
            visit(offset + end, offset + text.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pattern: &str, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let pattern = Pattern::new(pattern).unwrap();
        pattern
            .pieces(bytes, &mut |start, end| found.push((start, end)))
            .unwrap();
        found
    }

    #[test]
    fn what_no_match_covers_is_a_piece_too() {
        assert_eq!(
            pieces("[a-z]+", b"ab  c1"),
            [(0, 2), (2, 4), (4, 5), (5, 6)]
        );
        assert_eq!(pieces("x*", b"axb"), [(0, 1), (1, 2), (2, 3)]);
        assert_eq!(
            pieces("a+", b"a\xFF\xFEaa"),
            [(0, 1), (1, 2), (2, 3), (3, 5)]
        );
    }
}
