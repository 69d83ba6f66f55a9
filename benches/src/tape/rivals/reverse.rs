//! The crate `reverse`.

use super::{Recording, Rival, RivalTape};

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
pub(super) struct Reverse(reverse::Tape);

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
