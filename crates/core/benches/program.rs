//! Times a recorded program of 10,000 ops (softplus, sums of five, products, softmax over four) at new inputs, value and gradient,
//! beside the same gradient written by hand: one sample, and 8 and 16 of them in lanes.
//!
//! `cargo bench -p burtorch-core --bench program` prints the minimum over many short rounds, which alternate, in microseconds per
//! sample, and its ratio to the gradient by hand.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::time::Instant;

use burtorch_core::lanes::Lanes;
use burtorch_core::program::Evaluator;
use burtorch_core::{Error, Program, Scalar};

const INPUTS: usize = 10;
const OPS: usize = 10_000;
const VALUES: usize = INPUTS + OPS;
const ROUNDS: usize = 400;

/// The graph: every op takes values some places back, the first value where there are not as many; its result is the sum of
/// every 100th value.
fn chain<S: Scalar>(inputs: &[S]) -> S {
    let mut x = inputs.to_vec();
    for op in 0..OPS {
        let at = |back: usize| x[x.len().saturating_sub(back)];
        let y = match op % 4 {
            0 => at(10).softplus(),
            1 => S::sum(&[at(30), at(25), at(10), at(5), at(1)]),
            2 => at(19) * at(1),
            _ => {
                let xs = [at(4), at(3), at(2), at(1)];
                let mut weights = xs;
                S::softmax(&xs, &mut weights);
                weights[1]
            }
        };
        x.push(y);
    }
    let every: Vec<S> = x.iter().step_by(100).copied().collect();
    S::sum(&every)
}

/// The same by hand: the memory, and value and gradient.
struct Hand {
    x: Vec<f64>,
    /// Slopes of softplus, weights of softmax.
    partials: Vec<[f64; 4]>,
    gradient: Vec<f64>,
}

impl Hand {
    fn new() -> Self {
        Self {
            x: vec![0.0; VALUES],
            partials: vec![[0.0; 4]; VALUES],
            gradient: vec![0.0; VALUES],
        }
    }

    fn value(&mut self, inputs: &[f64; INPUTS]) -> f64 {
        let (x, p) = (&mut self.x[..VALUES], &mut self.partials[..VALUES]);
        x[..INPUTS].copy_from_slice(inputs);
        for n in INPUTS..VALUES {
            let i = |back: usize| n.saturating_sub(back);
            x[n] = match (n - INPUTS) % 4 {
                0 => {
                    let v = x[i(10)];
                    let e = (-v.abs()).exp();
                    p[n][0] = if v > 0.0 { 1.0 } else { e } / (1.0 + e);
                    v.max(0.0) + e.ln_1p()
                }
                1 => x[i(30)] + x[i(25)] + x[i(10)] + x[i(5)] + x[i(1)],
                2 => x[i(19)] * x[i(1)],
                _ => {
                    let v = [x[i(4)], x[i(3)], x[i(2)], x[i(1)]];
                    let largest = v[0].max(v[1]).max(v[2]).max(v[3]);
                    let e = v.map(|v| (v - largest).exp());
                    let share = 1.0 / (e[0] + e[1] + e[2] + e[3]);
                    p[n] = e.map(|e| e * share);
                    p[n][1]
                }
            };
        }
        x.iter().step_by(100).sum()
    }

    fn value_and_gradient(&mut self, inputs: &[f64; INPUTS]) -> (f64, &[f64]) {
        let value = self.value(inputs);
        let (x, p) = (&self.x[..VALUES], &self.partials[..VALUES]);
        let g = &mut self.gradient[..VALUES];
        g.fill(0.0);
        g.iter_mut().step_by(100).for_each(|g| *g = 1.0);
        for n in (INPUTS..VALUES).rev() {
            let i = |back: usize| n.saturating_sub(back);
            let outer = g[n];
            match (n - INPUTS) % 4 {
                0 => g[i(10)] += p[n][0] * outer,
                1 => [30, 25, 10, 5, 1]
                    .map(i)
                    .iter()
                    .for_each(|&i| g[i] += outer),
                2 => {
                    g[i(19)] += x[i(1)] * outer;
                    g[i(1)] += x[i(19)] * outer;
                }
                _ => {
                    let shared = p[n][1] * outer;
                    g[i(3)] += shared;
                    for (weight, back) in p[n].iter().zip([4, 3, 2, 1]) {
                        g[i(back)] -= weight * shared;
                    }
                }
            }
        }
        (value, &self.gradient[..INPUTS])
    }
}

/// The microseconds that a call takes, if they are fewer than before.
fn time(least: &mut f64, call: impl FnOnce()) {
    let start = Instant::now();
    call();
    *least = least.min(start.elapsed().as_nanos() as f64 / 1e3);
}

fn side_by_side<const N: usize>(inputs: &[f64; INPUTS]) -> [Lanes<f64, N>; INPUTS] {
    inputs.map(|x| Lanes::from_fn(|lane| x + lane as f64 / 100.0))
}

fn check(found: &[f64], expected: &[f64]) {
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs();
        assert!(error < 1e-12, "expected {expected:e}, found {found:e}");
    }
}

fn main() -> Result<(), Error> {
    let inputs: [f64; INPUTS] = std::array::from_fn(|i| (i as f64 * 0.618).fract());
    let (eight, sixteen) = (side_by_side::<8>(&inputs), side_by_side::<16>(&inputs));
    let program = Program::record(INPUTS, |x| chain(x))?;
    let (mut one, mut hand) = (program.evaluator(), Hand::new());
    let (mut lanes8, mut lanes16) = (Evaluator::new(&program), Evaluator::new(&program));

    let (value, gradient) = hand.value_and_gradient(&inputs);
    println!("{} instructions, value {value}", program.len());
    check(one.value_and_gradient(&inputs)?.1, gradient);
    let first = |gradient: &[Lanes<f64, 8>]| gradient.iter().map(|g| g[0]).collect::<Vec<_>>();
    check(&first(lanes8.value_and_gradient(&eight)?.1), gradient);

    let mut least = [f64::INFINITY; 4];
    for _ in 0..ROUNDS {
        let [by_hand, by_one, by_8, by_16] = &mut least;
        time(by_hand, || {
            _ = black_box(hand.value_and_gradient(black_box(&inputs)))
        });
        time(by_one, || {
            _ = black_box(one.value_and_gradient(black_box(&inputs)))
        });
        time(by_8, || {
            _ = black_box(lanes8.value_and_gradient(black_box(&eight)))
        });
        time(by_16, || {
            _ = black_box(lanes16.value_and_gradient(black_box(&sixteen)))
        });
    }
    let samples = [1.0, 1.0, 8.0, 16.0];
    for (i, name) in ["by hand", "program", "8 lanes", "16 lanes"]
        .into_iter()
        .enumerate()
    {
        let each = least[i] / samples[i];
        println!(
            "{name:>8}: {each:6.1} us, {:.3} times by hand",
            each / least[0]
        );
    }
    Ok(())
}
