//! Devices that fail while something of them is waited for: it is waited for no longer.

mod common;

use common::{Devices, SECTOR, Served};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Cause, Command, Device, Op, OpKind};

/// An array whose first 64 pages are filled, with strips of one page.
fn filled(level: Level, disks: u16, nvs: u16) -> Served {
    let geometry = Geometry { level, disks, strip_pages: 1, group_stripes: 1, disk_pages: 64 };
    let mut served = Served::open(Devices::created(geometry, Sizes::for_pages(40, 512), 512, nvs));
    served.write(0, 64 * 8, 1);
    served.flush_cache();
    served
}

fn give_up(served: &mut Served, device: Device) {
    match device {
        Device::Member(member) => served.volume.give_up_member(member, Cause::Asked),
        Device::Nvs(copy) => {
            let now = served.now();
            served.volume.give_up_nvs(now, copy, Cause::Asked);
        }
    }
}

/// A write of the first copy of a superblock.
fn is_superblock(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Write { offset: 0, .. })
}

/// It flushes the members that it has written when all rows are compared.
#[test]
fn a_scrub_ends_when_the_member_fails_that_it_flushes() {
    let mut served = filled(Level::Raid5, 3, 1);
    let member = Device::Member(2);
    served.unreadable = vec![(member, DATA_START + 3 * PAGE_BYTES)];
    let now = served.now();
    served.volume.start_scrub(now, true).expect("begun");
    served.volume.allow_scrub(now, u64::MAX);
    let flushes = |op: &Op| op.device == member && matches!(op.kind, OpKind::Flush);
    assert!(served.steps_until(flushes), "a page was written");
    assert!(served.volume.scrub_running());
    give_up(&mut served, member);
    served.run();
    let status = served.volume.scrub_status().expect("a scrub");
    assert!(!status.running && !status.whole, "{status:?}");
}

/// The superblocks of the others still say which devices have failed.
#[test]
fn a_change_is_recorded_though_a_device_fails_that_it_is_being_written_to() {
    for device in [Device::Member(1), Device::Nvs(1)] {
        let mut served = filled(Level::Raid6, 5, 2);
        give_up(&mut served, Device::Member(0));
        let writes_to_it = |op: &Op| op.device == device && is_superblock(&op.kind);
        assert!(served.steps_until(writes_to_it), "{device}");
        assert!(served.volume.is_changing(), "{device}");
        give_up(&mut served, device);
        served.run();
        assert!(!served.volume.is_changing(), "{device}");
        let said = served.volume.superblock();
        let failed = [0, 1, 2].map(|member| said.has_failed(member));
        assert_eq!(failed, [true, device == Device::Member(1), false]);
        assert_eq!(said.nvs[1].is_none(), device == Device::Nvs(1));
        served.write(0, 8, 2);
    }
}

#[test]
fn a_write_is_answered_when_a_mirror_fails_before_it_has_its_commit() {
    let mut served = filled(Level::Raid5, 3, 2);
    let now = served.now();
    let write = Command::Write { offset: 0, fua: false };
    served.volume.submit(now, 7, write, &[2; 8 * SECTOR]);
    served.volume.turn(now);
    let commit = |op: &Op| op.device == Device::Nvs(1) && matches!(op.kind, OpKind::Write { .. });
    assert!(served.steps_until(commit));
    give_up(&mut served, Device::Nvs(1));
    assert_eq!(served.answer(), None);
    served.run();
    assert_eq!(served.answer(), Some(Ok(Vec::new())));
    assert_eq!(served.volume.status().nvs_devices, [0]);
}

/// Members 0 and 1 are gone: the next start finds the array as it was then, whatever else fails.
#[test]
fn an_array_that_has_stopped_writes_nothing_more() {
    for next in [Device::Member(2), Device::Nvs(0), Device::Nvs(1)] {
        let mut served = filled(Level::Raid10, 4, 2);
        give_up(&mut served, Device::Member(0));
        served.run_until(u64::MAX, |volume| !volume.is_changing());
        let before = served.volume.superblock();
        let now = served.now();
        let write = Command::Write { offset: 0, fua: false };
        served.volume.submit(now, 9, write, &[3; 8 * SECTOR]);
        give_up(&mut served, Device::Member(1));
        assert!(served.volume.status().stopped);
        let mut ops = Vec::new();
        served.volume.take_ops(&mut ops);
        ops.clear();
        give_up(&mut served, next);
        served.volume.turn(now);
        served.volume.take_ops(&mut ops);
        assert_eq!(ops.len(), 0, "{next}");
        assert_eq!(served.volume.deadline(), None);
        assert_eq!(served.volume.superblock(), before);
    }
}
