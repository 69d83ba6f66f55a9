//! Attention with the heads of all sequences side by side, a lane each: for sequences so short that their queries do not fill
//! a vector.
//!
//! Heads do not know each other, so every lane computes the formulas as they stand, and positions that a query does not see
//! cost nothing. Queries (times 1/√width), keys and values are turned into vectors that hold the same number of each head.

use pulp::Simd;

use super::{Backward, Forward, Sizes};
use crate::Element;
use crate::kernels::gemm::lanes;
use crate::kernels::random::Mask;
use crate::kernels::turn::MOST_LANES;
use crate::kernels::vectors::map;

/// Whether this way takes fewer scores than [queries side by side](super::queries): for each vector of heads the square below the
/// diagonal, instead of the whole square of each head.
#[inline(always)]
pub(super) fn pay(sizes: Sizes, lanes: usize) -> bool {
    let heads = sizes.sequences * sizes.heads;
    sizes.time <= lanes && heads.div_ceil(lanes) * (sizes.time + 1) <= 2 * heads
}

/// Numbers of scratch memory that this way needs at most, forward and backward.
pub(super) fn scratch_len(sizes: Sizes) -> usize {
    let Sizes { time, width, .. } = sizes;
    match time {
        0..=MOST_LANES => time * (5 * width + 2 * time) * MOST_LANES,
        _ => 0,
    }
}

/// The heads of one vector: neighbours, counted through all sequences.
struct Group {
    sizes: Sizes,
    first: usize,
    count: usize,
    /// Where each lane's head begins in the input and in the result. Lanes without a head repeat the last one.
    inputs: [usize; MOST_LANES],
    results: [usize; MOST_LANES],
}

impl Group {
    #[inline(always)]
    fn new(sizes: Sizes, first: usize, lanes: usize) -> Self {
        let count = lanes.min(sizes.sequences * sizes.heads - first);
        let (mut inputs, mut results) = ([0; MOST_LANES], [0; MOST_LANES]);
        let (mut sequence, mut head) = (first / sizes.heads, first % sizes.heads);
        for lane in 0..lanes {
            let row = sequence * sizes.time * sizes.columns();
            inputs[lane] = 3 * row + head * sizes.width;
            results[lane] = row + head * sizes.width;
            if lane + 1 < count {
                head += 1;
                if head == sizes.heads {
                    (sequence, head) = (sequence + 1, 0);
                }
            }
        }
        Group {
            sizes,
            first,
            count,
            inputs,
            results,
        }
    }

    /// All groups of vectors with this many lanes.
    #[inline(always)]
    fn all(sizes: Sizes, lanes: usize) -> impl Iterator<Item = Self> {
        let heads = (0..sizes.sequences * sizes.heads).step_by(lanes);
        heads.map(move |first| Group::new(sizes, first, lanes))
    }

    /// Queries (times 1/√width), keys and values of all positions, one after the other.
    #[inline(always)]
    fn gather_inputs<T: Element, S: Simd>(&self, simd: S, x: &[T], vectors: &mut [T]) {
        let Sizes { time, width, .. } = self.sizes;
        let (lanes, columns) = (lanes::<T, S>(), self.sizes.columns());
        for part in 0..3 {
            for position in 0..time {
                let row = &mut vectors[(part * time + position) * width * lanes..];
                let offset = (3 * position + part) * columns;
                gather(
                    simd,
                    x,
                    &self.inputs[..lanes],
                    offset,
                    &mut row[..width * lanes],
                );
            }
        }
        let scale = self.sizes.scale::<T>().splat(simd);
        let (vectors, _) = T::vectors_mut::<S>(vectors);
        for query in &mut vectors[..time * width] {
            *query = T::multiply_vectors(simd, *query, scale);
        }
    }

