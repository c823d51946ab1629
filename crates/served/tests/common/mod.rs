//! An array on devices in memory, whose operations are done at once and in order; and its devices
//! as text.

#![allow(dead_code, reason = "each program of tests uses a part")]

pub mod found;

use destage_engine::array::geometry::Geometry;
use destage_engine::units::{Instant, PAGE_BYTES};
use destage_engine::{policy, rate};
use destage_nvslog::sizes::Sizes;
use destage_served::Creation;
use destage_served::{
    Allow, Answer, AssembleError, Assembly, Buffer, Command, Device, IoError, Media, Op, OpKind,
    OpenError, Refusal, ScrubStatus, Settings, Volume,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

pub const SECTOR: usize = 512;
/// Pages of the volume.
pub const PAGES: u64 = 32;

/// Devices in memory: sectors that are not zeros.
#[derive(Clone, Default)]
pub struct Devices(pub BTreeMap<Device, (u64, BTreeMap<u64, [u8; SECTOR]>)>);

impl Devices {
    fn of(&mut self, device: Device) -> Result<&mut (u64, BTreeMap<u64, [u8; SECTOR]>), IoError> {
        self.0.get_mut(&device).ok_or(IoError::GONE)
    }

    /// The devices of a new array, with this many NVS devices.
    pub fn created(geometry: Geometry, sizes: Sizes, block_bytes: u32, nvs: u16) -> Devices {
        let uuid = |n: u8| [n; 16];
        let members = geometry.disks as u8;
        let creation = Creation {
            geometry: geometry.checked().expect("an array"),
            block_bytes,
            sizes,
            array: uuid(1),
            log: uuid(2),
            members: (10..10 + members).map(uuid).collect(),
            nvs: (20..20 + nvs as u8).map(uuid).collect(),
        };
        let mut devices = Devices::default();
        for member in 0..geometry.disks {
            let bytes = (1 << 20) + geometry.disk_pages * PAGE_BYTES;
            devices.0.insert(Device::Member(member), (bytes, BTreeMap::new()));
        }
        for copy in 0..nvs {
            let bytes = creation.sizes.bytes(block_bytes);
            devices.0.insert(Device::Nvs(copy), (bytes, BTreeMap::new()));
        }
        destage_served::create(&mut devices, &creation).expect("created");
        devices
    }

    pub fn assembled(&mut self, allow: &Allow) -> Assembly {
        self.try_assembled(allow).expect("an array")
    }

    pub fn try_assembled(&mut self, allow: &Allow) -> Result<Assembly, AssembleError> {
        let all: Vec<Device> = self.0.keys().copied().collect();
        self.assembled_of(&all, allow)
    }

    /// Assembles from these devices; one that is not there cannot be read.
    pub fn assembled_of(
        &mut self,
        all: &[Device],
        allow: &Allow,
    ) -> Result<Assembly, AssembleError> {
        let said = |device: &Device| (*device, destage_served::read_superblock(self, *device));
        let found: Vec<_> = all.iter().map(said).collect();
        destage_served::assemble(&found, allow)
    }

    /// Whether the device has all bytes before this one.
    fn reaches(&mut self, device: Device, end: u64) -> Result<(), IoError> {
        if end > self.of(device)?.0 { Err(IoError::SHORT) } else { Ok(()) }
    }

    fn put(&mut self, device: Device, offset: u64, bytes: &[u8]) {
        let (_, sectors) = self.of(device).expect("a device");
        for (sector, bytes) in (offset / SECTOR as u64..).zip(bytes.chunks_exact(SECTOR)) {
            sectors.insert(sector, bytes.try_into().expect("a sector"));
        }
    }

    /// As text: a line for a device, then one for each sector that is not zeros.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (device, (bytes, sectors)) in &self.0 {
            let (kind, number) = match device {
                Device::Member(number) => ("member", number),
                Device::Nvs(number) => ("nvs", number),
            };
            writeln!(text, "{kind} {number} {bytes}").expect("text");
            for (sector, bytes) in sectors.iter().filter(|(_, bytes)| **bytes != [0; SECTOR]) {
                if bytes.iter().all(|byte| *byte == bytes[0]) {
                    writeln!(text, "{sector} ={:02x}", bytes[0]).expect("text");
                    continue;
                }
                let mut hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                hex.truncate(hex.trim_end_matches("00").len().next_multiple_of(2));
                writeln!(text, "{sector} {hex}").expect("text");
            }
        }
        text
    }

    pub fn from_text(text: &str) -> Devices {
        let mut devices = Devices::default();
        let mut device = Device::Member(0);
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().expect("a number");
            match words[..] {
                ["member", which, bytes] | ["nvs", which, bytes] => {
                    let which = number(which) as u16;
                    device = match words[0] {
                        "member" => Device::Member(which),
                        _ => Device::Nvs(which),
                    };
                    devices.0.insert(device, (number(bytes), BTreeMap::new()));
                }
                [sector, bytes] => {
                    let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("hex");
                    let mut filled = [0; SECTOR];
                    match bytes.strip_prefix('=') {
                        Some(all) => filled = [byte(all); SECTOR],
                        None => (0..bytes.len() / 2)
                            .for_each(|at| filled[at] = byte(&bytes[2 * at..2 * at + 2])),
                    }
                    devices.put(device, number(sector) * SECTOR as u64, &filled);
                }
                _ => panic!("{line}"),
            }
        }
        devices
    }
}

