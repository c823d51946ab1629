//! Generated loads: one file a workload, found in one table.
//!
//! A workload is written `name:param=value,...`. A mix is written
//! `mix:0.7*zipf(theta=0.99)+0.3*sequential(streams=4),iops=2000`: parts joined by `+`, each with
//! its share of the requests and, in parentheses, its parameters.

mod closed;
mod common;
mod hotcold;
mod mix;
mod open;
mod pattern;
mod random_write;
mod sequential;
pub mod spc1;
mod spc1_load;
mod uniform;
mod zipf;

pub use pattern::{Access, Pattern};
pub use spc1_load::{Loop, Spc1, Spc1Config};

use destage_engine::registry::{Choice, ChoiceError, Entry};
use thiserror::Error;

use crate::source::Source;

/// A source that can be moved to a worker thread.
pub type BoxedSource = Box<dyn Source + Send>;

/// One row of the table of workloads.
pub struct Workload {
    /// Name, summary, source and parameters.
    pub entry: &'static Entry,
    builds: Builds,
}

/// What a workload builds.
enum Builds {
    /// A source with times of its own.
    Source(Build<BoxedSource>),
    /// Where requests go: parameters common to such workloads say when, and it can be part of a
    /// mix.
    Pattern(Build<pattern::BoxedPattern>),
}

/// Builds something from a choice, the volume's pages and a seed.
type Build<T> = fn(&Choice, u64, u64) -> Result<T, WorkloadError>;

/// Every workload.
pub const WORKLOADS: &[Workload] = &[
    Workload { entry: &spc1_load::ENTRY, builds: Builds::Source(spc1_load::build) },
    random_write::WORKLOAD,
    uniform::WORKLOAD,
    zipf::WORKLOAD,
    sequential::WORKLOAD,
    hotcold::WORKLOAD,
    Workload { entry: &mix::ENTRY, builds: Builds::Source(mix::build) },
];

/// Why a workload could not be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorkloadError {
    /// The name or a parameter does not fit.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The volume, or the span of it, has too few pages for this workload.
    #[error(
        "`{workload}` needs at least {needed_pages} pages, but has {pages}: \
         use a larger volume or span"
    )]
    TooSmall {
        /// The workload.
        workload: &'static str,
        /// Pages it needs.
        needed_pages: u64,
        /// Pages there are.
        pages: u64,
    },
    /// The span reaches past the end of the volume.
    #[error(
        "a span of {span_pages} pages reaches past the volume's {volume_pages}: \
         lower `span`, or 0 for the entire volume"
    )]
    SpanBeyondVolume {
        /// Pages of the span.
        span_pages: u64,
        /// Pages of the volume.
        volume_pages: u64,
    },
    /// A parameter of the closed loop, in an open loop.
    #[error(
        "`{workload}`: {name}={value} is for a closed loop, but iops={iops} makes an open one: \
         give iops=0, or leave {name} out"
    )]
    TwoLoops {
        /// The workload.
        workload: &'static str,
        /// The parameter.
        name: &'static str,
        /// Its value as written.
        value: String,
        /// The rate of the open loop as written, which may be the default.
        iops: String,
    },
    /// The parts of a mix could not be understood.
    #[error("mix: {0}; write it like mix:0.7*zipf(theta=0.99)+0.3*sequential,iops=1000")]
    BadMix(String),
}

/// The entries of the table, in its order.
pub fn entries() -> Vec<&'static Entry> {
    WORKLOADS.iter().map(|w| w.entry).collect()
}

/// Understands `name:param=value,...`, and `mix:` with its own syntax.
///
/// # Errors
/// An unknown workload or parameter.
pub fn parse(text: &str) -> Result<Choice, ChoiceError> {
    Choice::parse("workload", &entries(), &mix::shield(text))
}

/// The parameters by which a workload's text says itself when its requests come: its rate, or the
/// threads of a closed loop and their think time. Empty if it leaves that to the defaults.
pub fn own_pace(text: &str) -> Vec<&'static str> {
    let Ok(choice) = parse(text) else { return Vec::new() };
    let mut given = choice.entry.given(&mix::shield(text));
    given.retain(|param| common::PACE_PARAMS.contains(param));
    given
}

/// Builds the chosen workload over a volume of `volume_pages` pages.
///
/// # Errors
/// A parameter out of range, or a volume too small.
pub fn build(choice: &Choice, volume_pages: u64, seed: u64) -> Result<BoxedSource, WorkloadError> {
    match find(choice).builds {
        Builds::Source(build) => build(choice, volume_pages, seed),
        Builds::Pattern(build) => {
            common::with_loop(choice, seed, build(choice, volume_pages, seed)?)
        }
    }
}

/// The row a choice came from.
fn find(choice: &Choice) -> &'static Workload {
    WORKLOADS.iter().find(|w| w.entry.name == choice.entry.name).expect("a choice from this table")
}

#[cfg(test)]
mod tests;
