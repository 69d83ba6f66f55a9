//! Compiles one loop for each SIMD level and picks the machine's at run time.

use burtorch_core::lanes::Level;

/// Defines a function whose body is compiled once per SIMD level (portable, AVX2 with FMA, AVX-512, NEON).
///
/// The body sees a type `S`, the level, and its only value under the name in brackets before the arguments, to pass on to functions such as [`KernelElement::fma`](crate::element::KernelElement::fma). Everything
/// it calls must be `#[inline(always)]`, or the callee is compiled for the portable level.
macro_rules! kernel {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident<$life:lifetime, $T:ident $(, $G:ident: $bound:path)*>($([$simd:ident])? $($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)?
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
                fn with_simd<S: pulp::Simd>(self, _level: S) -> Self::Output {
                    $(let $simd = _level;)?
                    let Call { $($arg,)* lives: _ } = self;
                    $body
                }
            }
            $crate::kernels::dispatch::arch().dispatch(Call::<$life, $T $(, $G)*> { $($arg,)* lives: std::marker::PhantomData })
        }
    };
    (@output) => { () };
    (@output $out:ty) => { $out };
}

pub(crate) use kernel;

/// The instructions that kernels use on this machine: the best level it has of `avx512`, `avx2`, `neon` and `portable`, unless
/// [`Level::limit`] asked for another one.
#[must_use]
pub fn simd_level() -> &'static str {
    struct Width;
    impl pulp::WithSimd for Width {
        type Output = usize;
        fn with_simd<S: pulp::Simd>(self, _: S) -> usize {
            size_of::<S::f32s>() / size_of::<f32>()
        }
    }
    // The levels differ in the f32 that a vector holds.
    match arch().dispatch(Width) {
        16 => "avx512",
        8 => "avx2",
        4 => "neon",
        _ => "portable",
    }
}

/// The machine's SIMD level, or the one that was asked for.
#[cfg(not(test))]
#[inline(always)]
pub(crate) fn arch() -> pulp::Arch {
    match Level::limited() {
        None => pulp::Arch::new(),
        Some(level) => limited_to(level),
    }
}

/// pulp's word for a level.
#[cold]
fn limited_to(level: Level) -> pulp::Arch {
    match level.name() {
        #[cfg(target_arch = "x86_64")]
        "avx512" => pulp::Arch::new(),
        #[cfg(target_arch = "x86_64")]
        "avx2" => pulp::x86::V3::try_new().map_or(pulp::Arch::Scalar, pulp::Arch::V3),
        _ => pulp::Arch::Scalar,
    }
}

#[cfg(test)]
pub(crate) use levels::arch;

/// Tests run the kernels at every level that the machine has.
#[cfg(test)]
pub(crate) mod levels {
    use std::cell::Cell;

    use pulp::Arch;

    thread_local! {
        static FORCED: Cell<Option<Arch>> = const { Cell::new(None) };
    }

    pub(crate) fn arch() -> Arch {
        FORCED.get().unwrap_or_default()
    }

    /// Runs `test` once a level, from the portable one up.
    pub(crate) fn at_every_level(mut test: impl FnMut()) {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut levels = vec![Arch::Scalar, Arch::new()];
        #[cfg(target_arch = "x86_64")]
        levels.extend(pulp::x86::V3::try_new().map(Arch::V3));
        for level in levels {
            at(level, &mut test);
        }
    }

    /// Runs `test` at one level.
    pub(crate) fn at(level: Arch, mut test: impl FnMut()) {
        FORCED.set(Some(level));
        test();
        FORCED.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_known_to_pulp_by_the_same_name() {
        for level in Level::available() {
            levels::at(limited_to(level), || assert_eq!(simd_level(), level.name()));
        }
    }
}
