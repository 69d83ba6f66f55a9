//! Bytes as characters that can be seen, as GPT-2's files write them.

use hashbrown::HashMap;

/// A character for each byte: that of Latin-1 where it can be seen and is no blank, else the next one from U+0100 on.
#[derive(Debug)]
pub(super) struct Alphabet {
    characters: Vec<char>,
    bytes: HashMap<char, u8>,
}

impl Alphabet {
    pub(super) fn new() -> Self {
        let mut hidden = '\u{100}'..;
        let character = |byte: u8| match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte),
            _ => hidden.next().unwrap_or_default(),
        };
        let characters: Vec<char> = (0..=255).map(character).collect();
        let bytes = characters.iter().copied().zip(0..=255).collect();
        Self { characters, bytes }
    }

    pub(super) fn text(&self, bytes: &[u8]) -> String {
        bytes
            .iter()
            .map(|&byte| self.characters[byte as usize])
            .collect()
    }

    /// The bytes of a text; none if one of its characters stands for no byte.
    pub(super) fn bytes(&self, text: &str) -> Option<Vec<u8>> {
        text.chars()
            .map(|character| self.bytes.get(&character).copied())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character_of_its_own() {
        let alphabet = Alphabet::new();
        let all: Vec<u8> = (0..=255).collect();
        let text = alphabet.text(&all);
        assert_eq!(alphabet.bytes(&text).unwrap(), all);
        assert!(
            !text
                .chars()
                .any(|character| character.is_whitespace() || character.is_control())
        );
        assert_eq!(alphabet.text(b" the\n"), "ĠtheĊ");
        assert_eq!(alphabet.bytes("the end"), None);
    }
}
