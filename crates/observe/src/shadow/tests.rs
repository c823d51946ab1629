//! Shadow caches against replays of the same writes.

use super::*;
use destage_engine::array::geometry::Level;
use destage_engine::units::Instant;

const NVS: u64 = 8192;

fn shape() -> Shape {
    let geometry = Geometry {
        level: Level::Raid5,
        disks: 5,
        strip_pages: 4,
        group_stripes: 1,
        disk_pages: 1 << 18,
    };
    let context = PolicyContext {
        nvs_pages: NVS,
        groups: geometry.groups(),
        group_pages: geometry.pages_per_group(),
        disks: 5,
        queue_depth: 20,
        high: 9000,
        low: 8000,
        mirrored: false,
    };
    Shape { geometry, context, detector: (DetectorKind::Pages, 32) }
}

/// Hot and cold pages, and a sequential stream.
fn load(writes: u64) -> Vec<Seen> {
    let pages = shape().geometry.volume_pages().0;
    let mut stream = 0;
    let write = |number: u64| {
        let random = mix(number ^ 0xABCD);
        let page = match random % 10 {
            0..=1 => {
                stream += 1;
                pages / 2 + stream
            }
            2..=6 => mix(random) % (pages / 16),
            _ => mix(random) % pages,
        };
        let (offset, bytes) = (page * PAGE_BYTES, PAGE_BYTES);
        let held_pages = u32::MAX;
        Seen { at: Instant(number), offset, bytes, op: SeenOp::Write, held_pages, held_back: false }
    };
    (0..writes).map(write).collect()
}

/// The engine's own replay of these writes.
fn replayed(policy: &str, load: &[Seen]) -> Tally {
    let Shape { geometry, context, detector: (kind, threshold) } = shape();
    let per_group = geometry.pages_per_group();
    let policy = policy::choose(policy).expect("known").build(&context).expect("made");
    let directory = Directory::new(PageCount(NVS), per_group, geometry.groups());
    let detector = Detector::new(kind, threshold, per_group);
    let mut cache = WriteCache::new(directory, detector, policy);
    let mut tally = Tally { per_group, ..Tally::default() };
    let ranges: Vec<PageRange> =
        load.iter().map(|seen| PageRange::new(Page(seen.offset / PAGE_BYTES), 1)).collect();
    cache.replay(&ranges, &mut tally);
    tally
}

#[test]
fn a_cache_that_may_be_full_does_what_a_replay_does() {
    let load = load(100_000);
    let mut shadows = Shadows::new(shape(), 1).expect("made");
    load.iter().for_each(|seen| shadows.feed(seen));
    let rows = shadows.rows();
    assert!(shadows.warm() && rows.len() == SHADOWED.len());
    for row in &rows {
        let expected = replayed(&row.policy, &load);
        assert_eq!((row.destages, row.destaged_pages), (expected.destages, expected.pages));
        assert_eq!(row.distance, Some(expected.distance), "{}", row.policy);
        assert!(row.page_hits > 0 && row.pages_written == 100_000);
    }
    // They differ: else nothing would be compared.
    assert!(rows.iter().any(|row| row.destages * 100 < rows[0].destages * 98));
    assert!(rows[0].distance > rows[1].distance.map(|distance| 10 * distance));
}

/// A client can send thousands of such requests in a second.
#[test]
fn of_zeros_over_the_volume_no_more_is_followed_than_a_cache_has() {
    let mut shadows = Shadows::new(shape(), 1).expect("made");
    let pages = shape().geometry.volume_pages().0;
    let seen = load(1)[0];
    shadows.feed(&Seen { offset: 0, bytes: pages * PAGE_BYTES, ..seen });
    for row in shadows.rows() {
        assert_eq!(row.pages_written, pages);
        assert!(row.destaged_pages <= NVS, "{row:?}");
    }
    shadows.feed(&Seen { offset: pages * PAGE_BYTES, ..seen });
    assert_eq!(shadows.rows()[0].pages_written, pages, "nothing is behind the end");
}

