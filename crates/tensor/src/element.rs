//! The numbers that kernels work on.

use burtorch_core::{Float, Scalar};
use pulp::Simd;

use crate::kernels::math;

/// A [`Float`] with the functions that vectorised kernels need: f32 in fast polynomial form, f64 in full precision.
///
/// `S` is the SIMD level a kernel is compiled for.
pub trait Element: Float {
    /// `self · a + b`, fused where the level has the instruction (elsewhere a fused product is a slow library call).
    #[must_use]
    fn fma<S: Simd>(self, a: Self, b: Self) -> Self;

    /// `eˣ`. f32: relative error below 2e-7, 0 below −86.9; f64: as the standard library.
    #[must_use]
    fn exp_fast<S: Simd>(self) -> Self;

    /// `(gelu(x), gelu′(x))` for `gelu(x) = x Φ(x)`, Φ the normal distribution function. f32: error below 5e-7.
    #[must_use]
    fn gelu_with_slope<S: Simd>(self) -> (Self, Self);

    /// `(gelu(x), gelu′(x))` for the tanh form, `x σ(2√(2/π)(x + 0.044715 x³))`. f32: error below 2e-6.
    #[must_use]
    fn gelu_tanh_with_slope<S: Simd>(self) -> (Self, Self);
}

impl Element for f32 {
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

impl Element for f64 {
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
        let value = Scalar::gelu(self);
        let density = (-0.5 * self * self).exp()
            * (0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2);
        // Φ from the value, except at 0, where it is a half; far out the density is 0 whatever x is.
        let distribution = if self == 0.0 { 0.5 } else { value / self };
        (value, distribution + self.clamp(-40.0, 40.0) * density)
    }

    #[inline(always)]
    fn gelu_tanh_with_slope<S: Simd>(self) -> (f64, f64) {
        math::gelu_tanh::<f64, S>(self)
    }
}
