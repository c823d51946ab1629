//! Replaying a trace as a load: open, in original or scaled time, or closed.
//!
//! Devices are laid one after another, by number, at equal strides: the largest end rounded up to
//! 16 pages, plus a chunk; packed, each takes only its own pages, rounded so. A single device, or
//! the one selected, begins at page 0. A request covers every page it touches; requests of 0 bytes
//! are left out, and the notes say how many there are.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use destage_engine::request::{Direction, PageRange};
use destage_engine::units::{Instant, PAGE_BYTES, Page};

use super::doubt::Doubts;
use super::error::{TraceError, TracePosition};
use super::options::ReadOptions;
use super::reader::Reader;
use super::{Op, TraceRecord};
use crate::random::Seeded;
use crate::source::{Source, SourceError, SourceRequest};

/// Ends are rounded up to this many pages.
const ROUND_PAGES: u64 = 16;

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplayPace {
    /// At their recorded times divided by `speed` (above 0; 1 is the original).
    Open {
        /// How many times faster than recorded.
        speed: f64,
    },
    /// In order, at random times (Poisson) of this mean rate, whatever was recorded.
    Rate {
        /// Requests per second, above 0.
        iops: f64,
        /// Seed of the times.
        seed: u64,
    },
    /// As completions allow, this many outstanding (at least 1).
    Closed {
        /// Requests kept outstanding.
        outstanding: u32,
    },
}

/// How to replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplayOptions {
    /// When requests are issued.
    pub pace: ReplayPace,
    /// Only this device; all of them if none.
    pub device: Option<u32>,
    /// Pages of a chunk, which keeps devices apart.
    pub chunk_pages: u64,
    /// Lay each device right behind the one before, not at equal strides.
    pub packed: bool,
    /// Fold pages beyond the volume back into it (page modulo volume; a request that would cross
    /// the end is moved back to end there) instead of failing.
    pub wrap: bool,
    /// Reads only. An operation that was not recorded counts as a read.
    pub reads_only: bool,
    /// Begin again at the end, for ever; not with [`ReplayPace::Open`].
    pub repeat: bool,
    /// Bytes of a page: 4096, or a disk's sector where the cache is organised by track.
    pub page_bytes: u64,
}

impl Default for ReplayOptions {
    /// Open at the original speed, every device, chunks of 16 pages.
    fn default() -> ReplayOptions {
        ReplayOptions {
            pace: ReplayPace::Open { speed: 1.0 },
            device: None,
            chunk_pages: 16,
            packed: false,
            wrap: false,
            reads_only: false,
            repeat: false,
            page_bytes: PAGE_BYTES,
        }
    }
}

/// Where a trace is read from, which may be more than once.
#[derive(Clone)]
pub enum TraceInput {
    /// A file.
    Path(PathBuf),
    /// What the trace is called in messages, and the contents of a trace file in any format.
    Bytes(String, Arc<[u8]>),
}

impl<P: AsRef<Path> + ?Sized> From<&P> for TraceInput {
    fn from(path: &P) -> TraceInput {
        TraceInput::Path(path.as_ref().to_path_buf())
    }
}

impl TraceInput {
    /// A reader from the start.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn reader(&self, read: &ReadOptions) -> Result<Reader, TraceError> {
        match self {
            TraceInput::Path(path) => Reader::open(path, read),
            TraceInput::Bytes(name, bytes) => {
                Reader::from_read(Box::new(Cursor::new(Arc::clone(bytes))), name, read)
            }
        }
    }
}

/// Where one device is on the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpan {
    /// Its number in the trace.
    pub device: u32,
    /// Its first page on the volume.
    pub first_page: u64,
    /// Pages from there to the last one touched.
    pub pages: u64,
    /// The record that touches the last one.
    pub last_at: TracePosition,
}

