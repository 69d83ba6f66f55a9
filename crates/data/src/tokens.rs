//! Tokens as they lie in memory: two bytes each where that is enough, else four.

use std::ops::Range;

use crate::{Error, Width};

/// A slice of tokens that have two bytes each, or four. Whoever reads them gets `u32` from either.
///
/// ```
/// use burtorch_data::Tokens;
///
/// let narrow = Tokens::from(&[7_u16, 8, 9]);
/// let mut room = [0_u32; 2];
/// narrow.get(1..3).unwrap().copy_to(&mut room);
/// assert_eq!(room, [8, 9]);
/// assert_eq!(narrow, Tokens::from(&[7_u32, 8, 9]));
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Tokens<'a> {
    /// Two bytes each.
    Two(&'a [u16]),
    /// Four bytes each.
    Four(&'a [u32]),
}

/// The same expression for both widths.
macro_rules! either {
    ($tokens:expr, $slice:ident => $result:expr) => {
        match $tokens {
            Tokens::Two($slice) => $result,
            Tokens::Four($slice) => $result,
        }
    };
}

impl<'a> Tokens<'a> {
    /// How many there are.
    #[must_use]
    pub fn len(self) -> usize {
        either!(self, tokens => tokens.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Bytes of a token.
    #[must_use]
    pub fn width(self) -> Width {
        match self {
            Self::Two(_) => Width::Two,
            Self::Four(_) => Width::Four,
        }
    }

    /// The tokens at these places; none unless all of them exist.
    #[must_use]
    #[inline]
    pub fn get(self, places: Range<usize>) -> Option<Self> {
        match self {
            Self::Two(tokens) => tokens.get(places).map(Self::Two),
            Self::Four(tokens) => tokens.get(places).map(Self::Four),
        }
    }

    /// The first `cut` tokens and the others; none for a cut behind the last one.
    #[must_use]
    pub fn split_at(self, cut: usize) -> Option<(Self, Self)> {
        Some((self.get(0..cut)?, self.get(cut..self.len())?))
    }

    /// Every token in turn.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u32> + Clone + 'a {
        (0..self.len()).map(move |place| self.at(place))
    }

    /// The token at a place, which exists.
    #[inline]
    fn at(self, place: usize) -> u32 {
        match self {
            Self::Two(tokens) => u32::from(tokens[place]),
            Self::Four(tokens) => tokens[place],
        }
    }

    /// Parts of `length` tokens, the last one as many as are left.
    ///
    /// # Panics
    ///
    /// For a length of 0, as the method of slices does.
    pub fn chunks(self, length: usize) -> impl ExactSizeIterator<Item = Self> + Clone {
        assert!(length > 0, "chunks of no tokens");
        let all = self.len();
        (0..all.div_ceil(length)).map(move |number| {
            let start = number * length;
            let places = start..start.saturating_add(length).min(all);
            either!(self, tokens => Self::from(&tokens[places]))
        })
    }

    /// Writes all tokens into `room`.
    ///
    /// # Panics
    ///
    /// If the lengths differ, as the method of slices does.
    #[inline]
    pub fn copy_to(self, room: &mut [u32]) {
        match self {
            Self::Four(tokens) => room.copy_from_slice(tokens),
            Self::Two(tokens) => {
                assert_eq!(room.len(), tokens.len(), "room and tokens");
                let places = room.iter_mut().zip(tokens);
                places.for_each(|(place, &token)| *place = u32::from(token));
            }
        }
    }

    /// All tokens with four bytes each.
    #[must_use]
    pub fn to_vec(self) -> Vec<u32> {
        match self {
            Self::Two(tokens) => tokens.iter().copied().map(u32::from).collect(),
            Self::Four(tokens) => tokens.to_vec(),
        }
    }

    /// Place and value of the first token that is not below `vocabulary`.
    #[must_use]
    pub fn outside(self, vocabulary: usize) -> Option<(usize, u32)> {
        let found = either!(self, tokens => {
            tokens.iter().position(|&token| token as usize >= vocabulary)
        });
        found.map(|place| (place, self.at(place)))
    }
}

impl PartialEq for Tokens<'_> {
    /// The same tokens, whatever their widths.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Two(one), Self::Two(other)) => one == other,
            (Self::Four(one), Self::Four(other)) => one == other,
            _ => self.iter().eq(other.iter()),
        }
    }
}

