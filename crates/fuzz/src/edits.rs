//! What a fuzzer does to the devices of an array. Where a checksum would stop everything it is
//! computed again, so that what is behind it is reached.

use crate::devices::{Devices, SECTOR};
use crate::feed::Feed;
use destage_engine::units::Page;
use destage_nvslog::commit::{self, Claim, Header, Kind};
use destage_nvslog::crc::{crc32c, crc32c_of_both};
use destage_nvslog::member::MemberRecord;
use destage_nvslog::record::{Origin, Pages, Record, VERSION_MAX};
use destage_nvslog::superblock::{DATA_START, Superblock};
use destage_nvslog::{COMMIT_BYTES_MAX, HEADER_BYTES, LogId, RANGE_PAGES_MAX};
use destage_served::{Device, Media};
use std::sync::OnceLock;

/// UUID of the log of every image.
const LOG: LogId = LogId([2; 16]);
const SUPERBLOCKS: [u64; 2] = [0, 12_288];
const ANCHORS: [u64; 2] = [4096, 8192];
const RECORDS: [u64; 2] = [16_384, 20_480];
/// Blocks of the ring of every image.
const RING_BLOCKS: u64 = 64;
const PAGE: u64 = 4096;

macro_rules! image {
    ($name:literal) => {
        include_str!(concat!("../../served/tests/golden/version-4-blocks-", $name, ".txt"))
    };
}

/// Devices as a stop or a crash left them.
const IMAGES: [&str; 8] = [
    image!("512-nvs-1-stop"),
    image!("512-nvs-1-crash"),
    image!("512-nvs-2-stop"),
    image!("512-nvs-2-crash"),
    image!("4096-nvs-1-stop"),
    image!("4096-nvs-1-crash"),
    image!("4096-nvs-2-stop"),
    image!("4096-nvs-2-crash"),
];

/// Most changes of one image.
const EDITS_MAX: usize = 24;

fn image(number: usize) -> Devices {
    static PARSED: [OnceLock<Devices>; IMAGES.len()] = [const { OnceLock::new() }; IMAGES.len()];
    PARSED[number].get_or_init(|| Devices::of_text(IMAGES[number])).clone()
}

/// Images there are.
pub(crate) const fn images() -> u8 {
    IMAGES.len() as u8
}

/// An image with the changes that the bytes say.
pub(crate) fn edited(feed: &mut Feed<'_>) -> Devices {
    let number = usize::from(feed.u8()) % IMAGES.len();
    let block_bytes = if number < 4 { 512 } else { 4096 };
    let mut edits = Edits { devices: image(number), block_bytes };
    for _ in 0..EDITS_MAX {
        if feed.is_empty() {
            break;
        }
        edits.edit(feed);
    }
    edits.devices
}

struct Edits {
    devices: Devices,
    block_bytes: u32,
}

/// Where the next commit goes.
struct End {
    block: u64,
    header: Option<Header>,
}

impl Edits {
    fn edit(&mut self, feed: &mut Feed<'_>) {
        match feed.u8() % 13 {
            0 => self.raw(feed),
            1 => self.label(feed, SUPERBLOCKS, SECTOR, &[]),
            2 => self.label(feed, ANCHORS, SECTOR, &LOG.0),
            3 => self.label(feed, RECORDS, PAGE as usize, &[]),
            4 | 5 => self.old_commit(feed),
            6..=8 => self.new_commit(feed),
            9 => {
                let from = feed.u16();
                let device = self.device(feed);
                if let Some(disk) = self.devices.0.get_mut(&device) {
                    let first = if from & 1 == 0 { 0 } else { DATA_START / SECTOR as u64 };
                    let first = first + u64::from(from / 2);
                    disk.bad = first..first + feed.small() % 4096;
                }
            }
            10 => {
                let (device, bytes) = (self.device(feed), feed.small());
                match self.devices.0.get_mut(&device) {
                    Some(disk) if bytes > 0 => {
                        disk.bytes = disk.bytes.min(bytes.saturating_mul(PAGE))
                    }
                    _ => drop(self.devices.0.remove(&device)),
                }
            }
            11 => self.rebuilt(feed),
            _ => {
                // A copy of another device, or an older or newer one of the same.
                let (to, from) = (self.device(feed), self.device(feed));
                let number = usize::from(feed.u8()) % IMAGES.len();
                let other = image(number).0.remove(&from);
                if let Some(other) = other {
                    self.devices.0.insert(to, other);
                }
            }
        }
    }

    fn device(&self, feed: &mut Feed<'_>) -> Device {
        match feed.u8() % 8 {
            member @ 0..3 => Device::Member(u16::from(member)),
            nvs => Device::Nvs(u16::from(nvs & 1)),
        }
    }

