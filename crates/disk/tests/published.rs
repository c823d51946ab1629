//! The models of modern drives against published figures of the drives: the table of
//! docs/disk-models.md. `cargo test -p destage-disk --test published -- --nocapture` prints it.

mod common;

use common::{Random, read, serve, write};
use destage_disk::{Disk, DiskOp, find};
use destage_engine::units::Instant;

const MS: f64 = 1e6;
/// A published figure may be missed by this share.
const FAR: f64 = 0.15;

/// Random aligned addresses of 4 KiB all over a disk.
fn random_4k(disk: &Disk, random: &mut Random) -> u64 {
    random.below(disk.sectors() / 8) * 8
}

/// Response times in ms, sorted, of single random reads.
fn random_reads(name: &str) -> Vec<f64> {
    let (mut disk, mut now) = (Disk::new(&find(name).unwrap()), Instant::ZERO);
    let mut random = Random(1);
    let mut one = || {
        let lbn = random_4k(&disk, &mut random);
        serve(&mut disk, &mut now, read(lbn, 8)).service.total().0 as f64 / MS
    };
    let mut times: Vec<f64> = (0..20_000).map(|_| one()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Random reads or writes per second with this many outstanding, over 30 s from an empty cache.
fn random_rate(name: &str, depth: usize, op: fn(u64, u32) -> DiskOp) -> f64 {
    let (mut disk, mut now) = (Disk::new(&find(name).unwrap()), Instant::ZERO);
    let mut random = Random(2);
    let mut done = 0;
    while now < Instant(30_000_000_000) {
        while disk.outstanding() < depth {
            let lbn = random_4k(&disk, &mut random);
            disk.submit(now, op(lbn, 8));
        }
        now = disk.start(now).unwrap();
        disk.finish(now);
        done += 1;
    }
    f64::from(done) / (now.0 as f64 / 1e9)
}

/// Rate in MB/s of runs of 64 MiB in requests of 1 MiB, at places all over a disk.
fn sequential(name: &str, op: fn(u64, u32) -> DiskOp, places: u64) -> f64 {
    let (mut disk, mut now) = (Disk::new(&find(name).unwrap()), Instant::ZERO);
    let mut bytes = 0.0;
    for place in 0..places {
        let begin = disk.sectors() / places * place / 8 * 8;
        let mut requests = (0..256).map(|i| begin + i * 2048).peekable();
        while requests.peek().is_some() || disk.outstanding() > 0 {
            while let Some(lbn) = requests.next_if(|_| disk.outstanding() < 2) {
                disk.submit(now, op(lbn, 2048));
            }
            now = disk.start(now).unwrap();
            bytes += f64::from(disk.finish(now).op.sectors) * 512.0;
        }
        now = disk.flush(now);
    }
    bytes / 1e6 / (now.0 as f64 / 1e9)
}

/// Median time of a FLUSH in ms after this many scattered writes of 4 KiB.
fn flush(name: &str, writes: u64) -> f64 {
    let (mut disk, mut now) = (Disk::new(&find(name).unwrap()), Instant::ZERO);
    let mut random = Random(3);
    let mut times: Vec<f64> = (0..101)
        .map(|_| {
            for _ in 0..writes {
                let lbn = random_4k(&disk, &mut random);
                serve(&mut disk, &mut now, write(lbn, 8));
            }
            let begin = now;
            now = disk.flush(now);
            let took = now.since(begin).0 as f64 / MS;
            now.0 += random.below(20_000_000);
            took
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Random writes with 8 outstanding that a shingled drive takes before one waits for a band; the
/// seconds that a band takes then; and the writes per second.
fn shingled(name: &str) -> (f64, f64, f64) {
    let (mut disk, mut now) = (Disk::new(&find(name).unwrap()), Instant::ZERO);
    let mut random = Random(4);
    let mut one = |now: &mut Instant| {
        while disk.outstanding() < 8 {
            let lbn = random_4k(&disk, &mut random);
            disk.submit(*now, write(lbn, 8));
        }
        *now = disk.start(*now).unwrap();
        disk.finish(*now);
        disk.media_counts(*now).unwrap()
    };
    let mut counts = one(&mut now);
    while counts.waited.0 == 0 {
        counts = one(&mut now);
    }
    let until = counts.cached_sectors as f64 / 8.0;
    let (begin, first) = (now, counts);
    (0..400).for_each(|_| counts = one(&mut now));
    let bands = (counts.bands_cleaned - first.bands_cleaned) as f64;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let band_s = seconds(counts.moving.0 - first.moving.0) / bands;
    (until, band_s, 400.0 / seconds(now.since(begin).0))
}

/// Prints a row and says whether it is near enough.
fn row(drive: &str, what: &str, published: (f64, f64), modelled: f64) -> bool {
    let (low, high) = published;
    let near = modelled >= low * (1.0 - FAR) && modelled <= high * (1.0 + FAR);
    let mark = if near { "" } else { " MISSED" };
    println!("| {drive} | {what} | {low} to {high} | {modelled:.1} |{mark}");
    near
}

#[test]
fn published_figures_are_met_within_fifteen_percent() {
    let mut missed = Vec::new();
    let mut hold = |drive: &str, what: &str, published: (f64, f64), modelled: f64| {
        if !row(drive, what, published, modelled) {
            missed.push(format!("{drive}: {what}"));
        }
    };
    let one = |x: f64| (x, x);
    let name = "st2000dm006";
    let times = random_reads(name);
    hold(name, "random read, depth 1, p50 (ms)", one(17.7), times[times.len() / 2]);
    hold(name, "random read, depth 1, p99 (ms)", one(28.4), times[times.len() * 99 / 100]);
    hold(name, "random read, depth 32 (I/O/s)", one(94.0), random_rate(name, 32, read));
    hold(name, "random write, 30 s (I/O/s)", one(124.0), random_rate(name, 1, write));
    hold(name, "sequential read (MB/s)", one(143.0), sequential(name, read, 24));
    hold(name, "sequential write (MB/s)", one(132.0), sequential(name, write, 24));
    hold(name, "FLUSH after 8 writes (ms)", one(127.0), flush(name, 8));
    hold(name, "FLUSH after 64 writes (ms)", one(630.0), flush(name, 64));
    let name = "ultrastar-hc320";
    let times = random_reads(name);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    hold(name, "random read, depth 1, mean (ms)", one(12.2), mean);
    hold(name, "random read, depth 32 (I/O/s)", one(200.0), random_rate(name, 32, read));
    hold(name, "sequential read, outer edge (MB/s)", one(255.0), sequential(name, read, 1));
    hold(name, "FLUSH after 1 write (ms)", (13.0, 16.0), flush(name, 1));
    let name = "exos-x20";
    hold(name, "random read, depth 16 (I/O/s)", one(168.0), random_rate(name, 16, read));
    hold(name, "sequential read, outer edge (MB/s)", one(285.0), sequential(name, read, 1));
    let name = "exos-2x18-unit";
    hold(name, "random read, depth 16 (I/O/s)", one(152.0), random_rate(name, 16, read));
    hold(name, "sequential read, outer edge (MB/s)", one(272.5), sequential(name, read, 1));
    let name = "st8000as0002";
    hold(name, "sequential read, outer edge (MB/s)", one(190.0), sequential(name, read, 1));
    let (until, band_s, rate) = shingled(name);
    hold(name, "random writes until one waits", one(250_000.0), until);
    hold(name, "then cleaning a band (s)", (0.6, 1.6), band_s);
    hold(name, "then random write, depth 8 (I/O/s)", one(3.0), rate);
    assert!(missed.is_empty(), "{missed:?}");
}
