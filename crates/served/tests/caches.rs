//! What a start writes goes into caches that lose it when the power fails: what must be flushed
//! before something else is written (docs/durability.md, "Steps" and "Marks").

mod common;

use common::{Devices, PAGES, SECTOR, Served, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::flushes::Durability;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Allow, Command, Device, IoError, Media, Op, OpKind, Settings};

const N: Device = Device::Nvs(0);
/// First bytes of the two copies of a superblock, and of the anchors.
const SUPERBLOCKS: [u64; 2] = [0, 12_288];
const ANCHORS: [u64; 2] = [4096, 8192];

fn array() -> Devices {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 2, 2);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: PAGES / 2 };
    Devices::created(geometry, Sizes::for_pages(24, 512), 512, 1)
}

/// A write of these bytes from this one on, or a flush.
type Step = (Device, Option<(u64, Vec<u8>)>);

/// Devices whose writes and flushes are noted.
struct Noted<'a> {
    devices: &'a mut Devices,
    steps: Vec<Step>,
}

impl Media for Noted<'_> {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        self.devices.bytes(device)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.devices.read(device, offset, into)
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.steps.push((device, Some((offset, bytes.to_vec()))));
        self.devices.write(device, offset, bytes)
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.steps.push((device, None));
        self.devices.flush(device)
    }
}

/// The writes and flushes of a start.
fn start(mut devices: Devices, allow: &Allow) -> Vec<Step> {
    let assembly = devices.assembled(allow);
    let mut media = Noted { devices: &mut devices, steps: Vec::new() };
    destage_served::open(&mut media, &assembly, settings()).expect("it opens");
    media.steps
}

/// The devices when these steps are done.
fn after<'a>(devices: &Devices, steps: impl IntoIterator<Item = &'a Step>) -> Devices {
    let mut devices = devices.clone();
    for (device, written) in steps {
        let Some((offset, bytes)) = written else { continue };
        devices.write(*device, *offset, bytes).expect("written");
    }
    devices
}

/// The writes that are not flushed when some steps are done.
fn unflushed(steps: &[Step]) -> Vec<&Step> {
    let mut cached: Vec<&Step> = Vec::new();
    for step in steps {
        match step.1 {
            Some(_) => cached.push(step),
            None => cached.retain(|write| write.0 != step.0),
        }
    }
    cached
}

/// How often a device is written here, and whether the other place is in a cache then: of this
/// device, or of any.
fn written_here(steps: &[Step], here: u64, other: u64, any_device: bool) -> (usize, bool) {
    let is = |step: &Step, at: u64| step.1.as_ref().is_some_and(|(offset, _)| *offset == at);
    let (mut times, mut cached) = (0, false);
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| is(step, here)) {
        times += 1;
        let in_cache = unflushed(&steps[..index]);
        cached |= in_cache.iter().any(|w| is(w, other) && (any_device || w.0 == step.0));
    }
    (times, cached)
}

/// Byte-addressable memory may tear all that is not flushed.
#[test]
fn a_start_writes_the_second_anchor_when_the_first_is_flushed() {
    // A start after one that wrote nothing else takes its place, and writes the anchors.
    let devices = Served::open(array()).devices;
    let steps = start(devices, &Allow::default());
    assert_eq!(written_here(&steps, ANCHORS[1], ANCHORS[0], false), (1, false));
}

/// What a killed server has written may be in the caches (D15).
#[test]
fn a_start_flushes_all_devices_before_it_writes_a_superblock() {
    let devices = Served::open(array()).devices;
    let steps = start(devices.clone(), &Allow::default());
    let is_mark = |step: &Step| step.1.as_ref().is_some_and(|(at, _)| SUPERBLOCKS.contains(at));
    let first = steps.iter().position(is_mark).expect("it marks them");
    let flushed = |device: &Device| steps[..first].contains(&(*device, None));
    assert!(devices.0.keys().all(flushed), "{:?}", &steps[..first]);
}

