//! [`Handles`]: the memory of lists of handles between two recordings.

use super::Var;
use crate::scalar::Scalar;

/// The memory of a list of handles, kept while there are none: handles borrow their tape, which has to be rewound without any.
///
/// ```
/// use burtorch_core::{Handles, Tape};
///
/// let (mut tape, mut memory) = (Tape::new(), Handles::new());
/// let mark = tape.mark();
/// for _ in 0..3 {
///     let mut handles = memory.take(); // allocates in the first round only
///     handles.extend((0..100).map(|i| tape.var(f64::from(i))));
///     memory.put_back(handles);
///     tape.rewind(mark)?;
/// }
/// assert!(memory.bytes() > 0);
/// # Ok::<(), burtorch_core::Error>(())
/// ```
pub struct Handles<T: Scalar>(Vec<Parked<T>>);

/// What takes the room of a handle. There is never one.
struct Parked<T: Scalar> {
    _held: T::Held,
    _tape: Option<&'static ()>,
}

impl<T: Scalar> Default for Handles<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Scalar> Handles<T> {
    /// No memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// An empty list in this memory, which has none until it is put back.
    #[must_use]
    pub fn take<'t>(&mut self) -> Vec<Var<'t, T>> {
        // Both take the same room, so the standard library collects in place.
        let parked = std::mem::take(&mut self.0).into_iter();
        parked.filter_map(|_| None).collect()
    }

    /// Keeps the memory of a list, whose handles are dropped.
    pub fn put_back(&mut self, mut handles: Vec<Var<'_, T>>) {
        handles.clear();
        self.0 = handles.into_iter().filter_map(|_| None).collect();
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Parked<T>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Lanes;
    use crate::{Dual, Tape};

    fn keeps_its_memory<T: Scalar>(number: T) {
        let (tape, mut memory) = (Tape::new(), Handles::new());
        assert_eq!(memory.bytes(), 0);
        let mut handles = memory.take();
        handles.extend((0..100).map(|_| tape.var(number)));
        let (place, capacity) = (handles.as_ptr(), handles.capacity());
        memory.put_back(handles);
        assert_eq!(memory.bytes(), capacity * size_of::<Var<'_, T>>());
        let handles = memory.take();
        assert_eq!((handles.as_ptr(), handles.capacity()), (place, capacity));
        assert!(handles.is_empty() && memory.bytes() == 0);
    }

    #[test]
    fn memory_stays_where_it_is() {
        keeps_its_memory(1.0_f32);
        keeps_its_memory(1.0_f64);
        keeps_its_memory(Dual::variable(1.0));
        keeps_its_memory(Lanes::from([1.0_f32; 8]));
    }
}
