//! Another log: what the superblocks say then, on which devices it goes, and which device holds
//! nothing (docs/durability.md, "Another log").

mod common;

use common::{Devices, PAGES, Served};
use destage_engine::array::geometry::{Geometry, Level};
use destage_nvslog::LogId;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{NOT_JOINED, Role, Superblock};
use destage_served::{
    Allow, Assembly, Cause, Defect, Device, IoError, Media, NewLog, RelogError, is_spent,
};
use std::collections::BTreeMap;

const M: [Device; 3] = [Device::Member(0), Device::Member(1), Device::Member(2)];
const N: Device = Device::Nvs(0);

/// An array with this many NVS devices that was stopped with everything on its disks.
fn drained(nvs: u16) -> Devices {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 2, 2);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: PAGES / 2 };
    let mut served = Served::open(Devices::created(geometry, Sizes::for_pages(24, 512), 512, nvs));
    served.write(0, 32, 1);
    served.flush_cache();
    served.stop();
    served.devices
}

/// A log of other sizes on the first NVS device.
fn new_log(dirty_pages: u64) -> NewLog {
    NewLog {
        log: [3; 16],
        block_bytes: 4096,
        sizes: Sizes { ring_blocks: 96, slots: 77, dirty_pages },
        nvs: [Some([20; 16]), None],
        rows_fit: true,
        defect: Defect::None,
    }
}

/// The device is as large as this log needs.
fn enlarge(devices: &mut Devices, device: Device, new: &NewLog) {
    let bytes = new.sizes.bytes(new.block_bytes);
    devices.0.entry(device).or_insert((0, BTreeMap::new())).0 = bytes;
}

/// The devices, and every superblock that was written to them.
struct Recorded {
    devices: Devices,
    superblocks: Vec<(Device, u64, Superblock)>,
}

impl Media for Recorded {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        self.devices.bytes(device)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.devices.read(device, offset, into)
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        if let Ok(superblock) = Superblock::decode(bytes) {
            self.superblocks.push((device, offset, superblock));
        }
        self.devices.write(device, offset, bytes)
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.devices.flush(device)
    }
}

fn relogged(devices: Devices, assembly: &Assembly, new: &NewLog) -> Recorded {
    let mut recorded = Recorded { devices, superblocks: Vec::new() };
    destage_served::relog(&mut recorded, assembly, new).expect("another log");
    recorded
}

/// First the members say that no NVS device is in use; then the device gets the log, and says
/// nothing of the array; then all name it. Of the array everything else stays.
#[test]
fn superblocks_describe_the_new_log_when_it_is_there() {
    let (mut devices, new) = (drained(1), new_log(20));
    enlarge(&mut devices, N, &new);
    let mut assembly = devices.assembled(&Allow::default());
    let old = &mut assembly.superblock;
    (old.lost_pages, old.doubted_rows) = (true, true);
    old.mark(1, true);
    assert!(old.set_rebuild(1, Some([99; 16])));
    let old = *old;
    let new = NewLog { rows_fit: false, ..new };
    let recorded = relogged(devices, &assembly, &new);
    let written = |of: std::ops::Range<usize>| {
        let of = recorded.superblocks[of].iter();
        of.map(|(device, at, _)| (*device, *at)).collect::<Vec<_>>()
    };
    let [one, two] = [0, 12_288];
    let on = |devices: &[Device], at: u64| -> Vec<(Device, u64)> {
        devices.iter().map(|device| (*device, at)).collect()
    };
    let all = [N, M[0], M[1], M[2]];
    assert_eq!(written(0..6), [on(&M, one), on(&M, two)].concat());
    assert_eq!(written(6..8), [(N, one), (N, two)]);
    assert_eq!(written(8..16), [on(&all, one), on(&all, two)].concat());
    assert_eq!(recorded.superblocks.len(), 16);
    let said = |at: usize| recorded.superblocks[at].2;
    let before = said(0);
    assert_eq!((before.generation, before.base), (old.generation + 1, old.generation));
    let kept = Superblock {
        generation: before.generation,
        base: before.base,
        base_identity: before.base_identity,
        nvs: [None; 2],
        device: [10; 16],
        role: Role::Member(0),
        joined: before.joined,
        ..old
    };
    assert_eq!(before, kept);
    let after = Superblock {
        generation: before.generation + 1,
        base: before.generation,
        base_identity: before.identity(),
        log: LogId([3; 16]),
        block_bytes: 4096,
        ring_blocks: 96,
        slots: 77,
        dirty_pages_max: 20,
        nvs: [Some([20; 16]), None],
        ..before
    };
    assert_eq!(said(9), after);
    let device = Superblock { device: [20; 16], role: Role::Nvs(0), ..after };
    assert_eq!(said(8), Superblock { joined: after.generation, ..device });
    for at in [6, 7] {
        let empty = Superblock {
            generation: 0,
            base: 0,
            base_identity: 0,
            joined: NOT_JOINED,
            nvs: [None; 2],
            failed: [0; 128],
            rebuilds: [None; 8],
            lost_pages: false,
            doubted_rows: false,
            ..device
        };
        assert_eq!(said(at), empty);
    }
}

