//! Chains: a tuple of layers, or a slice or vector of layers of one type, is a layer that applies them in order.
//!
//! ```
//! use burtorch_nn::{Builder, Dropout, Layer, Linear, LinearConfig};
//! use burtorch_tensor::{Context, Engine, Params, Shape, TensorEngine, Workspace};
//!
//! # fn main() -> Result<(), burtorch_tensor::Error> {
//! let mut params = Params::<f32>::new();
//! let mut b = Builder::new(&mut params, 1);
//! let chain = (
//!     Linear::new(&mut b, "first", LinearConfig::new(2, 8))?,
//!     Dropout::new(&mut b, "dropout", 0.1)?,
//!     vec![Linear::new(&mut b, "second", LinearConfig::new(8, 8))?; 3], // one layer three times: shared weights
//! );
//! let mut workspace = TensorEngine::new();
//! let mut e = workspace.bind(&params, Context::default());
//! let x = e.constant(&[1.0, 2.0], Shape::new(&[1, 2])?)?;
//! let y = chain.forward(&mut e, x)?;
//! assert_eq!(e.value(y).shape.dims(), [1, 8]);
//! # Ok(())
//! # }
//! ```

use burtorch_tensor::{Engine, Result};

use crate::Layer;

macro_rules! chain {
    ($($layer:ident $index:tt),+) => {
        impl<$($layer: Layer),+> Layer for ($($layer,)+) {
            fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
                $(let x = self.$index.forward(e, x)?;)+
                Ok(x)
            }
        }
    };
}

chain!(A 0, B 1);
chain!(A 0, B 1, C 2);
chain!(A 0, B 1, C 2, D 3);
chain!(A 0, B 1, C 2, D 3, F 4);
chain!(A 0, B 1, C 2, D 3, F 4, G 5);

impl<L: Layer> Layer for [L] {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        self.iter().try_fold(x, |x, layer| layer.forward(e, x))
    }
}

impl<L: Layer> Layer for Vec<L> {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        self.as_slice().forward(e, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, check_agreement, context, on_both_engines, run};
    use crate::{Dropout, LayerNorm, Linear, LinearConfig, Residual};
    use burtorch_tensor::{Params, ops};

    struct Times(f64);

    impl Layer for Times {
        fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
            e.apply(ops::Scale(self.0), [x])
        }
    }

    struct Positive;

    impl Layer for Positive {
        fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
            e.apply(ops::Relu, [x])
        }
    }

    on_both_engines! {
        fn chains_apply_their_layers_in_order<W>() {
            let chain = (Times(-2.0), Positive, Times(-3.0));
            let found = run::<W>(&chain, &Params::new(), (&[5.0, -5.0], &[2]), context(false))?;
            assert_eq!(found.result, [0.0, -30.0]);
            Ok(())
        }

        fn vectors_and_slices_apply_all_their_layers<W>() {
            let layers = [Times(2.0), Times(3.0), Times(7.0)];
            let found = run::<W>(layers.as_slice(), &Params::new(), (&[1.0], &[1]), context(false))?;
            assert_eq!(found.result, [42.0]);
            let empty: Vec<Times> = Vec::new();
            assert_eq!(run::<W>(&empty, &Params::new(), (&[1.0], &[1]), context(false))?.result, [1.0]);
            Ok(())
        }
    }

    #[test]
    fn both_engines_agree_on_the_longest_chain() -> Result<()> {
        let (layer, params) = build(|b| {
            Ok((
                Linear::new(b, "a", LinearConfig::new(3, 4))?,
                LayerNorm::new(b, "b", 4, true)?,
                Dropout::new(b, "c", 0.1)?,
                vec![
                    Linear::new(b, "d", LinearConfig::new(4, 4))?,
                    Linear::new(b, "e", LinearConfig::new(4, 4))?,
                ],
                Residual(Linear::new(b, "f", LinearConfig::new(4, 4))?),
                LayerNorm::new(b, "g", 4, false)?,
            ))
        })?;
        check_agreement(&layer, &params, &[5, 3], context(true))
    }
}
