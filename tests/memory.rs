//! Training by the presets: a step allocates nothing from the second one on, on any thread, nor does writing text; and how much memory a run
//! holds.
//!
//! The whole process is counted, so this program has no other threads than training's and runs its checks one after the other.
#![forbid(unsafe_code)]

use burtorch_data::{Batches, Windows};
use burtorch_gpt::config::{Config, Preset, Settings};
use burtorch_gpt::generation::Generator;
use burtorch_gpt::inference::Decoder;
use burtorch_gpt::memory::{Estimate, TextSize};
use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_gpt::sampling::Sampling;
use burtorch_gpt::trainer::Trainer;
use burtorch_tensor::{
    Context, Engine, Indices, Params, Pieces, ScalarEngine, TensorEngine, Workspace,
};
use burtorch_tests::{Counting, Outcome};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PRESETS: [Preset; 3] = [Preset::Mini, Preset::Small, Preset::Base];

/// Characters of Shakespeare's works, the presets' usual text.
const VOCABULARY: usize = 65;

/// Jobs for a pool that fit into one block of rayon's queue; the next one needs a new block, and then the old one is freed.
const JOBS_PER_BLOCK: usize = 31;

fn main() -> Outcome {
    the_counters_see_every_thread();
    a_training_step_allocates_nothing()?;
    a_recomputed_step_allocates_nothing()?;
    a_step_on_the_scalar_engine_allocates_nothing()?;
    many_steps_on_two_threads_allocate_the_queue_of_the_pool_only()?;
    writing_text_allocates_nothing()?;
    the_peak_does_not_grow_with_the_batch::<TensorEngine<f32>>(&[Preset::Mini, Preset::Small])?;
    the_peak_does_not_grow_with_the_batch::<ScalarEngine<f32>>(&[Preset::Mini])?;
    the_scalar_engine_holds_one_sequence()?;
    the_peak_is_the_one_foretold()
}

fn the_counters_see_every_thread() {
    let before = Counting::calls();
    let (peak, ()) = Counting::peak_of(|| {
        let thread = std::thread::spawn(|| {
            let numbers = vec![0_u8; 1 << 20];
            drop(std::hint::black_box(numbers));
            let more = vec![1_u8; 3 << 19];
            drop(std::hint::black_box(more));
        });
        thread.join().expect("the thread ends well");
    });
    assert!(Counting::calls() >= before + 4);
    assert!((3 << 19..(3 << 19) + 10_000).contains(&peak), "{peak}");
}

fn config(preset: Preset, change: impl FnOnce(&mut Settings)) -> Outcome<Config> {
    let mut settings = Settings {
        preset: Some(preset),
        ..Settings::default()
    };
    change(&mut settings);
    Ok(Config::resolve(&settings)?)
}

/// A text of this many tokens, without order.
fn text(tokens: usize) -> Vec<u32> {
    let random = |i| burtorch_data::derive_seed(i, "token") % VOCABULARY as u64;
    (0..tokens as u64).map(|i| random(i) as u32).collect()
}

/// A model with many blocks, which are computed again on the way back.
fn recomputed() -> Outcome<Config> {
    config(Preset::Small, |settings| {
        settings.layers = Some(12);
        settings.recompute = Some(true);
    })
}

/// Makes steps, and hands the calls of the allocator in each of them to `check`.
fn train<W: Workspace<f32>>(
    config: &Config,
    threads: usize,
    steps: usize,
    mut check: impl FnMut(usize),
) -> Outcome {
    let tokens = text(5000);
    let windows = Windows::new(&tokens, config.block_size)?;
    let batches = Batches::shuffled(windows, config.batch_size, 1)?;
    let mut trainer = Trainer::<W>::new(config, VOCABULARY, threads)?;
    for _ in 0..steps {
        let before = Counting::calls();
        trainer.step(&batches)?;
        check(Counting::calls() - before);
    }
    Ok(())
}

