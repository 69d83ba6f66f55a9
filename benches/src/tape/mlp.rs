//! A multilayer perceptron on scalars: 16-64-64-1 with tanh, every weight and bias a variable.

use std::convert::Infallible;

use anyhow::Result;
use burtorch_core::{Error, Run, Scalar, Tape, Var};

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

/// The matrix of the next layer, row by row, its biases, and what belongs to the layers behind it.
fn next_layer<T>(weights: &[T], inputs: usize, outputs: usize) -> (&[T], &[T], &[T]) {
    let (matrix, rest) = weights.split_at(inputs * outputs);
    let (biases, rest) = rest.split_at(outputs);
    (matrix, biases, rest)
}

/// The network.
fn network<S: Scalar<Primal = f64>>(weights: &[S]) -> S {
    let (hidden, rest) = layer::<S, INPUTS, HIDDEN>(weights, &inputs().map(S::constant));
    let (hidden, last) = layer::<S, HIDDEN, HIDDEN>(rest, &hidden.map(S::tanh));
    let ([y], _) = layer(last, &hidden.map(S::tanh));
    y
}

/// A layer, and the weights behind its own.
fn layer<'a, S: Scalar, const I: usize, const O: usize>(
    weights: &'a [S],
    x: &[S; I],
) -> ([S; O], &'a [S]) {
    let (matrix, biases, rest) = next_layer(weights, I, O);
    let neuron = |i: usize| S::dot_bias(&matrix[i * I..][..I], x, biases[i]);
    (std::array::from_fn(neuron), rest)
}

#[derive(Clone, Copy)]
struct Network;

impl Formula<WEIGHTS> for Network {
    fn of<S: Scalar<Primal = f64>>(self, weights: &[S; WEIGHTS]) -> S {
        network(weights)
    }
}

impl Recording for Network {
    fn record<V: Rival>(&self, weights: &[V]) -> V {
        let (matrix, biases, rest) = next_layer(weights, INPUTS, HIDDEN);
        let inputs = inputs();
        let rows = matrix.chunks(INPUTS).zip(biases);
        let hidden: Vec<V> = rows
            .map(|(row, &bias)| {
                let products = row.iter().zip(inputs).map(|(&w, x)| w * x);
                products.fold(bias, |sum, product| sum + product).tanh()
            })
            .collect();
        let neuron = |row: &[V], bias: V, x: &[V]| {
            let products = row.iter().zip(x).map(|(&w, &x)| w * x);
            products.fold(bias, |sum, product| sum + product)
        };
        let (matrix, biases, rest) = next_layer(rest, HIDDEN, HIDDEN);
        let rows = matrix.chunks(HIDDEN).zip(biases);
        let hidden: Vec<V> = rows
            .map(|(row, &bias)| neuron(row, bias, &hidden).tanh())
            .collect();
        let (row, bias, _) = next_layer(rest, HIDDEN, 1);
        neuron(row, bias[0], &hidden)
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
fn forward<const I: usize, const O: usize>(
    matrix: &[f64],
    biases: &[f64],
    x: &[f64; I],
) -> [f64; O] {
    let mut rows = matrix.chunks_exact(I).zip(biases);
    std::array::from_fn(|_| rows.next().map_or(f64::NAN, |(row, b)| dot(row, x) + b))
}

/// One layer backward: writes the gradient of its matrix and returns that of its inputs.
fn backward<const I: usize>(
    matrix: &[f64],
    x: &[f64; I],
    outer: &[f64],
    gradient: &mut [f64],
) -> [f64; I] {
    let mut inner = [0.0; I];
    let rows = matrix.chunks_exact(I).zip(gradient.chunks_exact_mut(I));
    for ((row, gradient), &outer) in rows.zip(outer) {
        for i in 0..I {
            gradient[i] = outer * x[i];
            inner[i] += outer * row[i];
        }
    }
    inner
}

fn by_hand(weights: &[f64; WEIGHTS], gradient: &mut [f64; WEIGHTS]) -> f64 {
    let x = inputs();
    let (first, biases, rest) = next_layer(weights, INPUTS, HIDDEN);
    let a: [f64; HIDDEN] = forward(first, biases, &x).map(f64::tanh);
    let (second, biases, rest) = next_layer(rest, HIDDEN, HIDDEN);
    let b: [f64; HIDDEN] = forward(second, biases, &a).map(f64::tanh);
    let (last, biases, _) = next_layer(rest, HIDDEN, 1);
    let [y] = forward(last, biases, &b);

    let (to_first, rest) = gradient.split_at_mut(INPUTS * HIDDEN);
    let (to_first_biases, rest) = rest.split_at_mut(HIDDEN);
    let (to_second, rest) = rest.split_at_mut(HIDDEN * HIDDEN);
    let (to_second_biases, rest) = rest.split_at_mut(HIDDEN);
    let (to_last, to_last_bias) = rest.split_at_mut(HIDDEN);
    to_last_bias[0] = 1.0;
    let to_b = backward(last, &b, &[1.0], to_last);
    let outer: [f64; HIDDEN] = std::array::from_fn(|i| to_b[i] * (1.0 - b[i] * b[i]));
    to_second_biases.copy_from_slice(&outer);
    let to_a = backward(second, &a, &outer, to_second);
    let outer: [f64; HIDDEN] = std::array::from_fn(|i| to_a[i] * (1.0 - a[i] * a[i]));
    to_first_biases.copy_from_slice(&outer);
    backward(first, &x, &outer, to_first);
    y
}

/// The network from runs of nodes.
fn network_of_runs<'t, T: Scalar<Primal = f64>>(
    tape: &'t Tape<T>,
    weights: Run<'t, T>,
) -> Var<'t, T> {
    let layer = |weights: Run<'t, T>, x: Run<'t, T>, outputs: usize| {
        let (matrix, rest) = weights.split_at(x.len() * outputs);
        let (biases, rest) = rest.split_at(outputs);
        (matrix.affine(x, biases), rest)
    };
    let (hidden, rest) = layer(weights, tape.constants(&inputs().map(T::constant)), HIDDEN);
    let (hidden, rest) = layer(rest, hidden.tanh(), HIDDEN);
    layer(rest, hidden.tanh(), 1).0.sum()
}

