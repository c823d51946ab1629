//! The media cache and shingled recording.

mod common;

use common::{Random, read, serve, small, write};
use destage_disk::{Disk, DiskSpec, MediaCounts, find};
use destage_engine::units::{Duration, Instant};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// Tracks of 24 sectors, three to a cylinder: the cache has the two outermost cylinders.
const CACHE: &str = "[media_cache]\nsectors = 144\nmap_entries = 8\nentry_sectors = 24\n";

fn shingled(more: &str) -> String {
    format!("{CACHE}{more}\n[shingled]\nband_tracks = 2\nstream_sectors = 24\n")
}

fn counts(disk: &mut Disk, now: Instant) -> MediaCounts {
    disk.media_counts(now).expect("a media cache")
}

#[test]
fn the_reserved_cylinders_are_not_offered_and_writes_go_there() {
    let plain = Disk::new(&small("", ""));
    let mut disk = Disk::new(&small(CACHE, ""));
    assert_eq!(disk.sectors(), plain.sectors() - 144);
    assert_eq!(disk.cylinder_of(0), 2, "the first sector is behind the cache");
    let mut now = Instant::ZERO;
    serve(&mut disk, &mut now, write(600, 4));
    assert_eq!(disk.head_cylinder(), 0);
    serve(&mut disk, &mut now, read(900, 4));
    serve(&mut disk, &mut now, read(600, 4));
    assert_eq!(disk.head_cylinder(), 0, "it is read where it is");
    serve(&mut disk, &mut now, read(598, 8));
    assert_eq!(disk.head_cylinder(), disk.cylinder_of(605), "before, in and behind the cache");
    let inner = CACHE.replace("map_entries", "place = \"inner\"\nmap_entries");
    let mut disk = Disk::new(&small(&inner, ""));
    assert_eq!((disk.sectors(), disk.cylinder_of(0)), (plain.sectors() - 144, 0));
    serve(&mut disk, &mut now, write(0, 4));
    assert!(disk.head_cylinder() > 20);
}

#[test]
fn a_full_cache_of_a_conventional_drive_is_written_past() {
    let mut disk = Disk::new(&small(CACHE, ""));
    let mut now = Instant::ZERO;
    for turn in 0..12 {
        serve(&mut disk, &mut now, write(100 + 90 * turn, 4));
    }
    let counts = counts(&mut disk, now);
    assert_eq!((counts.entries, counts.cached_sectors, counts.held), (8, 32, 8));
    assert_eq!(
        (counts.host_sectors, counts.rewritten_sectors),
        (48, 0),
        "without idle_ms it stays"
    );
    assert_eq!(disk.head_cylinder(), disk.cylinder_of(100 + 90 * 11));
}

#[test]
fn an_idle_drive_empties_its_cache_after_the_time_given() {
    let mut disk = Disk::new(&small(&CACHE.replace("map", "idle_ms = 50.0\nmap"), ""));
    let mut now = Instant::ZERO;
    for turn in 0..5 {
        serve(&mut disk, &mut now, write(1000 - 90 * turn, 4));
    }
    assert_eq!(counts(&mut disk, now + Duration(50 * MS)).moving.0, 0);
    let moved = counts(&mut disk, now + Duration(S));
    assert_eq!((moved.moved_sectors, moved.rewritten_sectors, moved.held), (20, 20, 0));
    assert!(moved.moving.0 > 5 * MS && moved.moving.0 < 100 * MS, "{moved:?}");
    now.0 += S;
    serve(&mut disk, &mut now, read(1000, 4));
    assert_eq!(disk.head_cylinder(), disk.cylinder_of(1000), "it is in its place");
}

#[test]
fn a_command_waits_for_the_pass_of_the_heads_and_not_for_the_rest() {
    let busy = |at: u64| {
        let mut disk = Disk::new(&small(&shingled("idle_ms = 50.0"), ""));
        let mut now = Instant::ZERO;
        serve(&mut disk, &mut now, write(600, 4));
        now.0 += 50 * MS + at;
        let begin = now;
        serve(&mut disk, &mut now, read(1000, 1));
        (now.since(begin).0, counts(&mut disk, now))
    };
    let (rest, _) = busy(0);
    assert!(rest < 15 * MS, "nothing had begun: {rest}");
    // Two tracks of 10 ms each are read first.
    let (during, at_once) = busy(MS);
    assert!(during > 20 * MS && during < 60 * MS, "{during}");
    assert_eq!((at_once.bands_cleaned, at_once.rewritten_sectors), (0, 0));
}

