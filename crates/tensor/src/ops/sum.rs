//! `y = Σ xᵢ` over all elements, summed in blocks so that long f32 sums keep their digits.

use burtorch_core::Scalar;

use crate::kernels::rows;
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// The sum of all elements. Any shape → one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sum;

impl Op<1> for Sum {
    const NAME: &'static str = "sum";

    fn shape(&self, _: &Context<'_>, _: [Shape; 1]) -> Result<Shape> {
        Ok(Shape::SCALAR)
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        y.push(S::sum(x.data));
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        _: &mut [T],
    ) {
        y[0] = rows::sum(x.data);
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
            let share = dy[0];
            dx.iter_mut().for_each(|dx| *dx += share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Sum, &[&[3, 7]]).unwrap();
        OpCheck::default().run(&Sum, &[&[]]).unwrap();
    }
}
