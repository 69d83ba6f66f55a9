//! Inputs and their targets.

use crate::split::fits;
use crate::{Error, Part, Tokens};

/// All windows of `block` tokens whose targets exist: one starts at each of the first `length − block` tokens.
///
/// The targets of a window are the same tokens one place later, so the last token is a target and never an input.
///
/// ```
/// use burtorch_data::Windows;
///
/// let tokens = [10_u32, 11, 12, 13, 14];
/// let windows = Windows::new(&tokens, 3)?;
/// assert_eq!(windows.count(), 2);
/// let (x, y) = windows.get(1)?;
/// assert_eq!(x.to_vec(), [11, 12, 13]);
/// assert_eq!(y.to_vec(), [12, 13, 14]);
/// # Ok::<(), burtorch_data::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows<'a> {
    tokens: Tokens<'a>,
    block: usize,
}

impl<'a> Windows<'a> {
    /// The windows of `block` tokens in `tokens`.
    ///
    /// # Errors
    ///
    /// [`Error::Zero`] for a `block` of 0, [`Error::TooShort`] for fewer than `block + 1` tokens.
    pub fn new(tokens: impl Into<Tokens<'a>>, block: usize) -> Result<Self, Error> {
        let tokens = tokens.into();
        fits(Part::Whole, tokens, block)?;
        Ok(Self { tokens, block })
    }

    /// How many windows there are: at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tokens.len() - self.block
    }

    /// Tokens in each window.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// Input and target tokens of the window that starts at token `index`, each of length [`block`](Self::block).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] unless `index` is below [`count`](Self::count).
    #[inline]
    pub fn get(&self, index: usize) -> Result<(Tokens<'a>, Tokens<'a>), Error> {
        let end = index.saturating_add(self.block);
        let (inputs, targets) = (index..end, index.saturating_add(1)..end.saturating_add(1));
        let outside = || Error::OutOfRange {
            what: "window",
            index,
            count: self.count(),
        };
        let targets = self.tokens.get(targets).ok_or_else(outside)?;
        let inputs = self.tokens.get(inputs).ok_or_else(outside)?;
        Ok((inputs, targets))
    }
}

/// Windows that do not overlap and have every token but the first as a target exactly once: what evaluation needs.
///
/// Each holds `block` inputs and targets, the last one as many as are left. Weigh a window by its length when taking means
/// ([`WeightedMean`](crate::WeightedMean)).
///
/// # Errors
///
/// [`Error::Zero`] for a `block` of 0, [`Error::TooShort`] for fewer than 2 tokens.
///
/// ```
/// let tokens = [10_u32, 11, 12, 13, 14, 15];
/// let windows = burtorch_data::consecutive(&tokens, 3)?;
/// let windows: Vec<_> = windows.map(|(x, y)| (x.to_vec(), y.to_vec())).collect();
/// assert_eq!(windows[0], (vec![10, 11, 12], vec![11, 12, 13]));
/// assert_eq!(windows[1], (vec![13, 14], vec![14, 15]));
/// # Ok::<(), burtorch_data::Error>(())
/// ```
pub fn consecutive<'a>(
    tokens: impl Into<Tokens<'a>>,
    block: usize,
) -> Result<impl ExactSizeIterator<Item = (Tokens<'a>, Tokens<'a>)> + Clone, Error> {
    let tokens = tokens.into();
    fits(Part::Whole, tokens, block.min(1))?;
    let part = |places| tokens.get(places).unwrap_or(tokens);
    let (inputs, targets) = (part(0..tokens.len() - 1), part(1..tokens.len()));
    Ok(inputs.chunks(block).zip(targets.chunks(block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn f31_nine_tokens_give_one_window_of_eight() {
        for length in [0, 3, 8] {
            let error = Windows::new(&vec![0_u32; length], 8)
                .unwrap_err()
                .to_string();
            assert_eq!(
                error,
                format!("the text is too short: expected at least 9 tokens, found {length}")
            );
        }
        assert_eq!(Windows::new(&[0_u32; 9], 8).unwrap().count(), 1);
    }

    #[test]
    fn f33_targets_are_shifted_by_one_and_reach_the_last_token() {
        let tokens: Vec<u32> = (0..10).collect();
        let windows = Windows::new(&tokens, 4).unwrap();
        let starts: Vec<u32> = (0..windows.count())
            .map(|i| windows.get(i).unwrap().0.to_vec()[0])
            .collect();
        assert_eq!(starts, [0, 1, 2, 3, 4, 5]);
        for index in 0..6 {
            let (x, y) = windows.get(index).unwrap();
            assert!(x.iter().zip(y.iter()).all(|(x, y)| x + 1 == y));
        }
        assert_eq!(windows.get(5).unwrap().1.to_vec(), [6, 7, 8, 9]);
        for index in [6, usize::MAX] {
            let error = windows.get(index).unwrap_err().to_string();
            let expected = format!("window: expected an index below 6, found {index}");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn consecutive_needs_one_target() {
        assert!(consecutive(&[1_u32], 4).is_err());
        assert!(consecutive(&[1_u32, 2], 0).is_err());
        assert_eq!(
            consecutive(&[1_u32, 2], usize::MAX).unwrap().next(),
            Some((Tokens::from(&[1_u32]), Tokens::from(&[2_u32])))
        );
    }

    proptest! {
        #[test]
        fn every_window_is_a_piece_and_its_shift(length in 2_usize..200, block in 1_usize..200) {
            let tokens: Vec<u32> = (0..length as u32).collect();
            prop_assume!(block < length);
            let windows = Windows::new(&tokens, block).unwrap();
            prop_assert_eq!(windows.count(), length - block);
            for index in 0..windows.count() {
                let (x, y) = windows.get(index).unwrap();
                prop_assert_eq!(x.to_vec(), &tokens[index..index + block]);
                prop_assert_eq!(y.to_vec(), &tokens[index + 1..index + 1 + block]);
            }
        }

        #[test]
        fn consecutive_targets_are_all_tokens_but_the_first(length in 2_usize..200, block in 1_usize..50) {
            let tokens: Vec<u32> = (0..length as u32).collect();
            let windows = consecutive(&tokens, block).unwrap();
            let targets: Vec<u32> = windows.clone().flat_map(|(_, y)| y.to_vec()).collect();
            prop_assert_eq!(targets, &tokens[1..]);
            prop_assert!(windows.clone().all(|(x, y)| x.len() == y.len() && x.len() <= block));
            let full = windows.len() - 1;
            prop_assert!(windows.clone().take(full).all(|(x, _)| x.len() == block));
        }
    }
}
