//! An allocator that counts: the only way to see that nothing is allocated, and how much is held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

thread_local! {
    static CALLS_OF_THREAD: Cell<usize> = const { Cell::new(0) };
}
static CALLS: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting calls and bytes. A test program makes it its `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

impl Counting {
    /// Calls by this thread so far; tests run side by side, each on its own thread.
    #[must_use]
    pub fn calls_of_this_thread() -> usize {
        CALLS_OF_THREAD.get()
    }

    /// Calls by all threads so far.
    #[must_use]
    pub fn calls() -> usize {
        CALLS.load(Relaxed)
    }

    /// The most bytes that `work` has on loan at one time, beyond those on loan before, on all threads; and what it returns.
    pub fn peak_of<R>(work: impl FnOnce() -> R) -> (usize, R) {
        let before = LIVE.load(Relaxed);
        PEAK.store(before, Relaxed);
        let result = work();
        (PEAK.load(Relaxed) - before, result)
    }
}

/// Notes a call that lends `lent` bytes and takes back `returned`.
fn note(lent: usize, returned: usize) {
    // A thread that is being torn down has no counter any more, and nobody reads it.
    let _ = CALLS_OF_THREAD.try_with(|calls| calls.set(calls.get() + 1));
    CALLS.fetch_add(1, Relaxed);
    let live = LIVE.fetch_add(lent, Relaxed) + lent;
    PEAK.fetch_max(live - returned, Relaxed);
    LIVE.fetch_sub(returned, Relaxed);
}

// SAFETY: every method hands its arguments to the system's allocator unchanged and returns what that returns; counting
// neither allocates nor panics, since the cell needs no initialisation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`, which are the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the pointer came from the system's allocator, by the other methods here, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size, layout.size());
        // SAFETY: as for `dealloc`; the caller answers for the new size.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
