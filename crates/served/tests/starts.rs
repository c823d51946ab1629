//! What a start refuses, what it gives up only if it may, and what it knows of the last run.

mod common;

use common::{Devices, PAGES, SECTOR, Served, check, opened, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::{DiskId, Page};
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Header, Kind};
use destage_nvslog::crc::crc32c;
use destage_nvslog::record::{ALL_SECTORS, Origin, Pages, Record};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{DATA_START, Superblock};
use destage_served::{
    Allow, AssembleError, Command, Device, IoError, LogError, Media, NoSuperblock, OpenError,
    Settings, read_superblock,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// An array that was stopped with dirty pages.
fn stopped() -> Devices {
    Devices::from_text(include_str!("golden/version-4-blocks-512-nvs-1-stop.txt"))
}

/// The loss of what the NVS device does not have is accepted.
fn accepted() -> Allow {
    Allow { stale: vec![Device::Nvs(0)], ..Allow::default() }
}

#[test]
fn features_that_are_not_known_allow_to_inspect_and_not_to_serve() {
    let mut devices = stopped();
    let all: Vec<Device> = devices.0.keys().copied().collect();
    for device in all {
        for copy in [0, 12_288] {
            let mut bytes = [0; SECTOR];
            devices.read(device, copy, &mut bytes).expect("read");
            let known = Superblock::decode(&bytes).expect("a superblock");
            let newer = Superblock { unknown_write_features: 4, ..known };
            devices.write(device, copy, &newer.encode()).expect("written");
        }
    }
    let before = devices.to_text();
    let assembly = devices.assembled(&Allow::default());
    assert!(destage_served::inspect(&mut devices, &assembly).dirty_pages > 0);
    let refused = opened(&mut devices, &assembly, &settings()).err();
    assert!(matches!(refused, Some(OpenError::Features(4))), "{refused:?}");
    assert!(devices.to_text() == before, "nothing was changed");
}

#[test]
fn more_dirty_pages_than_memory_may_have_are_refused_and_stay() {
    let mut devices = stopped();
    let before = devices.to_text();
    let assembly = devices.assembled(&Allow::default());
    let held = destage_served::inspect(&mut devices, &assembly).dirty_pages;
    let few = Settings { dirty_pages_max: Some(held - 1), ..settings() };
    let refused = opened(&mut devices, &assembly, &few).err();
    let Some(OpenError::Log(why @ LogError::TooManyPages(pages, most))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!((pages, most), (held, held - 1));
    assert!(why.to_string().contains(&format!("max_dirty = {}", held * 4096)), "{why}");
    assert!(devices.to_text() == before, "nothing was changed");
    let enough = Settings { dirty_pages_max: Some(held), ..settings() };
    let volume = opened(&mut devices, &assembly, &enough).expect("it opens");
    assert_eq!(volume.status().nvs_pages, held);
}

/// Each device is as long as its superblock says, longer, or a sector shorter.
#[test]
fn the_superblock_of_a_device_that_was_cut_short_is_not_used() {
    let mut devices = stopped();
    let all: Vec<Device> = devices.0.keys().copied().collect();
    for device in all {
        let said = read_superblock(&mut devices, device).expect("a superblock");
        let needs = said.superblock.device_bytes();
        let (bytes, longer) = (needs - SECTOR as u64, needs + SECTOR as u64);
        let short = Err(NoSuperblock::Short { bytes, needs });
        for (bytes, result) in [(bytes, short), (needs, Ok(said)), (longer, Ok(said))] {
            devices.0.get_mut(&device).expect("there").0 = bytes;
            assert_eq!(read_superblock(&mut devices, device), result, "{device}");
        }
    }
}

/// A crash left all first copies of a mark and some of the second ones. A start completes it, so it
/// is the base of the start's own mark, unless a device that it names is left out.
#[test]
fn a_mark_that_a_start_completes_is_the_base_of_its_own() {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 2, 2);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: PAGES / 2 };
    let created = Devices::created(geometry, Sizes::for_pages(24, 512), 512, 2);
    let mut before = Served::open(created).devices;
    let mut marked = Served::open(before.clone()).devices;
    let all: Vec<Device> = marked.0.keys().copied().collect();
    let log = Device::Nvs(0);
    let said = read_superblock(&mut marked, log).expect("a superblock").superblock;
    let (itself, its_base) = ((said.generation, said.identity()), (said.base, said.base_identity));
    for (lacking, away, base) in [
        (&all[..0], None, itself),
        (&all[..1], None, itself),
        (&all[..], None, its_base),
        (&all[..1], Some(Device::Member(2)), its_base),
        (&all[..1], Some(Device::Nvs(1)), its_base),
    ] {
        let mut devices = marked.clone();
        for device in lacking {
            let mut older = [0; SECTOR];
            before.read(*device, 12_288, &mut older).expect("read");
            devices.write(*device, 12_288, &older).expect("written");
        }
        if let Some(device) = away {
            devices.0.remove(&device);
        }
        let assembly = devices.assembled_of(&all, &Allow::degraded()).expect("an array");
        drop(opened(&mut devices, &assembly, &settings()).expect("it opens"));
        let now = read_superblock(&mut devices, log).expect("a superblock").superblock;
        let what = format!("{lacking:?} lack it, {away:?} is away");
        assert_eq!((now.base, now.base_identity), base, "{what}");
        assert_eq!((now.generation, now.joined), (said.generation + 1, said.joined), "{what}");
    }
}

