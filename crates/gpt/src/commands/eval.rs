//! `eval`: how well a model predicts a text.

use burtorch_tensor::TensorEngine;

use super::{available_threads, load, print, print_json};
use crate::Error;
use crate::cli::EvalArgs;
use crate::config::{Record, Settings};
use crate::corpus::{Corpus, Source};
use crate::evaluation::{Evaluation, evaluate};
use crate::run_directory::RunDirectory;
use crate::text::grouped;
use crate::tokenizer::Tokenizer;

/// Measures a model on the validation part of its own text, or on the whole of another.
///
/// # Errors
///
/// [`Error::DataChanged`] if the run's text is not what it was, [`Error::UnknownCharacter`] for a text the model cannot
/// read, and whatever is wrong with the files.
pub fn run(args: &EvalArgs) -> Result<(), Error> {
    let run = RunDirectory::open(&args.model)?;
    let (settings, record, loaded, tokenizer) = load(&run, args.best)?;
    let (encoded, corpus);
    let tokens = match &args.data {
        Some(path) => {
            encoded = Source::load(Some(path))?.encode(&tokenizer)?;
            let tokens = encoded.tokens();
            if tokens.len() < 2 {
                let found = tokens.len().to_string();
                return Err(Error::content(path, "at least 2 tokens", found));
            }
            tokens
        }
        None => {
            let block_size = loaded.model.config().block_size;
            corpus = own_text(&settings, record, &tokenizer, block_size)?;
            corpus.validation()
        }
    };
    let threads = available_threads();
    let found =
        evaluate::<TensorEngine<f32>>(&loaded.model, &loaded.params, &tokenizer, tokens, threads)?;
    if args.json {
        print_json(&found)
    } else {
        print(&describe(&found))
    }
}

/// The text of the run.
fn own_text(
    settings: &Settings,
    record: Record,
    tokenizer: &Tokenizer,
    block_size: usize,
) -> Result<Corpus, Error> {
    if record.is_imported() {
        let expected = "a text to measure on, since the model was imported";
        return Err(Error::setting("--data", expected, "none"));
    }
    let source = Source::load(settings.data.as_deref())?;
    let found = source.fingerprint();
    if record.data_hash != found {
        return Err(Error::DataChanged {
            name: source.name,
            original: record.data_name,
            expected: record.data_hash,
            found,
        });
    }
    Corpus::new(&source, tokenizer, block_size)
}

fn describe(found: &Evaluation) -> String {
    let Evaluation {
        tokens,
        bytes,
        loss,
        perplexity,
        bits_per_byte,
    } = *found;
    format!(
        "predicted      {} tokens of {} bytes\n\
         loss           {loss:.4} nats per token\n\
         perplexity     {perplexity:.4}\n\
         bits per byte  {bits_per_byte:.4}",
        grouped(tokens as u64),
        grouped(bytes as u64),
    )
}