#[test]
fn a_full_cache_of_a_shingled_drive_waits_for_a_band() {
    let mut disk = Disk::new(&small(&shingled(""), ""));
    let mut now = Instant::ZERO;
    let mut times = Vec::new();
    for turn in 0..12 {
        let done = serve(&mut disk, &mut now, write(100 + 96 * turn, 4));
        times.push(done.service.total().0);
    }
    let (fast, slow) = (times[..8].iter().max(), times[8..].iter().min());
    assert!(fast < Some(&(25 * MS)) && slow > Some(&(60 * MS)), "{times:?}");
    let counts = counts(&mut disk, now);
    assert_eq!((counts.bands_cleaned, counts.held, counts.moved_sectors), (4, 8, 16));
    // Bands of two tracks of 24 or 20 sectors, to the spare band and in place.
    assert_eq!(counts.rewritten_sectors, 4 * 2 * 48);
    assert_eq!(counts.waited, counts.moving);
    assert_eq!(counts.write_amplification(), (48 + 384) as f64 / 48.0);
}

#[test]
fn a_sequential_stream_goes_to_its_bands() {
    let mut disk = Disk::new(&small(&shingled(""), ""));
    let mut now = Instant::ZERO;
    for turn in 0..24 {
        serve(&mut disk, &mut now, write(48 + 8 * turn, 8));
    }
    let streamed = counts(&mut disk, now);
    assert_eq!((streamed.cached_sectors, streamed.bands_cleaned), (24, 0), "the first 24 sectors");
    assert_eq!(disk.head_cylinder(), disk.cylinder_of(48 + 191));
    // 48 + 192 = 240 is the end of a band, so there is nothing to rewrite but the first one.
    serve(&mut disk, &mut now, write(700, 1));
    assert_eq!(counts(&mut disk, now).rewritten_sectors, 0);
}

#[test]
fn the_rest_of_a_band_that_a_stream_left_is_rewritten() {
    let mut disk = Disk::new(&small(&shingled("idle_ms = 50.0"), ""));
    let mut now = Instant::ZERO;
    for turn in 0..7 {
        serve(&mut disk, &mut now, write(8 * turn, 8));
    }
    assert_eq!(counts(&mut disk, now).cached_sectors, 24);
    // The stream ended at 56 in the band 48 to 96; the band 0 to 48 has 24 cached sectors.
    let after = counts(&mut disk, now + Duration(2 * S));
    assert_eq!((after.bands_cleaned, after.rewritten_sectors), (2, 2 * 48 + 40));
}

/// Writes with 8 outstanding until `stop`; the writes done, and the time.
fn random_writes(disk: &mut Disk, random: &mut Random, now: &mut Instant, writes: u64) {
    for _ in 0..writes {
        while disk.outstanding() < 8 {
            let lbn = random.below(disk.sectors() / 8) * 8;
            disk.submit(*now, write(lbn, 8));
        }
        *now = disk.start(*now).expect("commands are queued");
        disk.finish(*now);
    }
}

#[test]
fn the_shingled_drive_takes_random_writes_until_its_map_is_full() {
    for seed in 0..2 {
        let mut disk = Disk::new(&find("st8000as0002").unwrap());
        let (mut random, mut now) = (Random(seed), Instant::ZERO);
        random_writes(&mut disk, &mut random, &mut now, 240_000);
        let fast = 240_000.0 / (now.0 as f64 / 1e9);
        let before = counts(&mut disk, now);
        assert_eq!((before.bands_cleaned, before.moving.0), (0, 0));
        assert!(fast > 1000.0, "{fast} per second");
        random_writes(&mut disk, &mut random, &mut now, 30_000);
        let (begin, full) = (now, counts(&mut disk, now));
        random_writes(&mut disk, &mut random, &mut now, 200);
        let slow = 200.0 / (now.since(begin).0 as f64 / 1e9);
        let after = counts(&mut disk, now);
        let bands = after.bands_cleaned - full.bands_cleaned;
        let band_s = after.moving.0.saturating_sub(full.moving.0) as f64 / 1e9 / bands as f64;
        println!("seed {seed}: {fast:.0}/s, then {slow:.1}/s; {band_s:.2} s a band, {after:?}");
        assert!((0.5..10.0).contains(&slow), "{slow} per second");
        assert!((0.6..1.6).contains(&band_s), "{band_s} s a band");
        assert!(after.write_amplification() > 50.0);
        // Left alone it empties itself, a band in a second.
        let later = counts(&mut disk, now + Duration(3600 * S));
        let cleaned = later.bands_cleaned - after.bands_cleaned;
        assert!((2250..6000).contains(&cleaned), "{cleaned} bands in an hour");
    }
}

