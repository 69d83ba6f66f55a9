//! The tiny graph of the BurTorch paper (arXiv 2503.13795): ten nodes.

use std::convert::Infallible;

use anyhow::Result;
use burtorch_core::Scalar;

use super::ours::{self, Formula};
use super::rivals::{self, Recording, Rival};
use crate::contender::{Author, Contender, Contest};

const AT: [f64; 2] = [-41.0, 2.0];

#[derive(Clone, Copy)]
struct Tiny;

impl Formula<2> for Tiny {
    #[inline(always)]
    fn of<S: Scalar<Primal = f64>>(self, &[a, b]: &[S; 2]) -> S {
        let (c, d) = (a + b, a * b + b.cube());
        (c - d).square() / 2.0
    }
}

impl Recording for Tiny {
    fn record<V: Rival>(&self, x: &[V]) -> V {
        let (a, b) = (x[0], x[1]);
        let (c, d) = (a + b, a * b + b * b * b);
        let e = c - d;
        e * e / 2.0
    }
}

fn by_hand([a, b]: [f64; 2]) -> (f64, [f64; 2]) {
    let e = (a + b) - (a * b + b * b * b);
    (e * e / 2.0, [e * (1.0 - b), e * (1.0 - a - 3.0 * b * b)])
}

pub(super) fn contest() -> Result<Contest> {
    let hand = Contender::of_few("hand", Author::Hand, AT, |x| {
        Ok::<_, Infallible>(by_hand(x))
    });
    let mut contenders = vec![hand];
    contenders.extend(rivals::contenders(Tiny, AT));
    contenders.push(ours::tape(Tiny, AT));
    contenders.push(ours::stack::<6>(Tiny, AT));
    contenders.extend(ours::programs(Tiny, AT)?);
    contenders.push(ours::lanes8(Tiny, AT));
    Ok(Contest {
        expected: ours::expected(AT, by_hand),
        contenders,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_that_of_the_paper() {
        assert_eq!(by_hand(AT), (612.5, [-35.0, 1050.0]));
    }
}
