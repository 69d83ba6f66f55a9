//! One optimizer step after another: micro-batches, gradients, clipping, schedule.

use std::ops::Range;

use burtorch_data::{Batches, derive_seed};
use burtorch_optim::{
    Adam, AdamOptions, AdamW, Error as OptimError, Groups, Optimizer, Schedule, Sgd, SgdOptions,
    clip_by_global_norm, global_norm,
};
use burtorch_tensor::{Context, Engine, Indices, Params, Pieces, Workspace};

use crate::Error;
use crate::config::{Config, OptimizerKind};
use crate::corpus::Spread;
use crate::evaluation::mean_loss;
use crate::model::Gpt;

/// What one step was like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepReport {
    /// The number of the step, counted from 1.
    pub step: u64,
    /// Mean loss of the batch before the step, in nats per token.
    pub loss: f64,
    /// Learning rate of the step.
    pub lr: f64,
    /// Euclidean norm of the gradient before clipping.
    pub grad_norm: f64,
}

/// A model in training: weights, optimizer and the memory of the engine.
///
/// What a step does depends on the settings, the step's number and the text alone: the order of the windows and the masks of
/// dropout are computed from seed and step.
pub struct Trainer<W> {
    model: Gpt,
    params: Params<f32>,
    gradients: Vec<f32>,
    optimizer: Box<dyn Optimizer<f32>>,
    schedule: Schedule,
    pieces: Pieces<f32, W>,
    micro_batch: usize,
    grad_clip: f64,
    dropout_seed: u64,
    step: u64,
    /// Inputs of the batch, then its targets: `[2, B, T]`.
    indices: Vec<u32>,
    /// Each piece's share of the batch's loss.
    losses: Vec<f64>,
}

