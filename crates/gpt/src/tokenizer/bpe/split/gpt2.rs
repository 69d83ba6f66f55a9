//! The rule of GPT-2: many pieces at once where the text is ASCII, else one character after the other.

use super::block::{self, LENGTH};
use super::class::{Class, first};

/// Calls `visit` with start and end of each piece in turn.
#[inline]
pub(super) fn pieces(bytes: &[u8], mut visit: impl FnMut(usize, usize)) {
    let mut start = 0;
    while let Some(rest) = bytes.get(start..).filter(|rest| !rest.is_empty()) {
        let mut starts = starts(rest);
        if starts == 0 {
            let end = start + piece_length(rest);
            visit(start, end);
            start = end;
        }
        let base = start;
        while starts != 0 {
            let next = base + starts.trailing_zeros() as usize;
            visit(start, next);
            start = next;
            starts &= starts - 1;
        }
    }
}

/// The last place up to `most` at which a piece ends that is not white space: of white space a cut would make the end of the text.
pub(super) fn last_end_of_text(bytes: &[u8], most: usize) -> usize {
    let mut last = 0;
    pieces(bytes, |start, end| {
        let blank = usize::from(bytes[start] == b' ');
        let text = first(&bytes[start + blank..end]).is_some_and(|it| it.0 != Class::Space);
        if end <= most && text {
            last = end;
        }
    });
    last
}

/// Where pieces begin behind the one with which `rest` begins, as far as a block can tell; 0 if it cannot.
#[inline]
fn starts(rest: &[u8]) -> u64 {
    match rest.first_chunk::<LENGTH>() {
        // Foreign letters mostly come in company.
        Some(block) if (block[0] | block[1]).is_ascii() => block::starts(block),
        _ => 0,
    }
}

/// Length of the piece with which `bytes` begins; they are not empty.
fn piece_length(bytes: &[u8]) -> usize {
    if let Some(length) = contraction(bytes) {
        return length;
    }
    match first(bytes) {
        Some((Class::Space, _)) => match first(&bytes[1..]) {
            Some((class, _)) if bytes[0] == b' ' && class != Class::Space => {
                1 + run(&bytes[1..], class).0
            }
            _ => white_space(bytes),
        },
        Some((class, _)) => run(bytes, class).0,
        None => 0,
    }
}

/// Length of `'s`, `'t`, `'re` and so on, if `bytes` begin with one.
fn contraction(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\'', b's' | b'd' | b'm' | b't', ..] => Some(2),
        [b'\'', b'l', b'l', ..] | [b'\'', b'v' | b'r', b'e', ..] => Some(3),
        _ => None,
    }
}

/// Bytes of the leading characters of this kind, and of these all but the last.
fn run(bytes: &[u8], class: Class) -> (usize, usize) {
    let (mut end, mut last) = (0, 0);
    while let Some((_, length)) = first(&bytes[end..]).filter(|it| it.0 == class) {
        last = end;
        end += length;
    }
    (end, last)
}

/// A run of white space leaves its last character to what follows, unless it is the only one or nothing follows.
fn white_space(bytes: &[u8]) -> usize {
    let (end, last) = run(bytes, Class::Space);
    if end == bytes.len() || last == 0 {
        end
    } else {
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_pieces_have_the_length_of_the_expression() {
        for (text, length) in [
            ("'s", 2),
            ("'sx", 2),
            ("'ll", 3),
            ("'l", 1),
            ("'re", 3),
            ("'ve", 3),
            ("'S", 1),
            ("''s", 2),
            (" 's", 2),
            ("ab'", 2),
            (" ab", 3),
            ("  ab", 1),
            ("\nab", 1),
            ("\n ab", 1),
            (" \n", 2),
            (" ", 1),
            ("a1", 1),
            ("12a", 2),
            (" 1a", 2),
            (" !a", 2),
            ("\u{a0}a", 2),
            ("\u{a0}\u{a0}a", 2),
            ("  ", 2),
            ("é1", 2),
            (" \u{3000}x", 1),
        ] {
            assert_eq!(piece_length(text.as_bytes()), length, "{text:?}");
        }
    }
}
