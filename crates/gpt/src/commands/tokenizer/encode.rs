//! `tokenizer encode`: from text to tokens.

use std::io::{BufWriter, Read, Write, stdout};
use std::path::Path;
use std::time::Instant;

use burtorch_data::{TokenWriter, Width};

use super::meter::Meter;
use super::{check_room, open};
use crate::Error;
use crate::cli::TokenizerEncodeArgs;
use crate::commands::threads;
use crate::progress::note;
use crate::text::grouped;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bpe::{Bpe, Specials};

/// Bytes that are read at a time for each thread.
const CHUNK: u64 = 1 << 20;

/// Where tokens go.
enum Sink {
    Lines(BufWriter<std::io::StdoutLock<'static>>),
    File(TokenWriter),
}

impl Sink {
    fn new(args: &TokenizerEncodeArgs, tokenizer: &Tokenizer) -> Result<Self, Error> {
        let Some(path) = &args.out else {
            return Ok(Self::Lines(BufWriter::new(stdout().lock())));
        };
        let size = tokenizer.size();
        let width = match args.wide {
            true => Width::Four,
            false => Width::of_vocabulary(size),
        };
        Ok(Self::File(TokenWriter::create(
            path,
            width,
            size,
            tokenizer.sha256(),
        )?))
    }

    fn push(&mut self, tokens: &[u32]) -> Result<(), Error> {
        match self {
            Self::Lines(out) => tokens
                .iter()
                .try_for_each(|token| writeln!(out, "{token}"))
                .map_err(Error::output),
            Self::File(file) => Ok(file.push(tokens)?),
        }
    }

    fn finish(self) -> Result<(), Error> {
        match self {
            Self::Lines(mut out) => out.flush().map_err(Error::output),
            Self::File(file) => file.finish().map(|_| ()).map_err(Error::from),
        }
    }
}

pub(super) fn run(args: &TokenizerEncodeArgs) -> Result<(), Error> {
    let start = Instant::now();
    let threads = threads(args.threads)?;
    let tokenizer = args.file.load()?;
    let (mut text, length) = open(&args.text)?;
    if let Tokenizer::Bpe(bpe) = &tokenizer {
        check_room(bpe.rule(), &args.text, length)?;
    }
    let mut sink = Sink::new(args, &tokenizer)?;
    let (bytes, tokens) = match &tokenizer {
        Tokenizer::Bpe(bpe) => {
            let specials = match args.allow_special {
                true => Specials::Allowed,
                false => Specials::Ordinary,
            };
            let mut meter = Meter::new("encoding", args.out.as_ref().and(length));
            stream(
                bpe,
                specials,
                threads,
                (&args.text, &mut text),
                &mut sink,
                &mut meter,
            )?
        }
        others => {
            let mut whole = String::new();
            text.read_to_string(&mut whole)
                .map_err(Error::file(&args.text, "read the text"))?;
            let tokens = others.encode(&whole, &args.text.display().to_string())?;
            sink.push(&tokens)?;
            (whole.len() as u64, tokens.len() as u64)
        }
    };
    sink.finish()?;
    if let Some(out) = &args.out {
        note(&format!(
            "{} bytes, {} tokens in {:.2} s: {}",
            grouped(bytes),
            grouped(tokens),
            start.elapsed().as_secs_f64(),
            out.display()
        ));
    }
    Ok(())
}

/// Encodes as it reads; how many bytes and tokens there were.
fn stream(
    bpe: &Bpe,
    specials: Specials,
    threads: usize,
    (path, text): (&Path, &mut dyn Read),
    sink: &mut Sink,
    meter: &mut Meter,
) -> Result<(u64, u64), Error> {
    let mut encoder = bpe.stream(specials, threads);
    let (mut chunk, mut tokens) = (Vec::new(), Vec::new());
    let (mut bytes, mut count) = (0, 0);
    loop {
        chunk.clear();
        tokens.clear();
        let mut part = text.take(CHUNK * threads as u64);
        part.read_to_end(&mut chunk)
            .map_err(Error::file(path, "read the text"))?;
        if chunk.is_empty() {
            encoder.finish(&mut tokens)?;
        } else {
            encoder.push(&chunk, &mut tokens)?;
        }
        sink.push(&tokens)?;
        bytes += chunk.len() as u64;
        count += tokens.len() as u64;
        meter.bytes(bytes);
        if chunk.is_empty() {
            return Ok((bytes, count));
        }
    }
}
