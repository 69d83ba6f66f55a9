//! The table of scalar ops: one row each.
//!
//! A row holds the op's documentation, its value on plain numbers, its partial derivatives, and where it is tested.
//! From the rows come the methods of [`Scalar`], their implementations for `f32` and `f64`, for tape variables and
//! for graph nodes, and the tests against central differences. Adding an op is adding a row.
//!
//! Values may branch: they are computed on plain numbers. Partials are formulas over any [`Scalar`], because a tape of
//! tapes differentiates them again; they therefore choose with `select`, `max` and `min` and never look at
//! `primal()`.
//!
//! `corners` lists the points at which an op or its derivative is not smooth, `domain` the interval its tests draw from.

use crate::float::Float;
use crate::scalar::Scalar;

pub(crate) mod layers;
pub(crate) mod reduce;
#[cfg(test)]
mod tests;

/// Calls the macro `$then` with the rows of ops with one argument.
macro_rules! unary_rows {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            /// 1/x. Derivative −1/x².
            recip { value: |x| 1.0 / x, partial: |x, y| -(y * y), domain: -60.0..60.0, corners: [0.0] }
            /// x². Derivative 2x.
            square { value: |x| x * x, partial: |x, y| x + x, domain: -60.0..60.0, corners: [] }
            /// x³. Derivative 3x².
            cube { value: |x| x * x * x, partial: |x, y| x * x * number::<T>(3.0), domain: -60.0..60.0, corners: [] }
            /// √x. Derivative 1/(2√x), which is +∞ at 0.
            sqrt { value: |x| x.sqrt(), partial: |x, y| y.recip() * number::<T>(0.5), domain: 0.0..60.0, corners: [0.0] }
            /// 1/√x. Derivative −1/(2x√x).
            rsqrt { value: |x| 1.0 / x.sqrt(), partial: |x, y| y / x * number::<T>(-0.5), domain: 0.0..60.0, corners: [0.0] }
            /// eˣ, its own derivative.
            exp { value: |x| x.exp(), partial: |x, y| y, domain: -60.0..60.0, corners: [] }
            /// eˣ − 1, exact near 0. Derivative eˣ.
            exp_m1 { value: |x| x.exp_m1(), partial: |x, y| x.exp(), domain: -60.0..60.0, corners: [] }
            /// Natural logarithm. Derivative 1/x.
            ln { value: |x| x.ln(), partial: |x, y| x.recip(), domain: 0.0..60.0, corners: [0.0] }
            /// ln(1 + x), exact near 0. Derivative 1/(1 + x).
            ln_1p { value: |x| x.ln_1p(), partial: |x, y| (x + number::<T>(1.0)).recip(), domain: -1.0..60.0, corners: [-1.0] }
            /// Sine of an angle in radians. Derivative cos x.
            sin { value: |x| x.sin(), partial: |x, y| x.cos(), domain: -60.0..60.0, corners: [] }
            /// Cosine of an angle in radians. Derivative −sin x.
            cos { value: |x| x.cos(), partial: |x, y| -x.sin(), domain: -60.0..60.0, corners: [] }
            /// Hyperbolic tangent. Derivative 1/cosh² x, computed as 4σ(2x)σ(−2x): 1 − tanh² x cancels in the tails.
            tanh {
                value: |x| x.tanh(),
                partial: |x, y| (x + x).sigmoid() * (-(x + x)).sigmoid() * number::<T>(4.0),
                domain: -60.0..60.0, corners: []
            }
            /// σ(x) = 1/(1 + e⁻ˣ), without overflow. Derivative σ(x)σ(−x).
            sigmoid {
                // In terms of e⁻|ˣ|, as softplus, so that value and derivatives of both share one exponential.
                value: |x| { let e = (-x.abs()).exp(); (if x < 0.0 { e } else { 1.0 }) / (1.0 + e) },
                partial: |x, y| y * (-x).sigmoid(),
                domain: -60.0..60.0, corners: []
            }
            /// ln(1 + eˣ), computed as max(x, 0) + ln(1 + e⁻|ˣ|). Derivative σ(x).
            softplus {
                value: |x| (if x > 0.0 { x } else { 0.0 }) + (-x.abs()).exp().ln_1p(),
                partial: |x, y| x.sigmoid(),
                domain: -60.0..60.0, corners: []
            }
            /// ln σ(x) = −softplus(−x). Derivative σ(−x).
            log_sigmoid { value: |x| -(-x).softplus(), partial: |x, y| (-x).sigmoid(), domain: -60.0..60.0, corners: [] }
            /// x where x > 0, else 0. Derivative 1 and 0; 0 at 0.
            relu {
                value: |x| if x <= 0.0 { 0.0 } else { x },
                partial: |x, y| x.select(constant(1.0), constant(0.0)),
                domain: -60.0..60.0, corners: [0.0]
            }
            /// |x|. Derivative the sign of x; 0 at 0.
            abs {
                value: |x| x.abs(),
                partial: |x, y| x.select(constant(1.0), (-x).select(constant(-1.0), constant(0.0))),
                domain: -60.0..60.0, corners: [0.0]
            }
            /// Error function 2/√π ∫₀ˣ exp(−t²) dt. Derivative 2/√π exp(−x²).
            erf {
                value: |x| x.error_function(),
                partial: |x, y| (-(x * x)).exp() * number::<T>(std::f64::consts::FRAC_2_SQRT_PI),
                domain: -60.0..60.0, corners: []
            }
            /// 1 − erf(x), exact in the upper tail. Derivative −2/√π exp(−x²).
            erfc {
                value: |x| x.complementary_error_function(),
                partial: |x, y| (-(x * x)).exp() * number::<T>(-std::f64::consts::FRAC_2_SQRT_PI),
                domain: -60.0..60.0, corners: []
            }
            /// Gaussian error linear unit xΦ(x), Φ the normal distribution function
            /// ([Hendrycks and Gimpel 2016](https://arxiv.org/abs/1606.08415)), from erfc so that the lower tail keeps its digits.
            /// Derivative Φ(x) + xφ(x).
            gelu {
                value: |x| if x < -BEYOND as Self { 0.0 } else { 0.5 * x * (-x * std::f64::consts::FRAC_1_SQRT_2 as Self).complementary_error_function() },
                partial: |x, y| {
                    let z = within(x);
                    let density = (z * z * number::<T>(-0.5)).exp() * number::<T>(FRAC_1_SQRT_TWO_PI);
                    (z * number::<T>(-std::f64::consts::FRAC_1_SQRT_2)).erfc() * number::<T>(0.5) + z * density
                },
                domain: -60.0..60.0, corners: []
            }
            /// The approximation of GELU by tanh, ½x(1 + tanh u) with u = √(2/π)(x + 0.044715x³)
            /// ([Hendrycks and Gimpel 2016](https://arxiv.org/abs/1606.08415)), computed as xσ(2u): 1 + tanh u cancels in the lower tail.
            /// Derivative σ(2u) + xσ(2u)σ(−2u)·2u′.
            gelu_tanh {
                value: |x| if x < -BEYOND as Self { 0.0 } else { x * gelu_argument(x).sigmoid() },
                partial: |x, y| {
                    let z = within(x);
                    let (left, right) = (gelu_argument(z).sigmoid(), (-gelu_argument(z)).sigmoid());
                    let slope = (z * z * number::<T>(3.0 * GELU_CUBIC) + number::<T>(1.0)) * number::<T>(GELU_LINEAR);
                    left + z * left * right * slope
                },
                domain: -60.0..60.0, corners: []
            }
        }
    };
}

