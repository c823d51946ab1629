//! Shadow caches: what other policies would have destaged for the writes that are served.
//!
//! Each is the engine's directory and policy without time or disks. It destages from the level
//! that the running array destages from at the time of each write, and by its own groups: all are
//! compared at the same fill, and only the order differs. Of a sample of the write groups only
//! their share of the pages counts.

use destage_engine::array::geometry::Geometry;
use destage_engine::conditions::Conditions;
use destage_engine::mix::mix;
use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{self, PolicyContext};
use destage_engine::registry::ChoiceError;
use destage_engine::request::PageRange;
use destage_engine::sequential::{Classified, Detector, DetectorKind};
use destage_engine::units::{PAGE_BYTES, Page, PageCount};
use destage_engine::writecache::{Admitted, Picked, ReplayEvents, WriteCache};
use destage_report::sample::WhatIfRow;
use destage_served::part_pages;
use destage_server::array::{Seen, SeenOp};

/// Policies that are shadowed.
pub const SHADOWED: [&str; 4] = ["lrw", "cscan", "wow", "stow"];

/// What caches are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// The array.
    pub geometry: Geometry,
    /// NVS, thresholds, queue depth.
    pub context: PolicyContext,
    /// The sequential detector, and its threshold.
    pub detector: (DetectorKind, u32),
}

/// Write groups that are sampled together: policies go by neighbours too.
const REGION: u64 = 64;

/// Whether a write group is in the sample of one in `one_in`.
pub fn in_sample(group: u64, one_in: u64) -> bool {
    one_in == 1 || mix(group / REGION).is_multiple_of(one_in)
}

/// What a shadow destaged.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    destages: u64,
    pages: u64,
    distance: u64,
    page_hits: u64,
    last: Option<u64>,
    per_group: u64,
}

impl ReplayEvents for Tally {
    fn destaged(&mut self, picked: Picked, mask: &[u64]) {
        self.destages += 1;
        self.pages += picked.pages;
        let bit = mask.iter().enumerate().find(|(_, word)| **word != 0);
        let bit = bit.map_or(0, |(at, word)| at as u64 * 64 + u64::from(word.trailing_zeros()));
        let first = picked.group.0 * self.per_group + bit;
        if let Some(last) = self.last.replace(first) {
            self.distance += last.abs_diff(first);
        }
    }

    fn admitted(&mut self, _admitted: Admitted) {}
}

struct Shadow {
    policy: &'static str,
    cache: WriteCache,
    tally: Tally,
}

/// The level from which the running array destages: its fill goes up to there by writes, and down
/// from there by a group.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// The last peak, in pages.
    peak: u64,
    /// What was held at the last write.
    last: u64,
    /// Most pages of a group.
    per_group: u64,
}

impl Edge {
    fn new(per_group: u64) -> Edge {
        Edge { peak: 0, last: 0, per_group }
    }

    /// A write came when this many pages were held.
    fn write(&mut self, held_pages: u64) {
        self.peak = if held_pages < self.last {
            // It fell by a destage; by more than one, and it is not to go up there again.
            self.last.min(held_pages + self.per_group)
        } else {
            self.peak.max(held_pages)
        };
        self.last = held_pages;
    }

    /// This many pages are held, and nothing is written.
    fn idle(&mut self, held_pages: u64) {
        (self.peak, self.last) = (held_pages, held_pages);
    }
}

/// The caches.
pub struct Shadows {
    shape: Shape,
    one_in: u64,
    edge: Edge,
    /// Writes came since the array's fill was last followed without one.
    written: bool,
    detector: Detector,
    caches: Vec<Shadow>,
    pages_written: u64,
    /// Trims, which are not followed.
    pub trims: u64,
}