/// A copy of a superblock is damaged, or a crash left a device without its second one.
#[test]
fn a_start_writes_new_superblocks_when_what_it_repaired_is_flushed() {
    let before = Served::open(array()).devices;
    let steps = start(before.clone(), &Allow::default());
    let crashed = (0..=steps.len()).map(|count| after(&before, &steps[..count]));
    let mut rotten = before.clone();
    rotten.write(Device::Member(1), SUPERBLOCKS[1], &[7; SECTOR]).expect("there");
    let mut repaired = 0;
    for devices in crashed.chain([rotten]) {
        let steps = start(devices, &Allow::default());
        let (times, cached) = written_here(&steps, SUPERBLOCKS[0], SUPERBLOCKS[1], true);
        assert!(times == 4 && !cached, "{times}");
        repaired += written_here(&steps, SUPERBLOCKS[1], 0, false).0 - 4;
    }
    assert!(repaired > 4, "{repaired}");
}

/// The power fails when a start has given up a page, before that is flushed. The release is there,
/// and what is before it in the log must be there, too.
#[test]
fn what_is_given_up_is_logged_when_the_epoch_is_open() {
    let mut served = Served::open(array());
    served.write(0, 8, 5);
    let mut devices = served.devices;
    let (_, sectors) = devices.0.get_mut(&N).expect("an NVS device");
    sectors.values_mut().find(|bytes| **bytes == [5; SECTOR]).expect("a slot")[7] ^= 1;
    let accepted = Allow { stale: vec![N], ..Allow::default() };
    let steps = start(devices.clone(), &accepted);
    let in_ring = |step: &Step| step.1.as_ref().is_some_and(|(offset, _)| *offset >= DATA_START);
    let release = steps.iter().rposition(in_ring).expect("the release");
    let lost = unflushed(&steps[..release]);
    let kept = steps[..=release].iter().filter(|step| !lost.contains(step));
    let served = Served::open(after(&devices, kept));
    assert_eq!(served.volume.status().dirty_pages, 0);
}

/// A destage is released when its members' caches are flushed; at once where the driver says that
/// a member, another device by now, has none.
#[test]
fn a_destage_waits_for_a_flush_where_the_driver_says_so() {
    for (how, drained) in [(Durability::Flush, false), (Durability::Off, true)] {
        let mut served = Served::open(array());
        (0..3).for_each(|member| served.volume.set_durability(member, how));
        served.no_flush = Some(Device::Member(0));
        served.write(0, 32, 5);
        let now = served.now();
        served.volume.flush_cache(now);
        served.run_until(now.0 + 1_000_000_000, |_| false);
        assert_eq!(served.volume.drained(), drained, "{how:?}");
    }
}

/// Others may join a flush for as long as the last one took. The array says when that is over: it
/// may have nothing else to do.
#[test]
fn a_delayed_flush_comes_though_nothing_else_does() {
    let mut served = Served::open(array());
    (0..3).for_each(|member| served.volume.set_durability(member, Durability::Epochs));
    let flush = |op: &Op| matches!((op.device, &op.kind), (Device::Member(_), OpKind::Flush));
    let flush_cache = |served: &mut Served| {
        let now = served.now();
        served.volume.flush_cache(now);
    };
    (0..4).for_each(|stripe| served.write(32 * stripe, 32, 5));
    flush_cache(&mut served);
    assert!(served.steps_until(flush));
    served.clock += 140_000_000;
    served.steps(3);
    let (now, write) = (served.now(), Command::Write { offset: 0, fua: false });
    served.volume.submit(now, 1, write, &[6; 32 * SECTOR]);
    flush_cache(&mut served);
    served.run();
    assert!(served.volume.drained());
}

/// The settings are those of the devices in use. What takes the place of a member that is away may
/// have a volatile cache.
#[test]
fn of_a_member_that_is_away_no_start_knows_how_it_becomes_durable() {
    let mut devices = Served::open(array()).devices;
    devices.0.remove(&Device::Member(2));
    let all: Vec<Device> = (0..3).map(Device::Member).chain([N]).collect();
    let assembly = devices.assembled_of(&all, &Allow::degraded()).expect("an array");
    let durability = vec![Durability::Off, Durability::Fua, Durability::Off];
    let settings = Settings { durability, ..settings() };
    let volume = destage_served::open(&mut devices, &assembly, settings).expect("it opens");
    let known = [0, 1, 2].map(|member| volume.durability(member));
    assert_eq!(known, [Durability::Off, Durability::Fua, Durability::Epochs]);
}
