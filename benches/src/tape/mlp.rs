//! A multilayer perceptron on scalars: 16-64-64-1 with tanh, every weight and bias a variable.

use std::convert::Infallible;

use anyhow::Result;
use burtorch_core::lanes::Lanes;
use burtorch_core::{Error, Mark, NodeId, Scalar, Tape};

use super::ours::{self, Formula};
use super::rivals::{self, Recording, Rival};
use crate::contender::{Author, Contender, Contest};

const INPUTS: usize = 16;
const HIDDEN: usize = 64;
const WEIGHTS: usize = HIDDEN * (INPUTS + 1) + HIDDEN * (HIDDEN + 1) + HIDDEN + 1;

/// A number between −1 and 1 for each index, as good as random.
fn scattered(index: usize) -> f64 {
    (index as f64 * 0.618_033_988_749_895).fract() * 2.0 - 1.0
}

fn inputs() -> [f64; INPUTS] {
    std::array::from_fn(|i| scattered(i + 7))
}

fn weights() -> [f64; WEIGHTS] {
    std::array::from_fn(|i| scattered(3 * i + 1) * 0.3)
}

/// The network: the weights come row by row, each row followed by its bias.
fn network<S: Scalar<Primal = f64>>(weights: impl IntoIterator<Item = S>) -> S {
    let mut weights = weights.into_iter();
    let mut next = || weights.next().unwrap_or(S::constant(f64::NAN));
    let hidden: [S; HIDDEN] = layer(&inputs().map(S::constant), &mut next);
    let hidden: [S; HIDDEN] = layer(&hidden, &mut next);
    neuron(&hidden, &mut next)
}

fn layer<S: Scalar, const I: usize, const O: usize>(
    x: &[S; I],
    next: &mut impl FnMut() -> S,
) -> [S; O] {
    std::array::from_fn(|_| neuron(x, next).tanh())
}

fn neuron<S: Scalar, const I: usize>(x: &[S; I], next: &mut impl FnMut() -> S) -> S {
    let row: [S; I] = std::array::from_fn(|_| next());
    S::dot_bias(&row, x, next())
}

#[derive(Clone, Copy)]
struct Network;

impl Formula<WEIGHTS> for Network {
    fn of<S: Scalar<Primal = f64>>(self, weights: &[S; WEIGHTS]) -> S {
        network(weights.iter().copied())
    }
}

impl Recording for Network {
    fn record<V: Rival>(&self, weights: &[V]) -> V {
        let (first, rest) = weights.split_at(HIDDEN * (INPUTS + 1));
        let (second, last) = rest.split_at(HIDDEN * (HIDDEN + 1));
        let inputs = inputs();
        let hidden: Vec<V> = first
            .chunks(INPUTS + 1)
            .map(|row| {
                let products = row[..INPUTS].iter().zip(inputs).map(|(&w, x)| w * x);
                products
                    .fold(row[INPUTS], |sum, product| sum + product)
                    .tanh()
            })
            .collect();
        let neuron = |row: &[V], x: &[V]| {
            let products = row[..HIDDEN].iter().zip(x).map(|(&w, &x)| w * x);
            products.fold(row[HIDDEN], |sum, product| sum + product)
        };
        let rows = second.chunks(HIDDEN + 1);
        let hidden: Vec<V> = rows.map(|row| neuron(row, &hidden).tanh()).collect();
        neuron(last, &hidden)
    }
}

/// Values of a layer before tanh, written out: plain dot products over rows, summed in eight columns as a vector unit does.
fn dot<const I: usize>(row: &[f64], x: &[f64; I]) -> f64 {
    let mut sums = [0.0; 8];
    for (w, x) in row[..I].chunks_exact(8).zip(x.chunks_exact(8)) {
        for lane in 0..8 {
            sums[lane] += w[lane] * x[lane];
        }
    }
    sums.iter().sum()
}

/// One layer forward.
fn forward<const I: usize, const O: usize>(weights: &[f64], x: &[f64; I]) -> [f64; O] {
    let mut rows = weights.chunks_exact(I + 1);
    std::array::from_fn(|_| rows.next().map_or(f64::NAN, |row| dot(row, x) + row[I]))
}

