//! `gelu(x) = x Φ(x)`, Φ the distribution function of the normal distribution; derivative Φ(x) + x φ(x).
//!
//! The exact form, by the error function. Source: Hendrycks and Gimpel, *Gaussian error linear units*, arXiv 1606.08415,
//! section 2.

use super::unary::unary;

/// `x Φ(x)`, the exact gelu. Any shape → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gelu;

unary!(Gelu, "gelu", formula: gelu,
    value<S>: |x| x.gelu_with_slope::<S>().0,
    slope: |x, y| x.gelu_with_slope::<S>().1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Gelu, &[&[3, 7]]).unwrap();
        OpCheck {
            special: true,
            ..OpCheck::default()
        }
        .run(&Gelu, &[&[64]])
        .unwrap();
    }
}
