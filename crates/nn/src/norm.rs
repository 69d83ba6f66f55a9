//! Layer normalisation.

use burtorch_tensor::{Element, Engine, ParamId, Result, ops};

use crate::{Builder, Init, Layer};

/// `y = gain ∘ (x − mean)/√(variance + ε) + bias` over each row, with the variance divided by `C` (Ba, Kiros and Hinton,
/// *Layer normalization*, 2016, eq. 4).
///
/// # Shapes
/// `[.., C]` → `[.., C]`. Parameters: `weight` `[C]` (the gain, starts at 1), `bias` `[C]` (starts at 0).
#[derive(Debug, Clone)]
pub struct LayerNorm {
    gain: ParamId,
    bias: Option<ParamId>,
}

impl LayerNorm {
    /// ε, the value that GPT-2 uses.
    pub const EPSILON: f64 = 1e-5;

    /// Adds the parameters for rows of `width` numbers.
    ///
    /// # Errors
    /// As [`Builder::parameter`].
    pub fn new<T: Element>(
        b: &mut Builder<'_, T>,
        name: &str,
        width: usize,
        bias: bool,
    ) -> Result<LayerNorm> {
        b.within(name, |b| {
            let gain = b.parameter("weight", &[width], Init::ONES)?;
            let bias = match bias {
                true => Some(b.parameter("bias", &[width], Init::ZEROS)?),
                false => None,
            };
            Ok(LayerNorm { gain, bias })
        })
    }
}

impl Layer for LayerNorm {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        let op = ops::LayerNorm {
            epsilon: Self::EPSILON,
        };
        let gain = e.param(self.gain)?;
        match self.bias {
            None => e.apply(op, [x, gain]),
            Some(bias) => {
                let bias = e.param(bias)?;
                e.apply(op, [x, gain, bias])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, check_agreement, context, on_both_engines, run};

    on_both_engines! {
        fn rows_get_mean_0_and_variance_1<W>() {
            let (layer, params) = build(|b| LayerNorm::new(b, "norm", 4, true))?;
            let found = run::<W>(&layer, &params, (&[1., 2., 3., 4., 50., 60., 70., 80.], &[2, 4]), context(false))?;
            for row in found.result.chunks(4) {
                let mean = row.iter().sum::<f64>() / 4.0;
                let variance = row.iter().map(|v| v * v).sum::<f64>() / 4.0;
                assert!(mean.abs() < 1e-12 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
            }
            Ok(())
        }
    }

    #[test]
    fn both_engines_agree() -> Result<()> {
        for bias in [true, false] {
            let (layer, params) = build(|b| LayerNorm::new(b, "norm", 4, bias))?;
            assert_eq!(params.len(), if bias { 8 } else { 4 });
            check_agreement(&layer, &params, &[2, 3, 4], context(true))?;
        }
        Ok(())
    }
}
