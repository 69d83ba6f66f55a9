//! Text and tokens for training language models: splits without leakage, windows, seeded batches.
#![forbid(unsafe_code)]
