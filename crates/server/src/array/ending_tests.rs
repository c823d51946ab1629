//! Ends of servers whose devices are memory, at simulated times: where a destage cannot be
//! computed, and where the NVS was deleted.

use super::*;
use crate::array::tests::config;
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::{DiskId, PAGE_BYTES, Page};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{
    Allow, Buffer, Command, Creation, Found, IoError, Media, Op, OpKind, Reply, assemble, create,
    member_bytes, open, read_superblock,
};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
const PAGE: usize = PAGE_BYTES as usize;

/// Devices in memory.
#[derive(Clone, Default)]
struct Devices(BTreeMap<Device, Vec<u8>>);

impl Devices {
    fn part(&mut self, device: Device, at: u64, bytes: usize) -> Result<&mut [u8], IoError> {
        let device = self.0.get_mut(&device).ok_or(IoError::GONE)?;
        device.get_mut(at as usize..at as usize + bytes).ok_or(IoError::SHORT)
    }

    fn found(&mut self) -> Vec<Found> {
        let all: Vec<Device> = self.0.keys().copied().collect();
        all.into_iter().map(|device| (device, read_superblock(self, device))).collect()
    }
}

impl Media for Devices {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        self.0.get(&device).map(|bytes| bytes.len() as u64).ok_or(IoError::GONE)
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.part(device, offset, into.len()).map(|bytes| into.copy_from_slice(bytes))
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.part(device, offset, bytes.len()).map(|part| part.copy_from_slice(bytes))
    }

    fn flush(&mut self, _device: Device) -> Result<(), IoError> {
        Ok(())
    }
}

/// A served array, of which every operation takes the same time.
struct Served {
    setup: Setup,
    devices: Devices,
    volume: Volume,
    watch: DeviceWatch,
    alarms: Alarms,
    /// What is in flight, and when it is done.
    flights: Vec<(u64, Op)>,
    /// Nanoseconds.
    takes: u64,
    now: u64,
    /// Bytes that cannot be read.
    unreadable: Vec<(Device, u64)>,
    _folder: tempfile::TempDir,
}

impl Served {
    /// Level 5 over three members, with strips of one page.
    fn new(nvs: u16) -> Served {
        let (level, strip_pages, group_stripes, disk_pages) = (Level::Raid5, 1, 1, 32);
        let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages };
        let sizes = Sizes::for_pages(40, 512);
        let creation = Creation {
            geometry: geometry.checked().expect("an array"),
            block_bytes: 512,
            sizes,
            array: [1; 16],
            log: [2; 16],
            members: (10..13).map(|n| [n; 16]).collect(),
            nvs: (20..20 + nvs as u8).map(|n| [n; 16]).collect(),
        };
        let members = (0..3).map(|n| (Device::Member(n), member_bytes(&geometry)));
        let logs = (0..nvs).map(|n| (Device::Nvs(n), sizes.bytes(512)));
        let all = members.chain(logs).map(|(device, bytes)| (device, vec![0; bytes as usize]));
        let mut devices = Devices(all.collect());
        create(&mut devices, &creation).expect("created");
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = config(folder.path());
        config.nvs.truncate(usize::from(nvs));
        let assembly = assemble(&devices.found(), &Allow::default()).expect("an array");
        let settings = config.settings().expect("settings");
        let volume = open(&mut devices, &assembly, settings).expect("a volume");
        Served {
            setup: Setup::new("tank", config),
            devices,
            volume,
            watch: DeviceWatch::default(),
            alarms: Alarms::new("tank"),
            flights: Vec::new(),
            takes: 1000,
            now: 0,
            unreadable: Vec::new(),
            _folder: folder,
        }
    }

    fn carry_out(&mut self, device: Device, kind: OpKind) -> Result<Option<Buffer>, IoError> {
        match kind {
            OpKind::Read { offset, bytes } => {
                let all = offset..offset + bytes as u64;
                let bad = |(of, at): &(Device, u64)| *of == device && all.contains(at);
                if self.unreadable.iter().any(bad) {
                    return Err(IoError::MEDIUM);
                }
                let mut buffer = Buffer::zeroed(bytes);
                self.devices.read(device, offset, &mut buffer).map(|()| Some(buffer))
            }
            OpKind::Write { offset, buffer, .. } => {
                self.devices.write(device, offset, &buffer).map(|()| None)
            }
            OpKind::Flush => Ok(None),
        }
    }

    /// Until this time.
    fn run(&mut self, until: u64) {
        loop {
            self.volume.turn(Instant(self.now));
            let mut ops = Vec::new();
            self.volume.take_ops(&mut ops);
            let done = self.now + self.takes;
            self.flights.extend(ops.into_iter().map(|op| (done, op)));
            let next = self.flights.iter().map(|(at, _)| *at).min();
            let deadline = self.volume.deadline().map(|at| at.0.max(self.now + 1));
            let at = [next, deadline].into_iter().flatten().min();
            let Some(at) = at.filter(|at| *at <= until) else { break };
            self.now = at;
            while let Some(place) = self.flights.iter().position(|(done, _)| *done <= at) {
                let (_, Op { id, device, kind }) = self.flights.remove(place);
                let result = self.carry_out(device, kind);
                self.volume.done(Instant(at), id, result);
            }
        }
        self.now = until;
    }

    /// Ends, within this time: the time that it took.
    fn ends(&mut self, ending: &mut Ending, most: u64) -> Option<u64> {
        let began = self.now;
        ending.begin(Instant(self.now), &mut self.volume);
        while self.now - began <= most {
            self.run(self.now + LOOK.0);
            let Served { setup, volume, watch, alarms, now, .. } = self;
            ending.look(Instant(*now), Around { setup, volume, watch, alarms });
            if ending.is_over() {
                return Some(self.now - began);
            }
        }
        None
    }

    /// Writes a page, and whether that is acknowledged.
    fn write(&mut self, page: u64) -> bool {
        let command = Command::Write { offset: page * PAGE_BYTES, fua: false };
        self.volume.submit(Instant(self.now), page, command, &[1; PAGE]);
        self.run(self.now + SECOND);
        let mut replies: Vec<Reply> = Vec::new();
        self.volume.take_replies(&mut replies);
        replies.pop().is_some_and(|reply| reply.result.is_ok())
    }

    /// Fails member 0, and makes a page that it shares a row with unreadable: a write of it cannot
    /// be destaged. Returns the page.
    fn make_uncomputable(&mut self) -> u64 {
        let geometry = *self.volume.controller().geometry();
        let of = |page: u64| geometry.place(Page(page));
        let page = (0..).step_by(2).find(|page| of(page + 1).disk == DiskId(0)).expect("a page");
        let place = (Device::Member(of(page).disk.0), DATA_START + of(page).page * PAGE_BYTES);
        self.unreadable.push(place);
        self.volume.give_up_member(0, Cause::Asked);
        self.run(self.now + SECOND);
        page
    }
}

