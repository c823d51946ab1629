//! The read cache of a served volume: what it has is not read again, and what it lacks is.

mod common;

use common::{Devices, SECTOR, Served, opened, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::readcache::choose;
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::units::{PAGE_BYTES, Page};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Allow, Answer, Cause, Command, Device, OpKind, Refusal, Settings};
use std::collections::HashMap;

const PAGE: usize = PAGE_BYTES as usize;

fn cache() -> ReadCacheChoice {
    let policy = choose("lru").expect("of the table");
    ReadCacheChoice { policy, pages: 32, on_write: OnWrite::Invalidate }
}

/// An array whose first 64 pages are filled, with strips of four pages.
fn filled(level: Level, disks: u16) -> Served {
    let geometry = Geometry { level, disks, strip_pages: 4, group_stripes: 1, disk_pages: 64 };
    let mut served = Served::open(Devices::created(geometry, Sizes::for_pages(40, 512), 512, 1));
    served.write(0, 64 * PAGE / SECTOR, 1);
    served.flush_cache();
    served
}

/// The same devices in a start with a read cache.
fn with_cache(mut devices: Devices, allow: &Allow) -> Served {
    let assembly = devices.assembled(allow);
    let settings = Settings { read_cache: Some(cache()), ..settings() };
    let volume = opened(&mut devices, &assembly, &settings).expect("it opens");
    let mut served = Served::of(devices, volume);
    served.run();
    served
}

fn read_of(page: u64, pages: u64) -> Command {
    Command::Read { offset: page * PAGE_BYTES, bytes: (pages * PAGE_BYTES) as usize }
}

/// Reads a page, which is filled; how often a member is read for it.
fn member_reads(served: &mut Served, page: u64) -> usize {
    served.seen = Some(Vec::new());
    assert!(served.ask(read_of(page, 1), &[]) == [1; PAGE], "page {page}");
    let seen = served.seen.take().expect("operations");
    let reads = |kind: &OpKind| matches!(kind, OpKind::Read { .. });
    let of_member = |device: &Device| matches!(device, Device::Member(_));
    seen.iter().filter(|(_, device, kind)| of_member(device) && reads(kind)).count()
}

#[test]
fn a_read_cache_is_given_to_a_volume_and_taken_away_while_it_is_served() {
    let mut served = filled(Level::Raid5, 3);
    assert!(served.volume.read_cache().is_none());
    assert_eq!([7, 7].map(|page| member_reads(&mut served, page)), [1, 1]);
    served.volume.set_read_cache(Some(cache())).expect("valid");
    let empty = served.volume.read_cache().expect("a cache");
    assert_eq!((empty.state.held, empty.state.pages), (0, 32));
    // The map that finds pages, with a byte for each place, and what the policy takes.
    let places = HashMap::<u64, u32>::with_capacity(32).capacity() * 8 / 7;
    let map = places * (size_of::<(u64, u32)>() + 1);
    assert!(empty.state.memory_bytes > 0);
    assert_eq!(empty.memory_bytes, (map + empty.state.memory_bytes) as u64);
    assert_eq!([7, 7, 8].map(|page| member_reads(&mut served, page)), [1, 0, 1]);
    // A cache has at least one page: the old one stays.
    assert!(served.volume.set_read_cache(Some(ReadCacheChoice { pages: 0, ..cache() })).is_err());
    assert_eq!(served.volume.read_cache().expect("a cache").state.held, 2);
    assert_eq!([7, 8].map(|page| member_reads(&mut served, page)), [0, 0]);
    served.volume.set_read_cache(None).expect("valid");
    assert!(served.volume.read_cache().is_none());
    assert_eq!([7, 7].map(|page| member_reads(&mut served, page)), [1, 1]);
}

/// A page neither of whose copies can be read is not taken for a cached one.
#[test]
fn a_page_that_could_not_be_read_is_read_again() {
    let mut served = with_cache(filled(Level::Raid10, 4).devices, &Allow::default());
    let page = 5;
    let place = served.volume.controller().geometry().place(Page(page));
    let at = DATA_START + place.page * PAGE_BYTES;
    let copies = [place.disk.0, place.disk.0 ^ 1];
    served.unreadable = copies.map(|member| (Device::Member(member), at)).to_vec();
    for _ in 0..2 {
        let now = served.now();
        served.volume.submit(now, 7, read_of(page, 1), &[]);
        served.run();
        assert_eq!(served.answer(), Some(Err(Refusal::Unreadable)));
        assert_eq!(served.volume.read_cache().expect("a cache").state.held, 0);
    }
    served.unreadable.clear();
    assert_eq!(member_reads(&mut served, page), 1);
    assert_eq!(member_reads(&mut served, page), 0);
}

/// A read of a failed member's page waits for the destage of its row, and spans a page that is
/// written and trimmed in the meantime, after any step of the destage.
#[test]
fn a_read_that_waits_is_answered_though_a_page_within_it_is_trimmed() {
    let mut served = filled(Level::Raid5, 3);
    let failed = served.volume.controller().geometry().place(Page(0)).disk;
    served.volume.give_up_member(failed.0, Cause::Asked);
    served.run();
    let devices = served.devices;
    for steps in 0..24 {
        let mut served = with_cache(devices.clone(), &Allow::degraded());
        served.write(32, 8, 2);
        let now = served.now();
        served.volume.flush_cache(now);
        served.steps(steps);
        let now = served.now();
        served.volume.submit(now, 1, read_of(2, 3), &[]);
        let write = Command::Write { offset: 3 * PAGE_BYTES, fua: false };
        served.volume.submit(now, 2, write, &[5; PAGE]);
        let trim = Command::Trim { offset: 3 * PAGE_BYTES, bytes: PAGE_BYTES, fua: false };
        served.volume.submit(now, 3, trim, &[]);
        served.volume.flush_cache(now);
        served.run();
        let mut replies = Vec::new();
        served.volume.take_replies(&mut replies);
        assert_eq!(replies.len(), 3, "after {steps} steps");
        for reply in replies {
            let answer = reply.result.expect("served");
            if let Answer::Data { buffer, from, bytes } = answer {
                let pages = &buffer[from..from + bytes];
                assert!(pages[..PAGE] == [1; PAGE], "after {steps} steps");
                assert!(pages[2 * PAGE..] == [2; PAGE], "after {steps} steps");
            }
        }
    }
}
