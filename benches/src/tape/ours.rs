//! Our recorders on a formula of a few inputs.

use anyhow::Result;
use burtorch_core::lanes::Lanes;
use burtorch_core::program::Evaluator;
use burtorch_core::{Error, Program, Scalar, StackTape, Tape};

use crate::contender::{Author, Contender, Sample};

/// A formula over any of our scalars: a closure cannot be generic.
pub(crate) trait Formula<const K: usize>: Copy + 'static {
    fn of<S: Scalar<Primal = f64>>(self, x: &[S; K]) -> S;
}

/// Recorded afresh on a tape that grows, the same one each time.
pub(crate) fn tape(formula: impl Formula<2>, at: [f64; 2]) -> Contender {
    let mut tape = Tape::new();
    Contender::of_few("tape", Author::Ours, at, move |[a, b]| {
        tape.clear();
        let (a, b) = (tape.var(a), tape.var(b));
        let y = formula.of(&[a, b]);
        y.backward()?;
        Ok::<_, Error>((y.value(), [a.grad()?, b.grad()?]))
    })
}

/// Recorded afresh on a tape of fixed size, a new one each time.
pub(crate) fn stack<const NODES: usize>(formula: impl Formula<2>, at: [f64; 2]) -> Contender {
    Contender::of_few("stack", Author::Ours, at, move |[a, b]| {
        let tape = StackTape::<f64, NODES>::new();
        let (a, b) = (tape.var(a), tape.var(b));
        let y = formula.of(&[a, b]);
        y.backward()?;
        Ok::<_, Error>((y.value(), [a.grad()?, b.grad()?]))
    })
}

/// Recorded once, evaluated again: one sample, eight, and sixteen at a time.
pub(crate) fn programs<const K: usize>(
    formula: impl Formula<K>,
    at: [f64; K],
) -> Result<Vec<Contender>> {
    let program = Program::record(K, |x| match x.first_chunk() {
        Some(x) => formula.of(x),
        None => Scalar::constant(f64::NAN),
    })?;
    let mut evaluator = program.evaluator();
    let single = Contender::of_many("program", Author::Ours, at, move |x, gradient| {
        let (value, slopes) = evaluator.value_and_gradient(x)?;
        gradient.copy_from_slice(slopes);
        Ok::<_, Error>(value)
    });
    Ok(vec![
        single,
        program_in_lanes::<8>("program8", &program, &at),
        program_in_lanes::<16>("program16", &program, &at),
    ])
}

fn program_in_lanes<const N: usize>(
    name: &'static str,
    program: &Program<f64>,
    at: &[f64],
) -> Contender {
    let mut evaluator = Evaluator::<Lanes<f64, N>>::new(program);
    in_lanes(name, at, move |x, gradient| {
        let (value, slopes) = evaluator.value_and_gradient(x)?;
        gradient.copy_from_slice(slopes);
        Ok(value)
    })
}

/// Recorded afresh, eight samples at a time.
pub(crate) fn lanes8<const K: usize>(formula: impl Formula<K>, at: [f64; K]) -> Contender {
    let mut tape = Tape::new();
    in_lanes::<8>("lanes8", &at, move |x, gradient| {
        tape.clear();
        let variables = std::array::from_fn(|i| tape.var(x[i]));
        let y = formula.of(&variables);
        y.backward()?;
        for (gradient, variable) in gradient.iter_mut().zip(variables) {
            *gradient = variable.grad()?;
        }
        Ok(y.value())
    })
}

/// A contender for N samples at once.
pub(crate) fn in_lanes<const N: usize>(
    name: &'static str,
    at: &[f64],
    mut call: impl FnMut(&[Lanes<f64, N>], &mut [Lanes<f64, N>]) -> Result<Lanes<f64, N>, Error>
    + 'static,
) -> Contender {
    let input: Vec<Lanes<f64, N>> = at
        .iter()
        .map(|&x| Lanes::from_fn(|lane| moved(x, lane)))
        .collect();
    let output = input.clone();
    Contender::new(
        name,
        Author::Ours,
        input,
        output,
        move |x, gradient| call(x, gradient),
        |value, gradient| {
            let lane = |lane: usize| Sample {
                value: value[lane],
                gradient: gradient.iter().map(|slope| slope[lane]).collect(),
            };
            (0..N).map(lane).collect()
        },
    )
}

/// The input of a sample in place of `x`; the first sample has `x` itself.
fn moved(x: f64, sample: usize) -> f64 {
    x * (1.0 - sample as f64 / 32.0)
}

/// What the hand-written code finds for as many samples as any contender computes.
pub(crate) fn expected<const K: usize>(
    at: [f64; K],
    mut by_hand: impl FnMut([f64; K]) -> (f64, [f64; K]),
) -> Vec<Sample> {
    let sample = |sample| {
        let (value, gradient) = by_hand(at.map(|x| moved(x, sample)));
        let gradient = gradient.to_vec();
        Sample { value, gradient }
    };
    (0..16).map(sample).collect()
}
