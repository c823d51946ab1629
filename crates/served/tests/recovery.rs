//! What a start reads, repairs and gives up, with the power failing in it; and another log
//! (docs/durability.md, "Marks" and "Another log").

mod common;

use common::{Devices, PAGES, SECTOR, Served, opened, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::commit::{Claim, Kind};
use destage_nvslog::record::Record;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{DATA_START, Superblock};
use destage_served::{
    Alarm, Allow, Cause, Command, Device, IoError, Media, NewLog, Op, OpKind, OpenError, RelogError,
};
use std::collections::BTreeMap;

const N: [Device; 2] = [Device::Nvs(0), Device::Nvs(1)];
/// The devices of an array with one NVS device.
const ALL: [Device; 4] = [Device::Member(0), Device::Member(1), Device::Member(2), N[0]];
/// First bytes of the two copies of a superblock, and of the anchors.
const SUPERBLOCKS: [u64; 2] = [0, 12_288];
const ANCHORS: [u64; 2] = [4096, 8192];

fn geometry() -> Geometry {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 2, 2);
    Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: PAGES / 2 }
}

fn array(nvs: u16) -> Devices {
    Devices::created(geometry(), Sizes::for_pages(24, 512), 512, nvs)
}

/// Devices that are written until the power fails, and how much is read at once.
struct Failing<'a> {
    devices: &'a mut Devices,
    writes_left: u64,
    longest_read: usize,
}

impl<'a> Failing<'a> {
    fn after(writes_left: u64, devices: &'a mut Devices) -> Failing<'a> {
        Failing { devices, writes_left, longest_read: 0 }
    }
}

impl Media for Failing<'_> {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        self.devices.bytes(device)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.longest_read = self.longest_read.max(into.len());
        self.devices.read(device, offset, into)
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or(IoError::GONE)?;
        self.devices.write(device, offset, bytes)
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.devices.flush(device)
    }
}

/// Flips a bit of a sector.
fn rot(devices: &mut Devices, device: Device, offset: u64) {
    let mut bytes = [0; SECTOR];
    devices.read(device, offset, &mut bytes).expect("there");
    bytes[300] ^= 1;
    devices.write(device, offset, &bytes).expect("there");
}

fn fill_of(served: &mut Served, page: u64) -> u8 {
    let command = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize };
    let bytes = served.ask(command, &[]);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "page {page} is mixed");
    bytes[0]
}

/// A member failed, and the others were written without it.
fn after_a_failure() -> Devices {
    let mut served = Served::open(array(1));
    (0..PAGES).for_each(|page| served.write(page * 8, 8, 1));
    served.flush_cache();
    served.volume.give_up_member(2, Cause::Asked);
    served.run();
    (0..PAGES).for_each(|page| served.write(page * 8, 8, 2));
    served.flush_cache();
    served.devices
}

/// A member failed, and the others were written without it. Then a copy of a superblock is damaged,
/// and the power fails while a start repairs it. The failed member must not count as in sync.
#[test]
fn a_repair_of_a_superblock_that_is_interrupted_brings_no_failed_member_back() {
    let after = after_a_failure();
    for damaged in [Device::Member(0), Device::Member(1), N[0]] {
        for copy in [0, 1] {
            for writes in 0.. {
                let what = format!("copy {copy} of {damaged}, {writes} writes");
                let mut devices = after.clone();
                rot(&mut devices, damaged, SUPERBLOCKS[copy]);
                let assembly = devices.assembled(&Allow::default());
                assert_eq!(assembly.failed, [2], "{what}");
                let mut media = Failing::after(writes, &mut devices);
                let opened = destage_served::open(&mut media, &assembly, settings()).is_ok();
                let assembly = devices.assembled(&Allow::default());
                assert_eq!(assembly.failed, [2], "{what}");
                let mut served = Served::open(devices);
                assert!((0..PAGES).all(|page| fill_of(&mut served, page) == 2), "{what}");
                if opened {
                    assert!(writes > 6, "only {writes}");
                    break;
                }
            }
        }
    }
}

