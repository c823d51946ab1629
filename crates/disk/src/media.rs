//! The media cache and the bands: where on the medium a write goes, and where a read finds it.
//!
//! The media cache is a log behind the sectors that the drive offers. Its map says which sectors
//! are in it; whatever is not is in its place. Emptying it is a list of passes of the heads, and
//! the drive looks at its queue between two of them. On a shingled drive the oldest stretch of the
//! log decides which band comes next: the band is read, with what the log has of it, written to a
//! spare band, since a power failure may come, and then in place.

use std::collections::{BTreeMap, VecDeque};

use destage_engine::units::{Duration, Instant};

use crate::extent::Extent;
use crate::head::Head;
use crate::model::DiskModel;
use crate::seek::ns;
use crate::spec::{DiskSpec, MediaCache, Shingled};

/// What a media cache has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediaCounts {
    /// Sectors written to the medium for the host, to the media cache or in place.
    pub host_sectors: u64,
    /// Sectors of them that went to the media cache.
    pub cached_sectors: u64,
    /// Entries of the media cache.
    pub entries: u64,
    /// Bands rewritten.
    pub bands_cleaned: u64,
    /// Sectors moved out of the media cache.
    pub moved_sectors: u64,
    /// Sectors written to move them: entire bands, and twice each, on a shingled drive.
    pub rewritten_sectors: u64,
    /// Time that moving them took.
    pub moving: Duration,
    /// Of which writes waited for it.
    pub waited: Duration,
    /// Stretches in the map now.
    pub held: u64,
}

impl MediaCounts {
    /// Sectors written to the medium per sector that the host wrote.
    pub fn write_amplification(&self) -> f64 {
        let written = self.host_sectors + self.rewritten_sectors;
        written as f64 / self.host_sectors.max(1) as f64
    }
}

/// A stretch of the map: one past its last sector, and its place in the log.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    end: u64,
    at: u64,
}

/// What is being moved.
#[derive(Clone, Debug, Default)]
struct Moving {
    /// What the heads are still to pass over, and whether they write.
    passes: VecDeque<(Extent, bool)>,
    /// What is then in its place: sectors, and where in the log they were.
    moved: Vec<(Extent, u64)>,
    /// It ends with a band rewritten.
    band: bool,
}

/// The media cache of one drive, and what it knows of its bands.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    spec: MediaCache,
    shingled: Option<Shingled>,
    /// First sector of the log, and how many it has.
    first: u64,
    log_sectors: u64,
    map: BTreeMap<u64, Stretch>,
    /// First sectors of the stretches by their places in the log.
    order: BTreeMap<u64, u64>,
    /// Sectors that the log was given so far.
    head: u64,
    /// End and length of the last sequential stream.
    stream: (u64, u64),
    /// How far a stream has overwritten a band. The rest of the band is to be rewritten.
    open: Option<u64>,
    moving: Option<Moving>,
    /// When the last command or background write was done.
    idle_since: Instant,
    counts: MediaCounts,
}

impl Media {
    /// None if the spec has no media cache.
    pub(crate) fn new(spec: &DiskSpec, model: &DiskModel) -> Option<Media> {
        let cache = spec.media_cache?;
        let longest = model.zones.iter().map(|zone| zone.track.value).max().unwrap_or(0);
        let spare = spec.shingled.map_or(0, |shingled| u64::from(shingled.band_tracks) * longest);
        Some(Media {
            spec: cache,
            shingled: spec.shingled,
            first: model.sectors,
            log_sectors: cache.sectors - spare,
            map: BTreeMap::new(),
            order: BTreeMap::new(),
            head: 0,
            stream: (u64::MAX, 0),
            open: None,
            moving: None,
            idle_since: Instant::ZERO,
            counts: MediaCounts::default(),
        })
    }

    pub(crate) fn counts(&self) -> MediaCounts {
        MediaCounts { held: self.map.len() as u64, ..self.counts }
    }

    pub(crate) fn is_shingled(&self) -> bool {
        self.shingled.is_some()
    }

