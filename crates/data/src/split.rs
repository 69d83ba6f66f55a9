//! Training and validation part.

use crate::error::at_least_one;
use crate::{Error, Part, Tokens};

/// Two neighbouring parts of the tokens that share none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split<'a> {
    /// The leading tokens.
    pub training: Tokens<'a>,
    /// The trailing tokens; empty if none were asked for.
    pub validation: Tokens<'a>,
}

/// Cuts `tokens` once, so that about `validation_fraction` of them stand behind the cut.
///
/// The training part gets `⌊length · (1 − validation_fraction)⌋` tokens and the validation part the rest. Windows are
/// taken from one part or the other, so none crosses the cut and no validation token is ever a training target.
/// A fraction of 0 means no validation part.
///
/// # Errors
///
/// [`Error::Fraction`] unless `0 ≤ validation_fraction < 1`; [`Error::Zero`] for a `block` of 0; [`Error::TooShort`],
/// naming the part, if one that was asked for cannot fill a window of `block` tokens and its last target.
///
/// ```
/// let tokens: Vec<u32> = (0..100).collect();
/// let parts = burtorch_data::split(&tokens, 0.1, 8)?;
/// assert_eq!(parts.training.to_vec(), tokens[..90]);
/// assert_eq!(parts.validation.to_vec(), tokens[90..]);
/// # Ok::<(), burtorch_data::Error>(())
/// ```
pub fn split<'a>(
    tokens: impl Into<Tokens<'a>>,
    validation_fraction: f64,
    block: usize,
) -> Result<Split<'a>, Error> {
    let tokens = tokens.into();
    if !(0.0..1.0).contains(&validation_fraction) {
        return Err(Error::Fraction {
            fraction: validation_fraction,
        });
    }
    let cut = training_length(tokens.len(), validation_fraction);
    if validation_fraction > 0.0 {
        return split_at(tokens, cut, block);
    }
    fits(Part::Training, tokens, block)?;
    let (training, validation) = at(tokens, tokens.len())?;
    Ok(Split {
        training,
        validation,
    })
}

/// Cuts `tokens` behind the first `cut` of them: for tokens of several characters, where the text was cut before it was encoded.
///
/// # Errors
///
/// [`Error::Zero`] for a `block` of 0; [`Error::TooShort`], naming the part, if one cannot fill a window of `block` tokens and its last
/// target; [`Error::OutOfRange`] for a cut behind the last token.
pub fn split_at<'a>(
    tokens: impl Into<Tokens<'a>>,
    cut: usize,
    block: usize,
) -> Result<Split<'a>, Error> {
    let (training, validation) = at(tokens.into(), cut)?;
    fits(Part::Training, training, block)?;
    fits(Part::Validation, validation, block)?;
    Ok(Split {
        training,
        validation,
    })
}

/// The tokens in front of a cut, and those behind it.
fn at(tokens: Tokens<'_>, cut: usize) -> Result<(Tokens<'_>, Tokens<'_>), Error> {
    let outside = Error::OutOfRange {
        what: "cut",
        index: cut,
        count: tokens.len() + 1,
    };
    tokens.split_at(cut).ok_or(outside)
}

/// How many of `length` characters or tokens are the training part if a fraction is kept for validation.
///
/// Rounds down, but with a millionth to spare: 100 · (1 − 0.8) is 19.999999999999996 in f64.
#[must_use]
pub fn training_length(length: usize, validation_fraction: f64) -> usize {
    let exact = length as f64 * (1.0 - validation_fraction);
    ((exact + 1e-6) as usize).min(length)
}

/// Refuses a part that holds no window of `block` tokens with its last target.
pub(crate) fn fits(part: Part, tokens: Tokens<'_>, block: usize) -> Result<(), Error> {
    at_least_one("block size", block)?;
    let (length, needed) = (tokens.len(), block.saturating_add(1));
    if length < needed {
        Err(Error::TooShort {
            part,
            length,
            needed,
        })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(length: usize, fraction: f64, block: usize) -> String {
        split(&vec![0_u32; length], fraction, block)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn f31_the_message_names_the_part_and_both_numbers() {
        for length in [0, 3, 8] {
            assert_eq!(
                message(length, 0.0, 8),
                format!(
                    "the training part is too short: expected at least 9 tokens, found {length}"
                )
            );
        }
        assert_eq!(
            message(80, 0.1, 8),
            "the validation part is too short: expected at least 9 tokens, found 8"
        );
        assert!(split(&[0_u32; 9], 0.0, 8).is_ok());
        assert!(split(&[0_u32; 90], 0.1, 8).is_ok());
    }

    #[test]
    fn f31_a_fraction_that_rounds_to_nothing_is_not_silent() {
        assert!(message(100, 1e-9, 8).starts_with("the validation part"));
    }

    #[test]
    fn f33_the_fraction_is_honoured() {
        let tokens: Vec<u32> = (0..100).collect();
        let parts = split(&tokens, 0.1, 8).unwrap();
        assert_eq!((parts.training.len(), parts.validation.len()), (90, 10));
        assert_eq!(split(&tokens, 0.8, 8).unwrap().training.len(), 20);
        assert_eq!(training_length(1_115_394, 0.1), 1_003_854);
    }

    #[test]
    fn impossible_requests_are_refused() {
        for fraction in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(message(100, fraction, 8).starts_with("validation fraction"));
        }
        assert_eq!(
            message(100, 0.1, 0),
            "block size: expected at least 1, found 0"
        );
        assert!(message(100, 0.1, usize::MAX).contains("too short"));
    }

    #[test]
    fn a_cut_is_taken_as_it_is() {
        let tokens: Vec<u32> = (0..30).collect();
        let parts = split_at(&tokens, 17, 8).unwrap();
        let (training, validation) = tokens.split_at(17);
        assert_eq!(parts.training, Tokens::from(training));
        assert_eq!(parts.validation, Tokens::from(validation));
        for (cut, word) in [
            (8, "training part"),
            (22, "validation part"),
            (31, "cut: expected an index below 31"),
        ] {
            let message = split_at(&tokens, cut, 8).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    proptest! {
        #[test]
        fn the_parts_are_the_whole(length in 0_usize..2000, fraction in 0.0..1.0, block in 1_usize..20) {
            let tokens: Vec<u32> = (0..length as u32).collect();
            if let Ok(parts) = split(&tokens, fraction, block) {
                prop_assert!(parts.training.iter().chain(parts.validation.iter()).eq(tokens.iter().copied()));
                let wanted = length as f64 * fraction;
                prop_assert!((parts.validation.len() as f64 - wanted).abs() <= 1.0);
            }
        }
    }
}
