//! `generate`: from a model to a text.

use std::io::Read;
use std::path::Path;
use std::time::Instant;

use burtorch_data::{derive_seed, parse_text, read_text};
use serde::Serialize;

use super::print_json;
use super::screen::Screen;
use crate::cli::GenerateArgs;
use crate::generation::{Generator, StopTexts};
use crate::inference::Decoder;
use crate::run_directory::RunDirectory;
use crate::sampling::Sampling;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bpe::TextDecoder;
use crate::{Error, interrupt};

/// What is printed with `--json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    /// As it is shown, since a path need not be UTF-8.
    model: String,
    prompt: &'a str,
    seed: u64,
    samples: Vec<Sample>,
    /// All that were drawn.
    tokens: usize,
    /// From the first token to the last.
    seconds: f64,
}

/// A text.
#[derive(Debug, Serialize)]
struct Sample {
    /// Without the prompt and what ended it.
    text: String,
    /// Tokens drawn, also of what ended it.
    tokens: usize,
    ended: Ended,
}

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Ended {
    /// As many tokens are written as were asked for.
    #[serde(rename = "tokens")]
    Count,
    /// The model has written the token that ends a text.
    #[serde(rename = "end")]
    Token,
    /// A stop text has appeared.
    Stop,
    /// The user asked for it.
    Interrupt,
}

