//! Requests that come from elsewhere: a generated load, a trace.

/// One request of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Nanoseconds from the start when it was due: what its latency counts from.
    pub due_ns: u64,
    /// Handed back by [`Feed::completed`].
    pub tag: u32,
    /// Writes, else reads.
    pub write: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes, above 0; the whole request within the export.
    pub length: u64,
}

/// Requests in order, which may depend on completions. Moments are ns from the start and never go
/// back.
pub trait Feed: Send {
    /// When the next request is due if nothing completes before; `None` when there is none, or
    /// none until a request completes.
    fn next_at(&mut self) -> Option<u64>;

    /// Takes the request that `next_at` announced, at that time or later.
    ///
    /// # Errors
    /// In words: the feed cannot go on.
    fn take(&mut self, now_ns: u64) -> Result<Ask, String>;

    /// A request was answered.
    fn completed(&mut self, tag: u32, now_ns: u64);
}
