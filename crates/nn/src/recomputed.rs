//! Less memory for more time.

use burtorch_tensor::{Engine, Result, Segment};

use crate::Layer;

/// The layer inside, of which only input and result are kept: on the way back the tensor engine computes the rest again. Results and
/// gradients keep their bits, dropout too. See [`Engine::recompute`].
#[derive(Debug, Clone)]
pub struct Recomputed<L>(
    /// The layer.
    pub L,
);

impl<L: Layer + Send + 'static> Segment for Recomputed<L> {
    fn run<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        self.0.forward(e, x)
    }
}

impl<L: Layer + Clone + Send + 'static> Layer for Recomputed<L> {
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
        e.recompute(self.clone(), x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build, context, numbers, on_both_engines, run};
    use crate::{Block, BlockConfig, Init, Linear};
    use burtorch_tensor::ops::Activation;

    const CONFIG: BlockConfig = BlockConfig {
        embed: 4,
        heads: 2,
        hidden: 16,
        activation: Activation::Gelu,
        dropout: 0.3,
        bias: true,
        qkv_bias: false,
        init: Init::XavierNormal,
        residual_init: Init::XavierNormal,
    };

    on_both_engines! {
        fn everything_keeps_its_bits<W>() {
            let (blocks, params) = build(|b| {
                Ok((Block::new(b, "first", CONFIG)?, Block::new(b, "second", CONFIG)?))
            })?;
            let (first, second) = blocks.clone();
            let nested = Recomputed((Recomputed(first.clone()), second.clone()));
            let each = (Recomputed(first), Recomputed(second));
            let x = numbers(24);
            let input = (&x[..], &[2, 3, 4][..]);
            let expected = run::<W>(&blocks, &params, input, context(true))?;
            for found in [
                run::<W>(&each, &params, input, context(true))?,
                run::<W>(&nested, &params, input, context(true))?,
            ] {
                assert_eq!(found.result, expected.result);
                assert_eq!(found.gradient, expected.gradient);
            }
            Ok(())
        }

        fn a_layer_that_does_nothing_is_no_trouble<W>() {
            let (_, params) = build(|_| Ok(()))?;
            let found = run::<W>(&Recomputed(Vec::<Linear>::new()), &params, (&[1.0, 2.0], &[2]), context(true))?;
            assert_eq!((found.result, found.gradient), (vec![1.0, 2.0], numbers(2)));
            Ok(())
        }
    }
}
