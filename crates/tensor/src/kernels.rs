//! The loops that ops share. Safe code: SIMD is chosen at run time by pulp and written by the compiler's vectoriser.

pub(crate) mod dispatch;
pub(crate) mod elementwise;
pub(crate) mod gemm;
pub(crate) mod math;
pub(crate) mod random;
pub(crate) mod rows;
pub(crate) mod vectors;
