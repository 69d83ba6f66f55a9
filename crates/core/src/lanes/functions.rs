//! Functions of one lane that vectorise: no branch, no table, no call, no fused multiply-add.
//!
//! They are written once for both types; [`Vectorised`] holds what differs. Every operation is one that IEEE 754 rounds in
//! one way only, so the results have the same bits at every SIMD level and on every machine. Fused multiply-adds would
//! be faster by a fifth where they exist, give other bits there, and be a slow call elsewhere.

mod constants;
mod exponential;
mod logarithm;
mod logistic;

pub(crate) use exponential::{exp, exp_m1, tanh};
pub(crate) use logarithm::{ln, ln_1p};
pub(crate) use logistic::{gelu_tanh, log_sigmoid, sigmoid, softplus};

/// What the two number types differ in: constants, polynomials and the layout of their bits.
///
/// It is a supertrait of [`Float`](crate::Float), which therefore is for `f32` and `f64` alone.
pub trait Vectorised: Copy {
    /// ½.
    const HALF: Self;
    /// 2.
    const TWO: Self;
    /// √2.
    const SQRT_2: Self;
    /// Adding and subtracting 1.5·2ᵖ, p the bits after the leading one, leaves the nearest integer, and leaves it in the
    /// lowest bits of the sum. (A cast would saturate, which does not vectorise.)
    const ROUND: Self;
    /// 1/ln 2.
    const LOG2_E: Self;
    /// ln 2 but for its last digits, with so many trailing zero bits that its product with any exponent is exact.
    const LN_2_HIGH: Self;
    /// The rest of ln 2.
    const LN_2_LOW: Self;
    /// eˣ is +∞ at this x, by rounding.
    const EXP_HIGH: Self;
    /// eˣ is 0 at this x, by rounding.
    const EXP_LOW: Self;
    /// eˣ − 1 is −1 from here down, by rounding.
    const EXP_M1_LOW: Self;
    /// 2⁻ⁿ is far below the last digit of 1, and still a normal number, for n ln 2 here.
    const LARGE_EXPONENT: Self;
    /// 2⁶⁴: far beyond where 1 and what is added to it can still both matter.
    const LARGE: Self;

    /// (eʳ − 1 − r)/r² for |r| ≤ ½ ln 2.
    fn exp_remainder(r: Self) -> Self;
    /// (2 artanh s − 2s)/s³ as a function of z = s², for s up to (√2 − 1)/(√2 + 1).
    fn artanh_remainder(z: Self) -> Self;
    /// x·2ⁿ, rounded once, where `shifted` is n + [`ROUND`](Self::ROUND) and 2ⁿ may lie outside the type's range.
    fn scale(x: Self, shifted: Self) -> Self;
    /// 2⁻ⁿ, where `shifted` is n + [`ROUND`](Self::ROUND) and 2ⁿ is a normal number.
    fn power_of_minus(shifted: Self) -> Self;
    /// (m, k) with x = m·2ᵏ and m in [√½, √2), for positive finite x.
    fn split(x: Self) -> (Self, Self);
    /// The size of `x` with the sign of `sign`.
    fn with_sign_of(x: Self, sign: Self) -> Self;
}
