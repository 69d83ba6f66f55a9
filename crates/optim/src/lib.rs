//! Optimizers, learning-rate schedules and gradient clipping over one flat parameter buffer.
#![forbid(unsafe_code)]
