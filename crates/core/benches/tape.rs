//! Times the scalar tape on the two graphs of the BurTorch paper, recorded afresh for every gradient, beside the same
//! gradient written by hand.
//!
//! `cargo bench -p burtorch-core` prints the minimum and the median over many short rounds, in nanoseconds.
#![allow(clippy::print_stdout, reason = "a benchmark prints its results")]
#![allow(
    clippy::misrefactored_assign_op,
    reason = "c += c + 1 is how the graph is written"
)]

use std::hint::black_box;
use std::time::Instant;

use burtorch_core::{Error, Scalar, Tape, Var};

const ROUNDS: usize = 400;
const CALLS: usize = 2_000;

/// Minimum and median of the nanoseconds that one call takes.
fn time(mut call: impl FnMut()) -> (f64, f64) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / CALLS as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[0], rounds[ROUNDS / 2])
}

fn tiny<'t>(a: Var<'t, f64>, b: Var<'t, f64>) -> Var<'t, f64> {
    let (c, d) = (a + b, a * b + b.cube());
    (c - d).square() / 2.0
}

fn tiny_by_hand(a: f64, b: f64) -> (f64, [f64; 2]) {
    let e = (a + b) - (a * b + b * b * b);
    (e * e / 2.0, [e * (1.0 - b), e * (1.0 - a - 3.0 * b * b)])
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

fn small_by_hand(a: f64, b: f64) -> (f64, [f64; 2]) {
    let (s, m) = (b + a, b - a);
    let c = 2.0 * (2.0 * (a + b) + 1.0) + 1.0 - a;
    let d = 4.0 * (3.0 * (a * b + b * b * b) + s.max(0.0)) + m.max(0.0);
    let (e, ds, dm) = (c - d, f64::from(s > 0.0), f64::from(m > 0.0));
    let f = e * e;
    let de = e - 20.0 / (f * e);
    let da = 4.0 - 1.0 - (4.0 * (3.0 * b + ds) - dm);
    let db = 4.0 - (4.0 * (3.0 * (a + 3.0 * b * b) + ds) + dm);
    (f / 2.0 + 10.0 / f, [de * da, de * db])
}

type Gradient = (f64, [f64; 2]);

fn on_tape(
    tape: &mut Tape<f64>,
    graph: impl for<'t> Fn(Var<'t, f64>, Var<'t, f64>) -> Var<'t, f64>,
    (a, b): (f64, f64),
) -> Result<Gradient, Error> {
    tape.clear();
    let (a, b) = (tape.var(a), tape.var(b));
    let g = graph(a, b);
    g.backward()?;
    Ok((g.value(), [a.grad()?, b.grad()?]))
}

fn compare(
    name: &str,
    graph: impl for<'t> Fn(Var<'t, f64>, Var<'t, f64>) -> Var<'t, f64>,
    by_hand: fn(f64, f64) -> Gradient,
    at: (f64, f64),
) -> Result<(), Error> {
    let mut tape = Tape::new();
    let (found, expected) = (on_tape(&mut tape, &graph, at)?, by_hand(at.0, at.1));
    println!("{name}: value and gradient {found:?}, by hand {expected:?}");
    let hand = time(|| _ = black_box(by_hand(black_box(at.0), black_box(at.1))));
    let tape = time(|| _ = black_box(on_tape(&mut tape, &graph, black_box(at))));
    println!(
        "  by hand {:.1} / {:.1} ns, tape {:.1} / {:.1} ns",
        hand.0, hand.1, tape.0, tape.1
    );
    Ok(())
}

fn main() -> Result<(), Error> {
    compare("tiny", tiny, tiny_by_hand, (-41.0, 2.0))?;
    compare("small", small, small_by_hand, (-4.0, 2.0))
}
