//! Attention to positions whose keys and values are kept.

use pulp::{Simd, WithSimd};

use super::lines::Lines;
use crate::error::check_len;
use crate::kernels::dispatch::arch;
use crate::kernels::gemm::{Destination, Matrix, WIDEST_VECTOR, lanes, multiply_columns};
use crate::kernels::transpose::transpose;
use crate::kernels::vectors::map;
use crate::ops::causal_attention::{exponentials, hide, mix, side_by_side};
use crate::{Element, Error, Result};

/// Keys and values of the positions of one text, in one attention layer of `heads` heads of `width` numbers each.
///
/// [`append`](Self::append) adds positions, [`attend`](Self::attend) computes what
/// [`ops::CausalAttention`](crate::ops::CausalAttention) does, for the last of them: `softmax(q kᵀ/√width) v`, head by head, over
/// the positions up to each one's own.
///
/// Keys lie as columns, so that the scores of a query stand side by side.
///
/// ```
/// use burtorch_tensor::inference::KeyValues;
///
/// # fn main() -> Result<(), burtorch_tensor::Error> {
/// let mut kept = KeyValues::new(8, 1, 2)?; // eight positions, one head of two numbers
/// kept.append(&[0.0, 0.0, 10.0, 20.0])?; //   a key, then a value
/// kept.append(&[0.0, 0.0, 30.0, 40.0])?;
/// let mut mixed = [0.0; 2];
/// kept.attend(&[1.0, 1.0], &mut mixed)?; //   equal scores: the mean of the values
/// assert_eq!(mixed, [20.0, 30.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct KeyValues<T> {
    heads: usize,
    width: usize,
    capacity: usize,
    len: usize,
    /// From one number of a key to the next: the capacity, in whole vectors.
    stride: usize,
    /// `[heads · width, stride]`
    keys: Lines<T>,
    /// `[capacity, heads · width]`, and a vector more: what is loaded may reach beyond a head.
    values: Lines<T>,
    /// Of one query, `[stride]`.
    weights: Lines<T>,
    /// Of a vector of queries: themselves and what they take, `[heads · width, lanes]`, and their weights, `[stride, lanes]`.
    scratch: Lines<T>,
}

impl<T: Element> KeyValues<T> {
    /// Room for `capacity` positions.
    ///
    /// # Errors
    /// [`Error::Setting`] if one of the sizes is 0; [`Error::OutOfMemory`].
    pub fn new(capacity: usize, heads: usize, width: usize) -> Result<Self> {
        for (name, size) in [("capacity", capacity), ("heads", heads), ("width", width)] {
            if size == 0 {
                return Err(Error::Setting {
                    op: "kept keys and values",
                    name,
                    expected: "at least 1",
                    found: 0.0,
                });
            }
        }
        let columns = heads.saturating_mul(width);
        let stride = capacity.saturating_add(WIDEST_VECTOR - 1) / WIDEST_VECTOR * WIDEST_VECTOR;
        let values = capacity.saturating_mul(columns);
        Ok(Self {
            heads,
            width,
            capacity,
            len: 0,
            stride,
            keys: Lines::zeros(columns.saturating_mul(stride))?,
            values: Lines::zeros(values.saturating_add(WIDEST_VECTOR))?,
            weights: Lines::zeros(stride)?,
            scratch: Lines::zeros(
                (columns.saturating_mul(2).saturating_add(stride)).saturating_mul(WIDEST_VECTOR),
            )?,
        })
    }

    /// Positions that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no position is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all positions.
    pub fn clear(&mut self) {
        self.len = 0;
        // Scores are computed for whole vectors and hidden behind the last position, which what is no number would outlive.
        self.keys.as_mut_slice().fill(T::ZERO);
    }

    fn columns(&self) -> usize {
        self.heads * self.width
    }

