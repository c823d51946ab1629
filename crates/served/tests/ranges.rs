//! What becomes of the pages of a write, of zeros and of a trim: the parts that the engine gets,
//! the bytes that the log gets, and what the NVS has of each page then.

mod common;

use common::{Devices, SECTOR, Served};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, PAGE_BYTES, Page};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Command, Device, OpKind, Refusal};

/// Pages of the volume that are looked at.
const LOOKED_AT: usize = 64;
const PAGE: usize = PAGE_BYTES as usize;

/// An array of one disk, with an NVS of 40 pages.
fn array() -> Served {
    let (level, strip_pages, group_stripes) = (Level::Single, 4, 1);
    let geometry = Geometry { level, disks: 1, strip_pages, group_stripes, disk_pages: 256 };
    let served = Served::open(Devices::created(geometry, Sizes::for_pages(40, 512), 512, 1));
    assert_eq!(served.volume.status().nvs_pages, 40);
    served
}

/// Fills the first pages with this byte, and the disk has it.
fn fill(served: &mut Served, byte: u8) {
    served.write(0, LOOKED_AT * PAGE / SECTOR, byte);
    served.flush_cache();
    assert!(served.volume.drained());
}

fn read_all(served: &mut Served) -> Vec<u8> {
    served.ask(Command::Read { offset: 0, bytes: LOOKED_AT * PAGE }, &[])
}

/// What a request added: requests of the engine, pages of these, and pages whose bytes the log got.
fn added(served: &mut Served, command: Command, payload: &[u8]) -> (u64, u64, u64) {
    let before = served.volume.status().counters;
    served.seen = Some(Vec::new());
    served.ask(command, payload);
    let after = served.volume.status().counters;
    // The ring has the records, and the slots behind it have the pages.
    let slots = DATA_START + Sizes::for_pages(40, 512).ring_blocks * SECTOR as u64;
    let mut bytes = 0;
    for (_, device, kind) in served.seen.take().expect("operations") {
        if let (Device::Nvs(_), OpKind::Write { offset, buffer, .. }) = (device, kind) {
            bytes += if offset >= slots { buffer.len() as u64 } else { 0 };
        }
    }
    (
        after.write_requests - before.write_requests,
        after.pages_written - before.pages_written,
        bytes / PAGE_BYTES,
    )
}

/// A part has at most a quarter of the pages of the NVS, and ends where a page does.
#[test]
fn a_large_write_is_given_to_the_engine_in_parts() {
    let mut served = array();
    for (first, sectors, expected) in [
        (160, 80, (1, 10, 10)),
        (160, 81, (2, 11, 11)),
        (161, 80, (2, 11, 11)),
        (160, 200, (3, 25, 25)),
        (161, 200, (3, 26, 26)),
    ] {
        fill(&mut served, 1);
        let write = Command::Write { offset: first * SECTOR as u64, fua: false };
        let payload = vec![2; sectors * SECTOR];
        assert_eq!(added(&mut served, write, &payload), expected, "{first}, {sectors}");
        let mut bytes = vec![1; LOOKED_AT * PAGE];
        bytes[first as usize * SECTOR..][..payload.len()].copy_from_slice(&payload);
        assert!(read_all(&mut served) == bytes, "{first}, {sectors}");
    }
}

/// Complete pages become zeros without bytes in the log, a quarter of the NVS at a time. Where the
/// range begins or ends within a page, a short one is a write.
#[test]
fn zeros_are_logged_as_bytes_only_where_they_begin_or_end_within_a_page() {
    let mut served = array();
    for (first, sectors, expected) in [
        (160, 40, (1, 5, 0)),
        (160, 80, (1, 10, 0)),
        (160, 200, (3, 25, 0)),
        (162, 3, (1, 1, 1)),
        (160, 25, (1, 4, 4)),
        (161, 64, (1, 9, 9)),
        (161, 79, (1, 10, 10)),
        (161, 87, (2, 11, 1)),
        (161, 88, (3, 12, 2)),
        (160, 89, (3, 12, 1)),
    ] {
        fill(&mut served, 1);
        let (offset, bytes) = (first * SECTOR as u64, sectors * SECTOR as u64);
        let zeros = Command::Zero { offset, bytes, fua: false };
        assert_eq!(added(&mut served, zeros, &[]), expected, "{first}, {sectors}");
        let mut now = vec![1; LOOKED_AT * PAGE];
        now[offset as usize..(offset + bytes) as usize].fill(0);
        assert!(read_all(&mut served) == now, "{first}, {sectors}");
    }
}

