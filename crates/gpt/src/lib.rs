//! Train, evaluate and sample a small GPT on a CPU, from one command.
#![forbid(unsafe_code)]
