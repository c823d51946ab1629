//! A track cache without time: cleaning takes none, everything is an integer, and a hash over
//! the events makes runs comparable (docs/simulator.md).

use super::{TrackCache, TrackConfig};
use crate::conditions::Conditions;
use crate::mix::{EVENT_HASH_OFFSET, fnv};
use crate::request::PageRange;
use alloc::string::String;
use alloc::vec::Vec;

/// One event of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackEvent {
    /// A track was cleaned.
    Clean {
        /// The track.
        track: u64,
        /// Its dirty sectors.
        sectors: u64,
    },
    /// A write was admitted.
    Write {
        /// Whether it had to clean first.
        stalled: bool,
    },
}

/// What a replay counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackCounts {
    /// Read requests.
    pub reads: u64,
    /// Read requests of which every sector was held.
    pub read_hits: u64,
    /// Write requests.
    pub writes: u64,
    /// Sectors written.
    pub sectors_written: u64,
    /// Sectors written that were dirty before.
    pub sector_hits: u64,
    /// Writes that had to clean first.
    pub stalls: u64,
    /// Tracks cleaned.
    pub cleans: u64,
    /// Sectors of those tracks.
    pub cleaned_sectors: u64,
}

/// A replay in progress.
pub struct TrackReplay<'a> {
    cache: TrackCache,
    counts: TrackCounts,
    hash: u64,
    mask: Vec<u64>,
    on_event: &'a mut dyn FnMut(TrackEvent),
}

impl<'a> TrackReplay<'a> {
    /// Begins with an empty cache; every event goes to `on_event`.
    ///
    /// # Errors
    /// See [`TrackCache::new`].
    pub fn new(
        config: &TrackConfig,
        on_event: &'a mut dyn FnMut(TrackEvent),
    ) -> Result<TrackReplay<'a>, String> {
        let cache = TrackCache::new(config)?;
        let counts = TrackCounts::default();
        Ok(TrackReplay { cache, counts, hash: EVENT_HASH_OFFSET, mask: Vec::new(), on_event })
    }

    /// A read of sectors: it changes nothing.
    pub fn read(&mut self, range: PageRange) {
        self.counts.reads += 1;
        self.counts.read_hits += u64::from(self.cache.holds_all(range));
    }

    /// A write of sectors.
    pub fn write(&mut self, range: PageRange) {
        let classified = self.cache.cache.classify(range);
        let mut stalled = false;
        let mut sector = range.first.0;
        while sector < range.end().0 {
            let segment = self.cache.segment(range, sector);
            while !self.cache.make_room(segment) {
                stalled = true;
                self.clean();
            }
            self.counts.sector_hits +=
                self.cache.write(range, segment, classified, &Conditions::NONE);
            sector += segment.sectors;
        }
        self.cache.cache.end_request(classified);
        self.counts.writes += 1;
        self.counts.sectors_written += u64::from(range.pages);
        self.counts.stalls += u64::from(stalled);
        self.note(TrackEvent::Write { stalled });
        while self.cache.wants_clean(&Conditions::NONE) {
            self.clean();
        }
    }

    fn clean(&mut self) {
        let picked = self.cache.pick(&Conditions::NONE, &mut self.mask).expect("a dirty track");
        self.cache.cleaned(picked.group, &self.mask);
        self.counts.cleans += 1;
        self.counts.cleaned_sectors += picked.pages;
        self.note(TrackEvent::Clean { track: picked.group.0, sectors: picked.pages });
    }

    fn note(&mut self, event: TrackEvent) {
        let mut add = |word: u64| self.hash = fnv(self.hash, &word.to_le_bytes());
        match event {
            TrackEvent::Clean { track, sectors } => {
                add(track);
                add(sectors);
            }
            TrackEvent::Write { stalled } => add(u64::from(stalled)),
        }
        (self.on_event)(event);
    }

    /// What was counted.
    pub fn counts(&self) -> TrackCounts {
        self.counts
    }

    /// FNV-1a-64 over the events: a clean is its track and dirty sectors, a write 1 if it
    /// stalled, else 0; each 8 bytes, little-endian.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
