//! Multi-head causal self-attention: for each head, `softmax(q kᵀ/√d + mask) v`, position t seeing positions 0..=t.
//!
//! Source: Vaswani et al., *Attention is all you need*, arXiv 1706.03762, equation 1; blocked over queries with the
//! probabilities recomputed in backward from the largest score and the sum kept of each query, as in Dao et al.,
//! *FlashAttention*, arXiv 2205.14135, so that memory does not grow with T². Scores of future positions outside the block on the diagonal are never
//! computed. Attention dropout multiplies the probabilities by a mask, as in GPT-2.
//!
//! As many queries as a vector has lanes are worked on side by side: scores are stored with one row per key, so softmax and
//! its gradient run down the rows without horizontal sums, and keys and values are read where they lie. Backward, with p the
//! probabilities, m the mask factors and D = Σⱼ pⱼ mⱼ (dO vⱼ) of a query: `ds = p (m · (dO vᵀ) − D)/√d`, `dq = ds k`,
//! `dk = dsᵀ q`, `dv = (p m)ᵀ dO`.
//!
//! Queries in one vector are multiplied with the keys and values of all of them, by a probability of 0 beyond the diagonal. So an
//! infinity or NaN at a position reaches also the few positions before it that lie in the same vector; how many depends on the machine.

use burtorch_core::{Float, Number, Scalar};

use super::{check_probability, mismatch};
use pulp::{Simd, WithSimd};

use crate::kernels::dispatch;
use crate::kernels::gemm::{
    Destination, Matrix, Multiply, lanes, multiply_columns, multiply_rows, panel_len,
};
use crate::kernels::random::Mask;
use crate::kernels::transpose::transpose;
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

/// The most lanes of a vector: sixteen f32.
const MOST_LANES: usize = 16;

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

    /// 1/√width.
    fn scale<T: Element>(&self) -> T {
        T::ONE / T::from_usize(self.width).sqrt()
    }

    /// Columns of the result; the input has three times as many.
    fn columns(&self) -> usize {
        self.heads * self.width
    }

    /// The blocks of `lanes` queries, in an order in which every block comes after its predecessors of the same sequence.
    #[inline(always)]
    fn blocks(self, lanes: usize) -> impl Iterator<Item = Block> {
        (0..self.sequences).flat_map(move |sequence| {
            (0..self.time).step_by(lanes).map(move |first| Block {
                sizes: self,
                sequence,
                first,
                queries: (self.time - first).min(lanes),
            })
        })
    }
}

/// Up to a vector of neighbouring queries of one sequence.
#[derive(Debug, Clone, Copy)]
struct Block {
    sizes: Sizes,
    sequence: usize,
    /// Position of the first query.
    first: usize,
    /// Number of queries.
    queries: usize,
}

impl Block {
    /// Positions that the block's queries see.
    fn keys(&self) -> usize {
        self.first + self.queries
    }

    /// Start of the queries (part 0), keys (1) or values (2) of a position in the input.
    fn input(&self, part: usize, position: usize) -> usize {
        let row = self.sequence * self.sizes.time + position;
        (3 * row + part) * self.sizes.columns()
    }

    /// Start of a position's result.
    fn result(&self, position: usize) -> usize {
        (self.sequence * self.sizes.time + position) * self.sizes.columns()
    }

