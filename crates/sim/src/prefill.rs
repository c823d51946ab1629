//! A trace that is replayed into an NVS as a long-running array has it: filled to the level where
//! destaging begins (docs/simulator.md, "Measurement").
//!
//! The NVS is filled with laps of the trace's own writes, each lap elsewhere on the volume. A page
//! that the trace writes is never filled: the write would be a hit that the trace does not have. As
//! long as there are write groups that the trace does not touch, each group of a lap moves to one
//! of those. Then pages move to pages that the trace does not write.

mod spans;

use crate::config::SimConfig;
use crate::options::OptionError;
use destage_engine::request::{Direction, PageRange};
use destage_engine::units::{Duration, Instant, Page};
use destage_workload::source::{Source, SourceError, SourceRequest};
use spans::{Spans, Taken};
use std::collections::{HashMap, HashSet};

/// The trace begins this much later; what fills the NVS is written at the very beginning.
pub(crate) const PREFILL: Duration = Duration::from_secs(1);

/// Writes of the trace that are repeated, at most. A fill with more writes than this writes each
/// page only once.
const WRITES_MAX: usize = 5_000_000;

/// Each lap is written farther on the volume than the one before, by this many thousandths of it:
/// laps are as far apart as they can be.
const FARTHER: u64 = 618;

/// Of a request that fills.
const FILLS: u32 = u32::MAX;

/// A trace that begins after the NVS has been filled.
pub(crate) struct Prefilled {
    /// Last first.
    fill: Vec<PageRange>,
    source: Box<dyn Source + Send>,
    /// That the volume has no room to fill the NVS.
    note: Option<String>,
}

impl Prefilled {
    /// Fills the NVS with the writes of `first`, elsewhere on the volume; then comes `source`.
    /// `first` must have an end.
    ///
    /// # Errors
    /// The trace is malformed, or has no writes.
    pub(crate) fn new(
        first: Box<dyn Source + Send>,
        source: Box<dyn Source + Send>,
        config: &SimConfig,
        trace: &str,
    ) -> Result<Prefilled, OptionError> {
        let uses = Uses::of(first, config.controller.geometry.pages_per_group())?;
        if uses.writes.is_empty() {
            let place = if trace.is_empty() { String::new() } else { format!("{trace}: ") };
            return Err(OptionError::input(format!(
                "{place}--prefill on fills the NVS with the trace's own writes, but no write is \
                 replayed: leave it out"
            )));
        }
        let Fill { mut writes, dirty, level } = fill(uses, config);
        writes.reverse();
        let dirty = dirty.len() as u64;
        let note = (dirty < level).then(|| {
            format!(
                "not filled: --prefill on fills {dirty} pages of the NVS, fewer than the {level} \
                 where destaging begins, because the trace writes all other pages of the volume. \
                 Use a smaller NVS or a larger volume"
            )
        });
        Ok(Prefilled { fill: writes, source, note })
    }
}

/// What a trace uses of the volume.
#[derive(Debug, Default)]
struct Uses {
    /// Its first writes, in their order.
    writes: Vec<PageRange>,
    /// Pages that it writes.
    written: Spans,
    /// Write groups that it reads or writes.
    groups: Spans,
}

impl Uses {
    /// Reads the trace, as if each request were answered at once.
    fn of(mut source: Box<dyn Source + Send>, per_group: u64) -> Result<Uses, OptionError> {
        let mut uses = Uses::default();
        while let Some(at) = source.next_at() {
            let request = source.take(at).map_err(|why| OptionError::input(why.to_string()))?;
            source.completed(request.tag, at);
            uses.add(request.direction, request.range, per_group);
        }
        Ok(uses)
    }

    fn add(&mut self, direction: Direction, range: PageRange, per_group: u64) {
        let (first, end) = (range.first.0, range.end().0);
        self.groups.add(first / per_group, (end - 1) / per_group + 1);
        if direction == Direction::Read {
            return;
        }
        self.written.add(first, end);
        if self.writes.len() < WRITES_MAX {
            self.writes.push(range);
        }
    }
}

