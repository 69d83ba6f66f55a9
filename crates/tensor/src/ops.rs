//! The ops, one file each: formula, shape rule, source, kernels, test.

mod add;
mod add_positions;
pub(crate) mod causal_attention;
mod cross_entropy;
mod dropout;
mod embedding;
#[cfg(test)]
mod every_op;
mod gelu;
mod gelu_tanh;
mod identity;
mod layer_norm;
mod linear;
mod matmul;
mod mean;
mod mul;
mod relu;
mod scale;
mod sigmoid;
mod softmax;
mod sum;
mod tanh;
mod unary;

pub use add::Add;
pub use add_positions::AddPositions;
pub use causal_attention::CausalAttention;
pub use cross_entropy::CrossEntropy;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use gelu::Gelu;
pub use gelu_tanh::GeluTanh;
pub use identity::Identity;
pub use layer_norm::LayerNorm;
pub use linear::{Activation, Linear};
pub use matmul::MatMul;
pub use mean::Mean;
pub use mul::Mul;
pub use relu::Relu;
pub use scale::Scale;
pub use sigmoid::Sigmoid;
pub use softmax::Softmax;
pub use sum::Sum;
pub use tanh::Tanh;

use crate::{Error, Result, Shape};

/// The shape of two inputs that must agree.
fn same_shape(op: &'static str, x: [Shape; 2]) -> Result<Shape> {
    if x[0] == x[1] {
        Ok(x[0])
    } else {
        mismatch(op, "two equal shapes", &x)
    }
}

/// The error of an op that cannot combine these shapes.
fn mismatch<T>(op: &'static str, expected: impl Into<String>, found: &[Shape]) -> Result<T> {
    let found = found
        .iter()
        .map(Shape::to_string)
        .collect::<Vec<_>>()
        .join(" and ");
    Err(Error::Mismatch {
        op,
        expected: expected.into(),
        found,
    })
}

/// Refuses a probability outside 0..=1, NaN included.
fn check_probability(op: &'static str, found: f64) -> Result<()> {
    if (0.0..=1.0).contains(&found) {
        Ok(())
    } else {
        Err(Error::Setting {
            op,
            name: "probability",
            expected: "between 0 and 1",
            found,
        })
    }
}

/// Refuses an index outside the rows of a table.
fn check_indices(
    op: &'static str,
    indices: &[u32],
    bound: usize,
    ignore: Option<u32>,
) -> Result<()> {
    match indices
        .iter()
        .position(|&i| i as usize >= bound && Some(i) != ignore)
    {
        None => Ok(()),
        Some(position) => Err(Error::Index {
            op,
            position,
            found: indices[position],
            bound,
        }),
    }
}
