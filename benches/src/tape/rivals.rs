//! The tapes of other crates behind one trait, each used in the fastest way its documentation shows: one tape, emptied before
//! each recording.

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
        if self.value() > 0.0 {
            self + (self * -1.0).exp().ln_1p()
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
        contender::<Reverse, K, R>(recording, at),
        contender::<Echidna, K, R>(recording, at),
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

impl Rival for reverse::Var<'_> {
    fn value(self) -> f64 {
        self.val()
    }
    fn divide(c: f64, x: Self) -> Self {
        c / x
    }
    fn exp(self) -> Self {
        reverse::Var::exp(&self)
    }
    fn ln_1p(self) -> Self {
        reverse::Var::ln_1p(&self)
    }
    fn tanh(self) -> Self {
        reverse::Var::tanh(&self)
    }
}

#[derive(Default)]
struct Reverse(reverse::Tape);

impl RivalTape for Reverse {
    const NAME: &'static str = "reverse";

    fn gradient<R: Recording>(&mut self, recording: &R, x: &[f64], gradient: &mut [f64]) -> f64 {
        self.0.clear();
        let variables = self.0.add_vars(x);
        let y = recording.record(&variables);
        // Variables are the first nodes.
        gradient.copy_from_slice(&y.grad()[..x.len()]);
        y.val()
    }
}

impl Rival for echidna::Reverse<f64> {
    fn value(self) -> f64 {
        echidna::Scalar::value(&self)
    }
    fn divide(c: f64, x: Self) -> Self {
        c / x
    }
    fn exp(self) -> Self {
        num_traits::Float::exp(self)
    }
    fn ln_1p(self) -> Self {
        num_traits::Float::ln_1p(self)
    }
    fn tanh(self) -> Self {
        num_traits::Float::tanh(self)
    }
}

#[derive(Default)]
struct Echidna {
    tape: echidna::tape::Tape<f64>,
    variables: Vec<echidna::Reverse<f64>>,
}

impl RivalTape for Echidna {
    const NAME: &'static str = "echidna";

    fn gradient<R: Recording>(&mut self, recording: &R, x: &[f64], gradient: &mut [f64]) -> f64 {
        self.tape.clear();
        self.variables.clear();
        for &x in x {
            let (index, value) = self.tape.new_variable(x);
            let variable = echidna::Reverse::from_tape(value, index);
            self.variables.push(variable);
        }
        let y = {
            let _active = echidna::tape::TapeGuard::new(&mut self.tape);
            recording.record(&self.variables)
        };
        gradient.copy_from_slice(&self.tape.reverse(y.index())[..x.len()]);
        Rival::value(y)
    }
}

#[cfg(feature = "xad-rs")]
mod xad {
    use super::{Recording, Rival, RivalTape};
    use xad_rs::{AReal, Tape, math};

    impl Rival for AReal<f64> {
        fn value(self) -> f64 {
            AReal::value(&self)
        }
        fn divide(c: f64, x: Self) -> Self {
            c / x
        }
        fn exp(self) -> Self {
            math::ad::exp(&self)
        }
        fn ln_1p(self) -> Self {
            math::ad::ln_1p(&self)
        }
        fn tanh(self) -> Self {
            math::ad::tanh(&self)
        }
    }

    pub(super) struct Xad {
        tape: Tape<f64>,
        variables: Vec<AReal<f64>>,
    }

    impl Default for Xad {
        fn default() -> Self {
            Self {
                tape: Tape::new(false),
                variables: Vec::new(),
            }
        }
    }

    impl RivalTape for Xad {
        const NAME: &'static str = "xad-rs";

        fn gradient<R: Recording>(
            &mut self,
            recording: &R,
            x: &[f64],
            gradient: &mut [f64],
        ) -> f64 {
            let _active = self.tape.record();
            self.variables.clear();
            self.variables.extend(x.iter().map(|&x| AReal::new(x)));
            AReal::register_input(&mut self.variables, &mut self.tape);
            let y = recording.record(&self.variables);
            y.set_adjoint(&mut self.tape, 1.0);
            self.tape.compute_adjoints();
            for (gradient, x) in gradient.iter_mut().zip(&self.variables) {
                *gradient = x.adjoint(&self.tape);
            }
            y.value()
        }
    }
}
