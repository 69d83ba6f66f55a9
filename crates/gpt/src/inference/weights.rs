//! Parameters by name.

use burtorch_tensor::{Element, Params};

use crate::Error;

/// The parameters of a model, whose shapes are checked as they are taken.
pub(super) struct Weights<'a, T> {
    params: &'a Params<T>,
}

impl<'a, T: Element> Weights<'a, T> {
    pub(super) fn new(params: &'a Params<T>) -> Self {
        Self { params }
    }

    /// The numbers of one parameter.
    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<&'a [T], Error> {
        let entry = self
            .params
            .entries()
            .iter()
            .find(|entry| entry.name == name);
        match entry {
            Some(entry) if entry.shape.dims() == shape => Ok(&self.params.values()[entry.range()]),
            other => Err(Error::Parameter {
                name: name.to_owned(),
                expected: format!("{shape:?}"),
                found: other.map_or("none".into(), |entry| format!("{:?}", entry.shape.dims())),
            }),
        }
    }

    /// The numbers of a bias, if the model has it.
    pub(super) fn bias(
        &self,
        present: bool,
        name: &str,
        len: usize,
    ) -> Result<Option<&'a [T]>, Error> {
        present.then(|| self.get(name, &[len])).transpose()
    }
}
