//! Groups with many pages go first while the NVS is fuller than it usually is (docs/ebb.md, "The
//! fullest first").

use destage_engine::conditions::{Conditions, Pressure};
use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{self, PolicyContext};
use destage_engine::request::PageRange;
use destage_engine::sequential::{Detector, DetectorKind};
use destage_engine::units::{Page, PageCount};
use destage_engine::writecache::WriteCache;

const PER_GROUP: u64 = 8;
const GROUPS: u64 = 5000;
const PAGES: u64 = 4000;

fn cache(high: u64, mirrored: bool) -> WriteCache {
    cache_with(Detector::Off, high, mirrored)
}

fn cache_with(detector: Detector, high: u64, mirrored: bool) -> WriteCache {
    let context = PolicyContext {
        nvs_pages: PAGES,
        groups: GROUPS,
        group_pages: PER_GROUP,
        disks: 5,
        queue_depth: 20,
        high,
        low: high - 100,
        mirrored,
    };
    let policy = policy::choose("ebb:sparse=off").expect("a policy").build(&context).expect("made");
    let directory = Directory::new(PageCount(PAGES), PER_GROUP, GROUPS);
    WriteCache::new(directory, detector, policy)
}

/// Writes the first pages of groups, as many as said, each group in one write.
fn write(cache: &mut WriteCache, groups: impl Iterator<Item = (u64, u64)>) {
    for (group, pages) in groups {
        let range = PageRange::new(Page(group * PER_GROUP), pages as u32);
        let classified = cache.classify(range);
        assert!(cache.try_admit(range, classified).is_some());
    }
}

/// Groups of 1, 8, 1, 8 and so on.
fn filled(high: u64, mirrored: bool) -> WriteCache {
    let mut cache = cache(high, mirrored);
    write(&mut cache, (0..100).map(|group| (group, 1 + group % 2 * 7)));
    cache
}

/// The next groups that are picked, at an urgency in 256ths.
fn picked(cache: &mut WriteCache, count: usize, now: u32, usual: u32) -> Vec<u64> {
    let mut mask = Vec::new();
    let conditions = Conditions { pressure: Pressure { now, usual }, ..Conditions::NONE };
    let mut pick = || {
        let picked = cache.pick(&conditions, &mut |_, _| false, &mut mask).expect("a victim");
        cache.directory.release(picked.group, &mask);
        picked.group.0
    };
    (0..count).map(|_| pick()).collect()
}

#[test]
fn groups_with_few_pages_wait_while_the_nvs_is_fuller_than_usual() {
    let mut cache = filled(9000, false);
    assert_eq!(picked(&mut cache, 3, 384, 0), [0, 1, 2], "not urgent");
    assert_eq!(picked(&mut cache, 3, 385, 384), [3, 5, 7]);
    assert_eq!(picked(&mut cache, 2, 512, 512), [8, 9], "as usual");
    // They wait lap after lap, until nearly all that are left have one page.
    let rest = picked(&mut cache, 42, 512, 0);
    assert!(rest.iter().all(|group| group % 2 == 1), "{rest:?}");
    let left = picked(&mut cache, 50, 512, 0);
    assert_eq!(left[..5], [95, 96, 97, 98, 99], "{left:?}");
    assert_eq!(left[5..8], [4, 6, 10]);
}

#[test]
fn they_wait_on_a_mirror_only_while_it_is_much_fuller() {
    let mut cache = filled(9000, true);
    assert_eq!(picked(&mut cache, 2, 512, 384), [0, 1]);
    assert_eq!(picked(&mut cache, 2, 512, 383), [3, 5]);
}

/// Each write is three groups, and two pages of the next one.
#[test]
fn what_large_writes_left_waits_only_while_the_nvs_is_much_fuller() {
    let detector = Detector::new(DetectorKind::Pages, 16, PER_GROUP);
    let mut cache = cache_with(detector, 9000, false);
    for at in (1..=100).rev() {
        let range = PageRange::new(Page(at * 10 * PER_GROUP), 26);
        let classified = cache.classify(range);
        assert!(cache.try_admit(range, classified).is_some());
    }
    assert_eq!(picked(&mut cache, 5, 512, 384), [10, 11, 12, 13, 20]);
    assert_eq!(picked(&mut cache, 6, 512, 383), [21, 22, 30, 31, 32, 40]);
}

#[test]
fn they_wait_only_where_two_groups_fit_above_the_high_threshold() {
    // Of 4,000 pages, 16 and 15.
    assert_eq!(picked(&mut filled(9960, false), 2, 512, 0), [1, 3]);
    assert_eq!(picked(&mut filled(9961, false), 2, 512, 0), [0, 1]);
}

#[test]
fn a_pick_looks_at_256_groups() {
    let mut cache = cache(9000, false);
    write(&mut cache, (0..600).map(|group| (group, if group == 256 { 8 } else { 1 })));
    // The mean is little more than one page: nothing is sparse.
    assert_eq!(picked(&mut cache, 2, 512, 0), [0, 1]);
    write(&mut cache, (700..1000).map(|group| (group, 8)));
    assert_eq!(picked(&mut cache, 1, 512, 0), [256], "the 255th from the last");
    assert_eq!(picked(&mut cache, 1, 512, 0), [513], "256 were looked at");
    assert_eq!(picked(&mut cache, 2, 512, 0), [700, 701]);
}
