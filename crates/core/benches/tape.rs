//! Times the scalar tape on the graphs of the BurTorch paper, a long chain and a small network, recorded afresh for every
//! gradient, beside the same gradient written by hand.
//!
//! `cargo bench -p burtorch-core` prints the minimum and the median over many short rounds, in nanoseconds; with
//! `-- NAME` at its end it runs the graph of that name alone. Inputs are
//! opaque to the optimiser, and so are results; value and gradient are compared with those by hand first.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]
#![allow(
    clippy::misrefactored_assign_op,
    reason = "c += c + 1 is how the graph is written"
)]

use std::hint::black_box;
use std::time::Instant;

use burtorch_core::{Error, Scalar, Tape, Var};

const ROUNDS: usize = 100;

/// Minimum and median of the nanoseconds that one call takes, of two functions in turn.
fn time(calls: usize, mut call: [&mut dyn FnMut(); 2]) -> [(f64, f64); 2] {
    let mut rounds = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (call, rounds) in call.iter_mut().zip(&mut rounds) {
            let start = Instant::now();
            (0..calls).for_each(|_| call());
            rounds.push(start.elapsed().as_nanos() as f64 / calls as f64);
        }
    }
    rounds.map(|mut rounds| {
        rounds.sort_by(f64::total_cmp);
        (rounds[0], rounds[ROUNDS / 2])
    })
}

