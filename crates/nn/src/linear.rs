//! The affine layer.

use burtorch_tensor::ops::{self, Activation};
use burtorch_tensor::{Element, Engine, ParamId, Result};

use crate::{Builder, Init, Layer};

/// Settings of a [`Linear`] layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinearConfig {
    /// Features of each input row.
    pub inputs: usize,
    /// Features of each output row.
    pub outputs: usize,
    /// Whether a bias is added; it starts at 0.
    pub bias: bool,
    /// What is applied to the sum, in the same kernel.
    pub activation: Activation,
    /// First numbers of the weight.
    pub init: Init,
}

impl LinearConfig {
    /// With a bias, without activation, weight [`Init::XavierUniform`].
    #[must_use]
    pub fn new(inputs: usize, outputs: usize) -> Self {
        LinearConfig {
            inputs,
            outputs,
            bias: true,
            activation: Activation::Identity,
            init: Init::XavierUniform,
        }
    }
}

/// `y = activation(x wᵀ + b)`, with `w` of one row an output, as `torch.nn.Linear` stores it.
///
/// # Shapes
/// `[.., inputs]` → `[.., outputs]`. Parameters: `weight` `[outputs, inputs]`, `bias` `[outputs]`.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: ParamId,
    bias: Option<ParamId>,
    activation: Activation,
}

impl Linear {
    /// Adds the parameters.
    ///
    /// # Errors
    /// As [`Builder::parameter`].
    pub fn new<T: Element>(
        b: &mut Builder<'_, T>,
        name: &str,
        config: LinearConfig,
    ) -> Result<Linear> {
        b.within(name, |b| {
            let weight = b.parameter("weight", &[config.outputs, config.inputs], config.init)?;
            let bias = match config.bias {
                true => Some(b.parameter("bias", &[config.outputs], Init::ZEROS)?),
                false => None,
            };
            Ok(Linear {
                weight,
                bias,
                activation: config.activation,
            })
        })
    }

    /// A plain linear layer over a weight that exists already and stays shared.
    #[must_use]
    pub fn shared(weight: ParamId, bias: Option<ParamId>) -> Linear {
        Linear {
            weight,
            bias,
            activation: Activation::Identity,
        }
    }
}

impl Layer for Linear {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        let op = ops::Linear {
            activation: self.activation,
        };
        let weight = e.param(self.weight)?;
        match self.bias {
            None => e.apply(op, [x, weight]),
            Some(bias) => {
                let bias = e.param(bias)?;
                e.apply(op, [x, weight, bias])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, check_agreement, context, on_both_engines, run};
    use burtorch_tensor::Error;

    on_both_engines! {
        fn computes_rows_times_weight_plus_bias<W>() {
            let (layer, mut params) = build(|b| Linear::new(b, "linear", LinearConfig::new(2, 3)))?;
            params.values_mut().copy_from_slice(&[1., 2., 3., 4., 5., 6., 0.1, 0.2, 0.3]);
            let found = run::<W>(&layer, &params, (&[1.0, 10.0, 0.0, 1.0], &[2, 2]), context(false))?;
            assert_eq!(found.shape.dims(), [2, 3]);
            assert_eq!(found.result, [21.1, 43.2, 65.3, 2.1, 4.2, 6.3]);
            Ok(())
        }

        fn refuses_another_width<W>() {
            let (layer, params) = build(|b| Linear::new(b, "linear", LinearConfig::new(2, 3)))?;
            let refused = run::<W>(&layer, &params, (&[1.0; 6], &[2, 3]), context(false));
            assert!(matches!(refused, Err(Error::Mismatch { .. })), "{refused:?}");
            Ok(())
        }
    }

    #[test]
    fn both_engines_agree() -> Result<()> {
        for activation in [
            Activation::Identity,
            Activation::Relu,
            Activation::Gelu,
            Activation::GeluTanh,
        ] {
            for bias in [true, false] {
                let config = LinearConfig {
                    activation,
                    bias,
                    ..LinearConfig::new(3, 5)
                };
                let (layer, params) = build(|b| Linear::new(b, "linear", config))?;
                assert_eq!(params.len(), if bias { 20 } else { 15 });
                check_agreement(&layer, &params, &[2, 4, 3], context(true))?;
            }
        }
        Ok(())
    }

    #[test]
    fn a_size_of_zero_is_refused_with_both_sizes() {
        let refused = build(|b| Linear::new(b, "linear", LinearConfig::new(3, 0)));
        let message = refused.map(drop).expect_err("zero outputs").to_string();
        assert!(message.contains("[0, 3]"), "{message}");
    }
}
