//! The streaming reader: an iterator of records over one trace or several, of which only a part
//! may be wanted. It holds one line or record of each file, never a file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::{TraceError, TracePosition};
use super::input::Compression;
use super::options::{MergeDevices, MergeTimes, ReadOptions};
use super::stream::Stream;
use super::{Format, TraceRecord};

/// Devices of an error that are listed.
const KNOWN_DEVICES: usize = 16;
/// What is added to the device numbers of each further trace.
const APART: u32 = 65_536;

/// One of several files, and the record of it that comes next.
struct Part {
    stream: Stream,
    next: Option<(TraceRecord, TracePosition)>,
    /// Added to its times.
    shift_ns: u64,
}

/// Reads a trace, or several as one.
pub struct Reader {
    name: String,
    parts: Vec<Part>,
    /// Of several: the time of the next record of each, and its number.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    options: ReadOptions,
    /// The file that the last record came from.
    current: usize,
    place: TracePosition,
    /// Numbers of devices of further traces that are not their own.
    numbers: BTreeMap<(usize, u32), u32>,
    taken: BTreeSet<u32>,
    /// Of a selection: parts of requests that come next.
    kept: VecDeque<TraceRecord>,
    read: u64,
    selected: u64,
    base_ns: Option<u64>,
    failed: bool,
}

impl Reader {
    /// Opens a trace, telling compression and (unless given) format by content. A name that is not
    /// a file may be that of several, see [`files`].
    ///
    /// # Errors
    /// A file cannot be opened, is empty, or no format fits.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Reader, TraceError> {
        let found = files(path);
        let streams = found.files.iter().map(|file| Stream::open(file, options));
        let streams = streams.collect::<Result<Vec<Stream>, TraceError>>()?;
        let mut options = options.clone();
        if found.one_recording {
            (options.times, options.devices) = (MergeTimes::Clock, MergeDevices::Shared);
        }
        Reader::new(path.display().to_string(), streams, options)
    }

    /// Reads from any stream; `name` appears in messages and is a hint to the format.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn from_read(
        source: Box<dyn Read + Send>,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Reader, TraceError> {
        let stream = Stream::from_read(source, name, options)?;
        Reader::new(name.to_string(), vec![stream], options.clone())
    }

    /// Reads several streams as one trace; each has a name as in [`Reader::from_read`].
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn from_reads(
        sources: Vec<(Box<dyn Read + Send>, String)>,
        options: &ReadOptions,
    ) -> Result<Reader, TraceError> {
        let name = sources.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join("+");
        let streams =
            sources.into_iter().map(|(read, name)| Stream::from_read(read, &name, options));
        Reader::new(name, streams.collect::<Result<_, _>>()?, options.clone())
    }

    fn new(name: String, streams: Vec<Stream>, options: ReadOptions) -> Result<Reader, TraceError> {
        if streams.len() > 1
            && let Some(stream) = streams.iter().find(|stream| !stream.format().has_times)
        {
            let (file, format) = (stream.file().to_string(), stream.format().entry.name);
            return Err(TraceError::NoMerge { file, format });
        }
        let place = streams[0].place();
        let parts = streams.into_iter().map(|stream| Part { stream, next: None, shift_ns: 0 });
        let mut reader = Reader {
            name,
            parts: parts.collect(),
            waiting: BinaryHeap::new(),
            options,
            current: 0,
            place,
            numbers: BTreeMap::new(),
            taken: BTreeSet::new(),
            kept: VecDeque::new(),
            read: 0,
            selected: 0,
            base_ns: None,
            failed: false,
        };
        if reader.parts.len() > 1 {
            reader.line_up()?;
        }
        Ok(reader)
    }

    /// Reads the first record of every file, and finds where their times begin.
    fn line_up(&mut self) -> Result<(), TraceError> {
        for part in &mut self.parts {
            part.advance()?;
        }
        if self.options.times == MergeTimes::Clock {
            let first_ns = self.parts.iter().filter_map(|part| part.stream.base_ns()).min();
            for part in &mut self.parts {
                let base_ns = part.stream.base_ns().unwrap_or(0);
                part.shift_ns = base_ns - first_ns.unwrap_or(0).min(base_ns);
                if part.shift_ns > 1 << 61 {
                    let file = part.stream.file().to_string();
                    return Err(TraceError::OtherClock { file });
                }
            }
        }
        let times = self.parts.iter().enumerate().filter_map(|(at, part)| {
            part.next.as_ref().map(|(record, _)| Reverse((record.time_ns + part.shift_ns, at)))
        });
        self.waiting = times.collect();
        Ok(())
    }

    /// The trace as it was named.
    pub fn file(&self) -> &str {
        &self.name
    }

    /// The file that the record last returned came from.
    pub fn place_file(&self) -> &str {
        self.parts[self.current].stream.file()
    }

    /// The format being read; of several traces that of the first.
    pub fn format(&self) -> &'static Format {
        self.parts[0].stream.format()
    }

    /// Whether times are sums of waits.
    pub(super) fn has_waits(&self) -> bool {
        self.parts.iter().all(|part| part.stream.has_waits())
    }

    /// The option that reads the first file with bytes in place of sectors.
    pub(super) fn as_bytes(&self) -> Option<&'static str> {
        self.parts[0].stream.as_bytes()
    }

    /// Whether records may have service times.
    pub fn has_service(&self) -> bool {
        self.parts.iter().any(|part| part.stream.format().has_service)
    }

    /// The device that was selected, if it is a single one.
    pub fn only_device(&self) -> Option<u32> {
        match self.options.select.devices[..] {
            [device] => Some(device),
            _ => None,
        }
    }

    /// How the file is compressed; of several the first.
    pub fn compression(&self) -> Compression {
        self.parts[0].stream.compression()
    }

    /// Where the record last returned was in [`Reader::place_file`].
    pub fn place(&self) -> TracePosition {
        self.place
    }

    /// Malformed lines or records left out so far (only with `skip_bad`).
    pub fn bad(&self) -> u64 {
        self.parts.iter().map(|part| part.stream.bad()).sum()
    }

    /// The first of them.
    pub fn first_bad(&self) -> Option<&TraceError> {
        self.parts.iter().find_map(|part| part.stream.first_bad())
    }

    /// Records so far that came before their predecessors' time and were lifted, sorted or left
    /// out.
    pub fn disordered(&self) -> u64 {
        self.parts.iter().map(|part| part.stream.disordered()).sum()
    }

    /// The next record of all files.
    fn next_merged(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        if let [part] = &mut self.parts[..] {
            let next = part.stream.next_ordered()?;
            self.place = part.stream.place();
            return Ok(next);
        }
        let Some(Reverse((time_ns, at))) = self.waiting.pop() else { return Ok(None) };
        let part = &mut self.parts[at];
        let (record, place) = part.next.take().expect("it waits");
        (self.current, self.place) = (at, place);
        part.advance()?;
        if let Some((next, _)) = &part.next {
            self.waiting.push(Reverse((next.time_ns + part.shift_ns, at)));
        }
        let device = self.device(at, record.device);
        Ok(Some(TraceRecord { time_ns, device, ..record }))
    }

    /// The number of a device among those of all traces.
    fn device(&mut self, part: usize, device: u32) -> u32 {
        if self.options.devices == MergeDevices::Shared {
            return device;
        }
        if let Some(known) = self.numbers.get(&(part, device)) {
            return *known;
        }
        let mut number = device.wrapping_add(APART.wrapping_mul(part as u32));
        while !self.taken.insert(number) {
            number = number.wrapping_add(1);
        }
        self.numbers.insert((part, device), number);
        number
    }

    /// The next record that is selected, with times from the first of these.
    fn next_selected(&mut self) -> Result<Option<TraceRecord>, TraceError> {
        loop {
            if let Some(mut record) = self.kept.pop_front() {
                self.selected += 1;
                record.time_ns -= *self.base_ns.get_or_insert(record.time_ns);
                return Ok(Some(record));
            }
            let Some(record) = self.next_merged()? else { return self.check_selected(true) };
            if self.options.select.is_past(record.time_ns) {
                return self.check_selected(false);
            }
            self.read += 1;
            if !self.options.select.devices.is_empty() {
                self.taken.insert(record.device);
            }
            let kept = &mut self.kept;
            self.options.select.apply(&record, &mut |part| kept.push_back(part));
        }
    }

    /// At the end: a device that was asked for exists, and something was selected.
    fn check_selected<T>(&self, at_end: bool) -> Result<Option<T>, TraceError> {
        let file = self.name.clone();
        let missing =
            self.options.select.devices.iter().find(|device| !self.taken.contains(device));
        if let Some(&device) = missing.filter(|_| at_end) {
            let known = self.taken.iter().copied().take(KNOWN_DEVICES).collect();
            return Err(TraceError::NoSuchDevice { file, device, known });
        }
        match self.selected {
            0 => Err(TraceError::NothingSelected { file, read: self.read }),
            _ => Ok(None),
        }
    }
}

