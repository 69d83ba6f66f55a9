//! The same steps in PyTorch and JAX, made by a process that answers requests.
//!
//! A request is a number of steps; the answer has the seconds and the loss of each. Weights and batches
//! are in files, described by a JSON object that is the script's argument.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use burtorch_gpt::config::{ActivationKind, Config, OptimizerKind};
use burtorch_gpt::trainer::Trainer;
use burtorch_tensor::{Params, TensorEngine};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::case::{Case, VOCABULARY, batches};
use super::ours::Ours;
use super::turns::{Footprint, Stepper};
use crate::script::Script;

/// Who can make our steps.
pub(crate) const WHO: [&str; 3] = ["torch-eager", "torch-compile", "jax"];

/// Batches that a script gets; it goes through them again and again, as reading text is not what is measured.
const BATCHES: usize = 16;

/// Steps whose losses are compared with ours.
const COMPARED: usize = 3;

/// The largest difference of losses; those of the first steps differ by rounding only.
const TOLERANCE: f64 = 1e-3;

/// A process of a script.
pub(crate) struct Rival {
    script: Script,
    start_ms: f64,
    _files: TempDir,
}

/// What a script says of the steps it made.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Answer {
    Missing { missing: String },
    Made { seconds: Vec<f64>, losses: Vec<f64> },
}

impl Rival {
    /// Starts a process and compares its first losses with ours; `None`, with a word on standard error, if the module is not there.
    pub(crate) fn start(
        python: &Path,
        who: &'static str,
        case: Case,
        tokens: &[u32],
    ) -> Result<Option<Self>> {
        let files = tempfile::tempdir()?;
        let description = files.path().join("case.json");
        let written = description_of(case, tokens, files.path())?;
        std::fs::write(&description, written.to_string())?;
        let begin = Instant::now();
        let arguments = [who.as_ref(), description.as_os_str()];
        let mut rival = Self {
            script: Script::start(python, "steps.py", &arguments)?,
            start_ms: 0.0,
            _files: files,
        };
        let mut losses = match rival.script.ask(1)? {
            Answer::Missing { missing } => {
                eprintln!("{case} {who}: left out, as there is no {missing}");
                return Ok(None);
            }
            Answer::Made { losses, .. } => losses,
        };
        rival.start_ms = begin.elapsed().as_secs_f64() * 1e3;
        losses.extend(rival.made(COMPARED - 1)?.1);
        compare(&losses, &Ours::new(case, tokens)?.losses(COMPARED)?)?;
        Ok(Some(rival))
    }

    fn made(&mut self, count: usize) -> Result<(Vec<f64>, Vec<f64>)> {
        match self.script.ask(count)? {
            Answer::Made { seconds, losses } if seconds.len() == count => Ok((seconds, losses)),
            other => bail!("expected {count} steps, found {other:?}"),
        }
    }
}

impl Stepper for Rival {
    fn steps(&mut self, count: usize) -> Result<Vec<f64>> {
        Ok(self.made(count)?.0)
    }

    fn process(&mut self) -> Result<Footprint> {
        Ok(Footprint {
            peak_rss_mb: self.script.peak_rss_mb(),
            start_ms: Some(self.start_ms),
        })
    }
}

fn compare(found: &[f64], expected: &[f64]) -> Result<()> {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < TOLERANCE;
    if found.len() == expected.len() && found.iter().zip(expected).all(near) {
        return Ok(());
    }
    bail!("it does other work: losses {found:.5?} instead of {expected:.5?}")
}