impl Media for Devices {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        Ok(self.of(device)?.0)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.reaches(device, offset + into.len() as u64)?;
        let (_, sectors) = self.of(device)?;
        for (sector, into) in (offset / SECTOR as u64..).zip(into.chunks_exact_mut(SECTOR)) {
            into.copy_from_slice(sectors.get(&sector).unwrap_or(&[0; SECTOR]));
        }
        Ok(())
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.reaches(device, offset + bytes.len() as u64)?;
        self.put(device, offset, bytes);
        Ok(())
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.of(device).map(|_| ())
    }
}

/// A volume whose operations are done at once and in order, until there are no more to be done.
pub struct Served {
    pub devices: Devices,
    pub volume: Volume,
    /// The time of the last call, in nanoseconds.
    pub clock: u64,
    /// Operations that are still carried out.
    pub left: u64,
    done: u64,
    queue: VecDeque<Op>,
    /// Flushes of this device are carried out when nothing else is to be done.
    pub slow_flush: Option<Device>,
    /// Flushes of this device are not carried out.
    pub no_flush: Option<Device>,
    /// Nor operations like these.
    pub waits: fn(&Op) -> bool,
    /// Bytes that cannot be read.
    pub unreadable: Vec<(Device, u64)>,
    /// Bytes that cannot be written.
    pub unwritable: Vec<(Device, u64)>,
    /// The operations carried out, and whether a change of the set of devices was in progress.
    pub seen: Option<Vec<(bool, Device, OpKind)>>,
}

impl Served {
    pub fn open(devices: Devices) -> Served {
        Served::open_as(devices, &Allow::default())
    }

    pub fn open_as(devices: Devices, allow: &Allow) -> Served {
        Served::open_of(devices, allow, &settings())
    }

    /// A start with other settings.
    pub fn open_with(devices: Devices, settings: &Settings) -> Served {
        Served::open_of(devices, &Allow::default(), settings)
    }

    fn open_of(mut devices: Devices, allow: &Allow, settings: &Settings) -> Served {
        let assembly = devices.assembled(allow);
        let volume = opened(&mut devices, &assembly, settings).expect("it opens");
        let mut served = Served::of(devices, volume);
        served.run();
        served
    }