/// Writes the prompt and what the model makes of it to standard output, as it comes; each of several samples
/// has a line with its number before it.
///
/// # Errors
///
/// [`Error::Setting`] for impossible settings, [`Error::UnknownCharacter`] for a prompt the model cannot read, [`Error::Interrupted`] once all
/// that was there is written, and whatever is wrong with the files of the run.
pub fn run(args: &GenerateArgs) -> Result<(), Error> {
    let sampling = Sampling {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
    };
    sampling.validate()?;
    StopTexts::new(&args.stop)?;
    let (_, _, loaded, tokenizer) = super::load(&RunDirectory::open(&args.model)?, args.best)?;
    let (text, prompt) = prompt(args, &tokenizer)?;
    let mut decoder = Decoder::new(loaded.model.config(), &loaded.params)?;
    interrupt::listen("");
    let mut screen = Screen::new();
    let mut show = |part: &str| match args.json {
        true => Ok(()),
        false => screen.write(part),
    };
    let (seed, start) = (derive_seed(args.seed, "generation"), Instant::now());
    let mut samples = Vec::new();
    for number in 0..args.samples {
        let seed = seed.wrapping_add(number as u64);
        let generator = Generator::new(&mut decoder, &prompt, sampling, seed)?;
        let generator = generator.with_stride(args.stride)?;
        if args.samples > 1 {
            show(&format!("--- sample {} ---\n", number + 1))?;
        }
        show(&text)?;
        let mut generator = generator.with_cache(!args.no_cache);
        let sample = write(&mut generator, &tokenizer, args, &mut show)?;
        show("\n")?;
        let ended = sample.ended;
        samples.push(sample);
        if ended == Ended::Interrupt {
            break;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    screen.show()?;
    drop(screen);
    if args.json {
        print_json(&Report {
            model: args.model.display().to_string(),
            prompt: &text,
            seed: args.seed,
            tokens: samples.iter().map(|sample| sample.tokens).sum(),
            samples,
            seconds,
        })?;
    }
    match interrupt::requested() {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// The prompt and its tokens.
fn prompt(args: &GenerateArgs, tokenizer: &Tokenizer) -> Result<(String, Vec<u32>), Error> {
    let (name, text) = match &args.prompt_file {
        None => ("the prompt".to_owned(), args.prompt.clone()),
        Some(path) if path == Path::new("-") => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(Error::file(path, "read the prompt"))?;
            let name = "the prompt of standard input".to_owned();
            let text = parse_text(&bytes, &name)?.to_owned();
            (name, text)
        }
        Some(path) => (path.display().to_string(), read_text(path)?),
    };
    let tokens = match text.as_str() {
        "" => vec![tokenizer.start()],
        text => tokenizer.encode(text, &name)?,
    };
    Ok((text, tokens))
}

/// Draws one text, whose parts are shown as soon as they are certain.
fn write(
    generator: &mut Generator<'_, '_>,
    tokenizer: &Tokenizer,
    args: &GenerateArgs,
    show: &mut impl FnMut(&str) -> Result<(), Error>,
) -> Result<Sample, Error> {
    let (mut characters, mut stop) = (TextDecoder::default(), StopTexts::new(&args.stop)?);
    let mut sample = Sample {
        text: String::new(),
        tokens: 0,
        ended: Ended::Count,
    };
    while sample.tokens < args.tokens && !stop.is_reached() {
        if interrupt::requested() {
            sample.ended = Ended::Interrupt;
            break;
        }
        let token = generator.next_token()?;
        sample.tokens += 1;
        if tokenizer.end() == Some(token) {
            sample.ended = Ended::Token;
            break;
        }
        let bytes = tokenizer.decode_bytes(&[token])?;
        let part = stop.push(&characters.push(&bytes));
        show(&part)?;
        sample.text.push_str(&part);
    }
    let rest = stop.push(&characters.finish()) + &stop.finish();
    show(&rest)?;
    sample.text.push_str(&rest);
    if stop.is_reached() {
        sample.ended = Ended::Stop;
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use burtorch_tensor::Params;
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::model::{Gpt, ModelConfig};
    use crate::tokenizer::bpe::{SplitRule, Trainer};

    /// Every byte a token, and one that ends a text.
    fn bytes_and_an_end() -> Tokenizer {
        let trainer = Trainer::new(SplitRule::Gpt2);
        let trainer = trainer.with_specials(vec!["<|endoftext|>".to_owned()]);
        let trained = trainer.unwrap().train(257).unwrap();
        Tokenizer::Bpe(Box::new(trained.bpe))
    }

    /// What is written by a model that always writes this token: all that was shown, and the sample.
    fn written(tokenizer: &Tokenizer, token: u32, flags: &str) -> (String, Sample) {
        let line = format!("burtorch-gpt generate --model none --temperature 0 {flags}");
        let Command::Generate(args) = Cli::parse_from(line.split_whitespace()).command else {
            unreachable!("the command is named")
        };
        let config = ModelConfig {
            layers: 1,
            ..ModelConfig::mini(tokenizer.size())
        };
        let mut params = Params::new();
        let model = Gpt::new(&config, &mut params, 1).unwrap();
        params.values_mut().fill(0.0);
        let bias = params.find("head.bias").unwrap();
        params.array_mut(bias).unwrap()[[token as usize]] = 1.0;
        let mut decoder = Decoder::new(model.config(), &params).unwrap();
        let sampling = Sampling {
            temperature: 0.0,
            ..Sampling::default()
        };
        let mut generator = Generator::new(&mut decoder, &[0], sampling, 1).unwrap();
        let mut shown = String::new();
        let mut show = |part: &str| {
            shown.push_str(part);
            Ok(())
        };
        let sample = write(&mut generator, tokenizer, &args, &mut show).unwrap();
        (shown, sample)
    }

    #[test]
    fn f40_the_end_token_ends_a_text_at_once() {
        let tokenizer = bytes_and_an_end();
        let end = tokenizer.end().unwrap();
        let (shown, sample) = written(&tokenizer, end, "--tokens 5");
        assert_eq!((shown.as_str(), sample.text.as_str()), ("", ""));
        assert_eq!((sample.tokens, sample.ended), (1, Ended::Token));
        assert_eq!(Tokenizer::characters_of("ab").end(), None);
    }

    #[test]
    fn bytes_that_are_no_characters_are_shown_as_such() {
        let tokenizer = bytes_and_an_end();
        for (byte, expected) in [(b'a', "aaa"), (0xC3, "\u{FFFD}\u{FFFD}\u{FFFD}")] {
            let Tokenizer::Bpe(bpe) = &tokenizer else {
                unreachable!("it was made so")
            };
            let token = bpe.byte(byte);
            let (shown, sample) = written(&tokenizer, token, "--tokens 3");
            assert_eq!((shown.as_str(), sample.text.as_str()), (expected, expected));
            assert_eq!((sample.tokens, sample.ended), (3, Ended::Count));
        }
    }

    #[test]
    fn what_was_held_back_for_a_stop_text_appears_at_the_end() {
        let tokenizer = bytes_and_an_end();
        let token = tokenizer.encode("a", "x").unwrap()[0];
        let (shown, sample) = written(&tokenizer, token, "--tokens 3 --stop aaaa");
        assert_eq!((shown.as_str(), sample.ended), ("aaa", Ended::Count));
        let (shown, sample) = written(&tokenizer, token, "--tokens 9 --stop aa");
        assert_eq!(
            (shown.as_str(), sample.ended, sample.tokens),
            ("", Ended::Stop, 2)
        );
    }
}
