//! Vectors of which a slice has only some numbers: loads and stores with a mask, the one thing the compiler does badly by itself.
//!
//! Matrices of 24 columns, and heads of 4, end within a vector of 16. Copying the rest number by number, or by a call of
//! memcpy, took half of the time of such products.
#![allow(
    unsafe_code,
    reason = "masked loads and stores take a pointer, as said above"
)]

use pulp::{MemMask, Simd};

macro_rules! edges {
    ($load:ident $store:ident $float:ident $vector:ident $lanes:ident $count:ident $mask:ident $mask_load:ident $mask_store:ident) => {
        /// A vector with the numbers of `x`, as many as it has lanes; zeros beyond.
        #[inline(always)]
        pub(crate) fn $load<S: Simd>(simd: S, x: &[$float]) -> S::$vector {
            let count = x.len().min(S::$lanes) as $count;
            let mask = MemMask::new(simd.$mask(0, count).mask());
            // SAFETY: the mask covers the first `count` numbers, which the slice has.
            unsafe { simd.$mask_load(mask, x.as_ptr()) }
        }

        /// Writes the first lanes of a vector, as many as `x` has numbers.
        #[inline(always)]
        pub(crate) fn $store<S: Simd>(simd: S, x: &mut [$float], vector: S::$vector) {
            let count = x.len().min(S::$lanes) as $count;
            let mask = MemMask::new(simd.$mask(0, count).mask());
            // SAFETY: the mask covers the first `count` numbers, which the slice has.
            unsafe { simd.$mask_store(mask, x.as_mut_ptr(), vector) }
        }
    };
}

edges! { load_f32 store_f32 f32 f32s F32_LANES u32 mask_between_m32s mask_load_ptr_f32s mask_store_ptr_f32s }
edges! { load_f64 store_f64 f64 f64s F64_LANES u64 mask_between_m64s mask_load_ptr_f64s mask_store_ptr_f64s }

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use crate::Element;
    use crate::kernels::dispatch::{self, levels};
    use crate::kernels::gemm::lanes;

    /// Doubles the numbers of a slice, vector by vector.
    struct Double<'a, T>(&'a mut [T]);

    impl<T: Element> WithSimd for Double<'_, T> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: pulp::Simd>(self, simd: S) {
            for part in self.0.chunks_mut(lanes::<T, S>()) {
                let vector = T::load_part(simd, part);
                T::store_part(simd, part, T::add_vectors(simd, vector, vector));
            }
        }
    }

    fn doubles<T: Element>() {
        for len in 0..40 {
            for start in 0..3 {
                let number = |i: usize| T::from_usize(i + 1);
                let mut numbers: Vec<T> = (0..start + len + 20).map(number).collect();
                dispatch::arch().dispatch(Double(&mut numbers[start..start + len]));
                let factor =
                    |i: usize| T::from_usize(1 + usize::from((start..start + len).contains(&i)));
                let right = numbers
                    .iter()
                    .enumerate()
                    .all(|(i, &x)| x == number(i) * factor(i));
                assert!(right, "{len} numbers from {start}: {numbers:?}");
            }
        }
    }

    #[test]
    fn parts_of_vectors_touch_nothing_beyond_them() {
        levels::at_every_level(|| {
            doubles::<f32>();
            doubles::<f64>();
        });
    }
}