    /// Multiplies the weights of a position by their mask factors.
    #[inline(always)]
    fn drop_out<T: Element, S: Simd>(
        &self,
        mask: Option<Mask>,
        position: usize,
        weights: &mut [T::Vector<S>],
    ) {
        let Some(mask) = mask else { return };
        let (time, lanes) = (self.sizes.time, lanes::<T, S>());
        for (key, weights) in T::numbers_mut::<S>(weights)
            .chunks_exact_mut(lanes)
            .enumerate()
        {
            let start = (self.first * time + position) * time + key;
            for (lane, weight) in weights.iter_mut().enumerate() {
                *weight *= T::from_f64(mask.factor(start + lane * time * time));
            }
        }
    }
}

/// The numbers of a row that begins at `offset` from each start become one vector each.
#[inline(always)]
fn gather<T: Element, S: Simd>(
    simd: S,
    source: &[T],
    starts: &[usize],
    offset: usize,
    vectors: &mut [T],
) {
    let width = vectors.len() / starts.len();
    let mut rows: [&[T]; MOST_LANES] = [&[]; MOST_LANES];
    for (row, start) in rows.iter_mut().zip(starts) {
        *row = &source[start + offset..][..width];
    }
    T::rows_to_lanes(simd, &rows[..starts.len()], vectors, starts.len());
}

/// The way back of [`gather`], for the lanes that have a start: calls `f` for every number of the target and what belongs to it.
#[inline(always)]
fn scatter<T: Element, S: Simd>(
    simd: S,
    vectors: &[T],
    target: &mut [T],
    starts: &[usize],
    offset: usize,
    f: impl Fn(&mut T, T),
) {
    let lanes = lanes::<T, S>();
    let fours = vectors.chunks_exact(4 * lanes);
    let rest = fours.remainder();
    let width = vectors.len() / lanes;
    for (i, vectors) in fours.enumerate() {
        let rows = T::lanes_to_rows(simd, vectors);
        for (start, row) in starts.iter().zip(&rows) {
            let target = &mut target[start + offset + 4 * i..][..4];
            (0..4).for_each(|k| f(&mut target[k], row[k]));
        }
    }
    for (lane, start) in starts.iter().enumerate() {
        let target = &mut target[start + offset..][..width];
        for (target, vector) in target[width / 4 * 4..]
            .iter_mut()
            .zip(rest.chunks_exact(lanes))
        {
            f(target, vector[lane]);
        }
    }
}

/// `Σ a b` over the numbers of a row, lane by lane.
#[inline(always)]
fn dot<T: Element, S: Simd, const W: usize>(
    simd: S,
    a: &[[T::Vector<S>; W]],
    b: &[[T::Vector<S>; W]],
) -> T::Vector<S> {
    let mut sum = T::ZERO.splat(simd);
    for (a, b) in a.iter().zip(b) {
        for i in 0..W {
            sum = T::fma_vectors(simd, a[i], b[i], sum);
        }
    }
    sum
}

/// `sums += weight · row` for `W` numbers of a row.
#[inline(always)]
fn add_product<T: Element, S: Simd, const W: usize>(
    simd: S,
    sums: &mut [T::Vector<S>; W],
    weight: T::Vector<S>,
    row: &[T::Vector<S>; W],
) {
    for i in 0..W {
        sums[i] = T::fma_vectors(simd, weight, row[i], sums[i]);
    }
}

/// `factor · Σ weights[i] · rows[i]`; a row has as many parts of `W` numbers as the result.
#[inline(always)]
fn mix<T: Element, S: Simd, const W: usize>(
    simd: S,
    weights: &[T::Vector<S>],
    rows: &[[T::Vector<S>; W]],
    factor: T::Vector<S>,
    result: &mut [[T::Vector<S>; W]],
) {
    let parts = result.len();
    for (part, result) in result.iter_mut().enumerate() {
        let mut sums = [T::ZERO.splat(simd); W];
        for (&weight, row) in weights.iter().zip(rows.chunks_exact(parts)) {
            add_product::<T, S, W>(simd, &mut sums, weight, &row[part]);
        }
        for i in 0..W {
            result[i] = T::multiply_vectors(simd, sums[i], factor);
        }
    }
}