/// Compares a gradient by the tape with one by hand, and times both. Both write the gradient to their second argument.
fn compare(
    name: &str,
    inputs: &[f64],
    mut by_tape: impl FnMut(&[f64], &mut [f64]) -> Result<f64, Error>,
    mut by_hand: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Result<(), Error> {
    if std::env::args()
        .skip(1)
        .any(|argument| !argument.starts_with("--") && argument != name)
    {
        return Ok(());
    }
    let [mut found, mut expected] = [const { Vec::new() }; 2];
    found.resize(inputs.len(), 0.0);
    expected.resize(inputs.len(), 0.0);
    let values = (by_tape(inputs, &mut found)?, by_hand(inputs, &mut expected));
    let differences = found
        .iter()
        .zip(&expected)
        .map(|(a, b)| (a - b).abs() / b.abs().max(1.0));
    println!(
        "{name}: value {}, by hand {}; gradients differ by {:.0e}",
        values.0,
        values.1,
        differences.fold(0.0, f64::max)
    );
    let once = time(1, [&mut || _ = by_hand(inputs, &mut expected), &mut || ()]);
    let calls = (500_000.0 / once[0].0.max(10.0)) as usize + 1;
    let [hand, tape] = time(
        calls,
        [
            &mut || _ = black_box(by_hand(black_box(inputs), black_box(&mut expected))),
            &mut || _ = black_box(by_tape(black_box(inputs), black_box(&mut found))),
        ],
    );
    println!(
        "  by hand {:.1} / {:.1} ns, tape {:.1} / {:.1} ns, {:.2} times",
        hand.0,
        hand.1,
        tape.0,
        tape.1,
        tape.0 / hand.0
    );
    Ok(())
}

fn tiny<'t>(a: Var<'t, f64>, b: Var<'t, f64>) -> Var<'t, f64> {
    let (c, d) = (a + b, a * b + b.cube());
    (c - d).square() / 2.0
}

fn tiny_by_hand(inputs: &[f64], gradient: &mut [f64]) -> f64 {
    let (a, b) = (inputs[0], inputs[1]);
    let e = (a + b) - (a * b + b * b * b);
    gradient.copy_from_slice(&[e * (1.0 - b), e * (1.0 - a - 3.0 * b * b)]);
    e * e / 2.0
}

fn small<'t>(a: Var<'t, f64>, b: Var<'t, f64>) -> Var<'t, f64> {
    let (mut c, mut d) = (a + b, a * b + b.cube());
    c += c + 1.0;
    c += 1.0 + c - a;
    d += d * 2.0 + (b + a).relu();
    d += d * 3.0 + (b - a).relu();
    let f = (c - d).square();
    f / 2.0 + 10.0 / f
}

fn small_by_hand(inputs: &[f64], gradient: &mut [f64]) -> f64 {
    let (a, b) = (inputs[0], inputs[1]);
    let (s, m) = (b + a, b - a);
    let c = 2.0 * (2.0 * (a + b) + 1.0) + 1.0 - a;
    let d = 4.0 * (3.0 * (a * b + b * b * b) + s.max(0.0)) + m.max(0.0);
    let (e, ds, dm) = (c - d, f64::from(s > 0.0), f64::from(m > 0.0));
    let f = e * e;
    let de = e - 20.0 / (f * e);
    let da = 4.0 - 1.0 - (4.0 * (3.0 * b + ds) - dm);
    let db = 4.0 - (4.0 * (3.0 * (a + 3.0 * b * b) + ds) + dm);
    gradient.copy_from_slice(&[de * da, de * db]);
    f / 2.0 + 10.0 / f
}

/// The gradient of a function of two variables by a tape that is cleared first.
fn on_tape(
    graph: impl for<'t> Fn(Var<'t, f64>, Var<'t, f64>) -> Var<'t, f64>,
) -> impl FnMut(&[f64], &mut [f64]) -> Result<f64, Error> {
    let mut tape = Tape::new();
    move |inputs, gradient| {
        tape.clear();
        let (a, b) = (tape.var(inputs[0]), tape.var(inputs[1]));
        let g = graph(a, b);
        g.backward()?;
        gradient.copy_from_slice(&[a.grad()?, b.grad()?]);
        Ok(g.value())
    }
}

const CHAIN: usize = 10_000;
const WINDOW: usize = 32;

/// The last values of the chain, and every 100th.
struct Chain<S> {
    window: [S; WINDOW],
    count: usize,
    sampled: Vec<S>,
}

impl<S: Scalar> Chain<S> {
    /// The value so many steps back, or the first.
    #[inline(always)]
    fn x(&self, back: usize) -> S {
        self.window[self.count.saturating_sub(back) % WINDOW]
    }

    #[inline(always)]
    fn push(&mut self, x: S) {
        if self.count.is_multiple_of(100) {
            self.sampled.push(x);
        }
        self.window[self.count % WINDOW] = x;
        self.count += 1;
    }
}

/// A chain of 10,000 ops over 10 inputs: softplus, a sum of five, a product, a component of a softmax of four, and again; the
/// result is the sum of every 100th value.
#[inline(always)]
fn chain<S: Scalar>(inputs: &[S]) -> S {
    let mut chain = Chain {
        window: [inputs[0]; WINDOW],
        count: 0,
        sampled: Vec::with_capacity(CHAIN / 100 + 1),
    };
    inputs.iter().for_each(|&x| chain.push(x));
    for _ in 0..CHAIN / 4 {
        chain.push(chain.x(10).softplus());
        chain.push(S::sum(&[
            chain.x(30),
            chain.x(25),
            chain.x(10),
            chain.x(5),
            chain.x(1),
        ]));
        chain.push(chain.x(19) * chain.x(1));
        let [a, b, c, d] = [chain.x(4), chain.x(3), chain.x(2), chain.x(1)];
        let largest = a.max(b).max(c.max(d)).stop_gradient();
        let weight = |x: S| (x - largest).exp();
        let (a, b, c, d) = (weight(a), weight(b), weight(c), weight(d));
        chain.push(b / S::sum(&[a, b, c, d]));
    }
    S::sum(&chain.sampled)
}

fn chain_on_tape() -> impl FnMut(&[f64], &mut [f64]) -> Result<f64, Error> {
    let mut tape = Tape::new();
    move |inputs, gradient| {
        tape.clear();
        let variables: [_; 10] = std::array::from_fn(|i| tape.var(inputs[i]));
        let y = chain(&variables);
        y.backward()?;
        for (gradient, x) in gradient.iter_mut().zip(variables) {
            *gradient = x.grad()?;
        }
        Ok(y.value())
    }
}

fn chain_by_hand() -> impl FnMut(&[f64], &mut [f64]) -> f64 {
    let mut x = vec![0.0_f64; CHAIN + 10];
    let mut slopes = vec![[0.0; 4]; CHAIN + 10];
    let mut adjoint = vec![0.0; CHAIN + 10];
    move |inputs, gradient| {
        x[..10].copy_from_slice(inputs);
        for op in 0..CHAIN {
            let n = op + 10;
            let at = |back: usize| x[n.saturating_sub(back)];
            x[n] = match op % 4 {
                0 => {
                    let e = (-at(10).abs()).exp();
                    slopes[n][0] = if at(10) > 0.0 { 1.0 } else { e } / (1.0 + e);
                    at(10).max(0.0) + e.ln_1p()
                }
                1 => at(30) + at(25) + at(10) + at(5) + at(1),
                2 => at(19) * at(1),
                _ => {
                    let largest = at(4).max(at(3)).max(at(2).max(at(1)));
                    let e = [4, 3, 2, 1].map(|back| (at(back) - largest).exp());
                    let total = 1.0 / (e[0] + e[1] + e[2] + e[3]);
                    let y = e[1] * total;
                    slopes[n] = e.map(|e| -y * e * total);
                    slopes[n][1] += y;
                    y
                }
            };
        }
        for (n, adjoint) in adjoint.iter_mut().enumerate() {
            *adjoint = if n % 100 == 0 { 1.0 } else { 0.0 };
        }
        for op in (0..CHAIN).rev() {
            let n = op + 10;
            let g = adjoint[n];
            match op % 4 {
                0 => adjoint[n.saturating_sub(10)] += slopes[n][0] * g,
                1 => {
                    for back in [30, 25, 10, 5, 1] {
                        adjoint[n.saturating_sub(back)] += g;
                    }
                }
                2 => {
                    let (a, b) = (n.saturating_sub(19), n - 1);
                    adjoint[a] += x[b] * g;
                    adjoint[b] += x[a] * g;
                }
                _ => {
                    for (back, slope) in [4, 3, 2, 1].into_iter().zip(slopes[n]) {
                        adjoint[n - back] += slope * g;
                    }
                }
            }
        }
        gradient.copy_from_slice(&adjoint[..10]);
        x.iter().step_by(100).sum()
    }
}

fn main() -> Result<(), Error> {
    compare("tiny", &[-41.0, 2.0], on_tape(tiny), tiny_by_hand)?;
    compare("small", &[-4.0, 2.0], on_tape(small), small_by_hand)?;
    let inputs: [f64; 10] = std::array::from_fn(|i| (i as f64 * 0.37 + 0.1) % 1.0);
    compare("chain10k", &inputs, chain_on_tape(), chain_by_hand())
}