/// Where every device of a trace is on the volume, found in one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// By number.
    pub devices: Vec<DeviceSpan>,
    /// From one device to the next, unless they are packed.
    pub stride_pages: u64,
    /// Requests to be replayed.
    pub requests: u64,
    /// Requests of which the trace does not say whether they read or write.
    pub without_operation: u64,
    /// Requests of 0 bytes, which are not replayed.
    pub empty: u64,
    /// The last arrival.
    pub last_ns: u64,
    seen: Doubts,
}

impl Layout {
    /// Reads the trace once.
    ///
    /// # Errors
    /// Whatever the reader meets, or a device that does not occur.
    pub fn scan(
        input: impl Into<TraceInput>,
        read: &ReadOptions,
        replay: &ReplayOptions,
    ) -> Result<Layout, TraceError> {
        let mut reader = input.into().reader(read)?;
        if matches!(replay.pace, ReplayPace::Open { .. }) && !reader.format().has_times {
            let format = reader.format().entry.name;
            return Err(TraceError::NoTimes { file: reader.file().to_string(), format });
        }
        let mut ends: BTreeMap<u32, (u64, TracePosition)> = BTreeMap::new();
        let (mut requests, mut without_operation, mut empty, mut last_ns) = (0, 0, 0, 0);
        let mut seen = Doubts::default();
        while let Some(record) = reader.next() {
            let record = record?;
            last_ns = last_ns.max(record.time_ns);
            let (first, end) = record.pages_of(replay.page_bytes);
            let device_end = ends.entry(record.device).or_insert((0, reader.place()));
            if end > device_end.0 {
                *device_end = (end, reader.place());
            }
            let wanted = replay.device.is_none_or(|device| device == record.device);
            requests += u64::from(wanted && end > first);
            empty += u64::from(wanted && end == first);
            if wanted {
                seen.add(&record);
            }
            without_operation += u64::from(wanted && end > first && record.op == Op::Unknown);
        }
        if let Some(device) = replay.device {
            if !ends.contains_key(&device) {
                let known = ends.keys().copied().take(16).collect();
                return Err(TraceError::NoSuchDevice {
                    file: reader.file().to_string(),
                    device,
                    known,
                });
            }
            ends.retain(|number, _| *number == device);
        }
        let one_time = requests > 1 && (last_ns == 0 || seen.has_no_times(&reader));
        if matches!(replay.pace, ReplayPace::Open { .. }) && one_time {
            let (file, format) = (reader.file().to_string(), reader.format().entry.name);
            return Err(TraceError::OneTime { file, format, later: seen.later() });
        }
        let layout = Layout::of_ends(&ends, replay, requests);
        Ok(Layout { without_operation, empty, last_ns, seen, ..layout })
    }

    fn of_ends(
        ends: &BTreeMap<u32, (u64, TracePosition)>,
        replay: &ReplayOptions,
        requests: u64,
    ) -> Layout {
        let room = |pages: u64| pages.next_multiple_of(ROUND_PAGES) + replay.chunk_pages;
        let stride_pages = room(ends.values().map(|(end, _)| *end).max().unwrap_or(0));
        let mut next_page = 0;
        let devices = ends.iter().map(|(&device, &(pages, last_at))| {
            let first_page = next_page;
            next_page += if replay.packed { room(pages) } else { stride_pages };
            DeviceSpan { device, first_page, pages, last_at }
        });
        let devices = devices.collect();
        let (without_operation, empty, last_ns) = (0, 0, 0);
        let seen = Doubts::default();
        Layout { devices, stride_pages, requests, without_operation, empty, last_ns, seen }
    }

    /// Pages that a volume must have to hold every device.
    pub fn volume_pages(&self) -> u64 {
        self.devices.iter().map(|d| d.first_page + d.pages).max().unwrap_or(0)
    }

    /// The first page of a device.
    fn first_page(&self, device: u32) -> Option<u64> {
        let index = self.devices.binary_search_by_key(&device, |d| d.device).ok()?;
        Some(self.devices[index].first_page)
    }

