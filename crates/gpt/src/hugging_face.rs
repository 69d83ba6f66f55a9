//! GPT-2 models in the layout of Hugging Face `transformers`: a folder with `config.json`, `model.safetensors` and the files of a
//! tokenizer. [`import()`] makes a run folder of one, [`export()`] makes one of a run.
//!
//! Theirs is the model of [`crate::model`] with every bias but that of the head. They store the weights of a block as `[inputs, outputs]`
//! ("Conv1D") where ours are `[outputs, inputs]`; the query, key and value projections are one matrix in the same order, and a tied
//! head is not stored.

mod config;
mod export;
mod import;
mod layout;
mod words;

pub use export::export;
pub use import::{Imported, import};

const CONFIG: &str = "config.json";
const MODEL: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
