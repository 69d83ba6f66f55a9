//! Multi-head causal self-attention: for each head, `softmax(q kᵀ/√d + mask) v`, position t seeing positions 0..=t.
//!
//! Source: Vaswani et al., *Attention is all you need*, arXiv 1706.03762, equation 1; blocked over queries with the
//! probabilities recomputed in backward from the kept log-sum-exp, as in Dao et al., *FlashAttention*, arXiv 2205.14135,
//! so that memory does not grow with T². Scores of future positions outside the block on the diagonal are never
//! computed. Attention dropout multiplies the probabilities by a mask, as in GPT-2.
//!
//! Sixteen queries are worked on at a time and stand side by side in the lanes of the vectors: scores are stored with one
//! row per key, so softmax and its gradient run down the rows without horizontal sums, and all products are calls of the
//! matrix kernel on the input where it lies. Backward, with p the probabilities, m the mask factors and D = Σ dO · O of a
//! query: `ds = p (m · (dO vᵀ) − D)/√d`, `dq = ds k`, `dk = dsᵀ q`, `dv = (p m)ᵀ dO`.

use burtorch_core::{Float, Number, Scalar};

use super::{check_probability, mismatch};
use crate::kernels::dispatch::kernel;
use crate::kernels::gemm::{Destination, Matrix, gemm, panel_len};
use crate::kernels::random::Mask;
use crate::kernels::rows::dot;
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// Causal self-attention. Input: `[B, T, 3C]`, queries, keys and values side by side, head h in columns
/// `h·C/heads..(h+1)·C/heads` of each → `[B, T, C]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CausalAttention {
    /// Number of heads; divides C.
    pub heads: usize,
    /// Probability of dropping an attention weight, 0 to 1. Active whatever the mode.
    pub dropout: f64,
    /// The mask's stream; differs from layer to layer.
    pub stream: u32,
}

/// Queries that are worked on side by side.
const LANES: usize = 16;

/// The sizes of one call.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    sequences: usize,
    time: usize,
    heads: usize,
    /// Dimensions of one head.
    width: usize,
}

impl Sizes {
    fn new(x: Shape, heads: usize) -> Self {
        let [sequences, time, columns] = x.dims() else {
            unreachable!("the shape rule asks for three dimensions")
        };
        Sizes {
            sequences: *sequences,
            time: *time,
            heads,
            width: columns / 3 / heads,
        }
    }

    /// Columns of the result; the input has three times as many.
    fn columns(&self) -> usize {
        self.heads * self.width
    }

    /// Numbers of one block of scores.
    fn scores(&self) -> usize {
        self.time * LANES
    }

    /// Numbers of scratch memory for the products.
    fn panel(&self) -> usize {
        panel_len(self.width.max(self.time).max(LANES))
    }

    /// Each head's blocks of queries, in an order in which every block of a head comes after its predecessors.
    fn blocks(self) -> impl Iterator<Item = Block> {
        (0..self.sequences * self.heads).flat_map(move |number| {
            (0..self.time).step_by(LANES).map(move |first| Block {
                sizes: self,
                sequence: number / self.heads,
                head: number % self.heads,
                first,
                lanes: (self.time - first).min(LANES),
            })
        })
    }
}

/// Up to sixteen queries of one head of one sequence.
#[derive(Debug, Clone, Copy)]
struct Block {
    sizes: Sizes,
    sequence: usize,
    head: usize,
    /// Position of the first query.
    first: usize,
    /// Number of queries.
    lanes: usize,
}

impl Block {
    /// Positions that the block's queries see.
    fn keys(&self) -> usize {
        self.first + self.lanes
    }

    /// Start of the query (part 0), key (1) or value (2) of a position in the input.
    fn input(&self, part: usize, position: usize) -> usize {
        let row = self.sequence * self.sizes.time + position;
        (3 * row + part) * self.sizes.columns() + self.head * self.sizes.width
    }