/// Devices of which a place cannot be read.
struct Unreadable<'a> {
    devices: &'a mut Devices,
    place: (Device, u64),
}

impl Media for Unreadable<'_> {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        self.devices.bytes(device)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        match (device, offset) == self.place {
            true => Err(IoError::MEDIUM),
            false => self.devices.read(device, offset, into),
        }
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.devices.write(device, offset, bytes)
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.devices.flush(device)
    }
}

/// One that cannot be read may say that something was built on the first: it does not look like one
/// that was never written.
#[test]
fn a_second_copy_that_cannot_be_read_brings_no_failed_member_back() {
    let mut devices = after_a_failure();
    let all: Vec<Device> = devices.0.keys().copied().collect();
    for device in [Device::Member(0), Device::Member(1), N[0]] {
        let mut media = Unreadable { devices: &mut devices, place: (device, SUPERBLOCKS[1]) };
        let said =
            |device: &Device| (*device, destage_served::read_superblock(&mut media, *device));
        let found: Vec<_> = all.iter().map(said).collect();
        let assembly = destage_served::assemble(&found, &Allow::default()).expect("an array");
        assert_eq!(assembly.failed, [2], "second copy of {device}");
    }
}

/// The power fails in a start; a second copy is damaged, and the power fails again in the start
/// that repairs it. Nothing says that a device was absent, or is out of date.
#[test]
fn a_repair_after_an_interrupted_start_refuses_no_device() {
    let mut served = Served::open(array(1));
    (0..PAGES).for_each(|page| served.write(page * 8, 8, 3));
    let before = served.devices;
    let all: Vec<Device> = before.0.keys().copied().collect();
    let mut met = 0;
    let start = |devices: &mut Devices, writes| {
        let assembly = devices.assembled(&Allow::default());
        destage_served::open(&mut Failing::after(writes, devices), &assembly, settings()).is_ok()
    };
    // Each device has two copies to be written.
    let marks = 2 * all.len() as u64;
    for writes in 0..=marks {
        let mut begun = before.clone();
        start(&mut begun, writes);
        for damaged in &all {
            for writes_of_repair in 0..=marks + 1 {
                let what = format!("{writes} writes, {damaged}, {writes_of_repair} writes");
                let mut devices = begun.clone();
                rot(&mut devices, *damaged, SUPERBLOCKS[1]);
                start(&mut devices, writes_of_repair);
                let assembly = devices.try_assembled(&Allow::default());
                let assembly = assembly.unwrap_or_else(|why| panic!("{what}: {why:?}"));
                assert_eq!((&assembly.failed[..], &assembly.copies[..]), (&[][..], &[0][..]));
                let mut served = Served::open(devices);
                for page in [0, PAGES - 1] {
                    assert_eq!(fill_of(&mut served, page), 3, "{what}");
                }
                met += 1;
            }
        }
    }
    assert!(met > 300, "{met}");
}

fn copy_of(devices: &mut Devices, device: Device, copy: usize) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    devices.read(device, SUPERBLOCKS[copy], &mut bytes).expect("there");
    bytes
}

/// The power fails at any write of a start, which is torn, and of the next one; nothing is refused
/// after that.
fn check_torn_starts(devices: &Devices) {
    check_torn(devices, 2);
}

fn check_torn(devices: &Devices, starts: u32) {
    for writes in 0.. {
        let mut devices = devices.clone();
        let assembly = devices.assembled(&Allow::default());
        // The new checksum, and the old numbers.
        let media = &mut Cut { torn_bytes: 16, ..Cut::after(writes, &mut devices) };
        let started = destage_served::open(media, &assembly, settings()).is_ok();
        let again = devices.try_assembled(&Allow::default());
        let again = again.unwrap_or_else(|why| panic!("{writes} writes: {why:?}"));
        let opens = opened(&mut devices.clone(), &again, &settings());
        opens.unwrap_or_else(|why| panic!("{writes} writes: {why:?}"));
        if started {
            assert!(writes > 8, "only {writes}");
            break;
        }
        if starts > 1 {
            check_torn(&devices, starts - 1);
        }
    }
}

