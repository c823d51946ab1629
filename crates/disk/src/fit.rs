//! A spec from what is known of a drive without a trace: the numbers of a data sheet, or rates that
//! were measured. What they leave open is assumed, and [`Fit`] says how much that matters.

use crate::disk::Disk;
use crate::figures::random_read_iops;
use crate::model::zones;
use crate::seek::fit_coefficients;
use crate::spec::{
    DiskSpec, HostSpec, LinearZones, Overhead, Scheduler, Seek, SeekFit, SparesPer, SpecError,
    TrackOrder, WriteBack, Zones,
};
use thiserror::Error;

/// Depths at which a fit predicts random reads.
pub const DEPTHS: [usize; 2] = [1, 32];
/// Random reads behind each rate.
const OPERATIONS: u64 = 5000;
/// Pairs of places behind a mean seek.
const PAIRS: u64 = 4096;
const ZONES: u32 = 16;
/// No drive's mean seek is longer, in ms.
const MEAN_SEEK_MAX_MS: f64 = 50.0;
/// No drive's buffer is smaller.
const BUFFER_MIN_BYTES: u64 = 64 << 10;
/// Windows that are tried where reads at depths above 1 were measured.
const WINDOWS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// What is known of a drive. Times are in ms, rates in 10^6 bytes/s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Name of the spec.
    pub name: String,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Revolutions per minute.
    pub rpm: f64,
    /// Bytes in a sector.
    pub sector_bytes: u32,
    /// Surfaces with data.
    pub heads: Option<u32>,
    /// Mean seek of reads.
    pub seek_ms: Option<f64>,
    /// Mean seek of writes.
    pub write_seek_ms: Option<f64>,
    /// Seek to the next cylinder.
    pub track_seek_ms: Option<f64>,
    /// Full stroke.
    pub full_seek_ms: Option<f64>,
    /// Sustained rate at the outer edge.
    pub outer_mb_per_s: Option<f64>,
    /// Sustained rate at the inner edge.
    pub inner_mb_per_s: Option<f64>,
    /// The drive's buffer, in bytes.
    pub cache_bytes: Option<u64>,
    /// Random 4 KiB reads per second that were measured over the drive, by depth.
    pub reads: Vec<(usize, f64)>,
}

/// Why no spec can be made of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FitError {
    /// Something is missing.
    #[error("{0} is missing: {1}")]
    Missing(&'static str, &'static str),
    /// Two numbers exclude each other.
    #[error("{0}")]
    Contradiction(String),
    /// The numbers make no disk.
    #[error("no disk has these numbers: {0}")]
    Spec(#[from] SpecError),
}

/// What is assumed where it is not known: a typical value, and between which it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Assumed {
    what: &'static str,
    unit: &'static str,
    low: f64,
    typical: f64,
    high: f64,
}

/// A number of the spec.
#[derive(Clone, Debug, PartialEq)]
pub struct FitRow {
    /// Key of the spec, or what it follows from.
    pub key: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
    /// Where it is from.
    pub from: &'static str,
    /// Between which an assumed value may be.
    pub range: Option<(f64, f64)>,
    /// Random reads per second at both ends of that range, by [`DEPTHS`].
    pub reads: Option<[(f64, f64); 2]>,
}

/// A spec with what it leaves open.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The spec, with typical values where nothing is known.
    pub spec: DiskSpec,
    /// Its numbers.
    pub rows: Vec<FitRow>,
    /// Random reads per second by [`DEPTHS`]: the least and the most over all that is assumed, and
    /// in the middle what the spec has.
    pub reads: [(f64, f64, f64); 2],
}

const HEADS: usize = 0;
const TRACK_SEEK: usize = 1;
const FULL_RATIO: usize = 2;
const INNER_RATIO: usize = 3;
const HEAD_SWITCH: usize = 4;
const SETTLE: usize = 5;
const OVERHEAD: usize = 6;
const WINDOW: usize = 7;
const BUFFER: usize = 8;

