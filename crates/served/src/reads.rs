//! A read in progress: pages that are in memory, dirty or cached, are taken when the request
//! comes, the others are read from the disks, those of failed disks through their rows. Of a page
//! that was written in part the dirty sectors go over what was read.

use crate::Buffer;
use crate::pages::{SECTOR, copy_sectors};
use crate::request::{Answer, HostId};
use crate::rows::Pieces;
use crate::store::PAGE;
use destage_engine::array::geometry::Geometry;
use destage_engine::units::Page;

/// What a read is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadFor {
    /// A request of the host.
    Host(HostId),
    /// Writes to parts of sectors of this page.
    Partial {
        /// The page.
        page: u64,
        /// Which of its completions: a read may outlive the one that it was made for.
        number: u64,
    },
}

/// What memory has of a page.
#[derive(Clone, Copy, Default)]
pub(crate) struct InMemory<'a> {
    /// All of the page, as it is on the disks or newer: not read from there.
    pub(crate) page: Option<WholePage<'a>>,
    /// Dirty sectors, which go over that or over what the disks have: bytes, and which of them.
    pub(crate) sectors: Option<(&'a [u8], u8)>,
    /// Version of the write that made it dirty.
    pub(crate) version: u64,
}

/// A page that need not be read from the disks.
#[derive(Clone, Copy)]
pub(crate) enum WholePage<'a> {
    /// It is dirty, or in the read cache.
    Bytes(&'a [u8]),
    /// It was trimmed, and the engine has not forgotten it yet: it reads as zeros.
    Zeros,
}

/// A read of whole pages.
pub(crate) struct ReadOp {
    purpose: ReadFor,
    first: u64,
    buffer: Buffer,
    /// By page: whether the buffer has it.
    have: Vec<bool>,
    /// What is wanted of the buffer: first byte, and bytes.
    from: usize,
    bytes: usize,
    /// Newest write that it shows.
    version: u64,
    /// Dirty sectors of pages that are otherwise read from the disks: page, sectors, bytes.
    dirty: Vec<(u64, u8, Vec<u8>)>,
    /// What was read from the disks for it.
    pub(crate) pieces: Pieces,
}

impl ReadOp {
    /// A read of these pages, of which the bytes from `from` on are wanted.
    pub(crate) fn new(purpose: ReadFor, first: u64, pages: u64, from: usize, bytes: usize) -> Self {
        let buffer = Buffer::zeroed(pages as usize * PAGE);
        let have = vec![false; pages as usize];
        let (pieces, dirty) = (Pieces::default(), Vec::new());
        ReadOp { purpose, first, buffer, have, from, bytes, version: 0, dirty, pieces }
    }

    /// A read of nothing.
    pub(crate) fn empty() -> ReadOp {
        ReadOp::new(ReadFor::Partial { page: 0, number: 0 }, 0, 0, 0, 0)
    }

    pub(crate) fn purpose(&self) -> ReadFor {
        self.purpose
    }

    pub(crate) fn pages(&self) -> core::ops::Range<u64> {
        self.first..self.first + self.have.len() as u64
    }