/// An anchor has rotted, or none has: a start that writes others leaves one that is intact.
#[test]
fn torn_starts_leave_an_anchor() {
    let mut served = Served::open(array(1));
    served.write(0, 8, 1);
    for rotten in [None, Some(4096), Some(8192)] {
        let mut devices = Served::open(served.devices.clone()).devices;
        rotten.into_iter().for_each(|at| rot(&mut devices, N[0], at + 20));
        check_torn_starts(&devices);
    }
}

/// An operator uses one of two NVS devices as it is, as the other one is away. The power fails in
/// that start, and in the next one like it: with all devices the array starts.
#[test]
fn starts_that_accept_a_loss_may_be_interrupted_one_after_the_other() {
    let accepts = Allow { stale: vec![N[0]], ..Allow::degraded() };
    let members = (0..3).map(Device::Member);
    let all: Vec<Device> = members.chain(N).collect();
    let start = |devices: &mut Devices, writes| {
        let away = devices.0.remove(&N[1]).expect("there");
        let assembly = devices.assembled_of(&all, &accepts).expect("an array");
        let media = &mut Failing::after(writes, devices);
        let ended = destage_served::open(media, &assembly, settings()).is_ok();
        devices.0.insert(N[1], away);
        ended
    };
    let before = Served::open(array(2)).devices;
    let (mut first, mut starts) = (0, 0);
    loop {
        let mut once = before.clone();
        if start(&mut once, first) {
            break;
        }
        let mut second = 0;
        loop {
            let mut twice = once.clone();
            if start(&mut twice, second) {
                break;
            }
            let assembly = twice.try_assembled(&Allow::degraded());
            let assembly = assembly.unwrap_or_else(|why| panic!("{first}, {second}: {why:?}"));
            let opens = opened(&mut twice, &assembly, &settings());
            opens.unwrap_or_else(|why| panic!("{first}, {second}: {why:?}"));
            (second, starts) = (second + 1, starts + 1);
        }
        first += 1;
    }
    assert!(starts > 64, "only {starts}");
}

/// A member has no second copy of a start: a power failure in the next one, which tears an NVS
/// device's copy, refuses nothing.
#[test]
fn a_second_copy_that_was_lost_is_written_before_anything_newer() {
    let mut served = Served::open(array(1));
    let older = ALL.map(|device| copy_of(&mut served.devices, device, 1));
    let mut devices = Served::open(served.devices).devices;
    for (device, older) in ALL.iter().zip(&older) {
        assert!(copy_of(&mut devices, *device, 1) != *older);
    }
    let mut torn = devices.clone();
    devices.write(Device::Member(0), SUPERBLOCKS[1], &older[0]).expect("written");
    check_torn_starts(&devices);
    // And the NVS device's is damaged.
    rot(&mut torn, N[0], SUPERBLOCKS[1]);
    torn.write(Device::Member(0), SUPERBLOCKS[1], &older[0]).expect("written");
    check_torn_starts(&torn);
}

/// A start was interrupted after the NVS device's first copy, and the second one rots. It is
/// written again as the others have it: a power failure, which tears the first one, leaves nothing
/// else.
#[test]
fn a_damaged_second_copy_of_a_try_is_written_as_the_others_have_it() {
    let mut devices = Served::open(array(1)).devices;
    let said = Superblock::decode(&copy_of(&mut devices, N[0], 0)).expect("a superblock");
    let (generation, base) = (said.generation + 1, said.generation);
    let mut page = copy_of(&mut devices, N[0], 0);
    let base_identity = said.identity();
    let bytes = Superblock { generation, base, base_identity, ..said }.encode();
    page[..bytes.len()].copy_from_slice(&bytes);
    devices.write(N[0], SUPERBLOCKS[0], &page).expect("written");
    rot(&mut devices, N[0], SUPERBLOCKS[1]);
    check_torn_starts(&devices);
}

