//! The crate `gemm`, whose one function takes pointers.
#![allow(
    unsafe_code,
    reason = "it is held against ours, and there is no safe way to call it"
)]

use gemm::{Parallelism, gemm};

use super::crates::Matrix;

/// Writes `a b` into the result, or adds it.
pub(super) fn product(a: Matrix<'_>, b: Matrix<'_>, add: bool, result: &mut [f32]) {
    assert!(a.columns == b.rows && result.len() == a.rows * b.columns);
    let [a_down, a_across] = a.strides.map(distance);
    let [b_down, b_across] = b.strides.map(distance);
    // SAFETY: a matrix has a number at every row and column of these strides, and the result, row by row, a place for each; it is
    // borrowed for writing, so it overlaps neither of them. It holds numbers whether they are read or not.
    unsafe {
        gemm(
            a.rows,
            b.columns,
            a.columns,
            result.as_mut_ptr(),
            1,
            distance(b.columns),
            add,
            a.data.as_ptr(),
            a_across,
            a_down,
            b.data.as_ptr(),
            b_across,
            b_down,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

fn distance(numbers: usize) -> isize {
    isize::try_from(numbers).expect("no slice is longer")
}
