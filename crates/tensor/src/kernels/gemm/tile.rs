//! Tiles of whole vectors of columns.

use pulp::Simd;

use super::panel::Panel;
use super::{Destination, Matrix, Store, WIDEST, lanes};
use crate::Element;
use crate::element::KernelElement;

/// `C (+)= A · P` for the first `width` columns of a panel P, with `R` rows of A at a time.
#[inline(always)]
pub(super) fn multiply<
    T: Element,
    S: Simd,
    P: Panel<T, S, V> + ?Sized,
    const R: usize,
    const V: usize,
>(
    simd: S,
    a: Matrix<'_, T>,
    panel: &P,
    c: Destination<'_, T>,
    width: usize,
) {
    if a.column_stride == 1 {
        multiply_rows::<T, S, P, R, V>(simd, a, panel, c, width);
    } else {
        multiply_columns::<T, S, P, R, V>(simd, a, panel, c, width);
    }
}

/// `C (+)= A · P` for rows of A that are stored without gaps, and the first `width` columns of a panel P.
#[inline(always)]
pub(crate) fn multiply_rows<
    T: Element,
    S: Simd,
    P: Panel<T, S, V> + ?Sized,
    const R: usize,
    const V: usize,
>(
    simd: S,
    a: Matrix<'_, T>,
    panel: &P,
    c: Destination<'_, T>,
    width: usize,
) {
    let (stride, store) = (c.row_stride, c.store);
    for row in (0..a.rows).step_by(R) {
        // Rows beyond the last are copies of it; their sums are not stored.
        let mut rows = [a.row(row); R];
        for (i, next) in rows.iter_mut().enumerate().skip(1) {
            *next = a.row((row + i).min(a.rows - 1));
        }
        let sums = tile_of_rows::<T, S, P, R, V>(simd, rows, panel);
        let height = (a.rows - row).min(R);
        let c = &mut c.data[row * stride..];
        if height == R && width == V * lanes::<T, S>() {
            store_whole_tile::<T, S, R, V>(simd, &sums, c, stride, store);
        } else {
            let in_memory = sums;
            store_tile(simd, &in_memory[..height], c, stride, width, store);
        }
    }
}

/// As [`multiply_rows`], for columns of A that are stored without gaps.
#[inline(always)]
pub(crate) fn multiply_columns<
    T: Element,
    S: Simd,
    P: Panel<T, S, V> + ?Sized,
    const R: usize,
    const V: usize,
>(
    simd: S,
    a: Matrix<'_, T>,
    panel: &P,
    mut c: Destination<'_, T>,
    width: usize,
) {
    let mut row = 0;
    while row + R <= a.rows {
        columns_tile::<T, S, P, R, V>(simd, a, row, panel, &mut c, width);
        row += R;
    }
    while row + 4 <= a.rows {
        columns_tile::<T, S, P, 4, V>(simd, a, row, panel, &mut c, width);
        row += 4;
    }
    while row < a.rows {
        columns_tile::<T, S, P, 1, V>(simd, a, row, panel, &mut c, width);
        row += 1;
    }
}

/// The rows of C from `row` on that one tile covers.
#[inline(always)]
pub(super) fn columns_tile<
    T: Element,
    S: Simd,
    P: Panel<T, S, V> + ?Sized,
    const R: usize,
    const V: usize,
>(
    simd: S,
    a: Matrix<'_, T>,
    row: usize,
    panel: &P,
    c: &mut Destination<'_, T>,
    width: usize,
) {
    let sums = tile_of_columns::<T, S, P, R, V>(simd, a, row, panel);
    let (stride, store) = (c.row_stride, c.store);
    let c = &mut c.data[row * stride..];
    if width == V * lanes::<T, S>() {
        store_whole_tile::<T, S, R, V>(simd, &sums, c, stride, store);
    } else {
        let in_memory = sums;
        store_tile(simd, &in_memory, c, stride, width, store);
    }
}

/// `R` rows of `V` vectors of sums.
type Tile<T, S, const R: usize, const V: usize> = [[<T as KernelElement>::Vector<S>; V]; R];

/// The panel times rows of A that are stored without gaps.
#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "k goes through all rows at once"
)]
fn tile_of_rows<T: Element, S: Simd, P: Panel<T, S, V> + ?Sized, const R: usize, const V: usize>(
    simd: S,
    rows: [&[T]; R],
    panel: &P,
) -> Tile<T, S, R, V> {
    let mut sums = [[T::ZERO.splat(simd); V]; R];
    let rows = rows.map(|row| &row[..panel.rows()]);
    for k in 0..panel.rows() {
        let b = panel.row(simd, k);
        for r in 0..R {
            let a = rows[r][k].splat(simd);
            for v in 0..V {
                sums[r][v] = T::fma_vectors(simd, a, b[v], sums[r][v]);
            }
        }
    }
    sums
}

/// The panel times rows of A whose columns are stored without gaps.
#[inline(always)]
fn tile_of_columns<
    T: Element,
    S: Simd,
    P: Panel<T, S, V> + ?Sized,
    const R: usize,
    const V: usize,
