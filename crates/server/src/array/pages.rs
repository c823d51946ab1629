//! How pages are kept in memory: in huge pages of the processor where the system has them, and
//! copied past the processor's caches, which a page that is destaged much later only fills.
#![allow(unsafe_code)]

use destage_volume::{Chunk, PageMemory};
use memmap2::{Advice, MmapMut};

/// Memory for the pages of a served array.
pub(crate) fn memory() -> PageMemory {
    PageMemory { take, copy: stores, settle }
}

fn take(bytes: usize) -> Chunk {
    match MmapMut::map_anon(bytes) {
        Ok(map) => {
            // Without huge pages it works too.
            let _ = map.advise(Advice::HugePage);
            Box::new(map)
        }
        // The allocator ends the process, if it has none either.
        Err(_) => Box::new(vec![0; bytes]),
    }
}

/// Copies bytes with stores that do not fetch what they overwrite, where source and destination
/// are aligned for it.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn stream(to: &mut [u8], from: &[u8]) {
    stores(to, from);
    settle();
}

/// The same without the end: nobody may look at what was written before [`settle`].
#[cfg(target_arch = "x86_64")]
fn stores(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const WIDTH: usize = size_of::<__m128i>();
    assert_eq!(to.len(), from.len(), "a copy of another length");
    if !to.as_ptr().cast::<__m128i>().is_aligned() || !to.len().is_multiple_of(WIDTH) {
        return to.copy_from_slice(from);
    }
    for (to, from) in to.chunks_exact_mut(WIDTH).zip(from.chunks_exact(WIDTH)) {
        // SAFETY: both are 16 bytes, `to` aligned to 16; SSE2 is part of x86-64. Callers settle
        // before anything else looks there.
        unsafe {
            _mm_stream_si128(to.as_mut_ptr().cast(), _mm_loadu_si128(from.as_ptr().cast()));
        }
    }
}

/// Makes such stores visible before anything that follows.
#[cfg(target_arch = "x86_64")]
fn settle() {
    // SAFETY: SSE is part of x86-64.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Copies bytes.
#[cfg(not(target_arch = "x86_64"))]
fn stores(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(not(target_arch = "x86_64"))]
fn settle() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_copies_wherever_they_begin_and_end() {
        let from: Vec<u8> = (0..8192).map(|n| (n * 7 % 251) as u8).collect();
        let mut chunk = take(4 << 20);
        for (at, start, length) in [(0, 0, 4096), (4096, 1, 4096), (8192, 3, 512), (9001, 5, 77)] {
            stream(&mut chunk[at..at + length], &from[start..start + length]);
            assert_eq!(chunk[at..at + length], from[start..start + length]);
        }
        assert_eq!(chunk[..4096], from[..4096], "only what was to be written");
    }
}