    /// Most sectors of the next entry: what the log can take without a gap, or all of an entry if
    /// room must be made for it.
    pub(crate) fn entry_room(&self) -> u64 {
        let oldest = self.order.first_key_value().map_or(self.head, |(&oldest, _)| oldest);
        let free = self.log_sectors - (self.head - oldest);
        let most = u64::from(self.spec.entry_sectors);
        match free.min(self.log_sectors - self.head % self.log_sectors) {
            0 => most,
            room => most.min(room),
        }
    }

    /// A command or background write was done.
    pub(crate) fn active(&mut self, now: Instant) {
        self.idle_since = self.idle_since.max(now);
    }

    /// When an idle drive begins to move something; none if it never does, or has nothing to move.
    pub(crate) fn idle_from(&self) -> Option<Instant> {
        let idle_ns = ns(self.spec.idle_ms);
        let some = !self.map.is_empty() || self.open.is_some() || self.moving.is_some();
        (some && idle_ns > 0).then(|| self.idle_since + Duration(u64::from(idle_ns)))
    }

    /// Stretches that the map can take.
    pub(crate) fn map_room(&self) -> i64 {
        i64::from(self.spec.map_entries) - self.map.len() as i64
    }

    /// Stretches of the map that overlap an extent, in order: first sector, end, place in the log.
    fn overlapping(&self, extent: Extent) -> impl Iterator<Item = (Extent, u64)> + '_ {
        let before = self.map.range(..extent.first).next_back();
        let inside = self.map.range(extent.first..extent.end);
        let all = before.into_iter().chain(inside);
        let stretch =
            |(&first, found): (&u64, &Stretch)| (Extent { first, end: found.end }, found.at);
        all.map(stretch).filter(move |(found, _)| found.overlaps(extent))
    }

    /// Stretches that the map has more once it takes an extent.
    pub(crate) fn growth(&self, extent: Extent) -> i64 {
        let cut = |(found, _): (Extent, u64)| {
            i64::from(found.first < extent.first) + i64::from(found.end > extent.end) - 1
        };
        1 + self.overlapping(extent).map(cut).sum::<i64>()
    }

    /// Where the log takes an entry of this many sectors; none if there is no room for it.
    fn log_place(&self, sectors: u64) -> Option<u64> {
        let left = self.log_sectors - self.head % self.log_sectors;
        let at = if sectors > left { self.head + left } else { self.head };
        let oldest = self.order.first_key_value().map_or(at, |(&oldest, _)| oldest);
        (at + sectors - oldest <= self.log_sectors).then_some(at)
    }

    /// Sector of a place in the log.
    fn sector(&self, at: u64) -> u64 {
        self.first + at % self.log_sectors
    }

    fn has_room(&self, extents: &[Extent]) -> bool {
        let growth: i64 = extents.iter().map(|&extent| self.growth(extent)).sum();
        let sectors = extents.iter().map(|extent| extent.sectors()).sum();
        growth <= self.map_room() && self.log_place(sectors).is_some()
    }

    /// Whether a write goes to its place, past the media cache, if this many stretches wait.
    pub(crate) fn goes_direct(&self, extent: Extent, waiting: usize) -> bool {
        if extent.sectors() > self.log_sectors {
            return true;
        }
        match self.shingled {
            Some(shingled) => {
                let (end, sectors) = self.stream;
                extent.first == end && sectors >= u64::from(shingled.stream_sectors)
            }
            None => waiting < self.spec.min_extents as usize || !self.has_room(&[extent]),
        }
    }

    /// The sector to which the heads move for a command.
    pub(crate) fn target(&self, extent: Extent, write: bool) -> u64 {
        if !write {
            return self.pieces(extent)[0].first;
        }
        match self.log_place(extent.sectors()) {
            Some(at) if !self.goes_direct(extent, 1) => self.sector(at),
            _ => extent.first,
        }
    }

    /// Where the sectors of a read are, in their order.
    pub(crate) fn pieces(&self, wanted: Extent) -> Vec<Extent> {
        let mut pieces = Vec::with_capacity(1);
        let mut from = wanted.first;
        for (found, at) in self.overlapping(wanted) {
            let part = found.common(wanted);
            if part.first > from {
                pieces.push(Extent { first: from, end: part.first });
            }
            let first = self.sector(at + (part.first - found.first));
            push_joined(&mut pieces, Extent { first, end: first + part.sectors() });
            from = part.end;
        }
        if from < wanted.end {
            pieces.push(Extent { first: from, end: wanted.end });
        }
        pieces
    }

    /// Decides where a write of the host goes and makes room for it. Returns when its transfer can
    /// begin and where, with `waiting` stretches of the write-back cache behind it.
    pub(crate) fn place(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        begin: Instant,
        extents: &[Extent],
        waiting: usize,
    ) -> (Instant, Extent) {
        let sectors = extents.iter().map(|extent| extent.sectors()).sum();
        self.counts.host_sectors += sectors;
        let placed = if extents.len() == 1 && self.goes_direct(extents[0], waiting) {
            (self.overwrite(model, head, begin, extents[0]), extents[0])
        } else {
            self.append(model, head, begin, extents, sectors)
        };
        for extent in extents {
            let (end, before) = self.stream;
            let before = if extent.first == end { before } else { 0 };
            self.stream = (extent.end, before + extent.sectors());
        }
        placed
    }

    /// The sectors of a write will be in their place.
    fn overwrite(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        begin: Instant,
        extent: Extent,
    ) -> Instant {
        // A write into the middle of a stretch leaves two of it in the map.
        let fits = |media: &Media| media.growth(extent) - 1 <= media.map_room();
        let begin = self.make_room(model, head, begin, fits);
        let stale = |moving: &Moving| moving.passes.iter().any(|(e, w)| *w && e.overlaps(extent));
        if self.moving.as_ref().is_some_and(stale) {
            self.moving = None;
        }
        self.punch(extent);
        if self.shingled.is_none() {
            return begin;
        }
        let open = self.open.take().filter(|&open| open != extent.first);
        let rest = open.map(|open| Extent { first: open, end: self.band(model, open).end });
        let passes = rest.map(|rest| [(rest, false), (rest, true)]);
        let mut at = begin;
        for (extent, write) in passes.into_iter().flatten() {
            at = self.pass(model, head, at, extent, write);
        }
        self.counts.waited += at.since(begin);
        let band = self.band(model, extent.end - 1);
        self.open = (extent.end < band.end).then_some(extent.end);
        at
    }

    /// The sectors of writes will be one entry of the log, as soon as there is room for it.
    fn append(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        begin: Instant,
        extents: &[Extent],
        sectors: u64,
    ) -> (Instant, Extent) {
        let begin = self.make_room(model, head, begin, |media| media.has_room(extents));
        let start = self.log_place(sectors).expect("room was made");
        let mut at = start;
        for extent in extents {
            self.punch(*extent);
            self.put(*extent, at);
            at += extent.sectors();
        }
        self.head = at;
        self.counts.entries += 1;
        self.counts.cached_sectors += sectors;
        let first = self.sector(start);
        let overhead = Duration(u64::from(ns(self.spec.entry_ms)));
        (begin + overhead, Extent { first, end: first + sectors })
    }

    /// Moves until there is room: when that is so.
    fn make_room(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        begin: Instant,
        fits: impl Fn(&Media) -> bool,
    ) -> Instant {
        let mut at = begin;
        while !fits(self) {
            at = self.step(model, head, at).expect("a full media cache has something to move");
        }
        self.counts.waited += at.since(begin);
        at
    }

    fn put(&mut self, extent: Extent, at: u64) {
        self.map.insert(extent.first, Stretch { end: extent.end, at });
        self.order.insert(at, extent.first);
    }

    /// Takes sectors out of the map.
    fn punch(&mut self, extent: Extent) {
        let found: Vec<(Extent, u64)> = self.overlapping(extent).collect();
        for (stretch, at) in found {
            self.map.remove(&stretch.first);
            self.order.remove(&at);
            if stretch.first < extent.first {
                self.put(Extent { end: extent.first, ..stretch }, at);
            }
            if stretch.end > extent.end {
                let cut = extent.end - stretch.first;
                self.put(Extent { first: extent.end, ..stretch }, at + cut);
            }
        }
    }

    /// The band of a sector.
    fn band(&self, model: &DiskModel, lbn: u64) -> Extent {
        let zone = &model.zones[model.zone_of(lbn)];
        let tracks = self.shingled.map_or(1, |shingled| u64::from(shingled.band_tracks));
        let sectors = tracks * zone.track.value;
        let first = lbn - (lbn - zone.first_lbn) % sectors;
        Extent { first, end: (first + sectors).min(zone.end_lbn).min(model.sectors) }
    }

    /// One pass of the heads for moving: when it is done. None if there is nothing to move.
    pub(crate) fn step(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        begin: Instant,
    ) -> Option<Instant> {
        let mut moving = match self.moving.take() {
            Some(moving) => moving,
            None => self.next_to_move(model)?,
        };
        let mut end = begin;
        if let Some((extent, write)) = moving.passes.pop_front() {
            end = self.pass(model, head, begin, extent, write);
        }
        if moving.passes.is_empty() {
            self.finish(&moving);
        } else {
            self.moving = Some(moving);
        }
        Some(end)
    }

    fn pass(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        begin: Instant,
        extent: Extent,
        write: bool,
    ) -> Instant {
        let end = model.pass(head, begin, extent, write);
        self.counts.moving += end.since(begin);
        self.counts.rewritten_sectors += if write { extent.sectors() } else { 0 };
        end
    }

    /// What was moved is in its place, unless it was written again in the meantime.
    fn finish(&mut self, moving: &Moving) {
        self.counts.bands_cleaned += u64::from(moving.band);
        for &(extent, at) in &moving.moved {
            let same = |(found, there): &(Extent, u64)| {
                let part = found.common(extent);
                there + (part.first - found.first) == at + (part.first - extent.first)
            };
            let parts: Vec<(Extent, u64)> = self.overlapping(extent).filter(same).collect();
            for (found, _) in parts {
                let part = found.common(extent);
                self.counts.moved_sectors += part.sectors();
                self.punch(part);
            }
        }
    }

    fn next_to_move(&mut self, model: &DiskModel) -> Option<Moving> {
        let oldest = self.order.first_key_value().map(|(_, &first)| first);
        match (self.shingled, oldest) {
            (None, _) => oldest.map(|_| self.entry_to_move()),
            (Some(_), Some(first)) => Some(self.band_to_move(self.band(model, first))),
            (Some(_), None) => {
                let open = self.open.take()?;
                let rest = Extent { first: open, end: self.band(model, open).end };
                let passes = VecDeque::from([(rest, false), (rest, true)]);
                Some(Moving { passes, band: true, ..Moving::default() })
            }
        }
    }

    /// A band is read, with what the log has of it, written to the spare band, then in place.
    fn band_to_move(&mut self, band: Extent) -> Moving {
        if self.open.is_some_and(|open| band.first < open && open < band.end) {
            self.open = None;
        }
        let moved = self.moved_of(band);
        let spare = self.first + self.log_sectors;
        let mut passes = VecDeque::from([(band, false)]);
        passes.extend(self.log_reads(&moved));
        passes.push_back((Extent { first: spare, end: spare + band.sectors() }, true));
        passes.push_back((band, true));
        Moving { passes, moved, band: true }
    }

    /// The oldest stretches of the log, an entry of them, are read and written in place in the
    /// order of their addresses.
    fn entry_to_move(&self) -> Moving {
        let mut left = u64::from(self.spec.entry_sectors);
        let mut moved = Vec::new();
        for (&at, &first) in &self.order {
            let extent = Extent { first, end: self.map[&first].end };
            if !moved.is_empty() && extent.sectors() > left {
                break;
            }
            left = left.saturating_sub(extent.sectors());
            moved.push((extent, at));
        }
        let mut passes: VecDeque<_> = self.log_reads(&moved).collect();
        moved.sort_unstable_by_key(|(extent, _)| extent.first);
        let mut writes = Vec::new();
        moved.iter().for_each(|&(extent, _)| push_joined(&mut writes, extent));
        passes.extend(writes.into_iter().map(|extent| (extent, true)));
        Moving { passes, moved, band: false }
    }

    /// The parts of the stretches that are in a band.
    fn moved_of(&self, band: Extent) -> Vec<(Extent, u64)> {
        let part = |(found, at): (Extent, u64)| {
            let part = found.common(band);
            (part, at + (part.first - found.first))
        };
        self.overlapping(band).map(part).collect()
    }

    /// Passes that read these from the log, in its order.
    fn log_reads(&self, moved: &[(Extent, u64)]) -> impl Iterator<Item = (Extent, bool)> + use<> {
        let mut places: Vec<Extent> = Vec::with_capacity(moved.len());
        let mut sorted: Vec<(u64, u64)> = moved.iter().map(|(e, at)| (*at, e.sectors())).collect();
        sorted.sort_unstable();
        for (at, sectors) in sorted {
            let first = self.sector(at);
            push_joined(&mut places, Extent { first, end: first + sectors });
        }
        places.into_iter().map(|extent| (extent, false))
    }
}

