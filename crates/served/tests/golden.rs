//! Devices as this format left them, kept in the tree: every later program must open them and find
//! in them what was acknowledged (docs/nvs-format.md, "Versions"). With `GOLDEN_WRITE=1` the test
//! writes images that are not there yet; one that is there is never replaced.

use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::{Instant, PAGE_BYTES};
use destage_engine::{policy, rate};
use destage_nvslog::sizes::Sizes;
use destage_served::{
    Allow, Answer, Assembly, Buffer, Command, Creation, Device, IoError, Media, Op, OpKind,
    Settings, Volume,
};
use std::collections::BTreeMap;
use std::fmt::Write;

const SECTOR: usize = 512;
const PAGE: usize = PAGE_BYTES as usize;
/// Pages of the volume.
const PAGES: u64 = 32;

/// Devices in memory: sectors that are not zeros.
#[derive(Default)]
struct Devices(BTreeMap<Device, (u64, BTreeMap<u64, [u8; SECTOR]>)>);

impl Devices {
    fn of(&mut self, device: Device) -> Result<&mut (u64, BTreeMap<u64, [u8; SECTOR]>), IoError> {
        self.0.get_mut(&device).ok_or(IoError::GONE)
    }

    fn assembled(&mut self) -> Assembly {
        let all: Vec<Device> = self.0.keys().copied().collect();
        let said = |device| (device, destage_served::read_superblock(self, device));
        let found: Vec<_> = all.into_iter().map(said).collect();
        destage_served::assemble(&found, &Allow::default()).expect("an array")
    }

    fn put(&mut self, device: Device, offset: u64, bytes: &[u8]) {
        let (_, sectors) = self.of(device).expect("a device");
        for (sector, bytes) in (offset / SECTOR as u64..).zip(bytes.chunks_exact(SECTOR)) {
            sectors.insert(sector, bytes.try_into().expect("a sector"));
        }
    }

    /// As text: a line for a device, then one for each sector that is not zeros.
    fn to_text(&self) -> String {
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

    fn from_text(text: &str) -> Devices {
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
struct Served {
    devices: Devices,
    volume: Volume,
    clock: u64,
    /// Operations that are still carried out.
    left: u64,
}

impl Served {
    fn open(mut devices: Devices) -> Served {
        let assembly = devices.assembled();
        let policy = policy::choose("stow").expect("of the table");
        let settings = Settings::new(policy, rate::choose("linear:90/80").expect("of the table"));
        let volume = destage_served::open(&mut devices, &assembly, settings).expect("it opens");
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
                return;
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
    fn ask(&mut self, command: Command, payload: &[u8]) -> Vec<u8> {
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

    fn write(&mut self, first_sector: u64, sectors: usize, fill: u8) {
        let command = Command::Write { offset: first_sector * SECTOR as u64, fua: false };
        self.ask(command, &vec![fill; sectors * SECTOR]);
    }

    fn flush_cache(&mut self) {
        let now = self.now();
        self.volume.flush_cache(now);
        self.run();
    }

    fn stop(&mut self) {
        self.volume.pause(true);
        for step in [Volume::confirm, Volume::mark_stop] {
            let now = self.now();
            step(&mut self.volume, now);
            self.run();
        }
    }
}

/// What was acknowledged: by page, the fill of each sector; `None` where a trim leaves it open.
fn acknowledged(page: u64) -> Option<[u8; 8]> {
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

/// Makes the devices of an image.
fn made(block_bytes: u32, nvs: u16, crashes: bool) -> Devices {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 2, 2);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: PAGES / 2 };
    let uuid = |n: u8| [n; 16];
    let creation = Creation {
        geometry: geometry.checked().expect("an array"),
        block_bytes,
        sizes: Sizes::for_pages(24, block_bytes),
        array: uuid(1),
        log: uuid(2),
        members: (10..13).map(uuid).collect(),
        nvs: (20..20 + nvs as u8).map(uuid).collect(),
    };
    let mut devices = Devices::default();
    for member in 0..3 {
        let bytes = (1 << 20) + PAGES / 2 * PAGE_BYTES;
        devices.0.insert(Device::Member(member), (bytes, BTreeMap::new()));
    }
    for copy in 0..nvs {
        let bytes = creation.sizes.bytes(block_bytes);
        devices.0.insert(Device::Nvs(copy), (bytes, BTreeMap::new()));
    }
    destage_served::create(&mut devices, &creation).expect("created");
    let mut served = Served::open(devices);
    served.write(0, 32, 1);
    served.write(5 * 8 + 2, 1, 2);
    let zeros = Command::Zero { offset: PAGE_BYTES, bytes: PAGE_BYTES, fua: false };
    served.ask(zeros, &[]);
    served.flush_cache();
    served.write(8 * 8, 32, 3);
    served.write(0, 8, 4);
    served.write(12 * 8 + 1, 2, 5);
    served.ask(Command::Trim { offset: 8 * PAGE_BYTES, bytes: PAGE_BYTES, fua: false }, &[]);
    served.write(20 * 8, 32, 6);
    if crashes {
        // In the middle of the destages.
        served.left = 17;
        served.flush_cache();
    } else {
        served.stop();
    }
    served.devices
}

#[test]
fn images_of_this_format_are_opened() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for (block_bytes, nvs, crashes) in [
        (512, 1, false),
        (512, 1, true),
        (512, 2, false),
        (512, 2, true),
        (4096, 1, false),
        (4096, 1, true),
        (4096, 2, false),
        (4096, 2, true),
    ] {
        let end = if crashes { "crash" } else { "stop" };
        let path = folder.join(format!("version-4-blocks-{block_bytes}-nvs-{nvs}-{end}.txt"));
        if std::env::var_os("GOLDEN_WRITE").is_some() && !path.exists() {
            std::fs::write(&path, made(block_bytes, nvs, crashes).to_text()).expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("an image of the tree");
        let mut devices = Devices::from_text(&text);
        let assembly = devices.assembled();
        let held = destage_served::inspect(&mut devices, &assembly);
        assert_eq!((held.open_intents > 0, held.dirty_pages > 8), (crashes, true), "{held:?}");
        let mut served = Served::open(devices);
        for page in 0..PAGES {
            let command = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE };
            let bytes = served.ask(command, &[]);
            let Some(fills) = acknowledged(page) else { continue };
            let wanted: Vec<u8> = fills.iter().flat_map(|fill| [*fill; SECTOR]).collect();
            assert!(bytes == wanted, "{}: page {page}", path.display());
        }
        // The array continues from there, and what it holds reaches the disks.
        served.write(30 * 8, 8, 9);
        served.flush_cache();
        assert_eq!(served.volume.status().dirty_pages, 0, "{}", path.display());
    }
}
