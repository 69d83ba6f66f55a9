//! The crate `xad-rs`.

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

    fn gradient<R: Recording>(&mut self, recording: &R, x: &[f64], gradient: &mut [f64]) -> f64 {
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
