//! `z = x + y` of equal shapes: the residual connection of He et al., arXiv 1512.03385, equation 1.

use burtorch_core::Scalar;

use super::same_shape;
use crate::kernels::elementwise::{add_into, sum};
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// The sum of two tensors of equal shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Add;

impl Op<2> for Add {
    const NAME: &'static str = "add";

    fn shape(&self, _: &Context<'_>, x: [Shape; 2]) -> Result<Shape> {
        same_shape(Self::NAME, x)
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [x, y]: [View<'_, S>; 2], z: &mut Vec<S>) {
        z.extend(x.data.iter().zip(y.data).map(|(&x, &y)| x + y));
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x, y]: [View<'_, T>; 2],
        z: &mut [T],
        _: &mut [T],
    ) {
        sum(z, x.data, y.data);
    }

    fn backward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        _: [View<'_, T>; 2],
        _: &[T],
        _: &[T],
        dz: &[T],
        dx: [Option<&mut [T]>; 2],
    ) {
        for dx in dx.into_iter().flatten() {
            add_into(dx, dz);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Add, &[&[3, 7], &[3, 7]]).unwrap();
    }

    #[test]
    fn refuses_unequal_shapes() {
        assert!(OpCheck::default().run(&Add, &[&[3, 7], &[7, 3]]).is_err());
    }
}
