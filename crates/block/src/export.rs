//! What a server serves.

use crate::Map;

/// Limits of a request, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it; a power of two.
    pub minimum: u32,
    /// Best size of small requests; a power of two.
    pub preferred: u32,
    /// Longest payload of a read or write.
    pub maximum: u32,
}

/// A disk on offer. It takes reads, writes and flushes through any number of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Name by which clients open it.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// Limits of a request.
    pub block: BlockSizes,
    /// A write can ask to be answered only when it is durable.
    pub fua: bool,
    /// Takes [`crate::Request::Trim`], [`crate::Request::Zero`] and [`crate::Request::Prefetch`].
    pub discards: bool,
    /// Zeroing a range is always faster than writing zeros.
    pub fast_zero: bool,
    /// Seeks cost time.
    pub rotational: bool,
    /// The maps that clients may ask for.
    pub maps: Vec<Map>,
}
