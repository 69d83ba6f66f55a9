//! `½ x (1 + tanh(√(2/π)(x + 0.044715 x³)))`, computed as `x σ(2u)`, which does not cancel in the tails.
//!
//! The approximation that GPT-2 and GPT-3 use. Source: Hendrycks and Gimpel, *Gaussian error linear units*,
//! arXiv 1606.08415, section 2.

use super::unary::unary;

/// The tanh form of gelu. Any shape → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeluTanh;

unary!(GeluTanh, "gelu_tanh", formula: gelu_tanh,
    value<S>: |x| x.gelu_tanh_with_slope::<S>().0,
    slope: |x, y| x.gelu_tanh_with_slope::<S>().1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&GeluTanh, &[&[3, 7]]).unwrap();
        OpCheck {
            special: true,
            ..OpCheck::default()
        }
        .run(&GeluTanh, &[&[64]])
        .unwrap();
    }
}