    /// Start of a position's result.
    fn result(&self, position: usize) -> usize {
        let row = self.sequence * self.sizes.time + position;
        row * self.sizes.columns() + self.head * self.sizes.width
    }

    /// The block's queries, `[lanes, width]`.
    fn queries<'a, T>(&self, x: &'a [T]) -> Matrix<'a, T> {
        let x = &x[self.input(0, self.first)..];
        Matrix::strided(x, self.lanes, self.sizes.width, 3 * self.sizes.columns())
    }

    /// The keys (part 1) or values (2) that the block sees, `[keys, width]`.
    fn seen<'a, T>(&self, part: usize, x: &'a [T]) -> Matrix<'a, T> {
        let x = &x[self.input(part, 0)..];
        Matrix::strided(x, self.keys(), self.sizes.width, 3 * self.sizes.columns())
    }

    /// The block's rows of the result or of its gradient, `[lanes, width]`.
    fn results<'a, T>(&self, y: &'a [T]) -> Matrix<'a, T> {
        let y = &y[self.result(self.first)..];
        Matrix::strided(y, self.lanes, self.sizes.width, self.sizes.columns())
    }

    /// Scores or weights, `[keys, lanes]`.
    fn scores<'a, T>(&self, scores: &'a [T]) -> Matrix<'a, T> {
        Matrix::strided(
            &scores[..self.keys() * LANES],
            self.keys(),
            self.lanes,
            LANES,
        )
    }

    /// Number of the block's first query among all.
    fn number(&self) -> usize {
        (self.sequence * self.sizes.heads + self.head) * self.sizes.time + self.first
    }

    /// Whether the query in a lane does not see a key.
    #[inline(always)]
    fn hides(&self, key: usize, lane: usize) -> bool {
        key > self.first + lane
    }

    /// The mask factors of one key's row of weights.
    #[inline(always)]
    fn factors<T: Element>(&self, mask: &Mask, key: usize) -> [T; LANES] {
        let start = self.number() * self.sizes.time + key;
        std::array::from_fn(|lane| T::from_f64(mask.factor(start + lane * self.sizes.time)))
    }
}

kernel! {
    /// Turns products of keys and queries into masked softmax weights; the log-sum-exp of each query goes into `kept`.
    fn weigh<'a, T>(scores: &'a mut [T], block: Block, scale: T, mask: Option<Mask>, kept: &'a mut [T]) {
        let (rows, _) = scores.as_chunks_mut::<LANES>();
        let mut top = [T::NEG_INFINITY; LANES];
        for (key, row) in rows.iter_mut().enumerate() {
            for lane in 0..LANES {
                let score = if block.hides(key, lane) { T::NEG_INFINITY } else { row[lane] * scale };
                row[lane] = score;
                top[lane] = if score > top[lane] { score } else { top[lane] };
            }
        }
        let mut total = [T::ZERO; LANES];
        for row in rows.iter_mut() {
            for lane in 0..LANES {
                row[lane] = (row[lane] - top[lane]).exp_fast::<S>();
                total[lane] += row[lane];
            }
        }
        let share: [T; LANES] = std::array::from_fn(|lane| T::ONE / total[lane]);
        for (key, row) in rows.iter_mut().enumerate() {
            let factors = mask.as_ref().map_or([T::ONE; LANES], |mask| block.factors(mask, key));
            for lane in 0..LANES {
                row[lane] *= share[lane] * factors[lane];
            }
        }
        for (lane, kept) in kept.iter_mut().enumerate() {
            *kept = top[lane] + total[lane].ln();
        }
    }
}

