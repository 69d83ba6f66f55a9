//! CPU tensor ops with exact gradients, run by two engines: vectorised kernels or the scalar tape.
#![forbid(unsafe_code)]
