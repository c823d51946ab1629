//! Requests that come from elsewhere: a generated load, a trace.

/// One request of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedRequest {
    /// When it was due, in nanoseconds from the start. Its latency counts from then.
    pub due_ns: u64,
    /// Handed back by [`Feed::completed`].
    pub tag: u32,
    /// Writes, else reads.
    pub write: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes, above 0. The request is within the export.
    pub length: u64,
}

/// Why a feed cannot continue: the error of its source.
pub type FeedError = Box<dyn std::error::Error + Send + Sync>;

/// Requests in order, which may depend on completions. Times are nanoseconds from the start and
/// never go back.
pub trait Feed: Send {
    /// When the next request is due if nothing completes before. `None`: there is none, or none
    /// until a request completes.
    fn next_at(&mut self) -> Option<u64>;

    /// Takes the request that `next_at` announced, at that time or later.
    ///
    /// # Errors
    /// The feed cannot continue, for example after a damaged line of a trace.
    fn take(&mut self, now_ns: u64) -> Result<FeedRequest, FeedError>;

    /// A request was answered.
    fn completed(&mut self, tag: u32, now_ns: u64);
}