    /// The block's queries of all heads, `[queries, C]`.
    fn queries<'a, T>(&self, x: &'a [T]) -> Matrix<'a, T> {
        let (x, columns) = (&x[self.input(0, self.first)..], self.sizes.columns());
        Matrix::strided(x, self.queries, columns, 3 * columns)
    }

    /// The block's rows of the gradient of the result, `[queries, C]`.
    fn results<'a, T>(&self, dy: &'a [T]) -> Matrix<'a, T> {
        let dy = &dy[self.result(self.first)..];
        Matrix::strided(dy, self.queries, self.sizes.columns(), self.sizes.columns())
    }

    /// The keys (part 1) or values (2) of one head that the block sees, `[keys, width]`.
    fn seen<'a, T>(&self, part: usize, head: usize, x: &'a [T]) -> Matrix<'a, T> {
        let Sizes { width, .. } = self.sizes;
        let x = &x[self.input(part, 0) + head * width..];
        Matrix::strided(x, self.keys(), width, 3 * self.sizes.columns())
    }

    /// Number of a head's first query of the block among all queries of all heads.
    fn number(&self, head: usize) -> usize {
        (self.sequence * self.sizes.heads + head) * self.sizes.time + self.first
    }

    /// Overwrites what belongs to keys that come after the query of the lane.
    #[inline(always)]
    fn hide<T: Element>(&self, rows: &mut [T], lanes: usize, value: T) {
        hide(&mut rows[self.first * lanes..], lanes, value);
    }

    /// Multiplies each key's row by its mask factors.
    #[inline(always)]
    fn drop_out<T: Element>(&self, mask: Option<Mask>, head: usize, rows: &mut [T], lanes: usize) {
        let Some(mask) = mask else { return };
        for (key, row) in rows.chunks_exact_mut(lanes).enumerate() {
            let start = self.number(head) * self.sizes.time + key;
            for (lane, number) in row.iter_mut().enumerate() {
                *number *= T::from_f64(mask.factor(start + lane * self.sizes.time));
            }
        }
    }
}

/// Overwrites what belongs to keys that come after the query of the lane; the first row is that of the first lane's own key.
#[inline(always)]
pub(crate) fn hide<T: Element>(rows: &mut [T], lanes: usize, value: T) {
    for (hidden, row) in rows.chunks_exact_mut(lanes).enumerate() {
        for (lane, number) in row.iter_mut().enumerate() {
            *number = if lane < hidden { value } else { *number };
        }
    }
}

/// Rows of a matrix as columns side by side, times a factor: one vector for each column of the matrix.
#[inline(always)]
pub(crate) fn side_by_side<T: Element, S: Simd>(rows: Matrix<'_, T>, factor: T, columns: &mut [T]) {
    transpose(rows, columns, lanes::<T, S>(), |target, x| {
        *target = x * factor
    });
}

/// Products of keys with a vector of queries: `sums[j] = Σ_d keys[j][d] · queries[d]`.
#[inline(always)]
fn multiply<T: Element, S: Simd>(simd: S, keys: Matrix<'_, T>, queries: &mut [T], sums: &mut [T]) {
    let (queries, _) = T::vectors_mut::<S>(queries).0.as_chunks::<1>();
    let lanes = lanes::<T, S>();
    multiply_rows::<T, S, 8, 1>(simd, keys, queries, Destination::set(sums, lanes), lanes);
}

/// Sums over keys: `sums[d] = Σ_j weights[j] · values[j][d]`.
#[inline(always)]
pub(crate) fn mix<T: Element, S: Simd>(
    simd: S,
    values: Matrix<'_, T>,
    weights: &mut [T],
    sums: &mut [T],
) {
    let (weights, _) = T::vectors_mut::<S>(weights).0.as_chunks::<1>();
    let (lanes, sums) = (lanes::<T, S>(), &mut sums[..]);
    multiply_columns::<T, S, 8, 1>(
        simd,
        values.t(),
        weights,
        Destination::set(sums, lanes),
        lanes,
    );
}

/// Turns scores into exp(score − largest); the largest and one over the sum for each query.
#[inline(always)]
pub(crate) fn exponentials<T: Element, S: Simd>(simd: S, scores: &mut [T]) -> [T::Vector<S>; 2] {
    let mut top = T::NEG_INFINITY.splat(simd);
    for &mut score in T::vectors_mut::<S>(scores).0 {
        top = T::max_vectors(simd, top, score);
    }
    for scores in scores.chunks_exact_mut(lanes::<T, S>()) {
        for (score, &top) in scores.iter_mut().zip(T::numbers::<S>(&[top])) {
            *score = (*score - top).exp_fast::<S>();
        }
    }
    let mut total = T::ZERO.splat(simd);
    for &mut exponential in T::vectors_mut::<S>(scores).0 {
        total = T::add_vectors(simd, total, exponential);
    }
    let mut share = [total];
    T::numbers_mut::<S>(&mut share)
        .iter_mut()
        .for_each(|total| *total = T::ONE / *total);
    [top, share[0]]
}

