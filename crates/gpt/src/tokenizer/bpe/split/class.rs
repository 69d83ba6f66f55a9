//! What kind of character stands at a place.

use unicode_general_category::{GeneralCategory as Category, get_general_category};

/// The kinds that the rule of GPT-2 tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// General category L.
    Letter,
    /// General category N.
    Number,
    /// The property `White_Space`.
    Space,
    /// Everything else, and bytes that are no character.
    Other,
}

/// The kinds of the ASCII characters.
const ASCII: [Class; 128] = {
    let mut classes = [Class::Other; 128];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Number,
            b' ' | b'\t'..=b'\r' => Class::Space,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// Kind and length of the character with which `bytes` begins; none behind the end.
#[inline]
pub(super) fn first(bytes: &[u8]) -> Option<(Class, usize)> {
    let &byte = bytes.first()?;
    match ASCII.get(byte as usize) {
        Some(&class) => Some((class, 1)),
        None => Some(beyond_ascii(bytes)),
    }
}

/// Kind of the character with which `bytes` end; none if there are none.
pub(super) fn last(bytes: &[u8]) -> Option<Class> {
    let most = bytes.len().min(4);
    let characters = (1..=most)
        .rev()
        .map(|length| (length, first(&bytes[bytes.len() - length..])));
    let mut whole = characters.filter(|(length, found)| found.is_some_and(|it| it.1 == *length));
    whole.next().map_or_else(
        || bytes.last().map(|_| Class::Other),
        |(_, found)| found.map(|it| it.0),
    )
}

fn beyond_ascii(bytes: &[u8]) -> (Class, usize) {
    let length = match bytes[0] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return (Class::Other, 1),
    };
    let text = bytes.get(..length).and_then(|it| str::from_utf8(it).ok());
    match text.and_then(|text| text.chars().next()) {
        Some(character) => (class(character), length),
        None => (Class::Other, 1),
    }
}

fn class(character: char) -> Class {
    if character.is_whitespace() {
        return Class::Space;
    }
    match get_general_category(character) {
        Category::UppercaseLetter
        | Category::LowercaseLetter
        | Category::TitlecaseLetter
        | Category::ModifierLetter
        | Category::OtherLetter => Class::Letter,
        Category::DecimalNumber | Category::LetterNumber | Category::OtherNumber => Class::Number,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fancy_regex::Regex;

    #[test]
    fn every_character_is_what_regular_expressions_say() {
        let classes = [
            (Class::Letter, r"^\p{L}$"),
            (Class::Number, r"^\p{N}$"),
            (Class::Space, r"^\s$"),
            (Class::Other, r"^[^\s\p{L}\p{N}]$"),
        ];
        let classes = classes.map(|(class, pattern)| (class, Regex::new(pattern).unwrap()));
        let mut text = String::new();
        for character in '\0'..=char::MAX {
            text.clear();
            text.push(character);
            let (found, length) = first(text.as_bytes()).unwrap();
            assert_eq!(length, text.len());
            let pattern = &classes.iter().find(|it| it.0 == found).unwrap().1;
            assert!(pattern.is_match(&text).unwrap(), "{character:?}: {found:?}");
        }
    }

    #[test]
    fn broken_characters_are_single_bytes() {
        for bytes in [
            &b"\x80"[..],
            b"\xE4\xB8",
            b"\xE4a",
            b"\xED\xA0\x80",
            b"\xF5\x80\x80\x80",
            b"\xC0\x80",
        ] {
            assert_eq!(first(bytes), Some((Class::Other, 1)), "{bytes:x?}");
        }
        assert_eq!(first(b""), None);
    }
}
