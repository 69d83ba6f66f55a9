//! Scalar reverse-mode automatic differentiation: a tape with almost no overhead, a table of scalar ops, and gradient checks.
#![forbid(unsafe_code)]