struct Forward<'a, T> {
    sizes: Sizes,
    mask: Option<Mask>,
    x: &'a [T],
    y: &'a mut [T],
    saved: &'a mut [T],
    scratch: &'a mut [T],
}

impl<T: Element> WithSimd for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (lanes, sizes) = (lanes::<T, S>(), self.sizes);
        let len = sizes.columns() * lanes;
        let (queries, rest) = self.scratch.split_at_mut(len);
        let (results, weights) = rest.split_at_mut(len);
        for block in sizes.blocks(lanes) {
            side_by_side::<T, S>(block.queries(self.x), sizes.scale(), queries);
            let heads = queries.chunks_exact_mut(sizes.width * lanes);
            for (head, (queries, results)) in heads
                .zip(results.chunks_exact_mut(sizes.width * lanes))
                .enumerate()
            {
                let weights = &mut weights[..block.keys() * lanes];
                multiply(simd, block.seen(1, head, self.x), queries, weights);
                block.hide(weights, lanes, T::NEG_INFINITY);
                let state = exponentials(simd, weights);
                block.drop_out(self.mask, head, weights, lanes);
                mix(simd, block.seen(2, head, self.x), weights, results);
                let (top, share) = T::numbers::<S>(&state).split_at(lanes);
                for result in T::vectors_mut::<S>(results).0 {
                    *result = T::multiply_vectors(simd, *result, state[1]);
                }
                let saved = &mut self.saved[2 * block.number(head)..][..2 * block.queries];
                let (tops, shares) = saved.split_at_mut(block.queries);
                tops.copy_from_slice(&top[..block.queries]);
                shares.copy_from_slice(&share[..block.queries]);
            }
            let results = Matrix::strided(results, sizes.columns(), block.queries, lanes);
            let y = &mut self.y[block.result(block.first)..];
            transpose(results, y, sizes.columns(), |y, result| *y = result);
        }
    }
}

struct Backward<'a, T> {
    sizes: Sizes,
    mask: Option<Mask>,
    x: &'a [T],
    saved: &'a [T],
    dy: &'a [T],
    dx: &'a mut [T],
    scratch: &'a mut [T],
    panel: &'a mut [T],
}

impl<T: Element> WithSimd for Backward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (lanes, sizes) = (lanes::<T, S>(), self.sizes);
        let (len, width) = (sizes.columns() * lanes, sizes.width * lanes);
        let scratch = std::mem::take(&mut self.scratch);
        let (queries, rest) = scratch.split_at_mut(len);
        let (upstream, rest) = rest.split_at_mut(len);
        let (weights, slopes) = rest.split_at_mut(sizes.time * lanes);
        for block in sizes.blocks(lanes) {
            let len = block.keys() * lanes;
            let (weights, slopes) = (&mut weights[..len], &mut slopes[..len]);
            side_by_side::<T, S>(block.queries(self.x), sizes.scale(), queries);
            side_by_side::<T, S>(block.results(self.dy), T::ONE, upstream);
            let heads = queries.chunks_exact_mut(width);
            for (head, (queries, upstream)) in
                heads.zip(upstream.chunks_exact_mut(width)).enumerate()
            {
                multiply(simd, block.seen(1, head, self.x), queries, weights);
                multiply(simd, block.seen(2, head, self.x), upstream, slopes);
                self.differentiate(simd, block, head, weights, slopes);
                self.add_keys_and_values(simd, block, head, weights, slopes);
                mix(simd, block.seen(1, head, self.x), slopes, queries);
            }
            let queries = Matrix::strided(queries, sizes.columns(), block.queries, lanes);
            let dx = &mut self.dx[block.input(0, block.first)..];
            transpose(queries, dx, 3 * sizes.columns(), |dx, x| *dx += x);
        }
    }
}