#[test]
fn the_shingled_drive_streams_at_the_rate_of_its_medium() {
    let spec = find("st8000as0002").unwrap();
    let mut disk = Disk::new(&spec);
    let mut now = Instant::ZERO;
    for turn in 0..2000 {
        serve(&mut disk, &mut now, write(turn * 2048, 2048));
    }
    let rate = 2000.0 * 2048.0 * 512.0 / (now.0 as f64 / 1e3);
    let counts = counts(&mut disk, now);
    assert!((170.0..200.0).contains(&rate), "{rate} MB/s");
    assert_eq!((counts.bands_cleaned, counts.cached_sectors), (0, 16384));
}

/// A FLUSH of scattered writes is one entry of the media cache, however many they are, also where
/// reads take the heads elsewhere; in place each costs its own seek.
#[test]
fn a_flush_through_a_media_cache_does_not_grow_with_the_writes() {
    let plain = find("ultrastar-hc320").unwrap();
    let toml = plain.to_toml();
    let cached = toml.replace(
        "[seek.fit]",
        "[media_cache]\nsectors = 2000000\nmap_entries = 100000\nentry_sectors = 2048\n\
         idle_ms = 500.0\n\n[seek.fit]",
    );
    let cached = DiskSpec::from_toml(&cached).unwrap();
    let flush = |spec: &DiskSpec, writes: u32, seed: u64| {
        let (mut disk, mut random) = (Disk::new(spec), Random(seed));
        let mut now = Instant::ZERO;
        let mut times: Vec<u64> = (0..60)
            .map(|_| {
                for _ in 0..writes {
                    let lbn = random.below(disk.sectors() / 8) * 8;
                    serve(&mut disk, &mut now, write(lbn, 8));
                }
                let elsewhere = random.below(disk.sectors() / 8) * 8;
                serve(&mut disk, &mut now, read(elsewhere, 8));
                let begin = now;
                now = disk.flush(now);
                let took = now.since(begin).0;
                now.0 += random.below(20) * MS;
                took
            })
            .collect();
        times.sort_unstable();
        times[times.len() / 2] as f64 / 1e6
    };
    for seed in 0..3 {
        let [one, many] = [1, 64].map(|writes| flush(&plain, writes, seed));
        let [cached_one, cached_many] = [1, 64].map(|writes| flush(&cached, writes, seed));
        println!("in place {one:.1}, {many:.1} ms; media cache {cached_one:.1}, {cached_many:.1}");
        assert!(one < 20.0 && many > 200.0, "{one}, {many}");
        assert!((8.0..20.0).contains(&cached_one) && (8.0..20.0).contains(&cached_many));
    }
}

#[test]
fn a_power_failure_loses_the_buffer_and_not_the_media_cache() {
    let text = format!("[write_back]\ncapacity_sectors = 64\n{}", shingled(""));
    let mut disk = Disk::new(&small(&text, ""));
    let mut now = Instant::ZERO;
    for turn in 0..4 {
        serve(&mut disk, &mut now, write(100 + 90 * turn, 4));
    }
    let lost = disk.unwritten(now, 0, 1000).len();
    assert!(lost > 0);
    now = disk.flush(now);
    assert_eq!(disk.unwritten(now, 0, 1000), []);
    assert_eq!(counts(&mut disk, now).held, 4, "they are in the media cache");
}

#[test]
fn contradictory_keys_are_refused() {
    let good = small(&shingled(""), "").to_toml();
    for (from, to, named) in [
        ("sectors = 144", "sectors = 90", "`media_cache.sectors` must be at least 96"),
        ("sectors = 144", "sectors = 648", "`media_cache.sectors` must be less than the outermost"),
        ("map_entries = 8", "map_entries = 7", "`media_cache.map_entries`"),
        ("entry_sectors = 24", "entry_sectors = 0", "`media_cache.entry_sectors`"),
        ("stream_sectors = 24", "stream_sectors = 0", "`shingled.stream_sectors`"),
    ] {
        assert!(good.contains(from), "{from} in {good}");
        let error = DiskSpec::from_toml(&good.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(named) && !error.contains('\n'), "{to}: {error}");
    }
    let mut spec = small(&shingled(""), "");
    spec.media_cache = None;
    let error = spec.validate().unwrap_err().to_string();
    assert_eq!(error, "`shingled` must be next to a [media_cache]");
}

#[test]
fn reading_ahead_ends_with_what_the_drive_offers() {
    let ahead = "[read_ahead]\nsegments = 2\nsegment_sectors = 48\nahead_sectors = 40\n";
    let mut disk = Disk::new(&small(&format!("{ahead}{CACHE}"), ""));
    let mut now = Instant::ZERO;
    let last = disk.sectors() - 4;
    serve(&mut disk, &mut now, read(last, 4));
    now.0 += S;
    // The heads are still over the innermost cylinder, not over the cache at the outer edge.
    let seek = serve(&mut disk, &mut now, read(0, 1)).service.seek;
    assert!(seek.0 > 3 * MS, "{seek:?}");
}