/// The server is killed in the change that a member's failure causes, and second copies that were
/// in progress are there. The next start uses the member; a power failure in it, which tears an NVS
/// device's copy, must not make that device look older than the failure.
#[test]
fn no_member_has_the_second_copy_of_a_change_before_the_nvs_has_it() {
    let mut served = Served::open(array(1));
    served.volume.give_up_member(1, Cause::Asked);
    let second = |op: &Op| match (&op.kind, op.device) {
        (OpKind::Write { offset, .. }, Device::Member(_)) => *offset == SUPERBLOCKS[1],
        _ => false,
    };
    assert!(served.steps_until(second));
    for member in [0, 2].map(Device::Member) {
        let first = copy_of(&mut served.devices, member, 0);
        served.devices.write(member, SUPERBLOCKS[1], &first).expect("written");
    }
    check_torn_starts(&served.devices);
}

#[test]
fn a_damaged_copy_of_a_superblock_is_repaired_and_reported() {
    let before = Served::open(array(1)).devices;
    for device in [Device::Member(0), Device::Member(2), N[0]] {
        for copy in [0, 1] {
            let mut devices = before.clone();
            rot(&mut devices, device, SUPERBLOCKS[copy]);
            let mut served = Served::open(devices);
            let alarms = served.volume.take_alarms();
            assert_eq!(alarms, [Alarm::SuperblockRepaired { device, copy }]);
            let [first, second] = [0, 1].map(|copy| copy_of(&mut served.devices, device, copy));
            assert!(first == second, "the start has written both again");
            let mut again = Served::open(served.devices);
            assert_eq!(again.volume.take_alarms(), []);
        }
    }
}

/// Each device is as long as it must be, or a sector shorter.
#[test]
fn a_device_that_was_cut_short_is_refused_and_nothing_is_changed() {
    let mut devices = array(2);
    let assembly = devices.assembled(&Allow::default());
    for device in [Device::Member(0), Device::Member(1), Device::Member(2), N[0], N[1]] {
        let needs = devices.bytes(device).expect("there");
        devices.0.get_mut(&device).expect("there").0 = needs - SECTOR as u64;
        let before = devices.to_text();
        let refused = opened(&mut devices, &assembly, &settings()).err();
        let bytes = needs - SECTOR as u64;
        assert_eq!(refused, Some(OpenError::Short { device, bytes, needs }));
        assert!(devices.to_text() == before, "nothing was changed");
        devices.0.get_mut(&device).expect("there").0 = needs;
    }
    assert!(opened(&mut devices, &assembly, &settings()).is_ok());
}

/// The newest commit is on both devices, but the slot of a page is torn on one: the start takes it
/// from the other, and writes it again where it belongs.
#[test]
fn a_slot_that_one_device_lacks_is_written_again() {
    for torn in [0, 1] {
        for before in [0, 1, 5] {
            let mut served = Served::open(array(2));
            (0..before).for_each(|page| served.write(page * 8, 8, 9));
            // The commit and its slot get to both devices, and the power fails.
            served.left = 4;
            served.write_unanswered(20 * 8, 8, 7);
            let mut devices = served.devices;
            let (_, sectors) = devices.0.get_mut(&N[torn]).expect("there");
            let slot = sectors.values_mut().filter(|bytes| **bytes == [7; SECTOR]);
            assert_eq!(slot.map(|bytes| bytes[5] ^= 1).count(), 8);
            let devices = Served::open(devices).devices;
            let mut served = Served::open_without(devices, N[1 - torn]);
            assert_eq!(fill_of(&mut served, 20), 7, "{torn} after {before}");
            assert!((0..before).all(|page| fill_of(&mut served, page) == 9));
        }
    }
}