    /// Keeps the keys and values of the next positions: rows of all heads' keys, then all heads' values.
    ///
    /// # Errors
    /// [`Error::Length`] if there is no whole number of rows; [`Error::Mismatch`] if there is no room for them. Then nothing
    /// has changed.
    pub fn append(&mut self, keys_and_values: &[T]) -> Result<()> {
        let columns = self.columns();
        let rows = keys_and_values.len() / (2 * columns);
        check_len("keys and values", 2 * columns * rows, keys_and_values.len())?;
        if rows > self.capacity - self.len {
            return Err(Error::Mismatch {
                op: "kept keys and values",
                expected: format!("at most {} positions", self.capacity),
                found: format!("{} behind {}", rows, self.len),
            });
        }
        if rows == 0 {
            return Ok(());
        }
        let keys = Matrix::strided(keys_and_values, rows, columns, 2 * columns);
        let target = &mut self.keys.as_mut_slice()[self.len..];
        transpose(keys, target, self.stride, |target, key| *target = key);
        let values = &mut self.values.as_mut_slice()[self.len * columns..];
        for (value, row) in values
            .chunks_exact_mut(columns)
            .zip(keys_and_values.chunks_exact(2 * columns))
        {
            value.copy_from_slice(&row[columns..]);
        }
        self.len += rows;
        Ok(())
    }

    /// Overwrites `mixed` with what the last positions, as many as there are rows of `queries`, take from those up to their own.
    /// Both are `[rows, heads · width]`.
    ///
    /// # Errors
    /// [`Error::Length`] if there is no whole number of rows, or another number of them in `mixed`; [`Error::Mismatch`] for
    /// more rows than positions.
    pub fn attend(&mut self, queries: &[T], mixed: &mut [T]) -> Result<()> {
        let rows = queries.len() / self.columns();
        check_len("queries", rows * self.columns(), queries.len())?;
        check_len("mixed values", queries.len(), mixed.len())?;
        if rows > self.len {
            return Err(Error::Mismatch {
                op: "kept keys and values",
                expected: format!("at most {} queries, one for each position", self.len),
                found: rows.to_string(),
            });
        }
        arch().dispatch(Attend {
            first: self.len - rows,
            kept: self,
            queries,
            mixed,
        });
        Ok(())
    }
}

struct Attend<'a, T> {
    kept: &'a mut KeyValues<T>,
    /// Position of the first query.
    first: usize,
    queries: &'a [T],
    mixed: &'a mut [T],
}

impl<T: Element> WithSimd for Attend<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.kept.columns();
        let scale = T::ONE / T::from_usize(self.kept.width).sqrt();
        if self.queries.len() == columns {
            return one_query(simd, self.kept, self.queries, scale, self.mixed);
        }
        let numbers = lanes::<T, S>() * columns;
        let blocks = self.queries.chunks(numbers);
        let mut first = self.first;
        for (queries, mixed) in blocks.zip(self.mixed.chunks_mut(numbers)) {
            some_queries(simd, self.kept, first, queries, scale, mixed);
            first += queries.len() / columns;
        }
    }
}

/// The last position alone: neighbouring positions stand in the lanes. What is summed over positions is summed one after the other,
/// as in [`some_queries`].
#[inline(always)]
fn one_query<T: Element, S: Simd>(
    simd: S,
    kept: &mut KeyValues<T>,
    query: &[T],
    scale: T,
    mixed: &mut [T],
) {
    let (width, stride, columns, seen) = (kept.width, kept.stride, kept.columns(), kept.len);
    let (keys, values) = (kept.keys.as_slice(), kept.values.as_slice());
    let padded = seen.next_multiple_of(lanes::<T, S>());
    let weights = &mut kept.weights.as_mut_slice()[..padded];
    let mut steps = [T::NEG_INFINITY; 2 * WIDEST_VECTOR];
    steps[..lanes::<T, S>()].fill(T::ZERO);
    let hidden = T::vectors::<S>(&steps[padded - seen..]).0[0];
    let heads = query.chunks_exact(width).zip(mixed.chunks_exact_mut(width));
    for (head, (query, mixed)) in heads.enumerate() {
        let keys = &keys[head * width * stride..][..width * stride];
        let top = score(simd, query, scale, keys, stride, hidden, weights);
        for weight in T::vectors_mut::<S>(weights).0 {
            *weight = map::<T, S>(*weight, |score| (score - top).exp_fast::<S>());
        }
        let weights = &weights[..seen];
        let total = weights.iter().fold(T::ZERO, |sum, &weight| sum + weight);
        let values = &values[head * width..];
        mix_one(simd, weights, T::ONE / total, values, columns, mixed);
    }
}