/// What a destage froze needs memory, too.
#[test]
fn pages_of_an_open_destage_count_as_pages_that_memory_has() {
    let intent = Record::Intent { pages: Pages::new(Page(0), 8), through: 2, moved: false };
    let commits = [vec![zeros(1), zeros(2)], vec![intent], vec![zeros(9)], vec![]];
    let mut devices = with_log(100, commits);
    let assembly = devices.assembled(&Allow::default());
    let with = |most| Settings { dirty_pages_max: Some(most), ..settings() };
    let refused = opened(&mut devices, &assembly, &with(2)).err();
    assert_eq!(refused, Some(OpenError::Log(LogError::TooManyPages(3, 2))));
    assert_eq!(opened(&mut devices, &assembly, &with(3)).err(), None);
}

/// The bytes of a dirty page are damaged: the page is named, and lost only if that is accepted.
#[test]
fn a_damaged_slot_is_reported_and_given_up_only_if_that_is_accepted() {
    let mut devices = stopped();
    let (_, sectors) = devices.0.get_mut(&Device::Nvs(0)).expect("an NVS device");
    // Pages 8 to 11 were written with this fill, and page 8 was trimmed.
    let mut filled = sectors.values_mut().filter(|bytes| **bytes == [3; SECTOR]);
    filled.nth(8).expect("a slot")[7] ^= 1;
    let before = devices.to_text();
    let assembly = devices.assembled(&Allow::default());
    let lost = destage_served::inspect(&mut devices, &assembly).lost;
    let [(page, 1)] = lost[..] else { panic!("{lost:?}") };
    assert!((9..12).contains(&page), "{page}");
    let refused = opened(&mut devices, &assembly, &settings()).err();
    let named = OpenError::Log(LogError::LostPages(1, page));
    assert_eq!(format!("{refused:?}"), format!("{:?}", Some(named)));
    assert!(devices.to_text() == before, "nothing was changed");
    // A server that ends before it writes anything else, then a crash after the first commit: what
    // was given up is not looked for by the next start.
    let assembly = devices.assembled(&accepted());
    drop(opened(&mut devices, &assembly, &settings()).expect("accepted"));
    let served = Served::open(devices);
    let mut served = Served::open(served.devices);
    for other in (0..PAGES).filter(|other| *other != page) {
        check(&mut served, other, "a page that was not lost");
    }
    served.write(page * 8, 8, 3);
    served.flush_cache();
    check(&mut served, page, "the page that was lost, written again");
    served.stop();
}

