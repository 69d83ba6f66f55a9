//! Causal self-attention of one sequence, and the way back.

use crate::float::Float;
use crate::lanes::Work;
use crate::ops::{constant, reduce};
use crate::scalar::Scalar;
use crate::tape::operand::Operand;

/// The sizes of one call.
#[derive(Clone, Copy)]
pub(in crate::tape) struct Heads {
    /// Positions.
    pub(in crate::tape) time: usize,
    pub(in crate::tape) heads: usize,
    /// Numbers of a query, a key or a value of one head.
    pub(in crate::tape) width: usize,
    /// Whether weights are masked, so that they differ from probabilities.
    pub(in crate::tape) masked: bool,
}

impl Heads {
    /// Numbers of a result.
    fn columns(self) -> usize {
        self.heads * self.width
    }

    /// Where the query (part 0), key (1) or value (2) of a head at a position begins.
    #[inline(always)]
    fn input(self, part: usize, head: usize, position: usize) -> usize {
        (3 * position + part) * self.columns() + head * self.width
    }

    #[inline(always)]
    fn result(self, head: usize, position: usize) -> usize {
        position * self.columns() + head * self.width
    }

    /// Probabilities of all queries for all keys, if future ones have some too.
    fn probabilities(self) -> usize {
        self.heads * self.time * self.time
    }

    /// Where the probabilities of a query begin.
    #[inline(always)]
    fn row(self, head: usize, query: usize) -> usize {
        (head * self.time + query) * self.time
    }

    /// How many numbers are kept for the way back: probabilities and, if they differ, weights.
    pub(in crate::tape) fn kept(self) -> usize {
        self.probabilities() * (1 + usize::from(self.masked))
    }

    /// How many numbers the way back needs room for: gradients of all inputs, and of the weights of a query.
    pub(in crate::tape) fn room(self) -> usize {
        3 * self.columns() * self.time + self.time
    }

    /// Writes the mask where the weights will be.
    pub(in crate::tape) fn write_mask<T: Scalar>(
        self,
        kept: &mut [T],
        mask: &dyn Fn(usize, usize, usize) -> T::Primal,
    ) {
        let weights = &mut kept[self.probabilities()..];
        for head in 0..self.heads {
            for query in 0..self.time {
                let row = &mut weights[self.row(head, query)..][..=query];
                for (key, factor) in row.iter_mut().enumerate() {
                    *factor = T::constant(mask(head, query, key));
                }
            }
        }
    }

    /// 1/√width.
    #[inline(always)]
    fn scale<T: Scalar>(self) -> T {
        T::constant(T::Primal::from_usize(self.width).rsqrt())
    }
}

/// Writes results to `out`, and what the way back needs to `kept`, where the mask is already if there is one: in the place of the
/// weights.
pub(in crate::tape) struct Attend<'a, T> {
    pub(in crate::tape) x: &'a [T],
    pub(in crate::tape) sizes: Heads,
    pub(in crate::tape) kept: &'a mut [T],
    pub(in crate::tape) out: &'a mut [T],
    /// Room for the scores of a query.
    pub(in crate::tape) scores: &'a mut [T],
}

impl<T: Scalar> Work for Attend<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            x,
            sizes,
            kept,
            out,
            scores,
        } = self;
        let scale = sizes.scale::<T>();
        let (probabilities, weights) = kept.split_at_mut(sizes.probabilities());
        let part = |part, head, position| &x[sizes.input(part, head, position)..][..sizes.width];
        for head in 0..sizes.heads {
            for query in 0..sizes.time {
                let seen = query + 1;
                let q = part(0, head, query);
                for (key, score) in scores[..seen].iter_mut().enumerate() {
                    *score = reduce::dot_of_slices(q, part(1, head, key)) * scale;
                }
                let row = sizes.row(head, query);
                let probabilities = &mut probabilities[row..][..seen];
                reduce::weights(|key| scores[key], probabilities);
                let mut weights_of_query = &*probabilities;
                if sizes.masked {
                    let masked = &mut weights[row..][..seen];
                    for (weight, &probability) in masked.iter_mut().zip(weights_of_query) {
                        *weight = probability * *weight;
                    }
                    weights_of_query = masked;
                }
                let y = &mut out[sizes.result(head, query)..][..sizes.width];
                y.fill(constant(0.0));
                for (key, &weight) in weights_of_query.iter().enumerate() {
                    for (y, &value) in y.iter_mut().zip(part(2, head, key)) {
                        *y += weight * value;
                    }
                }
            }
        }
    }
}

