//! One op on given numbers.

use burtorch_tensor::{Context, Element, Engine, Op, Params, Shape, Workspace};

use crate::Outcome;

/// Dimensions and numbers of one input.
pub type Input<'a> = (&'a [usize], &'a [f64]);

/// What an op computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Differentiated {
    /// Its result.
    pub result: Vec<f64>,
    /// The gradient of `Σ upstream·result` with respect to each input.
    pub gradients: Vec<Vec<f64>>,
}

/// Runs an op forward and backward, with all inputs as parameters.
///
/// # Errors
/// What the op or the engine refuses.
pub fn differentiate<T: Element, W: Workspace<T>, const N: usize>(
    op: impl Op<N>,
    inputs: [Input<'_>; N],
    context: Context<'_>,
    upstream: &[f64],
) -> Outcome<Differentiated> {
    let numbers = |wide: &[f64]| -> Vec<T> { wide.iter().map(|&x| T::from_f64(x)).collect() };
    let mut params = Params::<T>::new();
    let mut ids = Vec::new();
    for (position, (dims, values)) in inputs.into_iter().enumerate() {
        ids.push(params.add(
            format!("input {position}"),
            Shape::new(dims)?,
            &numbers(values),
        )?);
    }
    let mut workspace = W::default();
    let mut engine = workspace.bind(&params, context);
    let tensors = ids
        .iter()
        .map(|&id| engine.param(id))
        .collect::<Result<Vec<_>, _>>()?;
    let y = engine.apply(op, std::array::from_fn(|i| tensors[i]))?;
    let mut gradients = vec![T::ZERO; params.len()];
    engine.backward(y, &numbers(upstream), &mut gradients)?;

    let wide = |numbers: &[T]| numbers.iter().map(|x| x.to_f64()).collect();
    Ok(Differentiated {
        result: wide(engine.value(y).data),
        gradients: params
            .entries()
            .iter()
            .map(|entry| wide(&gradients[entry.range()]))
            .collect(),
    })
}
