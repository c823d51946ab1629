//! What drives a simulation: requests in time order, with feedback on completions.

use destage_engine::request::{Direction, PageRange};
use destage_engine::units::Instant;

/// One request as a source issues it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceRequest {
    /// When it was due: the scheduled arrival in an open loop (earlier than the moment it is
    /// issued, when a bound on outstanding requests held it back), the moment of issue in closed
    /// and semi-open loops. From here to the issue it waits at the host.
    pub arrival: Instant,
    /// Returned to [`Source::completed`]; says which stream or thread issued it.
    pub tag: u32,
    /// Read or write.
    pub direction: Direction,
    /// Pages of the volume.
    pub range: PageRange,
}

/// A load. Deterministic: the same calls give the same requests.
pub trait Source {
    /// When the next request would be issued if no completion came before; `None` when there is
    /// none, or none until a request completes. Never earlier than the last request issued.
    fn next_at(&mut self) -> Option<Instant>;

    /// Takes the request that [`Source::next_at`] announced. `now` is that time.
    ///
    /// # Errors
    /// A trace that turns out malformed on the way.
    fn take(&mut self, now: Instant) -> Result<SourceRequest, SourceError>;

    /// A request of this tag completed at `now`.
    fn completed(&mut self, tag: u32, now: Instant);

    /// Target rate of this source in requests per second, if it has one.
    fn target_iops(&self) -> Option<f64> {
        None
    }

    /// What bounds the requests outstanding, for the report: such as `8 a BSU, 18 BSUs`.
    fn bound(&self) -> String {
        String::from("none")
    }

    /// What a reader of the results should know of the load.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A load of which each request passes through a function on its way.
pub struct Mapped<F> {
    source: Box<dyn Source + Send>,
    map: F,
}

impl<F: FnMut(SourceRequest, Instant) -> Result<SourceRequest, SourceError>> Mapped<F> {
    /// `map` gets each request and the present time.
    pub fn new(source: Box<dyn Source + Send>, map: F) -> Mapped<F> {
        Mapped { source, map }
    }
}

impl<F: FnMut(SourceRequest, Instant) -> Result<SourceRequest, SourceError>> Source for Mapped<F> {
    fn next_at(&mut self) -> Option<Instant> {
        self.source.next_at()
    }

    fn take(&mut self, now: Instant) -> Result<SourceRequest, SourceError> {
        let request = self.source.take(now)?;
        (self.map)(request, now)
    }

    fn completed(&mut self, tag: u32, now: Instant) {
        self.source.completed(tag, now);
    }

    fn target_iops(&self) -> Option<f64> {
        self.source.target_iops()
    }

    fn bound(&self) -> String {
        self.source.bound()
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes()
    }
}

/// Why a source could not continue: one line that names the file and line, if any.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);
