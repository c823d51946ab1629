//! Writes: their overhead and settling, the write cache, FLUSH and FUA. Only in the range that may
//! be overwritten.

use super::bench::{Bench, Search, Spot};
use super::layout::Layout;
use super::probe::{Command, Kind, MeasureError, ModelProbe, Probe};
use crate::figures::Random;
use crate::spec::{DiskSpec, WriteBack};

/// Sectors of a scattered write.
const SCATTERED: u32 = 8;
/// Scattered writes after which a cache that still takes them is counted as this large, and the
/// same for writes of [`LONG`] sectors.
const MOST_WRITES: u64 = 1500;
const LONG: u32 = 256;
const MOST_LONG: u64 = 2048;
/// Writes before each FLUSH.
pub(super) const FLUSHED: [u64; 3] = [1, 8, 64];

/// What writes cost. Times are in ns.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct Writes {
    /// Least time on the track of the write before.
    pub(super) same_track_ns: f64,
    /// Distance in cylinders of the next three, and of reads before reads.
    pub(super) apart: u32,
    pub(super) write_after_write_ns: f64,
    pub(super) write_after_read_ns: f64,
    pub(super) read_after_write_ns: f64,
    pub(super) read_after_read_ns: f64,
    /// A read that the buffer serves, after a write elsewhere.
    pub(super) held_after_write_ns: Option<f64>,
    /// The write cache, if there is one.
    pub(super) cache: Option<WriteCache>,
}

/// A volatile write cache.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) struct WriteCache {
    /// Service of a write that it takes, after a write and after a read.
    pub(super) accept_ns: f64,
    pub(super) after_read_ns: f64,
    /// What one more sector adds.
    pub(super) sector_ns: f64,
    pub(super) capacity_sectors: u32,
    /// Stretches that it holds, if they are the limit.
    pub(super) extents: u32,
    /// FLUSH after each number of [`FLUSHED`].
    pub(super) flush_ns: [f64; 3],
    /// Writes with FUA could be measured; else writes on the medium are taken to be as reads.
    pub(super) durable: bool,
}

/// Pages of the writable range, in random order but the same each time.
struct Scatter {
    random: Random,
    first: u64,
    pages: u64,
}

impl Scatter {
    fn new(bench: &Bench<'_>, seed: u64) -> Scatter {
        let range = bench.probe.writable();
        let pages = (range.end - range.start) / u64::from(LONG);
        Scatter { random: Random(seed), first: range.start, pages }
    }

    fn next(&mut self, sectors: u32) -> Command {
        let lbn = self.first + self.random.below(self.pages) * u64::from(LONG);
        Command { lbn, sectors, kind: Kind::Write }
    }
}

/// Measures writes. The range has to span some cylinders.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    layout: &Layout,
) -> Result<Option<Writes>, MeasureError> {
    let range = bench.probe.writable();
    let first = layout.cylinder_of(range.start) + 2;
    let last = layout.cylinder_of(range.end.saturating_sub(1).max(range.start));
    if last < first + 8 {
        return Ok(None);
    }
    bench.probe.flush()?;
    let cache = write_cache(bench)?;
    let durable = cache.is_none() || bench.probe.offers_durable();
    let write = match (&cache, durable) {
        (Some(_), true) => Kind::DurableWrite,
        _ => Kind::Write,
    };
    let cache = cache.map(|cache| WriteCache { durable, ..cache });
    let apart = (last - first) / 2;
    let from = first + (last - first) / 8;
    let search = Search {
        resolution_ns: (bench.revolution_ns / 500.0).max(2.0 * bench.tolerance_ns),
        guess_ns: None,
        buffered_ns: 0.0,
        one_way: false,
    };
    let one_way = Search { one_way: true, buffered_ns: bench.buffered_ns, ..search };
    let turn_ns = bench.revolution_ns;
    let spot = |cylinder: u32, kind| Spot { kind, ..layout.spot(cylinder, turn_ns) };
    let other = from + apart;
    let reads = [spot(from + 1, Kind::Read), spot(other + 1, Kind::Read)];
    let read_after_read_ns =
        bench.least(reads, &Search { buffered_ns: bench.buffered_ns, ..search })?;
    let mut writes = Writes {
        same_track_ns: 0.0,
        apart,
        write_after_write_ns: 0.0,
        write_after_read_ns: 0.0,
        read_after_write_ns: read_after_read_ns,
        read_after_read_ns,
        held_after_write_ns: held_after_write(bench, write)?,
        cache,
    };
    if durable {
        let near = spot(from, write);
        let below = Spot { lbn: near.lbn - near.track / 4, ..near };
        writes.same_track_ns = bench.least([near, below], &search)?;
        writes.write_after_write_ns =
            bench.least([spot(from, write), spot(other, write)], &search)?;
        writes.write_after_read_ns =
            bench.least([spot(from + 2, Kind::Read), spot(other + 2, write)], &one_way)?;
        writes.read_after_write_ns =
            bench.least([spot(from + 3, write), spot(other + 3, Kind::Read)], &one_way)?;
    }
    Ok(Some(writes))
}