#[test]
fn a_trim_drops_the_dirty_pages_that_are_completely_in_it() {
    let mut served = array();
    fill(&mut served, 1);
    served.write(160, 80, 2);
    assert_eq!(served.volume.dirty_in(0, LOOKED_AT as u64), [(20, 10)]);
    let sectors = |first: u64, sectors: u64| Command::Trim {
        offset: first * SECTOR as u64,
        bytes: sectors * SECTOR as u64,
        fua: false,
    };
    served.ask(sectors(161, 72), &[]);
    assert_eq!(served.volume.dirty_in(0, LOOKED_AT as u64), [(20, 1), (29, 1)]);
    assert_eq!(served.volume.status().dirty_pages, 2);
    let bytes = read_all(&mut served);
    assert!(bytes[20 * PAGE..21 * PAGE] == [2; PAGE] && bytes[29 * PAGE..30 * PAGE] == [2; PAGE]);
    assert!(bytes[..20 * PAGE].iter().chain(&bytes[30 * PAGE..]).all(|byte| *byte == 1));
    served.ask(sectors(160, 80), &[]);
    assert_eq!(served.volume.status().dirty_pages, 0);
    served.flush_cache();
    assert!(served.volume.drained() && served.volume.idle());
}

/// The first and the last page of a write may be there in part; what is there in part is read from
/// the disk for the rest.
#[test]
fn the_engine_knows_of_which_pages_the_nvs_has_only_some_sectors() {
    let mut served = array();
    for (first, sectors, in_part) in [
        (160, 8, None),
        (162, 3, Some((20, 20))),
        (160, 16, None),
        (164, 8, Some((20, 21))),
        (164, 12, Some((20, 20))),
        (160, 12, Some((21, 21))),
        (164, 20, Some((20, 20))),
        (160, 20, Some((22, 22))),
    ] {
        fill(&mut served, 1);
        served.write(first, sectors, 2);
        let pages = (first + sectors as u64).div_ceil(8) - 20;
        let directory = served.volume.controller().directory();
        let missing = directory.missing_span(Page(20), pages as u32);
        let expected = in_part.map(|(first, last)| (Page(first), Page(last)));
        assert_eq!(missing, expected, "{first}, {sectors}");
    }
    // The rest of a page comes later.
    fill(&mut served, 1);
    for (first, sectors, in_part) in [(160, 4, true), (166, 2, true), (164, 2, false)] {
        served.write(first, sectors, 2);
        let missing = served.volume.controller().directory().missing_span(Page(20), 1);
        assert_eq!(missing.is_some(), in_part, "{first}, {sectors}");
    }
}

/// Carries out a request; the pages of the volume that are read from the disk for it.
fn pages_read(served: &mut Served, command: Command, payload: &[u8]) -> Vec<u64> {
    served.seen = Some(Vec::new());
    served.ask(command, payload);
    let geometry = *served.volume.controller().geometry();
    let mut pages = Vec::new();
    for (_, device, kind) in served.seen.take().expect("operations") {
        if let (Device::Member(member), OpKind::Read { offset, bytes }) = (device, kind) {
            let first = (offset - DATA_START) / PAGE_BYTES;
            for page in first..first + bytes as u64 / PAGE_BYTES {
                let page = geometry.page_at(DiskPage { disk: DiskId(member), page });
                pages.push(page.expect("a page of the volume").0);
            }
        }
    }
    pages.sort_unstable();
    pages
}

/// First byte of page 20.
const BEGIN: usize = 20 * PAGE;
/// Writes: their first byte from there, their bytes, and the pages of which they need the rest.
const WRITES: [(usize, usize, &[u64]); 10] = [
    (100, 100, &[20]),
    (0, 100, &[20]),
    (100, 412, &[20]),
    (0, PAGE - 1, &[20]),
    (1, PAGE - 1, &[20]),
    (0, PAGE + 1, &[21]),
    (1, 2 * PAGE - 1, &[20]),
    (SECTOR, PAGE - SECTOR + 3, &[21]),
    (100, 2 * PAGE, &[20, 22]),
    (SECTOR, 3 * PAGE - SECTOR - 1, &[22]),
];