impl Known {
    /// What has to be assumed; a range of no width is known or measured. The seek to the next
    /// cylinder is a share of the mean seek here. Of what [`Known::build`] derives from other
    /// numbers that were given, the values do not count.
    fn assumed(&self) -> [Assumed; 9] {
        let one = |what, unit, range: [f64; 3], known: Option<f64>| {
            let [low, typical, high] = known.map_or(range, |known| [known; 3]);
            Assumed { what, unit, low, typical, high }
        };
        let terabytes = (self.capacity_bytes as f64 / 1e12).ceil().max(2.0);
        let derived = |given: Option<f64>| given.map(|_| 0.0);
        let heads = [(terabytes / 2.0).ceil(), terabytes, 2.0 * terabytes];
        let inner = self.inner_mb_per_s.zip(self.outer_mb_per_s).map(|(i, o)| i / o);
        let track = [0.06, 0.1, 0.2];
        let buffer = self.cache_bytes.is_none().then_some(0.0);
        [
            one("heads", "-", heads, self.heads.map(f64::from)),
            one("seek.fit.one_cylinder_ms", "ms", track, derived(self.track_seek_ms)),
            one("full stroke / mean seek", "-", [1.7, 1.9, 2.3], derived(self.full_seek_ms)),
            one("inner / outer rate", "-", [0.42, 0.5, 0.7], inner),
            one("head_switch_ms", "ms", [0.4, 0.8, 1.2], None),
            one("write_settle_ms", "ms", [0.0, 0.3, 0.8], derived(self.write_seek_ms)),
            one("overhead.per_command_ms", "ms", [0.02, 0.2, 0.6], None),
            one("window", "commands", [2.0, 16.0, 32.0], None),
            one("share of the buffer for writes", "-", [0.1, 0.25, 0.5], buffer),
        ]
    }

    fn revolution_ms(&self) -> f64 {
        6e4 / self.rpm
    }

