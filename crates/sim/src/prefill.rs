//! A trace that is replayed into an NVS as a long-running array has it: filled to the level where
//! destaging begins (docs/simulator.md, "Measurement").

use crate::config::SimConfig;
use crate::options::OptionError;
use destage_engine::request::{Direction, PageRange};
use destage_engine::units::{Duration, Instant, Page};
use destage_workload::source::{Source, SourceError, SourceRequest};
use std::collections::HashSet;

/// The trace begins this much later; what fills the NVS is written at the very beginning.
pub(crate) const PREFILL: Duration = Duration::from_secs(1);

/// Writes of the trace that are looked at, and how often they are used, at most.
const WRITES_MAX: usize = 5_000_000;
const LAPS_MAX: u64 = 64;

/// Each lap is written farther on the volume than the one before, by this many thousandths of it:
/// laps lie as far apart as they can.
const FARTHER: u64 = 618;

/// Of a request that fills.
const FILLS: u32 = u32::MAX;

/// A trace that begins after the NVS has been filled.
pub(crate) struct Prefilled {
    /// Last first.
    fill: Vec<PageRange>,
    source: Box<dyn Source + Send>,
}

impl Prefilled {
    /// Fills the NVS with the writes of `first`, elsewhere on the volume; then comes `source`.
    ///
    /// # Errors
    /// The trace is malformed.
    pub(crate) fn new(
        first: Box<dyn Source + Send>,
        source: Box<dyn Source + Send>,
        config: &SimConfig,
    ) -> Result<Prefilled, OptionError> {
        let mut fill = fill(&writes(first)?, config);
        fill.reverse();
        Ok(Prefilled { fill, source })
    }
}

/// Where the writes go, as if each request were answered at once.
fn writes(mut source: Box<dyn Source + Send>) -> Result<Vec<PageRange>, OptionError> {
    let mut writes = Vec::new();
    while let Some(at) = source.next_at()
        && writes.len() < WRITES_MAX
    {
        let request = source.take(at).map_err(|why| OptionError::input(why.to_string()))?;
        source.completed(request.tag, at);
        if request.direction == Direction::Write {
            writes.push(request.range);
        }
    }
    Ok(writes)
}

/// Writes of as many pages as there are below the level where destaging begins.
fn fill(writes: &[PageRange], config: &SimConfig) -> Vec<PageRange> {
    let controller = &config.controller;
    let geometry = &controller.geometry;
    let capacity = controller.nvs_pages.0;
    let low = controller.rate.build(capacity).map_or(0, |rate| rate.thresholds().low);
    let level = (u128::from(capacity) * u128::from(low) / 10_000) as u64;
    let (groups, per_group) = (geometry.groups(), geometry.pages_per_group());
    let end = groups * per_group;
    let mut dirty: HashSet<u64> = HashSet::new();
    let mut fill = Vec::new();
    for lap in 1..=LAPS_MAX {
        let thousandths = u128::from(lap * FARTHER % 1000);
        let farther = (u128::from(groups) * thousandths / 1000) as u64 * per_group;
        for range in writes {
            let first = (range.first.0 + farther) % end;
            let pages = first..first + u64::from(range.pages);
            if pages.end > end {
                continue;
            }
            if dirty.len() as u64 + u64::from(range.pages) > level {
                return fill;
            }
            dirty.extend(pages);
            fill.push(PageRange::new(Page(first), range.pages));
        }
    }
    fill
}

impl Source for Prefilled {
    fn next_at(&mut self) -> Option<Instant> {
        match self.fill.is_empty() {
            false => Some(Instant::ZERO),
            true => self.source.next_at().map(|at| at + PREFILL),
        }
    }

    fn take(&mut self, now: Instant) -> Result<SourceRequest, SourceError> {
        if let Some(range) = self.fill.pop() {
            let (arrival, tag) = (Instant::ZERO, FILLS);
            return Ok(SourceRequest { arrival, tag, direction: Direction::Write, range });
        }
        let request = self.source.take(Instant(now.0 - PREFILL.0))?;
        Ok(SourceRequest { arrival: request.arrival + PREFILL, ..request })
    }

    fn completed(&mut self, tag: u32, now: Instant) {
        if tag != FILLS {
            self.source.completed(tag, Instant(now.0 - PREFILL.0));
        }
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
