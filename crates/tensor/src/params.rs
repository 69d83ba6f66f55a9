//! The flat parameter store.

use ndarray::{ArrayViewD, ArrayViewMutD};

use crate::buffer::reserve;
use crate::error::check_len;
use crate::{Element, Error, Result, Shape};

/// Handle of one parameter tensor in a [`Params`] store, and in any other store that has a tensor of this name and shape
/// at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParamId {
    pub(crate) index: usize,
    /// Of name and shape, so that a store of another layout refuses the handle.
    fingerprint: u64,
}

/// One row of the table of a [`Params`] store.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Unique name, e.g. `blocks.0.attention.qkv.weight`.
    pub name: String,
    /// Dimensions.
    pub shape: Shape,
    /// Position of the first number in the flat buffer.
    pub offset: usize,
}

impl Entry {
    /// A hash of name and shape (FNV-1a).
    fn fingerprint(&self) -> u64 {
        let dims = self.shape.dims().iter().flat_map(|d| d.to_le_bytes());
        self.name
            .bytes()
            .chain(dims)
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
    }

    /// The tensor's place in the flat buffer.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.shape.len()
    }
}

/// All parameters of a model as one flat buffer, with a table of names, shapes and offsets. Gradients, moments and
/// compressed exchanges are other buffers of the same layout.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Params<T> {
    values: Vec<T>,
    table: Vec<Entry>,
    /// The handles of the table's rows.
    ids: Vec<ParamId>,
}

impl<T: Element> Params<T> {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Params {
            values: Vec::new(),
            table: Vec::new(),
            ids: Vec::new(),
        }
    }

    /// Appends a tensor.
    ///
    /// # Errors
    /// [`Error::DuplicateName`], [`Error::Length`] if `values` does not fit the shape, [`Error::OutOfMemory`].
    pub fn add(&mut self, name: impl Into<String>, shape: Shape, values: &[T]) -> Result<ParamId> {
        let name = name.into();
        check_len(&name, shape.len(), values.len())?;
        if self.find(&name).is_some() {
            return Err(Error::DuplicateName { name });
        }
        let entry = Entry {
            name,
            shape,
            offset: self.values.len(),
        };
        let id = ParamId {
            index: self.table.len(),
            fingerprint: entry.fingerprint(),
        };
        let len = self.values.len() + values.len();
        reserve(&mut self.values, len)?;
        self.values.extend_from_slice(values);
        self.table.push(entry);
        self.ids.push(id);
        Ok(id)
    }

    /// Number of numbers in all tensors together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All numbers, in the order of the table.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All numbers, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// The table: one entry a tensor, offsets ascending and without gaps.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.table
    }

    /// The handles of all tensors, in the order of the table.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = ParamId> {
        self.ids.iter().copied()
    }

    /// The handle of the tensor with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ParamId> {
        let index = self.table.iter().position(|e| e.name == name)?;
        Some(self.ids[index])
    }

    /// The table row behind a handle.
    ///
    /// # Errors
    /// [`Error::Foreign`] for the handle of a store whose tensor at this place has another name or shape.
    pub fn entry(&self, id: ParamId) -> Result<&Entry> {
        if self.ids.get(id.index) == Some(&id) {
            return Ok(&self.table[id.index]);
        }
        Err(Error::Foreign {
            what: "parameter",
            index: id.index,
            count: self.table.len(),
        })
    }

    /// One tensor as an array.
    ///
    /// # Errors
    /// As [`Params::entry`].
    pub fn array(&self, id: ParamId) -> Result<ArrayViewD<'_, T>> {
        let entry = self.entry(id)?;
        Ok(array_of(&self.values[entry.range()], entry.shape))
    }

    /// One tensor as an array to be changed in place.
    ///
    /// # Errors
    /// As [`Params::entry`].
    pub fn array_mut(&mut self, id: ParamId) -> Result<ArrayViewMutD<'_, T>> {
        let entry = self.entry(id)?.clone();
        let data = &mut self.values[entry.range()];
        Ok(ArrayViewMutD::from_shape(entry.shape.dims(), data)
            .expect("an entry's range has its shape's length"))
    }

    /// One tensor of another buffer of the same layout, e.g. of a gradient.
    ///
    /// # Errors
    /// As [`Params::entry`]; [`Error::Length`] if the buffer has another layout.
    pub fn array_in<'a>(&self, id: ParamId, buffer: &'a [T]) -> Result<ArrayViewD<'a, T>> {
        let entry = self.entry(id)?;
        check_len("flat buffer", self.len(), buffer.len())?;
        Ok(array_of(&buffer[entry.range()], entry.shape))
    }
}

fn array_of<T>(data: &[T], shape: Shape) -> ArrayViewD<'_, T> {
    ArrayViewD::from_shape(shape.dims(), data).expect("an entry's range has its shape's length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_tensors_one_after_the_other() -> Result<()> {
        let mut p = Params::<f32>::new();
        let a = p.add("a", Shape::new(&[2])?, &[1.0, 2.0])?;
        let b = p.add("b", Shape::new(&[2, 2])?, &[3.0, 4.0, 5.0, 6.0])?;
        assert_eq!(p.array(b)?[[1, 0]], 5.0);
        p.array_mut(a)?[[1]] = 9.0;
        assert_eq!(p.values(), [1.0, 9.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(p.array_in(b, &[0.0, 0.0, 0.0, 0.0, 0.0, 7.0])?[[1, 1]], 7.0);
        assert_eq!((p.find("b"), p.find("c")), (Some(b), None));
        Ok(())
    }

    #[test]
    fn refuses_double_names_wrong_lengths_and_foreign_handles() -> Result<()> {
        let mut p = Params::<f64>::new();
        let a = p.add("a", Shape::SCALAR, &[1.0])?;
        assert!(matches!(
            p.add("a", Shape::SCALAR, &[1.0]),
            Err(Error::DuplicateName { .. })
        ));
        assert!(matches!(
            p.add("b", Shape::SCALAR, &[]),
            Err(Error::Length { .. })
        ));
        assert!(matches!(p.array_in(a, &[]), Err(Error::Length { .. })));
        let mut other = Params::<f64>::new();
        other.add("b", Shape::SCALAR, &[42.0])?;
        assert!(matches!(other.entry(a), Err(Error::Foreign { .. })));
        let mut alike = Params::<f32>::new();
        alike.add("a", Shape::SCALAR, &[2.0])?;
        assert_eq!(alike.entry(a)?.name, "a");
        assert!(matches!(
            Params::<f64>::new().entry(a),
            Err(Error::Foreign { .. })
        ));
        Ok(())
    }
}