    fn check(&self) -> Result<(), FitError> {
        if self.heads == Some(0) {
            let message = "a drive has at least one head: give 1 or more, or leave it out";
            return Err(FitError::Contradiction(message.to_string()));
        }
        for seek in self.seek_ms.into_iter().chain(self.write_seek_ms) {
            check_mean_seek(seek)?;
        }
        if self.seek_ms.is_none() && self.at_depth_one().is_none() {
            let ways = "give the mean seek, or random reads measured at depth 1";
            return Err(FitError::Missing("how long a seek takes", ways));
        }
        if self.outer_mb_per_s.is_none() {
            let ways = "give the sustained rate, or a sequential read measured at offset 0";
            return Err(FitError::Missing("the rate at the outer edge", ways));
        }
        let rising = [self.track_seek_ms, self.seek_ms, self.full_seek_ms];
        let rising: Vec<f64> = rising.into_iter().flatten().collect();
        if rising.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(FitError::Contradiction(
                "a seek curve rises: the seek to the next track must be below the mean seek, and \
                 that below the full stroke"
                    .to_string(),
            ));
        }
        if let Some(bytes) = self.cache_bytes.filter(|bytes| *bytes < BUFFER_MIN_BYTES) {
            return Err(FitError::Contradiction(format!(
                "a buffer of {bytes} bytes is below 64 KiB, which no drive has: give its size, \
                 e.g. 256M"
            )));
        }
        if self.inner_mb_per_s > self.outer_mb_per_s {
            let message = "the rate at the inner edge is above that at the outer edge";
            return Err(FitError::Contradiction(message.to_string()));
        }
        Ok(())
    }

    fn at_depth_one(&self) -> Option<f64> {
        self.reads.iter().find(|(depth, _)| *depth == 1).map(|(_, iops)| 1e3 / iops)
    }

    /// Mean seek, and the overhead of a command that measured reads leave.
    fn seek_and_overhead(&self, values: &[f64; 9]) -> Result<(f64, f64), FitError> {
        let outer = self.outer_mb_per_s.unwrap_or(1.0);
        let mean_rate = outer * f64::midpoint(1.0, values[INNER_RATIO]);
        let rotation = self.revolution_ms() / 2.0 + 4.096 / mean_rate;
        let Some(measured) = self.at_depth_one() else {
            return Ok((self.seek_ms.unwrap_or_default(), values[OVERHEAD]));
        };
        let (seek, overhead) = match self.seek_ms {
            Some(seek) => (seek, measured - rotation - seek),
            None => (measured - rotation - values[OVERHEAD], values[OVERHEAD]),
        };
        if seek <= 0.0 || overhead < 0.0 {
            let half = self.revolution_ms() / 2.0;
            let seek =
                self.seek_ms.map_or(String::new(), |seek| format!(" and a seek of {seek} ms"));
            return Err(FitError::Contradiction(format!(
                "a read at depth 1 took {measured:.2} ms, which is less than half a revolution \
                 ({half:.2} ms){seek}. Measure over the entire drive, without its cache."
            )));
        }
        check_mean_seek(seek)?;
        Ok((seek, overhead))
    }

    fn build(&self, values: &[f64; 9]) -> Result<DiskSpec, FitError> {
        let (seek_ms, per_command_ms) = self.seek_and_overhead(values)?;
        let (heads, switch) = (values[HEADS].round().max(1.0), values[HEAD_SWITCH]);
        let track_seek =
            self.track_seek_ms.unwrap_or_else(|| readable(values[TRACK_SEEK] * seek_ms));
        let settle = self.write_seek_ms.map_or(values[SETTLE], |write| readable(write - seek_ms));
        // Skews cover the switches, so a track takes a revolution and a switch.
        let switches = ((heads - 1.0) * switch + switch.max(track_seek)) / heads;
        let track_ms = self.revolution_ms() + switches;
        let outer = self.outer_mb_per_s.unwrap_or(1.0);
        let sectors = |rate: f64| (rate * 1e3 * track_ms / f64::from(self.sector_bytes)).round();
        let zones = LinearZones {
            count: ZONES,
            outer_sectors: sectors(outer) as u32,
            inner_sectors: sectors(outer * values[INNER_RATIO]) as u32,
        };
        let write_back = self.cache_bytes.map(|bytes| WriteBack {
            capacity_sectors: (bytes as f64 * values[BUFFER] / f64::from(self.sector_bytes)) as u32,
            window: values[WINDOW] as u32,
            ..WriteBack::default()
        });
        let full_ms = self.full_seek_ms.unwrap_or(values[FULL_RATIO] * seek_ms);
        let fit = SeekFit { one_cylinder_ms: track_seek, third_ms: seek_ms, full_ms };
        let mut spec = DiskSpec {
            name: self.name.clone(),
            summary: format!("{}, fitted by `destage disks fit`", self.name),
            source: "numbers given to `destage disks fit`; the rest assumed".to_string(),
            sector_bytes: self.sector_bytes,
            sectors: Some(self.capacity_bytes / u64::from(self.sector_bytes)),
            units: 1,
            heads: heads as u32,
            rpm: self.rpm,
            head_switch_ms: switch,
            write_settle_ms: settle,
            jog_ms: 0.0,
            order: TrackOrder::Forward,
            spares_per: SparesPer::Zone,
            range_cylinders: 1,
            window: values[WINDOW] as usize,
            scheduler: Scheduler::Sptf,
            max_wait_ms: 0.0,
            read_on_arrival: false,
            bus_mb_per_s: None,
            bus: None,
            overhead: Overhead { per_command_ms, ..Overhead::default() },
            host: HostSpec::default(),
            read_ahead: None,
            write_back,
            media_cache: None,
            shingled: None,
            seek: Seek::Fit(fit),
            zones: Zones::Linear(zones),
        };
        // Only the curve is open from here on, so the zones can be laid out once.
        spec.seek = Seek::Fit(SeekFit { third_ms: f64::midpoint(track_seek, full_ms), ..fit });
        spec.validate()?;
        spec.seek = Seek::Fit(SeekFit { third_ms: third(&spec, fit, seek_ms)?, ..fit });
        spec.validate()?;
        Ok(spec)
    }

    /// Makes the spec, and finds what its assumptions are worth.
    ///
    /// # Errors
    /// Something is missing, or the numbers exclude each other.
    pub fn fit(&self) -> Result<Fit, FitError> {
        self.check()?;
        let mut assumed = self.assumed();
        if self.seek_ms.is_some() && self.at_depth_one().is_some() {
            let (_, overhead) = self.seek_and_overhead(&assumed.map(|a| a.typical))?;
            let fixed = &mut assumed[OVERHEAD];
            (fixed.low, fixed.typical, fixed.high) = (overhead, overhead, overhead);
        }
        if let Some(window) = self.best_window(&assumed.map(|a| a.typical))? {
            let window = window as f64;
            let fixed = &mut assumed[WINDOW];
            (fixed.low, fixed.typical, fixed.high) = (window, window, window);
        }
        let typical = assumed.map(|a| a.typical);
        let spec = self.build(&typical)?;
        let rates = |values: &[f64; 9]| -> Result<[f64; 2], FitError> {
            let spec = self.build(values)?;
            Ok(DEPTHS.map(|depth| random_read_iops(&spec, depth, OPERATIONS)))
        };
        let middle = rates(&typical)?;
        let (mut least, mut most) = ([typical; 2], [typical; 2]);
        let mut open = Vec::new();
        for (at, what) in assumed.iter().enumerate().filter(|(_, a)| a.low < a.high) {
            let with = |value| {
                let mut values = typical;
                values[at] = value;
                rates(&values)
            };
            let (low, high) = (with(what.low)?, with(what.high)?);
            for depth in 0..DEPTHS.len() {
                let down = low[depth] < high[depth];
                least[depth][at] = if down { what.low } else { what.high };
                most[depth][at] = if down { what.high } else { what.low };
            }
            open.push((at, [(low[0], high[0]), (low[1], high[1])]));
        }
        let mut reads = [(0.0, 0.0, 0.0); 2];
        for (depth, read) in reads.iter_mut().enumerate() {
            // What moves reads by less than chance may move them the other way in combination.
            let ends = [rates(&least[depth])?[depth], rates(&most[depth])?[depth], middle[depth]];
            let single = open.iter().flat_map(|(_, ends)| [ends[depth].0, ends[depth].1]);
            let all = || ends.into_iter().chain(single.clone());
            *read = (all().fold(f64::MAX, f64::min), middle[depth], all().fold(0.0, f64::max));
        }
        let (seek_ms, _) = self.seek_and_overhead(&typical)?;
        let rows = self.rows(&spec, seek_ms, &assumed, &open);
        Ok(Fit { spec, rows, reads })
    }

    /// The window with which the model is nearest to the reads measured at depths above 1.
    fn best_window(&self, typical: &[f64; 9]) -> Result<Option<usize>, FitError> {
        let deep: Vec<(usize, f64)> =
            self.reads.iter().copied().filter(|(depth, _)| *depth > 1).collect();
        let mut best: Option<(f64, usize)> = None;
        for window in WINDOWS.into_iter().filter(|_| !deep.is_empty()) {
            let mut values = *typical;
            values[WINDOW] = window as f64;
            let spec = self.build(&values)?;
            let far = |(depth, iops): &(usize, f64)| {
                let off = random_read_iops(&spec, *depth, OPERATIONS) / iops - 1.0;
                off * off
            };
            let far: f64 = deep.iter().map(far).sum();
            if best.is_none_or(|(least, _)| far < least) {
                best = Some((far, window));
            }
        }
        Ok(best.map(|(_, window)| window))
    }

    /// What a spec with this mean seek has in place of each assumption.
    fn built(&self, spec: &DiskSpec, seek_ms: f64) -> Option<[f64; 9]> {
        let (Seek::Fit(fit), Zones::Linear(zones)) = (&spec.seek, &spec.zones) else {
            return None;
        };
        let cached_sectors = spec.write_back.map_or(0, |write| write.capacity_sectors);
        let cached_bytes = f64::from(cached_sectors) * f64::from(spec.sector_bytes);
        Some([
            f64::from(spec.heads),
            fit.one_cylinder_ms,
            fit.full_ms / seek_ms,
            f64::from(zones.inner_sectors) / f64::from(zones.outer_sectors),
            spec.head_switch_ms,
            spec.write_settle_ms,
            spec.overhead.per_command_ms,
            spec.window as f64,
            self.cache_bytes.map_or(0.0, |bytes| cached_bytes / bytes as f64),
        ])
    }

    fn rows(
        &self,
        spec: &DiskSpec,
        seek_ms: f64,
        assumed: &[Assumed; 9],
        open: &[(usize, [(f64, f64); 2])],
    ) -> Vec<FitRow> {
        let row =
            |key, unit, value, from| FitRow { key, unit, value, from, range: None, reads: None };
        let (Seek::Fit(fit), Zones::Linear(zones)) = (&spec.seek, &spec.zones) else {
            return Vec::new();
        };
        let built = self.built(spec, seek_ms).unwrap_or_default();
        let measured = self.at_depth_one().is_some() && self.seek_ms.is_none();
        let seek_from = if measured { "reads at depth 1" } else { "mean seek" };
        let mut rows = vec![
            row("sectors", "sectors", spec.sectors.unwrap_or(0) as f64, "given"),
            row("rpm", "1/min", spec.rpm, "given"),
            row("seek.fit.third_ms", "ms", fit.third_ms, seek_from),
            row("seek.fit.full_ms", "ms", fit.full_ms, "full stroke"),
            row("zones.linear.outer_sectors", "sectors", f64::from(zones.outer_sectors), "rate"),
            row("zones.linear.inner_sectors", "sectors", f64::from(zones.inner_sectors), "rate"),
        ];
        for (at, what) in assumed.iter().enumerate() {
            if at == BUFFER && self.cache_bytes.is_none() {
                continue;
            }
            let open = open.iter().find(|(open, _)| *open == at);
            let scale = if at == TRACK_SEEK { seek_ms } else { 1.0 };
            let from = match (open.is_some(), at) {
                (true, _) => "assumed",
                (false, OVERHEAD) => "reads at depth 1",
                (false, WINDOW) => "reads at other depths",
                (false, FULL_RATIO | SETTLE) if measured => "derived",
                _ => "given",
            };
            rows.push(FitRow {
                range: open.map(|_| (what.low * scale, what.high * scale)),
                reads: open.map(|(_, reads)| *reads),
                ..row(what.what, what.unit, built[at], from)
            });
        }
        rows
    }
}