    /// The first device that does not fit, as an error.
    fn check_fit(&self, file: &str, volume_pages: u64) -> Result<(), TraceError> {
        match self.devices.iter().find(|d| d.first_page + d.pages > volume_pages) {
            None => Ok(()),
            Some(span) => Err(TraceError::BeyondVolume {
                file: file.to_string(),
                place: span.last_at,
                end_page: span.first_page + span.pages,
                volume_pages,
            }),
        }
    }
}

/// A trace as a load. It holds one record.
pub struct TraceSource {
    reader: Reader,
    layout: Layout,
    options: ReplayOptions,
    volume_pages: u64,
    /// The next request: time, direction, pages.
    next: Option<Result<Ahead, TraceError>>,
    ended: bool,
    outstanding: u32,
    clock: Instant,
    /// Where and how it was opened, to begin again.
    opened: (TraceInput, ReadOptions),
    /// Of [`ReplayPace::Rate`]: its generator, and the time of the last request.
    times: (Seeded, u64),
    /// Something was replayed since it began.
    any: bool,
}

/// A request read ahead.
#[derive(Clone, Copy)]
struct Ahead {
    at: Instant,
    direction: Direction,
    range: PageRange,
}

impl TraceSource {
    /// Reads the trace once to lay out its devices, then is ready to replay it.
    ///
    /// # Errors
    /// Anything wrong anywhere in the trace, or a device that does not fit the volume (unless
    /// wrapped).
    pub fn open(
        input: impl Into<TraceInput>,
        read: &ReadOptions,
        replay: &ReplayOptions,
        volume_pages: u64,
    ) -> Result<TraceSource, TraceError> {
        let input = input.into();
        let layout = Layout::scan(input.clone(), read, replay)?;
        TraceSource::with_layout(input, read, replay, volume_pages, layout)
    }

    /// As [`TraceSource::open`], with a layout found before by [`Layout::scan`] with the same
    /// options.
    ///
    /// # Errors
    /// The file cannot be opened, or a device does not fit the volume (unless wrapped).
    pub fn with_layout(
        input: impl Into<TraceInput>,
        read: &ReadOptions,
        replay: &ReplayOptions,
        volume_pages: u64,
        layout: Layout,
    ) -> Result<TraceSource, TraceError> {
        let input = input.into();
        let seed = if let ReplayPace::Rate { seed, .. } = replay.pace { seed } else { 0 };
        let reader = input.reader(read)?;
        if !replay.wrap {
            layout.check_fit(reader.file(), volume_pages)?;
        }
        Ok(TraceSource {
            reader,
            layout,
            options: *replay,
            volume_pages,
            next: None,
            ended: false,
            outstanding: 0,
            clock: Instant::ZERO,
            opened: (input, read.clone()),
            times: (Seeded::new(seed, "trace times"), 0),
            any: false,
        })
    }

