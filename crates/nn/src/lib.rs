//! Neural network layers and seeded initialisers, written once for both BurTorch engines.
#![forbid(unsafe_code)]
