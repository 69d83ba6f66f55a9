//! Learns the rule "the next number is one more" as a straight line, with batches and an optimizer but its own gradients.
#![forbid(unsafe_code)]

use burtorch_data::{Batches, Windows};
use burtorch_optim::{Groups, Optimizer, Sgd, SgdOptions};

const BLOCK: usize = 4;
const BATCH: usize = 2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tokens: Vec<u32> = (0..9).collect();
    let batches = Batches::shuffled(Windows::new(&tokens, BLOCK)?, BATCH, 1)?;
    let mut sgd = Sgd::new(Groups::all(2, 0.0)?, SgdOptions::default())?;

    let mut line = [0.0_f64, 0.0]; // slope and intercept
    let (mut x, mut y) = ([0; BATCH * BLOCK], [0; BATCH * BLOCK]);
    for step in 0..2000 {
        batches.fill(step, &mut x, &mut y)?;
        let gradient = gradient(line, &x, &y);
        sgd.step(&mut line, &gradient, 0.02)?;
    }
    println!("next = {:.3} · token + {:.3}", line[0], line[1]);
    assert!(
        line.iter().all(|p| (p - 1.0).abs() < 1e-3),
        "the line was not learned: {line:?}"
    );
    Ok(())
}

/// The gradient of the mean of (slope·x + intercept − y)².
fn gradient([slope, intercept]: [f64; 2], x: &[u32], y: &[u32]) -> [f64; 2] {
    let mut sum = [0.0, 0.0];
    for (&x, &y) in x.iter().zip(y) {
        let (x, y) = (f64::from(x), f64::from(y));
        let error = 2.0 * (slope * x + intercept - y) / (BATCH * BLOCK) as f64;
        sum = [sum[0] + error * x, sum[1] + error];
    }
    sum
}
