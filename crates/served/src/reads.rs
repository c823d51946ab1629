//! A read in progress: pages that are in memory, dirty or cached, are taken when the request
//! comes, the others are read from the disks, those of failed disks through their rows.

use crate::Buffer;
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
    /// Writes to a part of this page.
    Partial {
        /// The page.
        page: u64,
        /// Which of its completions: a read may outlive the one that it was made for.
        number: u64,
    },
}

/// A page that need not be read from the disks.
pub(crate) enum InMemory<'a> {
    /// It is dirty: its bytes, and the version of the write.
    Dirty(&'a [u8], u64),
    /// It was trimmed, and the engine has not forgotten it yet: it reads as zeros.
    Trimmed,
    /// It is in the read cache.
    Cached(&'a [u8]),
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
    /// What was read from the disks for it.
    pub(crate) pieces: Pieces,
}

impl ReadOp {
    /// A read of these pages, of which the bytes from `from` on are wanted.
    pub(crate) fn new(purpose: ReadFor, first: u64, pages: u64, from: usize, bytes: usize) -> Self {
        let buffer = Buffer::zeroed(pages as usize * PAGE);
        let have = vec![false; pages as usize];
        let pieces = Pieces::default();
        ReadOp { purpose, first, buffer, have, from, bytes, version: 0, pieces }
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

    /// Takes the pages that are in memory now.
    pub(crate) fn take_held<'a>(&mut self, find: impl Fn(u64) -> Option<InMemory<'a>>) {
        let pages = (self.first..).zip(&mut self.have).zip(self.buffer.chunks_exact_mut(PAGE));
        for ((page, have), into) in pages.filter(|((_, have), _)| !**have) {
            let Some(found) = find(page) else { continue };
            *have = true;
            match found {
                InMemory::Dirty(bytes, version) => {
                    into.copy_from_slice(bytes);
                    self.version = self.version.max(version);
                }
                InMemory::Trimmed => {}
                InMemory::Cached(bytes) => into.copy_from_slice(bytes),
            }
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

    /// Puts together the pages that were read from the disks; whether all could be read.
    pub(crate) fn complete(&mut self, geometry: &Geometry) -> bool {
        let pages = (self.first..).zip(&mut self.have).zip(self.buffer.chunks_exact_mut(PAGE));
        for ((page, have), into) in pages.filter(|((_, have), _)| !**have) {
            if let Some(bytes) = self.pieces.of_volume(geometry, Page(page)) {
                into.copy_from_slice(&bytes);
                *have = true;
            }
        }
        self.have.iter().all(|have| *have)
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

    #[test]
    fn pages_in_memory_are_taken_once_and_the_newest_version_is_kept() {
        let mut read = ReadOp::new(ReadFor::Partial { page: 4, number: 1 }, 4, 4, 0, PAGE);
        let (old, new) = (vec![1; PAGE], vec![2; PAGE]);
        read.take_held(|page| match page {
            4 => Some(InMemory::Dirty(&old, 9)),
            5 => Some(InMemory::Cached(&old)),
            _ => None,
        });
        read.take_held(|page| (page != 7).then_some(InMemory::Dirty(&new, 12)));
        read.skip(|page| page == 7);
        assert_eq!((read.version(), read.pages()), (12, 4..8));
        let bytes = read.into_buffer();
        let firsts: Vec<u8> = bytes.chunks_exact(PAGE).map(|page| page[0]).collect();
        assert_eq!(firsts, [1, 1, 2, 0]);
    }
}