/// The whole step of `train`: cutting out the batch, its pieces forward and backward, clipping, the optimizer.
fn a_training_step_allocates_nothing() -> Outcome {
    for preset in PRESETS {
        let config = config(preset, |_| ())?;
        for threads in [1, 2] {
            let mut calls = Vec::with_capacity(4);
            train::<TensorEngine<f32>>(&config, threads, 3, |found| calls.push(found))?;
            let name = preset.name();
            assert!(
                calls[0] > 0,
                "{name}: the first step makes room, so it should have been counted"
            );
            assert_eq!(calls[1..], [0, 0], "{name} on {threads} threads");
        }
    }
    Ok(())
}

fn a_recomputed_step_allocates_nothing() -> Outcome {
    let mut calls = Vec::with_capacity(4);
    train::<TensorEngine<f32>>(&recomputed()?, 1, 3, |found| calls.push(found))?;
    assert_eq!(calls[1..], [0, 0]);
    Ok(())
}

/// Within the block and beyond it. Text is written by one thread; those of training, which has ended, may still be clearing up.
fn writing_text_allocates_nothing() -> Outcome {
    let sampling = Sampling {
        temperature: 0.8,
        top_k: 20,
        top_p: 0.9,
    };
    for preset in [Preset::Mini, Preset::Small] {
        let config = preset.model(VOCABULARY);
        let mut params = Params::new();
        Gpt::new(&config, &mut params, 1)?;
        let mut decoder = Decoder::new(&config, &params)?;
        for stride in [1, config.block_size / 2] {
            let generator = Generator::new(&mut decoder, &[1], sampling, 1)?;
            let mut generator = generator.with_stride(stride)?;
            generator.next_token()?; // makes room for the candidates
            let before = Counting::calls_of_this_thread();
            for _ in 0..config.block_size + 3 {
                generator.next_token()?;
            }
            let calls = Counting::calls_of_this_thread() - before;
            assert_eq!(calls, 0, "{} with stride {stride}", preset.name());
        }
    }
    Ok(())
}

/// Without dropout: how many handles are constants differs from mask to mask, and with it the room on the tape.
fn a_step_on_the_scalar_engine_allocates_nothing() -> Outcome {
    for threads in [1, 2] {
        let config = config(Preset::Mini, |settings| {
            settings.batch_size = Some(5);
            settings.micro_batch = Some(1);
        })?;
        let mut calls = Vec::with_capacity(4);
        train::<ScalarEngine<f32>>(&config, threads, 4, |found| calls.push(found))?;
        assert!(calls[0] > 0);
        assert_eq!(calls[1..], [0, 0, 0], "{threads} threads");
    }
    Ok(())
}

/// Pieces of one sequence run one after the other on the tape that the first one made.
fn the_scalar_engine_holds_one_sequence() -> Outcome {
    let mut params = Params::new();
    let config = ModelConfig::mini(VOCABULARY);
    let gpt = Gpt::new(&config, &mut params, 1)?;
    let indices = text(128 * config.block_size);
    // Bytes held after each piece of the second of two steps.
    let held = |batch: usize| {
        let mut pieces = Pieces::<f32, ScalarEngine<f32>>::new(1)?;
        let mut gradients = vec![0.0; params.len()];
        let mut bytes = vec![0; batch];
        for _ in 0..2 {
            pieces.run(
                &params,
                &mut gradients,
                &mut bytes,
                |piece, engine, params, gradients| {
                    let context = Context {
                        indices: &indices,
                        ..Context::default()
                    };
                    let inputs = Indices::new(piece * config.block_size, config.block_size);
                    let targets = Indices::new(inputs.len() * (64 + piece), inputs.len());
                    let mut pass = engine.bind(params, context);
                    let loss = gpt.loss(&mut pass, inputs, targets, 1)?;
                    pass.backward_scalar(loss, gradients)?;
                    drop(pass);
                    Ok::<_, burtorch_gpt::Error>(engine.bytes())
                },
            )?;
        }
        Ok::<_, burtorch_gpt::Error>(bytes)
    };
    let one = held(1)?[0];
    assert!(one > 1_000_000, "{one}");
    assert_eq!(held(64)?, [one; 64]);
    Ok(())
}