kernel! {
    /// Turns products of keys and queries in `scores` into weights times mask factors, and products of values and upstream
    /// gradients in `slopes` into gradients of the products in `scores`. `inner` is D of each query.
    fn weigh_backward<'a, T>(
        scores: &'a mut [T], slopes: &'a mut [T], block: Block, scale: T, mask: Option<Mask>, kept: &'a [T], inner: [T; LANES]
    ) {
        let mut log_total = [T::ZERO; LANES];
        log_total[..kept.len()].copy_from_slice(kept);
        let (rows, _) = scores.as_chunks_mut::<LANES>();
        let (slopes, _) = slopes.as_chunks_mut::<LANES>();
        for (key, (row, slopes)) in rows.iter_mut().zip(slopes).enumerate() {
            let factors = mask.as_ref().map_or([T::ONE; LANES], |mask| block.factors(mask, key));
            for lane in 0..LANES {
                let score = row[lane] * scale - log_total[lane];
                let score = if block.hides(key, lane) { T::NEG_INFINITY } else { score };
                let weight = score.exp_fast::<S>();
                slopes[lane] = weight * factors[lane].fma::<S>(slopes[lane], -inner[lane]) * scale;
                row[lane] = weight * factors[lane];
            }
        }
    }
}

kernel! {
    /// D of each query: upstream gradient times result.
    fn inner_products<'a, T>(y: &'a [T], dy: &'a [T], block: Block) -> [T; LANES] {
        let mut inner = [T::ZERO; LANES];
        for (lane, inner) in inner[..block.lanes].iter_mut().enumerate() {
            let start = block.result(block.first + lane);
            let row = start..start + block.sizes.width;
            *inner = dot::<T, S>(&y[row.clone()], &dy[row]);
        }
        inner
    }
}

impl CausalAttention {
    fn mask(&self, context: &Context<'_>) -> Option<Mask> {
        (self.dropout > 0.0).then(|| Mask::new(context.key, self.stream, self.dropout))
    }
}

impl Op<1> for CausalAttention {
    const NAME: &'static str = "causal attention";

    fn shape(&self, _: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
        check_probability("causal attention", self.dropout)?;
        let divides = |heads: usize| x.last().is_multiple_of(heads) && heads > 0;
        if x.rank() != 3 || !self.heads.checked_mul(3).is_some_and(divides) {
            return mismatch(
                "causal attention",
                format!("[B, T, 3C] with C a multiple of {} heads", self.heads),
                &[x],
            );
        }
        x.with_last(x.last() / 3)
    }

    fn saved(&self, [x]: [Shape; 1]) -> usize {
        x.rows() * self.heads
    }

    fn formula<S: Scalar>(&self, context: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        let sizes = Sizes::new(x.shape, self.heads);
        let mask = self.mask(context);
        let number = <S as Number>::Primal::from_f64;
        let scale = number(1.0 / (sizes.width as f64).sqrt());
        let columns = sizes.columns();
        let (mut weights, mut column) = (Vec::new(), Vec::new());
        for (row, x) in x.data.chunks_exact(3 * columns * sizes.time).enumerate() {
            for i in 0..sizes.time {
                for head in 0..sizes.heads {
                    let part = |part: usize, position: usize| {
                        &x[(3 * position + part) * columns + head * sizes.width..][..sizes.width]
                    };
                    let score = |j| S::dot(part(0, i), part(1, j)) * scale;
                    let scores: Vec<S> = (0..=i).map(score).collect();
                    weights.clone_from(&scores);
                    S::softmax(&scores, &mut weights);
                    if let Some(mask) = mask {
                        let first = ((row * sizes.heads + head) * sizes.time + i) * sizes.time;
                        for (j, weight) in weights.iter_mut().enumerate() {
                            *weight *= number(mask.factor(first + j));
                        }
                    }
                    for c in 0..sizes.width {
                        column.clear();
                        column.extend((0..=i).map(|j| part(2, j)[c]));
                        y.push(S::dot(&weights, &column));
                    }
                }
            }
        }
    }