    /// A start while an NVS device of two is away.
    pub fn open_without(mut devices: Devices, away: Device) -> Served {
        let nvs = [0, 1].map(Device::Nvs);
        let members = devices.0.keys().copied().filter(|device| !nvs.contains(device));
        let all: Vec<Device> = members.chain(nvs).collect();
        devices.0.remove(&away);
        let assembly = devices.assembled_of(&all, &Allow::degraded()).expect("an array");
        let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
        let mut served = Served::of(devices, volume);
        served.run();
        served
    }

    pub fn of(devices: Devices, volume: Volume) -> Served {
        let (queue, unreadable) = (VecDeque::new(), Vec::new());
        Served {
            devices,
            volume,
            clock: 1,
            left: u64::MAX,
            done: 0,
            queue,
            slow_flush: None,
            no_flush: None,
            waits: |_| false,
            unreadable,
            unwritable: Vec::new(),
            seen: None,
        }
    }

    pub fn now(&mut self) -> Instant {
        self.clock += 1_000;
        Instant(self.clock)
    }

    /// Until nothing is to be done any more.
    pub fn run(&mut self) {
        self.run_until(u64::MAX, |_| false);
    }

    /// Until this holds, nothing is to be done any more, or this time has come.
    pub fn run_until(&mut self, end: u64, holds: impl Fn(&Volume) -> bool) {
        let mut ops: Vec<Op> = Vec::new();
        while !holds(&self.volume) && self.clock < end {
            let now = self.now();
            self.volume.turn(now);
            self.volume.take_ops(&mut ops);
            self.queue.extend(ops.drain(..));
            if let Some(op) = self.next_op() {
                self.carry_out(now, op);
                continue;
            }
            // What the log waits with.
            let Some(at) = self.volume.deadline() else { return };
            self.clock = self.clock.max(at.0.min(end));
        }
    }

    /// Carries out some operations.
    pub fn steps(&mut self, count: u64) {
        let end = self.done + count;
        while self.done < end {
            let now = self.now();
            self.volume.turn(now);
            self.take_ops();
            let Some(op) = self.next_op() else { return };
            self.carry_out(now, op);
        }
    }

    /// Carries out operations until one like this is to be done; whether there is one.
    pub fn steps_until(&mut self, is_it: impl Fn(&Op) -> bool) -> bool {
        for _ in 0..100_000 {
            self.take_ops();
            if self.queue.iter().any(&is_it) {
                return true;
            }
            self.steps(1);
        }
        false
    }

    fn take_ops(&mut self) {
        let mut ops = Vec::new();
        self.volume.take_ops(&mut ops);
        self.queue.extend(ops);
    }

    fn next_op(&mut self) -> Option<Op> {
        let flush_of = |op: &Op| matches!(op.kind, OpKind::Flush).then_some(op.device);
        let among = |op: &Op, device: Option<Device>| device.is_some() && flush_of(op) == device;
        let first = |late: Option<Device>| {
            let waits = |op: &Op| among(op, self.no_flush) || (self.waits)(op);
            let may = |op: &Op| !waits(op) && !among(op, late);
            self.queue.iter().position(may)
        };
        let next = first(self.slow_flush).or_else(|| first(None))?;
        self.queue.remove(next)
    }