    /// Newest write that it shows.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Takes what is in memory now, and forgets dirty sectors that it took before.
    pub(crate) fn take_held<'a>(&mut self, find: impl Fn(u64) -> InMemory<'a>) {
        self.dirty.clear();
        let pages = (self.first..).zip(&mut self.have).zip(self.buffer.chunks_exact_mut(PAGE));
        for ((page, have), into) in pages.filter(|((_, have), _)| !**have) {
            let found = find(page);
            *have = found.page.is_some();
            if let Some(WholePage::Bytes(bytes)) = found.page {
                into.copy_from_slice(bytes);
            }
            match found.sectors {
                Some((bytes, sectors)) if *have => copy_sectors(bytes, sectors, into),
                Some((bytes, sectors)) => self.dirty.push((page, sectors, bytes.to_vec())),
                None => {}
            }
            self.version = self.version.max(found.version);
        }
    }

    /// These pages will not be read from the disks: those that it lacks are zeros.
    pub(crate) fn skip(&mut self, skipped: impl Fn(u64) -> bool) {
        for (page, have) in (self.first..).zip(&mut self.have) {
            *have |= skipped(page);
        }
    }

    /// Gives it the bytes of a page, unless it has them.
    pub(crate) fn fill(&mut self, page: u64, bytes: &[u8]) {
        let at = (page - self.first) as usize;
        if !core::mem::replace(&mut self.have[at], true) {
            self.buffer[at * PAGE..(at + 1) * PAGE].copy_from_slice(bytes);
        }
    }

    /// The engine starts it again: what was read for it is of no use.
    pub(crate) fn restart(&mut self) {
        self.pieces = Pieces::default();
    }

    /// Puts together the pages that were read from the disks; whether all that is wanted could be
    /// had.
    pub(crate) fn complete(&mut self, geometry: &Geometry) -> bool {
        let pages = (self.first..).zip(&mut self.have).zip(self.buffer.chunks_exact_mut(PAGE));
        for ((page, have), into) in pages.filter(|((_, have), _)| !**have) {
            if let Some(bytes) = self.pieces.of_volume(geometry, Page(page)) {
                into.copy_from_slice(&bytes);
                *have = true;
            }
        }
        self.complete_from_memory()
    }

    /// Puts dirty sectors over their pages; whether all that is wanted is there.
    fn complete_from_memory(&mut self) -> bool {
        for (page, sectors, bytes) in &self.dirty {
            let at = (page - self.first) as usize;
            copy_sectors(bytes, *sectors, &mut self.buffer[at * PAGE..(at + 1) * PAGE]);
            self.have[at] |= self.wanted(at) & !sectors == 0;
        }
        self.have.iter().all(|have| *have)
    }

    /// The sectors that are wanted of a page, by its place in the buffer.
    fn wanted(&self, at: usize) -> u8 {
        let sectors = self.from / SECTOR..(self.from + self.bytes).div_ceil(SECTOR);
        let is_wanted = |sector: &usize| sectors.contains(&(at * (PAGE / SECTOR) + sector));
        (0..PAGE / SECTOR).filter(is_wanted).fold(0, |mask, sector| mask | 1 << sector)
    }

    /// The bytes of its pages.
    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// The answer to the host.
    pub(crate) fn into_answer(self) -> Answer {
        Answer::Data { buffer: self.buffer, from: self.from, bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::OpId;
    use destage_engine::array::geometry::Level;
    use destage_engine::units::DiskId;

    fn dirty(bytes: &[u8], version: u64) -> InMemory<'_> {
        InMemory { page: Some(WholePage::Bytes(bytes)), sectors: None, version }
    }

    #[test]
    fn the_first_and_the_last_page_of_a_read_may_be_wanted_in_part() {
        let read =
            |from, bytes| ReadOp::new(ReadFor::Partial { page: 5, number: 0 }, 5, 3, from, bytes);
        let wanted = |read: &ReadOp| [0, 1, 2].map(|at| read.wanted(at));
        assert_eq!(wanted(&read(5 * SECTOR, 2 * PAGE)), [0b1110_0000, 0xff, 0b0001_1111]);
        assert_eq!(wanted(&read(5 * SECTOR + 1, 2 * PAGE)), [0b1110_0000, 0xff, 0b0011_1111]);
        assert_eq!(wanted(&read(PAGE, SECTOR)), [0, 1, 0]);
    }

    #[test]
    fn pages_in_memory_are_taken_once_and_the_newest_version_is_kept() {
        let mut read = ReadOp::new(ReadFor::Host(HostId(1)), 4, 4, 0, 4 * PAGE);
        let (old, new) = (vec![1; PAGE], vec![2; PAGE]);
        let in_part = vec![3; PAGE];
        read.take_held(|page| match page {
            // It is cached, and its first sector is dirty.
            4 => InMemory { sectors: Some((&in_part, 1)), ..dirty(&old, 9) },
            5 => dirty(&old, 0),
            _ => InMemory::default(),
        });
        read.take_held(|page| if page == 7 { InMemory::default() } else { dirty(&new, 12) });
        read.skip(|page| page == 7);
        assert_eq!((read.version(), read.pages()), (12, 4..8));
        let firsts: Vec<u8> = read.buffer.chunks_exact(PAGE).map(|page| page[0]).collect();
        assert_eq!(firsts, [3, 1, 2, 0]);
        assert_eq!(read.buffer[SECTOR], 1);
        assert_eq!(read.have, [true; 4], "and one is not to be read");
    }

    /// Dirty sectors go over what the disks have; alone they do if nothing else is wanted.
    #[test]
    fn dirty_sectors_go_over_the_rest_of_their_page() {
        let geometry = Geometry {
            level: Level::Raid0,
            disks: 2,
            strip_pages: 4,
            group_stripes: 1,
            disk_pages: 8,
        };
        let part = vec![3; PAGE];
        let sectors = |_| InMemory { sectors: Some((&part, 0b110)), version: 5, page: None };
        let mut read = ReadOp::new(ReadFor::Host(HostId(1)), 1, 1, 0, PAGE);
        read.take_held(sectors);
        read.pieces.add(DiskId(0), 1, OpId(0), Buffer::copy_of(&[8; PAGE]));
        assert!(read.complete(&geometry));
        let firsts: Vec<u8> = read.buffer.chunks_exact(SECTOR).map(|sector| sector[0]).collect();
        assert_eq!((firsts, read.version()), (vec![8, 3, 3, 8, 8, 8, 8, 8], 5));
        let mut two = ReadOp::new(ReadFor::Host(HostId(1)), 1, 2, 0, 2 * PAGE);
        two.take_held(|page| if page == 2 { sectors(page) } else { InMemory::default() });
        two.pieces.add(DiskId(0), 1, OpId(0), Buffer::copy_of(&[8; 2 * PAGE]));
        assert!(two.complete(&geometry));
        let firsts: Vec<u8> = two.buffer.chunks_exact(SECTOR).map(|sector| sector[0]).collect();
        assert_eq!(firsts, [8, 8, 8, 8, 8, 8, 8, 8, 8, 3, 3, 8, 8, 8, 8, 8], "of the second");
        let mut enough = ReadOp::new(ReadFor::Host(HostId(1)), 1, 1, SECTOR, 2 * SECTOR);
        enough.take_held(sectors);
        assert!(enough.complete(&geometry), "the disk cannot be read");
        let mut too_much = ReadOp::new(ReadFor::Host(HostId(1)), 1, 1, 0, 2 * SECTOR);
        too_much.take_held(sectors);
        assert!(!too_much.complete(&geometry));
        let mut behind = ReadOp::new(ReadFor::Host(HostId(1)), 1, 1, SECTOR, 3 * SECTOR);
        behind.take_held(sectors);
        assert!(!behind.complete(&geometry));
        let mut again = ReadOp::new(ReadFor::Host(HostId(1)), 1, 1, 0, PAGE);
        again.pieces.add(DiskId(0), 1, OpId(0), Buffer::copy_of(&[8; PAGE]));
        again.restart();
        assert!(!again.complete(&geometry), "what was read before is of no use");
    }

    #[test]
    fn a_page_is_filled_where_it_belongs_and_once() {
        let mut read = ReadOp::new(ReadFor::Host(HostId(1)), 4, 3, 0, 3 * PAGE);
        read.fill(6, &[7; PAGE]);
        read.fill(6, &[8; PAGE]);
        read.fill(4, &[5; PAGE]);
        let ends: Vec<[u8; 2]> =
            read.buffer.chunks_exact(PAGE).map(|page| [page[0], page[PAGE - 1]]).collect();
        assert_eq!(ends, [[5, 5], [0, 0], [7, 7]]);
        assert_eq!(read.have, [true, false, true]);
    }
}
