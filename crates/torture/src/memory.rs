//! Memory for pages that an array leaves to the next one of its case.
//!
//! Clearing it would take longer than the rest of a start. It begins with what earlier arrays left
//! there, so a volume that reads a page's memory before it writes it shows wrong bytes.

use destage_served::{Chunk, PageMemory};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Memory that returns when it is dropped.
struct Lent(Vec<u8>);

impl Deref for Lent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let bytes = core::mem::take(&mut self.0);
        // At the end of a thread it may be too late.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().push(bytes));
    }
}

/// A case begins on this thread: it does not depend on earlier ones.
pub fn begin() {
    SPARE.with(|spare| spare.borrow_mut().clear());
}

/// How the volumes of a case take their memory.
pub fn pages() -> PageMemory {
    PageMemory { take, ..PageMemory::default() }
}

fn take(bytes: usize) -> Chunk {
    let spare = SPARE.with(|spare| {
        let mut spare = spare.borrow_mut();
        let fits = spare.iter().position(|spare| spare.len() >= bytes);
        fits.map(|at| spare.swap_remove(at))
    });
    Box::new(Lent(spare.unwrap_or_else(|| vec![0; bytes])))
}