    /// Any bytes anywhere.
    fn raw(&mut self, feed: &mut Feed<'_>) {
        let (device, area, at) = (self.device(feed), feed.u8(), u64::from(feed.u16()));
        let slots = DATA_START + RING_BLOCKS * u64::from(self.block_bytes);
        let first = [0, DATA_START, slots][usize::from(area) % 3];
        let (bytes, room) = (feed.u8(), |bytes| first + at + 64 <= bytes);
        let bytes = feed.bytes(usize::from(bytes) % 64);
        if let Some(disk) = self.devices.0.get_mut(&device).filter(|disk| room(disk.bytes)) {
            disk.put(first + at, bytes);
        }
    }

    /// Changes a superblock, an anchor or a member's record in one copy or both.
    fn label(&mut self, feed: &mut Feed<'_>, places: [u64; 2], bytes: usize, prefix: &[u8]) {
        let (device, which) = (self.device(feed), feed.u8());
        let (at, count) = (usize::from(feed.u16()) % bytes, usize::from(feed.u8()) % 9);
        let change = feed.bytes(count);
        let Some(disk) = self.devices.0.get_mut(&device) else { return };
        for (copy, place) in places.into_iter().enumerate() {
            if which & (1 << copy) != 0 {
                continue;
            }
            let mut label = disk.get(place, bytes);
            let end = (at + change.len()).min(bytes);
            label[at..end].copy_from_slice(&change[..end - at]);
            if which & 4 == 0 {
                let crc = crc32c_of_both(prefix, &label[12..]);
                label[8..12].copy_from_slice(&crc.to_le_bytes());
            }
            disk.put(place, &label);
        }
    }

    /// A member is being rebuilt, or has lost pages, as its record says.
    fn rebuilt(&mut self, feed: &mut Feed<'_>) {
        let (member, lost_pages) = (u16::from(feed.u8() % 3), feed.flag());
        let device = [10 + member as u8; 16];
        for disk in self.devices.0.values_mut() {
            for place in SUPERBLOCKS {
                let Ok(mut said) = Superblock::decode(&disk.get(place, SECTOR)) else { continue };
                if lost_pages {
                    said.lost_pages = true;
                } else {
                    said.mark(member, true);
                    said.set_rebuild(member, Some(device));
                }
                disk.put(place, &said.encode());
            }
        }
        let (number, below) = (feed.small(), feed.small());
        let count = feed.u8() % 5;
        let mut lost: Vec<u64> = (0..count).map(|_| feed.small()).collect();
        lost.sort_unstable();
        lost.dedup();
        let record = MemberRecord { number, device, below, lost };
        if let Some(disk) = self.devices.0.get_mut(&Device::Member(member)) {
            disk.put(RECORDS[0], &record.encode());
        }
    }

    /// The commits in the ring of the first NVS device, in its order.
    fn commits(&self) -> Vec<(u64, Claim)> {
        let Some((_, disk)) = self.devices.0.iter().find(|(device, _)| is_nvs(device)) else {
            return Vec::new();
        };
        let bytes = u64::from(self.block_bytes);
        let ring = disk.get(DATA_START, (RING_BLOCKS * bytes) as usize);
        let blocks = (0..).zip(ring.chunks_exact(self.block_bytes as usize));
        blocks.filter_map(|(block, bytes)| Some((block, Claim::read(bytes)?))).collect()
    }

    /// Changes a commit that is there.
    fn old_commit(&mut self, feed: &mut Feed<'_>) {
        let (which, at, devices) = (usize::from(feed.u8()), feed.u16(), feed.u8());
        let count = usize::from(feed.u8()) % 33;
        let change = feed.bytes(count);
        let commits = self.commits();
        if commits.is_empty() {
            return;
        }
        let (block, claim) = commits[which % commits.len()];
        let bytes = (claim.own_blocks(self.block_bytes) * u64::from(self.block_bytes)) as usize;
        let place = DATA_START + block * u64::from(self.block_bytes);
        for disk in self.nvs(devices) {
            let mut commit = disk.get(place, bytes);
            let at = usize::from(at) % bytes;
            let end = (at + change.len()).min(bytes);
            commit[at..end].copy_from_slice(&change[..end - at]);
            let crc = crc32c_of_both(&LOG.0, &commit[12..]);
            commit[8..12].copy_from_slice(&crc.to_le_bytes());
            disk.put(place, &commit);
        }
    }

    fn nvs(&mut self, which: u8) -> impl Iterator<Item = &mut crate::devices::Disk> {
        let some = move |device: &Device| match device {
            Device::Nvs(number) => which & (1 << number) == 0,
            Device::Member(_) => false,
        };
        self.devices.0.iter_mut().filter(move |(device, _)| some(device)).map(|(_, disk)| disk)
    }

    fn end(&self) -> End {
        let newest = self.commits().into_iter().max_by_key(|(_, claim)| claim.header.sequence);
        match newest {
            Some((block, claim)) => {
                let next = block + claim.blocks(self.block_bytes);
                End { block: next % RING_BLOCKS, header: Some(claim.header) }
            }
            None => End { block: 0, header: None },
        }
    }

