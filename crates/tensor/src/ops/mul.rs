//! `z = x · y`, element by element, of equal shapes.

use burtorch_core::Scalar;

use super::same_shape;
use crate::kernels::elementwise::{add_product_into, product};
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// The elementwise product of two tensors of equal shape.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mul;

impl Op<2> for Mul {
    const NAME: &'static str = "mul";

    fn shape(&self, _: &Context<'_>, x: [Shape; 2]) -> Result<Shape> {
        same_shape(Self::NAME, x)
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [x, y]: [View<'_, S>; 2], z: &mut Vec<S>) {
        z.extend(x.data.iter().zip(y.data).map(|(&x, &y)| x * y));
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x, y]: [View<'_, T>; 2],
        z: &mut [T],
        _: &mut [T],
    ) {
        product(z, x.data, y.data);
    }

    fn backward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x, y]: [View<'_, T>; 2],
        _: &[T],
        _: &[T],
        dz: &[T],
        [dx, dy]: [Option<&mut [T]>; 2],
    ) {
        if let Some(dx) = dx {
            add_product_into(dx, dz, y.data);
        }
        if let Some(dy) = dy {
            add_product_into(dy, dz, x.data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Mul, &[&[3, 7], &[3, 7]]).unwrap();
    }
}
