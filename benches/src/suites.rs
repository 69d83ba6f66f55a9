//! What can be measured, by name: suites of benches. A new suite is a module of its own and a row here.

use anyhow::Result;

use crate::contender::Contest;
use crate::tape;

/// Benches of one kind.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What it measures, in one line of the help.
    pub(crate) about: &'static str,
    pub(crate) benches: &'static [Bench],
}

/// Something to compute, with all that computes it.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) name: &'static str,
    /// Makes its contests.
    pub(crate) contests: fn() -> Result<Vec<Contest>>,
}

pub(crate) const SUITES: &[Suite] = &[Suite {
    name: "tape",
    about: "gradients of scalar graphs, recorded afresh or evaluated again; values in files",
    benches: &tape::BENCHES,
}];

impl Suite {
    /// The names of the benches.
    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.benches.iter().map(|bench| bench.name).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Author;

    #[test]
    fn every_contest_begins_with_a_hand_and_all_of_ours_are_right() {
        for bench in SUITES.iter().flat_map(|suite| suite.benches) {
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
