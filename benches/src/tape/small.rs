//! The small graph of the BurTorch paper, which is that of micrograd's README.

use std::convert::Infallible;

use anyhow::Result;
use burtorch_core::Scalar;

use super::ours::{self, Formula};
use super::rivals::{self, Recording, Rival};
use crate::contender::{Author, Contender, Contest};

const AT: [f64; 2] = [-4.0, 2.0];

#[derive(Clone, Copy)]
pub(super) struct Small;

impl Formula<2> for Small {
    #[inline(always)]
    fn of<S: Scalar<Primal = f64>>(self, &[a, b]: &[S; 2]) -> S {
        let (mut c, mut d) = (a + b, a * b + b.cube());
        c = c + c + 1.0;
        c = c + c + 1.0 - a;
        d += d * 2.0 + (b + a).relu();
        d += d * 3.0 + (b - a).relu();
        let f = (c - d).square();
        f / 2.0 + S::constant(10.0) / f
    }
}

impl Recording for Small {
    fn record<V: Rival>(&self, x: &[V]) -> V {
        let (a, b) = (x[0], x[1]);
        let (mut c, mut d) = (a + b, a * b + b * b * b);
        c = c + c + 1.0;
        c = c + c + 1.0 - a;
        d = d + d * 2.0 + (b + a).relu();
        d = d + d * 3.0 + (b - a).relu();
        let e = c - d;
        let f = e * e;
        f / 2.0 + V::divide(10.0, f)
    }
}

fn by_hand([a, b]: [f64; 2]) -> (f64, [f64; 2]) {
    let (s, m) = (b + a, b - a);
    let c = 2.0 * (2.0 * (a + b) + 1.0) + 1.0 - a;
    let d = 4.0 * (3.0 * (a * b + b * b * b) + s.max(0.0)) + m.max(0.0);
    let (e, ds, dm) = (c - d, f64::from(s > 0.0), f64::from(m > 0.0));
    let f = e * e;
    let de = e - 20.0 / (f * e);
    let da = 4.0 - 1.0 - (4.0 * (3.0 * b + ds) - dm);
    let db = 4.0 - (4.0 * (3.0 * (a + 3.0 * b * b) + ds) + dm);
    (f / 2.0 + 10.0 / f, [de * da, de * db])
}

pub(super) fn contest() -> Result<Contest> {
    let hand = Contender::of_few("hand", Author::Hand, AT, |x| {
        Ok::<_, Infallible>(by_hand(x))
    });
    let mut contenders = vec![hand];
    contenders.extend(rivals::contenders(Small, AT));
    contenders.push(ours::tape(Small, AT));
    contenders.push(ours::stack::<16>(Small, AT));
    contenders.extend(ours::programs(Small, AT)?);
    contenders.push(ours::lanes8(Small, AT));
    Ok(Contest {
        expected: ours::expected(AT, by_hand),
        contenders,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_crate_is_found() {
        let contest = contest().unwrap();
        let wrong = contest.contenders.iter().zip(contest.faults());
        let wrong: Vec<_> = wrong
            .filter_map(|(it, fault)| fault.map(|fault| (it.name, fault)))
            .collect();
        // Its derivative of c / x is −1 / x.
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert_eq!(wrong[0].0, "reverse");
        assert!(wrong[0].1.starts_with("gradient [0] 134.28"), "{wrong:?}");
    }

    #[test]
    fn the_reference_is_that_of_the_paper() {
        let (value, gradient) = by_hand(AT);
        assert!((value - 24.7041).abs() < 1e-4);
        assert!((gradient[0] - 138.8338).abs() < 1e-4);
        assert!((gradient[1] - 645.5773).abs() < 1e-4);
    }
}
