//! The kinds of runs. A new one is an entry here and a [`Runner`].

use super::array::ArrayRunner;
use super::reads::ReadsRunner;
use super::rebuild::RebuildRunner;
use super::runner::Runner;
use super::track::TrackRunner;
use serde::Deserialize;

/// Kinds of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunnerKind {
    /// Simulated arrays, with the options of `destage sim`.
    #[default]
    Array,
    /// A write cache by track over a trace, with a disk or without time.
    Track,
    /// Read caches over the reads of a trace.
    Reads,
    /// Degraded arrays with a read cache, and their rebuild.
    Rebuild,
}

impl RunnerKind {
    /// The runner of this kind.
    pub fn runner(self) -> &'static dyn Runner {
        match self {
            RunnerKind::Array => &ArrayRunner,
            RunnerKind::Track => &TrackRunner,
            RunnerKind::Reads => &ReadsRunner,
            RunnerKind::Rebuild => &RebuildRunner,
        }
    }
}
