//! Images of devices: assembling, inspecting and opening an array ends, with an error or with
//! contents whose checksums hold, and what was opened serves.

use crate::devices::{Devices, Disk};
use crate::edits::{edited, images};
use crate::feed::Feed;
use destage_engine::units::{Instant, PAGE_BYTES, Page};
use destage_engine::{policy, rate};
use destage_nvslog::anchor::Anchor;
use destage_nvslog::contents::{Contents, HeldPage};
use destage_nvslog::crc::crc32c;
use destage_nvslog::record::ALL_SECTORS;
use destage_nvslog::recover::{Damage, Layout, Part, Recovered, Recovery};
use destage_nvslog::superblock::{DATA_START, Superblock};
use destage_served::{
    Allow, Answer, Assembly, Buffer, Command, Device, Inspection, LogError, Media, Op, OpKind,
    OpenError, Reply, Settings, Volume, assemble, inspect, open, read_superblock,
};

/// Most operations that a start and its destages may need.
const OPS_MAX: usize = 50_000;
/// Most pages that are read.
const PAGES_MAX: u64 = 256;

pub(crate) fn check(data: &[u8]) -> bool {
    let mut feed = Feed::new(data);
    let allow = allowed(feed.u8());
    let mut devices = edited(&mut feed);
    let all: Vec<Device> = devices.0.keys().copied().collect();
    let found: Vec<_> = all.into_iter().map(|d| (d, read_superblock(&mut devices, d))).collect();
    for (_, said) in &found {
        said.iter().for_each(agrees);
        said.as_ref().err().iter().for_each(explained);
    }
    let assembly = match assemble(&found, &allow) {
        Ok(assembly) => assembly,
        Err(error) => {
            let _ = error.device();
            return false;
        }
    };
    let found = inspect(&mut devices, &assembly);
    sensible(&found);
    let mut before = devices.clone();
    match open(&mut devices, &assembly, settings()) {
        Err(error) => {
            refused(&found, &error);
            false
        }
        Ok(volume) => {
            assert!(found.damage.is_none(), "opened with a damaged log: {found:?}");
            let contents = contents(&mut before, &assembly);
            // What was lost, and was allowed to be.
            let lost = |page: u64| {
                found.lost.iter().any(|(first, pages)| (*first..first + pages).contains(&page))
            };
            serve(volume, devices, &|page| {
                let held = contents.as_ref().filter(|_| !lost(page))?;
                held.page(Page(page)).or_else(|| held.frozen(Page(page)))
            });
            true
        }
    }
}

fn allowed(bits: u8) -> Allow {
    let devices = [Device::Nvs(0), Device::Nvs(1), Device::Member(0), Device::Member(1)];
    let stale = (0..4).filter(|bit| bits & (16 << bit) != 0).map(|bit| devices[bit]).collect();
    Allow { degraded: bits & 1 == 1, stale, ..Allow::default() }
}

fn settings() -> Settings {
    let policy = policy::choose("stow").expect("of the table");
    Settings::new(policy, rate::choose("linear:90/80").expect("of the table"))
}

/// A superblock that was accepted has one encoding.
fn agrees(chosen: &destage_nvslog::superblock::Chosen) {
    let again = Superblock::decode(&chosen.superblock.encode());
    let known = Superblock { unknown_write_features: 0, ..chosen.superblock };
    let again = again.map(|again| Superblock { unknown_write_features: 0, ..again });
    assert_eq!(again, Ok(known));
}

fn explained(why: &impl std::fmt::Display) {
    assert!(!why.to_string().is_empty());
}

fn sensible(found: &Inspection) {
    let pages = |runs: &[(u64, u64)]| runs.iter().map(|(_, pages)| pages).sum::<u64>();
    assert!(pages(&found.ranges) <= found.dirty_pages, "{found:?}");
    assert!(pages(&found.lost) <= found.dirty_pages, "{found:?}");
    found.damage.iter().for_each(explained);
}

/// An array that is refused is refused for what `recover --inspect` shows.
fn refused(found: &Inspection, error: &OpenError) {
    explained(error);
    match error {
        OpenError::Log(LogError::Damaged(why)) => assert_eq!(found.damage.as_ref(), Some(why)),
        OpenError::Log(LogError::LostPages(..)) => assert!(!found.lost.is_empty(), "{found:?}"),
        OpenError::Log(LogError::NoAnchor) => assert_eq!(found.tail, None),
        _ => {}
    }
}

/// What the log holds, read once more by the plainest means.
fn contents(devices: &mut Devices, assembly: &Assembly) -> Option<Contents> {
    let Superblock { log, block_bytes, ring_blocks, slots, .. } = assembly.superblock;
    let disks: Vec<Disk> =
        assembly.copies.iter().filter_map(|n| devices.0.get(&Device::Nvs(*n)).cloned()).collect();
    let readable = |disk: &Disk, at: u64, bytes: u64| {
        let end = (at + bytes).div_ceil(512);
        (disk.bad.end <= at / 512 || end <= disk.bad.start).then(|| disk.get(at, bytes as usize))
    };
    let anchors =
        disks.iter().flat_map(|disk| [4096, 8192].map(|at| readable(disk, at, PAGE_BYTES)));
    let anchors: Vec<Vec<u8>> = anchors.flatten().collect();
    let anchor = Anchor::choose(anchors.iter().map(|bytes| &bytes[..]), log)?;
    let layout = Layout { log, block_bytes, ring_blocks, slots, copies: disks.len() };
    let mut recovery = Recovery::new(layout, anchor).ok()?;
    recovery.takes_what_is_left = assembly.stale.iter().any(|d| matches!(d, Device::Nvs(_)));
    let block_bytes = u64::from(block_bytes);
    while let Some(want) = recovery.want() {
        let (at, bytes) = match want.part {
            Part::Ring { block, blocks } => (block * block_bytes, blocks * block_bytes),
            Part::Slot(slot) => {
                (ring_blocks * block_bytes + u64::from(slot) * PAGE_BYTES, PAGE_BYTES)
            }
        };
        let bytes = readable(&disks[want.copy], DATA_START + at, bytes);
        recovery.give(bytes.as_deref()).expect("inspected without damage");
    }
    let Recovered { contents, .. } = recovery.finish();
    Some(contents)
}

