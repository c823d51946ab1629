//! How pages are kept in memory: in huge pages of the processor where the system has them, and
//! copied past the processor's caches, which a page that is destaged much later only fills.
#![allow(unsafe_code)]

use destage_served::{Chunk, PageMemory};
use memmap2::{Advice, MmapMut};

/// Memory for the pages of a served array.
pub(crate) fn memory() -> PageMemory {
    PageMemory { take, copy: stores(), settle }
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

/// A copy of bytes into others of the same length.
pub(crate) type PageCopy = fn(&mut [u8], &[u8]);

/// Copies by stores that do not fetch what they overwrite, where the destination is aligned for
/// it; as wide as this processor has them. Nobody may look at what was written before [`settle`].
#[cfg(target_arch = "x86_64")]
pub(crate) fn stores() -> PageCopy {
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has them.
        |to, from| unsafe { wide_stores(to, from) }
    } else {
        narrow_stores
    }
}

#[cfg(target_arch = "x86_64")]
fn narrow_stores(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    stream_parts::<__m128i>(to, from, |to, from| {
        // SAFETY: both are 16 bytes, `to` aligned to 16; SSE2 is part of x86-64.
        unsafe { _mm_stream_si128(to.as_mut_ptr().cast(), _mm_loadu_si128(from.as_ptr().cast())) }
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
fn wide_stores(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    stream_parts::<__m256i>(to, from, |to, from| {
        let (to, from) = (to.as_mut_ptr().cast(), from.as_ptr().cast());
        // SAFETY: both are 32 bytes, `to` aligned to 32.
        unsafe { _mm256_stream_si256(to, _mm256_loadu_si256(from)) }
    });
}

/// Goes over both by the size of a vector; with none if they are not aligned to it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn stream_parts<V>(to: &mut [u8], from: &[u8], mut part: impl FnMut(&mut [u8], &[u8])) {
    assert_eq!(to.len(), from.len(), "a copy of another length");
    if !to.as_ptr().cast::<V>().is_aligned() || !to.len().is_multiple_of(size_of::<V>()) {
        return to.copy_from_slice(from);
    }
    for (to, from) in to.chunks_exact_mut(size_of::<V>()).zip(from.chunks_exact(size_of::<V>())) {
        part(to, from);
    }
}

/// Makes such stores visible before anything that follows.
#[cfg(target_arch = "x86_64")]
pub(crate) fn settle() {
    // SAFETY: SSE is part of x86-64.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Copies bytes.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn stores() -> PageCopy {
    |to, from| to.copy_from_slice(from)
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn settle() {}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies_wherever_it_begins_and_ends(copy: PageCopy) {
        let from: Vec<u8> = (0..8192).map(|n| (n * 7 % 251) as u8).collect();
        let mut chunk = take(4 << 20);
        let parts =
            [(0, 0, 4096), (4096, 1, 4096), (8192, 3, 512), (9001, 5, 77), (12304, 2, 4096)];
        for (at, start, length) in parts {
            copy(&mut chunk[at..at + length], &from[start..start + length]);
            settle();
            assert_eq!(chunk[at..at + length], from[start..start + length]);
        }
        assert_eq!(chunk[..4096], from[..4096], "only what was to be written");
        assert_eq!((chunk[9000], chunk[9078], chunk[16400]), (0, 0, 0));
    }

    #[test]
    fn copies_are_copies_wherever_they_begin_and_end() {
        copies_wherever_it_begins_and_ends(stores());
        #[cfg(target_arch = "x86_64")]
        copies_wherever_it_begins_and_ends(narrow_stores);
    }
}
