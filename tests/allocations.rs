//! A training step allocates nothing, from the second one on.
//!
//! A counting allocator is the only way to see that, and an allocator is the only unsafe trait these tests implement.
#![deny(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use burtorch_core::lanes::Lanes;
use burtorch_core::program::Evaluator;
use burtorch_core::{Program, Scalar};
use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_optim::{AdamOptions, AdamW, Groups, Optimizer, clip_by_global_norm};
use burtorch_tensor::{Context, Element, Engine, Params, Pieces, TensorEngine, Workspace};
use burtorch_tests::{Batch, Outcome, accumulate};

thread_local! {
    /// Calls of the allocator by this thread; tests run side by side, each on its own thread.
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting.
struct Counting;

fn count() {
    // A thread that is being torn down has no counter any more, and nobody reads it.
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every method hands its arguments to the system's allocator unchanged and returns what that returns; counting
// neither allocates nor panics, since the cell needs no initialisation and no destructor.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`, which are the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the pointer came from the system's allocator, by the other methods here, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`; the caller answers for the new size.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator by this thread while `work` runs.
fn calls_of(work: impl FnOnce() -> Outcome) -> Outcome<usize> {
    let before = CALLS.get();
    work()?;
    Ok(CALLS.get() - before)
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

#[test]
fn micro_batches_on_one_thread_allocate_nothing() -> Outcome {
    for (name, config) in presets() {
        let mut params = Params::<f32>::new();
        let gpt = Gpt::new(&config, &mut params, 1)?;
        let batches = [Batch::random(&config, 1, 1), Batch::random(&config, 1, 2)];
        let mut pieces = Pieces::<f32, TensorEngine<f32>>::new(1)?;
        let mut gradients = vec![0.0; params.len()];
        let mut step = || -> Outcome {
            let work = |piece: usize,
                        workspace: &mut TensorEngine<f32>,
                        params: &Params<f32>,
                        sum: &mut [f32]| {
                accumulate(&gpt, params, workspace, &batches[piece], Some(1), sum).map(drop)
            };
            pieces
                .run(&params, &mut gradients, batches.len(), work)
                .map(drop)
        };
        step()?;
        assert_eq!(calls_of(step)?, 0, "{name}");
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
