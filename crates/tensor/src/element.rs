//! The numbers that kernels work on.

use burtorch_core::{Float, Scalar};
use pulp::Simd;
use pulp::bytemuck::Pod;

#[cfg(target_arch = "x86_64")]
use crate::kernels::transpose;
use crate::kernels::turn::{self, MOST_LANES};
use crate::kernels::{edges, math};

/// The number types of tensors: `f32` and `f64`.
pub trait Element: KernelElement {}

impl Element for f32 {}
impl Element for f64 {}

/// What kernels need of a number: f32 in fast polynomial form, f64 in full precision. It cannot be named outside this
/// crate, so no other type can be an [`Element`], and kernels may change what they need.
///
/// `S` is the SIMD level a kernel is compiled for.
pub trait KernelElement: Float + Pod {
    /// One vector register of the level.
    type Vector<S: Simd>: Copy + Pod;

    /// The vector that holds `self` in every lane.
    #[must_use]
    fn splat<S: Simd>(self, simd: S) -> Self::Vector<S>;

    /// `a · b + c` in every lane.
    #[must_use]
    fn fma_vectors<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;

    /// `a + b` in every lane.
    #[must_use]
    fn add_vectors<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// `a − b` in every lane.
    #[must_use]
    fn subtract_vectors<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
    ) -> Self::Vector<S>;

    /// `a · b` in every lane.
    #[must_use]
    fn multiply_vectors<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
    ) -> Self::Vector<S>;

    /// The first half of a, the second half of b.
    #[must_use]
    fn halves<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// The larger of a and b in every lane; either if one is NaN.
    #[must_use]
    fn max_vectors<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// The largest lane, any if one is NaN.
    #[must_use]
    fn max_lanes<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;

    /// The sum over all lanes.
    #[must_use]
    fn sum_lanes<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;

    /// The whole vectors at the front of a slice, and the numbers left over.
    #[must_use]
    fn vectors<S: Simd>(x: &[Self]) -> (&[Self::Vector<S>], &[Self]);

    /// A vector with the numbers of `x`, as many as it has lanes; zeros beyond.
    #[must_use]
    fn load_part<S: Simd>(simd: S, x: &[Self]) -> Self::Vector<S>;

    /// Writes the first lanes of a vector, as many as `x` has numbers.
    fn store_part<S: Simd>(simd: S, x: &mut [Self], vector: Self::Vector<S>);

    /// The whole vectors at the front of a slice, and the numbers left over.
    #[must_use]
    fn vectors_mut<S: Simd>(x: &mut [Self]) -> (&mut [Self::Vector<S>], &mut [Self]);

    /// The numbers of some vectors.
    #[must_use]
    fn numbers<S: Simd>(x: &[Self::Vector<S>]) -> &[Self];

    /// The numbers of some vectors, to change.
    #[must_use]
    fn numbers_mut<S: Simd>(x: &mut [Self::Vector<S>]) -> &mut [Self];

    /// `self · a + b`, fused where the level has the instruction (elsewhere a fused product is a slow library call).
    #[must_use]
    fn fma<S: Simd>(self, a: Self, b: Self) -> Self;

    /// Rows as columns.
    #[must_use]
    #[inline(always)]
    fn transpose_square(rows: [[Self; 4]; 4]) -> [[Self; 4]; 4] {
        std::array::from_fn(|i| rows.map(|row| row[i]))
    }

    /// Puts number k of every row side by side at `target[k · stride]`, in the order of the rows. They are as many as a vector has
    /// lanes, all of one length.
    #[inline(always)]
    fn rows_to_lanes<S: Simd>(_: S, rows: &[&[Self]], target: &mut [Self], stride: usize) {
        turn::rows_to_lanes(rows, target, stride);
    }

    /// The numbers that each lane has in the first four of some vectors.
    #[must_use]
    #[inline(always)]
    fn lanes_to_rows<S: Simd>(_: S, vectors: &[Self]) -> [[Self; 4]; MOST_LANES] {
        turn::lanes_to_rows(vectors, size_of::<Self::Vector<S>>() / size_of::<Self>())
    }

    /// `eˣ`. f32: relative error below 2e-7, 0 below −86.9; f64: as the standard library.
    #[must_use]
    fn exp_fast<S: Simd>(self) -> Self;

    /// `(gelu(x), gelu′(x))` for `gelu(x) = x Φ(x)`, Φ the normal distribution function. f32: error of the value below 5e-7 (1 + |x|), of
    /// the slope below 1e-6.
    #[must_use]
    fn gelu_with_slope<S: Simd>(self) -> (Self, Self);

    /// `(gelu(x), gelu′(x))` for the tanh form, `x σ(2√(2/π)(x + 0.044715 x³))`. f32: error of the value below
    /// 5e-7 (1 + |x|), of the slope below 2e-6.
    #[must_use]
    fn gelu_tanh_with_slope<S: Simd>(self) -> (Self, Self);
}

