//! What commands refuse, and what a volume says of itself.

mod common;

use common::{Devices, SECTOR, Served, opened, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::limits::Limits;
use destage_engine::units::{Duration, Instant, PAGE_BYTES};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{DATA_START, NOT_JOINED, REBUILDS_MAX, Role};
use destage_served::{
    Alarm, Allow, AssembleError, Cause, Command, Device, Media, MirrorRefusal, OpKind,
    ReplaceRefusal, ScrubRefusal, Settings, Volume, member_bytes, prepare_spare, read_superblock,
};
use std::collections::BTreeMap;

const NEW: [u8; 16] = [0x77; 16];
/// After all that the served volume did.
const LATER: Instant = Instant(1 << 40);

/// An array with one NVS device or two, as a clean stop left it.
fn served(nvs: u16) -> Served {
    Served::open(Devices::from_text(match nvs {
        1 => include_str!("golden/version-4-blocks-512-nvs-1-stop.txt"),
        _ => include_str!("golden/version-4-blocks-512-nvs-2-stop.txt"),
    }))
}

#[test]
fn a_new_mirror_must_fit_and_come_to_a_log_with_one_device() {
    let add = |served: &mut Served, copy, bytes, block_bytes| {
        served.volume.add_mirror(LATER, copy, NEW, bytes, block_bytes)
    };
    let mut mirrored = served(2);
    assert_eq!(add(&mut mirrored, 1, u64::MAX, 512), Err(MirrorRefusal::Mirrored));
    let mut one = served(1);
    assert_eq!(add(&mut one, 0, u64::MAX, 512), Err(MirrorRefusal::Mirrored));
    assert_eq!(add(&mut one, 2, u64::MAX, 512), Err(MirrorRefusal::Mirrored));
    let Err(MirrorRefusal::TooSmall(needs)) = add(&mut one, 1, 0, 512) else {
        panic!("an empty device");
    };
    let bytes = one.devices.bytes(Device::Nvs(0)).expect("there");
    assert!(needs > bytes / 2 && needs <= bytes, "{needs} of {bytes}");
    assert_eq!(add(&mut one, 1, needs - 1, 512), Err(MirrorRefusal::TooSmall(needs)));
    assert_eq!(add(&mut one, 1, needs, 1024), Err(MirrorRefusal::Blocks(512)));
    assert_eq!(one.volume.mirror_status(), None);
    assert_eq!(add(&mut one, 1, needs, 512), Ok(()));
    assert_eq!(add(&mut one, 1, needs, 512), Err(MirrorRefusal::Running));
    one.volume.halt();
    assert_eq!(add(&mut one, 1, needs, 512), Err(MirrorRefusal::Stopped));
}

#[test]
fn only_a_failed_member_is_replaced_by_a_device_that_is_large_enough() {
    let mut served = served(1);
    let volume = &mut served.volume;
    let needs = member_bytes(volume.controller().geometry());
    assert_eq!(Ok(needs), served.devices.bytes(Device::Member(2)), "what the others have");
    assert_eq!(volume.may_replace(3, needs), Err(ReplaceRefusal::NoMember));
    assert_eq!(volume.may_replace(2, needs), Err(ReplaceRefusal::InUse));
    assert!(volume.survives_without(2) && volume.wants_spare().is_none());
    volume.give_up_member(2, Cause::Asked);
    assert!(!volume.survives_without(1), "one more is too many");
    assert_eq!(volume.may_replace(2, needs - 1), Err(ReplaceRefusal::TooSmall(needs)));
    assert_eq!(volume.may_replace(1, needs), Err(ReplaceRefusal::InUse));
    assert_eq!(volume.replace(LATER, 2, NEW, needs), Ok(()));
    assert_eq!(volume.may_replace(2, needs), Err(ReplaceRefusal::Running));
    assert_eq!(volume.wants_spare(), None);
    let status = volume.rebuild_status();
    assert_eq!(status.iter().map(|rebuild| rebuild.member).collect::<Vec<_>>(), [2]);
    assert_eq!(volume.start_scrub(LATER, false), Err(ScrubRefusal::Rebuilding));
    volume.halt();
    assert_eq!(volume.may_replace(2, needs), Err(ReplaceRefusal::Stopped));
}

/// A spare that fails is forgotten, and the next one takes its place.
#[test]
fn a_spare_that_fails_makes_room_for_another() {
    // The failure of the member is recorded first, then the superblocks name the spare.
    for (recorded, running) in [(false, false), (true, false), (true, true)] {
        let mut served = served(1);
        let needs = member_bytes(served.volume.controller().geometry());
        served.volume.give_up_member(2, Cause::Asked);
        if recorded {
            served.run();
        }
        served.devices.0.insert(Device::Member(2), (needs, BTreeMap::new()));
        let now = served.now();
        assert_eq!(served.volume.replace(now, 2, NEW, needs), Ok(()));
        if running {
            served.run_until(u64::MAX, |volume| {
                volume.superblock().rebuilt_onto(2) == Some(NEW) && !volume.is_changing()
            });
        }
        assert_eq!(served.volume.is_changing(), !running);
        served.volume.take_alarms();
        served.volume.give_up_member(2, Cause::Asked);
        assert_eq!(served.volume.take_alarms(), [Alarm::RebuildStopped(2, Cause::Asked)]);
        served.run();
        assert_eq!(
            (served.volume.rebuild_status(), served.volume.wants_spare()),
            (vec![], Some(2))
        );
        assert_eq!(served.volume.superblock().rebuilt_onto(2), None);
        for device in [0, 1].map(Device::Member) {
            let said = read_superblock(&mut served.devices, device).expect("a superblock");
            assert!(said.confirmed && said.superblock.rebuilt_onto(2).is_none(), "{device}");
        }
        let now = served.now();
        assert_eq!(served.volume.replace(now, 2, [0x78; 16], needs), Ok(()));
        served.run();
        assert_eq!(served.volume.take_alarms(), [Alarm::MemberRebuilt(2)]);
        assert!(!served.volume.superblock().has_failed(2));
    }
}

/// The failure of a member is recorded before the superblocks name a device in its place.
#[test]
fn a_spare_is_wanted_and_named_when_the_failure_is_recorded() {
    let mut served = served(1);
    served.volume.give_up_member(2, Cause::Asked);
    assert!(served.volume.is_changing());
    assert_eq!(served.volume.wants_spare(), None);
    let needs = member_bytes(served.volume.controller().geometry());
    let mut later = Served::open_as(served.devices.clone(), &Allow::degraded());
    served.devices.0.insert(Device::Member(2), (needs, BTreeMap::new()));
    let now = served.now();
    assert_eq!(served.volume.replace(now, 2, NEW, needs), Ok(()));
    let failed = served.volume.superblock();
    assert!(failed.has_failed(2) && failed.rebuilt_onto(2).is_none());
    served.run_until(u64::MAX, |volume| volume.superblock().rebuilt_onto(2) == Some(NEW));
    assert_eq!(served.volume.superblock().generation, failed.generation + 1);
    for device in [0, 1].map(Device::Member) {
        let said = read_superblock(&mut served.devices, device).expect("a superblock");
        assert!(said.confirmed && said.superblock.has_failed(2), "{device}");
        assert_eq!(said.superblock.generation, failed.generation, "{device}");
    }
    // Of an array that has stopped, nothing is rebuilt.
    later.volume.give_up_member(2, Cause::Asked);
    later.run();
    assert_eq!(later.volume.wants_spare(), Some(2));
    later.volume.halt();
    assert_eq!(later.volume.wants_spare(), None);
}

/// Pairs of which each has lost a disk.
#[test]
fn no_more_than_eight_members_are_rebuilt_at_once() {
    let (level, strip_pages, group_stripes) = (Level::Raid10, 4, 1);
    let geometry = Geometry { level, disks: 18, strip_pages, group_stripes, disk_pages: 64 };
    let mut served = Served::open(Devices::created(geometry, Sizes::for_pages(24, 512), 512, 0));
    let needs = member_bytes(served.volume.controller().geometry());
    let failed: Vec<u16> = (0..9).map(|pair| 2 * pair).collect();
    failed.iter().for_each(|member| served.volume.give_up_member(*member, Cause::Asked));
    served.run();
    for member in &failed[..8] {
        assert_eq!(served.volume.may_replace(*member, needs), Ok(()));
        let device = [0x70 + *member as u8; 16];
        assert_eq!(served.volume.replace(LATER, *member, device, needs), Ok(()));
    }
    assert_eq!(served.volume.may_replace(16, needs), Err(ReplaceRefusal::TooMany));
    assert_eq!(served.volume.may_replace(14, needs), Err(ReplaceRefusal::Running));
    assert_eq!(served.volume.wants_spare(), None);
}

/// What a device has behind its checkpoint was never its member's.
#[test]
fn a_device_that_was_rebuilt_in_part_is_not_used_as_an_older_member() {
    let mut served = served(1);
    let needs = member_bytes(served.volume.controller().geometry());
    served.volume.give_up_member(2, Cause::Asked);
    served.run();
    served.devices.0.insert(Device::Member(2), (needs, BTreeMap::new()));
    let now = served.now();
    assert_eq!(served.volume.replace(now, 2, NEW, needs), Ok(()));
    served.run_until(u64::MAX, |volume| {
        volume.superblock().rebuilt_onto(2) == Some(NEW) && !volume.is_changing()
    });
    let mut devices = served.devices;
    let older = Allow { stale: vec![Device::Member(2)], degraded: true, ..Allow::default() };
    let resumed = devices.assembled(&older);
    assert_eq!((resumed.rebuilds.len(), &resumed.failed[..]), (1, &[2][..]), "it is rebuilt on");
    // A start without it forgets how far it is.
    let spare = devices.0.remove(&Device::Member(2)).expect("there");
    let all: Vec<Device> = (0..3).map(Device::Member).chain([Device::Nvs(0)]).collect();
    let without = devices.assembled_of(&all, &Allow::degraded()).expect("an array");
    let volume = opened(&mut devices, &without, &settings()).expect("it opens");
    let mut served = Served::of(devices, volume);
    served.run();
    served.devices.0.insert(Device::Member(2), spare);
    let refused = served.devices.try_assembled(&older).err();
    assert_eq!(refused, Some(AssembleError::RebuiltInPart(Device::Member(2))));
    let without = served.devices.assembled(&Allow::degraded());
    assert_eq!((without.rebuilds.len(), &without.failed[..]), (0, &[2][..]));
}

/// How long a rebuild takes with these limits, set as it starts or later.
fn rebuild_time(limits: Limits, at_the_start: bool) -> u64 {
    let mut devices = served(1).devices;
    let rebuild = if at_the_start { limits } else { Limits::default() };
    let assembly = devices.assembled(&Allow::default());
    let volume = opened(&mut devices, &assembly, &Settings { rebuild, ..settings() });
    let mut served = Served::of(devices, volume.expect("it opens"));
    served.run();
    if !at_the_start {
        served.volume.set_rebuild_limits(limits);
    }
    let needs = member_bytes(served.volume.controller().geometry());
    served.volume.give_up_member(2, Cause::Asked);
    served.run();
    served.devices.0.insert(Device::Member(2), (needs, BTreeMap::new()));
    let began = served.now();
    assert_eq!(served.volume.replace(began, 2, NEW, needs), Ok(()));
    served.run_until(u64::MAX, |volume| volume.rebuild_status().is_empty());
    assert!(!served.volume.superblock().has_failed(2));
    served.now().since(began).0
}

/// With a share of a fifth a rebuild waits four times as long as it works.
#[test]
fn a_rebuild_takes_no_more_than_its_share_of_the_time() {
    let time_with = |share_permille: u64| {
        let limits = Limits { share_permille, depth: 1, window_pages: 1, ..Limits::default() };
        rebuild_time(limits, false)
    };
    // The time in which it does not work.
    let pauses = |share| time_with(share) as f64 - time_with(1000) as f64;
    let half = pauses(500);
    for (share, times) in [(200, 3.5..4.5), (50, 16.0..22.0)] {
        let ratio = pauses(share) / half;
        assert!(times.contains(&ratio), "{share} permille: {ratio} times as long as with half");
    }
}

#[test]
fn the_limits_of_a_start_are_those_of_its_rebuilds() {
    let limits = Limits { share_permille: 50, depth: 1, window_pages: 1, ..Limits::default() };
    let limited = rebuild_time(limits, true);
    assert_eq!(limited, rebuild_time(limits, false));
    assert!(limited > 4 * rebuild_time(Limits::default(), true), "{limited}");
}

/// A crash takes back no more of a rebuild than the time between two checkpoints allows.
#[test]
fn a_rebuild_that_a_crash_interrupts_continues_from_its_checkpoint() {
    let mut served = served(1);
    served.volume.give_up_member(2, Cause::Asked);
    served.run();
    let mut devices = served.devices;
    let assembly = devices.assembled(&Allow::degraded());
    let often = Settings { checkpoint_every: Duration(1), ..settings() };
    let volume = opened(&mut devices, &assembly, &often).expect("it opens");
    let mut served = Served::of(devices, volume);
    served.run();
    let limits = Limits { depth: 1, window_pages: 1, ..Limits::default() };
    served.volume.set_rebuild_limits(limits);
    let needs = member_bytes(served.volume.controller().geometry());
    served.devices.0.insert(Device::Member(2), (needs, BTreeMap::new()));
    let began = served.now();
    assert_eq!(served.volume.replace(began, 2, NEW, needs), Ok(()));
    let far = |volume: &Volume| {
        let rebuilds = volume.rebuild_status();
        rebuilds.first().is_some_and(|rebuild| rebuild.checkpoint >= 8)
    };
    served.run_until(u64::MAX, far);
    assert!(far(&served.volume), "its checkpoints are recorded while it runs");
    // The next start finds it as current as the others.
    for start in 0..3 {
        let assembly = served.devices.assembled(&Allow::degraded());
        let volume = opened(&mut served.devices, &assembly, &settings()).expect("it opens");
        let rebuilds = volume.rebuild_status();
        assert_eq!(rebuilds.len(), 1, "start {start}");
        assert!(rebuilds[0].progress.done_pages >= 2, "start {start}: {rebuilds:?}");
    }
}

/// Each refusal says why in words of its own.
#[test]
fn refusals_of_a_scrub_say_why() {
    for (refusal, word) in [
        (ScrubRefusal::NothingToCompare, "no redundancy"),
        (ScrubRefusal::Degraded, "degraded"),
        (ScrubRefusal::Rebuilding, "rebuilt"),
        (ScrubRefusal::Running, "running"),
        (ScrubRefusal::Stopped, "stopped"),
    ] {
        assert!(refusal.to_string().contains(word), "{refusal}");
    }
}

#[test]
fn a_scrub_needs_every_member_and_runs_once() {
    let mut running = served(1);
    assert!(!running.volume.scrub_running() && running.volume.scrub_status().is_none());
    assert_eq!(running.volume.start_scrub(LATER, false), Ok(()));
    assert!(running.volume.scrub_running() && running.volume.scrub_waits());
    assert_eq!(running.volume.start_scrub(LATER, false), Err(ScrubRefusal::Running));
    running.volume.halt();
    assert!(!running.volume.scrub_running() && !running.volume.scrub_waits());
    let status = running.volume.scrub_status().expect("one was begun");
    assert!(!status.running && !status.whole, "{status:?}");
    assert_eq!(running.volume.start_scrub(LATER, false), Err(ScrubRefusal::Stopped));
    let mut degraded = served(1);
    degraded.volume.give_up_member(0, Cause::Asked);
    assert_eq!(degraded.volume.start_scrub(LATER, false), Err(ScrubRefusal::Degraded));
}

#[test]
fn a_scrub_says_how_much_it_read() {
    let mut served = served(1);
    let status = served.scrub(false);
    assert!(status.whole && status.rows_done == status.rows && status.rows > 0, "{status:?}");
    let disks = u64::from(served.volume.controller().geometry().disks);
    assert_eq!(status.bytes_read, status.rows * disks * PAGE_BYTES);
}

/// A page that a member could not read is written again, and flushed before the scrub is over.
#[test]
fn a_scrub_flushes_what_it_wrote() {
    let mut served = served(1);
    served.flush_cache();
    served.unreadable = vec![(Device::Member(1), DATA_START + 3 * PAGE_BYTES)];
    served.seen = Some(Vec::new());
    let status = served.scrub(false);
    assert_eq!((status.unreadable_rows, status.repaired_rows, status.whole), (1, 1, true));
    let seen = served.seen.take().expect("seen");
    let on_members = |device: Device| matches!(device, Device::Member(_));
    let seen = seen.into_iter().filter(|(_, device, _)| on_members(*device));
    let written = seen.filter(|(_, _, kind)| !matches!(kind, OpKind::Read { .. }));
    let flushed = written.map(|(_, device, kind)| (device, matches!(kind, OpKind::Flush)));
    let expected = [false, true].map(|flush| (Device::Member(1), flush));
    assert_eq!(flushed.collect::<Vec<_>>(), expected);
}

/// A spare is of the array, and nothing of it is in use.
#[test]
fn a_spare_says_what_it_is() {
    let mut served = served(1);
    let mut array = served.volume.superblock();
    (array.lost_pages, array.doubted_rows) = (true, true);
    (array.joined, array.base_identity) = (3, 77);
    array.mark(1, true);
    assert!(array.set_rebuild(1, Some([9; 16])));
    prepare_spare(&mut served.devices, Device::Member(2), &array, NEW).expect("written");
    let said = read_superblock(&mut served.devices, Device::Member(2)).expect("a superblock");
    let spare = said.superblock;
    assert_eq!((spare.role, spare.device, spare.array), (Role::Spare, NEW, array.array));
    assert_eq!((spare.generation, spare.base, spare.nvs), (0, 0, [None; 2]));
    assert_eq!((spare.base_identity, spare.joined), (0, NOT_JOINED));
    assert_eq!(spare.rebuilds, [None; REBUILDS_MAX]);
    assert!(!spare.lost_pages && !spare.doubted_rows && !spare.has_failed(1));
    assert!(said.confirmed && said.damaged == [false; 2]);
    assert_ne!(array.device, NEW);
}

#[test]
fn a_volume_says_what_it_did() {
    let mut served = served(1);
    let dirty = served.volume.status().dirty_pages;
    assert!(dirty > 0 && !served.volume.drained());
    assert_eq!(served.volume.recent_destages(), (Vec::new(), 0));
    // Pages 20 to 23 are dirty.
    assert_eq!(served.volume.dirty_in(20, 22), [(20, 2)]);
    assert_eq!(served.volume.dirty_in(22, 32), [(22, 2)]);
    served.flush_cache();
    let (pages, count) = served.volume.recent_destages();
    assert_eq!(pages.len() as u64, count);
    assert!(count > 1 && pages.iter().any(|page| (20..24).contains(page)), "{pages:?}");
    assert!(served.volume.drained() && served.volume.idle() && served.volume.ready());
    assert_eq!(served.volume.dirty_in(0, 32), []);
    let written = served.volume.load(Device::Member(0));
    assert!(written.written_bytes >= PAGE_BYTES, "{written:?}");
    assert!(written.written_bytes.is_multiple_of(SECTOR as u64), "{written:?}");
    // Another volume continues its counts.
    let assembly = served.devices.assembled(&Allow::default());
    let mut next = opened(&mut served.devices, &assembly, &settings()).expect("it opens");
    let (own, before) = (next.status().log_bytes_written, served.volume.status().log_bytes_written);
    assert!(before > 0);
    next.count_from(&served.volume);
    assert_eq!(next.status().log_bytes_written, own + before);
    assert_eq!(next.recent_destages(), (pages, count));
    assert_eq!(next.load(Device::Member(0)).written_bytes, written.written_bytes);
}

#[test]
fn refusals_of_a_replacement_say_why() {
    for (refusal, word) in [
        (ReplaceRefusal::NoRedundancy, "no redundancy"),
        (ReplaceRefusal::NoMember, "no such member"),
        (ReplaceRefusal::InUse, "in use"),
        (ReplaceRefusal::Running, "is being rebuilt"),
        (ReplaceRefusal::TooMany, "8 members are being rebuilt"),
        (ReplaceRefusal::Stopped, "stopped"),
        (ReplaceRefusal::TooSmall(4096), "needs 4096 bytes"),
    ] {
        assert!(refusal.to_string().contains(word), "{refusal}");
    }
}

#[test]
fn a_volume_says_what_is_in_flight() {
    let mut served = served(1);
    served.flush_cache();
    let before = served.volume.status();
    assert_eq!((before.requests, before.operations, before.waiting_for), (0, 0, None));
    assert!(!served.volume.take_spent().is_empty(), "buffers of what was destaged");
    assert!(served.volume.take_spent().is_empty(), "they were taken");
    let now = served.now();
    let read = Command::Read { offset: 20 * PAGE_BYTES, bytes: PAGE_BYTES as usize };
    served.volume.submit(now, 7, read, &[]);
    served.volume.turn(Instant(now.0 + 500));
    let status = served.volume.status();
    assert_eq!((status.requests, status.operations), (1, 1));
    let (device, waited) = status.waiting_for.expect("a read of a member");
    assert_eq!((waited, served.volume.load(device).in_flight), (500, 1));
    assert!(!served.volume.idle() && !served.volume.quiet());
    served.run();
    assert!(served.volume.idle() && served.volume.quiet());
    assert_eq!(served.volume.load(device).in_flight, 0);
}

/// With few dirty pages a range of any length is looked at quickly.
#[test]
fn a_volume_says_over_how_many_pages_it_finds_the_dirty_ones_quickly() {
    let (level, strip_pages, group_stripes) = (Level::Raid0, 16, 1);
    let geometry = Geometry { level, disks: 2, strip_pages, group_stripes, disk_pages: 4096 };
    let sizes = Sizes::for_pages(8192, 512);
    let mut served = Served::open(Devices::created(geometry, sizes, 512, 1));
    for (first, pages, looks_at) in [(0, 4096, 1_u64 << 48), (4096, 1, 4096)] {
        let (offset, bytes) = (first * PAGE_BYTES, pages * PAGE_BYTES);
        served.ask(Command::Zero { offset, bytes, fua: false }, &[]);
        assert_eq!(served.volume.status().dirty_pages, first + pages);
        assert_eq!(served.volume.looks_at(), looks_at);
    }
}

/// A client may announce any byte, of the volume or not.
#[test]
fn what_comes_soon_may_be_beyond_the_end() {
    let served = served(1);
    let end = served.volume.bytes();
    [0, end - 1, end, u64::MAX].into_iter().for_each(|offset| served.volume.soon(offset));
}

/// With the cache off, nothing that is answered is dirty.
#[test]
fn with_the_cache_off_writes_are_answered_when_the_disks_have_them() {
    let mut served = served(1);
    served.flush_cache();
    for off in [true, false] {
        let now = served.now();
        served.volume.write_through(now, off);
        served.write(40, 8, 9);
        assert_eq!(served.volume.dirty_in(5, 6).is_empty(), off);
    }
}

#[test]
fn a_level_without_redundancy_rebuilds_nothing() {
    let (level, strip_pages, group_stripes) = (Level::Raid0, 4, 1);
    let geometry = Geometry { level, disks: 2, strip_pages, group_stripes, disk_pages: 64 };
    let served = Served::open(Devices::created(geometry, Sizes::for_pages(24, 512), 512, 1));
    let needs = member_bytes(served.volume.controller().geometry());
    assert_eq!(served.volume.may_replace(0, needs), Err(ReplaceRefusal::NoRedundancy));
}

#[test]
fn a_stripe_memory_is_as_large_as_the_settings_say() {
    for (stripe_memory, expected) in [(0, None), (40, Some(40))] {
        let mut devices = served(1).devices;
        let assembly = devices.assembled(&Allow::default());
        let settings = Settings { stripe_memory, ..settings() };
        let volume = opened(&mut devices, &assembly, &settings).expect("it opens");
        assert_eq!(volume.status().stripe_memory.map(|memory| memory.pages), expected);
    }
}
