//! The result of a handshake: the export, the form of headers, the metadata contexts.

use crate::wire;

/// Form of the messages of the transmission phase. Ordered: each includes the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Compact requests, simple replies.
    Simple,
    /// Compact requests, structured replies (`NBD_OPT_STRUCTURED_REPLY`).
    Structured,
    /// Extended requests and replies (`NBD_OPT_EXTENDED_HEADERS`).
    Extended,
}

/// Block size constraints (`NBD_INFO_BLOCK_SIZE`), bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it; a power of two.
    pub minimum: u32,
    /// Best size for small requests; a power of two.
    pub preferred: u32,
    /// Longest payload of a request or of a read.
    pub maximum: u32,
}

impl Default for BlockSizes {
    /// What a client without `NBD_INFO_BLOCK_SIZE` may rely on, but with a minimum of 1.
    fn default() -> Self {
        BlockSizes { minimum: 1, preferred: 4096, maximum: 32 << 20 }
    }
}

impl BlockSizes {
    /// Bytes of the longest request whose length is a multiple of `unit`, which is a power of two,
    /// and of the minimum; 0 if not even one unit may be asked for at once.
    pub fn longest(&self, unit: u32) -> u32 {
        let unit = unit.max(self.minimum).max(1);
        self.maximum / unit * unit
    }
}

/// Most metadata contexts an export may have.
pub const CONTEXTS_MAX: usize = 32;

/// A set of selected contexts, by their position in [`Session::contexts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextSet(pub(crate) u32);

impl ContextSet {
    /// The first `count` contexts.
    pub fn first(count: usize) -> ContextSet {
        ContextSet(if count >= CONTEXTS_MAX { u32::MAX } else { (1 << count) - 1 })
    }

    /// Whether the context at `position` is in the set.
    pub fn contains(self, position: usize) -> bool {
        position < CONTEXTS_MAX && self.0 >> position & 1 == 1
    }

    /// With the context at `position`, if there can be one.
    #[must_use]
    pub fn with(self, position: usize) -> ContextSet {
        if position < CONTEXTS_MAX { ContextSet(self.0 | 1 << position) } else { self }
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A metadata context selected in the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Its number in replies.
    pub id: u32,
    /// Its name, `namespace:leaf`.
    pub name: String,
}

/// What was negotiated. Both sides of a connection hold an equal one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Name under which the client opened the export.
    pub export: String,
    /// Size of the export, bytes.
    pub size: u64,
    /// Transmission flags, `NBD_FLAG_*`.
    pub flags: u16,
    /// Constraints on block sizes: the server's, or the defaults where it sent none.
    pub block: BlockSizes,
    /// Form of the messages.
    pub mode: Mode,
    /// Selected metadata contexts.
    pub contexts: Vec<Context>,
}

impl Session {
    /// Whether this transmission flag is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether the export is read-only.
    pub fn read_only(&self) -> bool {
        self.has(wire::NBD_FLAG_READ_ONLY)
    }

    /// All selected contexts.
    pub fn context_set(&self) -> ContextSet {
        ContextSet::first(self.contexts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_request_has_complete_units_and_blocks() {
        for (minimum, maximum, longest) in [
            (1, 32 << 20, 32 << 20),
            (1, 10_000, 8192),
            (512, 4096, 4096),
            (1, 4095, 0),
            (8192, 20_000, 16_384),
            (1, u32::MAX, u32::MAX - 4095),
        ] {
            let sizes = BlockSizes { minimum, preferred: 4096, maximum };
            assert_eq!(sizes.longest(4096), longest, "{minimum} to {maximum}");
        }
    }
}