/// exp(score − top) of some scores, which they are overwritten with.
#[inline(always)]
fn exponentials<T: Element, S: Simd>(simd: S, scores: &mut [T::Vector<S>], top: T::Vector<S>) {
    for score in scores {
        let below = T::subtract_vectors(simd, *score, top);
        *score = map::<T, S>(below, |x| x.exp_fast::<S>());
    }
}

/// The forward pass. Keeps for each position the largest score of every head, then 1 over the sums of exponentials.
#[inline(always)]
pub(super) fn forward<T: Element, S: Simd>(simd: S, work: Forward<'_, T>) {
    match work.sizes.width % 4 {
        0 => forward_in_parts::<T, S, 4>(simd, work),
        _ => forward_in_parts::<T, S, 1>(simd, work),
    }
}

/// Goes over the numbers of a head in parts of `W`.
#[inline(always)]
fn forward_in_parts<T: Element, S: Simd, const W: usize>(simd: S, work: Forward<'_, T>) {
    let (lanes, sizes) = (lanes::<T, S>(), work.sizes);
    let Sizes { time, width, .. } = sizes;
    let (parts, len) = (width / W, time * (width / W));
    for group in Group::all(sizes, lanes) {
        group.gather_inputs(simd, work.x, work.scratch);
        let (rows, weights) = work.scratch.split_at_mut(3 * time * width * lanes);
        let (rows, _) = T::vectors_mut::<S>(rows).0.as_chunks_mut::<W>();
        let (queries, rest) = rows.split_at_mut(len);
        let (keys, values) = rest.split_at_mut(len);
        let (weights, _) = T::vectors_mut::<S>(weights);
        for (position, query) in queries.chunks_exact_mut(parts).enumerate() {
            let weights = &mut weights[..=position];
            let mut top = T::NEG_INFINITY.splat(simd);
            for (weight, key) in weights.iter_mut().zip(keys.chunks_exact(parts)) {
                *weight = dot::<T, S, W>(simd, query, key);
                top = T::max_vectors(simd, top, *weight);
            }
            exponentials::<T, S>(simd, weights, top);
            let mut total = T::ZERO.splat(simd);
            for &mut weight in &mut *weights {
                total = T::add_vectors(simd, total, weight);
            }
            let share = map::<T, S>(total, |total| T::ONE / total);
            group.drop_out::<T, S>(work.mask, position, weights);
            mix::<T, S, W>(simd, weights, values, share, query); // in the place of the query
            let heads = sizes.sequences * sizes.heads;
            let saved = &mut work.saved[2 * position * heads + group.first..];
            T::store_part(simd, &mut saved[..group.count], top);
            T::store_part(simd, &mut saved[heads..][..group.count], share);
        }
        let results = &group.results[..group.count];
        let rows = work.scratch[..time * width * lanes].chunks_exact(width * lanes);
        for (position, row) in rows.enumerate() {
            let offset = position * sizes.columns();
            scatter(simd, row, work.y, results, offset, |y, x| *y = x);
        }
    }
}

/// The backward pass.
#[inline(always)]
pub(super) fn backward<T: Element, S: Simd>(simd: S, work: Backward<'_, T>) {
    match work.sizes.width % 4 {
        0 => backward_in_parts::<T, S, 4>(simd, work),
        _ => backward_in_parts::<T, S, 1>(simd, work),
    }
}

