//! `relu(x) = max(x, 0)`, element by element.
//!
//! Derivative 1 for x > 0, 0 for x ≤ 0: at the kink the left one, as every framework chooses. NaN stays NaN.
//! Source: Nair and Hinton, *Rectified linear units improve restricted Boltzmann machines*, 2010.

use super::unary::unary;

/// `max(x, 0)`. Any shape → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relu;

unary!(Relu, "relu", formula: relu,
    value<S>: |x| if x <= T::ZERO { T::ZERO } else { x },
    slope: |x, y| if x > T::ZERO { T::ONE } else { T::ZERO });

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Op, OpCheck, Run, Shape, View};

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Relu, &[&[3, 7]]).unwrap();
        OpCheck {
            special: true,
            ..OpCheck::default()
        }
        .run(&Relu, &[&[64]])
        .unwrap();
    }

    #[test]
    fn f11_slopes_at_and_off_the_kink() {
        let (x, mut y, mut dx) = ([-2.0f32, 0.0, 2.0, 3.0], [0.0; 4], [0.0; 4]);
        let view = View {
            data: &x[..],
            shape: Shape::new(&[4]).unwrap(),
        };
        let mut run = Run {
            context: Context::default(),
            scratch: &mut [],
        };
        Relu.forward(&mut run, [view], &mut y, &mut []);
        Relu.backward(&mut run, [view], &y, &[], &[1.0; 4], [Some(&mut dx)]);
        assert_eq!((y, dx), ([0.0, 0.0, 2.0, 3.0], [0.0, 0.0, 1.0, 1.0]));
    }
}
