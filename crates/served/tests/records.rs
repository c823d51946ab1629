//! The records of members (docs/nvs-format.md): what a start makes of them, and who has one when a
//! page is lost.

mod common;

use common::{Devices, Served, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::member::MemberRecord;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Alarm, Allow, Cause, Device, IoError, Media, OpenError, member_bytes};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
const RECORDS: [u64; 2] = [16_384, 20_480];
const SUPERBLOCKS: [u64; 2] = [0, 12_288];
const MEMBER: Device = Device::Member(1);

/// Three members; their rows have one page each.
fn array() -> Devices {
    let (level, strip_pages, group_stripes, disk_pages) = (Level::Raid5, 1, 1, 32);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages };
    Devices::created(geometry, Sizes::for_pages(40, 512), 512, 1)
}

/// The bytes of a record of member 1, as the array was created.
fn record(number: u64, lost: &[u64]) -> Vec<u8> {
    let lost = lost.to_vec();
    MemberRecord { number, device: [11; 16], below: 0, lost }.encode().to_vec()
}

/// Both copies of a member's record.
fn copies_of(devices: &mut Devices, device: Device) -> [Vec<u8>; 2] {
    RECORDS.map(|at| {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        devices.read(device, at, &mut bytes).expect("read");
        bytes
    })
}

/// Both copies of a member's record, if they are the same.
fn record_of(devices: &mut Devices, device: Device) -> Option<MemberRecord> {
    let [first, second] = copies_of(devices, device);
    MemberRecord::decode(&first).filter(|_| first == second)
}

/// The superblocks say that no page is lost. A record that would say anything else is written over,
/// or could not be read; one that is missing counts as written before any page was lost.
#[test]
fn a_start_without_lost_pages_writes_over_records_that_say_something_else() {
    let (none, empty, lost) = (vec![0; PAGE_BYTES as usize], record(8, &[]), record(8, &[5]));
    let mut damaged = lost.clone();
    damaged[100] ^= 1;
    let other = MemberRecord { number: 3, device: [99; 16], below: 0, lost: vec![5] };
    let other = other.encode().to_vec();
    let [unwritten, first, ninth] = [0, 1, 9].map(|number| record(number, &[]));
    for (before, after, what) in [
        ([&none, &none], &none, "none was ever written"),
        ([&empty, &empty], &empty, "it says so"),
        ([&empty, &none], &empty, "the second copy is missing"),
        ([&damaged, &empty], &empty, "the first copy is damaged"),
        ([&lost, &lost], &ninth, "it says something else"),
        ([&damaged, &damaged], &first, "both copies are damaged"),
        ([&damaged, &none], &unwritten, "the first record was being written"),
        ([&other, &other], &unwritten, "it is of another device"),
    ] {
        let mut devices = array();
        for (at, bytes) in RECORDS.into_iter().zip(before) {
            devices.write(MEMBER, at, bytes).expect("written");
        }
        let mut served = Served::open(devices);
        assert_eq!(served.volume.lost_pages(), [], "{what}");
        for copy in copies_of(&mut served.devices, MEMBER) {
            assert!(copy == *after, "{what}: {:?}", MemberRecord::decode(&copy));
        }
    }
}

/// The devices, where they are written, and a device whose records cannot be.
struct Watched(Devices, Vec<(Device, u64)>, Option<Device>);

impl Media for Watched {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        self.0.bytes(device)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.0.read(device, offset, into)
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.1.push((device, offset));
        match self.2 == Some(device) && RECORDS.contains(&offset) {
            true => Err(IoError::MEDIUM),
            false => self.0.write(device, offset, bytes),
        }
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.0.flush(device)
    }
}

