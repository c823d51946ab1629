//! A new NVS mirror: alone it has everything, whatever the ring looked like, and what happens if it
//! fails on the way (docs/durability.md, "A new mirror").

mod common;

use common::{Devices, PAGES, SECTOR, Served};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{NOT_JOINED, Superblock};
use destage_served::{
    Alarm, Allow, AssembleError, Cause, Command, Device, Media, MirrorRefusal, OpKind, Volume,
};
use std::collections::BTreeMap;

const UUID: [u8; 16] = [0x77; 16];
const NEW: Device = Device::Nvs(1);
const OLD: Device = Device::Nvs(0);

/// An array with one NVS device, whose ring has 64 blocks.
fn one() -> Served {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 2, 2);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: PAGES / 2 };
    Served::open(Devices::created(geometry, Sizes::for_pages(24, 512), 512, 1))
}

/// Writes a page; its fill is the number of the write.
fn write(served: &mut Served, n: u64, model: &mut BTreeMap<u64, u8>) {
    // Two of them are written once, so that their records have to be moved.
    let (page, fill) = (if n < 2 { 20 + n } else { n * 5 % 16 }, n as u8 + 1);
    served.write(page * 8, 8, fill);
    model.insert(page, fill);
}

fn check(served: &mut Served, model: &BTreeMap<u64, u8>, what: &str) {
    for (page, fill) in model {
        let command = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize };
        let bytes = served.ask(command, &[]);
        assert!(bytes.iter().all(|byte| byte == fill), "{what}: page {page}");
    }
}

/// Puts an empty device in the place of NVS device 1 and begins to fill it.
fn begin(served: &mut Served) -> Result<(), MirrorRefusal> {
    let bytes = served.devices.bytes(OLD).expect("there");
    served.devices.0.insert(NEW, (bytes, BTreeMap::new()));
    let now = served.now();
    served.volume.add_mirror(now, 1, UUID, bytes, 512)
}

fn superblock_of(devices: &mut Devices, device: Device) -> Superblock {
    destage_served::read_superblock(devices, device).expect("a superblock").superblock
}

/// The ring is wherever it is: at its start, in its middle, around its end, after moves.
#[test]
fn a_new_mirror_alone_has_everything() {
    let mut moved = 0;
    for writes in (0..150).step_by(7) {
        let (mut served, mut model) = (one(), BTreeMap::new());
        (0..writes).for_each(|n| write(&mut served, n, &mut model));
        begin(&mut served).expect("begun");
        served.run();
        assert_eq!(served.volume.mirror_status(), None, "{writes}");
        assert_eq!(served.volume.take_alarms(), [Alarm::NvsMirrored(1)], "{writes}");
        (0..3).for_each(|n| write(&mut served, writes + n, &mut model));
        let status = served.volume.status();
        assert_eq!(status.nvs_devices, [0, 1]);
        moved = moved.max(status.records_moved);
        let mut served = Served::open_without(served.devices, OLD);
        assert_eq!(served.volume.status().nvs_devices, [1], "{writes}");
        check(&mut served, &model, &format!("after {writes} writes"));
    }
    assert!(moved > 2, "they were moved along the ring: {moved}");
}

/// It says since when it is in use, so that a start can tell that devices were used apart.
#[test]
fn mirrors_that_were_used_apart_are_refused() {
    let mut served = one();
    served.write(0, 8, 1);
    begin(&mut served).expect("begun");
    served.run();
    served.stop();
    let mut devices = served.devices;
    let joined = superblock_of(&mut devices, NEW).joined;
    let now = superblock_of(&mut devices, OLD);
    assert!(joined != NOT_JOINED && joined > now.joined && joined <= now.generation);
    // Each is used without the other, by the same members; the last to run is the newest.
    let alone = |mut devices: Devices, away: Device, starts: u8| {
        for fill in 0..starts {
            let mut served = Served::open_without(devices, away);
            served.write(0, 8, 10 + fill);
            served.stop();
            devices = served.devices;
        }
        devices
    };
    for (first, second) in [(OLD, NEW), (NEW, OLD)] {
        let mut one = alone(devices.clone(), second, 1);
        let mut both = alone(devices.clone(), first, 3);
        both.0.insert(first, one.0.remove(&first).expect("a device"));
        let refused = both.try_assembled(&Allow::default()).err();
        assert_eq!(refused, Some(AssembleError::Disagrees(first)));
        assert_eq!(refused.and_then(|refused| refused.device()), Some(first));
    }
}

/// It is no longer written to, its failure is reported, and another one may take its place.
#[test]
fn a_new_mirror_that_fails_while_it_is_filled_is_given_up() {
    for operations in 0..6 {
        let (mut served, mut model) = (one(), BTreeMap::new());
        (0..20).for_each(|n| write(&mut served, n, &mut model));
        begin(&mut served).expect("begun");
        served.steps(operations);
        assert!(served.volume.mirror_status().is_some(), "{operations}");
        let now = served.now();
        served.volume.give_up_nvs(now, 1, Cause::Asked);
        assert_eq!(served.volume.mirror_status(), None, "{operations}");
        assert_eq!(served.volume.take_alarms(), [Alarm::MirrorFailed(1)], "{operations}");
        served.devices.0.remove(&NEW);
        write(&mut served, 21, &mut model);
        assert_eq!(served.volume.status().nvs_devices, [0]);
        assert_eq!(begin(&mut served), Ok(()), "{operations}");
        served.run();
        assert_eq!(served.volume.status().nvs_devices, [0, 1]);
        check(&mut served, &model, "after the second try");
    }
}

