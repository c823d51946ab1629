//! A global allocator that counts the bytes allocated: for tests and benches of memory, also those
//! of other crates.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Bytes allocated now.
pub fn allocated() -> usize {
    ALLOCATED.load(Ordering::Relaxed)
}

/// The most that was allocated during `work` over what was allocated before.
pub fn most_during(work: impl FnOnce()) -> usize {
    let before = allocated();
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}

#[expect(unsafe_code, reason = "a global allocator that counts cannot be written without")]
// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