/// Vectors of scores that are summed side by side, so that one sum need not wait for itself.
const SIDE_BY_SIDE: usize = 4;

/// `scale · q kᵀ` for the positions in the lanes of `weights`, of which the last vector's are `hidden` behind the last position;
/// the largest.
#[inline(always)]
fn score<T: Element, S: Simd>(
    simd: S,
    query: &[T],
    scale: T,
    keys: &[T],
    stride: usize,
    hidden: T::Vector<S>,
    weights: &mut [T],
) -> T {
    let lanes = lanes::<T, S>();
    let (weights, _) = T::vectors_mut::<S>(weights);
    let (groups, rest) = weights.as_chunks_mut::<SIDE_BY_SIDE>();
    let mut from = 0;
    for group in groups {
        *group = products::<T, S, SIDE_BY_SIDE>(simd, query, scale, &keys[from..], stride);
        from += SIDE_BY_SIDE * lanes;
    }
    for weight in rest {
        [*weight] = products::<T, S, 1>(simd, query, scale, &keys[from..], stride);
        from += lanes;
    }
    if let Some(last) = weights.last_mut() {
        *last = T::add_vectors(simd, *last, hidden);
    }
    let mut top = T::NEG_INFINITY.splat(simd);
    for &mut weight in weights {
        top = T::max_vectors(simd, top, weight);
    }
    T::max_lanes(simd, top)
}

/// `Σ_d scale q_d k_d` for the positions in `G` vectors.
#[inline(always)]
fn products<T: Element, S: Simd, const G: usize>(
    simd: S,
    query: &[T],
    scale: T,
    keys: &[T],
    stride: usize,
) -> [T::Vector<S>; G] {
    let mut sums = [T::ZERO.splat(simd); G];
    for (d, &q) in query.iter().enumerate() {
        let q = (q * scale).splat(simd);
        let keys = &keys[d * stride..][..G * lanes::<T, S>()];
        for (sum, &key) in sums.iter_mut().zip(T::vectors::<S>(keys).0) {
            *sum = T::fma_vectors(simd, q, key, *sum);
        }
    }
    sums
}

/// `share · Σ_j weights[j] values[j]`, a few vectors of the head's numbers at a time.
#[inline(always)]
fn mix_one<T: Element, S: Simd>(
    simd: S,
    weights: &[T],
    share: T,
    values: &[T],
    stride: usize,
    mixed: &mut [T],
) {
    let lanes = lanes::<T, S>();
    for (part, mixed) in mixed.chunks_mut(4 * lanes).enumerate() {
        let values = &values[part * 4 * lanes..];
        match mixed.len().div_ceil(lanes) {
            1 => mix_part::<T, S, 1>(simd, weights, share, values, stride, mixed),
            2 => mix_part::<T, S, 2>(simd, weights, share, values, stride, mixed),
            3 => mix_part::<T, S, 3>(simd, weights, share, values, stride, mixed),
            _ => mix_part::<T, S, 4>(simd, weights, share, values, stride, mixed),
        }
    }
}

#[inline(always)]
fn mix_part<T: Element, S: Simd, const V: usize>(
    simd: S,
    weights: &[T],
    share: T,
    values: &[T],
    stride: usize,
    mixed: &mut [T],
) {
    let mut sums = [T::ZERO.splat(simd); V];
    let lanes = lanes::<T, S>();
    for (j, &weight) in weights.iter().enumerate() {
        let weight = weight.splat(simd);
        let values = &values[j * stride..][..V * lanes];
        for (sum, &value) in sums.iter_mut().zip(T::vectors::<S>(values).0) {
            *sum = T::fma_vectors(simd, value, weight, *sum);
        }
    }
    let share = share.splat(simd);
    for (mixed, sum) in mixed.chunks_mut(lanes).zip(sums) {
        T::store_part(simd, mixed, T::multiply_vectors(simd, sum, share));
    }
}

