//! Large buffers to be used again: fresh memory costs the kernel more than the copy into it.

use destage_block::Buffer;

#[derive(Default)]
pub(crate) struct Spare {
    buffers: Vec<Buffer>,
    bytes: usize,
}

const SPARE_MIN: usize = 32 << 10;
const SPARE_BYTES_MAX: usize = 32 << 20;

impl Spare {
    /// A buffer of this length with arbitrary contents.
    pub(crate) fn take(&mut self, length: usize) -> Buffer {
        let fits = |buffer: &Buffer| (length..=2 * length).contains(&buffer.capacity());
        let Some(at) = self.buffers.iter().rposition(fits) else { return Buffer::zeroed(length) };
        let mut buffer = self.buffers.swap_remove(at);
        self.bytes -= buffer.capacity();
        buffer.set_len(length);
        buffer
    }

    /// Keeps a buffer, if it is large and there are not too many.
    pub(crate) fn give(&mut self, buffer: Buffer) {
        let bytes = buffer.capacity();
        if bytes >= SPARE_MIN && self.bytes + bytes <= SPARE_BYTES_MAX {
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }
}