/// A page was written again while it was being destaged, and the bytes with this fill are damaged,
/// the older or the newer ones. The loss is accepted: for each such start, what is served then.
fn with_a_damaged_copy(damaged: u8) -> Vec<Served> {
    let (level, strip_pages, group_stripes) = (Level::Raid10, 1, 1);
    let geometry = Geometry { level, disks: 4, strip_pages, group_stripes, disk_pages: PAGES / 2 };
    let mut before = Served::open(Devices::created(geometry, Sizes::for_pages(24, 512), 512, 1));
    before.write(0, 8, 5);
    let (mut all, mut met) = (Vec::new(), 0);
    for (operations, more) in (0..6).flat_map(|n| (2..10).map(move |more| (n, more))) {
        let mut served = Served::open(before.devices.clone());
        let now = served.now();
        served.volume.flush_cache(now);
        served.steps(operations);
        served.left = more;
        served.write_unanswered(0, 8, 6);
        served.write_unanswered(64, 8, 8);
        let mut devices = served.devices;
        let (_, sectors) = devices.0.get_mut(&Device::Nvs(0)).expect("an NVS device");
        let Some(bytes) = sectors.values_mut().find(|bytes| **bytes == [damaged; SECTOR]) else {
            continue;
        };
        bytes[7] ^= 1;
        let assembly = devices.assembled(&Allow::default());
        let found = destage_served::inspect(&mut devices, &assembly);
        met += usize::from(found.lost == [(0, 1)] && found.open_intents > 0);
        all.push(Served::open_as(devices, &accepted()));
    }
    assert!(met > 0, "a destage was open");
    all
}

/// Neither copy is left: the page can be written and destaged as any other.
#[test]
fn of_a_page_that_is_given_up_no_copy_is_left() {
    let read = Command::Read { offset: 0, bytes: SECTOR };
    for mut served in with_a_damaged_copy(6) {
        served.write(0, 8, 7);
        served.flush_cache();
        assert_eq!(served.ask(read, &[]), [7; SECTOR]);
        assert_eq!(served.volume.status().dirty_pages, 0);
    }
    for mut served in with_a_damaged_copy(5) {
        served.flush_cache();
        assert_eq!(served.volume.status().dirty_pages, 0);
        let bytes = served.ask(read, &[]);
        // The next start has nothing else.
        assert!(Served::open(served.devices).ask(read, &[]) == bytes);
    }
}

/// The only NVS device is lost for good: the array starts without it only if that is accepted, and
/// then has what is on the disks.
#[test]
fn an_array_whose_nvs_is_lost_for_good_starts_without_it_only_if_that_is_accepted() {
    let without = Allow { without_nvs: true, ..Allow::default() };
    let assembled = |devices: &mut Devices, allow: &Allow| {
        let all: Vec<Device> = devices.0.keys().copied().chain([Device::Nvs(0)]).collect();
        let said = |device| (device, destage_served::read_superblock(devices, device));
        let found: BTreeMap<_, _> = all.into_iter().map(said).collect();
        destage_served::assemble(&found.into_iter().collect::<Vec<_>>(), allow)
    };
    let mut devices = stopped();
    let there = assembled(&mut devices, &without).err();
    assert_eq!(there, Some(AssembleError::NvsNotLost(Device::Nvs(0))), "it is there");
    let lost = devices.0.remove(&Device::Nvs(0)).expect("a device");
    for allow in [Allow::default(), Allow::degraded()] {
        let refused = assembled(&mut devices, &allow).err();
        let missing = matches!(refused, Some(AssembleError::NvsMissing(Device::Nvs(0), _)));
        assert!(missing, "{refused:?}");
    }
    let assembly = assembled(&mut devices, &without).expect("an array");
    let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
    assert_eq!((volume.status().nvs_devices, volume.status().dirty_pages), (vec![], 0));
    assert!(volume.status().rows_doubted, "a destage may have been interrupted");
    // If it comes back, it is out of date for good.
    devices.0.insert(Device::Nvs(0), lost);
    let assembly = devices.assembled(&Allow::default());
    assert!(assembly.copies.is_empty());
}

/// An array with room for this many dirty pages, whose ring of 64 blocks has these commits of one
/// block. The slots hold zeros.
fn with_log(dirty_pages: u64, commits: impl IntoIterator<Item = Vec<Record>>) -> Devices {
    with_log_of(groups_of(8), dirty_pages, commits)
}

/// An array of 1,024 pages with write groups of this many pages, in one stripe.
fn groups_of(pages: u64) -> Geometry {
    let (level, strip_pages, group_stripes, disk_pages) = (Level::Raid5, pages / 2, 1, 512);
    Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages }
}

