//! One op on parameters, in the engine.

use std::hint::black_box;

use anyhow::Result;
use burtorch_tensor::{Context, Engine, Op, ParamId, Params, Shape, TensorEngine, Workspace};

use crate::speed::{Amount, Work};

/// An op with `N` inputs, and all that a pass needs.
pub(super) struct Trial<'a, const N: usize, O> {
    op: O,
    params: Params<f32>,
    inputs: [ParamId; N],
    context: Context<'a>,
    workspace: TensorEngine<f32>,
    gradients: Vec<f32>,
    /// A gradient of the result.
    seed: Vec<f32>,
}

impl<'a, const N: usize, O: Op<N>> Trial<'a, N, O> {
    pub(super) fn new(op: &O, shapes: [&[usize]; N], indices: &'a [u32]) -> Result<Self> {
        let mut params = Params::new();
        let mut inputs = Vec::with_capacity(N);
        for (i, dims) in shapes.iter().enumerate() {
            let shape = Shape::new(dims)?;
            inputs.push(params.add(format!("x{i}"), shape, &numbers(shape.len()))?);
        }
        let inputs = std::array::from_fn(|i| inputs[i]);
        let mut shapes = [Shape::new(&[1])?; N];
        for (shape, entry) in shapes.iter_mut().zip(params.entries()) {
            *shape = entry.shape;
        }
        let context = Context {
            indices,
            training: true,
            ..Context::default()
        };
        let mut this = Self {
            seed: numbers(op.shape(&context, shapes)?.len()),
            op: op.clone(),
            inputs,
            context,
            workspace: TensorEngine::new(),
            gradients: vec![0.0; params.len()],
            params,
        };
        // What is wrong shows here, and not where it is measured.
        this.run(false)?;
        Ok(this)
    }

    /// Bytes forward, and forward with backward, if all tensors are touched once.
    pub(super) fn bytes(&self) -> [f64; 2] {
        let (inputs, result) = (self.params.len(), self.seed.len());
        let [forward, backward] = [inputs + result, 2 * inputs + result];
        [forward, forward + backward].map(|numbers| 4.0 * numbers as f64)
    }

    pub(super) fn run(&mut self, backward: bool) -> burtorch_tensor::Result<()> {
        let mut pass = self.workspace.bind(&self.params, self.context);
        let mut inputs = Vec::with_capacity(N);
        for id in self.inputs {
            inputs.push(pass.param(id)?);
        }
        let y = pass.apply(self.op.clone(), std::array::from_fn(|i| inputs[i]))?;
        if backward {
            pass.backward(y, &self.seed, &mut self.gradients)?;
        }
        black_box(pass.value(y).data[0]);
        Ok(())
    }

    pub(super) fn work(&mut self, pass: &'static str, amount: Amount, backward: bool) -> Work<'_> {
        Work {
            pass,
            who: "burtorch",
            amount,
            call: Box::new(move || _ = self.run(backward)),
        }
    }

    #[cfg(test)]
    pub(super) fn gradients(&self) -> &[f32] {
        &self.gradients
    }
}

/// Different numbers from −0.5 to 0.5.
fn numbers(count: usize) -> Vec<f32> {
    let number = |i: usize| (i * 7919 % 101) as f32 / 101.0 - 0.5;
    (0..count).map(number).collect()
}
