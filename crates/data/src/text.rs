//! Bytes to text.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::Error;

const BYTE_ORDER_MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

/// Reads a UTF-8 text file.
///
/// A leading byte order mark is dropped, since it is no part of the text. Line ends stay as they are: `"\r\n"` is two
/// characters here as in the file, so that a text comes back byte for byte from its tokens.
///
/// Only regular files are read: a pipe may never end or hold nothing a second time, and a device may have no end.
///
/// # Errors
///
/// [`Error::Missing`], [`Error::Directory`], [`Error::NoFile`] and [`Error::Unreadable`] name the path; otherwise as
/// [`parse_text`].
pub fn read_text(path: impl AsRef<Path>) -> Result<String, Error> {
    let path = path.as_ref();
    let name = path.display().to_string();
    // The bytes become the text where they are: a large file is in memory once.
    match String::from_utf8(read_bytes(path)?) {
        Ok(mut text) => {
            let mark = text.len() - parse_text(text.as_bytes(), &name)?.len();
            text.drain(..mark);
            Ok(text)
        }
        Err(error) => parse_text(error.as_bytes(), &name).map(str::to_owned),
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    let kind = fs::metadata(path).map_err(|source| unreadable(path, source))?;
    let named = || path.to_owned();
    if kind.is_dir() {
        return Err(Error::Directory { path: named() });
    }
    if !kind.is_file() {
        return Err(Error::NoFile { path: named() });
    }
    fs::read(path).map_err(|source| unreadable(path, source))
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::NotFound => Error::Missing { path },
        _ => Error::Unreadable { path, source },
    }
}

/// The text in `bytes`, under the rules of [`read_text`]; `name` stands for the path in messages.
///
/// # Errors
///
/// [`Error::Empty`] if there is no text, [`Error::NotUtf8`] with the offset of the first byte that fits no character.
///
/// ```
/// let text = burtorch_data::parse_text(b"\xEF\xBB\xBFa\r\nb", "embedded")?;
/// assert_eq!(text, "a\r\nb");
/// # Ok::<(), burtorch_data::Error>(())
/// ```
pub fn parse_text<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str, Error> {
    let body = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let text = str::from_utf8(body).map_err(|error| {
        let offset = error.valid_up_to();
        Error::NotUtf8 {
            name: name.to_owned(),
            offset: offset + bytes.len() - body.len(),
            byte: body[offset],
        }
    })?;
    if text.is_empty() {
        Err(Error::Empty {
            name: name.to_owned(),
        })
    } else {
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(bytes: &[u8]) -> String {
        parse_text(bytes, "x.txt").unwrap_err().to_string()
    }

    #[test]
    fn f32_bytes_that_are_not_plain_text() {
        assert_eq!(parse_text(b"a\r\nb", "x").unwrap(), "a\r\nb");
        assert_eq!(parse_text(b"\xEF\xBB\xBFa", "x").unwrap(), "a");
        assert_eq!(parse_text(b"caf\xC3\xA9", "x").unwrap(), "café");
        assert_eq!(
            message(b"\x92\xFF"),
            "x.txt: expected UTF-8 text, found the byte 0x92 at offset 0"
        );
        assert_eq!(message(b""), "x.txt: expected text, found none");
        assert_eq!(message(b"\xEF\xBB\xBF"), "x.txt: expected text, found none");
    }

    #[test]
    fn f32_offsets_count_the_byte_order_mark_and_cut_characters() {
        assert!(message(b"\xEF\xBB\xBFab\xFF").ends_with("0xFF at offset 5"));
        assert!(message(b"caf\xC3").ends_with("0xC3 at offset 3"));
    }

    #[test]
    fn f31_files_that_are_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing.txt");
        let empty = folder.path().join("empty.txt");
        fs::write(&empty, b"").unwrap();

        assert!(matches!(read_text(&missing), Err(Error::Missing { path }) if path == missing));
        assert!(matches!(
            read_text(folder.path()),
            Err(Error::Directory { .. })
        ));
        assert!(
            matches!(read_text(&empty), Err(Error::Empty { name }) if name.ends_with("empty.txt"))
        );
        assert!(read_text(missing.join("below")).is_err());
    }

    /// Reading any of these would never end, or empty what cannot be read again.
    #[cfg(unix)]
    #[test]
    fn f31_pipes_and_devices_are_no_text() {
        for device in ["/dev/zero", "/dev/null"] {
            let message = read_text(device).unwrap_err().to_string();
            assert_eq!(
                message,
                format!("{device}: expected a text file, found a pipe or device")
            );
        }
    }

    #[test]
    fn f32_a_file_loses_its_byte_order_mark_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        fs::write(&path, "\u{FEFF}a\u{FEFF}").unwrap();
        assert_eq!(read_text(&path).unwrap(), "a\u{FEFF}");
        fs::write(&path, b"\xEF\xBB\xBFab\xFF").unwrap();
        let message = read_text(&path).unwrap_err().to_string();
        assert!(message.ends_with("0xFF at offset 5"), "{message}");
    }

    proptest! {
        #[test]
        fn text_comes_back_as_written(text in ".+") {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("text.txt");
            fs::write(&path, &text).unwrap();
            let expected = text.strip_prefix('\u{FEFF}').unwrap_or(&text);
            prop_assume!(!expected.is_empty());
            prop_assert_eq!(read_text(&path).unwrap(), expected);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Err(Error::NotUtf8 { offset, byte, .. }) = parse_text(&bytes, "x") {
                prop_assert_eq!(bytes[offset], byte);
                prop_assert!(str::from_utf8(&bytes[..offset]).is_ok());
            }
        }
    }
}