fn many_steps_on_two_threads_allocate_the_queue_of_the_pool_only() -> Outcome {
    let (mut step, mut later) = (0, 0);
    let steps = 3 * JOBS_PER_BLOCK;
    let mini = config(Preset::Mini, |_| ())?;
    train::<TensorEngine<f32>>(&mini, 2, steps, |calls| {
        later += if step == 0 { 0 } else { calls };
        step += 1;
    })?;
    let blocks = steps / JOBS_PER_BLOCK;
    assert!(later <= 2 * blocks, "{later} calls in {steps} steps");
    Ok(())
}

/// The most bytes that a trainer holds, from its making to the end of a step.
fn peak<W: Workspace<f32>>(config: &Config, threads: usize) -> Outcome<usize> {
    let tokens = text(5000);
    let windows = Windows::new(&tokens, config.block_size)?;
    let batches = Batches::shuffled(windows, config.batch_size, 1)?;
    let (peak, done) = Counting::peak_of(|| -> Outcome<usize> {
        let mut trainer = Trainer::<W>::new(config, VOCABULARY, threads)?;
        trainer.step(&batches)?;
        Ok(trainer.params().len())
    });
    done?;
    Ok(peak)
}

/// In pieces of one sequence, a larger batch takes its tokens and its pieces' losses; and from two pieces on there is a buffer in
/// which a group of pieces adds up its gradients, so that the sum does not depend on the number of threads.
fn the_peak_does_not_grow_with_the_batch<W: Workspace<f32>>(presets: &[Preset]) -> Outcome {
    for &preset in presets {
        let with_batch = |size| {
            let config = config(preset, |settings| {
                settings.batch_size = Some(size);
                settings.micro_batch = Some(1);
            })?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((peak::<W>(&config, 1)?, config))
        };
        let ((one, config), (two, _), (many, _)) =
            (with_batch(1)?, with_batch(2)?, with_batch(64)?);
        let sequence = 2 * config.block_size * size_of::<u32>() + size_of::<f64>();
        let gradients = size_of::<f32>() * config.model(VOCABULARY).parameter_count()?;
        // Threads that start or end hold some kilobytes for a while; the results of a sequence are at least 150 kB.
        let near = |found: usize, expected: usize| found.abs_diff(expected) < 50_000;
        let name = preset.name();
        assert!(near(many, two + 62 * sequence), "{name}: {two}, {many}");
        assert!(
            near(two, one + sequence + gradients),
            "{name}: {one}, {two}"
        );
    }
    Ok(())
}

/// The parts of the estimate that are a trainer's: no program, no text, no evaluation.
fn foretold(config: &Config, threads: usize) -> Outcome<f64> {
    let nothing = TextSize {
        bytes: 0,
        tokens: 0,
        token_bytes: 0,
        byte_pairs: false,
    };
    let found = Estimate::of(config, VOCABULARY, nothing, threads)?;
    let batch = size_of::<u32>() * 2 * config.batch_size * config.block_size;
    let weights = found.parameters + found.gradients + found.moments;
    Ok(weights + found.results + found.way_back + batch as f64)
}

fn the_peak_is_the_one_foretold() -> Outcome {
    let mut cases = vec![
        (
            config(Preset::Base, |settings| settings.dropout = Some(0.0))?,
            1,
        ),
        (config(Preset::Base, |_| ())?, 1),
        (
            config(Preset::Small, |settings| settings.block_size = Some(300))?,
            1,
        ),
    ];
    cases.push((recomputed()?, 1));
    for threads in [1, 2] {
        cases.push((config(Preset::Mini, |_| ())?, threads));
        cases.push((config(Preset::Small, |_| ())?, threads));
        for micro_batch in [1, 12] {
            let small = config(Preset::Small, |settings| {
                settings.micro_batch = Some(micro_batch)
            })?;
            cases.push((small, threads));
        }
    }
    for (config, threads) in cases {
        let (expected, found) = (
            foretold(&config, threads)?,
            peak::<TensorEngine<f32>>(&config, threads)? as f64,
        );
        let off = expected / found - 1.0;
        let name = format!("{config:?} on {threads} threads: {expected} foretold, {found} found");
        assert!(off.abs() < 0.1, "{off:.3}: {name}");
    }
    Ok(())
}
