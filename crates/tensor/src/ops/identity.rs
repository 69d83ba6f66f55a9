//! `y = x`: a copy. The tensor engine inserts it where one op reads the same tensor twice.

use burtorch_core::Scalar;

use crate::kernels::elementwise::add_into;
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// A copy of the input. Any shape → the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Identity;

impl Op<1> for Identity {
    const NAME: &'static str = "identity";

    fn shape(&self, _: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
        Ok(x)
    }

    fn formula<S: Scalar>(&self, _: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        y.extend_from_slice(x.data);
    }

    fn forward<T: Element>(
        &self,
        _: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        _: &mut [T],
    ) {
        y.copy_from_slice(x.data);
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
            add_into(dx, dy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpCheck;

    #[test]
    fn kernel_formula_and_differences_agree() {
        OpCheck::default().run(&Identity, &[&[3, 7]]).unwrap();
    }
}
