//! What is lost when more members have failed than the level tolerates: pages of the volume whose
//! row has too little left, without those that the NVS has.

use crate::pages::DirtyPages;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, Page};

/// Most ranges that are reported.
const RANGES_MAX: usize = 64;

/// What is unavailable while members are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The members, and the first page of each that is missing.
    pub members: Vec<(u16, u64)>,
    /// Pages of the volume.
    pub pages: u64,
    /// The first ranges of these: first page, pages.
    pub ranges: Vec<(u64, u64)>,
    /// There are more ranges.
    pub more: bool,
}

/// Pages in order, as runs (first page, pages).
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
    /// The disks whose data of these rows is lost.
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

/// What is lost if each of these disks is missing from a page of its own on.
pub(crate) fn lost(geometry: &Geometry, missing: &[(DiskId, u64)], pages: &DirtyPages) -> Lost {
    let segments = segments(geometry, missing);
    let members = missing.iter().map(|(disk, from)| (disk.0, *from)).collect();
    let mut lost = Lost { members, ..Lost::default() };
    for segment in &segments {
        add_segment(segment, geometry, pages, &mut lost);
    }
    let held = pages.held_in(&(0..u64::MAX));
    let dirty = held.iter().filter(|page| {
        let DiskPage { disk, page } = geometry.place(Page(**page));
        let of = segments.iter().find(|s| (s.first..s.end).contains(&page));
        of.is_some_and(|segment| segment.data_lost(geometry).contains(&disk))
    });
    lost.pages -= dirty.count() as u64;
    lost
}

fn add_segment(segment: &Segment, geometry: &Geometry, pages: &DirtyPages, lost: &mut Lost) {
    let strip = geometry.strip_pages;
    let stripes = segment.first / strip..segment.end / strip;
    // The layout repeats after as many stripes as there are disks.
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
            let dirty = pages.held_in(&(first..first + strip));
            for page in (first..first + strip).filter(|page| !dirty.contains(page)) {
                let full = lost.ranges.len() == RANGES_MAX;
                match lost.ranges.last_mut() {
                    Some((from, count)) if *from + *count == page => *count += 1,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::PageMemory;
    use destage_engine::array::geometry::Level;

    const DISK_PAGES: u64 = 32;

    /// What is lost by the definition: pages on a disk that is missing there, whose row has too
    /// little left, and that are not dirty.
    fn expected(geometry: &Geometry, missing: &[(DiskId, u64)], dirty: &[u64]) -> Vec<u64> {
        let lost = |page: &u64| {
            let DiskPage { disk, page } = geometry.place(Page(*page));
            let gone: Vec<DiskId> =
                missing.iter().filter(|(_, from)| *from <= page).map(|(disk, _)| *disk).collect();
            let too_few = match geometry.level.is_mirrored() {
                true => gone.contains(&DiskId(disk.0 ^ 1)),
                false => gone.len() > usize::from(geometry.level.parities()),
            };
            gone.contains(&disk) && too_few
        };
        let pages = 0..geometry.volume_pages().0;
        pages.filter(lost).filter(|page| !dirty.contains(page)).collect()
    }

    #[test]
    fn what_is_lost_is_what_no_row_and_no_memory_has() {
        for (level, disks) in
            [(Level::Raid0, 3), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)]
        {
            let (strip_pages, group_stripes) = (4, 1);
            let geometry =
                Geometry { level, disks, strip_pages, group_stripes, disk_pages: DISK_PAGES };
            for dirty in [&[][..], &[0, 1, 2, 3, 9, 40], &[17]] {
                let mut pages = DirtyPages::new(PageMemory::default());
                dirty.iter().for_each(|page| pages.put_zeros(*page, 1));
                for missing in [
                    &[][..],
                    &[(1, 0)],
                    &[(0, 0), (1, 0)],
                    &[(1, 0), (2, 0)],
                    &[(0, 8), (1, 0)],
                    &[(0, 0), (1, 16), (2, 24)],
                    &[(0, 0), (1, 0), (2, 0)],
                ] {
                    let missing: Vec<(DiskId, u64)> =
                        missing.iter().map(|(disk, from)| (DiskId(*disk), *from)).collect();
                    let found = lost(&geometry, &missing, &pages);
                    let what = format!("{level:?}, {dirty:?}, {missing:?}: {found:?}");
                    let expected = expected(&geometry, &missing, dirty);
                    let mut listed: Vec<u64> =
                        found.ranges.iter().flat_map(|(from, n)| *from..from + n).collect();
                    listed.sort_unstable();
                    assert_eq!(listed, expected, "{what}");
                    assert_eq!((found.pages, found.more), (expected.len() as u64, false), "{what}");
                    assert_eq!(found.members.len(), missing.len());
                    let mut ranges = found.ranges.clone();
                    ranges.sort_unstable();
                    let joined = ranges.windows(2).all(|two| two[0].0 + two[0].1 < two[1].0);
                    assert!(joined || missing.iter().any(|(_, from)| *from > 0), "{what}");
                }
            }
        }
    }

    /// 64 ranges are listed; the number of pages counts all of them.
    #[test]
    fn ranges_beyond_those_that_are_listed_are_counted() {
        let (level, strip_pages, group_stripes) = (Level::Raid0, 1, 1);
        let with = |stripes: u64| {
            let geometry =
                Geometry { level, disks: 2, strip_pages, group_stripes, disk_pages: stripes };
            lost(&geometry, &[(DiskId(1), 0)], &DirtyPages::new(PageMemory::default()))
        };
        let ranges = RANGES_MAX as u64;
        let most = with(ranges);
        assert_eq!((most.pages, most.ranges.len(), most.more), (ranges, RANGES_MAX, false));
        let more = with(ranges + 1);
        assert_eq!((more.pages, more.ranges.len(), more.more), (ranges + 1, RANGES_MAX, true));
    }
}