fn check_mean_seek(seek_ms: f64) -> Result<(), FitError> {
    if seek_ms <= MEAN_SEEK_MAX_MS {
        return Ok(());
    }
    Err(FitError::Contradiction(format!(
        "a mean seek of {seek_ms:.1} ms is above {MEAN_SEEK_MAX_MS} ms, which no drive takes: give \
         milliseconds, or measure reads on a drive that does nothing else"
    )))
}

/// The time over a third of the stroke with which random reads of this layout have this mean seek.
fn third(spec: &DiskSpec, fit: SeekFit, mean_ms: f64) -> Result<f64, FitError> {
    let disk = Disk::new(spec);
    let all = u128::from(disk.sectors());
    // Both places of a pair are spread evenly over the drive, independently of each other.
    let place = |i: u64, step: u64| {
        let share = i.wrapping_mul(step);
        disk.cylinder_of(((u128::from(share) * all) >> 64) as u64)
    };
    let distances: Vec<u32> = (0..PAIRS)
        .map(|i| {
            let a = place(i, 0xc13f_a9a9_02a6_328f);
            place(i, 0x91e1_0da5_c79e_7b1d).abs_diff(a)
        })
        .collect();
    let cylinders = zones(spec).iter().map(|z| z.first_cylinder + z.cylinders).max().unwrap_or(1);
    let mean = |third_ms: f64| {
        let (a, b, c) = fit_coefficients(&SeekFit { third_ms, ..fit }, cylinders);
        let time = |d: &u32| match *d {
            0 => 0.0,
            d => a + b * f64::from(d).sqrt() + c * f64::from(d),
        };
        distances.iter().map(time).sum::<f64>() / PAIRS as f64
    };
    let (mut low, mut high) = (fit.one_cylinder_ms, fit.full_ms);
    if !(mean(low)..=mean(high)).contains(&mean_ms) {
        return Err(FitError::Contradiction(format!(
            "no seek curve from {low} to {high} ms has a mean of {mean_ms:.2} ms"
        )));
    }
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if mean(middle) < mean_ms { low = middle } else { high = middle }
    }
    Ok(readable(low))
}

/// A time in ms as a spec has it, which people read.
fn readable(ms: f64) -> f64 {
    (ms * 1e4).round() / 1e4
}
