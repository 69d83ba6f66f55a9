//! CPU tensor ops with exact gradients, run by either of two engines.
//!
//! One op is one struct in one file of [`ops`]: its shape rule, its [`formula`](Op::formula) over any
//! [`Scalar`](burtorch_core::Scalar), and its kernels. The [`ScalarEngine`] records the formula on the scalar tape, one
//! node at a time; the [`TensorEngine`] runs the kernels in an arena. Models are written once over [`Engine`] and run on
//! both, so every kernel has an exact oracle: [`check_op`] compares the two and central differences.
//!
//! Parameters are one flat buffer ([`Params`]); a gradient is a second buffer of the same layout.
//!
//! ```
//! use burtorch_tensor::{Context, Engine, Params, Shape, TensorEngine, Workspace, ops};
//!
//! # fn main() -> Result<(), burtorch_tensor::Error> {
//! let mut params = Params::<f64>::new();
//! let w = params.add("w", Shape::new(&[1, 2])?, &[3.0, -1.0])?;
//! let x = [1.0, 2.0, 4.0, 5.0]; // two rows of two features
//!
//! let mut workspace = TensorEngine::new();
//! let mut gradients = vec![0.0; params.len()];
//! let mut engine = workspace.bind(&params, Context::default());
//! let (w, x) = (engine.param(w)?, engine.constant(&x, Shape::new(&[2, 2])?)?);
//! let y = engine.apply(ops::Linear::plain(), [x, w])?;
//! let loss = engine.apply(ops::Mean, [y])?;
//! engine.backward(loss, &[1.0], &mut gradients)?;
//!
//! assert_eq!(engine.value(y).data, [1.0, 7.0]);
//! assert_eq!(gradients, [2.5, 3.5]);
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

mod buffer;
mod context;
mod element;
mod engine;
mod error;
pub mod inference;
mod kernels;
mod op;
pub mod ops;
mod oracle;
mod parallel;
mod params;
mod shape;

pub use context::{Context, Indices};
pub use element::Element;
pub use engine::{
    Engine, ScalarEngine, ScalarPass, ScalarRef, Segment, TensorEngine, TensorPass, TensorRef,
    Workspace,
};
pub use error::{Error, Result};
pub use kernels::dispatch::simd_level;
pub use op::{Op, Run, View};
pub use oracle::{NonFiniteInputs, OpCheck, check_op};
pub use parallel::Pieces;
pub use params::{Entry, ParamId, Params};
pub use shape::Shape;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
