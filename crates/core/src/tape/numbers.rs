//! The numbers of handles that do not hold them, such as those of lanes.
//!
//! Sound because no reference to the list leaves this file and nothing is called while there is one: numbers are copied in and out.
//! With a checked cell instead, a chain of ops in 8 lanes takes an eighth more time, one of small ops a quarter.
#![allow(unsafe_code, reason = "an unchecked cell, as said above")]

use std::cell::UnsafeCell;

use crate::float::Float;
use crate::scalar::Scalar;

/// The most there can be, so that places fit into 32 bits.
pub(super) const MOST: usize = u32::MAX as usize;

/// A list that grows until it is cleared. At place 0 lies NaN, for numbers that did not fit.
pub(super) struct Numbers<T>(UnsafeCell<Vec<T>>);

impl<T: Scalar> Numbers<T> {
    pub(super) fn new() -> Self {
        Self(UnsafeCell::default())
    }

    pub(super) fn capacity(&self) -> usize {
        // SAFETY: no other reference exists, see above.
        unsafe { (*self.0.get()).capacity() }
    }

    /// Drops all numbers, whose places may be used again. The memory is kept.
    pub(super) fn clear(&mut self) {
        self.0.get_mut().truncate(1);
    }

    /// Appends numbers; the place of the first, or None if there is no room.
    #[inline(always)]
    pub(super) fn push<const N: usize>(&self, numbers: [T; N]) -> Option<u32> {
        // SAFETY: no other reference exists, see above.
        let room = unsafe { (*self.0.get()).capacity() - (*self.0.get()).len() };
        if room < N && !self.make_room(N) {
            return None;
        }
        // SAFETY: as above.
        let list = unsafe { &mut *self.0.get() };
        let place = list.len();
        // SAFETY: there is room for so many more, and they are written before they are counted.
        unsafe {
            list.as_mut_ptr().add(place).cast::<[T; N]>().write(numbers);
            list.set_len(place + N);
        }
        Some(place as u32)
    }

    /// The number at a place; NaN where there is none.
    #[inline(always)]
    pub(super) fn get(&self, place: u32) -> T {
        // SAFETY: no other reference exists, see above.
        let list = unsafe { &*self.0.get() };
        match list.get(place as usize).copied() {
            Some(number) => number,
            None => T::constant(T::Primal::NAN),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&self, more: usize) -> bool {
        let nan = T::constant(T::Primal::NAN);
        // SAFETY: no other reference exists, see above.
        let list = unsafe { &mut *self.0.get() };
        let first = list.is_empty();
        let needed = more + usize::from(first);
        if list.len() + needed > MOST {
            return false;
        }
        // Twice as many as there are, but never room for one whose place has no number.
        let room = needed.max(list.len()).min(MOST - list.len());
        if list.try_reserve_exact(room).is_err() {
            return false;
        }
        if first {
            list.push(nan);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_pushed_is_at_its_place() {
        let mut numbers = Numbers::<f64>::new();
        assert!(numbers.get(0).is_nan());
        for round in 0..3 {
            for i in 0..1000 {
                let x = f64::from(i * 3 + round);
                let place = numbers.push([x, x + 0.5]).unwrap();
                assert_eq!(place, 2 * i as u32 + 1);
                assert_eq!((numbers.get(place), numbers.get(place + 1)), (x, x + 0.5));
            }
            assert_eq!(numbers.push([7.0]), Some(2001));
            assert!(numbers.get(0).is_nan() && numbers.get(2002).is_nan());
            let capacity = numbers.capacity();
            numbers.clear();
            assert!(numbers.get(1).is_nan() && capacity >= 2002);
            assert_eq!(numbers.capacity(), capacity);
        }
    }
}
