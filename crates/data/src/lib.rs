#![doc = include_str!("../README.md")]
//!
//! # What is where
//!
//! | job | items |
//! |---|---|
//! | bytes to text | [`read_text`], [`parse_text`] |
//! | tokens of two or four bytes | [`Tokens`], [`TokenBuffer`] |
//! | tokens in files | [`TokenWriter`], [`read_tokens`], [`MappedTokens`], [`read_token_header`] |
//! | training and validation part | [`split`], [`split_at`], [`Split`] |
//! | inputs and their targets | [`Windows`], [`consecutive`] |
//! | which window comes when | [`EpochOrder`], [`RandomOrder`] |
//! | batches | [`Batches`], [`epoch_batches`], [`WeightedMean`] |
//! | one word per line | [`Words`], [`Samples`] |
//! | one seed for every purpose | [`derive_seed`] |
//! | whether bytes have changed | [`Fnv1a`] |
//!
//! Nothing here keeps hidden state: every order is a pure function of a seed and a number, so the data position of a
//! training run *is* its step number, and a resumed run needs no stored generator.
#![deny(unsafe_code)]

mod batches;
mod error;
mod mean;
mod sampler;
mod seed;
mod split;
mod text;
mod token_file;
mod tokens;
mod windows;
mod words;

pub use batches::{Batches, epoch_batches};
pub use error::{Error, Part};
pub use mean::WeightedMean;
pub use sampler::{EpochOrder, RandomOrder};
pub use seed::{Fnv1a, derive_seed};
pub use split::{Split, split, split_at, training_length};
pub use text::{parse_text, read_text};
pub use token_file::{
    MappedTokens, TokenHeader, TokenWriter, Width, is_token_file, read_token_header, read_tokens,
};
pub use tokens::{TokenBuffer, Tokens};
pub use windows::{Windows, consecutive};
pub use words::{Samples, Words};