/// An NVS may be larger than memory: a start reads it in parts.
#[test]
fn a_start_reads_at_most_4_mib_at_once() {
    let geometry = Geometry { disk_pages: 1 << 12, ..geometry() };
    let mut devices = Devices::created(geometry, Sizes::for_pages(3000, 512), 512, 1);
    assert!(devices.bytes(N[0]).expect("there") > 3 * (4 << 20));
    let assembly = devices.assembled(&Allow::default());
    let mut media = Failing::after(u64::MAX, &mut devices);
    destage_served::open(&mut media, &assembly, settings()).expect("it opens");
    assert!((64 << 10..=4 << 20).contains(&media.longest_read), "{}", media.longest_read);
}

/// The commits in the ring: block and header.
fn commits(devices: &mut Devices) -> Vec<(u64, Claim)> {
    let superblock = read_superblock(devices, N[0]);
    let mut found = Vec::new();
    for block in 0..superblock.ring_blocks {
        let mut bytes = [0; SECTOR];
        devices.read(N[0], DATA_START + block * SECTOR as u64, &mut bytes).expect("there");
        found.extend(Claim::read(&bytes).map(|claim| (block, claim)));
    }
    found
}

fn read_superblock(devices: &mut Devices, device: Device) -> Superblock {
    destage_served::read_superblock(devices, device).expect("a superblock").superblock
}

/// The log is damaged where an epoch begins, and the operator gives up what is behind that. No
/// later start may take the rest for part of the log, though it fits the commits before it.
#[test]
fn what_was_given_up_does_not_come_back_with_a_later_start() {
    for starts in 1..4 {
        let mut served = Served::open(array(1));
        // The log begins with page 1, which stays dirty.
        served.write(8, 8, 1);
        served.write(0, 8, 1);
        let mut devices = served.devices;
        for fill in 2..2 + starts {
            served = Served::open(devices);
            served.write(2 * 8, 8, fill);
            devices = served.devices;
        }
        let opening = |(_, claim): &&(u64, Claim)| claim.header.kind == Kind::Opens;
        let all = commits(&mut devices);
        // The first is that of the array's creation, the second that of the first start.
        let opened_by = all.iter().filter(opening).nth(2).expect("the second start's");
        rot(&mut devices, N[0], DATA_START + opened_by.0 * SECTOR as u64);
        let assembly = devices.assembled(&Allow::default());
        let refused = opened(&mut devices, &assembly, &settings()).err();
        assert!(matches!(refused, Some(OpenError::Log(_))), "{refused:?}");
        let accepted = Allow { stale: vec![N[0]], ..Allow::default() };
        let assembly = devices.assembled(&accepted);
        opened(&mut devices, &assembly, &settings()).expect("what is before that");
        for _ in 0..3 {
            let mut served = Served::open(devices);
            let pages = [0, 1, 2].map(|page| fill_of(&mut served, page));
            assert_eq!(pages, [1, 1, 0], "{starts} starts");
            devices = served.devices;
        }
        // Its epoch is higher than that of any commit that it gave up.
        let given_up = all.iter().map(|(_, claim)| claim.header.epoch).max().expect("commits");
        let at = commits(&mut devices).into_iter().find(|(block, _)| *block == opened_by.0);
        assert!(at.expect("the new opening").1.header.epoch > given_up);
    }
}

/// The NVS device has lost the write that opened the last epoch, and has the opening of the one
/// before in its place. What was acknowledged since must not be taken for torn.
#[test]
fn an_epoch_whose_opening_is_missing_is_not_dropped() {
    let opening = |devices: &mut Devices| {
        let opens = |(_, claim): &(u64, Claim)| claim.header.kind == Kind::Opens;
        let all = commits(devices).into_iter().filter(opens);
        all.max_by_key(|(_, claim)| claim.header.epoch).expect("an opening").0
    };
    let mut devices = Served::open(array(1)).devices;
    let block = opening(&mut devices);
    let at = DATA_START + block * SECTOR as u64;
    let mut before = [0; SECTOR];
    devices.read(N[0], at, &mut before).expect("there");
    let mut served = Served::open(devices);
    served.write(0, 8, 1);
    let mut devices = served.devices;
    assert_eq!(opening(&mut devices), block, "a start takes the place of one that wrote nothing");
    devices.write(N[0], at, &before).expect("written");
    // The commit with the write is the last: none confirms it.
    let later = commits(&mut devices).into_iter().filter(|(place, _)| *place > block + 1);
    for (place, _) in later {
        let at = DATA_START + place * SECTOR as u64;
        devices.write(N[0], at, &[0; SECTOR]).expect("written");
    }
    devices.flush(N[0]).expect("flushed");
    let assembly = devices.assembled(&Allow::default());
    let refused = opened(&mut devices, &assembly, &settings()).err();
    assert!(matches!(refused, Some(OpenError::Log(_))), "{refused:?}");
}

