//! An array on devices in memory, whose operations are done at once and in order; and its devices
//! as text.

use destage_engine::units::{Instant, PAGE_BYTES};
use destage_engine::{policy, rate};
use destage_served::{
    Allow, Answer, Assembly, Buffer, Command, Device, IoError, Media, Op, OpKind, OpenError,
    Settings, Volume,
};
use std::collections::BTreeMap;
use std::fmt::Write;

pub const SECTOR: usize = 512;
/// Pages of the volume.
pub const PAGES: u64 = 32;

/// Devices in memory: sectors that are not zeros.
#[derive(Default)]
pub struct Devices(pub BTreeMap<Device, (u64, BTreeMap<u64, [u8; SECTOR]>)>);

impl Devices {
    fn of(&mut self, device: Device) -> Result<&mut (u64, BTreeMap<u64, [u8; SECTOR]>), IoError> {
        self.0.get_mut(&device).ok_or(IoError::GONE)
    }

    pub fn assembled(&mut self, allow: &Allow) -> Assembly {
        let all: Vec<Device> = self.0.keys().copied().collect();
        let said = |device| (device, destage_served::read_superblock(self, device));
        let found: Vec<_> = all.into_iter().map(said).collect();
        destage_served::assemble(&found, allow).expect("an array")
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
        let (_, sectors) = self.of(device)?;
        for (sector, into) in (offset / SECTOR as u64..).zip(into.chunks_exact_mut(SECTOR)) {
            into.copy_from_slice(sectors.get(&sector).unwrap_or(&[0; SECTOR]));
        }
        Ok(())
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.of(device)?;
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
    clock: u64,
    /// Operations that are still carried out.
    pub left: u64,
}

impl Served {
    pub fn open(devices: Devices) -> Served {
        Served::open_as(devices, &Allow::default())
    }

    pub fn open_as(mut devices: Devices, allow: &Allow) -> Served {
        let assembly = devices.assembled(allow);
        let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
        let mut served = Served { devices, volume, clock: 1, left: u64::MAX };
        served.run();
        served
    }

    fn now(&mut self) -> Instant {
        self.clock += 1_000;
        Instant(self.clock)
    }

    fn run(&mut self) {
        let mut ops: Vec<Op> = Vec::new();
        loop {
            let now = self.now();
            self.volume.turn(now);
            self.volume.take_ops(&mut ops);
            if ops.is_empty() {
                // What the log waits with.
                let Some(at) = self.volume.deadline() else { return };
                self.clock = self.clock.max(at.0);
                continue;
            }
            for Op { id, device, kind } in ops.drain(..) {
                if self.left == 0 {
                    continue;
                }
                self.left -= 1;
                let result = match kind {
                    OpKind::Read { offset, bytes } => {
                        let mut buffer = Buffer::zeroed(bytes);
                        let read = self.devices.read(device, offset, &mut buffer);
                        read.map(|()| Some(buffer))
                    }
                    OpKind::Write { offset, buffer, .. } => {
                        self.devices.write(device, offset, &buffer).map(|()| None)
                    }
                    OpKind::Flush => Ok(None),
                };
                self.volume.done(now, id, result);
            }
        }
    }

    /// The answer to a request, which must come.
    pub fn ask(&mut self, command: Command, payload: &[u8]) -> Vec<u8> {
        let now = self.now();
        self.volume.submit(now, 7, command, payload);
        self.run();
        let mut replies = Vec::new();
        self.volume.take_replies(&mut replies);
        match replies.pop().expect("an answer").result.expect("served") {
            Answer::Data { buffer, from, bytes } => buffer[from..from + bytes].to_vec(),
            Answer::Done => Vec::new(),
        }
    }

    pub fn write(&mut self, first_sector: u64, sectors: usize, fill: u8) {
        let command = Command::Write { offset: first_sector * SECTOR as u64, fua: false };
        self.ask(command, &vec![fill; sectors * SECTOR]);
    }

    pub fn flush_cache(&mut self) {
        let now = self.now();
        self.volume.flush_cache(now);
        self.run();
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
