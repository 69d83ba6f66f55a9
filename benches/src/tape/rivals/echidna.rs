//! The crate `echidna`.

use super::{Recording, Rival, RivalTape};

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
pub(super) struct Echidna {
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
