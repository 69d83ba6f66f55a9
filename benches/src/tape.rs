//! The graphs, and what can compute their gradients.
//!
//! A graph's file holds its formula for our scalars, the same for the tapes of other crates ([`rivals`]), and the value and
//! gradient written out by hand: the same operations in the same precision, with what a person would see and use (what is
//! computed once need not be computed again), without tricks. To add a variant, add a contender to the list.
//!
//! The two small graphs are recorded on the tape of fixed size too; one of thousands of nodes does not belong on the stack.

mod chain10k;
mod mlp;
mod ours;
mod rivals;
mod saveload;
mod small;
mod tiny;

use crate::suites::Bench;

pub(crate) const BENCHES: [Bench; 5] = [
    Bench {
        name: "tiny",
        contests: || Ok(vec![tiny::contest()?]),
    },
    Bench {
        name: "small",
        contests: || Ok(vec![small::contest()?]),
    },
    Bench {
        name: "chain10k",
        contests: || Ok(vec![chain10k::contest()?]),
    },
    Bench {
        name: "mlp",
        contests: || Ok(vec![mlp::contest()?]),
    },
    Bench {
        name: "saveload",
        contests: saveload::contests,
    },
];