impl Eq for Tokens<'_> {}

/// What can be seen as [`Tokens`].
macro_rules! seen_as_tokens {
    ($($number:ty, $variant:ident);+) => {$(
        impl<'a> From<&'a [$number]> for Tokens<'a> {
            fn from(tokens: &'a [$number]) -> Self {
                Self::$variant(tokens)
            }
        }

        impl<'a> From<&'a Vec<$number>> for Tokens<'a> {
            fn from(tokens: &'a Vec<$number>) -> Self {
                Self::$variant(tokens)
            }
        }

        impl<'a, const N: usize> From<&'a [$number; N]> for Tokens<'a> {
            fn from(tokens: &'a [$number; N]) -> Self {
                Self::$variant(tokens)
            }
        }
    )+};
}

seen_as_tokens! { u16, Two; u32, Four }

impl<'a> From<&'a TokenBuffer> for Tokens<'a> {
    fn from(buffer: &'a TokenBuffer) -> Self {
        buffer.tokens()
    }
}

/// Tokens in memory, of a vocabulary whose size decides how many bytes each takes.
///
/// ```
/// use burtorch_data::{TokenBuffer, Width};
///
/// let mut tokens = TokenBuffer::of_vocabulary(300);
/// tokens.push(&[1, 299])?;
/// assert_eq!(tokens.tokens().width(), Width::Two);
/// assert!(tokens.push(&[300]).is_err());
/// assert_eq!(tokens.tokens().to_vec(), [1, 299]);
/// # Ok::<(), burtorch_data::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct TokenBuffer {
    stored: Stored,
    vocabulary: usize,
}

#[derive(Debug, Clone)]
enum Stored {
    Two(Vec<u16>),
    Four(Vec<u32>),
}

impl TokenBuffer {
    /// No tokens yet; all must be below `vocabulary`.
    #[must_use]
    pub fn of_vocabulary(vocabulary: usize) -> Self {
        Self::of_width(Width::Four, vocabulary)
    }

    /// As [`of_vocabulary`](Self::of_vocabulary), for tokens that are known to fit into `width`.
    pub(crate) fn of_width(width: Width, vocabulary: usize) -> Self {
        let stored = match (width, Width::of_vocabulary(vocabulary)) {
            (Width::Four, Width::Four) => Stored::Four(Vec::new()),
            _ => Stored::Two(Vec::new()),
        };
        Self { stored, vocabulary }
    }

    /// With room for `count` more tokens and no others, so that memory does not grow by halves.
    ///
    /// # Errors
    ///
    /// [`Error::NoMemory`] if memory does not hold them.
    pub fn reserve(&mut self, count: usize) -> Result<(), Error> {
        let reserved = match &mut self.stored {
            Stored::Two(tokens) => tokens.try_reserve_exact(count),
            Stored::Four(tokens) => tokens.try_reserve_exact(count),
        };
        reserved.map_err(|_| Error::NoMemory { tokens: count })
    }

    /// Appends tokens: all of them or, if one is not of the vocabulary, none.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownToken`], [`Error::NoMemory`].
    pub fn push(&mut self, tokens: &[u32]) -> Result<(), Error> {
        let size = self.vocabulary;
        if let Some((_, token)) = Tokens::from(tokens).outside(size) {
            return Err(Error::UnknownToken { token, size });
        }
        let count = tokens.len();
        let reserved = match &mut self.stored {
            Stored::Two(all) => all.try_reserve(count),
            Stored::Four(all) => all.try_reserve(count),
        };
        reserved.map_err(|_| Error::NoMemory { tokens: count })?;
        match &mut self.stored {
            // Vocabulary or width say that nothing is cut off.
            Stored::Two(all) => all.extend(tokens.iter().map(|&token| token as u16)),
            Stored::Four(all) => all.extend_from_slice(tokens),
        }
        Ok(())
    }