/// Adds a stretch; one that follows the last is joined with it.
fn push_joined(list: &mut Vec<Extent>, extent: Extent) {
    match list.last_mut() {
        Some(last) if last.end == extent.first => last.end = extent.end,
        _ => list.push(extent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const SPEC: &str = "name = 'm'\nsummary = ''\nsource = ''\nheads = 2\nrpm = 6000.0\n\
        head_switch_ms = 0.5\nwindow = 4\nscheduler = 'fcfs'\nsectors = 4000\n\
        [media_cache]\nsectors = 300\nmap_entries = 12\nentry_sectors = 24\nidle_ms = 1.0\n\
        [seek.fit]\none_cylinder_ms = 0.9\nthird_ms = 2.0\nfull_ms = 4.0\n\
        [zones.linear]\ncount = 3\nouter_sectors = 24\ninner_sectors = 16\n";
    const BANDS: &str = "[shingled]\nband_tracks = 2\nstream_sectors = 40\n";

    /// Every sector is where it was written last, or in its place once it was moved.
    #[test]
    fn sectors_are_found_where_they_were_written_last() {
        for seed in 0_u64..8 {
            let text = format!("{SPEC}{}", if seed % 2 == 0 { "" } else { BANDS });
            let spec = DiskSpec::from_toml(&text).expect("a drive");
            let model = DiskModel::new(&spec);
            let mut media = Media::new(&spec, &model).expect("a media cache");
            let mut head = Head { place: model.zones[0].place(0), next_lbn: 0, write: false };
            let mut places: HashMap<u64, u64> = HashMap::new();
            let mut state = seed + 1;
            let mut below = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % bound
            };
            let (mut now, mut next, mut moved) = (Instant::ZERO, 0, 0);
            for _ in 0..700 {
                let sectors = 1 + below(20);
                let follows = below(3) > 0 && next + sectors <= model.sectors;
                let first = if follows { next } else { below(model.sectors - sectors) };
                let extent = Extent { first, end: first + sectors };
                let (begin, target) = media.place(&model, &mut head, now, &[extent], 1);
                now = model.pass(&mut head, begin, target, true);
                next = extent.end;
                places.extend((extent.first..extent.end).zip(target.first..target.end));
                if below(8) == 0 {
                    now = media.step(&model, &mut head, now).unwrap_or(now);
                }
                moved += look(&media, &mut places);
            }
            while let Some(end) = media.step(&model, &mut head, now) {
                now = end;
            }
            moved += look(&media, &mut places);
            assert!(places.iter().all(|(lbn, place)| lbn == place) && media.open.is_none());
            let counts = media.counts();
            assert!(moved > 0 && moved <= counts.moved_sectors, "{moved}: {counts:?}");
            assert!(counts.entries > 0 && counts.held == 0);
        }
    }

    /// Sectors that are in their place now and were not before.
    fn look(media: &Media, places: &mut HashMap<u64, u64>) -> u64 {
        let mut moved = 0;
        assert!(media.map_room() >= 0 && media.map.len() == media.order.len());
        for (&lbn, place) in places {
            let found = media.pieces(Extent { first: lbn, end: lbn + 1 })[0].first;
            assert!(found == *place || found == lbn, "{lbn} at {found}, written to {place}");
            moved += u64::from(found != *place);
            *place = found;
        }
        moved
    }
}
