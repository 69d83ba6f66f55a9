#![doc = include_str!("../README.md")]
//!
//! # What is where
//!
//! | job | items |
//! |---|---|
//! | the network | [`model::Gpt`], [`model::ModelConfig`] |
//! | settings | [`config::Config`], [`config::Settings`], [`config::Preset`] |
//! | text to tokens | [`tokenizer::Tokenizer`], [`tokenizer::bpe`], [`corpus::Corpus`] |
//! | training | [`plan::Plan`] and [`session::Session`] (a run and its folder), [`trainer::Trainer`] (steps alone) |
//! | files | [`checkpoint`], [`hugging_face`], [`metrics`], [`run_directory`], [`run_lock`], [`atomic_file`] |
//! | using a model | [`inference::Decoder`], [`generation::Generator`], [`sampling::Sampler`], [`evaluation::evaluate`] |
//! | the program | [`cli`], [`commands`] |
#![forbid(unsafe_code)]

pub mod atomic_file;
pub mod best;
pub mod checkpoint;
pub mod cli;
pub mod commands;
pub mod config;
pub mod corpus;
pub mod embedded;
mod error;
pub mod evaluation;
pub mod generation;
pub mod hugging_face;
pub mod inference;
pub mod interrupt;
pub mod memory;
pub mod metrics;
pub mod model;
mod parse;
pub mod plan;
pub mod plot;
mod progress;
pub mod run_directory;
pub mod run_lock;
pub mod sampling;
pub mod session;
mod summary;
mod text;
pub mod tokenizer;
pub mod trainer;

pub use error::Error;
pub use summary::Summary;