/// What was in doubt no longer is, if the rows fit.
#[test]
fn the_array_is_used_with_the_new_log() {
    for (doubted, rows_fit, after) in
        [(false, true, false), (true, true, false), (true, false, true)]
    {
        let (mut devices, new) = (drained(1), NewLog { rows_fit, ..new_log(20) });
        enlarge(&mut devices, N, &new);
        let mut assembly = devices.assembled(&Allow::default());
        assembly.superblock.doubted_rows = doubted;
        let mut served = Served::open(relogged(devices, &assembly, &new).devices);
        let status = served.volume.status();
        assert_eq!((status.nvs_devices, status.nvs_pages), (vec![0], 20));
        assert_eq!(status.rows_doubted, after);
        served.write(64, 8, 2);
        served.stop();
        let mut served = Served::open(served.devices);
        for (page, fill) in [(0, 1), (3, 1), (8, 2)] {
            let read = destage_served::Command::Read { offset: page * 4096, bytes: 4096 };
            assert_eq!(served.ask(read, &[]), [fill; 4096], "page {page}");
        }
    }
}

/// As large as the array and no larger, on a device of exactly the size, and on all in use.
#[test]
fn a_log_that_does_not_fit_is_refused() {
    let refused = |devices: &mut Devices, new: &NewLog| {
        let (before, assembly) = (devices.to_text(), devices.assembled(&Allow::default()));
        let refused = destage_served::relog(devices, &assembly, new).err();
        assert!(refused.is_none() || devices.to_text() == before, "nothing is changed");
        refused
    };
    for (pages, larger) in [(PAGES - 1, false), (PAGES, false), (PAGES + 1, true)] {
        let (mut devices, new) = (drained(1), new_log(pages));
        enlarge(&mut devices, N, &new);
        let expected = larger.then_some(RelogError::TooLarge(PAGES));
        assert_eq!(refused(&mut devices, &new), expected, "{pages}");
    }
    let new = new_log(20);
    let needs = new.sizes.bytes(4096);
    for (bytes, fits) in [(needs - 512, false), (needs, true), (needs + 512, true)] {
        let mut devices = drained(1);
        devices.0.get_mut(&N).expect("a device").0 = bytes;
        let expected = (!fits).then_some(RelogError::TooSmall(N, needs));
        assert_eq!(refused(&mut devices, &new), expected, "{bytes}");
    }
    let mut mirrored = drained(2);
    [N, Device::Nvs(1)].into_iter().for_each(|device| enlarge(&mut mirrored, device, &new));
    let left_out = Some(RelogError::LeavesOut(Device::Nvs(1)));
    assert_eq!(refused(&mut mirrored, &new), left_out);
    let other = NewLog { nvs: [Some([20; 16]), Some([22; 16])], ..new.clone() };
    assert_eq!(refused(&mut mirrored, &other), left_out, "it is another device");
    let both = NewLog { nvs: [Some([20; 16]), Some([21; 16])], ..new };
    assert_eq!(refused(&mut mirrored, &both), None);
    assert_eq!(Served::open(mirrored).volume.status().nvs_devices, [0, 1]);
}

