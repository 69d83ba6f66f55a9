//! ln x and ln(1 + x).
//!
//! With x = 2ᵏ(1 + f) and 1 + f between √½ and √2, ln x = k ln 2 + ln(1 + f), and with s = f/(2 + f)
//! ln(1 + f) = 2 artanh s = f − ½f² + s(½f² + s²P(s²)), whose first term is exact.

use crate::float::Float;

/// k ln 2 + ln(1 + f).
#[inline(always)]
pub(super) fn logarithm<T: Float>(f: T, k: T) -> T {
    let s = f / (T::TWO + f);
    let z = s * s;
    let half_square = T::HALF * f * f;
    let correction = s * (half_square + z * T::artanh_remainder(z)) + k * T::LN_2_LOW;
    k * T::LN_2_HIGH + (f - (half_square - correction))
}

/// `y`, but the logarithm's limits where `x` is no positive finite number.
#[inline(always)]
fn with_limits<T: Float>(x: T, y: T) -> T {
    let y = if x < T::INFINITY { y } else { x }; // +∞ and NaN
    let y = if x == T::ZERO { T::NEG_INFINITY } else { y };
    if x < T::ZERO { T::NAN } else { y }
}

/// Natural logarithm.
#[inline(always)]
pub(crate) fn ln<T: Float>(x: T) -> T {
    let (significand, exponent) = T::split(x);
    with_limits(x, logarithm(significand - T::ONE, exponent))
}

/// ln(1 + x), with the digits that 1 + x drops put back.
#[inline(always)]
pub(crate) fn ln_1p<T: Float>(x: T) -> T {
    let sum = T::ONE + x;
    let dropped = if x < T::ONE {
        x - (sum - T::ONE)
    } else {
        T::ONE - (sum - x)
    };
    let (significand, exponent) = T::split(sum);
    let dropped = if x < T::LARGE {
        dropped * (significand / sum)
    } else {
        T::ZERO
    };
    let y = with_limits(sum, logarithm(significand - T::ONE + dropped, exponent));
    if x == T::ZERO { x } else { y } // keeps the sign of −0
}
