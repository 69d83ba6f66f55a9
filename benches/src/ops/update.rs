//! What follows the gradient, over all parameters of a preset.

use std::hint::black_box;

use anyhow::Result;
use burtorch_optim::{
    Adam, AdamOptions, AdamW, Groups, Optimizer, Sgd, SgdOptions, clip_by_global_norm,
    clip_by_value, global_norm,
};

use super::Bench;
use crate::speed::{Amount, Work, report};

/// Measures optimizers and clipping.
pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    let count = bench.model.parameter_count()?;
    let mut values = vec![0.5_f32; count];
    let gradients: Vec<f32> = (0..count).map(|i| (i % 101) as f32 - 50.5).collect();
    for (name, mut optimizer, touched) in optimizers(count)? {
        optimizer.step(&mut values, &gradients, 1e-6)?;
        let (values, gradients) = (&mut values, &gradients);
        let step = move || _ = black_box(optimizer.step(values, gradients, 1e-6));
        one(bench, name, touched * count, step)?;
    }
    let norm = || _ = black_box(global_norm(&gradients));
    one(bench, "gradient norm", count, norm)?;
    clipping(bench, gradients.clone())
}

/// An optimizer with how many numbers it reads or writes for a parameter.
type Updater = (&'static str, Box<dyn Optimizer<f32>>, usize);

fn optimizers(count: usize) -> Result<[Updater; 4]> {
    let groups = Groups::all(count, 0.1)?;
    let momentum = SgdOptions {
        momentum: 0.9,
        ..SgdOptions::default()
    };
    let options = AdamOptions::default;
    let sgd = |options| Sgd::new(groups.clone(), options);
    Ok([
        ("sgd", Box::new(sgd(SgdOptions::default())?), 3),
        ("sgd, momentum", Box::new(sgd(momentum)?), 5),
        ("adam", Box::new(Adam::new(groups.clone(), options())?), 7),
        ("adamw", Box::new(AdamW::new(groups.clone(), options())?), 7),
    ])
}

/// The limit of the norm sinks from call to call, so that there always is something to do.
fn clipping(bench: &Bench<'_>, mut gradients: Vec<f32>) -> Result<()> {
    let count = gradients.len();
    let by_value = || _ = black_box(clip_by_value(&mut gradients, 30.0));
    one(bench, "clip by value", 2 * count, by_value)?;
    let mut limit = global_norm(&gradients);
    let by_norm = || {
        limit *= 0.999_99;
        _ = black_box(clip_by_global_norm(&mut gradients, limit));
    };
    one(bench, "clip by norm", 3 * count, by_norm)
}

fn one(bench: &Bench<'_>, what: &str, touched: usize, call: impl FnMut()) -> Result<()> {
    let Some(name) = bench.wanted(what) else {
        return Ok(());
    };
    let work = Work {
        pass: "update",
        who: "burtorch",
        amount: Amount::Bytes(4.0 * touched as f64),
        call: Box::new(call),
    };
    report("ops", &name, vec![work], bench.options.json)
}
