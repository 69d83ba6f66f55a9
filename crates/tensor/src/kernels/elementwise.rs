//! Loops over one or more slices of equal length.

use super::dispatch::kernel;
use crate::Element;

kernel! {
    /// `y += x`
    pub(crate) fn add_into<'a, T>(y: &'a mut [T], x: &'a [T]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y += x;
        }
    }
}

kernel! {
    /// `y += c · x`
    pub(crate) fn add_scaled_into<'a, T>(y: &'a mut [T], c: T, x: &'a [T]) {
        for (y, &x) in y.iter_mut().zip(x) {
            *y = c.fma::<S>(x, *y);
        }
    }
}

kernel! {
    /// `z += x · y`
    pub(crate) fn add_product_into<'a, T>(z: &'a mut [T], x: &'a [T], y: &'a [T]) {
        for ((z, &x), &y) in z.iter_mut().zip(x).zip(y) {
            *z = x.fma::<S>(y, *z);
        }
    }
}

kernel! {
    /// `z = x + y`
    pub(crate) fn sum<'a, T>(z: &'a mut [T], x: &'a [T], y: &'a [T]) {
        for ((z, &x), &y) in z.iter_mut().zip(x).zip(y) {
            *z = x + y;
        }
    }
}

/// A function of one number together with its slope, for [`map_leaving_slope`].
pub(crate) trait Curve<T> {
    /// `(f(x), f′(x))` at the SIMD level `S`.
    fn at<S: pulp::Simd>(x: T) -> (T, T);
}

/// x ↦ x Φ(x).
pub(crate) struct Gelu;

impl<T: Element> Curve<T> for Gelu {
    #[inline(always)]
    fn at<S: pulp::Simd>(x: T) -> (T, T) {
        x.gelu_with_slope::<S>()
    }
}

/// The tanh form of gelu.
pub(crate) struct GeluTanh;

impl<T: Element> Curve<T> for GeluTanh {
    #[inline(always)]
    fn at<S: pulp::Simd>(x: T) -> (T, T) {
        x.gelu_tanh_with_slope::<S>()
    }
}

kernel! {
    /// `y = f(z)`, and the slope `f′(z)` in place of z.
    pub(crate) fn map_leaving_slope<'a, T, C: Curve<T>>(z: &'a mut [T], y: &'a mut [T]) {
        for (z, y) in z.iter_mut().zip(y) {
            (*y, *z) = C::at::<S>(*z);
        }
    }
}

kernel! {
    /// Adds one row to every row of `y`.
    pub(crate) fn add_row<'a, T>(y: &'a mut [T], row: &'a [T]) {
        for y in y.chunks_exact_mut(row.len()) {
            for (y, &x) in y.iter_mut().zip(row) {
                *y += x;
            }
        }
    }
}

kernel! {
    /// `z = x · y`
    pub(crate) fn product<'a, T>(z: &'a mut [T], x: &'a [T], y: &'a [T]) {
        for ((z, &x), &y) in z.iter_mut().zip(x).zip(y) {
            *z = x * y;
        }
    }
}
