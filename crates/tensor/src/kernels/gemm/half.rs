//! Tiles of a vector and a half of columns: two rows of A share the vector of which each needs one half.
//!
//! With a vector for each row, the 24 columns of preset mini would leave a quarter of the multiplications to nothing.

use pulp::Simd;

use super::panel::Panel;
use super::tile::columns_tile;
use super::{Destination, Matrix, Store, lanes};
use crate::Element;

/// Rows of one tile.
pub(super) const ROWS: usize = 8;

/// Whether so many columns end with a vector and a half, or less than the half, in vectors of so many lanes. Not for machines of 16
/// registers, in which there is no room for enough sums.
#[inline(always)]
pub(super) fn serves(columns: usize, lanes: usize, registers: usize) -> bool {
    let rest = columns % lanes;
    columns > lanes && rest > 0 && rest <= lanes / 2 && registers >= 32
}

/// For two rows: their sums of the first vector of columns, and of the rest those of the first row, then of the second.
type Pair<V> = [V; 3];

/// `C (+)= A · P` for a panel of which every row has its first vector and then half of one, twice.
#[inline(always)]
pub(super) fn multiply<T: Element, S: Simd, P: Panel<T, S, 2> + ?Sized>(
    simd: S,
    a: Matrix<'_, T>,
    panel: &P,
    mut c: Destination<'_, T>,
    width: usize,
) {
    if a.column_stride == 1 {
        for row in (0..a.rows).step_by(ROWS) {
            // Rows beyond the last are copies of it; their sums are not stored.
            let mut rows = [a.row(row); ROWS];
            for (i, next) in rows.iter_mut().enumerate().skip(1) {
                *next = a.row((row + i).min(a.rows - 1));
            }
            let sums = tile_of_rows(simd, rows, panel);
            let height = (a.rows - row).min(ROWS);
            store(simd, &sums, &mut c, row, height, width);
        }
        return;
    }
    let mut row = 0;
    while row + ROWS <= a.rows {
        let sums = tile_of_columns(simd, a, row, panel);
        store(simd, &sums, &mut c, row, ROWS, width);
        row += ROWS;
    }
    while row + 4 <= a.rows {
        columns_tile::<T, S, P, 4, 2>(simd, a, row, panel, &mut c, width);
        row += 4;
    }
    while row < a.rows {
        columns_tile::<T, S, P, 1, 2>(simd, a, row, panel, &mut c, width);
        row += 1;
    }
}

/// The panel times rows of A that are stored without gaps.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "k goes through all rows at once"
)]
fn tile_of_rows<T: Element, S: Simd, P: Panel<T, S, 2> + ?Sized>(
    simd: S,
    rows: [&[T]; ROWS],
    panel: &P,
) -> [Pair<T::Vector<S>>; ROWS / 2] {
    let mut sums = [[T::ZERO.splat(simd); 3]; ROWS / 2];
    let rows = rows.map(|row| &row[..panel.rows()]);
    for k in 0..panel.rows() {
        let b = panel.row(simd, k);
        for i in 0..ROWS / 2 {
            let a = [rows[2 * i][k], rows[2 * i + 1][k]];
            add_products::<T, S>(simd, &mut sums[i], a, b);
        }
    }
    sums
}

/// The panel times rows of A whose columns are stored without gaps.
#[inline(always)]
fn tile_of_columns<T: Element, S: Simd, P: Panel<T, S, 2> + ?Sized>(
    simd: S,
    a: Matrix<'_, T>,
    row: usize,
    panel: &P,
) -> [Pair<T::Vector<S>>; ROWS / 2] {
    let mut sums = [[T::ZERO.splat(simd); 3]; ROWS / 2];
    // All columns but the last are followed by another one, so their lengths need no check in the loop.
    let (stride, last) = (a.column_stride, panel.rows() - 1);
    let (columns, last_column) = a.data.split_at(last * stride);
    for (k, column) in columns.chunks_exact(stride).enumerate() {
        add_column(
            simd,
            &mut sums,
            &column[row..row + ROWS],
            panel.row(simd, k),
        );
    }
    let column = &last_column[row..row + ROWS];
    add_column(simd, &mut sums, column, panel.row(simd, last));
    sums
}

#[inline(always)]
fn add_column<T: Element, S: Simd>(
    simd: S,
    sums: &mut [Pair<T::Vector<S>>; ROWS / 2],
    a: &[T],
    b: [T::Vector<S>; 2],
) {
    for i in 0..ROWS / 2 {
        add_products::<T, S>(simd, &mut sums[i], [a[2 * i], a[2 * i + 1]], b);
    }
}

/// Adds the products of two numbers of A, one below the other, and a row of the panel.
#[inline(always)]
fn add_products<T: Element, S: Simd>(
    simd: S,
    sums: &mut Pair<T::Vector<S>>,
    a: [T; 2],
    b: [T::Vector<S>; 2],
) {
    let (first, second) = (a[0].splat(simd), a[1].splat(simd));
    sums[0] = T::fma_vectors(simd, first, b[0], sums[0]);
    sums[1] = T::fma_vectors(simd, second, b[0], sums[1]);
    sums[2] = T::fma_vectors(simd, T::halves(simd, first, second), b[1], sums[2]);
}

/// Writes the first `width` columns of the first rows of a tile.
#[inline(always)]
fn store<T: Element, S: Simd>(
    simd: S,
    sums: &[Pair<T::Vector<S>>; ROWS / 2],
    c: &mut Destination<'_, T>,
    row: usize,
    height: usize,
    width: usize,
) {
    let (lanes, stride) = (lanes::<T, S>(), c.row_stride);
    let rows = &mut c.data[row * stride..];
    if height == ROWS && width == lanes + lanes / 2 {
        // Every place is known to the compiler, so the sums go from registers to C.
        for r in 0..ROWS {
            store_row(
                simd,
                &sums[r / 2],
                r % 2,
                &mut rows[r * stride..][..lanes + lanes / 2],
                c.store,
            );
        }
    } else {
        let in_memory = *sums;
        for (r, row) in rows.chunks_mut(stride).take(height).enumerate() {
            store_row(simd, &in_memory[r / 2], r % 2, &mut row[..width], c.store);
        }
    }
}

/// Writes one of the two rows that a pair has the sums of.
#[inline(always)]
fn store_row<T: Element, S: Simd>(
    simd: S,
    pair: &Pair<T::Vector<S>>,
    which: usize,
    row: &mut [T],
    store: Store,
) {
    let lanes = lanes::<T, S>();
    let (first, end) = row.split_at_mut(lanes);
    let first = &mut T::vectors_mut::<S>(first).0[0];
    let sum = &T::numbers::<S>(&pair[2..])[which * (lanes / 2)..][..end.len()];
    match store {
        Store::Set => {
            *first = pair[which];
            end.copy_from_slice(sum);
        }
        Store::Add => {
            *first = T::add_vectors(simd, *first, pair[which]);
            end.iter_mut().zip(sum).for_each(|(c, &sum)| *c += sum);
        }
    }
}
