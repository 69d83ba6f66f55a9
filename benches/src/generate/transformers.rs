//! The same texts by the Python package `transformers`, in a process that answers requests (`benches/python/generate.py`).

use std::cell::RefCell;
use std::path::Path;

use anyhow::{Context, Result, bail};
use burtorch_gpt::config::Preset;
use burtorch_gpt::generation::Generator;
use burtorch_gpt::hugging_face::export;
use burtorch_gpt::inference::Decoder;
use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_gpt::sampling::Sampling;
use burtorch_gpt::tokenizer::{NumberTokenizer, Tokenizer};
use burtorch_tensor::Params;
use serde::Deserialize;

use super::work::{Text, Work};
use crate::script::Script;

/// Who writes these texts.
const THEIRS: &str = "transformers";

/// What is written, whether keys and values are kept, and what the script calls it.
const ALL: [(Text, bool, &str); 3] = [
    (Text::Block, true, "block"),
    (Text::Block, false, "recomputed"),
    (Text::Beyond, false, "beyond"),
];

/// A process of the script.
pub(super) struct Writer(Script);

/// What the script says.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Answer {
    Missing { missing: String },
    Written { tokens: Vec<u32> },
}

impl Writer {
    /// Starts a process with our weights, which must write what we do where nothing is drawn; none, with a word on standard error, if a
    /// module is not there.
    pub(super) fn start(
        python: &Path,
        preset: Preset,
        (model, params): (&Gpt, &Params<f32>),
    ) -> Result<Option<RefCell<Self>>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("model");
        let (theirs, weights) = without_head_bias(model, params)?;
        let tokenizer = NumberTokenizer::new(model.config().vocab_size);
        export(&theirs, &weights, &Tokenizer::Number(tokenizer), &path)?;
        let script = Script::start(python, "generate.py", &[path.as_os_str()])?;
        let mut writer = Self(script);
        let block = model.config().block_size;
        match writer.0.ask(format_args!("greedy {block}"))? {
            Answer::Missing { missing } => {
                eprintln!(
                    "{}: {THEIRS} is left out, as there is no {missing}",
                    preset.name()
                );
                Ok(None)
            }
            Answer::Written { tokens } => {
                compare(&tokens, &likeliest(model, params, block)?)?;
                Ok(Some(RefCell::new(writer)))
            }
        }
    }

    /// Writes so many tokens.
    fn write(&mut self, work: &str, count: usize) -> Result<()> {
        match self.0.ask(format_args!("{work} {count}"))? {
            Answer::Written { tokens } if tokens.len() == count => Ok(()),
            other => bail!("expected {count} tokens, found {other:?}"),
        }
    }
}

/// The works of a process, by a model with blocks of so many tokens.
pub(super) fn works(writer: &RefCell<Writer>, block: usize) -> impl Iterator<Item = Work<'_>> {
    ALL.into_iter().map(move |(text, cache, name)| {
        let tokens = match text {
            Text::Block => block,
            Text::Beyond | Text::Stride => 1,
        };
        let write = move || writer.borrow_mut().write(name, tokens);
        Work {
            text,
            who: THEIRS,
            cache,
            tokens,
            call: Box::new(move || write().expect("the script answered before")),
        }
    })
}

/// The same model without a bias of the head, which GPT-2 has no place for. Before training that bias is zero.
fn without_head_bias(model: &Gpt, params: &Params<f32>) -> Result<(Gpt, Params<f32>)> {
    let config = ModelConfig {
        head_bias: false,
        ..model.config().clone()
    };
    let mut copied = Params::new();
    let theirs = Gpt::new(&config, &mut copied, 1)?;
    let places: Vec<_> = copied.entries().iter().map(|to| to.range()).collect();
    let names: Vec<_> = copied.entries().iter().map(|to| to.name.clone()).collect();
    for (name, to) in names.iter().zip(places) {
        let from = params.entries().iter().find(|from| from.name == *name);
        let from = from
            .with_context(|| format!("no parameter {name}"))?
            .range();
        copied.values_mut()[to].copy_from_slice(&params.values()[from]);
    }
    Ok((theirs, copied))
}

/// The likeliest tokens behind token 1.
fn likeliest(model: &Gpt, params: &Params<f32>, count: usize) -> Result<Vec<u32>> {
    let mut decoder = Decoder::new(model.config(), params)?;
    let sampling = Sampling {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
    };
    Ok(Generator::new(&mut decoder, &[1], sampling, 1)?.tokens(count)?)
}

fn compare(found: &[u32], expected: &[u32]) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    bail!("{THEIRS} writes {found:?} instead of {expected:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mini() -> Result<(Gpt, Params<f32>)> {
        let mut params = Params::new();
        let model = Gpt::new(&Preset::Mini.model(5), &mut params, 1)?;
        Ok((model, params))
    }

    #[test]
    fn the_model_that_is_handed_over_writes_the_same() -> Result<()> {
        let (model, params) = mini()?;
        assert!(model.config().head_bias);
        let (theirs, weights) = without_head_bias(&model, &params)?;
        assert_eq!(weights.len(), params.len() - 5);
        let expected = likeliest(&model, &params, 8)?;
        assert_eq!(likeliest(&theirs, &weights, 8)?, expected);
        assert!(compare(&expected, &expected).is_ok());
        let problem = compare(&expected[1..], &expected).unwrap_err().to_string();
        assert!(problem.contains("instead of"), "{problem}");
        Ok(())
    }

    /// A shell in the place of Python: it does not read the script.
    #[cfg(unix)]
    #[test]
    fn a_process_that_cannot_write_is_named() -> Result<()> {
        let (model, params) = mini()?;
        let folder = tempfile::tempdir()?;
        let python = |answer: &str| {
            use std::os::unix::fs::PermissionsExt;
            let path = folder.path().join("python");
            std::fs::write(&path, format!("#!/bin/sh\nread work\n{answer}\n"))?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
            Writer::start(&path, Preset::Mini, (&model, &params))
        };
        assert!(python(r#"echo '{"missing":"torch"}'"#)?.is_none());
        let ended = python("exit 1").map(drop).unwrap_err().to_string();
        assert_eq!(ended, "the script ended");
        let other = python(r#"echo '{"tokens":[4,4]}'"#).map(drop).unwrap_err();
        assert!(other.to_string().contains("writes [4, 4] instead of"));
        let tokens = likeliest(&model, &params, 8)?;
        let right = format!("echo '{{\"tokens\":{tokens:?}}}'");
        let writer = python(&format!("{right}; read work; {right}"))?.context("a writer")?;
        let mut works: Vec<_> = works(&writer, 8).collect();
        assert_eq!((works.len(), works[0].tokens, works[2].tokens), (3, 8, 1));
        (works[0].call)();
        Ok(())
    }
}