impl<T: Element> Backward<'_, T> {
    /// Turns scores and products of values with upstream gradients into weights times mask factors, and gradients of the
    /// products of queries and keys.
    #[inline(always)]
    fn differentiate<S: Simd>(
        &self,
        simd: S,
        block: Block,
        head: usize,
        weights: &mut [T],
        slopes: &mut [T],
    ) {
        let lanes = lanes::<T, S>();
        block.hide(weights, lanes, T::NEG_INFINITY);
        block.hide(slopes, lanes, T::ZERO);
        block.drop_out(self.mask, head, slopes, lanes);
        let saved = &self.saved[2 * block.number(head)..][..2 * block.queries];
        let (top, share) = saved.split_at(block.queries);
        let state = [T::load_part(simd, top), T::load_part(simd, share)];
        let (top, share) = T::numbers::<S>(&state).split_at(lanes);
        for weights in weights.chunks_exact_mut(lanes) {
            for ((weight, &top), &share) in weights.iter_mut().zip(top).zip(share) {
                *weight = (*weight - top).exp_fast::<S>() * share;
            }
        }
        let mut inner = T::ZERO.splat(simd);
        let both = T::vectors_mut::<S>(weights).0.iter();
        for (&weight, &mut slope) in both.zip(T::vectors_mut::<S>(slopes).0) {
            inner = T::fma_vectors(simd, weight, slope, inner);
        }
        let inner = T::numbers::<S>(std::slice::from_ref(&inner));
        let scale = self.sizes.scale::<T>();
        let rows = weights.chunks_exact(lanes);
        for (slopes, weights) in slopes.chunks_exact_mut(lanes).zip(rows) {
            for ((slope, &weight), &inner) in slopes.iter_mut().zip(weights).zip(inner) {
                *slope = weight * (*slope - inner) * scale;
            }
        }
        block.drop_out(self.mask, head, weights, lanes);
    }

    /// Adds the gradients of one head's keys and values.
    #[inline(always)]
    fn add_keys_and_values<S: Simd>(
        &mut self,
        simd: S,
        block: Block,
        head: usize,
        weights: &[T],
        slopes: &[T],
    ) {
        let (lanes, Sizes { width, .. }) = (lanes::<T, S>(), self.sizes);
        let per_key = |numbers| Matrix::strided(numbers, block.keys(), block.queries, lanes);
        for (part, a, b) in [
            (1, per_key(slopes), block.queries(self.x)),
            (2, per_key(weights), block.results(self.dy)),
        ] {
            let c = &mut self.dx[block.input(part, 0) + head * width..];
            simd.vectorize(Multiply {
                a,
                b: b.columns(head * width, width),
                c: Destination::add(c, 3 * self.sizes.columns()),
                panel: self.panel,
            });
        }
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
        2 * x.rows() * self.heads
    }

    fn scratch(&self, [x]: [Shape; 1]) -> usize {
        let sizes = Sizes::new(x, self.heads);
        2 * (sizes.columns() + sizes.time) * MOST_LANES + panel_len(MOST_LANES)
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
        dispatch::arch().dispatch(Forward {
            sizes,
            mask: self.mask(&run.context),
            x: x.data,
            y,
            saved,
            scratch: run.scratch,
        });
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        _: &[T],
        saved: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        let Some(dx) = dx else { return };
        let sizes = Sizes::new(x.shape, self.heads);
        let len = 2 * (sizes.columns() + sizes.time) * MOST_LANES;
        let (scratch, panel) = run.scratch.split_at_mut(len);
        dispatch::arch().dispatch(Backward {
            sizes,
            mask: self.mask(&run.context),
            x: x.data,
            saved,
            dy,
            dx,
            scratch,
            panel,
        });
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