/// Neighbouring positions, as many as a vector has lanes, stand in the lanes: as in training, but keys and values are kept ones.
#[inline(always)]
fn some_queries<T: Element, S: Simd>(
    simd: S,
    kept: &mut KeyValues<T>,
    first: usize,
    queries: &[T],
    scale: T,
    mixed: &mut [T],
) {
    let (width, stride, columns, lanes) =
        (kept.width, kept.stride, kept.columns(), lanes::<T, S>());
    let rows = queries.len() / columns;
    let (keys, values) = (kept.keys.as_slice(), kept.values.as_slice());
    let (columns_of_queries, rest) = kept.scratch.as_mut_slice().split_at_mut(columns * lanes);
    let (results, weights) = rest.split_at_mut(columns * lanes);
    let weights = &mut weights[..(first + rows) * lanes];
    let queries = Matrix::new(queries, rows, columns);
    side_by_side::<T, S>(queries, scale, columns_of_queries);
    let heads = columns_of_queries.chunks_exact_mut(width * lanes);
    for (head, (queries, results)) in heads
        .zip(results.chunks_exact_mut(width * lanes))
        .enumerate()
    {
        let keys = &keys[head * width * stride..];
        let keys = Matrix::strided(keys, width, first + rows, stride);
        let (queries, _) = T::vectors_mut::<S>(queries).0.as_chunks::<1>();
        let scores = Destination::set(weights, lanes);
        multiply_columns::<T, S, _, 8, 1>(simd, keys.t(), queries, scores, lanes);
        hide(&mut weights[first * lanes..], lanes, T::NEG_INFINITY);
        let [_, share] = exponentials(simd, weights);
        let values = Matrix::strided(&values[head * width..], first + rows, width, columns);
        mix(simd, values, weights, results);
        for result in T::vectors_mut::<S>(results).0 {
            *result = T::multiply_vectors(simd, *result, share);
        }
    }
    let results = Matrix::strided(results, columns, rows, lanes);
    transpose(results, mixed, columns, |mixed, result| *mixed = result);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::dispatch::levels::at_every_level;
    use crate::{Context, Engine, Params, Shape, TensorEngine, Workspace, ops};

    /// Queries, keys and values of so many positions side by side.
    fn input<T: Element>(positions: usize, columns: usize) -> Vec<T> {
        let number = |i: usize| ((i * 7919 + i / 17) % 1013) as f64 / 200.0 - 2.5;
        (0..3 * positions * columns)
            .map(|i| T::from_f64(number(i)))
            .collect()
    }

    /// The same by the engine, for all positions.
    fn engine<T: Element>(x: &[T], heads: usize, columns: usize) -> Vec<T> {
        let params = Params::new();
        let mut workspace = TensorEngine::new();
        let mut e = workspace.bind(&params, Context::default());
        let shape = Shape::new(&[1, x.len() / columns / 3, 3 * columns]).unwrap();
        let x = e.constant(x, shape).unwrap();
        let op = ops::CausalAttention {
            heads,
            dropout: 0.0,
            stream: 0,
        };
        let y = e.apply(op, [x]).unwrap();
        e.value(y).data.to_vec()
    }

    /// What positions take from those before, so many positions at a time.
    fn kept<T: Element>(x: &[T], heads: usize, columns: usize, at_once: usize) -> Vec<T> {
        let positions = x.len() / columns / 3;
        let mut kept = KeyValues::new(positions, heads, columns / heads).unwrap();
        let mut mixed = vec![T::NAN; positions * columns];
        let parts = x.chunks(3 * columns * at_once);
        for (x, mixed) in parts.zip(mixed.chunks_mut(columns * at_once)) {
            let rows = x.chunks_exact(3 * columns);
            let (queries, others): (Vec<_>, Vec<_>) = rows.map(|row| row.split_at(columns)).unzip();
            kept.append(&others.concat()).unwrap();
            kept.attend(&queries.concat(), mixed).unwrap();
        }
        assert_eq!(kept.len(), positions);
        mixed
    }

    fn close<T: Element>(found: &[T], expected: &[T], most: f64) -> bool {
        let near = |(&a, &b): (&T, &T)| (a - b).to_f64().abs() <= most; // false for NaN
        found.len() == expected.len() && found.iter().zip(expected).all(near)
    }

    #[test]
    fn the_comparison_can_fail() {
        assert!(!close(&[1.0], &[1.1], 0.01) && !close(&[f64::NAN], &[f64::NAN], 1.0));
    }

    fn agrees<T: Element>(positions: usize, heads: usize, width: usize, most: f64) {
        let columns = heads * width;
        let x = input::<T>(positions, columns);
        let expected = engine(&x, heads, columns);
        for at_once in [1, 3, positions] {
            let found = kept(&x, heads, columns, at_once);
            assert!(
                close(&found, &expected, most),
                "{positions} positions, {heads} heads of {width}, {at_once} at once"
            );
            assert!(found == kept(&x, heads, columns, 1), "the bits differ");
        }
    }

    #[test]
    fn results_are_those_of_the_engine_and_their_bits_do_not_depend_on_the_number_at_once() {
        at_every_level(|| {
            for (heads, width) in [(1, 1), (6, 4), (4, 32), (3, 5), (1, 17), (2, 70)] {
                for positions in [1, 2, 8, 16, 17, 70] {
                    agrees::<f32>(positions, heads, width, 2e-6);
                    agrees::<f64>(positions, heads, width, 1e-14);
                }
            }
        });
    }

    #[test]
    fn what_is_forgotten_is_not_seen() {
        let x = input::<f32>(9, 4);
        let rows: Vec<_> = x.chunks(12).collect();
        let mut kept = KeyValues::new(9, 2, 3).unwrap();
        kept.append(&[f32::NAN; 12 * 9]).unwrap();
        kept.clear();
        assert!(kept.is_empty());
        let mut fresh = KeyValues::new(9, 2, 3).unwrap();
        for kept in [&mut kept, &mut fresh] {
            kept.append(rows[0]).unwrap();
        }
        let of = |kept: &mut KeyValues<f32>| {
            let mut mixed = vec![0.0; 6];
            kept.attend(&[1.0; 6], &mut mixed).unwrap();
            mixed
        };
        assert_eq!(of(&mut fresh), of(&mut kept));
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let mut kept = KeyValues::new(3, 1, 1).unwrap();
        kept.append(&[1e4, 1.0, 2e4, 2.0, -3e4, 3.0]).unwrap();
        let mut mixed = [0.0_f32];
        kept.attend(&[1e4], &mut mixed).unwrap();
        assert_eq!(mixed, [2.0]); // position 0 sees itself alone, but only the last one asked
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for sizes in [[0, 1, 1], [1, 0, 1], [1, 1, 0]] {
            let [capacity, heads, width] = sizes;
            assert!(KeyValues::<f32>::new(capacity, heads, width).is_err());
        }
        assert!(matches!(
            KeyValues::<f32>::new(usize::MAX, 3, 4),
            Err(Error::OutOfMemory { .. })
        ));
        let mut kept = KeyValues::new(2, 1, 2).unwrap();
        let full = kept.append(&[0.0_f32; 12]).unwrap_err().to_string();
        assert!(full.contains("at most 2") && full.contains('3'), "{full}");
        assert!(kept.append(&[0.0; 3]).is_err() && kept.is_empty());
        kept.append(&[0.0; 8]).unwrap();
        assert!(kept.append(&[0.0; 4]).is_err());
        kept.append(&[]).unwrap();
        assert!(kept.attend(&[0.0; 3], &mut [0.0; 3]).is_err());
        assert!(kept.attend(&[0.0; 2], &mut [0.0; 4]).is_err());
        assert!(kept.attend(&[0.0; 6], &mut [0.0; 6]).is_err());
    }
}
