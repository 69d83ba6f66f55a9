//! Multi-head causal self-attention: for each head, `softmax(q kᵀ/√d + mask) v`, position t seeing positions 0..=t.
//!
//! Source: Vaswani et al., *Attention is all you need*, arXiv 1706.03762, equation 1; blocked over queries with the
//! probabilities recomputed in backward from the kept log-sum-exp, as in Dao et al., *FlashAttention*, arXiv 2205.14135,
//! so that memory does not grow with T². Scores of future positions outside the block on the diagonal are never
//! computed. Attention dropout multiplies the probabilities by a mask, as in GPT-2.
//!
//! Sixteen queries stand side by side in the lanes of the vectors: queries and the gradients of results are transposed
//! into the scratch memory first, and every loop then runs over keys or head dimensions without horizontal sums.
//! Backward, with p the probabilities, m the mask factors and D = Σ dO · O of a query:
//! `ds = p (m · (dO vᵀ) − D)/√d`, `dq = ds k`, `dk = dsᵀ q`, `dv = (p m)ᵀ dO`.

use burtorch_core::{Float, Number, Scalar};
use pulp::Simd;

use super::{check_probability, mismatch};
use crate::kernels::dispatch::kernel;
use crate::kernels::random::Mask;
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
/// Keys or head dimensions whose sums are held in registers together.
const TILE: usize = 4;

type Lanes<T> = [T; LANES];

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

    /// Columns of a row of the input and of the result.
    fn columns(&self) -> (usize, usize) {
        (3 * self.heads * self.width, self.heads * self.width)
    }
}

/// One head of one sequence: where its rows are in the input, the result and the kept numbers.
#[derive(Debug, Clone, Copy)]
struct Head {
    sizes: Sizes,
    sequence: usize,
    head: usize,
}

impl Head {
    /// Start of the query (part 0), key (1) or value (2) of a position.
    #[inline(always)]
    fn input(&self, part: usize, position: usize) -> usize {
        let (columns, result) = self.sizes.columns();
        (self.sequence * self.sizes.time + position) * columns
            + part * result
            + self.head * self.sizes.width
    }

    /// Start of a position's result.
    #[inline(always)]
    fn result(&self, position: usize) -> usize {
        (self.sequence * self.sizes.time + position) * self.sizes.columns().1
            + self.head * self.sizes.width
    }

    /// Number of a position among the kept numbers, and of its first weight among all weights.
    #[inline(always)]
    fn number(&self, position: usize) -> usize {
        (self.sequence * self.sizes.heads + self.head) * self.sizes.time + position
    }

    #[inline(always)]
    fn slice<'a, T>(&self, x: &'a [T], start: usize) -> &'a [T] {
        &x[start..start + self.sizes.width]
    }

    /// The mask factors of sixteen queries from `first` on, for one key.
    #[inline(always)]
    fn factors<T: Element>(&self, mask: &Mask, first: usize, key: usize) -> Lanes<T> {
        let start = self.number(first) * self.sizes.time + key;
        std::array::from_fn(|lane| T::from_f64(mask.factor(start + lane * self.sizes.time)))
    }
}

/// Copies the rows that `start` gives for sixteen positions from `first` on into columns; zeros beyond the end.
#[inline(always)]
fn transpose<T: Element>(
    head: Head,
    x: &[T],
    first: usize,
    start: impl Fn(usize) -> usize,
    columns: &mut [Lanes<T>],
) {
    let inside = (head.sizes.time - first).min(LANES);
    if inside < LANES {
        columns.as_flattened_mut().fill(T::ZERO);
    }
    for lane in 0..inside {
        for (column, &x) in columns.iter_mut().zip(head.slice(x, start(first + lane))) {
            column[lane] = x;
        }
    }
}