impl Part {
    fn advance(&mut self) -> Result<(), TraceError> {
        self.next = self.stream.next_ordered()?.map(|record| (record, self.stream.place()));
        Ok(())
    }
}

impl Iterator for Reader {
    type Item = Result<TraceRecord, TraceError>;

    /// The next record. After an error there are no more.
    fn next(&mut self) -> Option<Result<TraceRecord, TraceError>> {
        if self.failed {
            return None;
        }
        let next = match self.options.select.is_all() {
            true => self.next_merged(),
            false => self.next_selected(),
        };
        let next = next.transpose();
        self.failed = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The files that a name stands for.
pub struct Files {
    /// At least one.
    pub files: Vec<PathBuf>,
    /// They are the parts of one recording: of one clock and with the same devices.
    one_recording: bool,
}

/// The files that the name of a trace stands for: itself if it exists; those between the `+` in it;
/// or, as blktrace names them, `NAME.blktrace.0` and so on, one for each processor.
pub fn files(path: &Path) -> Files {
    let alone = || Files { files: vec![path.to_path_buf()], one_recording: false };
    if path.exists() {
        return alone();
    }
    for base in ["", ".blktrace"] {
        let numbered = |cpu: usize| {
            let mut name = path.as_os_str().to_os_string();
            name.push(format!("{base}.{cpu}"));
            PathBuf::from(name)
        };
        let is_trace = !base.is_empty() || path.extension().is_some_and(|e| e == "blktrace");
        if is_trace && numbered(0).exists() {
            // A processor that was idle may have no file.
            let files = (0..CPUS_MAX).map(numbered).filter(|file| file.exists());
            let filled = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|m| m.len() > 0);
            let files: Vec<PathBuf> = files.filter(filled).collect();
            if !files.is_empty() {
                return Files { files, one_recording: true };
            }
        }
    }
    match path.to_str() {
        Some(text) if text.contains('+') => {
            let parts = text.split('+').filter(|part| !part.is_empty()).map(Path::new);
            let mut found = Files { files: Vec::new(), one_recording: false };
            let mut parts = parts.map(files).peekable();
            if parts.peek().is_none() {
                return alone();
            }
            parts.for_each(|part| found.files.extend(part.files));
            found
        }
        _ => alone(),
    }
}

/// Processors of a recording by blktrace.
const CPUS_MAX: usize = 4096;
