//! One block with the keys and values of its positions.

use burtorch_tensor::Element;
use burtorch_tensor::inference::{KeyValues, PackedLinear};
use burtorch_tensor::ops::Activation;

use super::norm::{Norm, NormMemory};
use super::weights::Weights;
use crate::Error;
use crate::model::ModelConfig;

/// What lies between the layers, a row for each position.
pub(super) struct Rows<T> {
    /// The residual stream, `[T, C]`.
    pub(super) x: Vec<T>,
    /// It normalised, `[T, C]`.
    pub(super) normal: Vec<T>,
    pub(super) norm: NormMemory<T>,
    /// Queries, then what is added to the residual stream, `[T, C]`.
    change: Vec<T>,
    /// `[T, 2C]`
    keys_and_values: Vec<T>,
    /// `[T, C]`
    mixed: Vec<T>,
    /// `[T, 4C]`
    hidden: Vec<T>,
}

impl<T: Element> Rows<T> {
    pub(super) fn new(config: &ModelConfig) -> Result<Self, Error> {
        let numbers = |width: usize| vec![T::ZERO; config.block_size * width];
        let width = config.embed;
        Ok(Self {
            x: numbers(width),
            normal: numbers(width),
            norm: NormMemory::new(config.block_size, width)?,
            change: numbers(width),
            keys_and_values: numbers(2 * width),
            mixed: numbers(width),
            hidden: numbers(ModelConfig::EXPANSION * width),
        })
    }
}

/// The layers of [`burtorch_nn::Block`], and what attention keeps.
pub(super) struct Block<'a, T> {
    norm_1: Norm<'a, T>,
    /// Queries apart from keys and values, since not every position needs one.
    query: PackedLinear<T>,
    key_value: PackedLinear<T>,
    kept: KeyValues<T>,
    projection: PackedLinear<T>,
    norm_2: Norm<'a, T>,
    expand: PackedLinear<T>,
    contract: PackedLinear<T>,
}

impl<'a, T: Element> Block<'a, T> {
    pub(super) fn new(
        weights: &Weights<'a, T>,
        name: &str,
        config: &ModelConfig,
    ) -> Result<Self, Error> {
        let (c, hidden) = (config.embed, ModelConfig::EXPANSION * config.embed);
        let linear = |layer: &str, inputs, outputs, activation| {
            let (weight, bias) = (
                format!("{name}.{layer}.weight"),
                format!("{name}.{layer}.bias"),
            );
            let weight = weights.get(&weight, &[outputs, inputs])?;
            let bias = weights.bias(config.bias, &bias, outputs)?;
            Ok::<_, Error>(PackedLinear::new(weight, bias, inputs, activation)?)
        };
        let weight = weights.get(&format!("{name}.attention.qkv.weight"), &[3 * c, c])?;
        let bias = format!("{name}.attention.qkv.bias");
        let bias = weights.bias(config.qkv_bias, &bias, 3 * c)?;
        let (query, key_value) = weight.split_at(c * c);
        let (query_bias, key_value_bias) = bias.map(|bias| bias.split_at(c)).unzip();
        let plain = Activation::Identity;
        Ok(Self {
            norm_1: Norm::new(weights, &format!("{name}.norm_1"), config)?,
            query: PackedLinear::new(query, query_bias, c, plain)?,
            key_value: PackedLinear::new(key_value, key_value_bias, c, plain)?,
            kept: KeyValues::new(config.block_size, config.heads, c / config.heads)?,
            projection: linear("attention.projection", c, c, plain)?,
            norm_2: Norm::new(weights, &format!("{name}.norm_2"), config)?,
            expand: linear("mlp.expand", c, hidden, config.activation)?,
            contract: linear("mlp.contract", hidden, c, plain)?,
        })
    }

    /// Positions that are kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }

    /// Takes the next `count` positions, the first rows of the residual stream, and carries the last `wanted` of them on; those
    /// before are left as they are.
    pub(super) fn forward(
        &mut self,
        rows: &mut Rows<T>,
        count: usize,
        wanted: usize,
    ) -> Result<(), Error> {
        let width = self.query.inputs();
        let from = (count - wanted) * width;
        let x = &mut rows.x[..count * width];
        let normal = &mut rows.normal[..count * width];
        let keys_and_values = &mut rows.keys_and_values[..2 * count * width];
        let change = &mut rows.change[..wanted * width];
        let mixed = &mut rows.mixed[..wanted * width];
        let hidden = &mut rows.hidden[..wanted * self.expand.outputs()];

        self.norm_1.forward(&mut rows.norm, x, normal)?; //   [count, C]
        self.key_value.forward(normal, keys_and_values)?; //  [count, 2C]
        self.kept.append(keys_and_values)?;
        let (x, normal) = (&mut x[from..], &mut normal[from..]);
        self.query.forward(normal, change)?; //               [wanted, C]
        self.kept.attend(change, mixed)?; //                  [wanted, C]
        self.projection.forward(mixed, change)?; //           [wanted, C]
        add(x, change);
        self.norm_2.forward(&mut rows.norm, x, normal)?; //   [wanted, C]
        self.expand.forward(normal, hidden)?; //              [wanted, 4C]
        self.contract.forward(hidden, change)?; //            [wanted, C]
        add(x, change);
        Ok(())
    }
}

/// `x += change`
fn add<T: Element>(x: &mut [T], change: &[T]) {
    for (x, &change) in x.iter_mut().zip(change) {
        *x += change;
    }
}
