//! What every layer can do.

use burtorch_tensor::{Engine, Result};

/// A function from one tensor to one tensor with parameters of its own.
///
/// A layer holds handles of its parameters and its settings, never numbers or anything of an engine, so one layer runs
/// on every engine, number type and thread. Layers are chained by tuples and slices, see
/// [`sequential`](crate::sequential).
pub trait Layer {
    /// Applies the layer.
    ///
    /// # Errors
    /// What the ops it is made of refuse, above all a tensor of the wrong shape.
    fn forward<E: Engine>(&self, e: &mut E, x: E::Tensor) -> Result<E::Tensor>;
}