/// A change that was cut short may call a member in sync, and a start that does not take it for
/// built still rebuilds it: what its record says counts for that change until the start's own mark
/// is complete. A copy that is damaged alone is repaired before the mark.
#[test]
fn a_record_is_written_over_only_when_the_start_is_marked() {
    let empty = record(8, &[]);
    let mut damaged = record(8, &[5]);
    damaged[100] ^= 1;
    for (before, written, last) in [
        ([&damaged, &damaged], &RECORDS[..], true),
        ([&damaged, &empty], &RECORDS[..1], false),
        ([&empty, &damaged], &RECORDS[1..], false),
    ] {
        let mut devices = array();
        for (at, bytes) in RECORDS.into_iter().zip(before) {
            devices.write(MEMBER, at, bytes).expect("written");
        }
        let assembly = devices.assembled(&Allow::default());
        let mut watched = Watched(devices.clone(), Vec::new(), None);
        destage_served::open(&mut watched, &assembly, settings()).expect("it opens");
        let is_record = |(device, at): &(Device, u64)| *device == MEMBER && RECORDS.contains(at);
        let is_mark = |(_, at): &(Device, u64)| SUPERBLOCKS.contains(at);
        let records: Vec<u64> = watched.1.iter().filter(|w| is_record(w)).map(|w| w.1).collect();
        assert_eq!(records, written);
        let first = watched.1.iter().position(is_record).expect("written");
        let marks = watched.1[..first].iter().filter(|w| is_mark(w)).count();
        assert_eq!(marks, if last { 8 } else { 0 }, "both copies on four devices");
        // The start may do without the member then.
        let mut unwritable = Watched(devices, Vec::new(), Some(MEMBER));
        let refused = destage_served::open(&mut unwritable, &assembly, settings()).err();
        assert_eq!(refused, Some(OpenError::Unwritable(MEMBER, IoError::MEDIUM)));
    }
}

/// From then on each start reads the records of all members. Of rows 4 and 5 member 0 has a page of
/// data and the parity; both cannot be read. A page that the NVS has is not lost.
#[test]
fn when_the_first_page_is_lost_each_member_writes_its_record() {
    for dirty in [false, true] {
        let mut served = Served::open(array());
        served.write(0, 512, 3);
        served.flush_cache();
        served.volume.give_up_member(1, Cause::Asked);
        served.run();
        if dirty {
            served.write(9 * 8, 8, 4);
        }
        let of_first = |row: u64| (Device::Member(0), DATA_START + row * PAGE_BYTES);
        served.unreadable = [4, 5].map(of_first).to_vec();
        let needs = member_bytes(served.volume.controller().geometry());
        served.devices.0.insert(MEMBER, (needs, BTreeMap::new()));
        served.volume.take_alarms();
        let now = served.now();
        served.volume.replace(now, 1, [0x55; 16], needs).expect("begun");
        served.run_until(now.0 + 200 * SECOND, |_| false);
        let ranges = if dirty { vec![(10, 1)] } else { vec![(9, 2)] };
        let lost = Alarm::PagesLost { member: 1, page: 4, ranges };
        assert_eq!(served.volume.take_alarms(), [lost, Alarm::MemberRebuilt(1)]);
        assert_eq!(served.volume.lost_pages(), [(1, 4), (1, 5)]);
        for member in [0, 2] {
            let said = record_of(&mut served.devices, Device::Member(member)).expect("a record");
            assert_eq!((said.number, said.below, said.lost), (1, 0, vec![]), "{member}");
        }
        let said = record_of(&mut served.devices, MEMBER).expect("a record");
        assert_eq!((said.device, said.below, said.lost), ([0x55; 16], 32, vec![4, 5]));
        // Complete rows are written: the record says so, and nothing else has to.
        let generation = served.volume.superblock().generation;
        served.write(8 * 8, 4 * 8, 5);
        served.flush_cache();
        assert!(served.volume.drained() && served.volume.lost_pages().is_empty());
        let said = record_of(&mut served.devices, MEMBER).expect("a record");
        assert_eq!((said.below, said.lost), (32, vec![]));
        assert_eq!(served.volume.superblock().generation, generation);
    }
}
