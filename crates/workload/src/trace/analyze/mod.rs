//! What load a trace is, in one streaming pass: rates, sizes, working sets, reuse distances and
//! heat. Memory grows with the distinct pages, not the requests. docs/traces.md defines every
//! figure, and the types of the result are in `destage_report::trace`.
//!
//! ```no_run
//! use destage_workload::trace::{ReadOptions, Reader, analyze};
//! let reader = Reader::open("trace.csv.gz".as_ref(), &ReadOptions::default())?;
//! let found = analyze::analyze(reader, None, &mut |_requests| ())?;
//! println!("{} requests", found.total.requests());
//! # Ok::<(), destage_workload::trace::TraceError>(())
//! ```

mod busiest;
mod heat;
mod pages;
mod reuse;
mod sizes;
mod stack;
mod streams;
mod timeline;

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use destage_engine::units::PAGE_BYTES;
use destage_report::trace::{Distinct, Sequential, TraceAnalysis};

use super::doubt::Doubts;
use super::error::TraceError;
use super::mixer::Mixed;
use super::reader::Reader;
use super::{Op, TraceRecord};
use pages::{Device, Page, Seen};
use reuse::Distances;
use sizes::SizeCounts;
use stack::{PAGES_MAX, Stack};
use timeline::Timeline;

/// Requests between two reports of progress.
const PROGRESS: u64 = 1 << 18;
/// Devices named by an error.
const KNOWN: usize = 16;

/// Reads a trace to its end, or its requests for one device. `progress` gets the number of requests
/// read now and then.
///
/// # Errors
/// Whatever the reader meets; a device without requests; more than 2^31 distinct pages.
pub fn analyze(
    mut reader: Reader,
    device: Option<u32>,
    progress: &mut dyn FnMut(u64),
) -> Result<TraceAnalysis, TraceError> {
    let mut counts = Counts::new();
    let mut others = BTreeSet::new();
    let mut requests = 0;
    while let Some(record) = reader.next() {
        let record = record?;
        requests += 1;
        if requests % PROGRESS == 0 {
            progress(requests);
        }
        if device.is_none_or(|device| device == record.device) {
            if !counts.add(&record) {
                let (file, limit_pages) = (reader.file().to_string(), PAGES_MAX);
                return Err(TraceError::TooManyPages { file, limit_pages });
            }
        } else if others.len() < KNOWN {
            others.insert(record.device);
        }
    }
    if counts.devices.is_empty() {
        return Err(TraceError::NoSuchDevice {
            file: reader.file().to_string(),
            device: device.unwrap_or_default(),
            known: others.into_iter().collect(),
        });
    }
    let device = device.or(reader.only_device());
    Ok(counts.finish(&reader, device))
}

/// What is counted.
struct Counts {
    unknown: u64,
    seen: Doubts,
    /// Times of the first request and of the last, as the trace has them.
    first_ns: Option<u64>,
    last_ns: u64,
    sizes: SizeCounts,
    sequential: Sequential,
    timeline: Timeline,
    /// Of reads and of writes.
    stacks: [Stack; 2],
    distances: [Distances; 2],
    devices: Vec<Device>,
    /// Places of devices in that list, by number.
    places: HashMap<u32, usize, Mixed>,
}

impl Counts {
    fn new() -> Counts {
        Counts {
            unknown: 0,
            seen: Doubts::default(),
            last_ns: 0,
            first_ns: None,
            sizes: SizeCounts::default(),
            sequential: Sequential::default(),
            timeline: Timeline::new(),
            stacks: Default::default(),
            distances: Default::default(),
            devices: Vec::new(),
            places: HashMap::default(),
        }
    }

    /// Counts a request; false if there are more pages than can be numbered.
    fn add(&mut self, record: &TraceRecord) -> bool {
        let writes = record.op == Op::Write;
        let first_ns = *self.first_ns.get_or_insert(record.time_ns);
        self.last_ns = record.time_ns;
        self.unknown += u64::from(record.op == Op::Unknown);
        self.seen.add(record);
        self.sizes.add(record.length_bytes, writes);
        let time_ns = record.time_ns - first_ns;
        self.timeline.request(time_ns, record.length_bytes, writes);
        let devices = &mut self.devices;
        let place = *self.places.entry(record.device).or_insert_with(|| {
            devices.push(Device::new(record.device));
            devices.len() - 1
        });
        let ends = &mut self.devices[place].ends;
        ends.add(record.offset_bytes, record.end_bytes(), writes, &mut self.sequential);
        let (first, end) = record.pages();
        self.make_room(end - first, writes) && {
            self.access(place, first..end, time_ns, writes);
            true
        }
    }