/// A sector of which only a part is written needs the rest of it.
#[test]
fn a_write_reads_the_pages_in_which_it_begins_or_ends_inside_a_sector() {
    let mut served = array();
    for (skip, bytes, read) in WRITES {
        fill(&mut served, 1);
        let offset = BEGIN + skip;
        let write = Command::Write { offset: offset as u64, fua: false };
        assert_eq!(pages_read(&mut served, write, &vec![2; bytes]), read, "{skip}, {bytes}");
        let mut expected = vec![1; LOOKED_AT * PAGE];
        expected[offset..offset + bytes].fill(2);
        assert!(read_all(&mut served) == expected, "{skip}, {bytes}");
        // Memory has these pages now.
        let again = pages_read(&mut served, write, &vec![3; bytes]);
        assert_eq!(again, [0; 0], "{skip}, {bytes}");
        expected[offset..offset + bytes].fill(3);
        assert!(read_all(&mut served) == expected, "{skip}, {bytes}");
    }
    // Of this page only some sectors are in memory.
    fill(&mut served, 1);
    served.write(162, 3, 4);
    let write = Command::Write { offset: BEGIN as u64 + 100, fua: false };
    assert_eq!(pages_read(&mut served, write, &[5; 100]), [20]);
    let mut expected = vec![1; LOOKED_AT * PAGE];
    expected[BEGIN + 2 * SECTOR..BEGIN + 5 * SECTOR].fill(4);
    expected[BEGIN + 100..BEGIN + 200].fill(5);
    assert!(read_all(&mut served) == expected);
}

/// While a write waits for the rest of a sector, others write the same page: what the read brings
/// is older.
#[test]
fn what_is_written_while_a_page_is_read_for_another_write_stays() {
    let sector = BEGIN + 3 * SECTOR;
    let page = BEGIN..BEGIN + PAGE;
    let offset = |range: &std::ops::Range<usize>| range.start as u64;
    let within = sector..sector + SECTOR;
    let zeros = Command::Zero { offset: offset(&page), bytes: PAGE_BYTES, fua: false };
    for (other, range, fill_of) in [
        (Command::Write { offset: offset(&within), fua: false }, within, 3),
        (Command::Write { offset: offset(&page), fua: false }, page.clone(), 3),
        (zeros, page, 0),
    ] {
        let mut served = array();
        fill(&mut served, 1);
        let now = served.now();
        let write = Command::Write { offset: BEGIN as u64 + 100, fua: false };
        served.volume.submit(now, 1, write, &[2; 100]);
        let payload = match other {
            Command::Write { .. } => vec![3; range.len()],
            _ => Vec::new(),
        };
        served.volume.submit(now, 2, other, &payload);
        served.run();
        let mut replies = Vec::new();
        served.volume.take_replies(&mut replies);
        let mut done: Vec<(u64, bool)> =
            replies.iter().map(|reply| (reply.ticket, reply.result.is_ok())).collect();
        done.sort_unstable();
        assert_eq!(done, [(1, true), (2, true)]);
        let mut expected = vec![1; LOOKED_AT * PAGE];
        expected[range].fill(fill_of);
        expected[BEGIN + 100..BEGIN + 200].fill(2);
        assert!(read_all(&mut served) == expected, "{other:?}");
    }
}

#[test]
fn a_request_may_end_where_the_volume_does_and_not_behind_it() {
    let mut served = array();
    let end = served.volume.bytes();
    assert_eq!(end, 256 * PAGE_BYTES);
    let requests = |offset: u64, bytes: u64| {
        [
            (Command::Read { offset, bytes: bytes as usize }, 0, false),
            (Command::Write { offset, fua: false }, bytes as usize, true),
            (Command::Zero { offset, bytes, fua: false }, 0, true),
            (Command::Trim { offset, bytes, fua: false }, 0, true),
        ]
    };
    let sector = SECTOR as u64;
    for (offset, bytes) in [(end - sector, sector + 1), (end, 1), (0, end + 1), (u64::MAX, 1)] {
        for (command, payload, writes) in requests(offset, bytes) {
            let now = served.now();
            served.volume.submit(now, 7, command, &vec![9; payload]);
            assert_eq!(served.answer(), Some(Err(Refusal::BeyondEnd { writes })), "{command:?}");
        }
    }
    for (offset, bytes) in [(end - sector, sector), (end, 0)] {
        for (command, payload, _) in requests(offset, bytes) {
            served.ask(command, &vec![9; payload]);
        }
    }
}
