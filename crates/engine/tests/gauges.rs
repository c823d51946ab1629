//! Where policies stand, for people to look at.

use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{PolicyContext, Queues, choose};
use destage_engine::request::PageRange;
use destage_engine::sequential::{Detector, DetectorKind};
use destage_engine::units::{GroupId, Page, PageCount};
use destage_engine::writecache::WriteCache;

const PER_GROUP: u64 = 16;
const NVS: u64 = 256;

fn cache(policy: &str) -> WriteCache {
    let context = PolicyContext {
        nvs_pages: NVS,
        groups: 1000,
        disks: 5,
        queue_depth: 20,
        high: 9000,
        low: 5000,
        mirrored: false,
    };
    let policy = choose(policy).expect("known").build(&context).expect("made");
    let detector = Detector::new(DetectorKind::Pages, 16, PER_GROUP);
    WriteCache::new(Directory::new(PageCount(NVS), PER_GROUP, 1000), detector, policy)
}

fn write(cache: &mut WriteCache, page: u64, pages: u32) {
    let range = PageRange::new(Page(page), pages);
    let classified = cache.classify(range);
    cache.try_admit(range, classified).expect("it fits");
}

#[test]
fn one_queue_has_one_pointer_which_is_the_next_victim() {
    for policy in ["lrw", "cscan", "wow"] {
        let mut cache = cache(policy);
        assert_eq!(cache.gauges().pointers, [None, None], "{policy}");
        [70, 20, 50].into_iter().for_each(|group| write(&mut cache, group * PER_GROUP, 1));
        let gauges = cache.gauges();
        assert_eq!((gauges.queues, gauges.pointers[1]), (None, None));
        let next = gauges.pointers[0].expect("held");
        assert_eq!(next, GroupId(if policy == "lrw" { 70 } else { 20 }), "{policy}");
    }
}

#[test]
fn stow_has_two_queues_and_their_sizes() {
    let mut cache = cache("stow");
    [900, 30].into_iter().for_each(|group| write(&mut cache, group * PER_GROUP, 2));
    (0..8).for_each(|n| write(&mut cache, 1600 + n * PER_GROUP, 16));
    let gauges = cache.gauges();
    let queues = gauges.queues.expect("two queues");
    assert_eq!(queues.random_pages + queues.sequential_pages, 4 + 8 * 16);
    assert!(queues.random_pages >= 4 && queues.sequential_pages >= 6 * 16, "{queues:?}");
    // The low threshold, half of the NVS, was reached: the sequential queue's size then.
    let desired = queues.desired_pages.expect("set");
    assert!(desired > 0 && desired <= queues.sequential_pages, "{queues:?}");
    assert_eq!(gauges.pointers[0], Some(GroupId(30)));
    assert!(gauges.pointers[1].is_some_and(|group| (100..108).contains(&group.0)));
    // Without hysteresis there is no size to be had.
    let mut larger = self::cache("seqran");
    write(&mut larger, 0, 1);
    let expected = Queues { random_pages: 1, sequential_pages: 0, desired_pages: None };
    assert_eq!(larger.gauges().queues, Some(expected));
}
