//! Member records (docs/nvs-format.md): how far a rebuild is, and which pages of a member are
//! lost. A lost page is to everyone a sector that cannot be read, until it is written.

use crate::Buffer;
use crate::defect::Defect;
use crate::io::{Device, Media, OpKind};
use crate::memory::PAGE;
use crate::ops::Purpose;
use crate::volume::Volume;
use destage_engine::event::{DiskCommand, Owner};
use destage_nvslog::member::{LOST_MAX, MemberRecord};
use destage_nvslog::superblock::Uuid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// First bytes of the two copies of a member record.
pub(crate) const RECORDS: [u64; 2] = [16_384, 20_480];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Idle,
    /// The member is flushed, before its pages below are said to be whole.
    Flush(u64),
    /// A copy is written.
    Copy(usize),
}

/// What a member knows of itself, and how that gets onto it.
pub(crate) struct Record {
    device: Uuid,
    number: u64,
    pub(crate) below: u64,
    lost: BTreeSet<u64>,
    /// Of these, pages that were written since and are not flushed: lost only to the medium.
    written: BTreeSet<u64>,
    step: Step,
    /// A checkpoint to be written.
    wanted: Option<u64>,
    /// The medium has another list of lost pages.
    changed: bool,
    buffer: Arc<Buffer>,
}

impl Record {
    pub(crate) fn new(device: Uuid) -> Record {
        Record {
            device,
            number: 0,
            below: 0,
            lost: BTreeSet::new(),
            written: BTreeSet::new(),
            step: Step::Idle,
            wanted: None,
            changed: false,
            buffer: Arc::new(Buffer::zeroed(0)),
        }
    }

    /// Reads a member's record; one that has none knows nothing.
    pub(crate) fn read(media: &mut dyn Media, member: u16, device: Uuid) -> Record {
        let mut copies = [Buffer::zeroed(PAGE), Buffer::zeroed(PAGE)];
        for (copy, at) in copies.iter_mut().zip(RECORDS) {
            if media.read(Device::Member(member), at, copy).is_err() {
                copy.fill(0);
            }
        }
        let mut record = Record::new(device);
        if let Some(read) = MemberRecord::choose([&copies[0], &copies[1]], device) {
            (record.number, record.below) = (read.number, read.below);
            record.lost = read.lost.into_iter().collect();
        }
        record
    }

    /// A page could not be computed, or could be.
    pub(crate) fn note(&mut self, page: u64, lost: bool) {
        self.changed |= if lost { self.lost.insert(page) } else { self.lost.remove(&page) };
    }

    /// Lost pages.
    pub(crate) fn lost(&self) -> usize {
        self.lost.len()
    }

    /// Whether there are more lost pages than it has room for.
    pub(crate) fn is_full(&self) -> bool {
        self.lost.len() > LOST_MAX
    }

    fn encode(&mut self) {
        self.number += 1;
        self.changed = false;
        let record = MemberRecord {
            number: self.number,
            device: self.device,
            below: self.below,
            lost: self.lost.union(&self.written).copied().take(LOST_MAX).collect(),
        };
        let mut buffer = Buffer::zeroed(PAGE);
        buffer.copy_from_slice(&record.encode());
        self.buffer = Arc::new(buffer);
    }
}

impl Volume {
    /// Whether a command meets a lost page.
    pub(crate) fn meets_lost(&self, command: &DiskCommand) -> bool {
        let lost = &self.records[usize::from(command.disk.0)].lost;
        let end = command.first + u64::from(command.pages);
        !lost.is_empty() && lost.range(command.first..end).next().is_some()
    }

    /// Pages that were written hold again what they should.
    pub(crate) fn found_again(&mut self, command: &DiskCommand) {
        let by_window = matches!(command.owner, Owner::Rebuild(_));
        if !command.write || by_window || !self.meets_lost(command) {
            return;
        }
        let record = &mut self.records[usize::from(command.disk.0)];
        let pages = command.first..command.first + u64::from(command.pages);
        let found: Vec<u64> = record.lost.range(pages).copied().collect();
        found.iter().for_each(|page| record.note(*page, false));
        record.written.extend(found);
        self.record_turn(command.disk.0);
    }

    /// A member is to be flushed, then to say that its pages below are whole.
    pub(crate) fn want_record(&mut self, member: u16, below: u64) {
        let record = &mut self.records[usize::from(member)];
        record.wanted = record.wanted.max(Some(below));
        self.record_turn(member);
    }

    /// Begins to write a record, if that is wanted and none is being written.
    pub(crate) fn record_turn(&mut self, member: u16) {
        let early = self.log.defect.is(Defect::ChecksBeforeFlush);
        let record = &mut self.records[usize::from(member)];
        if record.step != Step::Idle {
            return;
        }
        let written = !record.written.is_empty();
        let below = record.wanted.take().or(written.then_some(record.below));
        if let Some(below) = below {
            record.written.clear();
            record.step = Step::Flush(below);
            if early {
                self.record_done(Device::Member(member));
            } else {
                self.ops.push(Device::Member(member), Purpose::Record, OpKind::Flush);
            }
        } else if record.changed {
            self.write_record(member, 0);
        }
    }

    fn write_record(&mut self, member: u16, copy: usize) {
        let record = &mut self.records[usize::from(member)];
        if copy == 0 {
            record.encode();
        }
        record.step = Step::Copy(copy);
        let buffer = Arc::clone(&record.buffer);
        let kind = OpKind::Write { offset: RECORDS[copy], buffer, durable: true };
        self.ops.push(Device::Member(member), Purpose::Record, kind);
    }

    /// A step of a record is done.
    pub(crate) fn record_done(&mut self, device: Device) {
        let Device::Member(member) = device else { return };
        let record = &mut self.records[usize::from(member)];
        match record.step {
            Step::Idle => {}
            Step::Flush(below) => {
                record.below = below;
                self.write_record(member, 0);
            }
            Step::Copy(0) => self.write_record(member, 1),
            Step::Copy(_) => {
                record.step = Step::Idle;
                self.recorded(member);
                self.record_turn(member);
            }
        }
    }

    /// Pages that could not be computed when their members were rebuilt.
    #[must_use]
    pub fn lost_pages(&self) -> Vec<(u16, u64)> {
        let of = |(member, record): (u16, &Record)| {
            record.lost.iter().map(move |page| (member, *page)).collect::<Vec<_>>()
        };
        (0..).zip(&self.records).flat_map(of).collect()
    }
}