/// The first pages and rows of the parity records in the ring.
fn parity_logged(devices: &mut Devices) -> Vec<(u64, u32)> {
    let mut found = Vec::new();
    for (block, claim) in commits(devices) {
        let mut bytes = vec![0; claim.own_blocks(SECTOR as u32) as usize * SECTOR];
        let at = DATA_START + block * SECTOR as u64;
        devices.read(N[0], at, &mut bytes).expect("there");
        for record in claim.records(&bytes).expect("records") {
            if let Record::Parity { first, row, .. } = record {
                found.push((first.0, row));
            }
        }
    }
    found
}

/// The checksums of a row's new parity are logged once, also if a start redoes the destage. A row
/// that is written completely needs none.
#[test]
fn parity_is_logged_once_for_each_row_that_is_not_a_full_stripe() {
    let mut served = Served::open(array(1));
    served.write(0, 64, 1);
    served.flush_cache();
    assert_eq!(parity_logged(&mut served.devices), []);
    // Page 9 is in the second group.
    served.write(9 * 8, 8, 2);
    let before = served.devices;
    let mut redone = 0;
    for operations in 0..16 {
        let mut served = Served::open(before.clone());
        served.left = operations;
        let now = served.now();
        served.volume.flush_cache(now);
        served.run_until(now.0 + 1_000_000_000, |_| false);
        let mut devices = served.devices;
        let assembly = devices.assembled(&Allow::default());
        redone += destage_served::inspect(&mut devices, &assembly).open_intents;
        let mut served = Served::open(devices);
        served.flush_cache();
        assert_eq!(parity_logged(&mut served.devices), [(8, 1)], "{operations}");
        assert_eq!(fill_of(&mut served, 9), 2);
    }
    assert!(redone > 2, "some crashes came while the destage was open");
}

fn new_log(nvs: [Option<[u8; 16]>; 2]) -> NewLog {
    let (log, sizes) = ([3; 16], Sizes::for_pages(20, 512));
    NewLog {
        log,
        block_bytes: 512,
        sizes,
        nvs,
        rows_fit: false,
        defect: destage_served::Defect::None,
    }
}

#[test]
fn an_array_gets_another_log_only_if_the_present_one_is_known_to_be_empty() {
    let relog = |devices: &mut Devices| {
        let assembly = devices.assembled(&Allow::default());
        destage_served::relog(devices, &assembly, &new_log([Some([20; 16]), None]))
    };
    let mut served = Served::open(array(1));
    served.write(0, 8, 5);
    let mut dirty = served.devices.clone();
    served.flush_cache();
    served.stop();
    let empty = served.devices;
    assert_eq!(relog(&mut dirty), Err(RelogError::NotEmpty(1, 0)));
    // Nobody knows what a log holds without its anchors, or behind damage.
    let mut without_anchors = dirty.clone();
    ANCHORS.iter().for_each(|at| rot(&mut without_anchors, N[0], *at));
    let mut damaged = empty.clone();
    let (first, _) = commits(&mut damaged)[0];
    rot(&mut damaged, N[0], DATA_START + first * SECTOR as u64);
    for mut devices in [without_anchors, damaged] {
        let before = devices.to_text();
        assert_eq!(relog(&mut devices), Err(RelogError::Damaged));
        assert!(devices.to_text() == before, "nothing was changed");
    }
    let mut devices = empty;
    assert_eq!(relog(&mut devices), Ok(()));
    for device in [Device::Member(0), Device::Member(1), Device::Member(2), N[0]] {
        let said = read_superblock(&mut devices, device);
        assert_eq!((said.log.0, said.nvs), ([3; 16], [Some([20; 16]), None]), "{device}");
        assert_eq!(said.dirty_pages_max, 20, "{device}");
    }
    let mut served = Served::open(devices);
    assert_eq!((fill_of(&mut served, 0), served.volume.status().nvs_pages), (5, 20));
    served.write(0, 8, 6);
    let mut served = Served::open(served.devices);
    assert_eq!(fill_of(&mut served, 0), 6, "the new log has it");
}

