//! Dropout.

use burtorch_tensor::{Element, Engine, Error, Result, ops};

use crate::{Builder, Layer};

/// In training, sets each element to 0 with probability `p` and multiplies the others by `1/(1 − p)`, so that the mean
/// stays; otherwise the identity (Srivastava et al., *Dropout*, 2014, in the form that scales while training).
///
/// The mask depends on the key of the pass, the layer and the element alone, so backward sees the mask of forward and
/// no thread sees another one.
///
/// # Shapes
/// Any shape, kept.
#[derive(Debug, Clone)]
pub struct Dropout {
    probability: f64,
    stream: u32,
}

impl Dropout {
    /// A layer without parameters; the name chooses its random stream.
    ///
    /// # Errors
    /// [`Error::Setting`] for a probability outside `0..=1`.
    pub fn new<T: Element>(
        b: &mut Builder<'_, T>,
        name: &str,
        probability: f64,
    ) -> Result<Dropout> {
        check_probability("dropout", probability)?;
        Ok(Dropout {
            probability,
            stream: b.stream(name),
        })
    }
}

impl Layer for Dropout {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        if self.probability == 0.0 || !e.training() {
            return Ok(x);
        }
        e.apply(
            ops::Dropout {
                probability: self.probability,
                stream: self.stream,
            },
            [x],
        )
    }
}

/// Refuses what is no probability, NaN included.
pub(crate) fn check_probability(op: &'static str, probability: f64) -> Result<()> {
    match (0.0..=1.0).contains(&probability) {
        true => Ok(()),
        false => Err(Error::Setting {
            op,
            name: "probability",
            expected: "in 0..=1",
            found: probability,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, context, on_both_engines, run};
    use burtorch_tensor::{Params, TensorEngine, Workspace};

    const X: [f64; 3] = [1.0, 2.0, 3.0];

    /// Result and gradient of `Σ weight·y` for [`X`], the weights being `numbers(3)`.
    fn apply<W: Workspace<f64>>(probability: f64, training: bool) -> Result<(Vec<f64>, Vec<f64>)> {
        let (layer, params) = build(|b| Dropout::new(b, "dropout", probability))?;
        let found = run::<W>(&layer, &params, (&X, &[1, 3]), context(training))?;
        Ok((found.result, found.gradient))
    }

    on_both_engines! {
        fn f06_nothing_is_dropped_at_0_or_in_evaluation<W>() {
            for (probability, training) in [(0.0, true), (0.3, false), (1.0, false)] {
                let (y, gradient) = apply::<W>(probability, training)?;
                assert_eq!(y, X);
                assert_eq!(gradient, crate::testing::numbers(3));
            }
            Ok(())
        }

        fn f06_everything_is_dropped_at_1<W>() {
            let (y, gradient) = apply::<W>(1.0, true)?;
            assert_eq!((y, gradient), (vec![0.0; 3], vec![0.0; 3]));
            Ok(())
        }

        fn f06_backward_uses_the_mask_of_forward<W>() {
            let (layer, params) = build(|b| Dropout::new(b, "dropout", 0.25))?;
            let found = run::<W>(&layer, &params, (&[1.0; 400], &[400]), context(true))?;
            let expected: Vec<f64> = found.result.iter().zip(crate::testing::numbers(400)).map(|(y, w)| y * w).collect();
            assert_eq!(found.gradient, expected);
            assert!(found.result.contains(&0.0));
            Ok(())
        }
    }

    #[test]
    fn f06_the_mean_stays() -> Result<()> {
        let (layer, params) = build(|b| Dropout::new(b, "dropout", 0.25))?;
        let found = run::<TensorEngine<f64>>(
            &layer,
            &params,
            (&vec![1.0; 1_000_000], &[1_000_000]),
            context(true),
        )?;
        assert!(found.result.iter().all(|&y| y == 0.0 || y == 1.0 / 0.75));
        let mean = found.result.iter().sum::<f64>() / 1e6;
        assert!((mean - 1.0).abs() < 0.003, "{mean}");
        Ok(())
    }

    #[test]
    fn f06_what_is_no_probability_is_refused() {
        for probability in [1.2, -0.1, f64::NAN, f64::INFINITY] {
            let refused = build(|b| Dropout::new(b, "dropout", probability)).map(drop);
            let message = refused.expect_err("no probability").to_string();
            assert!(
                message.contains("0..=1") && message.contains(&probability.to_string()),
                "{message}"
            );
        }
    }

    #[test]
    fn f34_layers_and_keys_have_their_own_masks() -> Result<()> {
        let mut params = Params::<f64>::new();
        let mut b = Builder::new(&mut params, 1);
        let layers = [
            Dropout::new(&mut b, "a", 0.5)?,
            Dropout::new(&mut b, "b", 0.5)?,
        ];
        let mask = |layer, key| {
            let context = burtorch_tensor::Context {
                key,
                ..context(true)
            };
            run::<TensorEngine<f64>>(layer, &Params::new(), (&[1.0; 64], &[64]), context)
                .map(|found| found.result)
        };
        assert_eq!(mask(&layers[0], 1)?, mask(&layers[0], 1)?);
        assert_ne!(mask(&layers[0], 1)?, mask(&layers[1], 1)?);
        assert_ne!(mask(&layers[0], 1)?, mask(&layers[0], 2)?);
        Ok(())
    }
}
