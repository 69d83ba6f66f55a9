//! Texts behind which nothing is written.

use crate::Error;

/// Lets text through until one of some texts appears in it, which may come in parts.
///
/// ```
/// use burtorch_gpt::generation::StopTexts;
///
/// let texts = ["END".to_owned()];
/// let mut stop = StopTexts::new(&texts)?;
/// assert_eq!(stop.push("to the E"), "to the "); // an E may begin the END
/// assert_eq!(stop.push("ast EN"), "East ");
/// assert_eq!(stop.push("D of it"), "");
/// assert!(stop.is_reached());
/// # Ok::<(), burtorch_gpt::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StopTexts<'a> {
    texts: &'a [String],
    /// What may be the beginning of one of them.
    held: String,
    reached: bool,
}

impl<'a> StopTexts<'a> {
    /// Stops at the first of these that is complete.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`] if one of them is empty.
    pub fn new(texts: &'a [String]) -> Result<Self, Error> {
        if texts.iter().any(String::is_empty) {
            return Err(Error::setting("--stop", "a text", "an empty one"));
        }
        Ok(Self {
            texts,
            held: String::new(),
            reached: false,
        })
    }

    /// Whether one of the texts has appeared; nothing is let through from then on.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.reached
    }

    /// Takes the next part; what belongs before any of the texts.
    pub fn push(&mut self, part: &str) -> String {
        if self.reached {
            return String::new();
        }
        self.held.push_str(part);
        // The first that is complete, wherever the parts are cut.
        let found = self.texts.iter().filter_map(|text| {
            let place = self.held.find(text)?;
            Some((place + text.len(), place))
        });
        let until = match found.min() {
            Some((_, place)) => {
                self.reached = true;
                place
            }
            None => self.certain(),
        };
        let rest = self.held.split_off(until);
        std::mem::replace(&mut self.held, rest)
    }

    /// What was held back when no more comes.
    pub fn finish(&mut self) -> String {
        match self.reached {
            true => String::new(),
            false => std::mem::take(&mut self.held),
        }
    }

    /// Bytes of what is held in which none of the texts can begin.
    fn certain(&self) -> usize {
        let begins = |place: &usize| {
            let end = &self.held[*place..];
            self.texts.iter().any(|text| text.starts_with(end))
        };
        let mut places = self.held.char_indices().map(|(place, _)| place);
        places.find(begins).unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through(texts: &[&str], parts: &[&str]) -> (String, bool) {
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        let mut stop = StopTexts::new(&texts).unwrap();
        let mut found: String = parts.iter().map(|part| stop.push(part)).collect();
        found += &stop.finish();
        (found, stop.is_reached())
    }

    #[test]
    fn the_first_place_of_any_of_them_ends_the_text() {
        for (texts, text, expected) in [
            (&["b"][..], "abc", "a"),
            (&["c", "b"], "abc", "a"),
            (&["bcd", "c"], "abcd", "ab"),
            (&["bc", "c"], "abcd", "a"),
            (&["aab"], "aaab", "a"),
            (&["ßx"], "aßßx", "aß"),
            (&["a"], "abc", ""),
        ] {
            let parts: Vec<String> = text.chars().map(String::from).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            let expected = (expected.to_owned(), true);
            assert_eq!(through(texts, &parts), expected, "{texts:?}");
            assert_eq!(through(texts, &[text]), expected);
        }
    }

    #[test]
    fn what_was_only_a_beginning_comes_out_at_the_end() {
        assert_eq!(through(&["abc"], &["a", "b"]), ("ab".to_owned(), false));
        assert_eq!(through(&[], &["a", "b"]), ("ab".to_owned(), false));
    }

    #[test]
    fn an_empty_text_is_refused() {
        let texts = [String::new()];
        let message = StopTexts::new(&texts).unwrap_err().to_string();
        assert!(message.starts_with("--stop"), "{message}");
    }

    proptest! {
        #[test]
        fn parts_do_not_matter(text in "[ab]{0,20}", stop in "[ab]{1,4}", cut in 0_usize..20) {
            let cut = cut.min(text.len());
            let expected = text.split(&stop).next().unwrap_or_default().to_owned();
            let reached = text.contains(&stop);
            prop_assert_eq!(through(&[&stop], &[&text[..cut], &text[cut..]]), (expected, reached));
        }
    }
}
