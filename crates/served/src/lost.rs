//! What is lost when more members have failed than the level bears: pages of the volume whose row
//! has too little left, without those that the NVS has.

use crate::rebuild::lost_from;
use crate::volume::Volume;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, PAGE_BYTES, Page};

/// Most ranges that are told.
const RANGES_MAX: usize = 64;

/// What is lost for as long as the members stay away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The members, and from which page of theirs on they are missing.
    pub members: Vec<(u16, u64)>,
    /// Pages of the volume.
    pub pages: u64,
    /// The first ranges of these: first page, pages.
    pub ranges: Vec<(u64, u64)>,
    /// There are more.
    pub more: bool,
}

impl core::fmt::Display for Lost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let bytes = self.pages * PAGE_BYTES;
        write!(f, "{bytes} bytes are lost while members ")?;
        for (i, (member, from)) in self.members.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            match from {
                0 => write!(f, "{comma}{member}")?,
                _ => write!(f, "{comma}{member} (rebuilt below its page {from})")?,
            }
        }
        let more = if self.more { ", and more" } else { "" };
        write!(f, " stay away: {}{more}", ranges_told(&self.ranges))
    }
}

/// Runs of pages as ranges of bytes, in words.
pub(crate) fn ranges_told(ranges: &[(u64, u64)]) -> String {
    let told = |(first, pages): &(u64, u64)| {
        format!("{} to {}", first * PAGE_BYTES, (first + pages) * PAGE_BYTES - 1)
    };
    match ranges {
        [] => "no byte of the volume".to_string(),
        _ => format!("bytes {}", ranges.iter().map(told).collect::<Vec<_>>().join(", ")),
    }
}

/// Pages in order, as runs.
pub(crate) fn runs(pages: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == *page => *count += 1,
            Some((first, count)) if *first + *count > *page => {}
            _ => runs.push((*page, 1)),
        }
    }
    runs
}

/// Rows of the disks in which the same disks are lost.
struct Segment {
    first: u64,
    end: u64,
    lost: Vec<DiskId>,
}

impl Segment {
    /// The disks whose data of these rows cannot be had.
    fn data_lost(&self, geometry: &Geometry) -> Vec<DiskId> {
        let lost = |disk: &DiskId| self.lost.contains(disk);
        match geometry.level {
            level if level.is_mirrored() => {
                let pair_lost =
                    |disk: &DiskId| disk.0.is_multiple_of(2) && lost(&DiskId(disk.0 + 1));
                self.lost.iter().copied().filter(pair_lost).collect()
            }
            level if self.lost.len() <= usize::from(level.parities()) => Vec::new(),
            _ => self.lost.clone(),
        }
    }

    fn strips(&self, geometry: &Geometry, stripe: u64) -> Vec<u64> {
        let page = stripe * geometry.strip_pages;
        let place = |disk| geometry.page_at(DiskPage { disk, page });
        let mut pages: Vec<u64> =
            self.data_lost(geometry).into_iter().filter_map(place).map(|page| page.0).collect();
        pages.sort_unstable();
        pages
    }
}

fn segments(geometry: &Geometry, lost: &[(DiskId, u64)]) -> Vec<Segment> {
    let mut bounds: Vec<u64> = lost.iter().map(|(_, from)| *from).collect();
    bounds.extend([0, geometry.disk_pages]);
    bounds.sort_unstable();
    bounds.dedup();
    let segment = |pair: &[u64]| Segment {
        first: pair[0],
        end: pair[1],
        lost: lost.iter().filter(|(_, from)| *from <= pair[0]).map(|(disk, _)| *disk).collect(),
    };
    bounds.windows(2).map(segment).collect()
}

impl Volume {
    /// What is lost now: nothing, unless the array has stopped.
    #[must_use]
    pub fn lost(&self) -> Lost {
        if self.faults.stopped_by.is_none() {
            return Lost::default();
        }
        let geometry = self.controller.geometry();
        let from = lost_from(self);
        let segments = segments(geometry, &from);
        let members = from.iter().map(|(disk, from)| (disk.0, *from)).collect();
        let mut lost = Lost { members, ..Lost::default() };
        for segment in &segments {
            self.add_segment(segment, geometry, &mut lost);
        }
        let held = self.memory.held_in(&(0..u64::MAX));
        let dirty = held.iter().filter(|page| {
            let DiskPage { disk, page } = geometry.place(Page(**page));
            let of = segments.iter().find(|s| (s.first..s.end).contains(&page));
            of.is_some_and(|segment| segment.data_lost(geometry).contains(&disk))
        });
        lost.pages -= dirty.count() as u64;
        lost
    }

    fn add_segment(&self, segment: &Segment, geometry: &Geometry, lost: &mut Lost) {
        let strip = geometry.strip_pages;
        let stripes = segment.first / strip..segment.end / strip;
        // The layout comes round after as many stripes as there are disks.
        let period = u64::from(geometry.disks);
        let count = stripes.end - stripes.start;
        for turn in 0..period.min(count) {
            let times = (count - turn).div_ceil(period);
            let strips = segment.strips(geometry, stripes.start + turn).len() as u64;
            lost.pages += strips * strip * times;
        }
        for stripe in stripes {
            let strips = segment.strips(geometry, stripe);
            if strips.is_empty() && stripe > segment.first / strip + period {
                return;
            }
            for first in strips {
                let dirty = self.memory.held_in(&(first..first + strip));
                for page in (first..first + strip).filter(|page| !dirty.contains(page)) {
                    let full = lost.ranges.len() == RANGES_MAX;
                    match lost.ranges.last_mut() {
                        Some((from, pages)) if *from + *pages == page => *pages += 1,
                        _ if full => {
                            lost.more = true;
                            return;
                        }
                        _ => lost.ranges.push((page, 1)),
                    }
                }
            }
        }
    }
}
