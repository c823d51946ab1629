//! How long the model takes for a disk operation: random 4 KiB reads, 16 outstanding.
//!
//! `cargo run --release -p destage-disk --example speed [DISK [OPERATIONS]]`

use destage_disk::{Disk, DiskOp, DiskSpec, find};
use destage_engine::units::Instant;

const OUTSTANDING: usize = 16;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "stow-ref".to_string());
    let count = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(5_000_000);
    match find(&name) {
        Ok(spec) => measure(&spec, count),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn measure(spec: &DiskSpec, count: u64) {
    let mut disk = Disk::new(spec);
    let sectors = spec.sectors_per_page();
    let pages = disk.sectors() / u64::from(sectors);
    // The addresses are drawn first: drawing them is not the model's time.
    let mut state = 1_u64;
    let pool: Vec<u64> = (0..1_u64 << 16)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 16) % pages * u64::from(sectors)
        })
        .collect();
    let mut next = 0;
    let mut op = || {
        next += 1;
        DiskOp { lbn: pool[next & 0xffff], sectors, write: false, tag: 0 }
    };
    let mut now = Instant::ZERO;
    (0..OUTSTANDING).for_each(|_| disk.submit(now, op()));
    let begun = std::time::Instant::now();
    for _ in 0..count {
        now = disk.start(now).expect("a command is queued");
        disk.finish(now);
        disk.submit(now, op());
    }
    let ns = begun.elapsed().as_nanos() as f64 / count as f64;
    let rate = count as f64 / (now.0 as f64 / 1e9);
    println!(
        "{}: {ns:.1} ns per operation (submit + start + finish), {OUTSTANDING} outstanding, \
         window {}; the modelled drive does {rate:.1} IOPS",
        spec.name, spec.window
    );
}