/// Where laps of writes can go.
struct Room {
    /// Write groups of the volume.
    groups: u64,
    /// Places of a group: 1, or each of its pages.
    group_places: u64,
    /// Pages of a place.
    place_pages: u64,
    taken: Taken,
}

impl Room {
    fn places(&self) -> u64 {
        self.groups * self.group_places
    }

    /// How many places farther a lap begins: complete groups, so that stripes stay stripes.
    fn farther(&self, lap: u64) -> u64 {
        let thousandths = u128::from(lap) * u128::from(FARTHER) % 1000;
        (u128::from(self.groups) * thousandths / 1000) as u64 * self.group_places
    }
}

/// The writes that fill an NVS.
struct Fill {
    writes: Vec<PageRange>,
    /// Pages that they make dirty.
    dirty: HashSet<u64>,
    /// How many there should be.
    level: u64,
}

/// Writes of as many pages as there are below the level where destaging begins, or fewer if the
/// volume has no more.
fn fill(uses: Uses, config: &SimConfig) -> Fill {
    let controller = &config.controller;
    let geometry = &controller.geometry;
    let capacity = controller.nvs_pages.0;
    let low = controller.rate.build(capacity).map_or(0, |rate| rate.thresholds().low);
    let level = (u128::from(capacity) * u128::from(low) / 10_000) as u64;
    let (groups, per_group) = (geometry.groups(), geometry.pages_per_group());
    let mut fill = Fill { writes: Vec::new(), dirty: HashSet::new(), level };
    let Uses { mut writes, mut written, groups: touched } = uses;
    if writes.is_empty() {
        return fill;
    }
    let mut lap = 0;
    let taken = touched.taken();
    let room = Room { groups, group_places: 1, place_pages: per_group, taken };
    fill.laps(&mut writes, room, &mut lap);
    if !fill.is_full() {
        for range in &fill.writes {
            written.add(range.first.0, range.end().0);
        }
        let taken = written.taken();
        let room = Room { groups, group_places: per_group, place_pages: 1, taken };
        fill.laps(&mut writes, room, &mut lap);
    }
    fill
}

impl Fill {
    fn is_full(&self) -> bool {
        self.dirty.len() as u64 >= self.level
    }

    /// Laps until the level is reached or no room is left. Each lap fills new pages.
    fn laps(&mut self, writes: &mut Vec<PageRange>, mut room: Room, lap: &mut u64) {
        while !self.is_full() {
            *lap += 1;
            if self.writes.len() + writes.len() > WRITES_MAX {
                *writes = each_page_once(writes, self.level);
            }
            if !self.lap(writes, &mut room, *lap) {
                return;
            }
        }
    }

    /// Writes each place of the trace to a free one, the same for all of this lap. Whether there
    /// was room.
    fn lap(&mut self, writes: &[PageRange], room: &mut Room, lap: u64) -> bool {
        let (farther, places) = (room.farther(lap), room.places());
        let mut moved: HashMap<u64, u64> = HashMap::new();
        for range in writes {
            let (first, end) = (range.first.0, range.end().0);
            for page in first..end {
                if self.is_full() {
                    return true;
                }
                let (place, offset) = (page / room.place_pages, page % room.place_pages);
                let to = match moved.get(&place) {
                    Some(to) => *to,
                    None => {
                        let from = (place + farther) % places;
                        let Some(to) = room.taken.take_next(from, places) else {
                            return false;
                        };
                        moved.insert(place, to);
                        to
                    }
                };
                self.write(to * room.place_pages + offset, page > first);
            }
        }
        true
    }

    /// A page, in the same request as the page before it if it may continue that.
    fn write(&mut self, page: u64, continues: bool) {
        self.dirty.insert(page);
        match self.writes.last_mut() {
            Some(last) if continues && last.end().0 == page => last.pages += 1,
            _ => self.writes.push(PageRange::new(Page(page), 1)),
        }
    }
}

