//! The tests that need no allocator and no process of their own, as one program: each program would compile both engines for the
//! same numbers again, and that costs far more than the tests themselves.
#![forbid(unsafe_code)]

mod determinism;
mod engines_agree;
mod faults;
mod finite_differences;
mod golden;
mod hugging_face;
mod overfit;
