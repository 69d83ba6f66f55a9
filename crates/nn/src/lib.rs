#![doc = include_str!("../README.md")]
//!
//! # How it is put together
//!
//! A [`Layer`] stores handles of its parameters and its settings. The numbers are in a flat
//! [`Params`](burtorch_tensor::Params) store, which a [`Builder`] fills; the engine appears in
//! [`forward`](Layer::forward) alone.
//!
//! # Shape letters
//!
//! All documentation of layers and models uses these:
//!
//! | letter | size of |
//! |---|---|
//! | `B` | a batch: how many sequences |
//! | `T` | a sequence: how many positions ("time") |
//! | `C` | the vector at a position ("channels", the embedding width) |
//! | `H` | the heads of attention; each works on `C/H` channels |
//! | `V` | the vocabulary |
//!
//! Parameter shapes put outputs before inputs, as PyTorch does.
//!
//! # Example
//!
//! A network learns exclusive or, first with kernels, then with every multiplication on the scalar tape.
//!
//! ```
//! use burtorch_nn::{Builder, Layer, Linear, LinearConfig};
//! use burtorch_tensor::ops::{Activation, CrossEntropy};
//! use burtorch_tensor::{Context, Engine, Error, Indices, Params, ScalarEngine, Shape, TensorEngine, Workspace};
//!
//! fn train<W: Workspace<f64>>(mut workspace: W) -> Result<f64, Error> {
//!     let mut params = Params::new();
//!     let mut b = Builder::new(&mut params, 1);
//!     let network = (
//!         Linear::new(&mut b, "hidden", LinearConfig { activation: Activation::Gelu, ..LinearConfig::new(2, 8) })?,
//!         Linear::new(&mut b, "output", LinearConfig::new(8, 2))?,
//!     );
//!     let (inputs, targets) = ([0., 0., 0., 1., 1., 0., 1., 1.], [0, 1, 1, 0]);
//!     let context = Context { indices: &targets, training: true, ..Context::default() };
//!     let mut loss = f64::NAN;
//!     for _ in 0..300 {
//!         let mut gradients = vec![0.0; params.len()];
//!         let mut e = workspace.bind(&params, context);
//!         let x = e.constant(&inputs, Shape::new(&[4, 2])?)?;
//!         let logits = network.forward(&mut e, x)?;
//!         let root = e.apply(CrossEntropy { targets: Indices::new(0, 4), ignore: None }, [logits])?;
//!         e.backward_scalar(root, &mut gradients)?;
//!         loss = e.value(root).data[0];
//!         drop(e);
//!         params.values_mut().iter_mut().zip(&gradients).for_each(|(p, g)| *p -= 0.5 * g);
//!     }
//!     Ok(loss)
//! }
//!
//! # fn main() -> Result<(), Error> {
//! let with_kernels = train(TensorEngine::new())?;
//! let on_the_tape = train(ScalarEngine::new())?;
//! assert!(with_kernels < 0.05, "nats per answer; guessing is ln 2 = 0.69");
//! assert!((with_kernels - on_the_tape).abs() < 1e-9);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod attention;
mod block;
mod builder;
mod dropout;
mod embedding;
mod init;
mod layer;
mod linear;
mod mlp;
mod norm;
mod recomputed;
pub mod sequential;
#[cfg(test)]
mod testing;

pub use attention::{Attention, AttentionConfig};
pub use block::{Block, BlockConfig, Residual};
pub use builder::Builder;
pub use dropout::Dropout;
pub use embedding::{Embedding, PositionEmbedding};
pub use init::Init;
pub use layer::Layer;
pub use linear::{Linear, LinearConfig};
pub use mlp::{Mlp, MlpConfig};
pub use norm::LayerNorm;
pub use recomputed::Recomputed;