impl<W: Workspace<f32>> Trainer<W> {
    /// A fresh model under these settings.
    ///
    /// # Errors
    ///
    /// As [`Config::validate`], and what the model, the optimizer, the schedule or the threads refuse.
    pub fn new(config: &Config, vocab_size: usize, threads: usize) -> Result<Self, Error> {
        config.validate()?;
        let mut params = Params::new();
        let seed = derive_seed(config.seed, "initialisation");
        let model = Gpt::new(&config.model(vocab_size), &mut params, seed)?
            .with_recompute(config.recompute);
        Ok(Self {
            model,
            gradients: vec![0.0; params.len()],
            optimizer: optimizer(config, &params)?,
            schedule: config.schedule()?,
            pieces: Pieces::new(threads)?,
            micro_batch: config.micro_batch,
            grad_clip: config.grad_clip,
            dropout_seed: derive_seed(config.seed, "dropout"),
            step: 0,
            indices: vec![0; 2 * config.batch_size * config.block_size],
            losses: vec![0.0; config.batch_size.div_ceil(config.micro_batch)],
            params,
        })
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Gpt {
        &self.model
    }

    /// Its weights.
    #[must_use]
    pub fn params(&self) -> &Params<f32> {
        &self.params
    }

    /// Gives the memory that steps work in back until the next one, so that something else can have it in between.
    pub fn release(&mut self) {
        self.pieces.release();
    }

    /// The optimizer.
    #[must_use]
    pub fn optimizer(&self) -> &dyn Optimizer<f32> {
        self.optimizer.as_ref()
    }

    /// Steps made.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Carries on from a state that `load` puts into model and optimizer; it returns the number of steps made.
    ///
    /// # Errors
    ///
    /// Those of `load`.
    pub fn restore(
        &mut self,
        load: impl FnOnce(&Gpt, &mut Params<f32>, &mut dyn Optimizer<f32>) -> Result<u64, Error>,
    ) -> Result<(), Error> {
        self.step = load(&self.model, &mut self.params, self.optimizer.as_mut())?;
        Ok(())
    }

    /// Makes one step on the batch that is due.
    ///
    /// # Errors
    ///
    /// [`Error::Diverged`] if the loss or the gradient is not finite, naming the op it came from; the weights are then those before the step.
    /// [`Error::Setting`] for batches of other sizes than those of the settings.
    pub fn step(&mut self, batches: &Batches<'_>) -> Result<StepReport, Error> {
        self.check_sizes(batches)?;
        let (inputs, targets) = self
            .indices
            .split_at_mut(batches.batch() * batches.windows().block());
        batches.fill(self.step, inputs, targets)?;
        let loss = self.gradients(false)?;
        if !loss.is_finite() {
            return Err(self.diverged("loss"));
        }
        let grad_norm = self.clip()?;
        if !grad_norm.is_finite() {
            return Err(self.diverged("gradient norm"));
        }
        let lr = self.schedule.learning_rate(self.step);
        self.optimizer
            .step(self.params.values_mut(), &self.gradients, lr as f32)?;
        self.step += 1;
        Ok(StepReport {
            step: self.step,
            loss,
            lr,
            grad_norm,
        })
    }

    /// Mean loss over windows, in nats per token; the windows' tokens all count the same.
    ///
    /// # Errors
    ///
    /// What the engine refuses.
    pub fn evaluate(&mut self, windows: Spread<'_>) -> Result<f64, Error> {
        mean_loss(
            &self.model,
            &self.params,
            &mut self.pieces,
            &mut self.gradients,
            windows,
            self.micro_batch,
        )
    }

    /// Loss of the batch in `indices`; its gradient goes into `gradients`. Each piece weighs as much as it has sequences, so that
    /// a smaller last piece does not distort the mean.
    fn gradients(&mut self, find_non_finite: bool) -> Result<f64, Error> {
        let sequences = self.indices.len() / (2 * self.model.config().block_size);
        let micro_batch = self.micro_batch;
        let step_key = derive_seed(self.dropout_seed.wrapping_add(self.step), "step");
        let (model, indices) = (&self.model, &self.indices[..]);
        let work =
            |piece: usize, workspace: &mut W, params: &Params<f32>, gradients: &mut [f32]| {
                let first = piece * micro_batch;
                let range = first..sequences.min(first + micro_batch);
                let key = derive_seed(step_key.wrapping_add(piece as u64), "piece");
                let context = Context {
                    indices,
                    key,
                    training: true,
                    find_non_finite,
                };
                piece_loss(
                    model,
                    &mut workspace.bind(params, context),
                    range,
                    sequences,
                    gradients,
                )
            };
        self.pieces
            .run(&self.params, &mut self.gradients, &mut self.losses, work)?;
        Ok(self.losses.iter().sum())
    }

    /// The norm of the gradient, which is then brought below the limit if there is one and the norm is finite.
    fn clip(&mut self) -> Result<f64, Error> {
        if self.grad_clip == 0.0 {
            return Ok(global_norm(&self.gradients));
        }
        match clip_by_global_norm(&mut self.gradients, self.grad_clip) {
            Err(OptimError::NonFinite { .. } | OptimError::NormOverflow) => Ok(f64::INFINITY),
            clipped => Ok(clipped?),
        }
    }

    /// Batches of other sizes would be cut into other windows than they are made of.
    fn check_sizes(&self, batches: &Batches<'_>) -> Result<(), Error> {
        let block_size = self.model.config().block_size;
        let batch_size = self.indices.len() / (2 * block_size);
        let (batch, block) = (batches.batch(), batches.windows().block());
        if batch != batch_size {
            return Err(Error::setting(
                "batches of size",
                batch_size.to_string(),
                batch,
            ));
        }
        if block != block_size {
            return Err(Error::setting(
                "windows of size",
                block_size.to_string(),
                block,
            ));
        }
        Ok(())
    }

    /// Repeats the step with the search for the first bad number on, and says what it found.
    fn diverged(&mut self, what: &'static str) -> Error {
        let origin = match self.gradients(true) {
            Err(error) => error.to_string(),
            Ok(_) => "no single op produced it".to_owned(),
        };
        Error::Diverged {
            step: self.step + 1,
            what,
            origin,
            saved: None,
        }
    }
}

/// Share of the batch's mean loss that the sequences `range` have; adds the gradient of that share.
fn piece_loss<E: Engine<Elem = f32>>(
    model: &Gpt,
    e: &mut E,
    range: Range<usize>,
    sequences: usize,
    gradients: &mut [f32],
) -> Result<f64, Error> {
    let block = model.config().block_size;
    let (start, len) = (range.start * block, range.len() * block);
    let (inputs, targets) = (
        Indices::new(start, len),
        Indices::new(sequences * block + start, len),
    );
    let loss = model.loss(e, inputs, targets, range.len())?;
    let share = range.len() as f64 / sequences as f64;
    e.backward(loss, &[share as f32], gradients)?;
    Ok(share * f64::from(e.value(loss).data[0]))
}

fn optimizer(config: &Config, params: &Params<f32>) -> Result<Box<dyn Optimizer<f32>>, Error> {
    let tensors = params
        .entries()
        .iter()
        .map(|entry| (entry.range(), entry.shape.dims()));
    let groups = Groups::decay_matrices(params.len(), tensors, config.weight_decay)?;
    let defaults = AdamOptions::default();
    let (beta1, beta2) = (
        config.beta1.unwrap_or(defaults.beta1),
        config.beta2.unwrap_or(defaults.beta2),
    );
    let adam = AdamOptions {
        beta1,
        beta2,
        ..defaults
    };
    Ok(match config.optimizer {
        OptimizerKind::Sgd => Box::new(Sgd::new(groups, SgdOptions::default())?),
        OptimizerKind::Adam => Box::new(Adam::new(groups, adam)?),
        OptimizerKind::Adamw => Box::new(AdamW::new(groups, adam)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use burtorch_data::Windows;
    use burtorch_tensor::{ScalarEngine, TensorEngine};

    fn config(change: impl FnOnce(&mut Settings)) -> Config {
        let mut settings = Settings {
            block_size: Some(4),
            layers: Some(1),
            heads: Some(2),
            embed: Some(8),
            steps: Some(20),
            batch_size: Some(5),
            ..Settings::default()
        };
        change(&mut settings);
        Config::resolve(&settings).unwrap()
    }

    fn run<W: Workspace<f32>>(config: &Config, threads: usize) -> (Vec<f64>, Vec<f32>) {
        let tokens: Vec<u32> = (0..60).map(|i| i * i % 7).collect();
        let windows = Windows::new(&tokens, config.block_size).unwrap();
        let batches = Batches::shuffled(windows, config.batch_size, 1).unwrap();
        let mut trainer = Trainer::<W>::new(config, 7, threads).unwrap();
        let losses = (0..config.steps)
            .map(|_| trainer.step(&batches).unwrap().loss)
            .collect();
        (losses, trainer.params().values().to_vec())
    }

    fn close(a: &[f64], b: &[f64], tolerance: f64) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < tolerance)
    }

    #[test]
    fn the_helper_can_fail() {
        assert!(!close(&[1.0], &[1.1], 0.05));
        assert!(!close(&[1.0], &[], 0.05));
    }

    #[test]
    fn f34_the_same_bits_for_every_number_of_threads() {
        let config = config(|settings| {
            settings.micro_batch = Some(1);
            settings.dropout = Some(0.2);
        });
        let one = run::<TensorEngine<f32>>(&config, 1);
        for threads in [2, 3, 4] {
            assert_eq!(
                run::<TensorEngine<f32>>(&config, threads),
                one,
                "{threads} threads"
            );
        }
    }

    #[test]
    fn recomputing_keeps_every_bit() {
        let config = |recompute| {
            config(|settings| {
                settings.layers = Some(3);
                settings.micro_batch = Some(2);
                settings.dropout = Some(0.2);
                settings.recompute = Some(recompute);
            })
        };
        let (plain, again) = (config(false), config(true));
        assert_eq!(
            run::<TensorEngine<f32>>(&again, 1),
            run::<TensorEngine<f32>>(&plain, 1)
        );
        assert_eq!(
            run::<TensorEngine<f32>>(&again, 2),
            run::<TensorEngine<f32>>(&plain, 1)
        );
        assert_eq!(
            run::<ScalarEngine<f32>>(&again, 1),
            run::<ScalarEngine<f32>>(&plain, 1)
        );
    }

    #[test]
    fn f33_uneven_pieces_change_rounding_only() {
        let whole =
            run::<TensorEngine<f32>>(&config(|settings| settings.micro_batch = Some(5)), 1).0;
        for size in [1, 2, 3, 4] {
            let pieces =
                run::<TensorEngine<f32>>(&config(|settings| settings.micro_batch = Some(size)), 2)
                    .0;
            assert!(close(&pieces, &whole, 1e-4), "{size}: {pieces:?} {whole:?}");
        }
    }

    #[test]
    fn both_engines_learn_the_same() {
        for kind in [
            OptimizerKind::Sgd,
            OptimizerKind::Adam,
            OptimizerKind::Adamw,
        ] {
            let config = config(|settings| {
                settings.optimizer = Some(kind);
                settings.lr = Some(0.01);
                settings.weight_decay = Some(0.1);
            });
            let tensor = run::<TensorEngine<f32>>(&config, 1).0;
            assert!(close(
                &tensor,
                &run::<ScalarEngine<f32>>(&config, 1).0,
                1e-4
            ));
            assert!(tensor.last() < tensor.first());
        }
    }

    #[test]
    fn clipping_changes_what_is_learned() {
        let free =
            run::<TensorEngine<f32>>(&config(|settings| settings.grad_clip = Some(0.0)), 1).0;
        let tight =
            run::<TensorEngine<f32>>(&config(|settings| settings.grad_clip = Some(1e-9)), 1).0;
        assert_eq!(free[0], tight[0]);
        assert!(!close(&free, &tight, 1e-4));
    }

    fn tokens() -> Vec<u32> {
        (0..60).map(|i| i * i % 7).collect()
    }

    fn batches<'a>(tokens: &'a [u32], block: usize, batch: usize) -> Batches<'a> {
        Batches::shuffled(Windows::new(tokens, block).unwrap(), batch, 1).unwrap()
    }