/// A volume whose operations are done at once.
struct Running {
    volume: Volume,
    devices: Devices,
    now: u64,
    left: usize,
}

impl Running {
    fn run(&mut self) {
        let mut ops: Vec<Op> = Vec::new();
        loop {
            self.now += 1_000_000;
            self.volume.turn(Instant(self.now));
            self.volume.take_ops(&mut ops);
            if ops.is_empty() {
                return;
            }
            for Op { id, device, kind } in ops.drain(..) {
                self.left = self.left.checked_sub(1).expect("a start ends");
                let result = match kind {
                    OpKind::Read { offset, bytes } => {
                        let mut buffer = Buffer::zeroed(bytes);
                        self.devices.read(device, offset, &mut buffer).map(|()| Some(buffer))
                    }
                    OpKind::Write { offset, buffer, .. } => {
                        self.devices.write(device, offset, &buffer).map(|()| None)
                    }
                    OpKind::Flush => self.devices.flush(device).map(|()| None),
                };
                self.volume.done(Instant(self.now), id, result);
            }
        }
    }

    fn ask(&mut self, command: Command, payload: &[u8]) -> Option<Reply> {
        self.volume.submit(Instant(self.now), 7, command, payload);
        self.run();
        let mut replies = Vec::new();
        self.volume.take_replies(&mut replies);
        replies.pop()
    }
}

/// Redoes what was interrupted, reads, writes and destages everything.
fn serve(volume: Volume, devices: Devices, held: &dyn Fn(u64) -> Option<HeldPage>) {
    let mut running = Running { volume, devices, now: 1, left: OPS_MAX };
    running.run();
    let pages = (running.volume.bytes() / PAGE_BYTES).min(PAGES_MAX);
    for page in 0..pages {
        let command = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize };
        let reply = running.ask(command, &[]).expect("every read is answered");
        let complete = held(page).filter(|held| held.sectors == ALL_SECTORS);
        if let (Ok(Answer::Data { buffer, from, bytes }), Some(held)) = (reply.result, complete) {
            let bytes = &buffer[from..from + bytes];
            let right = held
                .stored
                .map_or(bytes.iter().all(|byte| *byte == 0), |stored| crc32c(bytes) == stored.crc);
            assert!(right, "page {page} has other bytes than the log");
        }
    }
    let write = Command::Write { offset: 0, fua: true };
    let answer = running.ask(write, &[9; PAGE_BYTES as usize]).expect("every write is answered");
    running.volume.flush_cache(Instant(running.now));
    running.run();
    let _ = (running.volume.status(), running.volume.take_alarms(), running.volume.lost());
    if answer.result.is_ok() {
        let read = Command::Read { offset: 0, bytes: PAGE_BYTES as usize };
        let reply = running.ask(read, &[]).expect("every read is answered");
        if let Ok(Answer::Data { buffer, from, bytes }) = reply.result {
            assert!(buffer[from..from + bytes].iter().all(|byte| *byte == 9), "a lost write");
            starts_again(running.devices);
        }
    }
}

/// The server ends without a stop. The next start finds what was acknowledged.
fn starts_again(mut devices: Devices) {
    let all: Vec<Device> = devices.0.keys().copied().collect();
    let found: Vec<_> = all.into_iter().map(|d| (d, read_superblock(&mut devices, d))).collect();
    let assembly = assemble(&found, &Allow::degraded()).expect("the devices were an array");
    let volume = match open(&mut devices, &assembly, settings()) {
        // They had just enough room before.
        Err(OpenError::Log(LogError::Damaged(error))) if error.damage == Damage::Numbers => return,
        opened => opened.expect("the array was open"),
    };
    let mut running = Running { volume, devices, now: 1, left: OPS_MAX };
    running.run();
    let read = Command::Read { offset: 0, bytes: PAGE_BYTES as usize };
    let reply = running.ask(read, &[]).expect("every read is answered");
    let Ok(Answer::Data { buffer, from, bytes }) = reply.result else { return };
    let kept = buffer[from..from + bytes].iter().all(|byte| *byte == 9);
    assert!(kept, "a write that was acknowledged is lost at the next start");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for image in 0..images() {
        seeds.push(vec![0, image]);
        // One change of each kind: a label's field, a commit, a record, a bad sector, a device.
        for edit in [
            &[1, 0, 0, 16, 0, 1, 9][..],
            &[1, 3, 0, 200, 1, 2, 1, 0],
            &[2, 3, 0, 24, 0, 1, 2],
            &[3, 1, 0, 40, 0, 1, 3],
            &[4, 0, 70, 0, 0, 2, 1, 2],
            &[6, 0, 0, 2, 0, 20, 1, 255, 2, 30, 1],
            &[6, 0, 1, 4, 5, 4, 1, 3, 8, 0, 4, 12, 7, 7, 0, 0],
            &[6, 0, 2, 0],
            &[9, 128, 0, 3, 4],
            &[10, 1, 0],
            &[11, 1, 0, 3, 8, 0],
            &[11, 2, 1, 3, 0, 2, 4, 5],
            &[12, 1, 1, 1],
            &[0, 3, 2, 0, 0, 4, 1, 2, 3, 4],
        ] {
            seeds.push([&[image & 1, image], edit].concat());
        }
    }
    seeds
}
