//! The parameters that every simple workload takes, and the loops they choose.

use destage_engine::registry::{Choice, Param};
use destage_engine::units::Duration;

use super::closed::Closed;
use super::open::Open;
use super::pattern::BoxedPattern;
use super::{BoxedSource, WorkloadError};

/// The most a rate may be, in requests per second.
pub(super) const IOPS_MAX: f64 = 100_000_000.0;

/// Requests per second of an open loop.
pub(super) const fn iops(default: &'static str) -> Param {
    Param {
        name: "iops",
        unit: "1/s",
        default,
        range: "0..100000000",
        help: "open loop with Poisson arrivals at this rate; 0: closed loop of `threads`",
    }
}

/// Threads of the closed loop.
pub(super) const THREADS: Param = Param {
    name: "threads",
    unit: "-",
    default: "32",
    range: "1..1000000",
    help: "closed loop: requests kept outstanding (used if iops is 0)",
};

/// Think time of the closed loop.
pub(super) const THINK: Param = Param {
    name: "think",
    unit: "ms",
    default: "0",
    range: "0..1000000",
    help: "closed loop: time a thread waits between a completion and its next request",
};

/// Share of writes.
pub(super) const fn writes(default: &'static str) -> Param {
    Param {
        name: "writes",
        unit: "share",
        default,
        range: "0..1",
        help: "share of requests that write",
    }
}

/// Pages of a request.
pub(super) const fn pages(default: &'static str) -> Param {
    Param {
        name: "pages",
        unit: "4 KiB pages",
        default,
        range: "1..65536",
        help: "pages of a request",
    }
}

/// Requests before the load ends.
pub(super) const REQUESTS: Param = Param {
    name: "requests",
    unit: "-",
    default: "0",
    range: "0..",
    help: "requests before the load ends; 0: it never ends",
};

/// Part of the volume used.
pub(super) const SPAN: Param = Param {
    name: "span",
    unit: "4 KiB pages",
    default: "0",
    range: "0..volume",
    help: "use only the first pages of the volume; 0: all of it",
};

/// Names of the parameters that say when requests come, not where they go.
pub(super) const LOAD_PARAMS: &[&str] = &["iops", "threads", "think", "requests"];

/// Of these, the names of those that set the pace.
pub(super) const PACE_PARAMS: &[&str] = &["iops", "threads", "think"];

/// Pages of the volume that the choice uses: `span`, or all.
pub(super) fn span_pages(choice: &Choice, volume_pages: u64) -> Result<u64, WorkloadError> {
    match choice.number("span", 0, u64::MAX)? {
        0 => Ok(volume_pages),
        span_pages if span_pages > volume_pages => {
            Err(WorkloadError::SpanBeyondVolume { span_pages, volume_pages })
        }
        span_pages => Ok(span_pages),
    }
}

/// Where a simple workload's requests may go.
pub(super) struct RequestShape {
    /// Pages of the span.
    pub span_pages: u64,
    /// Pages of a request.
    pub request_pages: u32,
    /// Share of writes, 0 to 1.
    pub write_share: f64,
}

impl RequestShape {
    /// Reads `span`, `pages` and `writes`; the span must hold `slots_min` requests.
    pub(super) fn of(
        choice: &Choice,
        volume_pages: u64,
        slots_min: u64,
    ) -> Result<RequestShape, WorkloadError> {
        let span_pages = span_pages(choice, volume_pages)?;
        let request_pages = choice.number("pages", 1u32, 65_536)?;
        let write_share = choice.number("writes", 0.0, 1.0)?;
        let needed_pages = u64::from(request_pages) * slots_min;
        if span_pages < needed_pages {
            let workload = choice.entry.name;
            return Err(WorkloadError::TooSmall { workload, needed_pages, pages: span_pages });
        }
        Ok(RequestShape { span_pages, request_pages, write_share })
    }

    /// Requests that fit side by side in the span. Simple workloads align requests to their size.
    pub(super) fn slots(&self) -> u64 {
        self.span_pages / u64::from(self.request_pages)
    }
}

/// Puts the pattern behind the loop that the choice asks for.
pub(super) fn with_loop(
    choice: &Choice,
    seed: u64,
    pattern: BoxedPattern,
) -> Result<BoxedSource, WorkloadError> {
    let iops = choice.number("iops", 0.0, IOPS_MAX)?;
    let threads = choice.number("threads", 1u32, 1_000_000)?;
    let think_ms = choice.number("think", 0.0, 1e6)?;
    let limit = request_limit(choice)?;
    if iops > 0.0 {
        without_threads(choice)?;
        return Ok(Box::new(Open::new(pattern, iops, seed, limit)));
    }
    let think = Duration((think_ms * 1e6 + 0.5) as u64);
    Ok(Box::new(Closed::new(pattern, threads, think, limit)))
}

/// Refuses parameters of a closed loop in an open one, unless they have their defaults.
fn without_threads(choice: &Choice) -> Result<(), WorkloadError> {
    for Param { name, default, .. } in [THREADS, THINK] {
        let is_default = choice.text(name).parse::<f64>().ok() == default.parse().ok();
        if !is_default {
            return Err(WorkloadError::TwoLoops {
                workload: choice.entry.name,
                name,
                value: choice.text(name).into(),
                iops: choice.text("iops").into(),
            });
        }
    }
    Ok(())
}

/// The `requests` parameter: how many before the load ends.
pub(super) fn request_limit(choice: &Choice) -> Result<u64, WorkloadError> {
    Ok(match choice.number("requests", 0, u64::MAX)? {
        0 => u64::MAX,
        limit => limit,
    })
}
