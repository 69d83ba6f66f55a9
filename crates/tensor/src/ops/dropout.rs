//! Dropout: each element is zeroed with probability p, the others are scaled by 1/(1 − p).
//!
//! The mask is a function of the pass's key, the layer's stream and the element's number, so both engines and every
//! thread see the same one, and backward computes it again instead of keeping it. p = 0 is the identity, p = 1 gives zeros.
//! Source: Srivastava et al., *Dropout: a simple way to prevent neural networks from overfitting*, JMLR 15, 2014.

use burtorch_core::{Float, Number, Scalar};

use super::check_probability;
use crate::kernels::dispatch::kernel;
use crate::kernels::random::Mask;
use crate::{Context, Element, Op, Result, Run, Shape, View};

/// Random zeros. Any shape → the same. Active whatever the mode: layers leave it out when not training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// The probability p of a zero, 0 to 1.
    pub probability: f64,
    /// A number that differs from layer to layer.
    pub stream: u32,
}

impl Dropout {
    fn mask(&self, context: &Context<'_>) -> Mask {
        Mask::new(context.key, self.stream, self.probability)
    }
}

kernel! {
    fn drop<'a, T>(mask: Mask, x: &'a [T], y: &'a mut [T]) {
        let scale = T::from_f64(mask.scale);
        for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
            *y = if mask.keeps(i) { x * scale } else { T::ZERO };
        }
    }
}

kernel! {
    fn add_kept<'a, T>(mask: Mask, dy: &'a [T], dx: &'a mut [T]) {
        let scale = T::from_f64(mask.scale);
        for (i, (dx, &dy)) in dx.iter_mut().zip(dy).enumerate() {
            *dx = if mask.keeps(i) { dy.fma::<S>(scale, *dx) } else { *dx };
        }
    }
}

impl Op<1> for Dropout {
    const NAME: &'static str = "dropout";

    fn shape(&self, _: &Context<'_>, [x]: [Shape; 1]) -> Result<Shape> {
        check_probability("dropout", self.probability)?;
        Ok(x)
    }

    fn formula<S: Scalar>(&self, context: &Context<'_>, [x]: [View<'_, S>; 1], y: &mut Vec<S>) {
        let mask = self.mask(context);
        let scale = <S as Number>::Primal::from_f64(mask.scale);
        let zero = S::constant(<S as Number>::Primal::ZERO);
        y.extend(
            x.data
                .iter()
                .enumerate()
                .map(|(i, &x)| if mask.keeps(i) { x * scale } else { zero }),
        );
    }

    fn forward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        [x]: [View<'_, T>; 1],
        y: &mut [T],
        _: &mut [T],
    ) {
        drop(self.mask(&run.context), x.data, y);
    }

    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        _: [View<'_, T>; 1],
        _: &[T],
        _: &[T],
        dy: &[T],
        [dx]: [Option<&mut [T]>; 1],
    ) {
        if let Some(dx) = dx {
            add_kept(self.mask(&run.context), dy, dx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, OpCheck};

    #[test]
    fn f06_kernel_formula_and_differences_agree() {
        for probability in [0.0, 0.3, 1.0] {
            let check = OpCheck {
                context: Context {
                    key: 5,
                    training: true,
                    ..Context::default()
                },
                ..OpCheck::default()
            };
            check
                .run(
                    &Dropout {
                        probability,
                        stream: 2,
                    },
                    &[&[5, 7]],
                )
                .unwrap();
        }
    }

    #[test]
    fn f06_refuses_impossible_probabilities() {
        for probability in [1.2, -0.1, f64::NAN] {
            let found = OpCheck::default().run(
                &Dropout {
                    probability,
                    stream: 0,
                },
                &[&[3]],
            );
            assert!(matches!(found, Err(Error::Setting { .. })), "{probability}");
        }
    }
}