impl KernelElement for f32 {
    type Vector<S: Simd> = S::f32s;

    #[inline(always)]
    fn splat<S: Simd>(self, simd: S) -> S::f32s {
        simd.splat_f32s(self)
    }

    #[inline(always)]
    fn fma_vectors<S: Simd>(simd: S, a: S::f32s, b: S::f32s, c: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(a, b, c)
    }

    #[inline(always)]
    fn add_vectors<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.add_f32s(a, b)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn transpose_square(rows: [[f32; 4]; 4]) -> [[f32; 4]; 4] {
        transpose::square(rows)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn rows_to_lanes<S: Simd>(simd: S, rows: &[&[f32]], target: &mut [f32], stride: usize) {
        match (turn::avx512::level(simd), rows.first_chunk()) {
            (Some(level), Some(rows)) => turn::avx512::rows_to_lanes(level, rows, target, stride),
            _ => turn::rows_to_lanes(rows, target, stride),
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn lanes_to_rows<S: Simd>(simd: S, vectors: &[f32]) -> [[f32; 4]; MOST_LANES] {
        match turn::avx512::level(simd) {
            Some(level) => turn::avx512::lanes_to_rows(level, vectors),
            None => turn::lanes_to_rows(vectors, S::F32_LANES),
        }
    }

    #[inline(always)]
    fn load_part<S: Simd>(simd: S, x: &[f32]) -> S::f32s {
        edges::load_f32(simd, x)
    }

    #[inline(always)]
    fn store_part<S: Simd>(simd: S, x: &mut [f32], vector: S::f32s) {
        edges::store_f32(simd, x, vector);
    }

    #[inline(always)]
    fn subtract_vectors<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.sub_f32s(a, b)
    }

    #[inline(always)]
    fn multiply_vectors<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.mul_f32s(a, b)
    }

    #[inline(always)]
    fn halves<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        let first = simd.mask_between_m32s(0, S::F32_LANES as u32 / 2);
        simd.select_f32s(first.mask(), a, b)
    }

    #[inline(always)]
    fn max_vectors<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.max_f32s(a, b)
    }

    #[inline(always)]
    fn max_lanes<S: Simd>(simd: S, a: S::f32s) -> f32 {
        simd.reduce_max_f32s(a)
    }

    #[inline(always)]
    fn sum_lanes<S: Simd>(simd: S, a: S::f32s) -> f32 {
        simd.reduce_sum_f32s(a)
    }

    #[inline(always)]
    fn vectors<S: Simd>(x: &[f32]) -> (&[S::f32s], &[f32]) {
        S::as_simd_f32s(x)
    }

    #[inline(always)]
    fn vectors_mut<S: Simd>(x: &mut [f32]) -> (&mut [S::f32s], &mut [f32]) {
        S::as_mut_simd_f32s(x)
    }

    #[inline(always)]
    fn numbers<S: Simd>(x: &[S::f32s]) -> &[f32] {
        pulp::bytemuck::cast_slice(x)
    }

    #[inline(always)]
    fn numbers_mut<S: Simd>(x: &mut [S::f32s]) -> &mut [f32] {
        pulp::bytemuck::cast_slice_mut(x)
    }

    #[inline(always)]
    fn fma<S: Simd>(self, a: f32, b: f32) -> f32 {
        if S::IS_SCALAR {
            self * a + b
        } else {
            f32::mul_add(self, a, b)
        }
    }

    #[inline(always)]
    fn exp_fast<S: Simd>(self) -> f32 {
        math::exp::<S>(self)
    }

    #[inline(always)]
    fn gelu_with_slope<S: Simd>(self) -> (f32, f32) {
        math::gelu::<S>(self)
    }

    #[inline(always)]
    fn gelu_tanh_with_slope<S: Simd>(self) -> (f32, f32) {
        math::gelu_tanh::<f32, S>(self)
    }
}