    /// Accesses pages of a device one after the other.
    fn access(&mut self, place: usize, pages: Range<u64>, time_ns: u64, writes: bool) {
        let kind = usize::from(writes);
        let (stack, distances) = (&mut self.stacks[kind], &mut self.distances[kind]);
        let map = &mut self.devices[place].pages;
        for number in pages {
            let page = map.entry(number).or_default();
            let last_ns = page.read.last_time().max(page.write.last_time());
            let seen = if writes { &mut page.write } else { &mut page.read };
            self.timeline.page(last_ns, seen.last_time(), writes);
            let (distance, place) = stack.access(seen.last_place());
            distances.add(distance);
            *seen = Seen { count: seen.count.saturating_add(1), place, last_ns: time_ns };
        }
    }

    /// Makes room for accesses of one kind; false if there can be none.
    fn make_room(&mut self, accesses: u64, writes: bool) -> bool {
        let stack = &mut self.stacks[usize::from(writes)];
        if stack.room() >= accesses {
            return true;
        }
        if stack.pages() + accesses > PAGES_MAX {
            return false;
        }
        let devices = &mut self.devices;
        stack.renumber(accesses, |new_place| {
            for page in devices.iter_mut().flat_map(|device| device.pages.values_mut()) {
                let seen = if writes { &mut page.write } else { &mut page.read };
                if seen.count > 0 {
                    seen.place = new_place(seen.place);
                }
            }
        });
        true
    }

    fn finish(self, reader: &Reader, device: Option<u32>) -> TraceAnalysis {
        let duration_ns = self.last_ns - self.first_ns.unwrap_or_default();
        let has_times = reader.format().has_times;
        let total = *self.timeline.total();
        let distinct = |wanted: fn(&Page) -> bool| {
            let pages = self.devices.iter().flat_map(|device| device.pages.values());
            pages.filter(|page| wanted(page)).count() as u64
        };
        let pages = Distinct {
            all: distinct(|_| true),
            read: distinct(|page| page.read.count > 0),
            written: distinct(|page| page.write.count > 0),
        };
        let no_times = self.seen.has_no_times(reader);
        let warnings = self.warnings(reader);
        let [read_reuse, write_reuse] = self.distances.map(Distances::finish);
        TraceAnalysis {
            file: reader.file().to_string(),
            format: reader.format().entry.name.to_string(),
            compression: reader.compression().to_string(),
            device,
            devices: self.devices.len() as u64,
            page_bytes: PAGE_BYTES,
            total,
            unknown: self.unknown,
            disordered: reader.disordered(),
            bad: reader.bad(),
            warnings,
            duration_s: has_times.then_some(duration_ns as f64 / 1e9),
            time: (has_times && duration_ns > 0 && !no_times)
                .then(|| self.timeline.finish(duration_ns)),
            sizes: self.sizes.finish(),
            sequential: self.sequential,
            pages,
            read_reuse,
            write_reuse,
            heat: heat::heat(&self.devices),
        }
    }

    /// What a reader of the figures should know.
    fn warnings(&self, reader: &Reader) -> Vec<String> {
        let (seen, unknown) = (&self.seen, self.unknown);
        let mut found: Vec<String> = seen.rate(reader).into_iter().collect();
        found.extend(seen.unit(reader));
        if unknown > 0 {
            found.push(format!(
                "the trace does not say whether {unknown} requests read or write: they count as \
                 reads"
            ));
        }
        let lack = match self.last_ns == self.first_ns.unwrap_or_default() {
            _ if !reader.format().has_times => "the format records no times",
            true => "all requests have one time",
            false if seen.has_no_times(reader) => "nearly all requests have one time",
            false => return found,
        };
        found.push(format!("{lack}: there are no figures over time"));
        found
    }
}