/// Only then may it be overwritten.
#[test]
fn an_nvs_device_is_spent_only_if_it_is_known_to_be_empty_and_of_this_array() {
    let spent = |devices: &mut Devices, array| destage_served::is_spent(devices, N[0], [array; 16]);
    let mut served = Served::open(array(1));
    served.write(0, 8, 5);
    let mut dirty = served.devices.clone();
    served.flush_cache();
    served.stop();
    let mut drained = served.devices;
    assert!(spent(&mut drained, 1), "it is drained");
    assert!(!spent(&mut drained, 2), "it is of another array");
    assert!(!spent(&mut dirty, 1), "it has a page");
    ANCHORS.iter().for_each(|at| rot(&mut dirty, N[0], *at));
    assert!(!spent(&mut dirty, 1), "nobody knows what it has");
}

/// Devices that lose power after some writes. An NVS device of byte-addressable memory has the
/// first bytes of the next one.
struct Cut<'a> {
    devices: &'a mut Devices,
    writes_left: u64,
    torn_bytes: usize,
    off: bool,
}

impl Cut<'_> {
    fn after(writes_left: u64, devices: &mut Devices) -> Cut<'_> {
        Cut { devices, writes_left, torn_bytes: SECTOR / 2, off: false }
    }
}

impl Media for Cut<'_> {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        self.devices.bytes(device)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.devices.read(device, offset, into)
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        if self.writes_left > 0 {
            self.writes_left -= 1;
            return self.devices.write(device, offset, bytes);
        }
        if !self.off && matches!(device, Device::Nvs(_)) {
            let mut torn = vec![0; bytes.len()];
            self.devices.read(device, offset, &mut torn)?;
            torn[..self.torn_bytes].copy_from_slice(&bytes[..self.torn_bytes]);
            self.devices.write(device, offset, &torn)?;
        }
        self.off = true;
        Err(IoError::GONE)
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        if self.off { Err(IoError::GONE) } else { self.devices.flush(device) }
    }
}

/// The change to another log is interrupted, and so is the start after it.
#[test]
fn a_torn_superblock_in_the_start_after_an_interrupted_change_refuses_nothing() {
    let mut served = Served::open(array(1));
    served.write(0, 8, 5);
    served.flush_cache();
    served.stop();
    let (before, mut interrupted) = (served.devices, 0);
    for writes in 0.. {
        let mut changed = before.clone();
        let assembly = changed.assembled(&Allow::default());
        let new = new_log([Some([20; 16]), None]);
        let media = &mut Cut::after(writes, &mut changed);
        let over = destage_served::relog(media, &assembly, &new).is_ok();
        for writes_of_start in 0.. {
            let mut devices = changed.clone();
            let assembly = devices.assembled(&Allow::default());
            let media = &mut Cut::after(writes_of_start, &mut devices);
            let started = destage_served::open(media, &assembly, settings()).is_ok();
            let again = devices.try_assembled(&Allow::default());
            let again = again.unwrap_or_else(|why| panic!("{writes} {writes_of_start}: {why:?}"));
            opened(&mut devices, &again, &settings()).expect("it opens");
            if started {
                break;
            }
            interrupted += 1;
        }
        if over {
            break;
        }
    }
    assert!(interrupted > 150, "{interrupted}");
}