>(
    simd: S,
    a: Matrix<'_, T>,
    row: usize,
    panel: &P,
) -> Tile<T, S, R, V> {
    let mut sums = [[T::ZERO.splat(simd); V]; R];
    // All columns but the last are followed by another one, so their lengths need no check in the loop.
    let (stride, last) = (a.column_stride, panel.rows() - 1);
    let (columns, last_column) = a.data.split_at(last * stride);
    for (k, column) in columns.chunks_exact(stride).enumerate() {
        let b = panel.row(simd, k);
        add_products(simd, &mut sums, &column[row..row + R], &b);
    }
    let b = panel.row(simd, last);
    add_products(simd, &mut sums, &last_column[row..row + R], &b);
    sums
}

/// Adds the products of a column of A and a row of the panel. Not a closure, which might not be compiled into its caller.
#[inline(always)]
fn add_products<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    sums: &mut Tile<T, S, R, V>,
    a: &[T],
    b: &[T::Vector<S>; V],
) {
    for r in 0..R {
        let a = a[r].splat(simd);
        for v in 0..V {
            sums[r][v] = T::fma_vectors(simd, a, b[v], sums[r][v]);
        }
    }
}

/// Writes all rows and columns of a tile. Every place in it is known to the compiler, so the sums go from registers to C.
#[inline(always)]
fn store_whole_tile<T: Element, S: Simd, const R: usize, const V: usize>(
    simd: S,
    sums: &Tile<T, S, R, V>,
    c: &mut [T],
    stride: usize,
    store: Store,
) {
    for r in 0..R {
        let row = &mut c[r * stride..][..V * lanes::<T, S>()];
        let (row, _) = T::vectors_mut::<S>(row);
        for v in 0..V {
            row[v] = match store {
                Store::Set => sums[r][v],
                Store::Add => T::add_vectors(simd, row[v], sums[r][v]),
            };
        }
    }
}

/// Writes the first `width` columns of some rows of a tile.
///
/// A slice on purpose: it lets the sums go through memory here. Its caller makes a copy for that, or they lived in memory during
/// the multiplication too (245 to 170 GFLOP/s).
#[inline(always)]
fn store_tile<T: Element, S: Simd, const V: usize>(
    simd: S,
    sums: &[[T::Vector<S>; V]],
    c: &mut [T],
    stride: usize,
    width: usize,
    store: Store,
) {
    let lanes = lanes::<T, S>();
    let before_last = (V - 1) * lanes;
    if width == V * lanes {
        for (r, sums) in sums.iter().enumerate() {
            store_vectors(simd, sums, &mut c[r * stride..][..width], store);
        }
    } else if V < WIDEST && width == before_last + lanes / 2 {
        store_rows_of_known_end::<T, S, V>(simd, sums, c, stride, lanes / 2, store);
    } else if V < WIDEST && width == before_last + lanes / 4 {
        store_rows_of_known_end::<T, S, V>(simd, sums, c, stride, lanes / 4, store);
    } else {
        for (r, sums) in sums.iter().enumerate() {
            let (vectors, end) = c[r * stride..][..width].split_at_mut(before_last);
            store_vectors(simd, sums, vectors, store);
            let sum = match store {
                Store::Set => sums[V - 1],
                Store::Add => T::add_vectors(simd, T::load_part(simd, end), sums[V - 1]),
            };
            T::store_part(simd, end, sum);
        }
    }
}

/// Writes as many vectors of sums as there is room for.
#[inline(always)]
fn store_vectors<T: Element, S: Simd>(simd: S, sums: &[T::Vector<S>], c: &mut [T], store: Store) {
    for (c, &sum) in T::vectors_mut::<S>(c).0.iter_mut().zip(sums) {
        *c = match store {
            Store::Set => sum,
            Store::Add => T::add_vectors(simd, *c, sum),
        };
    }
}

/// Rows that end after half or a quarter of a vector, known to the compiler where this is compiled into: without masks, because
/// a load waits for a masked store before it that reaches over the same bytes, also where the mask is off, as from one row
/// of 24 into the next (a quarter of the time of 128×24×24). Not for the widest tiles, whose sums would not stay in registers.
#[inline(always)]
fn store_rows_of_known_end<T: Element, S: Simd, const V: usize>(
    simd: S,
    sums: &[[T::Vector<S>; V]],
    c: &mut [T],
    stride: usize,
    end: usize,
    store: Store,
) {
    let before_last = (V - 1) * lanes::<T, S>();
    for (r, sums) in sums.iter().enumerate() {
        let (vectors, last) = c[r * stride..][..before_last + end].split_at_mut(before_last);
        store_vectors(simd, sums, vectors, store);
        let sum = &T::numbers::<S>(&sums[V - 1..])[..end];
        match store {
            Store::Set => last.copy_from_slice(sum),
            Store::Add => last.iter_mut().zip(sum).for_each(|(c, &sum)| *c += sum),
        }
    }
}