impl KernelElement for f64 {
    type Vector<S: Simd> = S::f64s;

    #[inline(always)]
    fn splat<S: Simd>(self, simd: S) -> S::f64s {
        simd.splat_f64s(self)
    }

    #[inline(always)]
    fn fma_vectors<S: Simd>(simd: S, a: S::f64s, b: S::f64s, c: S::f64s) -> S::f64s {
        simd.mul_add_e_f64s(a, b, c)
    }

    #[inline(always)]
    fn add_vectors<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> S::f64s {
        simd.add_f64s(a, b)
    }

    #[inline(always)]
    fn subtract_vectors<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> S::f64s {
        simd.sub_f64s(a, b)
    }

    #[inline(always)]
    fn multiply_vectors<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> S::f64s {
        simd.mul_f64s(a, b)
    }

    #[inline(always)]
    fn max_lanes<S: Simd>(simd: S, a: S::f64s) -> f64 {
        simd.reduce_max_f64s(a)
    }

    #[inline(always)]
    fn sum_lanes<S: Simd>(simd: S, a: S::f64s) -> f64 {
        simd.reduce_sum_f64s(a)
    }

    #[inline(always)]
    fn vectors<S: Simd>(x: &[f64]) -> (&[S::f64s], &[f64]) {
        S::as_simd_f64s(x)
    }

    #[inline(always)]
    fn halves<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> S::f64s {
        let first = simd.mask_between_m64s(0, S::F64_LANES as u64 / 2);
        simd.select_f64s(first.mask(), a, b)
    }

    #[inline(always)]
    fn max_vectors<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> S::f64s {
        simd.max_f64s(a, b)
    }

    #[inline(always)]
    fn load_part<S: Simd>(simd: S, x: &[f64]) -> S::f64s {
        edges::load_f64(simd, x)
    }

    #[inline(always)]
    fn store_part<S: Simd>(simd: S, x: &mut [f64], vector: S::f64s) {
        edges::store_f64(simd, x, vector);
    }

    #[inline(always)]
    fn vectors_mut<S: Simd>(x: &mut [f64]) -> (&mut [S::f64s], &mut [f64]) {
        S::as_mut_simd_f64s(x)
    }

    #[inline(always)]
    fn numbers<S: Simd>(x: &[S::f64s]) -> &[f64] {
        pulp::bytemuck::cast_slice(x)
    }

    #[inline(always)]
    fn numbers_mut<S: Simd>(x: &mut [S::f64s]) -> &mut [f64] {
        pulp::bytemuck::cast_slice_mut(x)
    }

    #[inline(always)]
    fn fma<S: Simd>(self, a: f64, b: f64) -> f64 {
        if S::IS_SCALAR {
            self * a + b
        } else {
            f64::mul_add(self, a, b)
        }
    }

    #[inline(always)]
    fn exp_fast<S: Simd>(self) -> f64 {
        f64::exp(self)
    }

    #[inline(always)]
    fn gelu_with_slope<S: Simd>(self) -> (f64, f64) {
        let density = (-0.5 * self * self).exp()
            * (0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2);
        let distribution = 0.5 * Scalar::erfc(-self * std::f64::consts::FRAC_1_SQRT_2);
        let value = if self < -40.0 {
            0.0
        } else {
            self * distribution
        };
        // Far out the density is 0 whatever x is, also where x is infinite.
        let bounded = self.clamp(-40.0, 40.0);
        (value, distribution + bounded * density)
    }

    #[inline(always)]
    fn gelu_tanh_with_slope<S: Simd>(self) -> (f64, f64) {
        math::gelu_tanh::<f64, S>(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f07_the_wide_gelu_is_right_at_the_ends_of_its_range() {
        let gelu = |x: f64| x.gelu_with_slope::<pulp::Scalar>();
        for x in [5e-324, -5e-324, 1e-310, 0.0, -0.0] {
            assert_eq!(gelu(x).1, 0.5, "{x:e}");
        }
        assert_eq!(gelu(f64::INFINITY), (f64::INFINITY, 1.0));
        assert_eq!(
            (gelu(f64::NEG_INFINITY).0, gelu(f64::NEG_INFINITY).1),
            (0.0, 0.0)
        );
        assert!((gelu(-5.0).0 / -1.433_257_859_3e-6 - 1.0).abs() < 1e-6);
        assert!(gelu(f64::NAN).0.is_nan() && gelu(f64::NAN).1.is_nan());
    }
}
