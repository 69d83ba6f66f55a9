//! The tapes of other crates behind one trait, each used in the fastest way its documentation shows: one tape, emptied before
//! each recording.

#[cfg(feature = "echidna")]
mod echidna;
mod reverse;
#[cfg(feature = "xad-rs")]
mod xad;

use std::convert::Infallible;
use std::ops::{Add, Div, Mul, Sub};

use crate::contender::{Author, Contender};

/// A variable of another crate.
pub(crate) trait Rival:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Add<f64, Output = Self>
    + Sub<f64, Output = Self>
    + Mul<f64, Output = Self>
    + Div<f64, Output = Self>
{
    fn value(self) -> f64;
    /// c / x.
    fn divide(c: f64, x: Self) -> Self;
    fn exp(self) -> Self;
    fn ln_1p(self) -> Self;
    fn tanh(self) -> Self;

    fn relu(self) -> Self {
        if self.value() > 0.0 { self } else { self * 0.0 }
    }
    fn softplus(self) -> Self {
        // Beyond 40 the two are the same number; below, this has the fewest nodes.
        if self.value() > 40.0 {
            self
        } else {
            self.exp().ln_1p()
        }
    }
}

/// A tape of another crate.
trait RivalTape: Default + 'static {
    const NAME: &'static str;
    /// The value of a recording and, in `gradient`, its gradient.
    fn gradient<R: Recording>(&mut self, recording: &R, x: &[f64], gradient: &mut [f64]) -> f64;
}

/// A formula for any of these variables: a closure cannot be generic.
pub(crate) trait Recording: 'static {
    fn record<V: Rival>(&self, x: &[V]) -> V;
}

/// The contenders that record a formula on the tapes of other crates.
pub(crate) fn contenders<const K: usize, R: Recording + Copy>(
    recording: R,
    at: [f64; K],
) -> Vec<Contender> {
    vec![
        contender::<reverse::Reverse, K, R>(recording, at),
        #[cfg(feature = "echidna")]
        contender::<echidna::Echidna, K, R>(recording, at),
        #[cfg(feature = "xad-rs")]
        contender::<xad::Xad, K, R>(recording, at),
    ]
}

fn contender<T: RivalTape, const K: usize, R: Recording>(recording: R, at: [f64; K]) -> Contender {
    let mut tape = T::default();
    Contender::of_many(T::NAME, Author::Crate, at, move |x, gradient| {
        Ok::<_, Infallible>(tape.gradient(&recording, x, gradient))
    })
}