/// Calls the macro `$then` with the rows of ops with two arguments.
macro_rules! binary_rows {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            /// xᵉ with a variable exponent. Derivatives e·xᵉ⁻¹, which is 0 for e = 0 also at x = 0, and xᵉ ln x, which is 0
            /// for x = 0 and e ≥ 0, and NaN for x < 0.
            pow {
                value: |a, b| a.powf(b),
                partials: |a, b, y| {
                    let (to_base, to_exponent) = (a.pow(b - number::<T>(1.0)) * b, y * a.ln());
                    let zero = constant(0.0);
                    (
                        where_zero(a, where_zero(b, zero, to_base), to_base),
                        where_zero(a, (-b).select(to_exponent, zero), to_exponent),
                    )
                },
                domain: (1e-3..4.0, -4.0..4.0), corners: ([0.0], [])
            }
        }
    };
}

/// Calls the macro `$then` with the rows of the operators.
macro_rules! operator_rows {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            add { [Add + AddAssign add_assign] value: |a, b| a + b, partials: |a, b, y| (constant(1.0), constant(1.0)), domain: (-60.0..60.0, -60.0..60.0), corners: ([], []) }
            sub { [Sub - SubAssign sub_assign] value: |a, b| a - b, partials: |a, b, y| (constant(1.0), constant(-1.0)), domain: (-60.0..60.0, -60.0..60.0), corners: ([], []) }
            mul { [Mul * MulAssign mul_assign] value: |a, b| a * b, partials: |a, b, y| (b, a), domain: (-60.0..60.0, -60.0..60.0), corners: ([], []) }
            div { [Div / DivAssign div_assign] value: |a, b| a / b, partials: |a, b, y| (b.recip(), -(y / b)), domain: (-60.0..60.0, -60.0..60.0), corners: ([], [0.0]) }
        }
    };
}

