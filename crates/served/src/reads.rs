//! Reads: pages that are in memory, dirty or clean, are taken when the request comes, the others
//! from the disks, those of lost disks by their rows.

use crate::Buffer;
use crate::io::OpKind;
use crate::memory::PAGE;
use crate::ops::Purpose;
use crate::request::{Alarm, Answer, Refusal};
use crate::rows::Pieces;
use crate::settings::Ack;
use crate::volume::{Part, Volume};
use destage_engine::event::DiskCommand;
use destage_engine::event::Event;
use destage_engine::request::{Direction, HostRequest, PageRange, RequestId};
use destage_engine::units::{PAGE_BYTES, Page};
use std::sync::Arc;

/// First byte of the data on a member.
pub(crate) use destage_nvslog::superblock::DATA_START as DATA;

/// Whom a read is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum For {
    /// A request of the host.
    Host(u64),
    /// Partial writes of this page.
    Fill {
        /// The page.
        page: u64,
        /// Which of its fills: a read may outlive the one that asked for it.
        number: u64,
    },
}

/// A read.
pub(crate) struct Read {
    purpose: For,
    first: u64,
    buffer: Buffer,
    /// By page: whether the buffer has it.
    have: Vec<bool>,
    from: usize,
    bytes: usize,
    /// Newest write that it shows.
    version: u64,
    /// The engine's number of it, if disks are read.
    index: Option<u32>,
}

impl Read {
    /// A read of nothing.
    fn none() -> Read {
        let (buffer, have) = (Buffer::zeroed(0), Vec::new());
        Read {
            purpose: For::Host(0),
            first: 0,
            buffer,
            have,
            from: 0,
            bytes: 0,
            version: 0,
            index: None,
        }
    }

    /// The engine's number of it, if disks are read.
    pub(crate) fn index(&self) -> Option<u32> {
        self.index
    }

    /// Gives it the bytes of a page that it lacks.
    pub(crate) fn fill(&mut self, page: u64, bytes: &[u8]) {
        let at = (page - self.first) as usize;
        if !core::mem::replace(&mut self.have[at], true) {
            self.buffer[at * PAGE..(at + 1) * PAGE].copy_from_slice(bytes);
        }
    }
}

/// What was read for a read of the engine.
#[derive(Default)]
pub(crate) struct DiskRead {
    pub(crate) pieces: Pieces,
}

impl Volume {
    /// A read of any bytes.
    pub(crate) fn read(&mut self, whole: u64, offset: u64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let first = offset / PAGE_BYTES;
        let end = (offset + bytes as u64).div_ceil(PAGE_BYTES);
        self.wholes.get_mut(whole).parts += 1;
        let from = (offset % PAGE_BYTES) as usize;
        self.read_pages(For::Host(whole), first, end - first, from, bytes);
    }

    /// A read of whole pages, of which `bytes` from `from` on are wanted.
    pub(crate) fn read_pages(
        &mut self,
        purpose: For,
        first: u64,
        pages: u64,
        from: usize,
        bytes: usize,
    ) {
        let buffer = Buffer::zeroed(pages as usize * PAGE);
        let have = vec![false; pages as usize];
        let mut read = Read { purpose, first, buffer, have, from, bytes, version: 0, index: None };
        self.take_held(&mut read);
        let id = RequestId(self.parts.insert(Part::Read(read)));
        let range = PageRange::new(Page(first), pages as u32);
        self.step(Event::Host(HostRequest { id, direction: Direction::Read, range }));
    }

    /// Takes the pages of a read that are in memory.
    fn take_held(&self, read: &mut Read) {
        let pages = (read.first..).zip(&mut read.have).zip(read.buffer.chunks_exact_mut(PAGE));
        for ((page, have), into) in pages.filter(|((_, have), _)| !**have) {
            if let Some(held) = self.memory.newest_copy(page) {
                into.copy_from_slice(self.memory.bytes(held));
                read.version = read.version.max(held.version);
                *have = true;
            } else if self.trimmed(Page(page)) {
                // Not yet forgotten by the engine: it reads as zeros.
                *have = true;
            } else if let Some(bytes) = self.clean.as_ref().and_then(|clean| clean.get(page)) {
                into.copy_from_slice(bytes);
                *have = true;
            }
        }
    }

