//! σ(x), ln(1 + eˣ) and ln σ(x), from the one exponential e^(−|x|), which cannot overflow.

use super::exp;
use super::logarithm::logarithm;
use crate::float::Float;
use crate::ops::{BEYOND, gelu_argument};

/// e^(−|x|).
#[inline(always)]
fn decay<T: Float>(x: T) -> T {
    exp(T::with_sign_of(x, -T::ONE))
}

/// 1/(1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid<T: Float>(x: T) -> T {
    let decay = decay(x);
    let share = if x < T::ZERO { decay } else { T::ONE };
    share / (T::ONE + decay)
}

/// max(x, 0) + ln(1 + e^(−|x|)).
#[inline(always)]
pub(crate) fn softplus<T: Float>(x: T) -> T {
    let decay = decay(x);
    let positive = if x < T::ZERO { T::ZERO } else { x };
    positive + ln_1p_of_share(decay)
}

/// −softplus(−x).
#[inline(always)]
pub(crate) fn log_sigmoid<T: Float>(x: T) -> T {
    -softplus(-x)
}

/// x σ(2u), u the argument of the tanh in the approximation of GELU.
#[inline(always)]
pub(crate) fn gelu_tanh<T: Float>(x: T) -> T {
    if x < -T::from_f64(BEYOND) {
        T::ZERO
    } else {
        x * sigmoid(gelu_argument(x))
    }
}

/// ln(1 + x) for x from 0 to 1, where 1 + x needs halving at most.
#[inline(always)]
fn ln_1p_of_share<T: Float>(x: T) -> T {
    let sum = T::ONE + x;
    let dropped = x - (sum - T::ONE);
    let halved = sum > T::SQRT_2;
    let scale = if halved { T::HALF } else { T::ONE };
    let exponent = if halved { T::ONE } else { T::ZERO };
    logarithm(sum * scale - T::ONE + dropped * scale, exponent)
}
