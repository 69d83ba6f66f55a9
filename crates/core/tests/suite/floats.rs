//! What tests for both float types share.

use burtorch_core::Float;

/// Runs a generic test for both float types.
macro_rules! both {
    ($($name:ident)*) => {$(
        mod $name {
            #[test]
            fn f32() {
                super::$name::<f32>();
            }
            #[test]
            fn f64() {
                super::$name::<f64>();
            }
        }
    )*};
}

pub(crate) fn c<F: Float>(x: f64) -> F {
    F::from_f64(x)
}

/// NaN and infinities are close to themselves only.
#[track_caller]
pub(crate) fn assert_close<F: Float>(found: F, expected: f64, tolerance: f64) {
    let same = if expected.is_finite() {
        (found.to_f64() - expected).abs() <= tolerance
    } else {
        found.to_f64() == expected || found.is_nan() && expected.is_nan()
    };
    assert!(same, "expected {expected:e}, found {found:e}");
}
