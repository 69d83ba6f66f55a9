//! Buffers that begin with a cache line.

use crate::buffer::grow;
use crate::{Element, Result};

/// Bytes of a cache line, and of the widest vector. A load of such a vector that is not aligned takes two lines.
const LINE: usize = 64;

/// Numbers whose first one begins a cache line. A copy of them may lie elsewhere, where they are slower but as right.
#[derive(Debug, Clone)]
pub(crate) struct Lines<T> {
    buffer: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Element> Lines<T> {
    /// So many zeros.
    pub(crate) fn zeros(len: usize) -> Result<Self> {
        let spare = LINE / size_of::<T>();
        let mut buffer: Vec<T> = Vec::new();
        grow(&mut buffer, len.saturating_add(spare))?;
        let start = buffer.as_ptr().align_offset(LINE).min(spare);
        Ok(Self { buffer, start, len })
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        &self.buffer[self.start..][..self.len]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.buffer[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_begins_a_line() -> Result<()> {
        for len in [1, 5, 64, 1000] {
            let mut lines = Lines::<f32>::zeros(len)?;
            assert_eq!(lines.as_slice().as_ptr() as usize % LINE, 0);
            assert_eq!(lines.as_slice().len(), len);
            lines.as_mut_slice()[len - 1] = 1.0;
            assert_eq!(lines.clone().as_slice().last(), Some(&1.0));
        }
        assert!(Lines::<f32>::zeros(usize::MAX / 8).is_err());
        Ok(())
    }
}