/// Goes over the numbers of a head in parts of `W`.
#[inline(always)]
fn backward_in_parts<T: Element, S: Simd, const W: usize>(simd: S, mut work: Backward<'_, T>) {
    let (lanes, sizes) = (lanes::<T, S>(), work.sizes);
    let Sizes { time, width, .. } = sizes;
    let (parts, len) = (width / W, time * (width / W));
    let row_len = width * lanes;
    let scratch = std::mem::take(&mut work.scratch);
    let (rows, matrices) = scratch.split_at_mut(5 * time * row_len);
    let (matrices, _) = T::vectors_mut::<S>(matrices);
    let (weights, rest) = matrices.split_at_mut(time * time);
    let slopes = &mut rest[..time * time];
    for group in Group::all(sizes, lanes) {
        group.gather_inputs(simd, work.x, rows);
        let upstream = rows[3 * time * row_len..].chunks_exact_mut(row_len);
        for (position, row) in upstream.take(time).enumerate() {
            let starts = &group.results[..lanes];
            gather(simd, work.dy, starts, position * sizes.columns(), row);
        }
        let (parts_of_rows, _) = T::vectors_mut::<S>(rows).0.as_chunks_mut::<W>();
        let (queries, rest) = parts_of_rows.split_at_mut(len);
        let (keys, rest) = rest.split_at_mut(len);
        let (values, rest) = rest.split_at_mut(len);
        let (upstream, gradients) = rest.split_at_mut(len);
        for position in 0..time {
            let here = position * parts..(position + 1) * parts;
            let weights = &mut weights[position * time..][..=position];
            let slopes = &mut slopes[position * time..][..=position];
            let seen = keys.chunks_exact(parts).zip(values.chunks_exact(parts));
            for ((weight, slope), (key, value)) in weights.iter_mut().zip(&mut *slopes).zip(seen) {
                *weight = dot::<T, S, W>(simd, &queries[here.clone()], key);
                *slope = dot::<T, S, W>(simd, &upstream[here.clone()], value);
            }
            differentiate(&work, simd, &group, position, weights, slopes);
            let scale = sizes.scale::<T>().splat(simd);
            mix::<T, S, W>(simd, slopes, keys, scale, &mut gradients[here]);
        }
        // From here on keys and values make room for their gradients.
        for key in 0..time {
            for part in 0..parts {
                let place = key * parts + part;
                let mut sums = [[T::ZERO.splat(simd); W]; 2];
                for position in key..time {
                    let (row, pair) = (position * parts + part, position * time + key);
                    add_product::<T, S, W>(simd, &mut sums[0], slopes[pair], &queries[row]);
                    add_product::<T, S, W>(simd, &mut sums[1], weights[pair], &upstream[row]);
                }
                [keys[place], values[place]] = sums;
            }
        }
        let starts = &group.inputs[..group.count];
        for (source, part) in [(4, 0), (1, 1), (2, 2)] {
            let rows = rows[source * time * row_len..].chunks_exact(row_len);
            for (position, row) in rows.take(time).enumerate() {
                let offset = (3 * position + part) * sizes.columns();
                scatter(simd, row, work.dx, starts, offset, |dx, x| *dx += x);
            }
        }
    }
}

/// Turns scores and products of values with upstream gradients into weights times mask factors, and gradients of the
/// scores.
#[inline(always)]
fn differentiate<T: Element, S: Simd>(
    work: &Backward<'_, T>,
    simd: S,
    group: &Group,
    position: usize,
    weights: &mut [T::Vector<S>],
    slopes: &mut [T::Vector<S>],
) {
    let heads = work.sizes.sequences * work.sizes.heads;
    let saved = &work.saved[2 * position * heads + group.first..];
    let top = T::load_part(simd, &saved[..group.count]);
    let share = T::load_part(simd, &saved[heads..][..group.count]);
    exponentials::<T, S>(simd, weights, top);
    group.drop_out::<T, S>(work.mask, position, slopes);
    let mut inner = T::ZERO.splat(simd);
    for (weight, &slope) in weights.iter_mut().zip(&*slopes) {
        *weight = T::multiply_vectors(simd, *weight, share);
        inner = T::fma_vectors(simd, *weight, slope, inner);
    }
    for (slope, &weight) in slopes.iter_mut().zip(&*weights) {
        let beyond = T::subtract_vectors(simd, *slope, inner);
        *slope = T::multiply_vectors(simd, weight, beyond);
    }
    group.drop_out::<T, S>(work.mask, position, weights);
}
