//! The two kinds of plain number: `f32` and `f64`.

use std::fmt::{Debug, Display, LowerExp};

use crate::lanes::functions::Vectorised;
use crate::scalar::Scalar;

/// A plain floating-point number, `f32` or `f64`: what every [`Scalar`] is made of in the end. No other type can be one.
///
/// ```
/// use burtorch_core::Float;
///
/// fn halves<F: Float>(x: F) -> F {
///     x / F::from_f64(2.0)
/// }
/// assert_eq!(halves(3.0_f32), 1.5);
/// ```
pub trait Float:
    Scalar<Primal = Self, Held: Send>
    + Vectorised
    + PartialOrd
    + Default
    + Debug
    + Display
    + LowerExp
    + Send
    + Sync
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Distance from 1 to the next larger number.
    const EPSILON: Self;
    /// Largest finite number.
    const MAX: Self;
    /// Smallest positive number that is not subnormal.
    const MIN_POSITIVE: Self;
    /// +∞.
    const INFINITY: Self;
    /// −∞.
    const NEG_INFINITY: Self;
    /// Not a number.
    const NAN: Self;
    /// The type's name, `"f32"` or `"f64"`, as files and messages spell it.
    const NAME: &'static str;

    /// The nearest number of this type.
    fn from_f64(x: f64) -> Self;
    /// The same number as an `f64`; exact.
    fn to_f64(self) -> f64;
    /// The nearest number of this type.
    fn from_usize(n: usize) -> Self;
    /// Appends the bytes of this number, the least significant first.
    fn append_bytes(self, bytes: &mut Vec<u8>);
    /// The number that has these bytes, the least significant first; missing ones are 0, further ones are not read.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Whether this is neither infinite nor NaN.
    fn is_finite(self) -> bool;
    /// Whether this is NaN.
    fn is_nan(self) -> bool;
}

/// Functions the table of ops needs and std lacks.
pub(crate) trait Special {
    /// 2/√π ∫₀ˣ exp(−t²) dt.
    fn error_function(self) -> Self;
    /// 1 − erf(x), without its cancellation for large x.
    fn complementary_error_function(self) -> Self;
}

macro_rules! float {
    ($type:ident, $erf:ident, $erfc:ident) => {
        impl Float for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const EPSILON: Self = $type::EPSILON;
            const MAX: Self = $type::MAX;
            const MIN_POSITIVE: Self = $type::MIN_POSITIVE;
            const INFINITY: Self = $type::INFINITY;
            const NEG_INFINITY: Self = $type::NEG_INFINITY;
            const NAN: Self = $type::NAN;
            const NAME: &'static str = stringify!($type);

            #[inline]
            fn from_f64(x: f64) -> Self {
                x as $type
            }
            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline]
            fn from_usize(n: usize) -> Self {
                n as $type
            }
            #[inline]
            fn append_bytes(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.iter_mut().zip(bytes).for_each(|(to, &from)| *to = from);
                Self::from_le_bytes(own)
            }
            #[inline]
            fn is_finite(self) -> bool {
                self.is_finite()
            }
            #[inline]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }

        impl Special for $type {
            #[inline]
            fn error_function(self) -> Self {
                libm::$erf(self)
            }
            #[inline]
            fn complementary_error_function(self) -> Self {
                libm::$erfc(self)
            }
        }
    };
}

float!(f32, erff, erfcf);
float!(f64, erf, erfc);
