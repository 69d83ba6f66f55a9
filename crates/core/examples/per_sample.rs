//! The gradient of every sample on its own, computed on all cores with one tape per thread, equal bit by bit to one thread's.
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::time::Instant;

use burtorch_core::{Error, Scalar, Tape};
use rayon::prelude::*;

const INPUTS: usize = 8;
const HIDDEN: usize = 16;
const WEIGHTS: usize = HIDDEN * (INPUTS + 2);
const SAMPLES: usize = 4096;

struct Sample {
    input: [f64; INPUTS],
    target: f64,
}

/// Squared error of a network with one hidden layer, biases left out.
fn loss<S: Scalar<Primal = f64>>(weights: &[S], sample: &Sample) -> S {
    let input = sample.input.map(S::constant);
    let (first, last) = weights.split_at(HIDDEN * INPUTS);
    let hidden: Vec<S> = first
        .chunks(INPUTS)
        .map(|w| S::dot(w, &input).tanh())
        .collect();
    (S::dot_bias(&last[..HIDDEN], &hidden, last[HIDDEN]) - sample.target).square()
}

/// The gradients of some samples, one row each, on one tape: after the first sample it allocates nothing more.
fn gradients(weights: &[f64], samples: &[Sample], rows: &mut [f64]) -> Result<(), Error> {
    let mut tape = Tape::new();
    let start = tape.mark();
    for (sample, row) in samples.iter().zip(rows.chunks_mut(WEIGHTS)) {
        tape.rewind(start)?;
        let variables = tape.vars(weights);
        let first = variables[0].id()?;
        loss(&variables, sample).backward()?;
        tape.add_grads(first, row)?;
    }
    Ok(())
}

/// The gradients of all samples, each thread on a share of them.
fn on_threads(
    threads: usize,
    weights: &[f64],
    samples: &[Sample],
) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()?;
    let share = samples.len().div_ceil(threads);
    let mut rows = vec![0.0; samples.len() * WEIGHTS];
    let work = samples
        .par_chunks(share)
        .zip(rows.par_chunks_mut(share * WEIGHTS));
    pool.install(|| work.try_for_each(|(samples, rows)| gradients(weights, samples, rows)))?;
    Ok(rows)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wave = |i: usize| (i as f64 * 0.7).sin();
    let weights: Vec<f64> = (0..WEIGHTS).map(wave).collect();
    let samples: Vec<Sample> = (0..SAMPLES)
        .map(|s| Sample {
            input: std::array::from_fn(|i| wave(s * INPUTS + i)),
            target: wave(s).signum(),
        })
        .collect();
    let timed = |threads| {
        let start = Instant::now();
        let rows = on_threads(threads, &weights, &samples)?;
        println!(
            "{threads} threads: {:.2} ms",
            start.elapsed().as_secs_f64() * 1e3
        );
        Ok::<_, Box<dyn std::error::Error>>(rows)
    };
    let threads = std::thread::available_parallelism()?.get().max(2);
    let (one, many) = (timed(1)?, timed(threads)?);
    let equal = one
        .iter()
        .zip(&many)
        .all(|(a, b)| a.to_bits() == b.to_bits());
    println!(
        "{SAMPLES} gradients of {WEIGHTS} weights, bit-equal on 1 and {threads} threads: {equal}"
    );
    let norms: Vec<f64> = one.chunks(WEIGHTS).map(f64::norm).collect();
    println!(
        "norms: mean {:.4}, standard deviation {:.4}",
        f64::mean(&norms),
        f64::variance(&norms).sqrt()
    );
    if equal {
        Ok(())
    } else {
        Err("the gradients differ".into())
    }
}
