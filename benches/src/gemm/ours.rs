//! Our products, as the op `Linear` makes them in the engine.

use anyhow::Result;
use burtorch_tensor::{
    Context, Engine, ParamId, Params, Shape, TensorEngine, Workspace, ops::Linear,
};

use super::{Layout, Size};

/// A linear layer without bias, and a gradient of its result.
pub(super) struct Layer {
    size: Size,
    params: Params<f32>,
    x: ParamId,
    w: ParamId,
    dy: Vec<f32>,
}

/// What a pass works in.
pub(super) struct Memory {
    workspace: TensorEngine<f32>,
    gradients: Vec<f32>,
}

impl Layer {
    pub(super) fn new(size: Size) -> Result<Self> {
        let Size {
            rows,
            inputs,
            outputs,
        } = size;
        let mut params = Params::new();
        let mut add = |name, dims: [usize; 2]| {
            let shape = Shape::new(&dims)?;
            params.add(name, shape, &numbers(shape.len()))
        };
        let (x, w) = (add("x", [rows, inputs])?, add("w", [outputs, inputs])?);
        Ok(Self {
            size,
            params,
            x,
            w,
            dy: numbers(rows * outputs),
        })
    }

    pub(super) fn x(&self) -> &[f32] {
        &self.params.values()[..self.size.rows * self.size.inputs]
    }

    pub(super) fn w(&self) -> &[f32] {
        &self.params.values()[self.size.rows * self.size.inputs..]
    }

    pub(super) fn dy(&self) -> &[f32] {
        &self.dy
    }

    pub(super) fn memory(&self) -> Memory {
        Memory {
            workspace: TensorEngine::new(),
            gradients: vec![0.0; self.params.len()],
        }
    }

    /// Makes one of the products, in full passes forward, and as what remains to be done backward.
    pub(super) fn product<'a>(
        &'a self,
        layout: Layout,
        memory: &'a mut Memory,
    ) -> Result<Box<dyn FnMut() + 'a>> {
        let Memory {
            workspace,
            gradients,
        } = memory;
        if layout == Layout::Forward {
            self.forward(workspace)?;
            return Ok(Box::new(|| _ = self.forward(workspace)));
        }
        let mut pass = workspace.bind(&self.params, Context::default());
        let (x, w) = self.shapes()?;
        // A constant gets no gradient.
        let factors = match layout {
            Layout::InputGradient => [pass.param(self.x)?, pass.constant(self.w(), w)?],
            _ => [pass.constant(self.x(), x)?, pass.param(self.w)?],
        };
        let y = pass.apply(Linear::plain(), factors)?;
        pass.backward(y, &self.dy, gradients)?;
        Ok(Box::new(move || {
            _ = pass.backward(y, &self.dy, gradients);
        }))
    }

    fn shapes(&self) -> Result<(Shape, Shape)> {
        let Size {
            rows,
            inputs,
            outputs,
        } = self.size;
        Ok((
            Shape::new(&[rows, inputs])?,
            Shape::new(&[outputs, inputs])?,
        ))
    }

    fn forward(&self, workspace: &mut TensorEngine<f32>) -> Result<f32> {
        let mut pass = workspace.bind(&self.params, Context::default());
        let factors = [pass.param(self.x)?, pass.param(self.w)?];
        let y = pass.apply(Linear::plain(), factors)?;
        Ok(std::hint::black_box(pass.value(y).data[0]))
    }

    /// What one product gives.
    #[cfg(test)]
    pub(super) fn result(&self, layout: Layout) -> Result<Vec<f32>> {
        let mut memory = self.memory();
        if layout == Layout::Forward {
            let mut pass = memory.workspace.bind(&self.params, Context::default());
            let factors = [pass.param(self.x)?, pass.param(self.w)?];
            let y = pass.apply(Linear::plain(), factors)?;
            return Ok(pass.value(y).data.to_vec());
        }
        drop(self.product(layout, &mut memory)?);
        let cut = self.x().len();
        Ok(match layout {
            Layout::InputGradient => memory.gradients[..cut].to_vec(),
            _ => memory.gradients[cut..].to_vec(),
        })
    }
}

/// Different numbers from −0.5 to 0.5.
fn numbers(count: usize) -> Vec<f32> {
    let number = |i: usize| (i * 7919 % 101) as f32 / 101.0 - 0.5;
    (0..count).map(number).collect()
}