/// Calls the macro `$then` with the rows of ops over one slice.
macro_rules! reduction_rows {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            /// Σ xᵢ, added pairwise so that the error grows with the logarithm of the count; 0 for no terms.
            sum { domain: -60.0..60.0 }
            /// Π xᵢ; 1 for no factors. Each derivative is the product of the others, right also with zeros among them.
            product { domain: -4.0..4.0 }
            /// Σ xᵢ / n; NaN for no terms.
            mean { domain: -60.0..60.0 }
            /// Σ xᵢ²; 0 for no terms.
            sum_of_squares { domain: -60.0..60.0 }
            /// Σ xᵢ² / n; NaN for no terms.
            mean_of_squares { domain: -60.0..60.0 }
            /// Population variance Σ (xᵢ − m)² / n with m the mean, in two passes; NaN for no terms.
            variance { domain: -60.0..60.0 }
            /// ln Σ exp(xᵢ), shifted by the maximum; −∞ for no terms and, with gradient 0, if all are −∞.
            logsumexp { domain: -60.0..60.0 }
            /// Euclidean norm √(Σ xᵢ²), scaled against overflow; its gradient at 0 is 0.
            norm { domain: -60.0..60.0 }
        }
    };
}

pub(crate) use {binary_rows, operator_rows, reduction_rows, unary_rows};

/// Both GELUs are 0, and their derivatives 0 and 1, to all digits of an `f64` beyond this distance from 0.
pub(crate) const BEYOND: f64 = 40.0;
const FRAC_1_SQRT_TWO_PI: f64 = 0.398_942_280_401_432_7;
/// 2√(2/π): the argument of the logistic function that stands for GELU's tanh.
const GELU_LINEAR: f64 = 1.595_769_121_605_730_8;
const GELU_CUBIC: f64 = 0.044_715;

/// A plain number of `T`.
#[inline(always)]
fn number<T: Scalar>(x: f64) -> T::Primal {
    T::Primal::from_f64(x)
}

/// The constant `x`.
#[inline(always)]
pub(crate) fn constant<T: Scalar>(x: f64) -> T {
    T::constant(number::<T>(x))
}

/// `x` moved into the interval in which GELU is curved.
#[inline(always)]
fn within<T: Scalar>(x: T) -> T {
    x.max(constant(-BEYOND)).min(constant(BEYOND))
}

/// 2√(2/π)(x + 0.044715x³).
#[inline(always)]
pub(crate) fn gelu_argument<T: Scalar>(x: T) -> T {
    (x + x * x * x * number::<T>(GELU_CUBIC)) * number::<T>(GELU_LINEAR)
}

/// `then` where x is zero, `otherwise` elsewhere (also where it is NaN).
#[inline(always)]
pub(crate) fn where_zero<T: Scalar>(x: T, then: T, otherwise: T) -> T {
    constant::<T>(0.0).at_least(x.abs()).select(then, otherwise)
}

macro_rules! unary_partials {
    ($($(#[$doc:meta])* $name:ident { value: $value:expr, partial: |$x:ident, $y:ident| $partial:expr, $($row:tt)* })*) => {
        $(#[inline(always)] pub(crate) fn $name<T: Scalar>($x: T, $y: T) -> T { $partial })*
    };
}

macro_rules! binary_partials {
    ($($(#[$doc:meta])* $name:ident { $([$($operator:tt)*])? value: $value:expr, partials: |$a:ident, $b:ident, $y:ident| $partials:expr, $($row:tt)* })*) => {
        $(#[inline(always)] pub(crate) fn $name<T: Scalar>($a: T, $b: T, $y: T) -> (T, T) { $partials })*
    };
}

/// The partial derivatives of the rows: functions of the arguments and of the value `y`.
#[allow(
    unused_variables,
    reason = "each row uses what it needs of the arguments and the value"
)]
pub(crate) mod partial {
    use super::*;

    unary_rows! { unary_partials }
    binary_rows! { binary_partials }
    operator_rows! { binary_partials }

    /// Of xⁿ.
    #[inline(always)]
    pub(crate) fn powi<T: Scalar>(x: T, y: T, n: i32) -> T {
        let factor = T::Primal::from_f64(f64::from(n));
        match n {
            0 => constant(0.0),
            ..0 => y / x * factor,
            _ => x.powi(n - 1) * factor,
        }
    }

    /// Of xᶜ.
    #[inline(always)]
    pub(crate) fn powf<T: Scalar>(x: T, c: T::Primal) -> T {
        if c == T::Primal::ZERO {
            constant(0.0)
        } else {
            x.powf(c - T::Primal::ONE) * c
        }
    }
}
