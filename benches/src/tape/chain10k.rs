//! A chain of 10,000 ops of four kinds, whose arguments lie up to 30 nodes back.

use std::convert::Infallible;

use anyhow::Result;
use burtorch_core::{Error, Scalar, Tape};

use super::ours::{self, Formula};
use super::rivals::{self, Recording, Rival};
use crate::contender::{Author, Contender, Contest};

const INPUTS: usize = 10;
const OPS: usize = 10_000;
const NODES: usize = INPUTS + OPS;

/// The result is the sum of every so manieth node, so that gradients do not die out.
const STRIDE: usize = 100;
const SUMMED: usize = NODES.div_ceil(STRIDE);

/// How far back an op of each kind looks: a softplus, a sum, a product, the second share of a softmax.
const SOFTPLUS: usize = 10;
const SUM: [usize; 5] = [30, 25, 10, 5, 1];
const PRODUCT: [usize; 2] = [19, 1];
const SOFTMAX: [usize; 4] = [4, 3, 2, 1];
const SHARE: usize = 1;

const AT: [f64; INPUTS] = [0.05, 0.67, 0.29, 0.9, 0.52, 0.14, 0.76, 0.38, 1.0, 0.61];

/// The last nodes: a ring that reaches back far enough, so that a chain needs no memory that grows.
struct Recent<V> {
    ring: [V; 32],
    count: usize,
}

impl<V: Copy> Recent<V> {
    fn new(inputs: &[V; INPUTS]) -> Self {
        let ring = std::array::from_fn(|i| inputs[i % INPUTS]);
        Self {
            ring,
            count: INPUTS,
        }
    }

    /// The node so far back, or the first.
    #[inline(always)]
    fn back(&self, distance: usize) -> V {
        self.ring[self.count.saturating_sub(distance) % 32]
    }

    /// The nodes that are summed. Written out, as are those below, since the array that `map` makes is copied.
    #[inline(always)]
    fn summands(&self) -> [V; 5] {
        let [a, b, c, d, e] = SUM;
        [
            self.back(a),
            self.back(b),
            self.back(c),
            self.back(d),
            self.back(e),
        ]
    }

    /// The arguments of the softmax.
    #[inline(always)]
    fn logits(&self) -> [V; 4] {
        let [a, b, c, d] = SOFTMAX;
        [self.back(a), self.back(b), self.back(c), self.back(d)]
    }

    #[inline(always)]
    fn push(&mut self, x: V) {
        self.ring[self.count % 32] = x;
        self.count += 1;
    }
}

/// The chain of what `op` makes of the recent nodes; returns the nodes that are summed.
#[inline(always)]
fn chain<V: Copy>(inputs: &[V; INPUTS], op: impl Fn(usize, &Recent<V>) -> V) -> [V; SUMMED] {
    let mut recent = Recent::new(inputs);
    let mut summed = [inputs[0]; SUMMED];
    for i in 0..OPS {
        let x = op(i % 4, &recent);
        if recent.count.is_multiple_of(STRIDE) {
            summed[recent.count / STRIDE] = x;
        }
        recent.push(x);
    }
    summed
}

/// The formula, with the share of a softmax as an op or written out.
///
/// On a tape of plain numbers both take the same time. In lanes every op costs two or three nanoseconds beside its arithmetic, and in
/// programs the op's exponentials are computed side by side.
#[derive(Clone, Copy)]
struct Chain<const OP: bool>;

const FOR_TAPES: Chain<false> = Chain;
const FOR_VECTORS: Chain<true> = Chain;

impl<const OP: bool> Formula<INPUTS> for Chain<OP> {
    #[inline(always)]
    fn of<S: Scalar<Primal = f64>>(self, inputs: &[S; INPUTS]) -> S {
        let summed = chain(inputs, |kind, x| match kind {
            0 => x.back(SOFTPLUS).softplus(),
            1 => S::sum(&x.summands()),
            2 => x.back(PRODUCT[0]) * x.back(PRODUCT[1]),
            _ if OP => S::softmax_at(&x.logits(), SHARE),
            _ => {
                let xs = x.logits();
                let [a, b, c, d] = xs.map(S::stop_gradient);
                let largest = a.max(b).max(c.max(d));
                let powers = xs.map(|x| (x - largest).exp());
                powers[SHARE] / S::sum(&powers)
            }
        });
        S::sum(&summed)
    }
}

impl Recording for Chain<false> {
    fn record<V: Rival>(&self, inputs: &[V]) -> V {
        let inputs: [V; INPUTS] = std::array::from_fn(|i| inputs[i]);
        let summed = chain(&inputs, |kind, x| match kind {
            0 => x.back(SOFTPLUS).softplus(),
            1 => sum(x.summands()),
            2 => x.back(PRODUCT[0]) * x.back(PRODUCT[1]),
            _ => {
                let xs = x.logits();
                let largest = xs.iter().fold(f64::MIN, |a, x| a.max(x.value()));
                let powers = xs.map(|x| (x - largest).exp());
                powers[SHARE] / sum(powers)
            }
        });
        sum(summed)
    }
}

fn sum<V: Rival, const N: usize>(xs: [V; N]) -> V {
    xs[1..].iter().fold(xs[0], |sum, &x| sum + x)
}

