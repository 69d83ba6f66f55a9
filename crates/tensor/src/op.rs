//! The contract of an op file.

use burtorch_core::Scalar;

use crate::{Context, Element, Result, Shape};

/// A tensor that is only looked at: numbers stored row by row, and their shape.
#[derive(Debug, Clone, Copy)]
pub struct View<'a, S> {
    /// The numbers, `shape.len()` of them.
    pub data: &'a [S],
    /// The dimensions.
    pub shape: Shape,
}

/// What a kernel may use beside its tensors.
#[derive(Debug)]
pub struct Run<'a, T> {
    /// Integers, mask key and mode of the pass.
    pub context: Context<'a>,
    /// Working memory of at least [`Op::scratch`] numbers, with arbitrary contents.
    pub scratch: &'a mut [T],
}

/// One tensor op with `N` inputs and one output.
///
/// The struct holds what the op needs beside its inputs (a slope, a number of heads, [`Indices`](crate::Indices)). An op
/// with an optional input (a bias) implements the trait for every `N` and refuses the others in
/// [`shape`](Op::shape).
pub trait Op<const N: usize>: Clone + Send + 'static {
    /// The name used in messages.
    const NAME: &'static str;

    /// The shape of the result. The only place where shapes, settings and integers are checked: kernels rely on it.
    ///
    /// # Errors
    /// Any [`Error`](crate::Error) that names the op, what it expected and what it found.
    fn shape(&self, context: &Context<'_>, x: [Shape; N]) -> Result<Shape>;

    /// How many numbers the forward kernel keeps for the backward kernel.
    fn saved(&self, _x: [Shape; N]) -> usize {
        0
    }

    /// How many numbers of working memory each of the two kernels needs. All kernels of an engine work in the same.
    fn scratch(&self, _x: [Shape; N]) -> usize {
        0
    }

    /// The op's definition over any scalar: appends the elements of the result to the empty `y`, row by row. The scalar
    /// engine records this; every kernel is checked against it.
    fn formula<S: Scalar>(&self, context: &Context<'_>, x: [View<'_, S>; N], y: &mut Vec<S>);

    /// Writes the result into `y` (contents before are arbitrary), and what backward needs into `saved`.
    fn forward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        x: [View<'_, T>; N],
        y: &mut [T],
        saved: &mut [T],
    );

    /// *Adds* the gradient with respect to each input into `dx`, given the gradient `dy` of the result. `None`: not wanted.
    fn backward<T: Element>(
        &self,
        run: &mut Run<'_, T>,
        x: [View<'_, T>; N],
        y: &[T],
        saved: &[T],
        dy: &[T],
        dx: [Option<&mut [T]>; N],
    );
}