    /// A read that had to wait is made now.
    pub(crate) fn read_now(&mut self, id: RequestId, missing: Option<(Page, Page)>) {
        let mut taken = Read::none();
        if let Part::Read(read) = self.parts.get_mut(id.0) {
            core::mem::swap(read, &mut taken);
        }
        self.take_held(&mut taken);
        // What is held but not in memory was trimmed; the engine may forget it in this very step.
        let read = |page: u64| missing.is_some_and(|(from, to)| (from.0..=to.0).contains(&page));
        let lacks = |page: u64| self.clean.as_ref().is_some_and(|clean| clean.lacks(page));
        for (page, have) in (taken.first..).zip(&mut taken.have) {
            *have |= !read(page) && !lacks(page);
        }
        if let Part::Read(read) = self.parts.get_mut(id.0) {
            *read = taken;
        }
    }

    /// The engine wants a disk read for a host's read, or written again what could not be read.
    pub(crate) fn read_command(&mut self, index: u32, command: &DiskCommand) {
        let id = self.controller.read_id(index);
        if let Part::Read(read) = self.parts.get_mut(id.0) {
            read.index = Some(index);
        }
        if !command.write {
            self.member_io(command, None);
            return;
        }
        let mut bytes = Buffer::zeroed(command.pages as usize * PAGE);
        let geometry = *self.controller.geometry();
        let read = self.disk_reads.entry(u64::from(index)).or_default();
        for (i, into) in bytes.chunks_exact_mut(PAGE).enumerate() {
            let page = command.first + i as u64;
            match read.pieces.page(&geometry, command.disk, page) {
                Some(found) => into.copy_from_slice(&found),
                None => {
                    // Not enough is readable: the answer will say so.
                    self.step(Event::DiskDone(command.disk, command.owner));
                    return;
                }
            }
        }
        let DiskCommand { first: page, pages, .. } = *command;
        self.alarm(Alarm::Repaired { member: command.disk.0, page, pages });
        self.member_io(command, Some(bytes));
    }

    /// Hands a command of the engine to a member.
    pub(crate) fn member_io(&mut self, command: &DiskCommand, bytes: Option<Buffer>) {
        let device = Volume::device_of(command.disk);
        if self.is_out_of_reach(command) {
            self.step(Event::DiskError(*command));
            return;
        }
        let offset = DATA + command.first * PAGE_BYTES;
        let kind = match bytes {
            Some(bytes) => OpKind::Write { offset, buffer: Arc::new(bytes), durable: false },
            None => OpKind::Read { offset, bytes: command.pages as usize * PAGE },
        };
        self.ops.push(device, Purpose::Command(*command), kind);
    }

    /// The engine has answered a read: its pages are put together.
    pub(crate) fn read_answered(&mut self, mut read: Read, error: Option<Refusal>) {
        let pieces = read.index.and_then(|index| self.disk_reads.remove(&u64::from(index)));
        let mut error = error;
        if error.is_none() {
            let read_of_disks = pieces.unwrap_or_default();
            let geometry = *self.controller.geometry();
            for (i, have) in read.have.iter().enumerate() {
                if *have {
                    continue;
                }
                let page = Page(read.first + i as u64);
                match read_of_disks.pieces.of_volume(&geometry, page) {
                    Some(bytes) => {
                        read.buffer[i * PAGE..(i + 1) * PAGE].copy_from_slice(&bytes);
                    }
                    // Too little could be read.
                    None => error = Some(Refusal::Unreadable),
                }
            }
        }
        let Read { purpose, first, have, buffer, from, bytes, version, .. } = read;
        match purpose {
            For::Fill { page, number } => self.filled(page, number, buffer, error),
            For::Host(whole) => {
                // The array may have stopped meanwhile.
                let Some(entry) = self.wholes.get_if(whole) else { return };
                entry.answer = Some(Answer::Data { buffer, from, bytes });
                // What a crash could take back is not shown.
                let shows = error.is_none() && version > self.log.durable_version();
                if self.settings.ack != Ack::Nvs || !shows {
                    self.part_done(whole, error);
                } else if self.log.lost() {
                    self.answer_when_on_disk(whole, first..first + have.len() as u64);
                } else {
                    entry.durable = true;
                    self.part_done(whole, None);
                }
            }
        }
    }

    /// A read of the engine begins anew: what was read for it is of no use.
    pub(crate) fn read_again(&mut self, index: u32, id: RequestId) {
        self.disk_reads.remove(&u64::from(index));
        if let Part::Read(read) = self.parts.get_mut(id.0) {
            read.index = None;
        }
    }

    fn trimmed(&self, page: Page) -> bool {
        self.controller.directory().missing_span(page, 1).is_none()
    }
}