/// The same on such an array.
fn with_log_of(
    geometry: Geometry,
    dirty_pages: u64,
    commits: impl IntoIterator<Item = Vec<Record>>,
) -> Devices {
    let sizes = Sizes { ring_blocks: 64, ..Sizes::for_pages(dirty_pages, 512) };
    let mut devices = Devices::created(geometry, sizes, 512, 1);
    let superblock = devices.assembled(&Allow::default()).superblock;
    let mut last_version = 0;
    for (block, records) in (1..).zip(commits) {
        let sequence = block + 1;
        last_version = records.iter().filter_map(Record::version).fold(last_version, u64::max);
        let header = Header {
            epoch: 1,
            sequence,
            durable_through: sequence - 1,
            block,
            last_version,
            kind: Kind::Plain,
        };
        let mut bytes = Vec::new();
        commit::encode(&header, &records, superblock.log, 512, &mut bytes);
        assert_eq!(bytes.len(), SECTOR);
        devices.write(Device::Nvs(0), DATA_START + block * 512, &bytes).expect("written");
    }
    // The log begins with the first of them.
    let anchor = Anchor { number: 2, tail_sequence: 2, tail_block: 1, durable_through: 1 };
    for at in [4096, 8192] {
        devices.write(Device::Nvs(0), at, &anchor.encode(superblock.log)).expect("written");
    }
    devices
}

fn zeros(version: u64) -> Record {
    Record::Zero { pages: Pages::new(Page(version), 1), version, origin: Origin::New }
}

/// The same with this many commits, each with a page of zeros that only the log has.
fn with_commits(count: u64) -> Devices {
    with_log(100, (1..=count).map(|version| vec![zeros(version)]))
}

/// A page without neighbours, whose bytes are not there.
fn lost_page(version: u64) -> Record {
    let (page, slot) = (Page(2 * version), version as u32);
    Record::Data { page, version, slot, sectors: ALL_SECTORS, crc: 1, origin: Origin::New }
}

/// More pages are given up than a commit releases, 168: no later start looks for any of them.
#[test]
fn a_start_that_gives_up_many_pages_gives_all_of_them_up() {
    let commits = (0..11).map(|commit| (1 + commit * 18..=18 + commit * 18).map(lost_page));
    // The last commit confirms the others.
    let commits = commits.map(Iterator::collect).chain([vec![]]);
    let mut devices = with_log(200, commits);
    let assembly = devices.assembled(&Allow::default());
    let refused = opened(&mut devices, &assembly, &settings()).err();
    assert_eq!(refused, Some(OpenError::Log(LogError::LostPages(198, 2))));
    // After the 13 commits that were there come the opening and two with releases.
    let mut started = devices.clone();
    let assembly = started.assembled(&accepted());
    drop(opened(&mut started, &assembly, &settings()).expect("accepted"));
    let assembly = started.assembled(&Allow::default());
    assert_eq!(destage_served::inspect(&mut started, &assembly).last_sequence, 16);
    let mut devices = Served::open_as(devices, &accepted()).devices;
    for _ in 0..2 {
        let served = Served::open(devices);
        assert_eq!(served.volume.status().dirty_pages, 0);
        devices = served.devices;
    }
}

/// A start that gives up pages has room for what it logs, though the ring is as full as it gets
/// while it is served, and the oldest page is not lost: it is moved, and the tail follows.
#[test]
fn a_start_that_gives_up_many_pages_does_not_fill_the_ring() {
    let commits = (0..43).map(|commit| (2 + commit * 10..=11 + commit * 10).map(lost_page));
    let commits = [vec![zeros(1)]].into_iter().chain(commits.map(Iterator::collect));
    let served = Served::open_as(with_log(450, commits.chain([vec![]])), &accepted());
    let mut served = Served::open(served.devices);
    assert_eq!(served.volume.status().dirty_pages, 1);
    served.write(16, 8, 7);
    let mut served = Served::open(served.devices);
    let read = Command::Read { offset: 2 * 4096, bytes: SECTOR };
    assert_eq!(served.ask(read, &[]), [7; SECTOR]);
}

