//! What a trace holds, in one streaming pass. Memory grows with the footprint, not the requests.

use std::collections::{BTreeMap, HashMap};

use super::doubt::Doubts;
use super::error::TraceError;
use super::input::Compression;
use super::mixer::Mixed;
use super::reader::Reader;
use super::{Op, TraceRecord};

/// Figures of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number in the trace.
    pub device: u32,
    /// Requests of any kind.
    pub requests: u64,
    /// Those that read.
    pub reads: u64,
    /// Those that write.
    pub writes: u64,
    /// Bytes asked for by all of them.
    pub bytes: u64,
    /// One past the last byte touched.
    pub end_bytes: u64,
    /// Requests that begin where the one before them on this device ended.
    pub sequential: u64,
    /// Requests with measured service times.
    pub serviced: u64,
    /// Sum of their service times.
    pub service_ns_sum: u64,
}

impl DeviceInfo {
    /// Mean measured service time, if there is any.
    pub fn service_ns_mean(&self) -> Option<f64> {
        (self.serviced > 0).then(|| self.service_ns_sum as f64 / self.serviced as f64)
    }
}

/// Figures of a trace. Blocks are 4 KiB; a partly touched one counts in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceInfo {
    /// The file as it was named.
    pub file: String,
    /// Name of the format.
    pub format: &'static str,
    /// How the file is compressed.
    pub compression: Compression,
    /// Requests of any kind.
    pub requests: u64,
    /// Those that read.
    pub reads: u64,
    /// Those that write.
    pub writes: u64,
    /// Those whose operation is not recorded.
    pub unknown: u64,
    /// Bytes asked for by reads.
    pub read_bytes: u64,
    /// Bytes asked for by writes.
    pub written_bytes: u64,
    /// Bytes asked for by requests of unknown operation.
    pub unknown_bytes: u64,
    /// Most bytes of one request.
    pub request_bytes_max: u64,
    /// Requests of 0 bytes.
    pub empty_requests: u64,
    /// Distinct blocks read (or touched by an unknown operation).
    pub read_footprint_blocks: u64,
    /// Distinct blocks written.
    pub write_footprint_blocks: u64,
    /// Distinct blocks touched.
    pub footprint_blocks: u64,
    /// Block reads: a request of 5 blocks counts 5.
    pub block_reads: u64,
    /// Those of blocks that were neither read nor written before.
    pub first_touches: u64,
    /// Block writes.
    pub block_writes: u64,
    /// Block writes of blocks written before.
    pub overwrites: u64,
    /// First to last arrival; none if the format has no times.
    pub duration_ns: Option<u64>,
    /// Whether every time stamp was in order.
    pub ordered: bool,
    /// Time stamps that were not, and were put in order or left out.
    pub disordered: u64,
    /// Malformed lines or records left out.
    pub bad: u64,
    /// The first of them, in a line.
    pub first_bad: Option<String>,
    /// What makes it doubtful that the trace is read right.
    pub doubts: Vec<String>,
    /// Devices by number.
    pub devices: Vec<DeviceInfo>,
}

impl TraceInfo {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// Whatever the reader meets.
    pub fn of(mut reader: Reader) -> Result<TraceInfo, TraceError> {
        let mut count = Count::default();
        for record in reader.by_ref() {
            count.add(&record?);
        }
        Ok(count.finish(&reader))
    }

    /// Share of requests that write, 0 to 1.
    pub fn write_share(&self) -> f64 {
        ratio(self.writes, self.requests)
    }

    /// Share of block writes that hit a block already written, 0 to 1.
    pub fn overwrite_share(&self) -> f64 {
        ratio(self.overwrites, self.block_writes)
    }

    /// Share of block reads that hit a block not read before, 0 to 1: what no cache of what is read
    /// can hold.
    pub fn first_read_share(&self) -> f64 {
        ratio(self.read_footprint_blocks, self.block_reads)
    }

    /// Share of block reads that hit a block neither read nor written before, 0 to 1: what no cache
    /// can hold.
    pub fn first_touch_share(&self) -> f64 {
        ratio(self.first_touches, self.block_reads)
    }