#[test]
fn an_array_without_nvs_gets_a_log_on_a_new_device() {
    let mut devices = array(0);
    let bytes = Sizes::for_pages(20, 512).bytes(512);
    devices.0.insert(N[0], (bytes, BTreeMap::new()));
    let all: Vec<Device> = (0..3).map(Device::Member).collect();
    let assembly = devices.assembled_of(&all, &Allow::default()).expect("an array");
    let before = assembly.superblock;
    let relog = destage_served::relog(&mut devices, &assembly, &new_log([Some([20; 16]), None]));
    assert_eq!(relog, Ok(()));
    let said = read_superblock(&mut devices, N[0]);
    assert_eq!((said.log.0, said.joined), ([3; 16], said.generation));
    assert_eq!(said.generation, before.generation + 1, "one change, which names it");
    let mut served = Served::open(devices);
    served.write(0, 8, 6);
    assert_eq!(served.volume.status().nvs_devices, [0]);
    let mut served = Served::open(served.devices);
    assert_eq!(fill_of(&mut served, 0), 6);
}

/// A crash left the older anchor in one place. It must not come to count again when the newer one
/// is torn, after the space behind it was written again.
#[test]
fn a_start_leaves_no_older_anchor() {
    let anchor = |devices: &mut Devices, device: Device, at: u64| {
        let mut bytes = vec![0; 512];
        devices.read(device, at, &mut bytes).expect("read");
        bytes
    };
    for (place, other) in [(0, 1), (1, 0)] {
        let mut served = Served::open(array(2));
        let older = anchor(&mut served.devices, N[0], ANCHORS[place]);
        for round in 0..4 {
            served.write(round * 32, 32, 5);
            served.flush_cache();
        }
        served.stop();
        let mut devices = served.devices;
        let newer = anchor(&mut devices, N[0], ANCHORS[other]);
        assert!(older != newer);
        N.iter()
            .for_each(|device| devices.write(*device, ANCHORS[place], &older).expect("written"));
        let mut started = Served::open(devices).devices;
        for device in N {
            let [first, second] = ANCHORS.map(|at| anchor(&mut started, device, at));
            assert!(first == second, "{device:?}, older in place {place}");
        }
    }
}

/// The power fails after any operation: all of it is zero, or nothing. Before it come 250 to
/// 279 writes: a commit gets full among them.
#[test]
fn zeros_that_begin_and_end_within_pages_go_into_one_commit() {
    let (large, bytes) = (Geometry { disk_pages: 512, ..geometry() }, 3 * PAGE_BYTES);
    let zeros_after = |before: u64, operations: u64| {
        let devices = Devices::created(large, Sizes::for_pages(600, 512), 512, 1);
        let mut served = Served::open(devices);
        served.write(0, 32, 5);
        let now = served.now();
        for id in 0..before {
            let write = Command::Write { offset: (5 + id % 8) * PAGE_BYTES, fua: false };
            served.volume.submit(now, 100 + id, write, &vec![6; PAGE_BYTES as usize]);
        }
        let zeros = Command::Zero { offset: SECTOR as u64, bytes, fua: false };
        served.volume.submit(now, 99, zeros, &[]);
        served.steps(operations);
        let read = Command::Read { offset: SECTOR as u64, bytes: bytes as usize };
        let found = Served::open(served.devices).ask(read, &[]);
        found.iter().filter(|byte| **byte == 0).count() as u64
    };
    for before in 250..280 {
        // The first operation after which something of it is there.
        let (mut none, mut some) = (0, 1 << 12);
        while some - none > 1 {
            let middle = u64::midpoint(none, some);
            *(if zeros_after(before, middle) > 0 { &mut some } else { &mut none }) = middle;
        }
        assert_eq!(zeros_after(before, some), bytes, "after {before} writes");
    }
}
