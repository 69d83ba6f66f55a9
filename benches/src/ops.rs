//! The ops that the presets use, at the sizes of their micro-batches, and what follows the gradient: clipping and the update.
//!
//! Linear layers and attention are held against multiply-adds; attention's are counted for the positions it may see only. All else is
//! held against a copy of as many bytes: forward, inputs are read and the result is written; backward, inputs and the result's gradient
//! are read and the inputs' gradients written. Gradients are in truth added to what is there, which is not part of the limit. A copy
//! writes as much as it reads, and writing is dearer: what mostly reads, such as an update, can be faster than its limit.

mod layer;
mod update;

use anyhow::Result;
use burtorch_gpt::config::Preset;
use burtorch_gpt::model::ModelConfig;
use burtorch_tensor::{Indices, ops};

use crate::speed::{Amount, Options, header, report};
use layer::Trial;

/// Symbols that the head tells apart.
const VOCABULARY: usize = 65;

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !options.json {
        println!("{}", header());
    }
    for preset in [Preset::Mini, Preset::Small, Preset::Base] {
        let bench = Bench::new(preset, options);
        bench.products()?;
        bench.attention()?;
        bench.rest()?;
        bench.embeddings()?;
        update::run(&bench)?;
    }
    Ok(())
}

/// The ops of one preset.
struct Bench<'a> {
    preset: Preset,
    model: ModelConfig,
    /// Sequences of a micro-batch.
    sequences: usize,
    /// Token ids, below the number of symbols.
    indices: Vec<u32>,
    options: &'a Options,
}

impl<'a> Bench<'a> {
    fn new(preset: Preset, options: &'a Options) -> Self {
        let model = preset.model(VOCABULARY);
        let sequences = preset.settings().micro_batch;
        let tokens = (sequences * model.block_size) as u32;
        Self {
            preset,
            model,
            sequences,
            indices: (0..tokens).map(|i| i * 7 % VOCABULARY as u32).collect(),
            options,
        }
    }

    /// The name of one of its pieces of work, if it is wanted.
    fn wanted(&self, what: &str) -> Option<String> {
        let name = format!("{} {what}", self.preset.name());
        self.options.wants(&name).then_some(name)
    }

    /// Measures an op on inputs of these shapes. `operations` are those forward, and forward with backward, if they are its limit.
    fn op<const N: usize, O: burtorch_tensor::Op<N>>(
        &self,
        what: &str,
        op: &O,
        shapes: [&[usize]; N],
        operations: Option<[f64; 2]>,
    ) -> Result<()> {
        let Some(name) = self.wanted(what) else {
            return Ok(());
        };
        let mut trials = [
            Trial::new(op, shapes, &self.indices)?,
            Trial::new(op, shapes, &self.indices)?,
        ];
        let amounts = match operations {
            Some(operations) => operations.map(Amount::Operations),
            None => trials[0].bytes().map(Amount::Bytes),
        };
        let [forward, both] = &mut trials;
        let works = vec![
            forward.work("forward", amounts[0], false),
            both.work("with backward", amounts[1], true),
        ];
        report("ops", &name, works, self.options.json)
    }

    /// Rows of a micro-batch.
    fn rows(&self) -> usize {
        self.sequences * self.model.block_size
    }

    fn products(&self) -> Result<()> {
        let (c, v) = (self.model.embed, VOCABULARY);
        let activation = self.model_activation();
        self.linear("query, key, value", [c, 3 * c], ops::Linear::plain(), false)?;
        self.linear("projection", [c, c], ops::Linear::plain(), self.model.bias)?;
        let expand = ops::Linear { activation };
        self.linear("expand", [c, 4 * c], expand, self.model.bias)?;
        self.linear(
            "contract",
            [4 * c, c],
            ops::Linear::plain(),
            self.model.bias,
        )?;
        self.linear("head", [c, v], ops::Linear::plain(), self.model.head_bias)
    }

    fn model_activation(&self) -> ops::Activation {
        self.preset.settings().activation.into()
    }

    fn linear(&self, what: &str, [k, n]: [usize; 2], op: ops::Linear, bias: bool) -> Result<()> {
        let forward = 2.0 * (self.rows() * k * n) as f64;
        let operations = Some([forward, 3.0 * forward]);
        let (x, w) = ([self.rows(), k], [n, k]);
        match bias {
            true => self.op(what, &op, [&x, &w, &[n]], operations),
            false => self.op(what, &op, [&x, &w], operations),
        }
    }

    fn attention(&self) -> Result<()> {
        let (b, t, c) = (self.sequences, self.model.block_size, self.model.embed);
        let op = ops::CausalAttention {
            heads: self.model.heads,
            dropout: 0.0,
            stream: 0,
        };
        // Of each position with itself and those before it: scores and values forward; their gradients, two each, backward.
        let product = (b * t * (t + 1) * c) as f64;
        let operations = Some([2.0 * product, 6.0 * product]);
        self.op("attention", &op, [&[b, t, 3 * c]], operations)
    }

    fn rest(&self) -> Result<()> {
        let (rows, c) = (self.rows(), self.model.embed);
        let (x, row) = (&[rows, c][..], &[c][..]);
        let norm = ops::LayerNorm { epsilon: 1e-5 };
        match self.model.bias {
            true => self.op("layer norm", &norm, [x, row, row], None)?,
            false => self.op("layer norm", &norm, [x, row], None)?,
        }
        self.op("add", &ops::Add, [x, x], None)?;
        if self.model.dropout > 0.0 {
            let dropout = ops::Dropout {
                probability: self.model.dropout,
                stream: 0,
            };
            self.op("dropout", &dropout, [x], None)?;
        }
        let loss = ops::CrossEntropy {
            targets: Indices::new(0, rows),
            ignore: None,
        };
        self.op("cross entropy", &loss, [&[rows, VOCABULARY]], None)
    }

    fn embeddings(&self) -> Result<()> {
        let (b, t, c) = (self.sequences, self.model.block_size, self.model.embed);
        let tokens = ops::Embedding {
            ids: Indices::new(0, self.rows()),
            sequences: b,
        };
        self.op("token embedding", &tokens, [&[VOCABULARY, c]], None)?;
        self.op("positions", &ops::AddPositions, [&[b, t, c], &[t, c]], None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every op is made for every preset; what is asked for fits nothing, so none is measured.
    #[test]
    fn what_is_not_wanted_is_not_measured() -> Result<()> {
        run(&Options {
            names: vec!["nothing of this name".to_owned()],
            json: true,
        })
    }

    #[test]
    fn bytes_are_those_of_the_tensors() -> Result<()> {
        let trial = Trial::new(&ops::Add, [&[3, 5], &[3, 5]], &[])?;
        // Two inputs and a result; backward two inputs, their gradients and that of the result.
        assert_eq!(trial.bytes(), [4.0 * 45.0, 4.0 * (45.0 + 75.0)]);
        Ok(())
    }

    #[test]
    fn an_op_runs_both_ways() -> Result<()> {
        let mut trial = Trial::new(&ops::Add, [&[3, 5], &[3, 5]], &[])?;
        trial.run(false)?;
        assert!(trial.gradients().iter().all(|&g| g == 0.0));
        trial.run(true)?;
        assert!(trial.gradients().iter().any(|&g| g != 0.0));
        Ok(())
    }
}