/// `sums[r] = Σ_c rows[r][c] · columns[c]`: up to `R` dot products of a row with sixteen columns.
#[inline(always)]
fn rows_times_columns<T: Element, S: Simd, const R: usize>(
    rows: [&[T]; R],
    columns: &[Lanes<T>],
) -> [Lanes<T>; R] {
    let mut sums = [[T::ZERO; LANES]; R];
    let rows = rows.map(|row| &row[..columns.len()]);
    for (c, column) in columns.iter().enumerate() {
        for r in 0..R {
            for lane in 0..LANES {
                sums[r][lane] = rows[r][c].fma::<S>(column[lane], sums[r][lane]);
            }
        }
    }
    sums
}

/// `weights[j] = f(j, rows(j) · columns)` for the keys below `keys`, four at a time.
#[inline(always)]
fn for_keys<'a, T: Element, S: Simd>(
    keys: usize,
    row: impl Fn(usize) -> &'a [T],
    columns: &[Lanes<T>],
    mut store: impl FnMut(usize, Lanes<T>),
) {
    let mut j = 0;
    while j + TILE <= keys {
        let sums = rows_times_columns::<T, S, TILE>(std::array::from_fn(|r| row(j + r)), columns);
        for (r, sums) in sums.into_iter().enumerate() {
            store(j + r, sums);
        }
        j += TILE;
    }
    while j < keys {
        let [sums] = rows_times_columns::<T, S, 1>([row(j)], columns);
        store(j, sums);
        j += 1;
    }
}

/// `columns[c] = Σ_j rows(j)[c] · weights[j]`, four dimensions at a time.
#[inline(always)]
fn weighted_columns<'a, T: Element, S: Simd>(
    weights: &[Lanes<T>],
    row: impl Fn(usize) -> &'a [T],
    columns: &mut [Lanes<T>],
) {
    let (tiles, rest) = columns.as_chunks_mut::<TILE>();
    let done = tiles.len() * TILE;
    for (c, tile) in tiles.iter_mut().enumerate() {
        *tile = weighted_tile::<T, S, TILE>(weights, &row, c * TILE);
    }
    for (c, column) in rest.iter_mut().enumerate() {
        [*column] = weighted_tile::<T, S, 1>(weights, &row, done + c);
    }
}

#[inline(always)]
fn weighted_tile<'a, T: Element, S: Simd, const R: usize>(
    weights: &[Lanes<T>],
    row: impl Fn(usize) -> &'a [T],
    first: usize,
) -> [Lanes<T>; R] {
    let mut sums = [[T::ZERO; LANES]; R];
    for (j, weights) in weights.iter().enumerate() {
        let row = &row(j)[first..first + R];
        for r in 0..R {
            for lane in 0..LANES {
                sums[r][lane] = row[r].fma::<S>(weights[lane], sums[r][lane]);
            }
        }
    }
    sums
}

/// `target += Σ_lane weights[lane] · rows(lane)` for the first `lanes` lanes.
#[inline(always)]
fn add_weighted_rows<'a, T: Element, S: Simd>(
    target: &mut [T],
    weights: &Lanes<T>,
    lanes: usize,
    row: impl Fn(usize) -> &'a [T],
) {
    let (chunks, rest) = target.as_chunks_mut::<8>();
    let done = chunks.len() * 8;
    for (c, chunk) in chunks.iter_mut().enumerate() {
        let mut sums = *chunk;
        for (lane, &weight) in weights[..lanes].iter().enumerate() {
            let row = &row(lane)[c * 8..c * 8 + 8];
            for i in 0..8 {
                sums[i] = weight.fma::<S>(row[i], sums[i]);
            }
        }
        *chunk = sums;
    }
    let (chunks, rest) = rest.as_chunks_mut::<4>();
    let mut at = done;
    for chunk in chunks {
        for (lane, &weight) in weights[..lanes].iter().enumerate() {
            let row = &row(lane)[at..at + 4];
            for i in 0..4 {
                chunk[i] = weight.fma::<S>(row[i], chunk[i]);
            }
        }
        at += 4;
    }
    for (i, target) in rest.iter_mut().enumerate() {
        for (lane, &weight) in weights[..lanes].iter().enumerate() {
            *target = weight.fma::<S>(row(lane)[at + i], *target);
        }
    }
}

