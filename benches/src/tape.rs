//! The graphs, and what can compute their gradients.
//!
//! A graph's file holds its formula for our scalars, the same for the tapes of other crates ([`rivals`]), and the value and
//! gradient written out by hand: the same operations in the same precision, with what a person would see and use (what is
//! computed once need not be computed again), without tricks. To add a variant, add a contender to the list.

mod chain10k;
mod mlp;
mod ours;
mod rivals;
mod saveload;
mod small;
mod tiny;

use anyhow::Result;

use crate::contender::Contest;

/// A graph by name.
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    /// Makes its contests.
    pub(crate) contests: fn() -> Result<Vec<Contest>>,
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Author;

    #[test]
    fn every_contest_begins_with_a_hand_and_all_of_ours_are_right() {
        for bench in BENCHES {
            for contest in (bench.contests)().unwrap() {
                assert_eq!(contest.contenders[0].author, Author::Hand, "{}", bench.name);
                for (contender, fault) in contest.contenders.iter().zip(contest.faults()) {
                    let name = contender.name;
                    assert!(
                        fault.is_none() || contender.author == Author::Crate,
                        "{} {name}: {fault:?}",
                        bench.name
                    );
                }
            }
        }
    }
}
