//! Buffers that grow.

use crate::{Element, Error, Result};

/// Makes a buffer's capacity at least `len`. It grows by at least an eighth: little is taken in vain, and filling a buffer bit by
/// bit still copies no number more than nine times on average.
pub(crate) fn reserve<T: Element>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    if buffer.capacity() >= len {
        return Ok(());
    }
    let numbers = len - buffer.len();
    buffer
        .try_reserve_exact(numbers.max(buffer.capacity() / 8))
        .map_err(|_| Error::OutOfMemory { numbers })
}

/// Lengthens a buffer to at least `len` numbers.
pub(crate) fn grow<T: Element>(buffer: &mut Vec<T>, len: usize) -> Result<()> {
    reserve(buffer, len)?;
    if buffer.len() < len {
        buffer.resize(len, T::ZERO);
    }
    Ok(())
}