kernel! {
    /// Results into `y`, log-sum-exp of each query into `kept`.
    fn attend<'a, T>(
        x: &'a [T], y: &'a mut [T], kept: &'a mut [T], sizes: Sizes, mask: Option<Mask>, scratch: &'a mut [T]
    ) {
        let (scratch, _) = scratch.as_chunks_mut::<LANES>();
        let (queries, scratch) = scratch.split_at_mut(sizes.width);
        let (results, weights) = scratch.split_at_mut(sizes.width);
        let scale = T::ONE / T::from_usize(sizes.width).sqrt();
        for number in 0..sizes.sequences * sizes.heads {
            let head = Head { sizes, sequence: number / sizes.heads, head: number % sizes.heads };
            for first in (0..sizes.time).step_by(LANES) {
                let keys = (first + LANES).min(sizes.time);
                let weights = &mut weights[..keys];
                transpose(head, x, first, |i| head.input(0, i), queries);
                let mut top = [T::NEG_INFINITY; LANES];
                for_keys::<T, S>(keys, |j| head.slice(x, head.input(1, j)), queries, |j, sums| {
                    for lane in 0..LANES {
                        let score = if j > first + lane { T::NEG_INFINITY } else { sums[lane] * scale };
                        weights[j][lane] = score;
                        top[lane] = if score > top[lane] { score } else { top[lane] };
                    }
                });
                let mut total = [T::ZERO; LANES];
                for weights in weights.iter_mut() {
                    for lane in 0..LANES {
                        weights[lane] = (weights[lane] - top[lane]).exp_fast::<S>();
                        total[lane] += weights[lane];
                    }
                }
                let share: Lanes<T> = std::array::from_fn(|lane| T::ONE / total[lane]);
                if let Some(mask) = &mask {
                    for (j, weights) in weights.iter_mut().enumerate() {
                        let factors: Lanes<T> = head.factors(mask, first, j);
                        for lane in 0..LANES {
                            weights[lane] *= factors[lane];
                        }
                    }
                }
                weighted_columns::<T, S>(weights, |j| head.slice(x, head.input(2, j)), results);
                for lane in 0..(sizes.time - first).min(LANES) {
                    let start = head.result(first + lane);
                    for (y, column) in y[start..start + sizes.width].iter_mut().zip(&*results) {
                        *y = column[lane] * share[lane];
                    }
                    kept[head.number(first + lane)] = top[lane] + total[lane].ln();
                }
            }
        }
    }
}

/// What one call of backward reads.
struct Finished<'a, T> {
    x: &'a [T],
    y: &'a [T],
    kept: &'a [T],
    dy: &'a [T],
}

