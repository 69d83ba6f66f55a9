//! `y = c · x` for a plain number c.

use burtorch_core::{Float, Number, Scalar};

use crate::kernels::elementwise::add_scaled_into;
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// The input times a plain number. Any shape → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale(pub f64);

impl Op<1> for Scale {
    const NAME: &'static str = "scale";

    fn shape(&self, _: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
        Ok(x)
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        let c = <S as Number>::Primal::from_f64(self.0);
        y.extend(x.data.iter().map(|&x| x * c));
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        _: &mut [T],
    ) {
        let c = T::from_f64(self.0);
        for (y, &x) in y.iter_mut().zip(x.data) {
            *y = c * x;
        }
    }

    fn backward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        _: [View<'_, T>; 1],
        _: &[T],
        _: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        if let Some(dx) = dx {
            add_scaled_into(dx, T::from_f64(self.0), dy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Scale(-2.5), &[&[3, 7]]).unwrap();
    }
}
