//! Products of all rows of one matrix with all rows of another, and the way back.
//!
//! Results that stand side by side fill vectors, so that no sum is added across.

use crate::lanes::Work;
use crate::ops::constant;
use crate::ops::reduce::is_large;
use crate::scalar::Scalar;
use crate::tape::operand::Operand;

/// Results side by side.
const LANES: usize = 8;

/// Results side by side where there are not so many.
const HALF: usize = LANES / 2;

/// Rows that are worked on together, so that what they share is fetched once and no sum waits for itself.
const TOGETHER: usize = 4;

/// Terms that are added before their sum is added to those of earlier terms.
const BLOCK: usize = 128;

/// How many numbers the rows of this width take that are worked on side by side.
pub(in crate::tape) fn lanes_of(width: usize) -> usize {
    LANES * width
}

/// Writes Σₖ xᵢₖwⱼₖ + bⱼ to `out`, row by row, and tells whether all factors are finite. There is something in each matrix.
pub(in crate::tape) struct Affine<'a, T> {
    pub(in crate::tape) x: &'a [T],
    pub(in crate::tape) weights: &'a [T],
    /// One for each row of the weights, or none at all.
    pub(in crate::tape) biases: &'a [T],
    /// Numbers in a row of `x` and of `weights`.
    pub(in crate::tape) width: usize,
    pub(in crate::tape) out: &'a mut [T],
    /// Room for the rows worked on side by side, see [`lanes_of`].
    pub(in crate::tape) lanes: &'a mut [T],
}

impl<T: Scalar> Work for Affine<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self {
            x,
            weights,
            biases,
            width,
            out,
            lanes,
        } = self;
        let outputs = weights.len() / width;
        // Inputs side by side, unless they are too few: then outputs, though turning their weights takes time.
        let (factors, steps) = if x.len() / width >= LANES {
            ([x, weights], [outputs, 1])
        } else {
            ([weights, x], [1, outputs])
        };
        // Numbers that fill vectors on their own need no others beside them.
        if const { is_large::<T>() } {
            products::<T, 1>(factors, width, lanes, out, steps);
        } else {
            products::<T, LANES>(factors, width, lanes, out, steps);
        }
        if !biases.is_empty() {
            for row in out.chunks_exact_mut(outputs) {
                for (y, &bias) in row.iter_mut().zip(biases) {
                    *y += bias;
                }
            }
        }
        all_finite(x) & all_finite(weights)
    }
}

/// Not `all`, which stops at the first and hence looks at one at a time.
#[inline(always)]
fn all_finite<T: Scalar>(numbers: &[T]) -> bool {
    numbers.iter().fold(true, |all, x| all & x.all_finite())
}

/// The products of all rows of `a`, so many lanes at a time, with all rows of `b`; `steps` are those of the results from row to row of
/// each.
#[inline(always)]
fn products<T: Scalar, const LANES: usize>(
    [a, b]: [&[T]; 2],
    width: usize,
    lanes: &mut [T],
    out: &mut [T],
    steps: [usize; 2],
) {
    let lanes = &mut lanes[..LANES * width];
    for (group, a) in a.chunks(LANES * width).enumerate() {
        turn::<T, LANES>(a, width, lanes);
        let count = a.len() / width;
        let out = &mut out[group * LANES * steps[0]..];
        let mut rows = b.chunks_exact(TOGETHER * width);
        let mut done = 0;
        for b in &mut rows {
            let sums = sums_of::<T, LANES, TOGETHER>(lanes, b, width);
            write(&sums, count, &mut out[done * steps[1]..], steps);
            done += TOGETHER;
        }
        for b in rows.remainder().chunks_exact(width) {
            let sums = sums_of::<T, LANES, 1>(lanes, b, width);
            write(&sums, count, &mut out[done * steps[1]..], steps);
            done += 1;
        }
    }
}

/// Writes the first sums of each row.
#[inline(always)]
fn write<T: Scalar, const LANES: usize>(
    sums: &[[T; LANES]],
    count: usize,
    out: &mut [T],
    steps: [usize; 2],
) {
    for (row, sums) in sums.iter().enumerate() {
        let out = &mut out[row * steps[1]..];
        if steps[0] == 1 {
            out[..count].copy_from_slice(&sums[..count]);
        } else {
            for (lane, &sum) in sums[..count].iter().enumerate() {
                out[lane * steps[0]] = sum;
            }
        }
    }
}

/// Writes the numbers of one column after those of the other, with zeros for rows that are not there.
#[inline(always)]
fn turn<T: Scalar, const LANES: usize>(rows: &[T], width: usize, lanes: &mut [T]) {
    if rows.len() < LANES * width {
        lanes.fill(constant(0.0));
    }
    for (lane, row) in rows.chunks_exact(width).enumerate() {
        for (place, &number) in lanes.chunks_exact_mut(LANES).zip(row) {
            place[lane] = number;
        }
    }
}

/// The sums of products of so many rows with the rows that were turned into lanes.
#[inline(always)]
fn sums_of<T: Scalar, const LANES: usize, const ROWS: usize>(
    lanes: &[T],
    rows: &[T],
    width: usize,
) -> [[T; LANES]; ROWS] {
    let mut totals = [[constant(0.0); LANES]; ROWS];
    for (block, lanes) in lanes.chunks(BLOCK * LANES).enumerate() {
        let mut sums = [[constant::<T>(0.0); LANES]; ROWS];
        let mut factors = [&rows[..0]; ROWS];
        for (row, factors) in factors.iter_mut().enumerate() {
            *factors = &rows[row * width + block * BLOCK..][..lanes.len() / LANES];
        }
        for (k, lanes) in lanes.as_chunks::<LANES>().0.iter().enumerate() {
            for (sums, factors) in sums.iter_mut().zip(&factors) {
                let factor = factors[k];
                for (sum, &lane) in sums.iter_mut().zip(lanes) {
                    *sum += factor * lane;
                }
            }
        }
        for (totals, sums) in totals.iter_mut().zip(sums) {
            for (total, sum) in totals.iter_mut().zip(sums) {
                *total += sum;
            }
        }
    }
    totals
}

