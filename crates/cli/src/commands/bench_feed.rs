//! Generated loads and traces as what `destage bench` asks.

use super::text;
use crate::failure::Failure;
use crate::run_args::set_given;
use clap::ArgMatches;
use destage_engine::request::Direction;
use destage_engine::units::{Instant, PAGE_BYTES};
use destage_load::{Feed, FeedError, FeedRequest, Target};
use destage_sim::options::RunOptions;
use destage_workload::generator;
use destage_workload::source::Source;
use destage_workload::trace::TraceError;
use destage_workload::trace::replay::{ReplayOptions, ReplayPace, TraceSource};
use std::path::Path;

/// Devices of a trace are at least this far apart.
const APART_BYTES: u64 = 64 << 10;

/// A source whose pages have `page_bytes` bytes.
struct OfSource {
    source: Box<dyn Source + Send>,
    page_bytes: u64,
}

impl Feed for OfSource {
    fn next_at(&mut self) -> Option<u64> {
        self.source.next_at().map(|at| at.0)
    }

    fn take(&mut self, now_ns: u64) -> Result<FeedRequest, FeedError> {
        let request = self.source.take(Instant(now_ns))?;
        Ok(FeedRequest {
            due_ns: request.arrival.0,
            tag: request.tag,
            write: request.direction == Direction::Write,
            offset: request.range.first.0 * self.page_bytes,
            length: u64::from(request.range.pages) * self.page_bytes,
        })
    }

    fn completed(&mut self, tag: u32, now_ns: u64) {
        self.source.completed(tag, Instant(now_ns));
    }
}

/// The feed that was asked for, if any, on this server.
pub fn feed(matches: &ArgMatches, target: &Target) -> Result<Option<Box<dyn Feed>>, Failure> {
    if let Some(spec) = text(matches, "workload") {
        return workload(matches, spec, target).map(Some);
    }
    let Some(path) = text(matches, "trace") else { return Ok(None) };
    trace(matches, Path::new(path), target).map(Some)
}

fn workload(matches: &ArgMatches, spec: &str, target: &Target) -> Result<Box<dyn Feed>, Failure> {
    if target.minimum() > PAGE_BYTES {
        let minimum = target.minimum();
        return Err(Failure::usage(format!(
            "--workload has pages of {PAGE_BYTES} bytes; this server takes multiples of {minimum}"
        )));
    }
    let seed = *matches.get_one::<u64>("seed").expect("default");
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("--workload: {error}"));
    let choice = generator::parse(spec).map_err(|error| wrong(&error))?;
    let source = generator::build(&choice, target.size() / PAGE_BYTES, seed);
    let source = source.map_err(|error| wrong(&error))?;
    Ok(Box::new(OfSource { source, page_bytes: PAGE_BYTES }))
}

/// Requests cover the sectors that they touch (or the server's blocks, if those are larger).
fn trace(matches: &ArgMatches, path: &Path, target: &Target) -> Result<Box<dyn Feed>, Failure> {
    let mut options = RunOptions::default();
    set_given(matches, &mut options)?;
    let speed = matches.get_one::<f64>("speed").copied().unwrap_or(1.0);
    if !(speed > 0.0 && speed <= 1e9) {
        return Err(Failure::usage("--speed is above 0"));
    }
    let paced = matches.get_flag("closed") || matches.contains_id("iops");
    let page_bytes = target.minimum().max(512);
    let replay = ReplayOptions {
        pace: if paced {
            ReplayPace::Closed { outstanding: u32::MAX }
        } else {
            ReplayPace::Open { speed }
        },
        page_bytes,
        chunk_pages: APART_BYTES.div_ceil(page_bytes),
        ..options.replay_options()?
    };
    let read = options.read_options()?;
    let pages = target.size() / page_bytes;
    let spinner = crate::progress::spinner("reading the trace");
    let source = TraceSource::open(path, &read, &replay, pages);
    spinner.finish_and_clear();
    let source = source.map_err(|error| match error {
        TraceError::BeyondVolume { file, place, end_page, .. } => Failure::failed(format!(
            "{file}: {place}: the request ends at byte {}, past the {} bytes that may be used; \
             --wrap on folds it back, --trace-device takes one device",
            u128::from(end_page) * u128::from(page_bytes),
            target.size()
        )),
        TraceError::NoTimes { file, .. } | TraceError::OneTime { file, .. } => Failure::usage(
            format!("{file}: the trace has no times to replay it by; give --closed or --iops"),
        ),
        error => Failure::failed(error),
    })?;
    Ok(Box::new(OfSource { source: Box::new(source), page_bytes }))
}
