//! A write cache organised by physical track (Haining & Long; docs/simulator.md).
//!
//! Groups are tracks and pages are sectors, so the directory, the policies and the rates are
//! those of the array's write cache. What is new here: sectors stay as clean ones after their
//! destage (a "clean" for short) until space is needed, and a write that is short of space cleans
//! track after track while it waits.
//!
//! Invariants:
//! - A sector is dirty, in flight or clean, never two of them.
//! - dirty + in flight + clean never exceeds the capacity.

pub mod controller;
pub mod replay;

use crate::conditions::Conditions;
use crate::nvs::directory::Directory;
use crate::policy::PolicyContext;
use crate::rate::{RateScheme, RateView};
use crate::request::PageRange;
use crate::sequential::{Classified, Detector, DetectorKind};
use crate::units::{GroupId, Page, PageCount};
use crate::writecache::{Picked, WriteCache};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// What a track cache is made of. Sizes are in sectors of the disk.
#[derive(Clone, Debug)]
pub struct TrackConfig {
    /// NVS size.
    pub sectors: u64,
    /// Sectors on a track, everywhere on the disk.
    pub sectors_per_track: u64,
    /// Sectors on the disk.
    pub disk_sectors: u64,
    /// Bytes of a sector.
    pub sector_bytes: u64,
    /// What to clean.
    pub policy: crate::policy::PolicyChoice,
    /// When to clean.
    pub rate: crate::rate::RateChoice,
    /// What one clean writes.
    pub clean: CleanWrites,
}

/// What one clean writes to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CleanWrites {
    /// One write from the first to the last dirty sector of the track.
    #[default]
    Span,
    /// One write a contiguous run of dirty sectors.
    Runs,
}

impl TrackConfig {
    fn check(&self) -> Result<(), String> {
        if self.sectors < self.sectors_per_track {
            return Err(alloc::format!(
                "an NVS of {} sectors is smaller than a track of {}",
                self.sectors,
                self.sectors_per_track
            ));
        }
        if self.sectors > self.disk_sectors {
            return Err(alloc::format!(
                "an NVS of {} sectors is larger than the disk's {}",
                self.sectors,
                self.disk_sectors
            ));
        }
        Ok(())
    }
}

/// Sectors of one track that are both on the disk and in NVS.
struct CleanSectors {
    mask: Vec<u64>,
    sectors: u64,
    /// When it was cleaned, counted in cleans.
    order: u64,
}

/// The part of a write on one track.
#[derive(Clone, Copy)]
struct TrackSegment {
    track: GroupId,
    first: u64,
    sectors: u64,
}

/// The cache without time: sectors, policy, rate.
pub struct TrackCache {
    cache: WriteCache,
    rate: Box<dyn RateScheme>,
    clean: BTreeMap<GroupId, CleanSectors>,
    by_age: BTreeMap<u64, GroupId>,
    clean_sectors: u64,
    cleans: u64,
}

impl TrackCache {
    /// An empty cache.
    ///
    /// # Errors
    /// One line: sizes that cannot be, or a parameter out of range.
    pub fn new(config: &TrackConfig) -> Result<TrackCache, String> {
        config.check()?;
        let rate = config.rate.build(config.sectors).map_err(|error| error.to_string())?;
        if rate.idle_above().is_some() {
            return Err("a track cache takes no notice of idle time: leave out idle=".into());
        }
        let thresholds = rate.thresholds();
        let tracks = config.disk_sectors.div_ceil(config.sectors_per_track);
        let context = PolicyContext {
            nvs_pages: config.sectors,
            groups: tracks,
            group_pages: config.sectors_per_track,
            disks: 1,
            queue_depth: 1,
            high: thresholds.high,
            low: thresholds.low,
            mirrored: false,
        };
        let policy = config.policy.build(&context).map_err(|error| error.to_string())?;
        let per_track = config.sectors_per_track;
        let directory = Directory::new(PageCount(config.sectors), per_track, tracks);
        // A stream is sequential after as many bytes as elsewhere: 16 pages.
        let threshold = 16 * crate::units::PAGE_BYTES / config.sector_bytes;
        let detector = if policy.needs_detector() || rate.needs_detector() {
            Detector::new(DetectorKind::Pages, threshold as u32, per_track)
        } else {
            Detector::Off
        };
        Ok(TrackCache {
            cache: WriteCache::new(directory, detector, policy),
            rate,
            clean: BTreeMap::new(),
            by_age: BTreeMap::new(),
            clean_sectors: 0,
            cleans: 0,
        })
    }