/// The way back. With p the probabilities, w the weights, a = Σ dO·v of a query and a key, and D = Σ w a over the keys of a query:
/// (w a − p D)/√width for the scores, hence with k for q and with q for k, and w dO for v.
pub(in crate::tape) struct AttendBack<'a, T> {
    pub(in crate::tape) values: &'a [T],
    pub(in crate::tape) x: Operand,
    pub(in crate::tape) sizes: Heads,
    /// Where the probabilities begin among the values.
    pub(in crate::tape) kept: usize,
    pub(in crate::tape) from: &'a [T],
    /// So many numbers as [`Heads::room`] says.
    pub(in crate::tape) room: &'a mut [T],
}

impl<T: Scalar> AttendBack<'_, T> {
    #[inline(always)]
    pub(in crate::tape) fn run(self, to: &mut [T]) {
        let Self {
            values,
            x: inputs,
            sizes,
            kept,
            from,
            room,
        } = self;
        let x = inputs.values(values);
        let (probabilities, weights) =
            values[kept..][..sizes.kept()].split_at(sizes.probabilities());
        let weights = if sizes.masked { weights } else { probabilities };
        let (dx, dw) = room.split_at_mut(x.len());
        dx.fill(constant(0.0));
        for head in 0..sizes.heads {
            for query in 0..sizes.time {
                let dy = &from[sizes.result(head, query)..][..sizes.width];
                if dy.iter().all(|gradient| gradient.is_zero()) {
                    continue;
                }
                let row = sizes.row(head, query);
                let seen = row..row + query + 1;
                let of_query = OfQuery {
                    x,
                    sizes,
                    head,
                    query,
                    probabilities: &probabilities[seen.clone()],
                    weights: &weights[seen],
                };
                of_query.back(dy, dx, dw);
            }
        }
        for (row, shares) in dx.chunks_exact(inputs.columns).enumerate() {
            inputs.add(values, to, (row, 0), shares);
        }
    }
}

/// A query of one head with what it looked at.
struct OfQuery<'a, T> {
    x: &'a [T],
    sizes: Heads,
    head: usize,
    query: usize,
    probabilities: &'a [T],
    weights: &'a [T],
}

impl<T: Scalar> OfQuery<'_, T> {
    /// Adds to the gradients of all inputs; `dw` is room for those of the weights.
    #[inline(always)]
    fn back(&self, dy: &[T], dx: &mut [T], dw: &mut [T]) {
        let Self { x, sizes, head, .. } = *self;
        let width = sizes.width;
        let scale = sizes.scale::<T>();
        let mut total = constant::<T>(0.0);
        for (key, (&weight, dw)) in self.weights.iter().zip(&mut *dw).enumerate() {
            let value = sizes.input(2, head, key);
            let (v, dv) = (&x[value..][..width], &mut dx[value..][..width]);
            let mut sum = constant::<T>(0.0);
            for ((&v, dv), &dy) in v.iter().zip(dv).zip(dy) {
                sum += v.chain(dy);
                *dv += weight.chain(dy);
            }
            *dw = weight * sum;
            total += *dw;
        }
        let q_start = sizes.input(0, head, self.query);
        for (key, (&probability, &dw)) in self.probabilities.iter().zip(&*dw).enumerate() {
            let ds = (dw - probability * total) * scale;
            let k_start = sizes.input(1, head, key);
            for i in 0..width {
                let (q, k) = (x[q_start + i], x[k_start + i]);
                dx[q_start + i] += k.chain(ds);
                dx[k_start + i] += q.chain(ds);
            }
        }
    }
}