/// The log ends between copies of what a destage froze and the copy of its intent. What it froze is
/// redone, and a newer write stays newer.
#[test]
fn what_a_destage_froze_is_not_lost_with_its_intent() {
    let slots = DATA_START + 64 * SECTOR as u64;
    let data = |page, version, origin| {
        let (page, slot, crc) = (Page(page), version as u32, crc32c(&[version as u8; 4096]));
        Record::Data { page, version, slot, sectors: ALL_SECTORS, crc, origin }
    };
    let froze = vec![data(9, 3, Origin::Frozen), data(10, 4, Origin::Frozen)];
    let (first, row, p) = (Page(40), 1, [1; 8]);
    let parity = Record::Parity { first, row, p, q: None, moved: true };
    let newer = vec![data(10, 5, Origin::New), parity];
    let intent = Record::Intent { pages: Pages::new(Page(8), 8), through: 4, moved: true };
    let mut devices = with_log(100, [froze, newer, vec![intent], vec![]]);
    for version in 3..=5 {
        let at = slots + version * 4096;
        devices.write(Device::Nvs(0), at, &[version as u8; 4096]).expect("written");
    }
    devices.write(Device::Nvs(0), DATA_START + 3 * 512, &[7; SECTOR]).expect("written");
    let assembly = devices.assembled(&Allow::default());
    let refused = opened(&mut devices, &assembly, &settings()).err();
    assert!(matches!(refused, Some(OpenError::Log(LogError::Damaged(_)))), "{refused:?}");
    let assembly = devices.assembled(&accepted());
    drop(opened(&mut devices, &assembly, &settings()).expect("accepted"));
    let assembly = devices.assembled(&Allow::default());
    let found = destage_served::inspect(&mut devices, &assembly);
    assert_eq!((found.damage, found.dirty_pages, found.open_intents), (None, 3, 2));
    let mut served = Served::open(devices);
    for _ in 0..2 {
        for (page, fill) in [(9, 3), (10, 5)] {
            let read = Command::Read { offset: page * 4096, bytes: 4096 };
            assert_eq!(served.ask(read, &[]), [fill; 4096], "page {page}");
        }
        served.flush_cache();
    }
    let mut devices = served.devices;
    let assembly = devices.assembled(&Allow::default());
    let found = destage_served::inspect(&mut devices, &assembly);
    assert_eq!((found.dirty_pages, found.open_intents), (0, 0));
}

/// What two destages froze may be one record of zeros. Both are redone when the log ends before the
/// copies of their intents, and the pages can be written again.
#[test]
fn what_two_destages_froze_is_not_lost_where_it_is_one_record() {
    let froze = Record::Zero { pages: Pages::new(Page(15), 2), version: 3, origin: Origin::Frozen };
    let intents = [8, 16].map(|first| {
        let pages = Pages::new(Page(first), 8);
        Record::Intent { pages, through: 3, moved: true }
    });
    let mut devices = with_log(100, [vec![froze], vec![], intents.to_vec(), vec![]]);
    devices.write(Device::Nvs(0), DATA_START + 3 * 512, &[7; SECTOR]).expect("written");
    let served = Served::open_as(devices, &accepted());
    let mut served = Served::open(served.devices);
    for page in [15, 16] {
        served.write(page * 8, 8, page as u8);
    }
    served.flush_cache();
    assert_eq!(served.volume.status().dirty_pages, 0);
    let mut served = Served::open(served.devices);
    for page in [15, 16] {
        let read = Command::Read { offset: page * 4096, bytes: 4096 };
        assert_eq!(served.ask(read, &[]), [page as u8; 4096]);
    }
}

/// No array leaves such a log: moves leave blocks for the next start. It is refused, and what it
/// has is still there.
#[test]
fn a_ring_without_a_block_for_the_start_is_refused_and_loses_nothing() {
    let mut enough = with_commits(62);
    let assembly = enough.assembled(&Allow::default());
    let volume = opened(&mut enough, &assembly, &settings()).expect("one block stays free");
    assert_eq!(volume.status().dirty_pages, 62);
    let mut full = with_commits(63);
    for _ in 0..2 {
        let assembly = full.assembled(&Allow::default());
        let refused = opened(&mut full, &assembly, &settings()).err();
        assert!(matches!(refused, Some(OpenError::Log(LogError::Full))), "{refused:?}");
        let held = destage_served::inspect(&mut full, &assembly);
        assert_eq!((held.dirty_pages, held.commits), (63, 63));
    }
}

/// Devices of which the NVS device cannot read some bytes.
struct Unreadable {
    devices: Devices,
    bad: Range<u64>,
    /// The bytes of each read that failed.
    failed: Vec<usize>,
}