    /// Share of requests that begin where the one before them on the same device ended, 0 to 1.
    pub fn sequential_share(&self) -> f64 {
        ratio(self.devices.iter().map(|d| d.sequential).sum(), self.requests)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// 64 blocks: which were read, which were written.
type Chunk = [u64; 2];

#[derive(Default)]
struct Count {
    ops: [u64; 3],
    bytes: [u64; 3],
    request_bytes_max: u64,
    empty_requests: u64,
    block_reads: u64,
    first_touches: u64,
    block_writes: u64,
    overwrites: u64,
    last_ns: u64,
    seen: Doubts,
    chunks: HashMap<(u32, u64), Chunk, Mixed>,
    /// Figures and end of the last request of each device.
    devices: BTreeMap<u32, (DeviceInfo, Option<u64>)>,
}

impl Count {
    fn add(&mut self, record: &TraceRecord) {
        let kind = match record.op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Unknown => 2,
        };
        self.ops[kind] += 1;
        self.bytes[kind] += record.length_bytes;
        self.request_bytes_max = self.request_bytes_max.max(record.length_bytes);
        self.empty_requests += u64::from(record.length_bytes == 0);
        self.last_ns = record.time_ns;
        self.seen.add(record);
        self.add_blocks(record);
        let (device, previous_end) = self.devices.entry(record.device).or_default();
        device.device = record.device;
        device.requests += 1;
        device.reads += u64::from(record.op == Op::Read);
        device.writes += u64::from(record.op == Op::Write);
        device.bytes += record.length_bytes;
        device.end_bytes = device.end_bytes.max(record.end_bytes());
        device.sequential += u64::from(*previous_end == Some(record.offset_bytes));
        *previous_end = Some(record.end_bytes());
        if let Some(service) = record.service {
            device.serviced += 1;
            let service_ns = service.stop_ns - service.start_ns;
            device.service_ns_sum = device.service_ns_sum.saturating_add(service_ns);
        }
    }

    /// Marks the request's blocks, 64 at a time.
    fn add_blocks(&mut self, record: &TraceRecord) {
        let (mut block, end) = record.pages();
        while block < end {
            let upto = end.min((block / 64 + 1) * 64);
            let mask = (u64::MAX >> (64 - (upto - block))) << (block % 64);
            let chunk = self.chunks.entry((record.device, block / 64)).or_default();
            if record.op == Op::Write {
                self.block_writes += upto - block;
                self.overwrites += u64::from((chunk[1] & mask).count_ones());
                chunk[1] |= mask;
            } else {
                self.block_reads += upto - block;
                let untouched = mask & !(chunk[0] | chunk[1]);
                self.first_touches += u64::from(untouched.count_ones());
                chunk[0] |= mask;
            }
            block = upto;
        }
    }

    fn doubts(&self, reader: &Reader) -> Vec<String> {
        let mut found = Vec::new();
        if self.seen.has_no_times(reader) {
            let share = if self.last_ns == 0 { "all" } else { "nearly all" };
            found.push(format!("{share} requests have the same time: the waits are not recorded"));
        }
        found.extend(self.seen.rate(reader).into_iter().chain(self.seen.unit(reader)));
        found
    }

    fn finish(self, reader: &Reader) -> TraceInfo {
        let blocks = |of: fn(&Chunk) -> u64| -> u64 {
            self.chunks.values().map(|chunk| u64::from(of(chunk).count_ones())).sum()
        };
        TraceInfo {
            file: reader.file().to_string(),
            format: reader.format().entry.name,
            compression: reader.compression(),
            requests: self.ops.iter().sum(),
            reads: self.ops[0],
            writes: self.ops[1],
            unknown: self.ops[2],
            read_bytes: self.bytes[0],
            written_bytes: self.bytes[1],
            unknown_bytes: self.bytes[2],
            request_bytes_max: self.request_bytes_max,
            empty_requests: self.empty_requests,
            read_footprint_blocks: blocks(|chunk| chunk[0]),
            write_footprint_blocks: blocks(|chunk| chunk[1]),
            footprint_blocks: blocks(|chunk| chunk[0] | chunk[1]),
            block_reads: self.block_reads,
            first_touches: self.first_touches,
            block_writes: self.block_writes,
            overwrites: self.overwrites,
            duration_ns: reader.format().has_times.then_some(self.last_ns),
            ordered: reader.disordered() == 0,
            disordered: reader.disordered(),
            bad: reader.bad(),
            first_bad: reader.first_bad().map(ToString::to_string),
            doubts: self.doubts(reader),
            devices: self.devices.into_values().map(|(device, _)| device).collect(),
        }
    }
}
