//! Same seed, same bits: for any number of threads, every time.

use burtorch_data::derive_seed;
use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_optim::{AdamOptions, AdamW, Groups, Optimizer, clip_by_global_norm};
use burtorch_tensor::{Element, Params, Pieces, ScalarEngine, TensorEngine, Workspace};
use burtorch_tests::{Batch, Outcome, accumulate, base_style, mini_style};

/// Too many to be shared out evenly among any number of threads above one.
const PIECES: usize = 11;

/// The bits of every loss and of the parameters at the end.
type Bits = (Vec<u64>, Vec<u64>);

fn train<T: Element, W: Workspace<T>>(
    config: &ModelConfig,
    seed: u64,
    threads: usize,
    steps: u64,
) -> Outcome<Bits> {
    let mut params = Params::<T>::new();
    let gpt = Gpt::new(config, &mut params, seed)?;
    let mut optimizer = AdamW::new(Groups::all(params.len(), 0.1)?, AdamOptions::default())?;
    let mut pieces = Pieces::<T, W>::new(threads)?;
    let mut gradients = vec![T::ZERO; params.len()];
    let mut losses = Vec::new();
    for step in 0..steps {
        let work = |piece: usize,
                    workspace: &mut W,
                    params: &Params<T>,
                    gradients: &mut [T]|
         -> Outcome<f64> {
            let key = derive_seed(seed, &format!("step {step}, piece {piece}"));
            // Pieces of different sizes, so that they end in another order than they started.
            let batch = Batch::random(config, 1 + piece % 3, key);
            accumulate(&gpt, params, workspace, &batch, Some(key), gradients)
        };
        let mut found = [0.0; PIECES];
        pieces.run(&params, &mut gradients, &mut found, work)?;
        losses.extend(found.map(f64::to_bits));
        clip_by_global_norm(&mut gradients, 1.0)?;
        optimizer.step(params.values_mut(), &gradients, T::from_f64(0.01))?;
    }
    Ok((
        losses,
        params
            .values()
            .iter()
            .map(|value| value.to_f64().to_bits())
            .collect(),
    ))
}

fn same_bits<T: Element, W: Workspace<T>>(threads: &[usize], steps: u64) -> Outcome {
    // The style of base has dropout, whose masks are the likeliest to depend on a thread.
    let config = base_style();
    let expected = train::<T, W>(&config, 1, 1, steps)?;
    for &threads in threads {
        for run in 1..=2 {
            let found = train::<T, W>(&config, 1, threads, steps)?;
            assert_eq!(found, expected, "run {run} with {threads} threads");
        }
    }
    Ok(())
}

#[test]
fn f34_tensor_engine() -> Outcome {
    same_bits::<f32, TensorEngine<f32>>(&[1, 2, 3, 4, 7], 50)
}

#[test]
fn f34_scalar_engine() -> Outcome {
    same_bits::<f32, ScalarEngine<f32>>(&[1, 2, 3], 5)
}

#[test]
fn f34_another_seed_gives_other_bits() -> Outcome {
    let train = |seed| train::<f32, TensorEngine<f32>>(&mini_style(), seed, 2, 2);
    assert_ne!(train(1)?, train(2)?);
    Ok(())
}
