//! Two copies of a page that may differ, after a run without an NVS log was interrupted: reads
//! show one of them only, until all rows are repaired (docs/durability.md, "Scrub").

mod common;

use common::{Devices, PAGES, Served};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Alarm, Allow, Answer, Cause, Command, Defect, Device, Media, NewLog, OpKind};

const SECTORS: usize = (PAGES * 8) as usize;

fn array(nvs: u16) -> Devices {
    let geometry = Geometry {
        level: Level::Raid10,
        disks: 4,
        strip_pages: 2,
        group_stripes: 2,
        disk_pages: PAGES / 2,
    };
    Devices::created(geometry, Sizes::for_pages(24, 512), 512, nvs)
}

/// The second copies are not what the first ones are, as after a write of which they had no part.
fn tear(devices: &mut Devices) {
    for member in [1, 3] {
        let bytes = vec![2; (PAGES / 2 * PAGE_BYTES) as usize];
        devices.write(Device::Member(member), DATA_START, &bytes).expect("there");
    }
}

/// Reads of all pages that wait for each other, each filled with one byte; and the members read.
fn read_at_once(served: &mut Served) -> (Vec<u8>, Vec<u16>) {
    let now = served.now();
    served.seen = Some(Vec::new());
    for page in 0..PAGES {
        let command = Command::Read { offset: page * PAGE_BYTES, bytes: PAGE_BYTES as usize };
        served.volume.submit(now, page, command, &[]);
    }
    served.run();
    let mut replies = Vec::new();
    served.volume.take_replies(&mut replies);
    let fill = |answer: Answer| match answer {
        Answer::Data { buffer, from, bytes } => {
            assert!(buffer[from..from + bytes].iter().all(|byte| *byte == buffer[from]));
            buffer[from]
        }
        Answer::Done => panic!("no bytes"),
    };
    let fills = replies.into_iter().map(|reply| fill(reply.result.expect("served"))).collect();
    let mut members = Vec::new();
    for (_, device, kind) in served.seen.take().expect("seen") {
        if let (Device::Member(member), OpKind::Read { .. }) = (device, kind) {
            members.push(member);
        }
    }
    members.sort_unstable();
    members.dedup();
    (fills, members)
}

fn alarms(served: &mut Served) -> Vec<&'static str> {
    served.volume.take_alarms().iter().map(Alarm::name).collect()
}

fn repair(served: &mut Served) {
    let now = served.now();
    served.volume.start_scrub(now, true).expect("begun");
    served.volume.allow_scrub(now, u64::MAX);
    served.run();
}

#[test]
fn copies_that_may_differ_are_read_from_one_side_until_a_repair() {
    let mut served = Served::open(array(0));
    served.write(0, SECTORS, 1);
    assert!(!served.volume.status().rows_doubted, "nothing was interrupted yet");
    assert_eq!(read_at_once(&mut served).1, [0, 1, 2, 3], "both copies are read");
    // The power fails.
    tear(&mut served.devices);
    let mut served = Served::open(served.devices);
    assert_eq!(alarms(&mut served), ["rows-doubted"]);
    for _ in 0..3 {
        let (fills, members) = read_at_once(&mut served);
        assert_eq!((fills, members), (vec![1; PAGES as usize], vec![0, 2]));
    }
    // And again: it is remembered, also by a clean stop.
    let mut served = Served::open(served.devices);
    served.stop();
    let mut served = Served::open(served.devices);
    assert!(served.volume.status().rows_doubted);
    assert_eq!(read_at_once(&mut served).0, vec![1; PAGES as usize]);
    repair(&mut served);
    assert!(!served.volume.status().rows_doubted);
    assert_eq!(alarms(&mut served), ["rows-doubted", "rows-repaired"]);
    let (fills, members) = read_at_once(&mut served);
    assert_eq!((fills, members), (vec![1; PAGES as usize], vec![0, 1, 2, 3]));
    // A stop leaves nothing in doubt; a failure of power after the repair does.
    let mut killed = Served::open(served.devices.clone());
    assert!(killed.volume.status().rows_doubted);
    assert_eq!(alarms(&mut killed), ["rows-doubted"]);
    served.stop();
    let stopped = Served::open(served.devices);
    assert!(!stopped.volume.status().rows_doubted);
    // So does one after a failure that was recorded after the repair.
    repair(&mut killed);
    assert!(!killed.volume.status().rows_doubted);
    killed.volume.give_up_member(1, Cause::Asked);
    killed.run();
    let degraded = Served::open_as(killed.devices, &Allow::degraded());
    assert!(degraded.volume.status().rows_doubted);
}