impl Shadows {
    /// Empty caches that follow one write group in `one_in`.
    ///
    /// # Errors
    /// A policy that cannot be made for this array.
    pub fn new(shape: Shape, one_in: u64) -> Result<Shadows, ChoiceError> {
        let Shape { geometry, context, detector: (kind, threshold) } = shape;
        let per_group = geometry.pages_per_group();
        let capacity = (context.nvs_pages / one_in).max(per_group);
        let make = |name: &'static str| {
            let context = PolicyContext { nvs_pages: capacity, ..context };
            let policy = policy::choose(name)?.build(&context)?;
            let directory = Directory::new(PageCount(capacity), per_group, geometry.groups());
            // Requests are classified once for all.
            let cache = WriteCache::new(directory, Detector::Off, policy);
            Ok(Shadow { policy: name, cache, tally: Tally { per_group, ..Tally::default() } })
        };
        let caches = SHADOWED.into_iter().map(make).collect::<Result<_, ChoiceError>>()?;
        let detector = Detector::new(kind, threshold, per_group);
        let (edge, written) = (Edge::new(per_group), false);
        let (pages_written, trims) = (0, 0);
        Ok(Shadows { shape, one_in, edge, written, detector, caches, pages_written, trims })
    }

    /// What they were made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// A request was served.
    pub fn feed(&mut self, seen: &Seen) {
        match seen.op {
            SeenOp::Read => return,
            SeenOp::Trim => {
                self.trims += 1;
                return;
            }
            SeenOp::Write if seen.bytes == 0 => return,
            SeenOp::Write => {}
        }
        let end = (seen.offset + seen.bytes).div_ceil(PAGE_BYTES);
        let end = end.min(self.shape.geometry.volume_pages().0);
        let nvs_pages = self.shape.context.nvs_pages;
        // Of zeros over a volume the end is what a cache has afterwards; the rest only takes time.
        let mut page = (seen.offset / PAGE_BYTES).max(end.saturating_sub(nvs_pages));
        self.pages_written += (page - seen.offset / PAGE_BYTES) / self.one_in;
        let most = part_pages(nvs_pages);
        self.edge.write(u64::from(seen.held_pages));
        self.written = true;
        while page < end {
            let pages = most.min(end - page);
            let range = PageRange::new(Page(page), pages as u32);
            self.write(range, self.edge.peak);
            page += pages;
        }
    }

    fn write(&mut self, range: PageRange, held_pages: u64) {
        let classified = self.detector.classify(range);
        let one_in = self.one_in;
        let per_group = self.shape.geometry.pages_per_group();
        self.pages_written += followed(range, per_group, one_in).map(|(_, _, n)| n).sum::<u64>();
        for Shadow { cache, tally, .. } in &mut self.caches {
            settle(cache, tally, held_pages / one_in);
            if one_in == 1 {
                let admitted = loop {
                    match cache.try_admit(range, classified) {
                        Some(admitted) => break Some(admitted),
                        None if cache.destage_at_once(tally) => {}
                        None => break None,
                    }
                };
                tally.page_hits += admitted.map_or(0, |admitted| admitted.page_hits);
            } else {
                sampled(cache, tally, (range, classified), one_in, per_group);
            }
        }
    }

    /// Destages what is held beyond `held_pages`, which is what the running array holds: it
    /// destages also while nothing is written.
    pub fn follow(&mut self, held_pages: u64) {
        if core::mem::take(&mut self.written) {
            return;
        }
        self.edge.idle(held_pages);
        for Shadow { cache, tally, .. } in &mut self.caches {
            settle(cache, tally, held_pages / self.one_in);
        }
    }

    /// Whether all have destaged.
    pub fn warm(&self) -> bool {
        self.caches.iter().all(|shadow| shadow.tally.destages > 0)
    }

    /// What each has done so far, for all groups.
    pub fn rows(&self) -> Vec<Row> {
        let row = |shadow: &Shadow| {
            let Tally { destages, pages, distance, page_hits, .. } = shadow.tally;
            let one_in = self.one_in;
            Row {
                policy: shadow.policy.to_string(),
                destages: destages * one_in,
                destaged_pages: pages * one_in,
                distance: (one_in == 1).then_some(distance),
                page_hits: page_hits * one_in,
                pages_written: self.pages_written * one_in,
            }
        };
        self.caches.iter().map(row).collect()
    }
}

fn settle(cache: &mut WriteCache, tally: &mut Tally, pages: u64) {
    while cache.directory.held_pages() > pages && cache.destage_at_once(tally) {}
}

/// Parts of a range by write group, of the groups that are followed: first page in the group, the
/// group, pages.
fn followed(
    range: PageRange,
    per_group: u64,
    one_in: u64,
) -> impl Iterator<Item = (u64, u64, u64)> {
    let (first, end) = (range.first.0, range.end().0);
    (first / per_group..=(end - 1) / per_group).filter(move |group| in_sample(*group, one_in)).map(
        move |group| {
            let from = first.max(group * per_group);
            (from - group * per_group, group, end.min((group + 1) * per_group) - from)
        },
    )
}

/// Writes the parts of a request that are in the sample.
fn sampled(
    cache: &mut WriteCache,
    tally: &mut Tally,
    (range, classified): (PageRange, Classified),
    one_in: u64,
    per_group: u64,
) {
    let first_sequential = range.first.0 + u64::from(classified.random);
    let mut is_in = false;
    for (bit, group, pages) in followed(range, per_group, one_in) {
        let first = group * per_group + bit;
        while cache.directory.missing(Page(first), pages as u32) > cache.directory.free_pages() {
            if !cache.destage_at_once(tally) {
                return;
            }
        }
        let random = first_sequential.saturating_sub(first);
        let group = destage_engine::units::GroupId(group);
        tally.page_hits += cache.write_part(group, bit, pages, random, &Conditions::NONE);
        is_in = true;
    }
    if is_in {
        cache.end_request(classified);
    }
}

/// What a policy did, or would have done, since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The policy.
    pub policy: String,
    /// Groups destaged.
    pub destages: u64,
    /// Their pages.
    pub destaged_pages: u64,
    /// Sum of the distances between the starts of consecutive destages.
    pub distance: Option<u64>,
    /// Of the pages written, those that were held.
    pub page_hits: u64,
    /// Pages written.
    pub pages_written: u64,
}

impl Row {
    /// What came after `before`.
    pub fn since(&self, before: &Row) -> WhatIfRow {
        let destages = self.destages - before.destages;
        let distance = self.distance.zip(before.distance).map(|(now, then)| now - then);
        let mean = distance.filter(|_| destages > 0).map(|sum| sum as f64 / destages as f64);
        WhatIfRow {
            policy: self.policy.clone(),
            destages,
            destaged_pages: self.destaged_pages - before.destaged_pages,
            mean_distance_pages: mean,
            page_hits: self.page_hits - before.page_hits,
            pages_written: self.pages_written - before.pages_written,
        }
    }
}

#[cfg(test)]
mod tests;
