//! eˣ, eˣ − 1 and tanh x.
//!
//! With n the integer next to x/ln 2 and r = x − n ln 2, eˣ = 2ⁿeʳ, and eʳ = 1 + r + r²P(r) on |r| ≤ ½ ln 2.

use crate::float::Float;

/// n, shifted by the rounding constant, and eʳ − 1.
#[inline(always)]
fn reduce<T: Float>(x: T) -> (T, T) {
    let shifted = x * T::LOG2_E + T::ROUND;
    let n = shifted - T::ROUND;
    let r = x - n * T::LN_2_HIGH - n * T::LN_2_LOW;
    (shifted, r + r * r * T::exp_remainder(r))
}

/// `x` moved up to `low` or down to where eˣ overflows. NaN stays.
#[inline(always)]
fn clamp<T: Float>(x: T, low: T) -> T {
    let x = if x < low { low } else { x };
    if x > T::EXP_HIGH { T::EXP_HIGH } else { x }
}

/// eˣ.
#[inline(always)]
pub(crate) fn exp<T: Float>(x: T) -> T {
    let (shifted, rest) = reduce(clamp(x, T::EXP_LOW));
    T::scale(T::ONE + rest, shifted)
}

/// eˣ − 1 = 2ⁿ((eʳ − 1) + (1 − 2⁻ⁿ)).
#[inline(always)]
pub(crate) fn exp_m1<T: Float>(x: T) -> T {
    let (shifted, rest) = reduce(clamp(x, T::EXP_M1_LOW));
    // Where 2⁻ⁿ might be subnormal, it is far below the last digit of 1.
    let inverse = if x > T::LARGE_EXPONENT {
        T::ZERO
    } else {
        T::power_of_minus(shifted)
    };
    let y = T::scale(rest + (T::ONE - inverse), shifted);
    if x == T::ZERO { x } else { y } // keeps the sign of −0
}

/// tanh x, the sign of x times −t/(t + 2) with t = e^(−2|x|) − 1.
#[inline(always)]
pub(crate) fn tanh<T: Float>(x: T) -> T {
    let t = exp_m1(T::with_sign_of(x + x, -T::ONE));
    T::with_sign_of(t / (t + T::TWO), x)
}