/// What it has read is repaired. It has not read all.
#[test]
fn a_repair_that_is_ended_early_leaves_the_rows_in_doubt() {
    let mut served = Served::open(array(0));
    served.write(0, SECTORS, 1);
    tear(&mut served.devices);
    let mut served = Served::open(served.devices);
    alarms(&mut served);
    let now = served.now();
    served.volume.start_scrub(now, true).expect("begun");
    served.volume.allow_scrub(now, PAGE_BYTES);
    served.volume.stop_scrub(now);
    served.run();
    let scrub = served.volume.scrub_status().expect("a scrub");
    assert!(!scrub.running && scrub.repaired_rows > 0 && scrub.rows_left() == 0, "{scrub:?}");
    assert!(!scrub.whole && scrub.rows_done < scrub.rows, "{scrub:?}");
    assert!(served.volume.status().rows_doubted);
    assert_eq!(alarms(&mut served), [""; 0]);
    assert!(Served::open(served.devices).volume.status().rows_doubted);
}

#[test]
fn with_a_log_no_copies_differ_until_it_is_lost() {
    let mut served = Served::open(array(1));
    served.write(0, SECTORS, 1);
    let served = Served::open(served.devices);
    assert!(!served.volume.status().rows_doubted, "the log redoes what was interrupted");
    let accepted = Allow { stale: vec![Device::Nvs(0)], ..Allow::default() };
    let accepting = Served::open_as(served.devices.clone(), &accepted);
    assert!(accepting.volume.status().rows_doubted, "of what was lost nothing is redone");
    // Where the first copy is there, the failure of the second one changes nothing.
    let mut served = Served::open(served.devices);
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    served.run();
    assert!(!served.volume.status().rows_doubted, "not interrupted yet");
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    served.devices.0.remove(&Device::Nvs(0));
    served.devices.0.remove(&Device::Member(1));
    let all: Vec<Device> = (0..4).map(Device::Member).collect();
    let assembly = served.devices.assembled_of(&all, &Allow::degraded()).expect("an array");
    let opened = common::opened(&mut served.devices, &assembly, &common::settings());
    let mut served = Served::of(served.devices, opened.expect("it opens"));
    assert!(served.volume.status().rows_doubted);
    assert_eq!(read_at_once(&mut served).1, [0, 2]);
}

/// An array without NVS gets a log: drained, it leaves nothing in doubt; doubted rows stay so.
#[test]
fn another_log_ends_no_doubt_and_begins_none() {
    let mut served = Served::open(array(0));
    served.write(0, SECTORS, 1);
    let drained = Served::open(with_log(&mut served));
    assert!(!drained.volume.status().rows_doubted);
    let mut interrupted = Served::open(served.devices);
    assert!(interrupted.volume.status().rows_doubted);
    let doubted = Served::open(with_log(&mut interrupted));
    assert!(doubted.volume.status().rows_doubted);
}

/// The devices of a drained array with a log.
fn with_log(served: &mut Served) -> Devices {
    let (mut devices, sizes) = (served.devices.clone(), Sizes::for_pages(20, 512));
    devices.0.insert(Device::Nvs(0), (sizes.bytes(512), std::collections::BTreeMap::new()));
    let members: Vec<Device> = (0..4).map(Device::Member).collect();
    let assembly = devices.assembled_of(&members, &Allow::default()).expect("an array");
    let new = NewLog {
        log: [3; 16],
        block_bytes: 512,
        sizes,
        nvs: [Some([20; 16]), None],
        rows_fit: served.volume.rows_fit(),
        defect: Defect::None,
    };
    destage_served::relog(&mut devices, &assembly, &new).expect("it gets a log");
    devices
}

/// A disk of a pair that is older is used as it is: its pages and those of the other may differ.
#[test]
fn copies_are_read_from_one_side_when_one_is_older() {
    let mut served = Served::open(array(1));
    served.write(0, SECTORS, 1);
    served.flush_cache();
    served.volume.give_up_member(1, Cause::Asked);
    served.run();
    served.write(0, SECTORS, 2);
    served.flush_cache();
    served.stop();
    let again = Allow { stale: vec![Device::Member(1)], ..Allow::default() };
    let mut served = Served::open_as(served.devices, &again);
    assert_eq!(alarms(&mut served), ["rows-doubted"]);
    let (fills, members) = read_at_once(&mut served);
    assert_eq!((fills, members), (vec![2; PAGES as usize], vec![0, 2]));
    let mut later = Served::open(served.devices);
    assert!(later.volume.status().rows_doubted, "it is remembered");
    repair(&mut later);
    assert!(!later.volume.status().rows_doubted);
    assert_eq!(read_at_once(&mut later), (vec![2; PAGES as usize], vec![0, 1, 2, 3]));
}
