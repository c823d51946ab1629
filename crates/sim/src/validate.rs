//! A disk model compared with what the drive was measured to do.
//!
//! The trace's requests are served by the model one at a time, and the distribution of its
//! response times is compared with that of the measured ones. The figure of merit is the root
//! mean square of the horizontal distance between the two cumulative distributions (Ruemmler and
//! Wilkes, IEEE Computer 27(3), 1994); divided by the measured mean it is the demerit.

use destage_disk::{Completed, Disk, DiskOp, DiskSpec};
use destage_engine::units::{Duration, Instant};
use destage_workload::trace::{Op, Reader, TraceError, TracePosition, TraceRecord};
use thiserror::Error;

/// Points at which the two distributions are compared: p = 1/POINTS, 2/POINTS, ... 1.
pub const POINTS: usize = 10_000;

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssueTimes {
    /// One outstanding; the next arrives when the model is done and the host has thought as long
    /// as it did in the trace: the time between a measured completion and the next arrival.
    Closed,
    /// Each at its recorded start of service, however long the model took for the one before.
    Recorded,
}

impl IssueTimes {
    /// What suits a trace format: closed where the trace was measured so.
    pub fn of_format(name: &str) -> IssueTimes {
        if name == "validation" { IssueTimes::Closed } else { IssueTimes::Recorded }
    }
}

/// What to replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidateOptions {
    /// Device of the trace.
    pub device: u32,
    /// When requests are issued; what suits the format if none.
    pub pace: Option<IssueTimes>,
}

/// One request, measured and modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredRequest {
    /// When the model was given it.
    pub start: Instant,
    /// What the model did.
    pub completed: Completed,
    /// Measured response time.
    pub measured: Duration,
    /// Its first sector follows the last of the request before, which went the same way.
    pub sequential: bool,
}

impl MeasuredRequest {
    /// The model's response time.
    pub fn modelled(&self) -> Duration {
        self.completed.service.total()
    }
}

/// Why a model could not be compared with a trace.
#[derive(Debug, Error)]
pub enum ValidateError {
    /// The trace cannot be read: exit 1.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Its format has no measured service times: exit 1.
    #[error("{0}: this format has no measured service times; srt and validation have them")]
    NoServiceTimes(String),
    /// This request of the file has no measured service time: exit 1.
    #[error("{0}: {1}: no measured service time")]
    NoServiceTime(String, TracePosition),
    /// A request has no direction: exit 1.
    #[error("{file}: {place}: neither read nor write")]
    NoOperation {
        /// The file.
        file: String,
        /// Where.
        place: TracePosition,
    },
    /// A request is past the end of the drive: exit 1.
    #[error(
        "{file}: {place}: reaches sector {end}, but {drive} has {sectors}; is it the drive of the \
         trace?"
    )]
    BeyondDrive {
        /// The file.
        file: String,
        /// Where.
        place: TracePosition,
        /// One past its last sector.
        end: u64,
        /// Sectors of the drive.
        sectors: u64,
        /// The drive.
        drive: String,
    },
    /// No request of the device: exit 1.
    #[error("{file}: no requests of device {device}; there are {known:?}")]
    NoRequests {
        /// The file.
        file: String,
        /// The device.
        device: u32,
        /// Devices that have some, at most eight.
        known: Vec<u32>,
    },
}

/// Serves the requests of a trace one after another.
struct Replay<'a> {
    spec: &'a DiskSpec,
    disk: Disk,
    pace: IssueTimes,
    now: Instant,
    /// Recorded arrival and completion of the request before.
    before: Option<(u64, u64)>,
    /// Sector after its last, and whether it wrote.
    next: Option<(u64, bool)>,
}

impl Replay<'_> {
    /// The sectors of a record, in the drive's size.
    fn op(&self, record: &TraceRecord, reader: &Reader) -> Result<DiskOp, ValidateError> {
        let (file, place) = (reader.file().to_string(), reader.place());
        let write = match record.op {
            Op::Read => false,
            Op::Write => true,
            Op::Unknown => return Err(ValidateError::NoOperation { file, place }),
        };
        let bytes = u64::from(self.spec.sector_bytes);
        let lbn = record.offset_bytes / bytes;
        let end = record.end_bytes().div_ceil(bytes);
        let sectors = self.disk.sectors();
        if end > sectors {
            let drive = self.spec.name.clone();
            return Err(ValidateError::BeyondDrive { file, place, end, sectors, drive });
        }
        Ok(DiskOp { lbn, sectors: (end - lbn) as u32, write, tag: 0 })
    }

    fn serve(
        &mut self,
        record: &TraceRecord,
        op: DiskOp,
        start_ns: u64,
        stop_ns: u64,
    ) -> MeasuredRequest {
        let start = match self.pace {
            IssueTimes::Recorded => Instant(record.time_ns + start_ns),
            IssueTimes::Closed => {
                let think = self.before.map_or(0, |(_, stop)| record.time_ns.saturating_sub(stop));
                self.now + Duration(think)
            }
        };
        self.disk.submit(start, op);
        self.now = self.disk.start(start).expect("an idle disk starts");
        let completed = self.disk.finish(self.now);
        let sequential = self.next == Some((op.lbn, op.write));
        self.next = Some((op.lbn + u64::from(op.sectors), op.write));
        self.before = Some((record.time_ns, record.time_ns + stop_ns));
        MeasuredRequest { start, completed, measured: Duration(stop_ns - start_ns), sequential }
    }
}