/// A stop does not wait for it. The new device is not in use yet, so nothing is lost without it.
#[test]
fn a_resync_may_be_ended() {
    let (mut served, mut model) = (one(), BTreeMap::new());
    (0..20).for_each(|n| write(&mut served, n, &mut model));
    begin(&mut served).expect("begun");
    served.steps(2);
    let now = served.now();
    served.volume.end_mirror(now);
    assert_eq!(served.volume.mirror_status(), None);
    assert_eq!(served.volume.take_alarms(), [Alarm::MirrorFailed(1)]);
    served.run();
    assert_eq!(served.volume.status().nvs_devices, [0]);
    served.stop();
    served.devices.0.remove(&NEW);
    check(&mut Served::open(served.devices), &model, "after the stop");
}

/// What cannot be read for the copy may be of no use: the old device stays, and the new one is
/// given up. If the old device is gone, it is that which has failed.
#[test]
fn a_copy_that_cannot_be_read_costs_the_new_mirror_and_not_the_old_device() {
    let half_full = || {
        let (mut served, mut model) = (one(), BTreeMap::new());
        (0..20).for_each(|n| write(&mut served, n, &mut model));
        begin(&mut served).expect("begun");
        (served, model)
    };
    let (mut served, model) = half_full();
    let bytes = served.devices.bytes(OLD).expect("there");
    served.unreadable = (0..bytes / SECTOR as u64).map(|n| (OLD, n * SECTOR as u64)).collect();
    served.run();
    served.unreadable.clear();
    assert_eq!(served.volume.take_alarms(), [Alarm::MirrorFailed(1)]);
    assert_eq!(served.volume.status().nvs_devices, [0]);
    check(&mut served, &model, "the new mirror was given up");
    let (mut served, _) = half_full();
    served.devices.0.remove(&OLD);
    served.run();
    let alarms = served.volume.take_alarms();
    assert!(alarms.iter().any(|alarm| matches!(alarm, Alarm::NvsLost { .. })), "{alarms:?}");
    assert_eq!(served.volume.status().nvs_devices, []);
}

/// While the superblocks are written that name it, no other mirror is begun.
#[test]
fn no_mirror_is_begun_while_another_one_is_being_named() {
    let joining = || {
        let mut served = one();
        served.write(0, 8, 1);
        begin(&mut served).expect("begun");
        served.run_until(u64::MAX, Volume::mirror_joins_now);
        assert!(served.volume.mirror_joins_now());
        served
    };
    let mut served = joining();
    assert_eq!(begin(&mut served), Err(MirrorRefusal::Running));
    // Whoever waits for the end of the resync would take the other device away too early.
    let resync = served.volume.mirror_status().expect("it has not ended");
    assert_eq!(resync.bytes, resync.of);
    served.run();
    assert_eq!(served.volume.mirror_status(), None);
    assert_eq!(begin(&mut served), Err(MirrorRefusal::Mirrored));
    // Both fail: there is no log any more that could be copied.
    let mut served = joining();
    for copy in [0, 1] {
        let now = served.now();
        served.volume.give_up_nvs(now, copy, Cause::Asked);
    }
    assert_eq!(begin(&mut served), Err(MirrorRefusal::NoLog));
}

/// The last NVS device fails. Before the members are written, all of them must say so: otherwise
/// the device could come back, and count with what it has of these rows.
#[test]
fn nothing_is_destaged_before_the_loss_of_the_nvs_is_recorded() {
    let mut served = one();
    // Complete stripes, which need no reads.
    served.write(0, 64, 1);
    served.write(64, 64, 2);
    served.seen = Some(Vec::new());
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    assert!(served.volume.is_changing());
    served.run();
    let seen = served.seen.take().expect("operations");
    let data = |(_, device, kind): &&(bool, Device, OpKind)| {
        let write = matches!(kind, OpKind::Write { offset, .. } if *offset >= 1 << 20);
        write && matches!(device, Device::Member(_))
    };
    assert!(seen.iter().filter(data).count() >= 3, "it was destaged");
    assert!(seen.iter().filter(data).all(|(changing, ..)| !changing), "too early");
    let superblocks = seen.iter().filter(|(changing, ..)| *changing).count();
    assert!(superblocks >= 6, "both copies on three members");
    for (at, fill) in [(0, 1), (64 * SECTOR as u64, 2)] {
        let bytes = served.ask(Command::Read { offset: at, bytes: 64 * SECTOR }, &[]);
        assert!(bytes.iter().all(|byte| *byte == fill));
    }
}