    /// Another commit behind the last, whose header and records are right but for what the bytes
    /// say.
    fn new_commit(&mut self, feed: &mut Feed<'_>) {
        let End { block, header } = self.end();
        let last = header.unwrap_or(Header {
            epoch: 1,
            sequence: 0,
            durable_through: 0,
            block: 0,
            last_version: 0,
            kind: Kind::Plain,
        });
        let (devices, off) = (feed.u8(), feed.u8());
        let mut version = last.last_version % (VERSION_MAX - 4096);
        let many = match feed.u8() {
            255 => 2000,
            few => usize::from(few) % 12,
        };
        let (mut records, mut bytes) = (Vec::new(), HEADER_BYTES);
        while records.len() < many && (!feed.is_empty() || records.is_empty()) {
            let record = self.record(feed, &mut version);
            bytes += record.encoded_bytes();
            if bytes > COMMIT_BYTES_MAX {
                break;
            }
            records.push(record);
        }
        let kind = match off & 3 {
            0 | 1 => Kind::Plain,
            2 => Kind::Opens,
            _ => Kind::Pads { blocks: feed.small() as u32 },
        };
        if matches!(kind, Kind::Pads { .. }) {
            records.clear();
        }
        let wrong = |feed: &mut Feed<'_>, bit: u8, right: u64| {
            if off & bit == 0 { right } else { feed.small() }
        };
        let header = Header {
            epoch: wrong(feed, 64, u64::from(last.epoch) + u64::from(kind == Kind::Opens)) as u32,
            sequence: wrong(feed, 4, last.sequence.wrapping_add(1)),
            durable_through: wrong(feed, 8, last.sequence),
            block: wrong(feed, 16, block),
            last_version: wrong(feed, 32, version.max(last.last_version)),
            kind,
        };
        let mut bytes = Vec::new();
        commit::encode(&header, &records, LOG, self.block_bytes, &mut bytes);
        let place = DATA_START + block * u64::from(self.block_bytes);
        for disk in self.nvs(devices) {
            disk.put(place, &bytes);
        }
    }

    fn record(&self, feed: &mut Feed<'_>, version: &mut u64) -> Record {
        let kind = feed.u8();
        let origin = [Origin::New, Origin::Moved, Origin::Frozen][usize::from(kind / 8) % 3];
        let number = match kind / 32 {
            7 => feed.small() % VERSION_MAX,
            _ if origin == Origin::New => {
                *version += 1;
                *version
            }
            _ => *version,
        };
        let first = feed.small() % (1 << 44);
        let count = |feed: &mut Feed<'_>| (feed.small() % u64::from(RANGE_PAGES_MAX) + 1) as u32;
        let run = |feed: &mut Feed<'_>| Pages::new(Page(first), count(feed));
        match kind % 8 {
            0 | 1 | 6 => {
                let (slot, sectors) = (feed.small() as u32, feed.u8());
                let sectors = if sectors == 0 { 255 } else { sectors };
                let crc = if kind % 8 == 6 { feed.u32() } else { self.crc_of(slot) };
                Record::Data { page: Page(first), version: number, slot, sectors, crc, origin }
            }
            2 => Record::Zero { pages: run(feed), version: number, origin },
            3 => Record::Trim { pages: run(feed), version: number },
            4 => Record::Release { pages: run(feed), through: number },
            5 => {
                Record::Intent { pages: run(feed), through: number, moved: origin == Origin::Moved }
            }
            _ => {
                let q = feed.flag().then(|| [feed.u32(); 8]);
                let moved = origin == Origin::Moved;
                let (row, p) = (feed.small() as u32, [feed.u32(); 8]);
                Record::Parity { first: Page(first), row, p, q, moved }
            }
        }
    }

    /// The checksum of a slot's bytes on the first NVS device.
    fn crc_of(&self, slot: u32) -> u32 {
        let place = DATA_START + RING_BLOCKS * u64::from(self.block_bytes) + u64::from(slot) * PAGE;
        let mut devices = self.devices.0.iter().filter(|(device, _)| is_nvs(device));
        let bytes = devices.next().filter(|(_, disk)| place + PAGE <= disk.bytes);
        bytes.map_or(0, |(_, disk)| crc32c(&disk.get(place, PAGE as usize)))
    }
}

fn is_nvs(device: &Device) -> bool {
    matches!(device, Device::Nvs(_))
}

/// The superblocks, anchors and member records of the images.
pub(crate) fn labels() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for number in 0..IMAGES.len() {
        let mut devices = image(number);
        let all: Vec<Device> = devices.0.keys().copied().collect();
        for device in all {
            for at in SUPERBLOCKS.into_iter().chain(ANCHORS).chain(RECORDS) {
                let mut page = vec![0; PAGE as usize];
                if devices.read(device, at, &mut page).is_ok() && page.iter().any(|b| *b != 0) {
                    found.push(page);
                }
            }
        }
    }
    found
}
