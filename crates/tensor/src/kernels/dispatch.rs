//! Compiles one loop for each SIMD level and picks the machine's at run time.

/// Defines a function whose body is compiled once per SIMD level (portable, AVX2 with FMA, AVX-512, NEON).
///
/// The body sees a type `S`, the level, to pass on to functions such as [`Element::fma`](crate::Element::fma). Everything
/// it calls must be `#[inline(always)]`, or the callee is compiled for the portable level.
macro_rules! kernel {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$life:lifetime, $T:ident $(, $G:ident: $bound:path)*>($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)?
        $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name<$life, $T: $crate::Element $(, $G: $bound + $life)*>($($arg: $ty),*) $(-> $out)? {
            struct Call<$life, $T $(, $G)*> {
                $($arg: $ty,)*
                lives: std::marker::PhantomData<&$life ($T, $($G,)*)>,
            }
            impl<$life, $T: $crate::Element $(, $G: $bound + $life)*> pulp::WithSimd for Call<$life, $T $(, $G)*> {
                type Output = $crate::kernels::dispatch::kernel!(@output $($out)?);
                #[inline(always)]
                #[allow(unused_imports)]
                fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
                    let Call { $($arg,)* lives: _ } = self;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Call::<$life, $T $(, $G)*> { $($arg,)* lives: std::marker::PhantomData })
        }
    };
    (@output) => { () };
    (@output $out:ty) => { $out };
}

pub(crate) use kernel;
