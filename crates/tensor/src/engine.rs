//! The waist between models and numbers.

mod scalar;
mod tensor;
#[cfg(test)]
mod tests;

pub use scalar::{ScalarEngine, ScalarPass, ScalarRef};
pub use tensor::{TensorEngine, TensorPass, TensorRef};

use burtorch_core::Float;

use crate::{Context, Element, Error, Op, ParamId, Params, Result, Shape, View};

/// One forward pass and its gradients. Models are generic over it: they see handles, ops and nothing else.
///
/// A pass is made by [`Workspace::bind`] and ends when it is dropped; its handles are refused by later passes.
pub trait Engine {
    /// The number type.
    type Elem: Element;
    /// A cheap handle of a tensor of this pass.
    type Tensor: Copy;

    /// A parameter of the bound store.
    ///
    /// # Errors
    /// [`Error::Foreign`] if the store has no such parameter.
    fn param(&mut self, id: ParamId) -> Result<Self::Tensor>;

    /// A tensor that gets no gradient; the data is copied.
    ///
    /// # Errors
    /// [`Error::Length`] if `data` does not fit `shape`.
    fn constant(&mut self, data: &[Self::Elem], shape: Shape) -> Result<Self::Tensor>;

    /// Runs an op on tensors of this pass.
    ///
    /// # Errors
    /// What the op's shape rule says; [`Error::Foreign`] for a handle of another pass; [`Error::NonFinite`] if the
    /// context asks for that search.
    fn apply<const N: usize, O: Op<N>>(
        &mut self,
        op: O,
        x: [Self::Tensor; N],
    ) -> Result<Self::Tensor>;

    /// Runs a part of the model of which only the result is needed later: an engine may forget all else, and run the part again on
    /// the way back (Chen et al., *Training deep nets with sublinear memory cost*, 2016). Results and gradients have the bits of
    /// an ordinary run.
    ///
    /// The tensor engine forgets. The scalar engine, whose tape is one recording, runs the part as any other.
    ///
    /// # Errors
    /// Those of the part.
    fn recompute<S: Segment>(&mut self, segment: S, x: Self::Tensor) -> Result<Self::Tensor>
    where
        Self: Sized,
    {
        segment.run(self, x)
    }

    /// The shape of a tensor.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a handle of another engine.
    fn shape(&self, x: Self::Tensor) -> Result<Shape>;

    /// Shape and numbers of a tensor.
    ///
    /// # Panics
    /// For a handle of another pass, as an index out of bounds would.
    fn value(&self, x: Self::Tensor) -> View<'_, Self::Elem>;

    /// *Adds* the gradient of `Σ seed·root` with respect to every parameter into `gradients`, a buffer of the layout of
    /// the bound store. May be called again, from other roots too; each call adds its own gradient once.
    ///
    /// # Errors
    /// [`Error::Length`] if `seed` or `gradients` do not fit; [`Error::NonFinite`] if the context asks for that search.
    fn backward(
        &mut self,
        root: Self::Tensor,
        seed: &[Self::Elem],
        gradients: &mut [Self::Elem],
    ) -> Result<()>;

    /// [`backward`](Engine::backward) from a root of one element, with seed 1.
    ///
    /// # Errors
    /// [`Error::NotScalar`] for a larger root, else as [`backward`](Engine::backward).
    fn backward_scalar(&mut self, root: Self::Tensor, gradients: &mut [Self::Elem]) -> Result<()> {
        let shape = self.shape(root)?;
        if shape.len() != 1 {
            return Err(Error::NotScalar { found: shape });
        }
        self.backward(root, &[Self::Elem::ONE], gradients)
    }

    /// Whether dropout is active in this pass.
    fn training(&self) -> bool;
}

/// A part of a model that can be run again: a function of one tensor, parameters and the pass's context.
pub trait Segment: Send + 'static {
    /// Runs it. It may only compute: a backward pass of its own is refused, or lost, since it is run again within one.
    ///
    /// # Errors
    /// What the ops it is made of refuse.
    fn run<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor>;
}

/// The memory of an engine, kept from step to step; a pass borrows it.
pub trait Workspace<T: Element>: Default + Send {
    /// The pass this workspace makes.
    type Pass<'a>: Engine<Elem = T>
    where
        Self: 'a;

    /// Starts a pass over these parameters.
    fn bind<'a>(&'a mut self, params: &'a Params<T>, context: Context<'a>) -> Self::Pass<'a>;
}