#[test]
fn a_shadow_holds_no_more_than_the_running_cache() {
    let mut shadows = Shadows::new(shape(), 1).expect("made");
    for seen in load(20_000) {
        shadows.feed(&Seen { held_pages: 1500, ..seen });
        for shadow in &shadows.caches {
            assert!(shadow.cache.directory.held_pages() <= 1501);
        }
    }
    assert!(shadows.warm());
}

/// A running array whose groups are small must not keep shadows with large groups emptier than they
/// would be by themselves under the same threshold.
#[test]
fn a_shadow_destages_by_its_own_groups_from_where_the_array_does() {
    let threshold = 1500;
    let load = load(60_000);
    for name in SHADOWED {
        let mut shadows = Shadows::new(shape(), 1).expect("made");
        let mut alone = Shadows::new(shape(), 1).expect("made");
        let alone = alone.caches.iter_mut().find(|shadow| shadow.policy == name).expect("there");
        let Shape { geometry, detector: (kind, least), .. } = shape();
        let mut detector = Detector::new(kind, least, geometry.pages_per_group());
        for (number, seen) in (0..).zip(&load) {
            // The array destages three pages each time that it holds more than the threshold.
            let held_pages = threshold - 3 + number % 4;
            shadows.feed(&Seen { held_pages: held_pages as u32, ..*seen });
            settle(&mut alone.cache, &mut alone.tally, threshold);
            let range = PageRange::new(Page(seen.offset / PAGE_BYTES), 1);
            let classified = detector.classify(range);
            alone.cache.try_admit(range, classified).expect("room");
        }
        let row = shadows.caches.iter().find(|shadow| shadow.policy == name).expect("there");
        let (ours, theirs) = (row.tally.destages as f64, alone.tally.destages as f64);
        println!("{name}: {ours} of {theirs}");
        assert!(theirs > 1000.0 && (ours / theirs - 1.0).abs() < 0.005, "{name}: {ours} {theirs}");
    }
}

#[test]
fn the_level_from_which_the_array_destages_is_followed_up_and_down() {
    let mut edge = Edge::new(16);
    let mut after = |held: &[u64]| {
        held.iter().for_each(|held| edge.write(*held));
        edge.peak
    };
    assert_eq!(after(&[1, 2, 500, 999]), 999, "it fills");
    assert_eq!(after(&[996, 997, 998]), 999, "a destage, and it fills again");
    assert_eq!(after(&[995, 996, 993]), 996, "from lower down");
    assert_eq!(after(&[400, 401]), 416, "much was destaged between two writes");
    edge.idle(10);
    assert_eq!(edge.peak, 10);
}

#[test]
fn a_sample_of_the_groups_estimates_destages_within_a_tenth() {
    let load = load(400_000);
    let mut all = Shadows::new(shape(), 1).expect("made");
    let mut some = Shadows::new(shape(), 4).expect("made");
    for seen in &load {
        all.feed(seen);
        some.feed(seen);
    }
    for (all, some) in all.rows().iter().zip(some.rows()) {
        let share = some.destages as f64 / all.destages as f64;
        println!("{}: {share}", all.policy);
        assert!((0.9..1.1).contains(&share), "{}: {share}", all.policy);
        assert_eq!(some.distance, None);
    }
}

#[test]
fn odd_requests_are_tolerated() {
    let mut shadows = Shadows::new(shape(), 1).expect("made");
    let end = shape().geometry.volume_pages().0 * PAGE_BYTES;
    let held_pages = u32::MAX;
    let held_back = false;
    let seen =
        |offset, bytes, op| Seen { at: Instant(0), offset, bytes, op, held_pages, held_back };
    shadows.feed(&seen(end - 100, 100, SeenOp::Write));
    shadows.feed(&seen(0, 64 << 20, SeenOp::Write));
    shadows.feed(&seen(0, end, SeenOp::Trim));
    shadows.feed(&seen(0, 4096, SeenOp::Read));
    shadows.feed(&seen(5000, 0, SeenOp::Write));
    assert_eq!((shadows.trims, shadows.pages_written), (1, 1 + 16384));
}
