//! Tests across the crates live beside this file; the library itself is empty.