/// The chain written out, with room for its nodes.
struct Hand {
    values: Vec<f64>,
    /// What a softplus and a softmax leave for the way back.
    kept: Vec<[f64; 4]>,
    gradients: Vec<f64>,
}

impl Hand {
    fn new() -> Self {
        Self {
            values: vec![0.0; NODES],
            kept: vec![[0.0; 4]; NODES],
            gradients: vec![0.0; NODES],
        }
    }

    fn gradient(&mut self, inputs: &[f64; INPUTS], gradient: &mut [f64; INPUTS]) -> f64 {
        self.forward(inputs);
        self.gradients.fill(0.0);
        let mut sum = 0.0;
        for node in (0..NODES).step_by(STRIDE) {
            sum += self.values[node];
            self.gradients[node] = 1.0;
        }
        self.backward();
        gradient.copy_from_slice(&self.gradients[..INPUTS]);
        sum
    }

    fn forward(&mut self, inputs: &[f64; INPUTS]) {
        let (x, kept) = (&mut self.values[..NODES], &mut self.kept[..NODES]);
        x[..INPUTS].copy_from_slice(inputs);
        for node in INPUTS..NODES {
            let back = |distance: usize| x[node.saturating_sub(distance)];
            x[node] = match (node - INPUTS) % 4 {
                0 => {
                    let power = (-back(SOFTPLUS).abs()).exp();
                    let numerator = if back(SOFTPLUS) > 0.0 { 1.0 } else { power };
                    kept[node][0] = numerator / (1.0 + power);
                    back(SOFTPLUS).max(0.0) + power.ln_1p()
                }
                1 => back(30) + back(25) + back(10) + back(5) + back(1),
                2 => back(PRODUCT[0]) * back(PRODUCT[1]),
                _ => {
                    let xs = SOFTMAX.map(back);
                    let largest = xs[0].max(xs[1]).max(xs[2]).max(xs[3]);
                    let powers = xs.map(|x| (x - largest).exp());
                    let part = 1.0 / (powers[0] + powers[1] + powers[2] + powers[3]);
                    kept[node] = powers.map(|power| power * part);
                    kept[node][SHARE]
                }
            };
        }
    }

    fn backward(&mut self) {
        let (x, kept) = (&self.values[..NODES], &self.kept[..NODES]);
        let gradients = &mut self.gradients[..NODES];
        for node in (INPUTS..NODES).rev() {
            let at = |distance: usize| node.saturating_sub(distance);
            let outer = gradients[node];
            match (node - INPUTS) % 4 {
                0 => gradients[at(SOFTPLUS)] += kept[node][0] * outer,
                1 => {
                    for distance in SUM {
                        gradients[at(distance)] += outer;
                    }
                }
                2 => {
                    let [a, b] = PRODUCT.map(at);
                    gradients[a] += x[b] * outer;
                    gradients[b] += x[a] * outer;
                }
                _ => {
                    let shares = kept[node];
                    let scaled = shares[SHARE] * outer;
                    for (distance, share) in SOFTMAX.into_iter().zip(shares) {
                        gradients[at(distance)] -= share * scaled;
                    }
                    gradients[at(SOFTMAX[SHARE])] += scaled;
                }
            }
        }
    }
}

/// Recorded afresh on a tape that grows, the same one each time.
fn tape() -> Contender {
    let mut tape = Tape::new();
    Contender::of_many("tape", Author::Ours, AT, move |x, gradient| {
        tape.clear();
        let inputs = x.map(|x| tape.var(x));
        let y = FOR_TAPES.of(&inputs);
        y.backward()?;
        for (gradient, input) in gradient.iter_mut().zip(inputs) {
            *gradient = input.grad()?;
        }
        Ok::<_, Error>(y.value())
    })
}

pub(super) fn contest() -> Result<Contest> {
    let mut hand = Hand::new();
    let expected = ours::expected(AT, |x| {
        let mut gradient = x;
        (hand.gradient(&x, &mut gradient), gradient)
    });
    let hand = Contender::of_many("hand", Author::Hand, AT, move |x, gradient| {
        Ok::<_, Infallible>(hand.gradient(x, gradient))
    });
    let mut contenders = vec![hand];
    contenders.extend(rivals::contenders(FOR_TAPES, AT));
    contenders.push(tape());
    contenders.extend(ours::programs(FOR_VECTORS, AT)?);
    contenders.push(ours::lanes8(FOR_VECTORS, AT));
    Ok(Contest {
        expected,
        contenders,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_agrees_with_its_differences() {
        let mut hand = Hand::new();
        let (mut gradient, mut unused) = ([0.0; INPUTS], [0.0; INPUTS]);
        let value = hand.gradient(&AT, &mut gradient);
        // No op looks at the inputs 3 and 7.
        let used = gradient.iter().filter(|&&slope| slope != 0.0).count();
        assert!(value.is_finite() && used == INPUTS - 2, "{gradient:?}");
        for (i, &slope) in gradient.iter().enumerate() {
            let mut moved = |step: f64| {
                let mut x = AT;
                x[i] += step;
                hand.gradient(&x, &mut unused)
            };
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (difference - slope).abs() < 1e-6 * slope.abs().max(1.0),
                "{i}: {difference} {slope}"
            );
        }
    }
}
