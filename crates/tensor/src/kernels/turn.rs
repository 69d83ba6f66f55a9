//! As many rows as a vector has lanes, turned into vectors that hold one number of each row, and back.
//!
//! Square by square of four numbers; with AVX-512, four squares at once, their rows loaded into the quarters of four vectors.

use super::transpose::{columns_of_four, transpose_four};
use crate::element::KernelElement;

/// Lanes of the widest vector: sixteen f32.
pub(crate) const MOST_LANES: usize = 16;

/// What [`KernelElement::rows_to_lanes`](crate::element::KernelElement::rows_to_lanes) does, four rows at a time.
#[inline(always)]
pub(crate) fn rows_to_lanes<T: KernelElement>(rows: &[&[T]], target: &mut [T], stride: usize) {
    let (fours, rest) = rows.as_chunks::<4>();
    for (i, &rows) in fours.iter().enumerate() {
        transpose_four(rows, &mut target[4 * i..], stride, &|target, x| *target = x);
    }
    for (lane, row) in (4 * fours.len()..).zip(rest) {
        for (target, &x) in target[lane..].iter_mut().step_by(stride).zip(*row) {
            *target = x;
        }
    }
}

/// What [`KernelElement::lanes_to_rows`](crate::element::KernelElement::lanes_to_rows) does, four rows at a time.
#[inline(always)]
pub(crate) fn lanes_to_rows<T: KernelElement>(vectors: &[T], lanes: usize) -> [[T; 4]; MOST_LANES] {
    let mut rows = [[T::ZERO; 4]; MOST_LANES];
    for lane in (0..lanes / 4 * 4).step_by(4) {
        rows[lane..lane + 4].copy_from_slice(&columns_of_four(&vectors[lane..], lanes));
    }
    for lane in lanes / 4 * 4..lanes {
        for i in 0..4 {
            rows[lane][i] = vectors[i * lanes + lane];
        }
    }
    rows
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512 {
    use std::any::Any;
    use std::arch::x86_64::__m512;

    use pulp::Simd;
    use pulp::bytemuck::{cast, cast_ref};
    use pulp::x86::V4;

    use super::MOST_LANES;

    /// The level, if it is AVX-512; known to the compiler.
    #[inline(always)]
    pub(crate) fn level<S: Simd>(simd: S) -> Option<V4> {
        (&simd as &dyn Any).downcast_ref().copied()
    }

    /// Four numbers from each of the rows r, r + 4, r + 8 and r + 12.
    #[inline(always)]
    fn quarters(simd: V4, rows: &[&[[f32; 4]]; MOST_LANES], r: usize, i: usize) -> __m512 {
        let f = simd.avx512f;
        let vector = f._mm512_castps128_ps512(cast(rows[r][i]));
        let vector = f._mm512_insertf32x4::<1>(vector, cast(rows[r + 4][i]));
        let vector = f._mm512_insertf32x4::<2>(vector, cast(rows[r + 8][i]));
        f._mm512_insertf32x4::<3>(vector, cast(rows[r + 12][i]))
    }

    /// Turns the squares of four by four that lie in each quarter of four vectors.
    #[inline(always)]
    fn squares(simd: V4, [a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
        let f = simd.avx512f;
        let wide = |x| f._mm512_castps_pd(x);
        let (ab, cd) = (
            wide(f._mm512_unpacklo_ps(a, b)),
            wide(f._mm512_unpacklo_ps(c, d)),
        );
        let (ab_high, cd_high) = (
            wide(f._mm512_unpackhi_ps(a, b)),
            wide(f._mm512_unpackhi_ps(c, d)),
        );
        [
            f._mm512_castpd_ps(f._mm512_unpacklo_pd(ab, cd)),
            f._mm512_castpd_ps(f._mm512_unpackhi_pd(ab, cd)),
            f._mm512_castpd_ps(f._mm512_unpacklo_pd(ab_high, cd_high)),
            f._mm512_castpd_ps(f._mm512_unpackhi_pd(ab_high, cd_high)),
        ]
    }

    /// As [`rows_to_lanes`](super::rows_to_lanes), for sixteen rows of one length.
    #[inline(always)]
    pub(crate) fn rows_to_lanes(
        simd: V4,
        rows: &[&[f32]; MOST_LANES],
        target: &mut [f32],
        stride: usize,
    ) {
        let length = rows[0].len();
        let mut fours: [&[[f32; 4]]; MOST_LANES] = [&[]; MOST_LANES];
        for (fours, row) in fours.iter_mut().zip(rows) {
            *fours = &row.as_chunks().0[..length / 4];
        }
        for i in 0..length / 4 {
            let vectors = squares(
                simd,
                [
                    quarters(simd, &fours, 0, i),
                    quarters(simd, &fours, 1, i),
                    quarters(simd, &fours, 2, i),
                    quarters(simd, &fours, 3, i),
                ],
            );
            let target = &mut target[4 * i * stride..][..3 * stride + MOST_LANES];
            for k in 0..4 {
                target[k * stride..][..MOST_LANES]
                    .copy_from_slice(cast_ref::<_, [f32; MOST_LANES]>(&vectors[k]));
            }
        }
        for k in length / 4 * 4..length {
            for (target, row) in target[k * stride..][..MOST_LANES].iter_mut().zip(rows) {
                *target = row[k];
            }
        }
    }

    /// As [`lanes_to_rows`](super::lanes_to_rows).
    #[inline(always)]
    pub(crate) fn lanes_to_rows(simd: V4, vectors: &[f32]) -> [[f32; 4]; MOST_LANES] {
        let (vectors, _) = V4::as_simd_f32s(&vectors[..4 * MOST_LANES]);
        let turned = squares(
            simd,
            [
                cast(vectors[0]),
                cast(vectors[1]),
                cast(vectors[2]),
                cast(vectors[3]),
            ],
        );
        let mut rows = [[0.0; 4]; MOST_LANES];
        for (r, vector) in turned.into_iter().enumerate() {
            let quarters: [[f32; 4]; 4] = cast(vector);
            for (q, quarter) in quarters.into_iter().enumerate() {
                rows[4 * q + r] = quarter;
            }
        }
        rows
    }
}