    fn trainer(config: &Config) -> Trainer<TensorEngine<f32>> {
        Trainer::new(config, 7, 1).unwrap()
    }

    /// Euclidean distance of two weight vectors.
    fn distance(a: &[f32], b: &[f32]) -> f64 {
        let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    }

    #[test]
    fn the_masks_of_dropout_differ_from_step_to_step() {
        let tokens = [1; 60]; // every batch is the same
        let config = config(|settings| {
            settings.lr = Some(0.0);
            settings.dropout = Some(0.5);
        });
        let mut trainer = trainer(&config);
        trainer
            .params
            .values_mut()
            .iter_mut()
            .for_each(|p| *p *= 10.0);
        let batches = batches(&tokens, 4, 5);
        let mut loss = || trainer.step(&batches).unwrap().loss;
        assert_ne!(loss(), loss());
    }

    #[test]
    fn the_masks_of_dropout_differ_from_piece_to_piece() {
        let tokens = [1; 60]; // every sequence is the same
        let config = config(|settings| {
            settings.batch_size = Some(4);
            settings.micro_batch = Some(1);
            settings.dropout = Some(0.5);
        });
        let mut trainer = trainer(&config);
        let values = trainer.params.values_mut();
        values.iter_mut().for_each(|p| *p *= 10.0);
        trainer.step(&batches(&tokens, 4, 4)).unwrap();
        let losses = &trainer.losses;
        for (piece, loss) in losses.iter().enumerate() {
            assert!(!losses[..piece].contains(loss), "{losses:?}");
        }
        assert_eq!(losses.len(), 4);
    }