/// The way back from the results to `x`, weights and biases.
pub(in crate::tape) struct AffineBack<'a, T> {
    pub(in crate::tape) values: &'a [T],
    pub(in crate::tape) x: Operand,
    pub(in crate::tape) weights: Operand,
    pub(in crate::tape) biases: Option<Operand>,
    /// Whether all factors are, so that their products with a gradient of 0 are 0 without further ado.
    pub(in crate::tape) finite: bool,
    pub(in crate::tape) from: &'a [T],
}

impl<T: Scalar> AffineBack<'_, T> {
    #[inline(always)]
    pub(in crate::tape) fn run(self, to: &mut [T]) {
        let Self {
            values,
            x,
            weights,
            biases,
            finite,
            from,
        } = self;
        let outputs = weights.rows;
        let mixtures = |to_rows, factors: Operand, [row_step, step]: [usize; 2]| Mixtures {
            coefficients: from,
            row_step,
            step,
            factors: factors.values(values),
            to_rows,
            values,
        };
        // In a loop, so that there is one copy of the code.
        let both = [
            mixtures(x, weights, [outputs, 1]),
            mixtures(weights, x, [1, outputs]),
        ];
        for mixtures in both {
            if !mixtures.to_rows.nodes.is_constant() {
                mixtures.add(finite, to);
            }
        }
        if let Some(biases) = biases.filter(|biases| !biases.nodes.is_constant()) {
            for row in from.chunks_exact(outputs) {
                biases.add(values, to, (0, 0), row);
            }
        }
    }
}

/// What one factor of the products hands to the gradients of the other: to each row the rows of `factors`, times the coefficients of
/// that row.
#[derive(Clone, Copy)]
struct Mixtures<'a, T> {
    coefficients: &'a [T],
    /// From the coefficients of one row to those of the next.
    row_step: usize,
    /// From the coefficient of one factor to that of the next.
    step: usize,
    factors: &'a [T],
    to_rows: Operand,
    values: &'a [T],
}

impl<T: Scalar> Mixtures<'_, T> {
    #[inline(always)]
    fn add(self, finite: bool, to: &mut [T]) {
        let together = match finite {
            true => self.to_rows.rows / TOGETHER * TOGETHER,
            false => 0,
        };
        for row in (0..together).step_by(TOGETHER) {
            self.add_to_rows::<TOGETHER>(row, to);
        }
        for row in together..self.to_rows.rows {
            if finite {
                self.add_to_rows::<1>(row, to);
            } else {
                self.add_to_row_of_any(row, to);
            }
        }
    }

    #[inline(always)]
    fn add_to_rows<const ROWS: usize>(self, row: usize, to: &mut [T]) {
        let (mut column, width) = (0, self.to_rows.columns);
        if const { !is_large::<T>() } {
            while width - column >= LANES {
                self.add_to_columns::<ROWS, LANES>(row, column, to);
                column += LANES;
            }
            while width - column >= HALF {
                self.add_to_columns::<ROWS, HALF>(row, column, to);
                column += HALF;
            }
        }
        while width > column {
            self.add_to_columns::<ROWS, 1>(row, column, to);
            column += 1;
        }
    }

    /// To a row from factors that need not be finite: those with a gradient of 0 hand on 0.
    #[inline(always)]
    fn add_to_row_of_any(self, row: usize, to: &mut [T]) {
        let width = self.to_rows.columns;
        let coefficients = &self.coefficients[row * self.row_step..];
        for column in 0..width {
            let mut sum = constant::<T>(0.0);
            for (i, factors) in self.factors.chunks_exact(width).enumerate() {
                sum += factors[column].chain(coefficients[i * self.step]);
            }
            self.to_rows.add(self.values, to, (row, column), &[sum]);
        }
    }

    #[inline(always)]
    fn add_to_columns<const ROWS: usize, const COLUMNS: usize>(
        self,
        row: usize,
        column: usize,
        to: &mut [T],
    ) {
        let sums = self.sums::<ROWS, COLUMNS>(row, column);
        for (i, sums) in sums.iter().enumerate() {
            self.to_rows.add(self.values, to, (row + i, column), sums);
        }
    }

    /// The sums for so many rows and columns, by value: what has a place in memory would be written there after every addition.
    #[inline(always)]
    fn sums<const ROWS: usize, const COLUMNS: usize>(
        self,
        row: usize,
        column: usize,
    ) -> [[T; COLUMNS]; ROWS] {
        let coefficients = &self.coefficients[row * self.row_step..];
        let mut sums = [[constant::<T>(0.0); COLUMNS]; ROWS];
        let factors = self.factors.chunks_exact(self.to_rows.columns);
        for (i, factors) in factors.enumerate() {
            let factors = &factors[column..][..COLUMNS];
            // All are fetched before any is used: a check in between keeps the loops below from becoming vectors.
            let mut shares = [constant::<T>(0.0); ROWS];
            for (row, share) in shares.iter_mut().enumerate() {
                *share = coefficients[row * self.row_step + i * self.step];
            }
            for (sums, &share) in sums.iter_mut().zip(&shares) {
                let mut group = *sums;
                for (sum, &factor) in group.iter_mut().zip(factors) {
                    *sum += factor * share;
                }
                *sums = group;
            }
        }
        sums
    }
}
