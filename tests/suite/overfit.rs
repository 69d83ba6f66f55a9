//! One batch, learnt by heart.

use burtorch_gpt::model::{Gpt, ModelConfig};
use burtorch_optim::{AdamOptions, AdamW, Groups, Optimizer};
use burtorch_tensor::{Element, Params, Workspace};
use burtorch_tests::{Batch, Outcome, accumulate, mini_style, on_both_engines, small_style};

/// Windows that start with different ids, so that each target can be told from what is before it.
const WINDOWS: [u32; 12] = [0, 3, 3, 1, 6, 2, 5, 0, 4, 4, 1, 3];

/// The last loss of a training that sees the same batch in every step.
fn train<T: Element, W: Workspace<T>>(
    config: &ModelConfig,
    steps: usize,
    rate: f64,
) -> Outcome<f64> {
    let mut params = Params::<T>::new();
    let gpt = Gpt::new(config, &mut params, 1)?;
    let batch = Batch::from_windows(&WINDOWS, config.block_size + 1);
    let mut optimizer = AdamW::new(Groups::all(params.len(), 0.0)?, AdamOptions::default())?;
    let (mut workspace, mut gradients) = (W::default(), vec![T::ZERO; params.len()]);
    let mut loss = f64::NAN;
    for _ in 0..steps {
        gradients.fill(T::ZERO);
        loss = accumulate(
            &gpt,
            &params,
            &mut workspace,
            &batch,
            Some(1),
            &mut gradients,
        )?;
        optimizer.step(params.values_mut(), &gradients, T::from_f64(rate))?;
    }
    Ok(loss)
}

on_both_engines! {
    f32, f64: a_batch_is_learnt_by_heart;
    f32: nothing_is_learnt_at_rate_zero;
}

fn a_batch_is_learnt_by_heart<T: Element, W: Workspace<T>>() -> Outcome {
    for config in [mini_style(), small_style()] {
        let loss = train::<T, W>(&config, 150, 0.02)?;
        assert!(loss < 0.01, "the loss is still {loss} with {config:?}");
    }
    Ok(())
}

/// Guessing among seven ids costs ln 7 = 1.95 nats, and that is where it stays.
fn nothing_is_learnt_at_rate_zero<T: Element, W: Workspace<T>>() -> Outcome {
    let loss = train::<T, W>(&mini_style(), 20, 0.0)?;
    assert!((loss - 7_f64.ln()).abs() < 0.1, "the loss is {loss}");
    Ok(())
}