/// Records the network afresh, weights and all.
fn gradient<T: Scalar<Primal = f64>>(
    tape: &mut Tape<T>,
    weights: &[T],
    gradient: &mut [T],
) -> Result<T, Error> {
    tape.clear();
    let weights = tape.run(weights);
    let y = network_of_runs(tape, weights);
    y.backward()?;
    weights.grads(gradient)?;
    Ok(y.value())
}

fn tape() -> Contender {
    let mut tape = Tape::new();
    Contender::of_many("tape", Author::Ours, weights(), move |x, out| {
        gradient(&mut tape, x, out)
    })
}

/// By the formula for all scalars, whose dot products get slices of handles.
fn slices() -> Contender {
    let mut tape = Tape::new();
    Contender::of_many("slices", Author::Ours, weights(), move |x, out| {
        tape.clear();
        let variables: [_; WEIGHTS] = std::array::from_fn(|i| tape.var(x[i]));
        let y = network(&variables);
        y.backward()?;
        out.fill(0.0);
        tape.add_grads(variables[0].id()?, out)?;
        Ok::<_, Error>(y.value())
    })
}

fn lanes8() -> Contender {
    let mut tape = Tape::new();
    ours::in_lanes::<8>("lanes8", &weights(), move |x, out| {
        gradient(&mut tape, x, out)
    })
}

pub(super) fn contest() -> Result<Contest> {
    let hand = Contender::of_many("hand", Author::Hand, weights(), |x, gradient| {
        Ok::<_, Infallible>(by_hand(x, gradient))
    });
    let mut contenders = vec![hand];
    contenders.extend(rivals::contenders(Network, weights()));
    contenders.push(tape());
    contenders.push(slices());
    contenders.extend(ours::programs(Network, weights())?);
    contenders.push(lanes8());
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
