//! The loops that ops share. SIMD is chosen at run time by pulp, and mostly written by the compiler's vectoriser.

pub(crate) mod dispatch;
pub(crate) mod edges;
pub(crate) mod elementwise;
pub(crate) mod gemm;
pub(crate) mod math;
pub(crate) mod random;
pub(crate) mod rows;
pub(crate) mod transpose;
pub(crate) mod turn;
pub(crate) mod vectors;
