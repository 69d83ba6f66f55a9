//! The tests of the public interface, as one program: each program would compile the generic code for the same numbers again,
//! and that costs far more than the tests themselves.

#[macro_use] // before those that use it
mod floats;

mod derivatives;
mod faults;
mod faults_dual;
mod faults_matrix;
mod generic;
mod graph;
mod lanes;
mod layers;
mod memory;
mod non_finite;
mod program;
mod run;
mod save;
mod stack;
mod steps;
