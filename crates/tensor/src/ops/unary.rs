//! Functions of one number, applied to every element: what their op files share.

/// Implements [`Op<1>`](crate::Op) for a unit struct from its name, its scalar method, and its value and slope for
/// kernels. The slope is given the input and the result.
macro_rules! unary {
    (
        $Op:ident, $name:literal, formula: $formula:ident,
        value<$S:ident>: |$x:ident| $value:expr,
        slope: |$a:ident, $b:ident| $slope:expr $(,)?
    ) => {
        $crate::kernels::dispatch::kernel! {
            fn forward<'a, T>(x: &'a [T], y: &'a mut [T]) {
                #[inline(always)]
                #[allow(clippy::extra_unused_type_parameters)] // most values need no level
                fn value<T: $crate::Element, $S: pulp::Simd>($x: T) -> T {
                    $value
                }
                for (&x, y) in x.iter().zip(y) {
                    *y = value::<T, S>(x);
                }
            }
        }

        $crate::kernels::dispatch::kernel! {
            fn backward<'a, T>(x: &'a [T], y: &'a [T], dy: &'a [T], dx: &'a mut [T]) {
                #[inline(always)]
                #[allow(unused_variables, clippy::extra_unused_type_parameters)]
                fn slope<T: $crate::Element, $S: pulp::Simd>($a: T, $b: T) -> T {
                    $slope
                }
                for (((&x, &y), &dy), dx) in x.iter().zip(y).zip(dy).zip(dx) {
                    *dx = dy.fma::<S>(slope::<T, S>(x, y), *dx);
                }
            }
        }

        impl $crate::Op<1> for $Op {
            const NAME: &'static str = $name;

            fn shape(
                &self,
                _: &$crate::Context<'_>,
                [x]: [$crate::Shape; 1],
            ) -> $crate::Result<$crate::Shape> {
                Ok(x)
            }

            fn formula<S: burtorch_core::Scalar>(
                &self,
                _: &$crate::Context<'_>,
                [x]: [$crate::View<'_, S>; 1],
                y: &mut Vec<S>,
            ) {
                y.extend(x.data.iter().map(|x| x.$formula()));
            }

            fn forward<T: $crate::Element>(
                &self,
                _: &mut $crate::Run<'_, T>,
                [x]: [$crate::View<'_, T>; 1],
                y: &mut [T],
                _: &mut [T],
            ) {
                forward(x.data, y);
            }

            fn backward<T: $crate::Element>(
                &self,
                _: &mut $crate::Run<'_, T>,
                [x]: [$crate::View<'_, T>; 1],
                y: &[T],
                _: &[T],
                dy: &[T],
                [dx]: [Option<&mut [T]>; 1],
            ) {
                if let Some(dx) = dx {
                    backward(x.data, y, dy, dx);
                }
            }
        }
    };
}

pub(super) use unary;

/// −|x|.
#[inline(always)]
pub(super) fn negative_magnitude<T: crate::Element>(x: T) -> T {
    if x > T::ZERO { -x } else { x }
}