impl Media for Unreadable {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        self.devices.bytes(device)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        let end = offset + into.len() as u64;
        if device == Device::Nvs(0) && offset < self.bad.end && self.bad.start < end {
            self.failed.push(into.len());
            return Err(IoError::MEDIUM);
        }
        self.devices.read(device, offset, into)
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.devices.write(device, offset, bytes)
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.devices.flush(device)
    }
}

/// An array whose log has commits in the blocks 1 to 4 of 64: dirty pages 6, 7 and 9, of which the
/// first is lost, and pages 1 and 2 in an open destage. In block 7 a commit was not finished.
fn with_a_log_of_four_commits() -> Devices {
    let intent = Record::Intent { pages: Pages::new(Page(0), 8), through: 2, moved: false };
    let pages = vec![lost_page(3), zeros(7), zeros(9)];
    let mut devices = with_log(100, [vec![zeros(1), zeros(2)], pages, vec![intent], vec![]]);
    let log = devices.assembled(&Allow::default()).superblock.log;
    let (sequence, durable_through, block, kind) = (9, 3, 7, Kind::Plain);
    let header = Header { epoch: 1, sequence, durable_through, block, last_version: 9, kind };
    let mut torn = Vec::new();
    commit::encode(&header, &[], log, 512, &mut torn);
    torn[300] ^= 1;
    devices.write(Device::Nvs(0), DATA_START + 7 * 512, &torn).expect("written");
    devices
}

#[test]
fn an_inspection_says_what_a_log_holds() {
    let mut devices = with_a_log_of_four_commits();
    let assembly = devices.assembled(&Allow::default());
    let found = destage_served::inspect(&mut devices, &assembly);
    assert_eq!((found.ring, found.tail, found.damage), ((64, 512), Some((2, 1)), None));
    assert_eq!((found.commits, found.last_sequence, found.dropped), (4, 5, 1));
    assert_eq!((found.dirty_pages, found.open_intents), (5, 1));
    assert_eq!((found.ranges, found.lost), (vec![(6, 2), (9, 1)], vec![(6, 1)]));
    assert_eq!((found.repairs, found.unreadable, found.unreadable_behind), (0, vec![], 0));
    // Without an anchor nothing is known but the sizes.
    for at in [4096, 8192] {
        devices.write(Device::Nvs(0), at, &[7; SECTOR]).expect("written");
    }
    let found = destage_served::inspect(&mut devices, &assembly);
    assert_eq!((found.ring, found.tail, found.commits), ((64, 512), None, 0));
}

/// A device may take seconds for each read that fails: what could not be read ahead is read only as
/// it is needed, and nothing of it is tried twice.
#[test]
fn of_what_cannot_be_read_little_is_tried() {
    let inspected = |bad: Range<u64>| {
        let mut devices = with_a_log_of_four_commits();
        let assembly = devices.assembled(&Allow::default());
        let mut media = Unreadable { devices, bad, failed: Vec::new() };
        let found = destage_served::inspect(&mut media, &assembly);
        assert_eq!((found.commits, found.dirty_pages, found.damage), (4, 5, None));
        (found, media.failed)
    };
    let blocks = |first: u64, count: u64| {
        let first = DATA_START + first * SECTOR as u64;
        first..first + count * SECTOR as u64
    };
    let (found, failed) = inspected(blocks(20, 2));
    assert_eq!((found.unreadable, found.unreadable_behind), (vec![0], 2));
    // Ahead, then from the log's end to the ring's, then block by block.
    assert_eq!(failed.len(), 4, "{failed:?}");
    assert_eq!(failed[1..], [59 * SECTOR, SECTOR, SECTOR]);
    assert_eq!(found.lost, [(6, 1)]);
    // In a slot that nothing names.
    let (found, failed) = inspected(blocks(64 + 50 * 8, 1));
    assert_eq!((found.unreadable, found.unreadable_behind), (vec![], 0));
    assert_eq!(failed.len(), 1, "{failed:?}");
}

