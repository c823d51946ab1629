//! Bytes whose start is aligned to a page, as direct I/O needs them.

use core::ops::Range;
use destage_engine::units::PAGE_BYTES;
use std::sync::Arc;

const ALIGN: usize = PAGE_BYTES as usize;

/// A run of bytes that begins at a multiple of 4,096 in memory.
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// `len` zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Buffer {
        let bytes = vec![0; len + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Buffer { bytes, start, len }
    }

    /// A copy of some bytes.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        buffer
    }

    /// Changes the length, up to [`Buffer::capacity`]. Further bytes hold what was there before.
    ///
    /// # Panics
    /// If `len` is over the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a buffer of {} bytes", self.capacity());
        self.len = len;
    }

    /// Narrows it to `len` bytes from `from` on, counted from the present first one. `from` should
    /// keep the alignment that direct I/O needs.
    ///
    /// # Panics
    /// If they reach past the capacity.
    pub fn set_range(&mut self, from: usize, len: usize) {
        assert!(from + len <= self.capacity(), "a buffer of {} bytes", self.capacity());
        self.start += from;
        self.len = len;
    }

    /// The buffer with its full length, from its first byte on.
    #[must_use]
    pub fn full(mut self) -> Buffer {
        self.start = self.bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        self.len = self.capacity();
        self
    }

    /// Bytes that it has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.len() - self.start
    }
}

/// A part of a buffer that several operations use.
#[derive(Clone, Debug)]
pub struct SharedBytes {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

impl SharedBytes {
    /// Some bytes of a buffer. The first should keep the alignment that direct I/O needs.
    #[must_use]
    pub fn part(buffer: &Arc<Buffer>, range: Range<usize>) -> SharedBytes {
        SharedBytes { buffer: Arc::clone(buffer), range }
    }

    /// The buffer, if nothing else uses it any more.
    #[must_use]
    pub fn into_buffer(self) -> Option<Buffer> {
        Arc::into_inner(self.buffer)
    }
}

impl From<Buffer> for SharedBytes {
    fn from(buffer: Buffer) -> SharedBytes {
        SharedBytes::from(Arc::new(buffer))
    }
}

impl From<Arc<Buffer>> for SharedBytes {
    fn from(buffer: Arc<Buffer>) -> SharedBytes {
        let range = 0..buffer.len();
        SharedBytes { buffer, range }
    }
}

impl core::ops::Deref for SharedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl core::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl core::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        Buffer::copy_of(self)
    }
}

impl core::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_aligned_and_stays_so_when_moved() {
        for len in [0, 1, 512, 4096, 70_000] {
            let mut buffer = Buffer::zeroed(len);
            assert_eq!((buffer.len(), buffer.as_ptr() as usize % ALIGN), (len, 0));
            buffer.iter_mut().for_each(|byte| *byte = 7);
            let moved = Box::new(buffer);
            let copy = (*moved).clone();
            assert_eq!(copy.as_ptr() as usize % ALIGN, 0);
            assert_eq!(&*copy, &**moved);
        }
    }
}
