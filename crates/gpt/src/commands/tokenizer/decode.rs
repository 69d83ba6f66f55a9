//! `tokenizer decode`: from tokens to the bytes they stand for.

use std::io::{BufRead, BufReader, BufWriter, Write, stdout};
use std::path::Path;

use burtorch_data::is_token_file;

use super::open;
use crate::Error;
use crate::cli::TokenizerDecodeArgs;
use crate::corpus::Source;
use crate::tokenizer::Tokenizer;

/// Tokens decoded at a time.
const BATCH: usize = 1 << 14;

pub(super) fn run(args: &TokenizerDecodeArgs) -> Result<(), Error> {
    let tokenizer = args.file.load()?;
    let mut out = BufWriter::new(stdout().lock());
    let mut write = |tokens: &[u32]| {
        let bytes = tokenizer.decode_bytes(tokens)?;
        out.write_all(&bytes).map_err(Error::output)
    };
    if is_token_file(&args.tokens) {
        from_file(&args.tokens, &tokenizer, &mut write)?;
    } else {
        from_numbers(&args.tokens, &mut write)?;
    }
    out.flush().map_err(Error::output)
}

fn from_file(
    path: &Path,
    tokenizer: &Tokenizer,
    write: &mut dyn FnMut(&[u32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let encoded = Source::load(Some(path))?.encode(tokenizer)?;
    let mut parts = encoded.tokens().chunks(BATCH);
    parts.try_for_each(|part| write(&part.to_vec()))
}

/// Numbers set apart by white space.
fn from_numbers(
    path: &Path,
    write: &mut dyn FnMut(&[u32]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (text, _) = open(path)?;
    let mut line = Vec::new();
    let mut text = BufReader::new(text);
    let mut tokens = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = text.read_until(b'\n', &mut line);
        if read.map_err(Error::file(path, "read the tokens"))? == 0 {
            break;
        }
        for word in line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
        {
            let word = String::from_utf8_lossy(word);
            let wrong = || {
                let expected = format!("tokens, which are numbers, in line {number}");
                let start: String = word.chars().take(20).collect();
                Error::content(path, expected, format!("{start:?}"))
            };
            tokens.push(word.parse().map_err(|_| wrong())?);
        }
        if tokens.len() >= BATCH {
            write(&tokens)?;
            tokens.clear();
        }
    }
    write(&tokens)
}
