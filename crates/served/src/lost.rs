//! What is lost when more members have failed than the level tolerates: pages of the volume whose
//! row has too little left, without those that the NVS has.

use crate::pages::DirtyPages;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, Page};
use std::ops::Range;

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

impl Lost {
    /// Lists the pages of a range that are not among the dirty ones, which are in order.
    fn list(&mut self, pages: Range<u64>, dirty: &[u64]) {
        let dirty = &dirty[dirty.partition_point(|page| *page < pages.start)..];
        let within = dirty.iter().copied().take_while(|page| *page < pages.end);
        let mut from = pages.start;
        for end in within.chain([pages.end]) {
            if from < end {
                self.add(from, end - from);
            }
            if self.more {
                return;
            }
            from = end + 1;
        }
    }

    fn add(&mut self, first: u64, pages: u64) {
        let full = self.ranges.len() == RANGES_MAX;
        match self.ranges.last_mut() {
            Some((from, count)) if *from + *count == first => *count += pages,
            _ if full => self.more = true,
            _ => self.ranges.push((first, pages)),
        }
    }
}

/// Rows of the disks in which data of the same disks is lost.
struct Segment {
    first: u64,
    end: u64,
    lost: Vec<DiskId>,
}

impl Segment {
    /// The first pages of the strips of a stripe that are lost, in order.
    fn strips(&self, geometry: &Geometry, stripe: u64) -> Vec<u64> {
        let page = stripe * geometry.strip_pages;
        let place = |disk: &DiskId| geometry.page_at(DiskPage { disk: *disk, page });
        let mut pages: Vec<u64> = self.lost.iter().filter_map(place).map(|page| page.0).collect();
        pages.sort_unstable();
        pages
    }
}

/// The disks whose data is lost where these are.
fn data_lost(geometry: &Geometry, lost: Vec<DiskId>) -> Vec<DiskId> {
    match geometry.level {
        level if level.is_mirrored() => {
            let pair_lost =
                |disk: &DiskId| disk.0.is_multiple_of(2) && lost.contains(&DiskId(disk.0 + 1));
            lost.iter().copied().filter(pair_lost).collect()
        }
        level if lost.len() <= usize::from(level.parities()) => Vec::new(),
        _ => lost,
    }
}

fn segments(geometry: &Geometry, lost: &[(DiskId, u64)]) -> Vec<Segment> {
    let mut bounds: Vec<u64> = lost.iter().map(|(_, from)| *from).collect();
    bounds.extend([0, geometry.disk_pages]);
    bounds.sort_unstable();
    bounds.dedup();
    let segment = |pair: &[u64]| {
        let there = lost.iter().filter(|(_, from)| *from <= pair[0]).map(|(disk, _)| *disk);
        Segment { first: pair[0], end: pair[1], lost: data_lost(geometry, there.collect()) }
    };
    bounds.windows(2).map(segment).collect()
}

/// What is lost if each of these disks is missing from a page of its own on.
pub(crate) fn lost(geometry: &Geometry, missing: &[(DiskId, u64)], pages: &DirtyPages) -> Lost {
    let members = missing.iter().map(|(disk, from)| (disk.0, *from)).collect();
    let mut lost = Lost { members, ..Lost::default() };
    let (segments, dirty) = (segments(geometry, missing), pages.held_in(&(0..u64::MAX)));
    for segment in &segments {
        add_segment(segment, geometry, &dirty, &mut lost);
    }
    let is_lost = |page: &&u64| {
        let DiskPage { disk, page } = geometry.place(Page(**page));
        let of = segments.iter().find(|s| (s.first..s.end).contains(&page));
        of.is_some_and(|segment| segment.lost.contains(&disk))
    };
    lost.pages -= dirty.iter().filter(is_lost).count() as u64;
    lost
}

fn add_segment(segment: &Segment, geometry: &Geometry, dirty: &[u64], lost: &mut Lost) {
    let (strip, per_stripe) = (geometry.strip_pages, geometry.stripe_pages());
    let stripes = segment.first / strip..segment.end / strip;
    // The layout repeats after as many stripes as there are disks.
    let period = u64::from(geometry.disks);
    let count = stripes.end - stripes.start;
    let of_turn = |turn: u64| {
        let strips = segment.strips(geometry, stripes.start + turn).len() as u64;
        strips * strip * (count - turn).div_ceil(period)
    };
    let pages: u64 = (0..period.min(count)).map(of_turn).sum();
    lost.pages += pages;
    if pages == count * per_stripe {
        // One range, however long.
        return lost.list(stripes.start * per_stripe..stripes.end * per_stripe, dirty);
    }
    if pages == 0 {
        return;
    }
    // Of each period something is there, so the list is soon full.
    for stripe in stripes {
        for first in segment.strips(geometry, stripe) {
            lost.list(first..first + strip, dirty);
            if lost.more {
                return;
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
        for (level, disks) in [
            (Level::Raid0, 3),
            (Level::Raid10, 4),
            (Level::Raid5, 4),
            (Level::Raid5, 3),
            (Level::Raid6, 5),
        ] {
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

    /// All pages of a segment are lost: they are one run, however long, but for what is dirty.
    #[test]
    fn what_is_lost_of_large_disks_is_found_without_a_look_at_each_page() {
        let dirty: Vec<u64> = vec![0, 1, 70, 1 << 31];
        let mut pages = DirtyPages::new(PageMemory::default());
        dirty.iter().for_each(|page| pages.put_zeros(*page, 1));
        for (level, disks, missing) in [
            (Level::Single, 1, &[0][..]),
            (Level::Raid10, 2, &[0, 1]),
            (Level::Raid0, 2, &[0, 1]),
            (Level::Raid5, 3, &[0, 1, 2]),
        ] {
            let (strip_pages, group_stripes, disk_pages) = (16, 1, 1 << 32);
            let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
            let missing: Vec<(DiskId, u64)> = missing.iter().map(|n| (DiskId(*n), 0)).collect();
            let found = lost(&geometry, &missing, &pages);
            let end = geometry.volume_pages().0;
            let behind = (1 << 31) + 1;
            let ranges = [(2, 68), (71, (1 << 31) - 71), (behind, end - behind)];
            assert_eq!((found.pages, found.more), (end - 4, false), "{level:?}");
            assert_eq!(found.ranges, ranges, "{level:?}");
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

    #[test]
    fn pages_that_follow_each_other_are_one_run_whether_they_are_named_twice_or_not() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[0, 0, 1, 1, 3]), [(0, 2), (3, 1)]);
        assert_eq!(runs(&[3, 4, 4, 5, 7, 9, 9]), [(3, 3), (7, 1), (9, 1)]);
    }
}
