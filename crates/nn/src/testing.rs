//! Runs the same test on both engines, and compares them.

use burtorch_tensor::{
    Context, Engine, Error, Params, Result, ScalarEngine, Shape, TensorEngine, Workspace, ops,
};

use crate::{Builder, Layer};

/// Each body becomes two tests, one for each engine; `W` is the workspace.
macro_rules! on_both_engines {
    ($($(#[$attribute:meta])* fn $name:ident<$w:ident>() $body:block)+) => {
        $(
            $(#[$attribute])*
            mod $name {
                use super::*;

                fn on<$w: burtorch_tensor::Workspace<f64>>() -> burtorch_tensor::Result<()> $body

                #[test]
                fn tensor_engine() -> burtorch_tensor::Result<()> {
                    on::<burtorch_tensor::TensorEngine<f64>>()
                }

                #[test]
                fn scalar_engine() -> burtorch_tensor::Result<()> {
                    on::<burtorch_tensor::ScalarEngine<f64>>()
                }
            }
        )+
    };
}
pub(crate) use on_both_engines;

/// What a layer did to an input: its result, and the gradient of the weighted sum of the result with respect to the
/// parameters, then the input.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) shape: Shape,
    pub(crate) result: Vec<f64>,
    pub(crate) gradient: Vec<f64>,
}

/// A context with dropout on or off.
pub(crate) fn context(training: bool) -> Context<'static> {
    Context {
        training,
        key: 7,
        ..Context::default()
    }
}

/// Numbers without pattern or repetition, in −1..1.
pub(crate) fn numbers(len: usize) -> Vec<f64> {
    (0..len)
        .map(|i| (12.9898 * (i as f64 + 1.0)).sin())
        .collect()
}

/// Makes a layer with seed 1 in a store of its own.
pub(crate) fn build<L>(
    make: impl FnOnce(&mut Builder<'_, f64>) -> Result<L>,
) -> Result<(L, Params<f64>)> {
    let mut params = Params::new();
    let layer = make(&mut Builder::new(&mut params, 1))?;
    Ok((layer, params))
}

/// Applies a layer and takes the gradient of `Σ weight·y` with fixed weights that differ between elements.
pub(crate) fn run<W: Workspace<f64>>(
    layer: &(impl Layer + ?Sized),
    params: &Params<f64>,
    input: (&[f64], &[usize]),
    context: Context<'_>,
) -> Result<Outcome> {
    let mut params = params.clone();
    let id = params.add("the input", Shape::new(input.1)?, input.0)?;
    let mut gradient = vec![0.0; params.len()];
    let mut workspace = W::default();
    let mut e = workspace.bind(&params, context);
    let x = e.param(id)?;
    let y = layer.forward(&mut e, x)?;
    let shape = e.value(y).shape;
    let result = e.value(y).data.to_vec();
    let weights = e.constant(&numbers(shape.len()), shape)?;
    let product = e.apply(ops::Mul, [y, weights])?;
    let sum = e.apply(ops::Sum, [product])?;
    e.backward_scalar(sum, &mut gradient)?;
    Ok(Outcome {
        shape,
        result,
        gradient,
    })
}

/// Checks that both engines give a layer the same result and gradient, and that every parameter has a gradient.
pub(crate) fn check_agreement(
    layer: &(impl Layer + ?Sized),
    params: &Params<f64>,
    dims: &[usize],
    context: Context<'_>,
) -> Result<()> {
    let input = numbers(dims.iter().product());
    let tensor = run::<TensorEngine<f64>>(layer, params, (&input, dims), context)?;
    let scalar = run::<ScalarEngine<f64>>(layer, params, (&input, dims), context)?;
    assert_eq!(tensor.shape, scalar.shape);
    check_close("result", &scalar.result, &tensor.result)?;
    check_close("gradient", &scalar.gradient, &tensor.gradient)?;
    for entry in params.entries() {
        let reached = tensor.gradient[entry.range()].iter().any(|&g| g != 0.0);
        assert!(reached, "{} got no gradient", entry.name);
    }
    Ok(())
}

/// Checks that two lists are equal but for rounding.
pub(crate) fn check_close(what: &str, expected: &[f64], found: &[f64]) -> Result<()> {
    if expected.len() != found.len() {
        return Err(Error::Length {
            what: what.into(),
            expected: expected.len(),
            found: found.len(),
        });
    }
    // Written so that NaN fails.
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * (1.0 + a.abs());
    match expected.iter().zip(found).position(|(&a, &b)| !close(a, b)) {
        None => Ok(()),
        Some(position) => Err(Error::Disagreement {
            op: "layer",
            what: what.into(),
            position,
            expected: expected[position],
            found: found[position],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Scales by another number each time it runs, so that two engines cannot agree.
    struct Fickle(Cell<f64>);

    impl Layer for Fickle {
        fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor> {
            self.0.set(self.0.get() + 1e-9);
            e.apply(ops::Scale(self.0.get()), [x])
        }
    }

    #[test]
    fn the_comparison_finds_a_difference_nan_and_a_missing_number() {
        assert_eq!(check_close("same", &[1.0, 2.0], &[1.0, 2.0]), Ok(()));
        let position = |found: &[f64]| match check_close("other", &[1.0, 2.0], found) {
            Err(Error::Disagreement { position, .. }) => Some(position),
            _ => None,
        };
        assert_eq!(position(&[1.0, 2.0 + 1e-10]), Some(1));
        assert_eq!(position(&[f64::NAN, 2.0]), Some(0));
        assert!(matches!(
            check_close("short", &[1.0, 2.0], &[1.0]),
            Err(Error::Length { .. })
        ));
    }

    #[test]
    fn the_agreement_check_refuses_a_layer_that_differs_between_engines() {
        let fickle = Fickle(Cell::new(1.0));
        let verdict = check_agreement(&fickle, &Params::new(), &[2, 3], context(false));
        assert!(matches!(verdict, Err(Error::Disagreement { .. })));
    }

    #[test]
    #[should_panic(expected = "idle got no gradient")]
    fn the_agreement_check_refuses_an_unused_parameter() {
        let (layer, params) = build(|b| {
            b.parameter("idle", &[2], crate::Init::ONES)?;
            crate::LayerNorm::new(b, "norm", 3, true)
        })
        .expect("a valid layer");
        check_agreement(&layer, &params, &[2, 3], context(false)).expect("both engines agree");
    }
}