/// The write cache, if scattered writes are acknowledged before they can be on the medium.
fn write_cache(bench: &mut Bench<'_>) -> Result<Option<WriteCache>, MeasureError> {
    let mut scatter = Scatter::new(bench, 5);
    let early_ns = 0.35 * bench.revolution_ns;
    let accept = |bench: &mut Bench<'_>, scatter: &mut Scatter, read: bool, sectors: u32| {
        let mut services = Vec::new();
        for _ in 0..7 {
            bench.probe.flush()?;
            if read {
                let far = bench.far_from(0);
                bench.read(0.0, far)?;
            } else {
                bench.serve(0.0, scatter.next(1))?;
            }
            services.push(bench.serve(0.0, scatter.next(sectors))?.service_ns());
        }
        services.sort_by(f64::total_cmp);
        Ok(services[3])
    };
    let accept_ns = accept(bench, &mut scatter, false, 1)?;
    if accept_ns > early_ns {
        return Ok(None);
    }
    let after_read_ns = accept(bench, &mut scatter, true, 1)?;
    let sixteen_ns = accept(bench, &mut scatter, false, 16)?;
    let short = taken(bench, SCATTERED, MOST_WRITES)?;
    let long = taken(bench, LONG, MOST_LONG)?;
    let (capacity_sectors, extents) = match (short, long) {
        // As many stretches of either length: these are what is counted.
        (Some(short), Some(long)) if short * u64::from(SCATTERED) * 8 < long * u64::from(LONG) => {
            ((long * u64::from(LONG)).max(1) as u32, short as u32)
        }
        (Some(short), None) if sixteen_ns * f64::from(LONG / 16) < 0.3 * bench.far_ns => {
            (MOST_LONG as u32 * LONG, short as u32)
        }
        (_, Some(long)) if long > 1 => ((long * u64::from(LONG)) as u32, 0),
        (Some(short), _) => ((short * u64::from(SCATTERED)) as u32, 0),
        _ => (MOST_LONG as u32 * LONG, 0),
    };
    let mut flush_ns = [0.0; 3];
    for (at, writes) in FLUSHED.into_iter().enumerate() {
        flush_ns[at] = flushed(bench.probe, writes)?;
        bench.commands += 5 * writes;
    }
    Ok(Some(WriteCache {
        accept_ns,
        after_read_ns,
        sector_ns: ((sixteen_ns - accept_ns) / 15.0).max(0.0),
        capacity_sectors: capacity_sectors.max(1),
        extents,
        flush_ns,
        durable: true,
    }))
}

/// Service of a read of the sector after the last read, with a write in between, if the buffer
/// serves it.
fn held_after_write(bench: &mut Bench<'_>, kind: Kind) -> Result<Option<f64>, MeasureError> {
    if bench.buffered_ns == 0.0 {
        return Ok(None);
    }
    let mut scatter = Scatter::new(bench, 13);
    let mut services = Vec::new();
    for _ in 0..9 {
        let write = Command { kind, ..scatter.next(1) };
        let lbn = bench.far_from(write.lbn);
        bench.read(0.0, lbn)?;
        bench.serve(bench.revolution_ns / 10.0, write)?;
        services.push(bench.read(0.0, lbn + 1)?.service_ns());
    }
    services.sort_by(f64::total_cmp);
    Ok((services[4] < 0.6 * bench.far_ns).then_some(services[4]))
}

/// Scattered writes that an empty cache takes before one has to wait, less those that the drive
/// wrote in the meantime; none if it takes them all.
fn taken(bench: &mut Bench<'_>, sectors: u32, most: u64) -> Result<Option<u64>, MeasureError> {
    bench.probe.flush()?;
    let mut scatter = Scatter::new(bench, 11 + u64::from(sectors));
    let begun = bench.serve(0.0, scatter.next(sectors))?.done_ns;
    let mut least = f64::INFINITY;
    for number in 0..most {
        let service = bench.serve(0.0, scatter.next(sectors))?.service_ns();
        least = least.min(service);
        if service > least + 0.15 * bench.revolution_ns {
            let gone = bench.done_ns.saturating_sub(begun) as f64;
            let written = (gone / bench.far_ns) as u64;
            return Ok(Some(number.saturating_sub(written).max(1)));
        }
    }
    Ok(None)
}

/// Mean time of a FLUSH after some scattered writes, in ns.
fn flushed(probe: &mut dyn Probe, writes: u64) -> Result<f64, MeasureError> {
    let range = probe.writable();
    let pages = (range.end - range.start) / u64::from(LONG);
    let mut random = Random(writes);
    let mut sum = 0.0;
    let rounds = if writes == 1 { 15 } else { 5 };
    for _ in 0..rounds {
        probe.flush()?;
        for _ in 0..writes {
            let lbn = range.start + random.below(pages) * u64::from(LONG);
            probe.serve(0, Command { lbn, sectors: SCATTERED, kind: Kind::Write })?;
        }
        sum += probe.flush()?.service_ns();
    }
    Ok(sum / f64::from(rounds))
}

/// Sets the write cache of a spec: the order in which it writes, and the fixed part of a FLUSH,
/// are those with which its model's FLUSHes take as long as the drive's.
pub(super) fn fit(
    spec: &mut DiskSpec,
    cache: &WriteCache,
    writable: std::ops::Range<u64>,
) -> Result<(), MeasureError> {
    let mut best = (f64::INFINITY, WriteBack::default());
    for window in [1, 2, 4, 8, 16, 32, 0] {
        let mut write_back = WriteBack {
            capacity_sectors: cache.capacity_sectors,
            extents: cache.extents,
            window,
            ..WriteBack::default()
        };
        spec.write_back = Some(write_back);
        let mut probe = ModelProbe::new(spec, writable.clone());
        let mut apart = [0.0; 3];
        for (at, writes) in FLUSHED.into_iter().enumerate() {
            apart[at] = cache.flush_ns[at] - flushed(&mut probe, writes)?;
        }
        let fixed = (apart.iter().sum::<f64>() / 3.0).clamp(0.0, 4e9);
        let off = |at: usize| ((apart[at] - fixed) / cache.flush_ns[at].max(1.0)).abs();
        let off = off(0) + off(1) + off(2);
        if off < best.0 - 0.01 {
            write_back.flush_ms = (fixed / 1e4).round() / 100.0;
            best = (off, write_back);
        }
    }
    spec.write_back = Some(best.1);
    Ok(())
}