/// The log has the parity of row 1 of an open destage. Its row 3 is a full stripe, and row 4 would
/// be one if all sectors of its pages were dirty. Of row 2 too little can be read, so the destage
/// waits. For as long only the rows that it may have written are in doubt.
#[test]
fn a_start_doubts_the_rows_that_an_open_destage_may_have_written() {
    let geometry = groups_of(128);
    // The second group. The pages of a row are 64 apart.
    let first = Page(128);
    let zero = |at: u64, version: u64| {
        let pages = Pages::new(Page(first.0 + at), 1);
        Record::Zero { pages, version, origin: Origin::New }
    };
    let (page, crc) = (Page(first.0 + 68), crc32c(&[0; 4096]));
    let in_part = Record::Data { page, version: 6, slot: 1, sectors: 1, crc, origin: Origin::New };
    let pages = vec![zero(65, 1), zero(66, 2), zero(3, 3), zero(67, 4), zero(4, 5), in_part];
    let intent = Record::Intent { pages: Pages::new(first, 128), through: 6, moved: false };
    let parity = Record::Parity { first, row: 1, p: [1; 8], q: None, moved: false };
    let mut devices = with_log_of(geometry, 100, [pages, vec![intent, parity], vec![]]);
    let assembly = devices.assembled(&Allow::default());
    let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
    let mut served = Served::of(devices, volume);
    let stripe = geometry.row_of_disk_page(64).1.stripe;
    let of_row_2 = |disk: DiskId| (Device::Member(disk.0), DATA_START + (64 + 2) * 4096);
    let bad = [geometry.data_disk(stripe, 0), geometry.parity_disk(stripe)];
    served.unreadable = bad.map(of_row_2).to_vec();
    let now = served.now();
    served.run_until(now.0 + 1_000_000_000, |_| false);
    assert!(served.volume.status().kept_pages > 0);
    let controller = served.volume.controller();
    let doubted: Vec<u64> = (0..64).filter(|row| controller.is_in_doubt(64 + row)).collect();
    assert_eq!(doubted, [1, 3]);
}

/// Of a page of which the NVS has one sector, the disks have the others.
#[test]
fn a_start_knows_of_which_pages_the_nvs_has_only_some_sectors() {
    let mut served = Served::open(stopped());
    served.flush_cache();
    served.write(2 * 8 + 1, 1, 9);
    let mut served = Served::open(served.devices);
    for place in ["in the NVS", "on the disks"] {
        let read = Command::Read { offset: 2 * 4096, bytes: 4096 };
        let bytes = served.ask(read, &[]);
        let fills: Vec<u8> = bytes.chunks_exact(SECTOR).map(|sector| sector[0]).collect();
        assert_eq!(fills, [1, 9, 1, 1, 1, 1, 1, 1], "{place}");
        served.flush_cache();
    }
}

/// A superblock names the generation that it was made on: by that a later start distinguishes the
/// halves of an array that served apart.
#[test]
fn a_start_without_a_device_is_made_on_what_all_devices_had() {
    let said = |devices: &mut Devices| {
        destage_served::read_superblock(devices, Device::Nvs(0)).expect("a superblock").superblock
    };
    let text = include_str!("golden/version-4-blocks-512-nvs-2-stop.txt");
    let mut devices = Served::open(Devices::from_text(text)).devices;
    let before = said(&mut devices);
    let mut served = Served::open_without(devices, Device::Nvs(1));
    let after = said(&mut served.devices);
    assert_eq!((after.base, after.base_identity), (before.generation, before.identity()));
}

/// An interrupted start may have given one more number in each copy that is damaged now: none of
/// them is given again.
#[test]
fn a_start_leaves_out_the_numbers_that_damaged_superblocks_may_have() {
    let text = include_str!("golden/version-4-blocks-512-nvs-2-stop.txt");
    let before = Served::open(Devices::from_text(text)).devices;
    let number = |devices: &Devices| {
        let said = destage_served::read_superblock(&mut devices.clone(), Device::Nvs(0));
        said.expect("a superblock").superblock.generation
    };
    let after = |damaged: &[Device]| {
        let mut devices = before.clone();
        for device in damaged {
            devices.write(*device, 0, &[7; SECTOR]).expect("there");
        }
        number(&Served::open(devices).devices) - number(&before)
    };
    let members = [Device::Member(0), Device::Member(1)];
    assert_eq!([0, 1, 2].map(|count| after(&members[..count])), [1, 2, 3]);
}
