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
        Seen { at: Instant(number), offset, bytes, op: SeenOp::Write, held_pages }
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

#[test]
fn a_sample_of_the_groups_tells_destages_within_a_tenth() {
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
fn odd_requests_are_borne() {
    let mut shadows = Shadows::new(shape(), 1).expect("made");
    let end = shape().geometry.volume_pages().0 * PAGE_BYTES;
    let held_pages = u32::MAX;
    let seen = |offset, bytes, op| Seen { at: Instant(0), offset, bytes, op, held_pages };
    shadows.feed(&seen(end - 100, 100, SeenOp::Write));
    shadows.feed(&seen(0, 64 << 20, SeenOp::Write));
    shadows.feed(&seen(0, end, SeenOp::Trim));
    shadows.feed(&seen(0, 4096, SeenOp::Read));
    shadows.feed(&seen(5000, 0, SeenOp::Write));
    assert_eq!((shadows.trims, shadows.pages_written), (1, 1 + 16384));
}