    fn carry_out(&mut self, now: Instant, Op { id, device, kind }: Op) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.done += 1;
        if let Some(seen) = &mut self.seen {
            seen.push((self.volume.is_changing(), device, kind.clone()));
        }
        let within = |bad: &[(Device, u64)], bytes: usize, offset: u64| {
            let bytes = offset..offset + bytes as u64;
            bad.iter().any(|bad| bad.0 == device && bytes.contains(&bad.1))
        };
        let result = match kind {
            OpKind::Read { offset, bytes } => {
                let mut buffer = Buffer::zeroed(bytes);
                let read = match within(&self.unreadable, bytes, offset) {
                    true => Err(IoError::MEDIUM),
                    false => self.devices.read(device, offset, &mut buffer),
                };
                read.map(|()| Some(buffer))
            }
            OpKind::Write { offset, buffer, .. }
                if within(&self.unwritable, buffer.len(), offset) =>
            {
                Err(IoError::MEDIUM)
            }
            OpKind::Write { offset, buffer, .. } => {
                self.devices.write(device, offset, &buffer).map(|()| None)
            }
            OpKind::Flush => Ok(None),
        };
        self.volume.done(now, id, result);
    }

    /// The answer to a request, which must come.
    pub fn ask(&mut self, command: Command, payload: &[u8]) -> Vec<u8> {
        let now = self.now();
        self.volume.submit(now, 7, command, payload);
        self.run();
        self.answer().expect("an answer").expect("served")
    }

    /// The answer to the last request, if there is one.
    pub fn answer(&mut self) -> Option<Result<Vec<u8>, Refusal>> {
        let mut replies = Vec::new();
        self.volume.take_replies(&mut replies);
        let answer = replies.pop()?.result;
        Some(answer.map(|answer| match answer {
            Answer::Data { buffer, from, bytes } => buffer[from..from + bytes].to_vec(),
            Answer::Done => Vec::new(),
        }))
    }

    pub fn write(&mut self, first_sector: u64, sectors: usize, fill: u8) {
        let command = Command::Write { offset: first_sector * SECTOR as u64, fua: false };
        self.ask(command, &vec![fill; sectors * SECTOR]);
    }

    /// A write whose answer is not waited for: no more than what is left is carried out.
    pub fn write_unanswered(&mut self, first_sector: u64, sectors: usize, fill: u8) {
        let command = Command::Write { offset: first_sector * SECTOR as u64, fua: false };
        let now = self.now();
        self.volume.submit(now, 7, command, &vec![fill; sectors * SECTOR]);
        self.steps(self.left);
    }

    pub fn flush_cache(&mut self) {
        let now = self.now();
        self.volume.flush_cache(now);
        self.run();
    }

    /// Scrubs all rows.
    pub fn scrub(&mut self, repair: bool) -> ScrubStatus {
        let now = self.now();
        self.volume.start_scrub(now, repair).expect("begun");
        self.volume.allow_scrub(now, u64::MAX);
        self.run();
        self.volume.scrub_status().expect("a scrub")
    }

    pub fn stop(&mut self) {
        self.volume.pause(true);
        for step in [Volume::confirm, Volume::mark_stop] {
            let now = self.now();
            step(&mut self.volume, now);
            self.run();
        }
    }
}

/// How these tests serve.
pub fn settings() -> Settings {
    let policy = policy::choose("stow").expect("of the table");
    Settings::new(policy, rate::choose("linear:90/80").expect("of the table"))
}

/// A start.
pub fn opened(
    devices: &mut Devices,
    assembly: &Assembly,
    settings: &Settings,
) -> Result<Volume, OpenError> {
    destage_served::open(devices, assembly, settings.clone())
}

/// What the arrays of these tests acknowledged: by page, the fill of each sector; `None` where a
/// trim leaves it open.
pub fn acknowledged(page: u64) -> Option<[u8; 8]> {
    Some(match page {
        0 => [4; 8],
        1 => [0; 8],
        2 | 3 => [1; 8],
        5 => [0, 0, 2, 0, 0, 0, 0, 0],
        8 => return None,
        9..12 => [3; 8],
        12 => [0, 5, 5, 0, 0, 0, 0, 0],
        20..24 => [6; 8],
        _ => [0; 8],
    })
}

/// Checks a page of a volume.
pub fn check(served: &mut Served, page: u64, what: &str) {
    let command = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize };
    let bytes = served.ask(command, &[]);
    let Some(fills) = acknowledged(page) else { return };
    let wanted: Vec<u8> = fills.iter().flat_map(|fill| [*fill; SECTOR]).collect();
    assert!(bytes == wanted, "{what}: page {page}");
}