/// Replays a trace on a model, and hands each request to `each`.
pub fn replay(
    spec: &DiskSpec,
    mut reader: Reader,
    options: ValidateOptions,
    mut each: impl FnMut(&MeasuredRequest),
) -> Result<(), ValidateError> {
    let file = reader.file().to_string();
    if !reader.format().has_service {
        return Err(ValidateError::NoServiceTimes(file));
    }
    let pace = options.pace.unwrap_or_else(|| IssueTimes::of_format(reader.format().entry.name));
    let disk = Disk::new(spec);
    let mut replay = Replay { spec, disk, pace, now: Instant::ZERO, before: None, next: None };
    let mut known: Vec<u32> = Vec::new();
    while let Some(record) = reader.next() {
        let record = record?;
        if record.device != options.device {
            if known.len() < 8 && !known.contains(&record.device) {
                known.push(record.device);
            }
            continue;
        }
        let Some(service) = record.service else {
            return Err(ValidateError::NoServiceTime(file, reader.place()));
        };
        if record.length_bytes > 0 {
            let op = replay.op(&record, &reader)?;
            each(&replay.serve(&record, op, service.start_ns, service.stop_ns));
        }
    }
    match replay.before {
        Some(_) => Ok(()),
        None => Err(ValidateError::NoRequests { file, device: options.device, known }),
    }
}

/// How the two distributions of some requests compare.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseComparison {
    /// Which requests.
    pub name: &'static str,
    /// How many.
    pub requests: u64,
    /// How many of them the model served from the drive's buffer.
    pub hits: u64,
    /// Mean measured response time, in ms.
    pub measured_ms_mean: f64,
    /// The model's, in ms.
    pub modelled_ms_mean: f64,
    /// Root mean square of the distance between the two distributions, in ms.
    pub rms_ms: f64,
}

impl ResponseComparison {
    /// Root mean square over measured mean.
    pub fn demerit(&self) -> f64 {
        self.rms_ms / self.measured_ms_mean
    }
}

/// The outcome of a validation.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// Over all requests.
    pub all: ResponseComparison,
    /// Over requests of each kind that occurs.
    pub kinds: Vec<ResponseComparison>,
    /// At p = 1/[`POINTS`], 2/[`POINTS`] ...: measured and modelled response time, in ms.
    pub quantiles: Vec<(f64, f64)>,
}

impl Validation {
    /// The distance between the distributions in each tenth of them: root mean square, in ms.
    pub fn rms_ms_by_tenth(&self) -> Vec<f64> {
        self.quantiles.chunks(POINTS.div_ceil(10)).map(rms).collect()
    }
}

const KINDS: [&str; 4] =
    ["reads, sequential", "reads, other", "writes, sequential", "writes, other"];

/// Response times in ns, and hits, of some requests.
#[derive(Default)]
struct Times {
    measured: Vec<u64>,
    modelled: Vec<u64>,
    hits: u64,
}

impl Times {
    fn push(&mut self, sample: &MeasuredRequest) {
        self.measured.push(sample.measured.0);
        self.modelled.push(sample.modelled().0);
        self.hits += u64::from(sample.completed.cache_hit);
    }

    fn compare(&self, name: &'static str) -> (ResponseComparison, Vec<(f64, f64)>) {
        let quantiles = quantiles(&self.measured, &self.modelled);
        let comparison = ResponseComparison {
            name,
            requests: self.measured.len() as u64,
            hits: self.hits,
            measured_ms_mean: mean_ms(&self.measured),
            modelled_ms_mean: mean_ms(&self.modelled),
            rms_ms: rms(&quantiles),
        };
        (comparison, quantiles)
    }
}

/// Replays a trace on a model and compares the distributions of response time.
pub fn validate(
    spec: &DiskSpec,
    reader: Reader,
    options: ValidateOptions,
) -> Result<Validation, ValidateError> {
    let mut all = Times::default();
    let mut kinds: [Times; 4] = Default::default();
    replay(spec, reader, options, |sample| {
        all.push(sample);
        let write = usize::from(sample.completed.op.write);
        kinds[write * 2 + usize::from(!sample.sequential)].push(sample);
    })?;
    let (comparison, quantiles) = all.compare("all");
    let occurring = KINDS.iter().zip(&kinds).filter(|(_, times)| !times.measured.is_empty());
    let kinds = occurring.map(|(name, times)| times.compare(name).0).collect();
    Ok(Validation { all: comparison, kinds, quantiles })
}

fn mean_ms(times_ns: &[u64]) -> f64 {
    times_ns.iter().map(|&t| t as f64).sum::<f64>() / 1e6 / times_ns.len().max(1) as f64
}

/// The quantiles of two distributions at each of [`POINTS`] steps, in ms.
pub fn quantiles(first_ns: &[u64], second_ns: &[u64]) -> Vec<(f64, f64)> {
    let sorted = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let at = |sorted: &[u64], point: usize| {
        let rank = (point * sorted.len()).div_ceil(POINTS).max(1);
        sorted.get(rank - 1).map_or(f64::NAN, |&ns| ns as f64 / 1e6)
    };
    let (first, second) = (sorted(first_ns), sorted(second_ns));
    (1..=POINTS).map(|point| (at(&first, point), at(&second, point))).collect()
}

/// Root mean square of the differences of pairs.
pub fn rms(pairs: &[(f64, f64)]) -> f64 {
    let squares: f64 = pairs.iter().map(|(a, b)| (a - b) * (a - b)).sum();
    (squares / pairs.len().max(1) as f64).sqrt()
}
