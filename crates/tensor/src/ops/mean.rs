//! `y = (Σ xᵢ)/n` over all n elements.

use burtorch_core::Scalar;

use crate::kernels::rows;
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// The mean of all elements. Any shape → one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean;

impl Op<1> for Mean {
    const NAME: &'static str = "mean";

    fn shape(&self, _: &Context<'_>, _: [Shape; 1]) -> Result<Shape> {
        Ok(Shape::SCALAR)
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        y.push(S::mean(x.data));
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        _: &mut [T],
    ) {
        y[0] = rows::sum(x.data) / T::from_usize(x.data.len());
    }

    fn backward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        _: &[T],
        _: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        if let Some(dx) = dx {
            let share = dy[0] / T::from_usize(x.data.len());
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
        OpCheck::default().run(&Mean, &[&[3, 7]]).unwrap();
        OpCheck::default().run(&Mean, &[&[]]).unwrap();
    }
}