/// The first write of each page, of as many pages as are needed.
fn each_page_once(writes: &[PageRange], pages_max: u64) -> Vec<PageRange> {
    let mut once = Fill { writes: Vec::new(), dirty: HashSet::new(), level: pages_max };
    for range in writes {
        let mut continues = false;
        for page in range.first.0..range.end().0 {
            if once.is_full() {
                return once.writes;
            }
            let is_new = !once.dirty.contains(&page);
            if is_new {
                once.write(page, continues);
            }
            continues = is_new;
        }
    }
    once.writes
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
        let mut notes = self.source.notes();
        notes.extend(self.note.clone());
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::RunOptions;

    fn config(nvs: u64) -> SimConfig {
        let mut options = RunOptions::default();
        for (name, value) in [("nvs", nvs.to_string()), ("disk-fraction", "16M".into())] {
            options.set(name, &value).expect("an option");
        }
        options.build().expect("a configuration")
    }

    /// What writes of these pages use, each first page with its number of pages.
    fn uses(writes: &[(u64, u32)], config: &SimConfig) -> Uses {
        let mut uses = Uses::default();
        for (first, pages) in writes {
            let range = PageRange::new(Page(*first), *pages);
            uses.add(Direction::Write, range, config.controller.geometry.pages_per_group());
        }
        uses
    }

    fn volume_pages(config: &SimConfig) -> u64 {
        let geometry = &config.controller.geometry;
        geometry.groups() * geometry.pages_per_group()
    }

    fn check(writes: &[(u64, u32)], config: &SimConfig) -> Fill {
        let filled = fill(uses(writes, config), config);
        let written: HashSet<u64> =
            writes.iter().flat_map(|(first, pages)| *first..first + u64::from(*pages)).collect();
        let end = volume_pages(config);
        assert!(filled.dirty.iter().all(|page| *page < end && !written.contains(page)));
        let of = |range: &PageRange| range.first.0..range.end().0;
        let pages: HashSet<u64> = filled.writes.iter().flat_map(of).collect();
        assert_eq!(pages, filled.dirty);
        filled
    }

    #[test]
    fn no_page_of_the_trace_is_filled_and_the_level_is_reached() {
        let end = volume_pages(&config(1024));
        // Into every write group, and into a few.
        for step in [7, 8, 64] {
            let pages: Vec<(u64, u32)> = (0..end / 16).map(|at| (at * step % end, 1)).collect();
            for nvs in [64, 1000, end / 2, end] {
                let filled = check(&pages, &config(nvs));
                assert_eq!(filled.dirty.len() as u64, nvs * 8 / 10, "step {step}, NVS {nvs}");
                assert_eq!(filled.level, nvs * 8 / 10);
            }
        }
    }

    #[test]
    fn a_trace_of_one_page_fills_any_nvs_and_a_full_volume_none() {
        let config = config(4096);
        assert_eq!(check(&[(5, 1); 10], &config).dirty.len(), 3276);
        let end = volume_pages(&config);
        let all_but_one_hundred = [(0, 1000), (1100, (end - 1100) as u32)];
        let filled = check(&all_but_one_hundred, &config);
        assert_eq!((filled.dirty.len(), filled.level), (100, 3276));
        assert_eq!(check(&[(0, end as u32)], &config).dirty.len(), 0);
    }

    #[test]
    fn a_lap_keeps_runs_and_rewrites_and_the_first_request_may_be_larger_than_the_nvs() {
        let long = config(4096);
        let per_group = long.controller.geometry.pages_per_group();
        let run = (per_group as u32 * 3, per_group);
        let filled = check(&[(4 * run.1, run.0), (4 * run.1 + 3, 2)], &long);
        let [first, second] = [filled.writes[0], filled.writes[1]];
        assert_eq!((first.pages, first.first.0 % per_group), (run.0, 0));
        assert_eq!((second.pages, second.first.0), (2, first.first.0 + 3));
        let small = config(64);
        assert_eq!(check(&[(0, run.0)], &small).dirty.len(), 51);
    }

    #[test]
    fn each_page_is_written_once_when_writes_would_be_too_many() {
        let range = |first, pages| PageRange::new(Page(first), pages);
        let writes = [range(4, 2), range(5, 1), range(3, 5), range(9, 4)];
        let once = [range(4, 2), range(3, 1), range(6, 2), range(9, 1)];
        assert_eq!(each_page_once(&writes, 6), once);
    }
}
