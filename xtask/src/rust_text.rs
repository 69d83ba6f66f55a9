//! Telling code from comments and literals, so that a rule about a word does not trip over prose.

/// The text with every comment and every string and character literal replaced by spaces; lines stay where they are.
pub(crate) fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = end_of_prose(bytes, at).min(bytes.len());
        blank(&mut code[at..end]);
        at = end.max(at + 1);
    }
    // Blanks are ASCII and what is kept was UTF-8 between ASCII delimiters.
    String::from_utf8_lossy(&code).into_owned()
}

fn blank(bytes: &mut [u8]) {
    bytes
        .iter_mut()
        .filter(|byte| **byte != b'\n')
        .for_each(|byte| *byte = b' ');
}

/// Where the comment or literal that begins at `at` ends; `at` itself when none begins there.
fn end_of_prose(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let length = match rest {
        [b'/', b'/', ..] => find(rest, b"\n", 0),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => string(rest),
        [b'r', b'#' | b'"', ..] => raw_string(rest),
        [b'\'', ..] => character(rest),
        _ => 0,
    };
    at + length
}

/// The index of `needle` at or after `from`, or the length of the text.
fn find(text: &[u8], needle: &[u8], from: usize) -> usize {
    let tail = text.get(from..).unwrap_or_default();
    tail.windows(needle.len())
        .position(|window| window == needle)
        .map_or(text.len(), |index| from + index)
}

/// The length of a block comment; block comments nest.
fn block_comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match text[at..] {
            [b'/', b'*', ..] => depth += 1,
            [b'*', b'/', ..] => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(text: &[u8]) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The length of `r"…"`, `r#"…"#` and so on; 0 for a raw identifier such as `r#type`.
fn raw_string(text: &[u8]) -> usize {
    let hashes = text[1..].iter().take_while(|byte| **byte == b'#').count();
    if text.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let close = [b"\"".as_slice(), &text[1..=hashes]].concat();
    find(text, &close, hashes + 2) + close.len()
}

/// The length of a character literal; 0 for a lifetime.
fn character(text: &[u8]) -> usize {
    if text.get(1) == Some(&b'\\') {
        return find(text, b"'", 3) + 1;
    }
    let tail = text.get(1..text.len().min(6)).unwrap_or_default();
    // The longest UTF-8 character has four bytes, so the closing quote is near or this is a lifetime.
    let close =
        (1..tail.len()).find(|&length| tail[length] == b'\'' && is_one_character(&tail[..length]));
    close.map_or(0, |length| length + 2)
}

fn is_one_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1)
}

/// Whether `word` stands in `line` with no letter, digit or underscore beside it.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    word_at(line, word).is_some()
}

/// Where `word` first stands alone in `line`.
pub(crate) fn word_at(line: &str, word: &str) -> Option<usize> {
    let joins = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
    };
    let alone = |start: usize| {
        !joins(line[..start].chars().next_back())
            && !joins(line[start + word.len()..].chars().next())
    };
    line.match_indices(word)
        .map(|(start, _)| start)
        .find(|&start| alone(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_stays_and_prose_goes() {
        let cases = [
            ("a // danger\nb", "a b"),
            ("a /* x /* y */ z */ b", "a b"),
            (r#"a("danger \" danger") b"#, "a( ) b"),
            (r##"a(r#"danger " danger"#) b"##, "a( ) b"),
            ("r#type + r", "r#type + r"),
            (r#"'"' + '\'' + 'x'"#, "+ +"),
            ("<'a, 'b> danger", "<'a, 'b> danger"),
            ("'é' danger", "danger"),
            (r#"b"danger" c"#, "b c"),
        ];
        for (text, words) in cases {
            let code = code_only(text);
            assert_eq!(code.len(), text.len(), "{text}");
            assert_eq!(
                code.matches('\n').count(),
                text.matches('\n').count(),
                "{text}"
            );
            assert_eq!(
                code.split_whitespace().collect::<Vec<_>>().join(" "),
                words,
                "{text}"
            );
        }
    }

    #[test]
    fn unfinished_prose_ends_with_the_text() {
        for text in [
            "\"abc", "\"abc\\", "/* abc", "// abc", "r#\"abc", "'", "'\\", "r",
        ] {
            assert_eq!(code_only(text).len(), text.len(), "{text}");
        }
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("pub danger fn", "danger") && has_word("danger", "danger"));
        assert!(!has_word("danger_zone my_danger endangered", "danger"));
        assert_eq!(word_at("endanger danger", "danger"), Some(9));
    }
}
