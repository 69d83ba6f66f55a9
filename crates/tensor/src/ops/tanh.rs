//! `tanh(x)`, element by element; derivative 1 − tanh²(x).
//!
//! The derivative is computed as 4e/(1 + e)² with e = exp(−2|x|), since 1 − tanh² cancels in the tails.

use super::unary::{negative_magnitude, unary};

/// `tanh(x)`. Any shape → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tanh;

unary!(Tanh, "tanh", formula: tanh,
value<S>: |x| x.tanh(),
slope: |x, y| {
    let e = negative_magnitude(x + x).exp_fast::<S>();
    T::from_f64(4.0) * e / ((T::ONE + e) * (T::ONE + e))
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Tanh, &[&[3, 7]]).unwrap();
        OpCheck {
            special: true,
            ..OpCheck::default()
        }
        .run(&Tanh, &[&[64]])
        .unwrap();
    }
}
