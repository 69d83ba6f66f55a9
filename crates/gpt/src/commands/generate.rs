//! `generate`: from a model to a text.

use std::io::Write;

use burtorch_data::derive_seed;

use crate::Error;
use crate::cli::GenerateArgs;
use crate::generation::Generator;
use crate::inference::Decoder;
use crate::run_directory::RunDirectory;
use crate::sampling::Sampling;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::bpe::TextDecoder;

/// Writes the prompt and what the model makes of it to standard output, token by token; samples are set apart by an empty line.
///
/// # Errors
///
/// [`Error::Setting`] for impossible sampling settings, [`Error::UnknownCharacter`] for a prompt the model cannot read, and whatever
/// is wrong with the files of the run.
pub fn run(args: &GenerateArgs) -> Result<(), Error> {
    let sampling = Sampling {
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
    };
    sampling.validate()?;
    let (_, _, loaded, tokenizer) = super::load(&RunDirectory::open(&args.model)?, args.best)?;
    let prompt = match args.prompt.as_str() {
        "" => vec![tokenizer.start()],
        prompt => tokenizer.encode(prompt, "the prompt")?,
    };
    let seed = derive_seed(args.seed, "generation");
    let mut decoder = Decoder::new(loaded.model.config(), &loaded.params)?;
    for number in 0..args.samples {
        let seed = seed.wrapping_add(number as u64);
        let generator = Generator::new(&mut decoder, &prompt, sampling, seed)?;
        let mut generator = generator
            .with_stride(args.stride)?
            .with_cache(!args.no_cache);
        if number > 0 {
            show("\n")?;
        }
        show(&args.prompt)?;
        write(&mut generator, &tokenizer, args.tokens)?;
        show("\n")?;
    }
    Ok(())
}

fn write(
    generator: &mut Generator<'_, '_>,
    tokenizer: &Tokenizer,
    count: usize,
) -> Result<(), Error> {
    // A character may come in several tokens.
    let mut text = TextDecoder::default();
    for _ in 0..count {
        let bytes = tokenizer.decode_bytes(&[generator.next_token()?])?;
        show(&text.push(&bytes))?;
    }
    show(&text.finish())
}

/// Writes a piece of text and sees to it that it appears at once.
fn show(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Error::output)
}