    fn forward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        saved: &mut [T],
    ) {
        let sizes = Sizes::new(x.shape, self.heads);
        let mask = self.mask(&run.context);
        let scale = T::ONE / T::from_usize(sizes.width).sqrt();
        let (scores, panel) = run.scratch.take_two(sizes.scores(), sizes.panel());
        for block in sizes.blocks() {
            let scores = &mut scores[..block.keys() * LANES];
            let kept = &mut saved[block.number()..][..block.lanes];
            let products = Destination::set(scores, LANES);
            gemm(
                block.seen(1, x.data),
                block.queries(x.data).t(),
                products,
                panel,
            );
            weigh(scores, block, scale, mask, kept);
            let results = Destination::set(&mut y[block.result(block.first)..], sizes.columns());
            gemm(
                block.scores(scores).t(),
                block.seen(2, x.data),
                results,
                panel,
            );
        }
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &[T],
        saved: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        let Some(dx) = dx else { return };
        let sizes = Sizes::new(x.shape, self.heads);
        let mask = self.mask(&run.context);
        let scale = T::ONE / T::from_usize(sizes.width).sqrt();
        let stride = 3 * sizes.columns();
        let (scratch, panel) = run.scratch.take_two(2 * sizes.scores(), sizes.panel());
        let (scores, slopes) = scratch.split_at_mut(sizes.scores());
        for block in sizes.blocks() {
            let (queries, upstream) = (block.queries(x.data), block.results(dy));
            let len = block.keys() * LANES;
            let (scores, slopes) = (&mut scores[..len], &mut slopes[..len]);
            let kept = &saved[block.number()..][..block.lanes];
            gemm(
                block.seen(1, x.data),
                queries.t(),
                Destination::set(scores, LANES),
                panel,
            );
            gemm(
                block.seen(2, x.data),
                upstream.t(),
                Destination::set(slopes, LANES),
                panel,
            );
            let inner = inner_products(y, dy, block);
            weigh_backward(scores, slopes, block, scale, mask, kept, inner);
            let mut add =
                |a, b, start| gemm(a, b, Destination::add(&mut dx[start..], stride), panel);
            let (weights, slopes) = (block.scores(scores), block.scores(slopes));
            add(
                slopes.t(),
                block.seen(1, x.data),
                block.input(0, block.first),
            );
            add(slopes, queries, block.input(1, 0));
            add(weights, upstream, block.input(2, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, OpCheck};

    fn op(heads: usize, dropout: f64) -> CausalAttention {
        CausalAttention {
            heads,
            dropout,
            stream: 3,
        }
    }

    #[test]
    fn kernel_formula_and_differences_agree() {
        for (heads, shape) in [
            (1, [1, 1, 3]),
            (2, [2, 5, 12]),
            (3, [1, 17, 9]),
            (2, [1, 33, 54]),
            (1, [2, 8, 27]),
        ] {
            OpCheck::default().run(&op(heads, 0.0), &[&shape]).unwrap();
        }
    }

    #[test]
    fn f06_attention_dropout_uses_one_mask_for_both_directions() {
        for dropout in [0.3, 1.0] {
            let check = OpCheck {
                context: Context {
                    key: 11,
                    ..Context::default()
                },
                ..OpCheck::default()
            };
            check.run(&op(2, dropout), &[&[2, 19, 24]]).unwrap();
        }
    }

    #[test]
    fn refuses_heads_that_do_not_divide_the_width() {
        assert!(matches!(
            OpCheck::default().run(&op(5, 0.0), &[&[1, 2, 72]]),
            Err(Error::Mismatch { .. })
        ));
        for heads in [0, usize::MAX, usize::MAX / 3 + 1] {
            assert!(
                OpCheck::default()
                    .run(&op(heads, 0.0), &[&[1, 2, 72]])
                    .is_err()
            );
        }
        assert!(OpCheck::default().run(&op(1, 1.5), &[&[1, 2, 72]]).is_err());
        assert!(OpCheck::default().run(&op(1, 0.0), &[&[2, 72]]).is_err());
    }
}