kernel! {
    /// Adds the gradient of queries, keys and values into `dx`.
    fn attend_backward<'a, T>(
        of: Finished<'a, T>, dx: &'a mut [T], sizes: Sizes, mask: Option<Mask>, scratch: &'a mut [T]
    ) {
        let Finished { x, y, kept, dy } = of;
        let (scratch, _) = scratch.as_chunks_mut::<LANES>();
        let (queries, scratch) = scratch.split_at_mut(sizes.width);
        let (upstream, scratch) = scratch.split_at_mut(sizes.width);
        let (columns, scratch) = scratch.split_at_mut(sizes.width);
        let (weights, slopes) = scratch.split_at_mut(sizes.time);
        let scale = T::ONE / T::from_usize(sizes.width).sqrt();
        for number in 0..sizes.sequences * sizes.heads {
            let head = Head { sizes, sequence: number / sizes.heads, head: number % sizes.heads };
            for first in (0..sizes.time).step_by(LANES) {
                let keys = (first + LANES).min(sizes.time);
                let inside = (sizes.time - first).min(LANES);
                let (weights, slopes) = (&mut weights[..keys], &mut slopes[..keys]);
                transpose(head, x, first, |i| head.input(0, i), queries);
                transpose(head, dy, first, |i| head.result(i), upstream);
                transpose(head, y, first, |i| head.result(i), columns);
                let mut products = [T::ZERO; LANES];
                for (upstream, result) in upstream.iter().zip(&*columns) {
                    for lane in 0..LANES {
                        products[lane] = upstream[lane].fma::<S>(result[lane], products[lane]);
                    }
                }
                let mut log_total = [T::ZERO; LANES];
                log_total[..inside].copy_from_slice(&kept[head.number(first)..head.number(first) + inside]);

                for_keys::<T, S>(keys, |j| head.slice(x, head.input(1, j)), queries, |j, sums| {
                    for lane in 0..LANES {
                        let hidden = j > first + lane;
                        let score = if hidden { T::NEG_INFINITY } else { sums[lane] * scale - log_total[lane] };
                        weights[j][lane] = score.exp_fast::<S>();
                    }
                });
                for_keys::<T, S>(keys, |j| head.slice(x, head.input(2, j)), upstream, |j, sums| {
                    match &mask {
                        None => {
                            for lane in 0..LANES {
                                slopes[j][lane] = weights[j][lane] * (sums[lane] - products[lane]) * scale;
                            }
                        }
                        Some(mask) => {
                            let factors: Lanes<T> = head.factors(mask, first, j);
                            for lane in 0..LANES {
                                let inner = factors[lane].fma::<S>(sums[lane], -products[lane]);
                                slopes[j][lane] = weights[j][lane] * inner * scale;
                                weights[j][lane] *= factors[lane];
                            }
                        }
                    }
                });
                weighted_columns::<T, S>(slopes, |j| head.slice(x, head.input(1, j)), columns);
                for lane in 0..inside {
                    let start = head.input(0, first + lane);
                    for (dx, column) in dx[start..start + sizes.width].iter_mut().zip(&*columns) {
                        *dx += column[lane];
                    }
                }
                for j in 0..keys {
                    let (key, value) = (head.input(1, j), head.input(2, j));
                    add_weighted_rows::<T, S>(&mut dx[key..key + sizes.width], &slopes[j], inside, |lane| {
                        head.slice(x, head.input(0, first + lane))
                    });
                    add_weighted_rows::<T, S>(&mut dx[value..value + sizes.width], &weights[j], inside, |lane| {
                        head.slice(dy, head.result(first + lane))
                    });
                }
            }
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
        if x.rank() != 3 || self.heads == 0 || !x.last().is_multiple_of(3 * self.heads) {
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
        let (mut weights, mut column) = (Vec::new(), Vec::new());
        for row in 0..sizes.sequences * sizes.time {
            let (sequence, i) = (row / sizes.time, row % sizes.time);
            for head in 0..sizes.heads {
                let head = Head {
                    sizes,
                    sequence,
                    head,
                };
                let query = head.slice(x.data, head.input(0, i));
                let score = |j| S::dot(query, head.slice(x.data, head.input(1, j))) * scale;
                let scores: Vec<S> = (0..=i).map(score).collect();
                weights.clone_from(&scores);
                S::softmax(&scores, &mut weights);
                if let Some(mask) = mask {
                    let first = head.number(i) * sizes.time;
                    for (j, weight) in weights.iter_mut().enumerate() {
                        *weight *= number(mask.factor(first + j));
                    }
                }
                for c in 0..sizes.width {
                    column.clear();
                    column.extend((0..=i).map(|j| x.data[head.input(2, j) + c]));
                    y.push(S::dot(&weights, &column));
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
        let scratch = run.scratch.take((2 * sizes.width + sizes.time) * LANES);
        attend(x.data, y, saved, sizes, self.mask(&run.context), scratch);
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
        let sizes = Sizes::new(x.shape, self.heads);
        if let Some(dx) = dx {
            let scratch = run.scratch.take((3 * sizes.width + 2 * sizes.time) * LANES);
            attend_backward(
                Finished {
                    x: x.data,
                    y,
                    kept: saved,
                    dy,
                },
                dx,
                sizes,
                self.mask(&run.context),
                scratch,
            );
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
        assert!(OpCheck::default().run(&op(0, 0.0), &[&[1, 2, 72]]).is_err());
        assert!(OpCheck::default().run(&op(1, 1.5), &[&[1, 2, 72]]).is_err());
        assert!(OpCheck::default().run(&op(1, 0.0), &[&[2, 72]]).is_err());
    }
}
