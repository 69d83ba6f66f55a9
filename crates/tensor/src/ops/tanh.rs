//! `tanh(x)`, element by element; derivative 1 − tanh²(x).
//!
//! Where |x| > 8 the derivative of f32 is 0 or a rounding error below 1e-7.

use super::unary::unary;

/// `tanh(x)`. Any shape → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tanh;

unary!(Tanh, "tanh", formula: tanh,
    value<S>: |x| x.tanh(),
    slope: |x, y| T::ONE - y * y);

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