    #[test]
    fn f30_the_first_step_has_the_first_rate_of_the_schedule() {
        let config = config(|settings| {
            settings.optimizer = Some(OptimizerKind::Sgd);
            settings.lr = Some(0.5);
            settings.min_lr = Some(0.1);
            settings.warmup = Some(3);
        });
        let (tokens, schedule) = (tokens(), config.schedule().unwrap());
        let batches = batches(&tokens, 4, 5);
        let mut trainer = trainer(&config);
        for step in 0..config.steps {
            let before = trainer.params.values().to_vec();
            let report = trainer.step(&batches).unwrap();
            assert_eq!(report.lr, schedule.learning_rate(step));
            let moved = distance(&before, trainer.params.values());
            assert!((moved / (report.lr * report.grad_norm) - 1.0).abs() < 1e-3);
        }
    }

    #[test]
    fn only_matrices_decay() {
        let after = |decay| {
            let config = config(|settings| {
                settings.preset = Some(crate::config::Preset::Mini);
                settings.optimizer = Some(OptimizerKind::Adamw);
                settings.lr = Some(0.01);
                settings.weight_decay = Some(decay);
            });
            let tokens = tokens();
            let mut trainer = trainer(&config);
            trainer.step(&batches(&tokens, 4, 5)).unwrap();
            trainer.params
        };
        let (free, decayed) = (after(0.0), after(50.0));
        for entry in free.entries() {
            let same = free.values()[entry.range()] == decayed.values()[entry.range()];
            assert_eq!(same, entry.shape.dims().len() < 2, "{}", entry.name);
        }
    }

