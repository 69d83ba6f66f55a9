//! A pass of the tensor engine allocates nothing from the second one on, with models of any number type and batches of any size;
//! neither does a recorded program. Whole training steps, on several threads, are in `memory.rs`.
#![forbid(unsafe_code)]

use burtorch_core::lanes::Lanes;
use burtorch_core::program::Evaluator;
use burtorch_core::{Program, Scalar};
use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_optim::{AdamOptions, AdamW, Groups, Optimizer, clip_by_global_norm};
use burtorch_tensor::{Context, Element, Engine, Params, TensorEngine, Workspace};
use burtorch_tests::{Batch, Counting, Outcome};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator by this thread while `work` runs.
fn calls_of(work: impl FnOnce() -> Outcome) -> Outcome<usize> {
    let before = Counting::calls_of_this_thread();
    work()?;
    Ok(Counting::calls_of_this_thread() - before)
}

#[test]
fn the_counter_counts() -> Outcome {
    let calls = calls_of(|| {
        let mut numbers = vec![1_u8];
        numbers.reserve_exact(1000);
        std::hint::black_box(&numbers);
        drop(vec![0_u64; 100]);
        Ok(())
    })?;
    // Allocate, reallocate, free; allocate zeroed, free.
    assert_eq!(calls, 5);
    assert_eq!(calls_of(|| Ok(()))?, 0);
    Ok(())
}

/// The presets, in their own widths, since kernels take other ways for other sizes; what only repeats is left out of the
/// larger two to keep the test quick.
fn presets() -> [(&'static str, ModelConfig); 3] {
    let small = ModelConfig {
        layers: 1,
        ..ModelConfig::small(65)
    };
    let base = ModelConfig {
        layers: 1,
        block_size: 48,
        ..ModelConfig::base(65)
    };
    [
        ("mini", ModelConfig::mini(65)),
        ("small", small),
        ("base", base),
    ]
}

/// Everything a training holds from step to step.
struct Training<T: Element> {
    gpt: Gpt,
    params: Params<T>,
    gradients: Vec<T>,
    workspace: TensorEngine<T>,
    optimizer: AdamW<T>,
}

impl<T: Element> Training<T> {
    fn new(config: &ModelConfig) -> Outcome<Self> {
        let mut params = Params::new();
        let gpt = Gpt::new(config, &mut params, 1)?;
        let tensors = params
            .entries()
            .iter()
            .map(|entry| (entry.range(), entry.shape.dims()));
        let groups = Groups::decay_matrices(params.len(), tensors, 0.1)?;
        Ok(Training {
            gpt,
            gradients: vec![T::ZERO; params.len()],
            params,
            workspace: TensorEngine::new(),
            optimizer: AdamW::new(groups, AdamOptions::default())?,
        })
    }

    fn step(&mut self, batch: &Batch, key: u64) -> Outcome {
        let context = Context {
            find_non_finite: false,
            ..batch.context(Some(key))
        };
        self.gradients.fill(T::ZERO);
        let mut engine = self.workspace.bind(&self.params, context);
        let loss = self.gpt.loss(
            &mut engine,
            batch.tokens(),
            batch.targets(),
            batch.sequences(),
        )?;
        engine.backward_scalar(loss, &mut self.gradients)?;
        clip_by_global_norm(&mut self.gradients, 1.0)?;
        self.optimizer
            .step(self.params.values_mut(), &self.gradients, T::from_f64(1e-3))?;
        Ok(())
    }
}

fn steps_allocate_nothing<T: Element>() -> Outcome {
    for (name, config) in presets() {
        let mut training = Training::<T>::new(&config)?;
        let batches: Vec<_> = (0..4).map(|seed| Batch::random(&config, 2, seed)).collect();
        let first = calls_of(|| training.step(&batches[0], 0))?;
        assert!(
            first > 0,
            "{name}: the first step makes room, so it should have been counted"
        );
        for (step, batch) in batches.iter().enumerate().skip(1) {
            let calls = calls_of(|| training.step(batch, step as u64))?;
            assert_eq!(calls, 0, "{name}: step {step} called the allocator");
        }
    }
    Ok(())
}

#[test]
fn a_training_step_in_f32_allocates_nothing() -> Outcome {
    steps_allocate_nothing::<f32>()
}

#[test]
fn a_training_step_in_f64_allocates_nothing() -> Outcome {
    steps_allocate_nothing::<f64>()
}

#[test]
fn a_smaller_batch_after_a_larger_one_allocates_nothing() -> Outcome {
    for (name, config) in presets() {
        let mut training = Training::<f32>::new(&config)?;
        let (large, small) = (Batch::random(&config, 2, 1), Batch::random(&config, 1, 2));
        training.step(&large, 0)?;
        let calls = calls_of(|| {
            training.step(&small, 1)?;
            training.step(&large, 2)
        })?;
        assert_eq!(calls, 0, "{name}");
    }
    Ok(())
}

/// A program recorded once allocates nothing when it is evaluated, whatever the numbers are.
#[test]
fn evaluating_a_program_allocates_nothing() -> Outcome {
    let program = Program::record(4, |x| {
        let mut weights = x.to_vec();
        Scalar::softmax(x, &mut weights);
        Scalar::dot_bias(x, &weights, x[0].relu()) * Scalar::product(x)
    })?;
    let mut plain = program.evaluator();
    let mut some = program.evaluator_for(&[2])?;
    let mut lanes = Evaluator::<Lanes<f64, 8>>::new(&program);
    let (samples, mut values, mut gradients) = ([0.5; 44], [0.0; 11], [0.0; 44]);
    let calls = calls_of(|| {
        plain.value_and_gradient(&[1.0, 2.0, 3.0, 4.0])?;
        plain.values(&[4.0, 3.0, 2.0, 1.0])?;
        some.value_and_gradient(&[1.0, 2.0, 3.0, 4.0])?;
        lanes.gradients_of_samples(&samples, &mut values, &mut gradients)?;
        Ok(())
    })?;
    assert_eq!(calls, 0);
    Ok(())
}
