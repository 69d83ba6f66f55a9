//! Times one step of each optimizer, the gradient norm and clipping, at the sizes of the GPT presets mini and small.
//!
//! `cargo bench -p burtorch-optim` prints the minimum and the median over many short rounds.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use burtorch_optim::{
    Adam, AdamOptions, AdamW, Error, Groups, Optimizer, Sgd, SgdOptions, clip_by_global_norm,
    clip_by_value, global_norm,
};

const ROUNDS: usize = 200;

/// Prints the microseconds that one call takes.
fn time(name: &str, parameters: usize, mut call: impl FnMut()) {
    let calls = 1 + 1_000_000 / parameters;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| call());
            start.elapsed().as_secs_f64() * 1e6 / calls as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let [least, median] = [rounds[0], rounds[ROUNDS / 2]];
    println!("{name:>16} {parameters:>8} {least:>10.1} {median:>10.1}");
}

fn main() -> Result<(), Error> {
    println!("microseconds: parameters, minimum, median");
    for parameters in [46_337, 804_096] {
        let mut values = vec![0.5_f32; parameters];
        let mut gradients: Vec<f32> = (0..parameters).map(|i| (i % 101) as f32 - 50.5).collect();
        let groups = Groups::all(parameters, 0.1)?;
        let momentum = SgdOptions {
            momentum: 0.9,
            ..SgdOptions::default()
        };
        let optimizers: [(&str, Box<dyn Optimizer<f32>>); 4] = [
            (
                "sgd",
                Box::new(Sgd::new(groups.clone(), SgdOptions::default())?),
            ),
            (
                "sgd, momentum",
                Box::new(Sgd::new(groups.clone(), momentum)?),
            ),
            (
                "adam",
                Box::new(Adam::new(groups.clone(), AdamOptions::default())?),
            ),
            (
                "adamw",
                Box::new(AdamW::new(groups, AdamOptions::default())?),
            ),
        ];
        for (name, mut optimizer) in optimizers {
            optimizer.step(&mut values, &gradients, 1e-6)?;
            time(name, parameters, || {
                _ = black_box(optimizer.step(&mut values, &gradients, 1e-6));
            });
        }
        time("norm", parameters, || {
            _ = black_box(global_norm(&gradients))
        });
        time("clip, norm", parameters, || {
            let smaller = 0.999 * global_norm(&gradients);
            _ = black_box(clip_by_global_norm(&mut gradients, smaller));
        });
        time("clip, value", parameters, || {
            _ = black_box(clip_by_value(&mut gradients, 30.0));
        });
    }
    Ok(())
}
