//! Where policies stand, for people to look at.

use destage_engine::conditions::Conditions;
use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{PolicyContext, Queues, choose};
use destage_engine::request::PageRange;
use destage_engine::sequential::{Detector, DetectorKind};
use destage_engine::units::{GroupId, Page, PageCount};
use destage_engine::writecache::{Picked, WriteCache};

const PER_GROUP: u64 = 16;
const NVS: u64 = 256;

fn cache(policy: &str) -> WriteCache {
    let context = PolicyContext {
        nvs_pages: NVS,
        groups: 1000,
        group_pages: PER_GROUP,
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

fn pick(cache: &mut WriteCache) -> u64 {
    let mut mask = Vec::new();
    let picked = cache.pick(&Conditions::NONE, &mut |_, _| false, &mut mask);
    let Picked { group, .. } = picked.expect("something is held");
    cache.directory.release(group, &mask);
    group.0
}

/// What goes first of group 5, which was destaged before four others, and group 50, which is new.
fn first_of_five_and_fifty(policy: &str) -> u64 {
    let mut cache = cache(policy);
    let groups = [5, 200, 400, 600, 800];
    groups.iter().for_each(|group| write(&mut cache, group * PER_GROUP, 1));
    assert_eq!(groups.map(|_| pick(&mut cache)), groups);
    [5, 50].into_iter().for_each(|group| write(&mut cache, group * PER_GROUP, 1));
    let first = pick(&mut cache);
    assert_eq!(first + pick(&mut cache), 55, "it is spared once");
    first
}

#[test]
fn a_group_that_wow_remembers_is_spared_once_when_it_returns() {
    assert_eq!(first_of_five_and_fifty("wow"), 5);
    assert_eq!(first_of_five_and_fifty("wow:history=100"), 50);
    assert_eq!(first_of_five_and_fifty("wow:history=1"), 5, "3 groups: it is forgotten");
    assert_eq!(first_of_five_and_fifty("wow:initial-bit=adaptive,history=100"), 50);
    let error = choose("wow:initial-bit=adaptive").expect_err("no history");
    let expected = "must be 0 or 1 without a history (history=50, for instance), not `adaptive`";
    assert!(error.to_string().ends_with(expected), "{error}");
}

#[test]
fn the_balance_of_wow_goes_to_longer_lives_where_groups_return() {
    let mut cache = cache("wow:initial-bit=adaptive,history=100");
    let mut lap = |returning: bool, lap: u64| -> Vec<u64> {
        let place = |n: u64| if returning { 2 * n } else { 200 + 80 * (lap % 10) + 2 * n };
        (0..40).for_each(|n| write(&mut cache, place(n) * PER_GROUP, 1));
        (0..40).map(|_| pick(&mut cache)).collect()
    };
    let in_order = |picked: &[u64]| picked.is_sorted();
    assert!(in_order(&lap(false, 0)) && in_order(&lap(false, 1)), "no new group is spared");
    // 40 groups return twice: 1,280 of 1,024 points.
    (0..3).for_each(|_| drop(lap(true, 0)));
    // All are spared alike: they go in order, each one's longer life for nothing.
    assert!(in_order(&lap(false, 2)));
    let mixed: Vec<Vec<u64>> = (3..6).map(|n| lap(false, n)).collect();
    assert!(mixed.iter().any(|picked| !in_order(picked)), "some are spared, others are not");
    assert!(in_order(&lap(false, 6)), "none any more");
}
