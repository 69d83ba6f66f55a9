//! Attention with a vector of queries side by side, one head after the other: for sequences of many positions.
//!
//! Scores are stored with one row per key, so softmax and its gradient run down the rows without horizontal sums, and keys and
//! values are read where they lie.

use pulp::Simd;

use super::{Backward, Forward, Sizes};
use crate::Element;
use crate::kernels::gemm::{Destination, Matrix, Multiply, lanes, multiply_columns, multiply_rows};
use crate::kernels::random::Mask;
use crate::kernels::transpose::transpose;
use crate::kernels::turn::MOST_LANES;

/// Numbers of scratch memory that this way needs at most, forward and backward, beside the panel.
pub(super) fn scratch_len(sizes: Sizes) -> usize {
    2 * (sizes.columns() + sizes.time) * MOST_LANES
}

impl Sizes {
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
    multiply_rows::<T, S, _, 8, 1>(simd, keys, queries, Destination::set(sums, lanes), lanes);
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
    multiply_columns::<T, S, _, 8, 1>(
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

/// The forward pass. Keeps for each block of queries of each head their largest scores, then 1 over their sums of exponentials.
#[inline(always)]
pub(super) fn forward<T: Element, S: Simd>(simd: S, work: Forward<'_, T>) {
    let (lanes, sizes) = (lanes::<T, S>(), work.sizes);
    let len = sizes.columns() * lanes;
    let (queries, rest) = work.scratch.split_at_mut(len);
    let (results, weights) = rest.split_at_mut(len);
    for block in sizes.blocks(lanes) {
        side_by_side::<T, S>(block.queries(work.x), sizes.scale(), queries);
        let heads = queries.chunks_exact_mut(sizes.width * lanes);
        for (head, (queries, results)) in heads
            .zip(results.chunks_exact_mut(sizes.width * lanes))
            .enumerate()
        {
            let weights = &mut weights[..block.keys() * lanes];
            multiply(simd, block.seen(1, head, work.x), queries, weights);
            block.hide(weights, lanes, T::NEG_INFINITY);
            let state = exponentials(simd, weights);
            block.drop_out(work.mask, head, weights, lanes);
            mix(simd, block.seen(2, head, work.x), weights, results);
            let (top, share) = T::numbers::<S>(&state).split_at(lanes);
            for result in T::vectors_mut::<S>(results).0 {
                *result = T::multiply_vectors(simd, *result, state[1]);
            }
            let saved = &mut work.saved[2 * block.number(head)..][..2 * block.queries];
            let (tops, shares) = saved.split_at_mut(block.queries);
            tops.copy_from_slice(&top[..block.queries]);
            shares.copy_from_slice(&share[..block.queries]);
        }
        let results = Matrix::strided(results, sizes.columns(), block.queries, lanes);
        let y = &mut work.y[block.result(block.first)..];
        transpose(results, y, sizes.columns(), |y, result| *y = result);
    }
}

/// The backward pass.
#[inline(always)]
pub(super) fn backward<T: Element, S: Simd>(simd: S, mut work: Backward<'_, T>) {
    let (lanes, sizes) = (lanes::<T, S>(), work.sizes);
    let (len, width) = (sizes.columns() * lanes, sizes.width * lanes);
    let scratch = std::mem::take(&mut work.scratch);
    let (queries, rest) = scratch.split_at_mut(len);
    let (upstream, rest) = rest.split_at_mut(len);
    let (weights, slopes) = rest.split_at_mut(sizes.time * lanes);
    for block in sizes.blocks(lanes) {
        let len = block.keys() * lanes;
        let (weights, slopes) = (&mut weights[..len], &mut slopes[..len]);
        side_by_side::<T, S>(block.queries(work.x), sizes.scale(), queries);
        side_by_side::<T, S>(block.results(work.dy), T::ONE, upstream);
        let heads = queries.chunks_exact_mut(width);
        for (head, (queries, upstream)) in heads.zip(upstream.chunks_exact_mut(width)).enumerate() {
            multiply(simd, block.seen(1, head, work.x), queries, weights);
            multiply(simd, block.seen(2, head, work.x), upstream, slopes);
            work.differentiate(simd, block, head, weights, slopes);
            work.add_keys_and_values(simd, block, head, weights, slopes);
            mix(simd, block.seen(1, head, work.x), slopes, queries);
        }
        let queries = Matrix::strided(queries, sizes.columns(), block.queries, lanes);
        let dx = &mut work.dx[block.input(0, block.first)..];
        transpose(queries, dx, 3 * sizes.columns(), |dx, x| *dx += x);
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