    fn directory(&self) -> &Directory {
        &self.cache.directory
    }

    fn free(&self) -> u64 {
        self.directory().free_pages() - self.clean_sectors
    }

    /// Sectors dirty and in flight.
    fn dirty(&self) -> u64 {
        self.directory().occupancy()
    }

    /// Whether every sector of the range is held, dirty, in flight or clean.
    fn holds_all(&self, range: PageRange) -> bool {
        let directory = self.directory();
        (range.first.0..range.end().0).all(|sector| {
            let track = directory.group_of(Page(sector));
            let bit = sector - directory.first_page(track).0;
            let clean = self.clean.get(&track);
            clean.is_some_and(|clean| clean.mask[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
                || directory.missing_span(Page(sector), 1).is_none()
        })
    }

    /// The segment of a write that begins at `sector`.
    fn segment(&self, range: PageRange, sector: u64) -> TrackSegment {
        let track = self.directory().group_of(Page(sector));
        let first = sector - self.directory().first_page(track).0;
        let rest = self.directory().pages_per_group() - first;
        TrackSegment { track, first, sectors: rest.min(range.end().0 - sector) }
    }

    /// Makes room for a segment from clean sectors alone: its track's own go first, then complete
    /// tracks, oldest cleaned first. Whether there is enough.
    fn make_room(&mut self, segment: TrackSegment) -> bool {
        if self.clean.contains_key(&segment.track) {
            self.drop_clean(segment.track);
        }
        let held = self
            .directory()
            .find(segment.track)
            .map_or(0, |slot| self.directory().held_in(slot, segment.first, segment.sectors));
        let need = segment.sectors - held;
        while self.free() < need {
            let Some((_, track)) = self.by_age.first_key_value() else { return false };
            self.drop_clean(*track);
        }
        true
    }

    fn drop_clean(&mut self, track: GroupId) {
        let clean = self.clean.remove(&track).expect("the track has clean sectors");
        self.by_age.remove(&clean.order);
        self.clean_sectors -= clean.sectors;
    }

    /// Writes a segment whose room was made; how many of its sectors were dirty before.
    fn write(
        &mut self,
        range: PageRange,
        segment: TrackSegment,
        classified: Classified,
        now: &Conditions<'_>,
    ) -> u64 {
        let sector = self.directory().first_page(segment.track).0 + segment.first;
        let random = (range.first.0 + u64::from(classified.random)).saturating_sub(sector);
        self.cache.write_part(segment.track, segment.first, segment.sectors, random, now)
    }

    /// Makes sectors of a track whose copy is on its way to the disk dirty again.
    fn recall(&mut self, track: GroupId, now: &Conditions<'_>) {
        let Some(mask) = self.cache.directory.recall(track) else { return };
        for (word, bits) in mask.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let bit = word as u64 * 64 + u64::from(bits.trailing_zeros());
                self.cache.write_part(track, bit, 1, 1, now);
                bits &= bits - 1;
            }
        }
    }

    /// Chooses a dirty track; its sectors are in flight until [`TrackCache::cleaned`].
    fn pick(&mut self, now: &Conditions<'_>, mask: &mut Vec<u64>) -> Option<Picked> {
        self.cache.pick(now, &mut |_, _| false, mask)
    }

    /// The track's copy is on the disk: its sectors are clean.
    fn cleaned(&mut self, track: GroupId, mask: &[u64]) {
        let sectors = self.cache.directory.release(track, mask);
        self.cleans += 1;
        if self.directory().find(track).is_none() {
            let clean = CleanSectors { mask: mask.to_vec(), sectors, order: self.cleans };
            self.by_age.insert(clean.order, track);
            self.clean.insert(track, clean);
            self.clean_sectors += sectors;
        }
    }

    /// Whether the rate wants a clean.
    fn wants_clean(&mut self, now: &Conditions<'_>) -> bool {
        let view = RateView {
            occupancy: self.cache.directory.occupancy(),
            capacity: self.cache.directory.capacity().0,
            queue_depth: 1,
            in_sequence: &|| false,
            now,
        };
        self.rate.allowed(&view) > 0 && self.cache.directory.has_pickable()
    }
}
