//! A drive's figures, measured by running its model.

use destage_engine::units::{Duration, Instant};

use crate::disk::{Disk, Service};
use crate::head::DiskOp;
use crate::model::{DiskModel, zones};
use crate::spec::DiskSpec;

/// Operations behind each random figure.
const OPERATIONS: u64 = 20_000;
/// Cylinders read for a zone's rate.
const RATE_CYLINDERS: u64 = 8;

/// What a drive does, mechanics only: its read-ahead and write-back cache are left off.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Mean seek of random reads.
    pub avg_seek: Duration,
    /// Seek from the first cylinder to the last.
    pub max_seek: Duration,
    /// Seek to the next cylinder.
    pub single_track_seek: Duration,
    /// One revolution.
    pub revolution: Duration,
    /// Sectors of the drive's own size.
    pub sectors: u64,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Rate of a long read in each zone, outermost first.
    pub zones: Vec<ZoneRate>,
    /// Random aligned 4 KiB reads per second, one outstanding.
    pub random_read_iops_1: f64,
    /// Random aligned 4 KiB reads per second, 16 outstanding.
    pub random_read_iops_16: f64,
}

/// The rate of a long read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneRate {
    /// First sector of the zone.
    pub first_lbn: u64,
    /// Sustained rate, with head and cylinder switches, in 10^6 bytes/s.
    pub mb_per_s: f64,
}

/// The generator of the random addresses: splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn read(lbn: u64, sectors: u32) -> DiskOp {
    DiskOp { lbn, sectors, write: false, tag: 0 }
}

/// Serves one read on an otherwise idle disk.
fn serve(disk: &mut Disk, now: &mut Instant, op: DiskOp) -> Service {
    disk.submit(*now, op);
    *now = disk.start(*now).expect("a command is queued");
    disk.finish(*now).service
}

impl Figures {
    /// Measures a valid spec; the same spec always gives the same figures.
    pub fn measure(spec: &DiskSpec) -> Figures {
        let spec = DiskSpec { read_ahead: None, write_back: None, ..spec.clone() };
        let model = DiskModel::new(&spec);
        let fresh = || Disk::with_model(model.clone(), &spec);
        let (iops_1, avg_seek) = random_reads(fresh(), &spec, (1, OPERATIONS));
        let (iops_16, _) = random_reads(fresh(), &spec, (16, OPERATIONS));
        let sectors = model.sectors;
        let mut disk = fresh();
        let mut now = Instant::ZERO;
        serve(&mut disk, &mut now, read(0, 1));
        let max_seek = serve(&mut disk, &mut now, read(sectors - 1, 1)).seek;
        Figures {
            avg_seek,
            max_seek,
            single_track_seek: single_track(fresh(), &spec),
            revolution: Duration(u64::from(model.revolution.ns)),
            sectors,
            capacity_bytes: sectors * u64::from(spec.sector_bytes),
            zones: zone_rates(fresh(), &spec),
            random_read_iops_1: iops_1,
            random_read_iops_16: iops_16,
        }
    }
}

/// Random aligned 4 KiB reads per second with this many outstanding, at least 1, mechanics only,
/// measured over this many.
pub fn random_read_iops(spec: &DiskSpec, outstanding: usize, operations: u64) -> f64 {
    let spec = DiskSpec { read_ahead: None, write_back: None, ..spec.clone() };
    random_reads(Disk::new(&spec), &spec, (outstanding, operations)).0
}

/// Reads per second and the mean seek, with this many outstanding.
fn random_reads(
    mut disk: Disk,
    spec: &DiskSpec,
    (outstanding, operations): (usize, u64),
) -> (f64, Duration) {
    let sectors = spec.sectors_per_page();
    let pages = (disk.sectors() / u64::from(sectors)).max(1);
    let mut random = Random(outstanding as u64);
    let mut op = || read(random.below(pages) * u64::from(sectors), sectors);
    let (mut now, mut seek_ns) = (Instant::ZERO, 0);
    (1..outstanding).for_each(|_| disk.submit(Instant::ZERO, op()));
    for _ in 0..operations {
        disk.submit(now, op());
        now = disk.start(now).expect("a command is queued");
        seek_ns += disk.finish(now).service.seek.0;
    }
    (operations as f64 / now.since(Instant::ZERO).as_secs_f64(), Duration(seek_ns / operations))
}

/// The least seek between the first two cylinders, over the tracks of the second.
fn single_track(mut disk: Disk, spec: &DiskSpec) -> Duration {
    let first = disk.cylinder_of(0);
    let (mut low, mut high) = (0, disk.sectors());
    while low + 1 < high {
        let middle = low.midpoint(high);
        if disk.cylinder_of(middle) == first { low = middle } else { high = middle }
    }
    if high == disk.sectors() {
        return Duration::ZERO;
    }
    let track = u64::from(zones(spec)[0].sectors_per_track);
    let mut now = Instant::ZERO;
    let mut seek = |turn: u64| {
        let target = (high + turn * track).min(disk.sectors() - 1);
        serve(&mut disk, &mut now, read(0, 1));
        serve(&mut disk, &mut now, read(target, 1)).seek
    };
    (0..u64::from(spec.heads)).map(&mut seek).min().unwrap_or(Duration::ZERO)
}

/// One long read in each zone.
fn zone_rates(mut disk: Disk, spec: &DiskSpec) -> Vec<ZoneRate> {
    let mut now = Instant::ZERO;
    let rate = |zone: crate::model::ZoneInfo| {
        let cylinder = u64::from(spec.heads) * u64::from(zone.sectors_per_track);
        let sectors = zone.sectors.min(cylinder * RATE_CYLINDERS);
        let service = serve(&mut disk, &mut now, read(zone.first_lbn, sectors as u32));
        let bytes = sectors as f64 * f64::from(spec.sector_bytes);
        ZoneRate { first_lbn: zone.first_lbn, mb_per_s: bytes * 1e3 / service.transfer.0 as f64 }
    };
    zones(spec).into_iter().map(rate).collect()
}
