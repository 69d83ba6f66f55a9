#![doc = include_str!("../README.md")]
//!
//! # What is where
//!
//! | job | items |
//! |---|---|
//! | algorithms | [`Sgd`], [`Adam`], [`AdamW`], all behind [`Optimizer`] |
//! | which parameters decay, and how fast they learn | [`Groups`], [`Group`], [`decays`] |
//! | learning rate of a step | [`Schedule`] |
//! | taming gradients | [`global_norm`], [`clip_by_global_norm`], [`clip_by_value`] |
//! | stopping and carrying on | [`State`] |
//!
//! Everything works on two slices of one layout, the parameters and their gradients, and nothing allocates after an optimizer
//! is made (reading out its [`State`] does). Each job is one pass over them in the machine's vectors,
//! with the same bits at every SIMD level; `cargo xtask bench ops` times it.
//!
//! # Non-finite gradients
//!
//! An optimizer does not look for NaN or infinity: such a gradient goes into its moments and its parameters like any
//! number. [`clip_by_global_norm`] is the gate: it refuses, naming the first bad place, and leaves all as it was.
#![forbid(unsafe_code)]

mod adam;
mod adamw;
mod clip;
mod error;
mod groups;
mod moments;
mod optimizer;
mod schedule;
mod sgd;

pub use adam::Adam;
pub use adamw::AdamW;
pub use clip::{clip_by_global_norm, clip_by_value, global_norm};
pub use error::Error;
pub use groups::{Group, Groups, decays};
pub use moments::AdamOptions;
pub use optimizer::{Optimizer, State};
pub use schedule::Schedule;
pub use sgd::{Sgd, SgdOptions};
