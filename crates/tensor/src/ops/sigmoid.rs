//! `σ(x) = 1/(1 + e^(−x))`, element by element; derivative σ(1 − σ).
//!
//! The derivative is computed as e/(1 + e)² with e = exp(−|x|), since 1 − σ cancels in the upper tail.

use super::unary::{negative_magnitude, unary};

/// `1/(1 + e^(−x))`. Any shape → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sigmoid;

unary!(Sigmoid, "sigmoid", formula: sigmoid,
value<S>: |x| x.sigmoid(),
slope: |x, y| {
    let e = negative_magnitude(x).exp_fast::<S>();
    e / ((T::ONE + e) * (T::ONE + e))
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Sigmoid, &[&[3, 7]]).unwrap();
        OpCheck {
            special: true,
            ..OpCheck::default()
        }
        .run(&Sigmoid, &[&[64]])
        .unwrap();
    }
}