/// A log with dirty pages is not replaced, and its device is not overwritten for an empty one.
#[test]
fn a_device_is_spent_if_it_has_nothing_of_its_array() {
    let mut devices = drained(1);
    let array = [1; 16];
    assert!(is_spent(&mut devices, N, array));
    assert!(!is_spent(&mut devices, N, [2; 16]), "of another array");
    assert!(!is_spent(&mut devices, M[0], array), "a member");
    assert!(!is_spent(&mut devices, Device::Nvs(1), array), "it is not there");
    let mut served = Served::open(devices);
    served.write(0, 16, 2);
    served.stop();
    let mut devices = served.devices;
    assert!(!is_spent(&mut devices, N, array), "two dirty pages");
    let new = new_log(20);
    enlarge(&mut devices, N, &new);
    let assembly = devices.assembled(&Allow::default());
    let refused = destage_served::relog(&mut devices, &assembly, &new).err();
    assert_eq!(refused, Some(RelogError::NotEmpty(2, 0)));
    // Nothing is read of a log that never came into use, nor believed of one that is damaged.
    for at in [4096, 8192] {
        devices.write(N, at, &[7; 512]).expect("written");
    }
    assert!(!is_spent(&mut devices, N, array), "no anchor");
    let refused = destage_served::relog(&mut devices, &assembly, &new).err();
    assert_eq!(refused, Some(RelogError::Damaged));
    for at in [0, 12_288] {
        let mut bytes = [0; 512];
        devices.read(N, at, &mut bytes).expect("read");
        let known = Superblock::decode(&bytes).expect("a superblock");
        let unused = Superblock { joined: NOT_JOINED, ..known };
        devices.write(N, at, &unused.encode()).expect("written");
    }
    assert!(is_spent(&mut devices, N, array), "it never came into use");
}

/// The array has lost its NVS device, and gets another one with the log.
#[test]
fn an_array_whose_nvs_failed_gets_a_log_on_a_new_device() {
    let mut served = Served::open(drained(1));
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    served.run();
    served.flush_cache();
    served.stop();
    let (mut devices, new) = (served.devices, new_log(20));
    devices.0.remove(&N);
    let new = NewLog { nvs: [None, Some([55; 16])], ..new };
    enlarge(&mut devices, Device::Nvs(1), &new);
    let assembly = devices.assembled_of(&M, &Allow::default()).expect("an array");
    let recorded = relogged(devices, &assembly, &new);
    assert_eq!(recorded.superblocks.len(), 2 + 8, "no NVS device is to be left out first");
    let mut devices = recorded.devices;
    let all = [M[0], M[1], M[2], Device::Nvs(1)];
    let assembly = devices.assembled_of(&all, &Allow::default()).expect("an array");
    assert_eq!(assembly.copies, [1]);
    assert_eq!(assembly.superblock.nvs, [None, Some([55; 16])]);
}

#[test]
fn refusals_of_another_log_say_why() {
    for (refusal, words) in [
        (RelogError::Damaged, "cannot be read"),
        (RelogError::NotEmpty(2, 1), "2 dirty pages and 1 open destages"),
        (RelogError::LeavesOut(N), "NVS device 0 is in use"),
        (RelogError::TooLarge(PAGES), "which has 32 pages"),
        (RelogError::TooSmall(N, 4096), "needs 4096 bytes"),
        (RelogError::Io(N, IoError::GONE), "NVS device 0: "),
    ] {
        assert!(refusal.to_string().contains(words), "{refusal}");
    }
}