/// One layer backward: writes the gradient of its weights and returns that of its inputs.
fn backward<const I: usize, const O: usize>(
    weights: &[f64],
    x: &[f64; I],
    outer: &[f64; O],
    gradient: &mut [f64],
) -> [f64; I] {
    let mut inner = [0.0; I];
    let rows = weights
        .chunks_exact(I + 1)
        .zip(gradient.chunks_exact_mut(I + 1));
    for ((row, gradient), &outer) in rows.zip(outer) {
        for i in 0..I {
            gradient[i] = outer * x[i];
            inner[i] += outer * row[i];
        }
        gradient[I] = outer;
    }
    inner
}

fn by_hand(weights: &[f64; WEIGHTS], gradient: &mut [f64; WEIGHTS]) -> f64 {
    let (first, rest) = weights.split_at(HIDDEN * (INPUTS + 1));
    let (second, last) = rest.split_at(HIDDEN * (HIDDEN + 1));
    let x = inputs();
    let a: [f64; HIDDEN] = forward(first, &x).map(f64::tanh);
    let b: [f64; HIDDEN] = forward(second, &a).map(f64::tanh);
    let [y] = forward(last, &b);

    let (to_first, rest) = gradient.split_at_mut(HIDDEN * (INPUTS + 1));
    let (to_second, to_last) = rest.split_at_mut(HIDDEN * (HIDDEN + 1));
    let to_b = backward(last, &b, &[1.0], to_last);
    let outer: [f64; HIDDEN] = std::array::from_fn(|i| to_b[i] * (1.0 - b[i] * b[i]));
    let to_a = backward(second, &a, &outer, to_second);
    let outer: [f64; HIDDEN] = std::array::from_fn(|i| to_a[i] * (1.0 - a[i] * a[i]));
    backward(first, &x, &outer, to_first);
    y
}

/// A tape with the weights before a mark, where parameters stay; the network is recorded afresh behind it.
struct Recorder<T> {
    tape: Tape<T>,
    first: NodeId,
    mark: Mark,
}

impl<T: Scalar<Primal = f64>> Recorder<T> {
    fn new(weights: &[T]) -> Result<Self, Error> {
        let tape = Tape::new();
        let first = tape.vars(weights)[0].id()?;
        let mark = tape.mark();
        Ok(Self { tape, first, mark })
    }

    fn gradient(&mut self, weights: &[T], gradient: &mut [T]) -> Result<T, Error> {
        self.tape.rewind(self.mark)?;
        self.tape.zero_grads();
        let y = network(self.tape.handles(self.first, weights));
        y.backward()?;
        gradient.fill(T::constant(0.0));
        self.tape.add_grads(self.first, gradient)?;
        Ok(y.value())
    }
}

fn tape() -> Result<Contender> {
    let mut recorder = Recorder::new(&weights())?;
    let contender = Contender::of_many("tape", Author::Ours, weights(), move |x, gradient| {
        recorder.gradient(x, gradient)
    });
    Ok(contender)
}

fn lanes8() -> Result<Contender> {
    let mut recorder = Recorder::new(&weights().map(Lanes::splat))?;
    let contender = ours::in_lanes::<8>("lanes8", &weights(), move |x, gradient| {
        recorder.gradient(x, gradient)
    });
    Ok(contender)
}

pub(super) fn contest() -> Result<Contest> {
    let hand = Contender::of_many("hand", Author::Hand, weights(), |x, gradient| {
        Ok::<_, Infallible>(by_hand(x, gradient))
    });
    let mut contenders = vec![hand];
    contenders.extend(rivals::contenders(Network, weights()));
    contenders.push(tape()?);
    contenders.extend(ours::programs(Network, weights())?);
    contenders.push(lanes8()?);
    Ok(Contest {
        expected: ours::expected(weights(), |x| {
            let mut gradient = x;
            (by_hand(&x, &mut gradient), gradient)
        }),
        contenders,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_agrees_with_its_differences() {
        let (mut gradient, mut unused) = ([0.0; WEIGHTS], [0.0; WEIGHTS]);
        by_hand(&weights(), &mut gradient);
        for i in (0..WEIGHTS).step_by(97) {
            let mut moved = |step: f64| {
                let mut x = weights();
                x[i] += step;
                by_hand(&x, &mut unused)
            };
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (difference - gradient[i]).abs() < 1e-8,
                "{i}: {difference} {}",
                gradient[i]
            );
        }
    }
}