    /// The reader, for its counts of malformed and disordered records.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    fn fill(&mut self) {
        while self.next.is_none() && !self.ended {
            self.next = match self.reader.next() {
                None => self.begin_again().err().map(Err),
                Some(Ok(record)) => self.place(&record).transpose(),
                Some(Err(error)) => Some(Err(error)),
            };
        }
    }

    /// The end is reached: once more from the beginning, or that was all.
    fn begin_again(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        if self.options.repeat && self.any {
            self.reader = self.opened.0.reader(&self.opened.1)?;
            (self.ended, self.any) = (false, false);
        }
        Ok(())
    }

    /// The record as a request on the volume; none if it is not to be replayed.
    fn place(&mut self, record: &TraceRecord) -> Result<Option<Ahead>, TraceError> {
        let (first, end) = record.pages_of(self.options.page_bytes);
        let pages = end - first;
        let Some(base) = self.layout.first_page(record.device) else { return Ok(None) };
        if pages == 0 {
            return Ok(None);
        }
        let direction = match record.op {
            Op::Read | Op::Unknown => Direction::Read,
            Op::Write => Direction::Write,
        };
        if self.options.reads_only && direction != Direction::Read {
            return Ok(None);
        }
        self.any = true;
        let mut first = base + first;
        if first + pages > self.volume_pages {
            if !self.options.wrap {
                return Err(TraceError::BeyondVolume {
                    file: self.reader.place_file().to_string(),
                    place: self.reader.place(),
                    end_page: first + pages,
                    volume_pages: self.volume_pages,
                });
            }
            if pages > self.volume_pages {
                return Err(TraceError::TooLarge {
                    file: self.reader.place_file().to_string(),
                    place: self.reader.place(),
                    pages,
                    limit_pages: self.volume_pages,
                });
            }
            first = (first % self.volume_pages).min(self.volume_pages - pages);
        }
        let at = match self.options.pace {
            ReplayPace::Open { speed: 1.0 } => record.time_ns,
            ReplayPace::Open { speed } => (record.time_ns as f64 / speed) as u64,
            ReplayPace::Rate { iops, .. } => {
                self.times.1 += self.times.0.exponential_ns(1e9 / iops);
                self.times.1
            }
            ReplayPace::Closed { .. } => 0,
        };
        let range = PageRange::new(Page(first), pages as u32);
        Ok(Some(Ahead { at: Instant(at), direction, range }))
    }
}

impl Source for TraceSource {
    fn next_at(&mut self) -> Option<Instant> {
        if let ReplayPace::Closed { outstanding } = self.options.pace
            && self.outstanding >= outstanding
        {
            return None;
        }
        self.fill();
        match self.next.as_ref()? {
            Ok(ahead) => Some(ahead.at.max(self.clock)),
            Err(_) => Some(self.clock),
        }
    }

    fn take(&mut self, now: Instant) -> Result<SourceRequest, SourceError> {
        self.fill();
        self.clock = self.clock.max(now);
        let next = self.next.take().expect("next_at announced a request");
        let ahead = next.map_err(|error| SourceError(error.to_string()))?;
        self.outstanding += 1;
        let arrival = match self.options.pace {
            ReplayPace::Open { .. } | ReplayPace::Rate { .. } => ahead.at,
            ReplayPace::Closed { .. } => now,
        };
        Ok(SourceRequest { arrival, tag: 0, direction: ahead.direction, range: ahead.range })
    }

    fn completed(&mut self, _tag: u32, now: Instant) {
        self.outstanding -= 1;
        if matches!(self.options.pace, ReplayPace::Closed { .. }) {
            self.clock = self.clock.max(now);
        }
    }

    fn bound(&self) -> String {
        match self.options.pace {
            ReplayPace::Open { .. } | ReplayPace::Rate { .. } => String::from("none"),
            ReplayPace::Closed { outstanding } => format!("{outstanding} outstanding"),
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if matches!(self.options.pace, ReplayPace::Open { .. }) {
            notes.extend(self.layout.seen.rate(&self.reader));
        }
        notes.extend(self.layout.seen.unit(&self.reader));
        let devices = self.layout.devices.len();
        if devices > 1 {
            notes.push(format!(
                "{devices} devices of the trace follow each other on one volume: --trace-device \
                 replays a single one"
            ));
        }
        // Of the trace, because a replay may end before it does, or begin it again.
        let Layout { requests, without_operation, empty, .. } = self.layout;
        if without_operation > 0 && !self.options.reads_only {
            notes.push(format!(
                "{without_operation} of {requests} requests of the trace do not say whether they \
                 read or write: they are replayed as reads"
            ));
        }
        if empty > 0 {
            let (requests, are) = if empty == 1 { ("request", "is") } else { ("requests", "are") };
            notes.push(format!("{empty} {requests} of 0 bytes of the trace {are} left out"));
        }
        notes
    }
}