    /// Gives back the room that no token takes.
    pub fn shrink(&mut self) {
        match &mut self.stored {
            Stored::Two(tokens) => tokens.shrink_to_fit(),
            Stored::Four(tokens) => tokens.shrink_to_fit(),
        }
    }

    /// All of them.
    #[must_use]
    pub fn tokens(&self) -> Tokens<'_> {
        match &self.stored {
            Stored::Two(tokens) => Tokens::Two(tokens),
            Stored::Four(tokens) => Tokens::Four(tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_vocabulary_decides_the_width() {
        for (vocabulary, width) in [(1 << 16, Width::Two), ((1 << 16) + 1, Width::Four)] {
            let mut buffer = TokenBuffer::of_vocabulary(vocabulary);
            let last = vocabulary as u32 - 1;
            buffer.push(&[0, last]).unwrap();
            assert_eq!(buffer.tokens().width(), width);
            assert_eq!(buffer.tokens(), Tokens::from(&[0, last]));
            let message = buffer.push(&[1, last + 1]).unwrap_err().to_string();
            let expected = format!("expected tokens below {vocabulary}, found {vocabulary}");
            assert_eq!(message, expected);
            assert_eq!(buffer.tokens().len(), 2, "none of them was taken");
        }
    }

    #[test]
    fn memory_that_is_not_there_is_named() {
        let message = TokenBuffer::of_vocabulary(9).reserve(usize::MAX / 4);
        let message = message.unwrap_err().to_string();
        assert!(message.starts_with("expected tokens that fit in memory, found"));
    }

    #[test]
    fn places_that_do_not_exist_are_none() {
        for tokens in [
            Tokens::from(&[1_u16, 2, 3]),
            Tokens::from(&vec![1_u32, 2, 3]),
        ] {
            assert_eq!(tokens.get(1..3), Some(Tokens::from(&[2_u32, 3])));
            assert_eq!(tokens.get(1..4), None);
            assert!(tokens.split_at(4).is_none() && tokens.split_at(3).unwrap().1.is_empty());
            assert_ne!(tokens, Tokens::from(&[1_u32, 2]));
            assert_ne!(tokens, Tokens::from(&[1_u16, 2, 4]));
        }
    }

    proptest! {
        #[test]
        fn both_widths_read_the_same(narrow in prop::collection::vec(any::<u16>(), 0..80), length in 1_usize..20, most in 0_usize..70_000) {
            let wide: Vec<u32> = narrow.iter().copied().map(u32::from).collect();
            let (two, four) = (Tokens::from(&narrow), Tokens::from(&wide));
            prop_assert_eq!(two, four);
            prop_assert!(two.iter().eq(wide.iter().copied()) && four.iter().eq(two.iter()));
            prop_assert_eq!(two.to_vec(), four.to_vec());
            prop_assert_eq!(two.outside(most), four.outside(most));
            prop_assert_eq!(two.outside(most).map(|it| it.0), wide.iter().position(|&token| token as usize >= most));
            prop_assert!(two.chunks(length).eq(wide.chunks(length).map(Tokens::from)));
            let mut room = vec![1; wide.len()];
            two.copy_to(&mut room);
            prop_assert_eq!(&room, &wide);
            let mut buffer = TokenBuffer::of_vocabulary(1 << 16);
            wide.chunks(length).for_each(|part| buffer.push(part).unwrap());
            buffer.shrink();
            prop_assert_eq!(buffer.tokens(), four);
        }
    }
}