/// A destage that cannot be computed is tried again every 5 s: that is not progress.
#[test]
fn a_server_ends_where_a_destage_that_only_memory_has_cannot_be_computed() {
    for nvs in [0, 1] {
        let mut served = Served::new(nvs);
        let page = served.make_uncomputable();
        let mut ending = Ending::default();
        assert_eq!(served.write(page), nvs > 0, "the NVS has it");
        if nvs > 0 {
            ending.note_deleted(&Watched::Nvs(0));
        }
        served.takes = SECOND / 4;
        let took = served.ends(&mut ending, 600 * SECOND);
        let stall = u64::from(served.setup.config().stall_seconds) * SECOND;
        assert!(took.is_some_and(|took| (stall..stall + 20 * SECOND).contains(&took)), "{took:?}");
        assert_eq!(served.volume.status().dirty_pages, 1);
        let result = ending.result(&served.setup, &served.volume, false);
        assert_eq!(result.is_err(), nvs > 0, "{result:?}");
    }
}

/// Disks that need 8 s for each operation have the pages after a longer time than no progress may
/// take.
#[test]
fn a_server_waits_for_slow_disks_to_take_what_only_memory_has() {
    let mut served = Served::new(1);
    assert!((0..8).all(|page| served.write(page)));
    assert_eq!(served.volume.status().dirty_pages, 8);
    served.volume.give_up_nvs(Instant(served.now), 0, Cause::Asked);
    served.takes = 8 * SECOND;
    let took = served.ends(&mut Ending::default(), 3600 * SECOND);
    assert!(took.is_some_and(|took| took > 40 * SECOND), "{took:?}");
    assert_eq!(served.volume.status().dirty_pages, 0);
}

/// The deleted NVS is given up in the end, and the marks of the stop are written again after that.
#[test]
fn a_clean_end_without_the_deleted_nvs_leaves_no_doubt_of_rows() {
    let mut served = Served::new(1);
    assert!((0..8).all(|page| served.write(page)));
    let mut ending = Ending::default();
    ending.note_deleted(&Watched::Nvs(0));
    assert!(served.ends(&mut ending, 60 * SECOND).is_some());
    assert_eq!(served.volume.status().dirty_pages, 0);
    served.devices.0.remove(&Device::Nvs(0));
    let assembly = assemble(&served.devices.found(), &Allow::default()).expect("an array");
    assert!(!assembly.superblock.doubted_rows, "all that was written is on the disks");
}
