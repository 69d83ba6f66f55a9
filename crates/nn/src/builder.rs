//! Gives parameters their full names and their first numbers.

use burtorch_tensor::{Element, ParamId, Params, Result, Shape};

use crate::{Init, init};

/// Adds the parameters of layers to a store, under hierarchical names such as `blocks.0.attention.qkv.weight`.
///
/// ```
/// use burtorch_nn::{Builder, Init};
/// use burtorch_tensor::Params;
///
/// # fn main() -> Result<(), burtorch_tensor::Error> {
/// let mut params = Params::<f32>::new();
/// let mut builder = Builder::new(&mut params, 1);
/// builder.within("blocks.0", |b| b.within("norm", |b| b.parameter("weight", &[4], Init::ONES)))?;
/// assert_eq!(params.entries()[0].name, "blocks.0.norm.weight");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Builder<'a, T> {
    params: &'a mut Params<T>,
    seed: u64,
    prefix: String,
    streams: Vec<u32>,
}

impl<'a, T: Element> Builder<'a, T> {
    /// A builder that appends to `params` and draws every parameter from a stream of `seed`.
    #[must_use]
    pub fn new(params: &'a mut Params<T>, seed: u64) -> Self {
        Builder {
            params,
            seed,
            prefix: String::new(),
            streams: Vec::new(),
        }
    }

    /// Runs `build` with `name` appended to the names of what it adds.
    pub fn within<R>(&mut self, name: &str, build: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.prefix.len();
        self.prefix = self.full_name(name);
        let result = build(self);
        self.prefix.truncate(outer);
        result
    }

    /// Adds a parameter.
    ///
    /// # Errors
    /// [`Error::Shape`](burtorch_tensor::Error::Shape) for a dimension of zero,
    /// [`Error::DuplicateName`](burtorch_tensor::Error::DuplicateName), and what [`Init::draw`] refuses.
    pub fn parameter(&mut self, name: &str, dims: &[usize], init: Init) -> Result<ParamId> {
        let name = self.full_name(name);
        let shape = Shape::new(dims)?;
        let values = init.draw(shape, self.seed, &name)?;
        self.params.add(name, shape, &values)
    }

    /// A number for the random masks of the layer `name` that no other layer of this builder has. It depends on the
    /// full name (its hash, folded to 32 bits), not on how many layers came before, save for the rare case that two
    /// hashes meet: then the later one moves to the next free number.
    pub fn stream(&mut self, name: &str) -> u32 {
        let hash = init::hash(&self.full_name(name));
        let mut stream = (hash >> 32) as u32 ^ hash as u32;
        while self.streams.contains(&stream) {
            stream = stream.wrapping_add(1);
        }
        self.streams.push(stream);
        stream
    }

    fn full_name(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.into(),
            prefix => format!("{prefix}.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Linear, LinearConfig};

    #[test]
    fn f34_another_layer_leaves_the_numbers_of_a_layer_alone() -> Result<()> {
        let weights_of_last = |names: &[&str]| -> Result<Vec<f32>> {
            let mut params = Params::new();
            let mut b = Builder::new(&mut params, 1);
            for name in names {
                Linear::new(&mut b, name, LinearConfig::new(4, 4))?;
            }
            Ok(params.values()[params.len() - 20..].to_vec())
        };
        assert_eq!(weights_of_last(&["b"])?, weights_of_last(&["a", "b"])?);
        assert_ne!(weights_of_last(&["b"])?, weights_of_last(&["b", "a"])?);
        Ok(())
    }

    #[test]
    fn names_nest_and_return() -> Result<()> {
        let mut params = Params::<f64>::new();
        let mut b = Builder::new(&mut params, 1);
        b.within("outer", |b| {
            b.within("inner", |b| b.parameter("a", &[1], Init::ZEROS))?;
            b.parameter("b", &[1], Init::ZEROS)
        })?;
        b.parameter("c", &[1], Init::ZEROS)?;
        let names: Vec<&str> = params.entries().iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["outer.inner.a", "outer.b", "c"]);
        Ok(())
    }

    #[test]
    fn a_failed_layer_leaves_the_prefix_as_it_was() -> Result<()> {
        let mut params = Params::<f64>::new();
        let mut b = Builder::new(&mut params, 1);
        assert!(
            b.within("layer", |b| b.parameter("weight", &[0, 3], Init::ZEROS))
                .is_err()
        );
        b.parameter("weight", &[1], Init::ZEROS)?;
        assert_eq!(params.entries()[0].name, "weight");
        Ok(())
    }

    #[test]
    fn f34_layers_of_one_name_in_different_places_have_different_masks() {
        let mut params = Params::<f64>::new();
        let mut b = Builder::new(&mut params, 1);
        let first = b.within("blocks.0", |b| b.stream("dropout"));
        let mut params = Params::<f64>::new();
        let mut b = Builder::new(&mut params, 1); // a fresh one, which has nothing to avoid
        let second = b.within("blocks.1", |b| b.stream("dropout"));
        assert_ne!(first, second);
    }

    #[test]
    fn f34_mask_streams_depend_on_the_name_and_never_meet() {
        let mut params = Params::<f64>::new();
        let mut b = Builder::new(&mut params, 1);
        let first = b.stream("first");
        let names = (0..200).map(|i| format!("blocks.{i}.dropout"));
        let streams: std::collections::HashSet<u32> = names.map(|name| b.stream(&name)).collect();
        assert_eq!(streams.len(), 200);
        assert!(!streams.contains(&first));
        assert_eq!(
            b.stream("first"),
            first.wrapping_add(1),
            "a taken number is not given twice"
        );
        assert_eq!(
            Builder::new(&mut Params::<f64>::new(), 9).stream("first"),
            first
        );
    }
}