/// What a script has to know. Writes weights and batches into `folder`.
fn description_of(case: Case, tokens: &[u32], folder: &Path) -> Result<Value> {
    let config = case.config()?;
    let trainer = Trainer::<TensorEngine<f32>>::new(&config, VOCABULARY, 1)?;
    let (weights, batches) = (folder.join("weights"), folder.join("batches"));
    let values = trainer.params().values().iter();
    std::fs::write(&weights, bytes(values.map(|value| value.to_le_bytes())))?;
    let drawn = drawn(&config, tokens)?;
    std::fs::write(
        &batches,
        bytes(drawn.iter().map(|token| token.to_le_bytes())),
    )?;
    let model = config.model(VOCABULARY);
    Ok(json!({
        "threads": case.threads, "batch": case.batch, "block": model.block_size, "layers": model.layers, "heads": model.heads,
        "embed": model.embed, "tied_head": model.tied_head,
        "activation": match config.activation {
            ActivationKind::Relu => "relu",
            ActivationKind::Gelu => "gelu",
            ActivationKind::GeluTanh => bail!("the scripts know no gelu-tanh"),
        },
        "optimizer": match config.optimizer {
            OptimizerKind::Sgd => "sgd",
            OptimizerKind::Adamw => "adamw",
            OptimizerKind::Adam => bail!("the scripts know no adam"),
        },
        "lr": config.lr, "betas": [config.beta1, config.beta2], "weight_decay": config.weight_decay, "grad_clip": config.grad_clip,
        "parameters": table(trainer.params()), "weights": weights, "batches": batches, "batch_count": BATCHES,
    }))
}

/// Names and shapes in the order of the file.
fn table(params: &Params<f32>) -> Vec<Value> {
    let entries = params.entries().iter();
    let row = entries.map(|entry| json!({"name": entry.name, "shape": entry.shape.dims()}));
    row.collect()
}

/// The first batches, inputs then targets: `[BATCHES, 2, B, T]`.
fn drawn(config: &Config, tokens: &[u32]) -> Result<Vec<u32>> {
    let batches = batches(config, tokens)?;
    let size = config.batch_size * config.block_size;
    let mut drawn = vec![0; 2 * BATCHES * size];
    for (step, both) in drawn.chunks_exact_mut(2 * size).enumerate() {
        let (inputs, targets) = both.split_at_mut(size);
        batches.fill(step as u64, inputs, targets)?;
    }
    Ok(drawn)
}

fn bytes(numbers: impl Iterator<Item = [u8; 4]>) -> Vec<u8> {
    numbers.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::case::tokens;
    use burtorch_gpt::config::{EngineKind, Preset};

    #[test]
    fn answers_are_understood() {
        let read = |text| serde_json::from_str::<Answer>(text).ok();
        let made = Answer::Made {
            seconds: vec![0.5],
            losses: vec![4.0],
        };
        assert_eq!(read(r#"{"seconds":[0.5],"losses":[4.0]}"#), Some(made));
        let missing = "jax".to_owned();
        assert_eq!(
            read(r#"{"missing":"jax"}"#),
            Some(Answer::Missing { missing })
        );
        assert_eq!(read("{}"), None);
    }

    #[test]
    fn other_work_is_noticed() {
        assert!(compare(&[4.17, 4.16], &[4.1701, 4.1601]).is_ok());
        for other in [&[4.17, 4.17][..], &[4.17], &[4.17, f64::NAN]] {
            assert!(compare(other, &[4.17, 4.16]).is_err(), "{other:?}");
        }
    }

    #[test]
    fn the_description_tells_where_everything_is() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let case = Case {
            preset: Preset::Mini,
            batch: 2,
            engine: EngineKind::Tensor,
            threads: 1,
        };
        let tokens = tokens()?;
        let description = description_of(case, &tokens, folder.path())?;
        let length =
            |name: &str| Ok::<_, anyhow::Error>(std::fs::metadata(folder.path().join(name))?.len());
        assert_eq!(length("weights")?, 4 * 46_337);
        assert_eq!(length("batches")?, 4 * (BATCHES * 2 * 2 * 8) as u64);
        let first = json!({"name": "token_embedding.weight", "shape": [VOCABULARY, 24]});
        assert_eq!(description["parameters"][0], first);
        assert_eq!(description["optimizer"], "sgd");
        Ok(())
    }
}
