//! Our steps, made in this process.

use std::time::Instant;

use anyhow::Result;
use burtorch_data::Batches;
use burtorch_gpt::config::EngineKind;
use burtorch_gpt::trainer::Trainer;
use burtorch_tensor::{ScalarEngine, TensorEngine, Workspace};

use super::case::{Case, VOCABULARY, batches};
use super::process;
use super::turns::{Footprint, Stepper};

/// A trainer, whichever its engine.
pub(crate) struct Ours<'a> {
    case: Case,
    /// Makes a step; its loss.
    step: Box<dyn FnMut() -> Result<f64> + 'a>,
}

impl<'a> Ours<'a> {
    pub(crate) fn new(case: Case, tokens: &'a [u32]) -> Result<Self> {
        let batches = batches(&case.config()?, tokens)?;
        let step = match case.engine {
            EngineKind::Tensor => stepping::<TensorEngine<f32>>(case, batches),
            EngineKind::Scalar => stepping::<ScalarEngine<f32>>(case, batches),
        };
        Ok(Self { case, step: step? })
    }

    /// The losses of the next steps.
    pub(crate) fn losses(&mut self, count: usize) -> Result<Vec<f64>> {
        (0..count).map(|_| (self.step)()).collect()
    }
}

fn stepping<'a, W: Workspace<f32> + 'a>(
    case: Case,
    batches: Batches<'a>,
) -> Result<Box<dyn FnMut() -> Result<f64> + 'a>> {
    let mut trainer = Trainer::<W>::new(&case.config()?, VOCABULARY, case.threads)?;
    Ok(Box::new(move || Ok(trainer.step(&batches)?.loss)))
}

impl Stepper for Ours<'_> {
    fn steps(&mut self, count: usize) -> Result<Vec<f64>> {
        let mut timed = || {
            let start = Instant::now();
            (self.step)()?;
            Ok(start.elapsed().as_secs_f64())
        };
        (0..count).map(|_| timed()).collect()
    }

    fn process(&mut self) -> Result<Footprint> {
        process::of_training(self.case)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::case::tokens;
    use burtorch_gpt::config::Preset;

    #[test]
    fn both_engines_make_the_same_steps_and_the_first_one_guesses() -> Result<()> {
        let tokens = tokens()?;
        let losses = |engine| {
            let case = Case {
                preset: Preset::Mini,
                batch: 1,
                engine,
                threads: 1,
            };
            Ours::new(case, &tokens)?.losses(2)
        };
        let (tensor, scalar) = (losses(EngineKind::Tensor)?, losses(EngineKind::Scalar)?);
        assert!((tensor[0] - (VOCABULARY as f64).ln()).abs() < 0.2);
        for (a, b) in tensor.iter().zip(&scalar) {
            assert!((a - b).abs() < 1e-5, "{a} and {b}");
        }
        Ok(())
    }
}