    #[test]
    fn both_betas_matter() {
        let after = |beta1, beta2| {
            run::<TensorEngine<f32>>(
                &config(|settings| {
                    settings.steps = Some(3);
                    settings.warmup = Some(0);
                    (settings.beta1, settings.beta2) = (Some(beta1), Some(beta2));
                }),
                1,
            )
            .1
        };
        let usual = after(0.9, 0.99);
        assert_ne!(usual, after(0.5, 0.99));
        assert_ne!(usual, after(0.9, 0.9));
    }

    #[test]
    fn f34_another_seed_is_another_model() {
        let first = |seed| {
            trainer(&config(|settings| settings.seed = Some(seed)))
                .params
                .values()
                .to_vec()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn f27_one_limit_for_the_whole_gradient_and_the_norm_before_it() {
        let (tokens, limit) = (tokens(), 1e-3);
        let config = config(|settings| {
            settings.optimizer = Some(OptimizerKind::Sgd);
            settings.lr = Some(1.0);
            settings.grad_clip = Some(limit);
        });
        let mut trainer = trainer(&config);
        let before = trainer.params.values().to_vec();
        let report = trainer.step(&batches(&tokens, 4, 5)).unwrap();
        assert!(report.grad_norm > 10.0 * limit, "{report:?}");
        let moved = distance(&before, trainer.params.values());
        assert!((moved / limit - 1.0).abs() < 1e-2, "{moved}");
    }

    #[test]
    fn batches_and_settings_that_do_not_fit_are_refused() {
        let tokens = tokens();
        let mut trainer = trainer(&config(|_| ()));
        for (block, batch, size) in [(4, 4, "4"), (2, 10, "10"), (5, 5, "5"), (2, 5, "2")] {
            let message = trainer
                .step(&batches(&tokens, block, batch))
                .unwrap_err()
                .to_string();
            assert!(message.ends_with(&format!("found {size}")), "{message}");
        }
        let nothing = Config {
            micro_batch: 0,
            ..config(|_| ())
        };
        assert!(Trainer::<TensorEngine<f32>>::new(&nothing, 7, 1).is_err());
    }

    #[test]
    fn f28_numbers_that_are_none_stop_the_run_and_change_nothing() {
        let config = config(|_| ());
        let tokens: Vec<u32> = (0..60).map(|i| i % 7).collect();
        let batches = Batches::shuffled(Windows::new(&tokens, 4).unwrap(), 5, 1).unwrap();
        let mut trainer = Trainer::<TensorEngine<f32>>::new(&config, 7, 1).unwrap();
        trainer.step(&batches).unwrap();
        trainer.params.values_mut().fill(1e30);
        let before = trainer.params.clone();
        let error = trainer.step(&batches).unwrap_err();
        assert!(matches!(error, Error::Diverged { step: 2, .. }), "{error}");
        assert!(
            error.to_string().contains("produced a non-finite number"),
            "{error}"
        );
        assert_eq!(trainer.params, before);
        assert_eq!(trainer.steps(), 1);
    }
}
