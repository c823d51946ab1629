//! Member records (docs/nvs-format.md): how far a rebuild is, and which pages of a member are
//! lost. Everybody treats a lost page as a sector that cannot be read, until it is written.

use crate::Buffer;
use crate::defect::Defect;
use crate::io::{Device, IoError, Media, OpKind, write_durably};
use crate::ops::{Ops, Purpose};
use crate::store::PAGE;
use destage_engine::event::{DiskCommand, Owner};
use destage_nvslog::member::{LOST_MAX, MemberRecord};
use destage_nvslog::superblock::Uuid;
use std::collections::BTreeSet;
use std::sync::Arc;

/// First bytes of the two copies of a member record.
const RECORDS: [u64; 2] = [16_384, 20_480];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Idle,
    /// The member is flushed, before its record says that it has its pages below this one.
    Flush(u64),
    /// A copy is written.
    Copy(usize),
}

/// A member's record, and how it gets onto the member.
struct Record {
    device: Uuid,
    number: u64,
    below: u64,
    lost: BTreeSet<u64>,
    /// Lost pages that were written and are not flushed yet: they are lost only on the medium.
    written: BTreeSet<u64>,
    /// The same, and a flush of them is on its way.
    flushing: BTreeSet<u64>,
    /// The first copy on the medium lists pages that were written since.
    unrecorded: bool,
    step: Step,
    /// A checkpoint that has to be written.
    wanted: Option<u64>,
    /// The medium has another list of lost pages.
    changed: bool,
    /// The start found these copies damaged, or older than the other. None counts if all are.
    damaged: Vec<usize>,
    buffer: Arc<Buffer>,
}

impl Record {
    fn new(device: Uuid) -> Record {
        Record {
            device,
            number: 0,
            below: 0,
            lost: BTreeSet::new(),
            written: BTreeSet::new(),
            flushing: BTreeSet::new(),
            unrecorded: false,
            step: Step::Idle,
            wanted: None,
            changed: false,
            damaged: Vec::new(),
            buffer: Arc::new(Buffer::zeroed(0)),
        }
    }

    fn note(&mut self, page: u64, lost: bool) {
        self.changed |= if lost { self.lost.insert(page) } else { self.lost.remove(&page) };
    }

    /// The pages that are lost after a crash now.
    fn lost_on_medium(&self) -> BTreeSet<u64> {
        self.lost.iter().chain(&self.written).chain(&self.flushing).copied().collect()
    }

    fn says(&self) -> MemberRecord {
        MemberRecord {
            number: self.number,
            device: self.device,
            below: self.below,
            lost: self.lost_on_medium().into_iter().take(LOST_MAX).collect(),
        }
    }

    fn encode(&mut self) {
        self.number += 1;
        self.changed = false;
        let mut buffer = Buffer::zeroed(PAGE);
        buffer.copy_from_slice(&self.says().encode());
        self.buffer = Arc::new(buffer);
    }

    fn write(&mut self, member: u16, copy: usize, ops: &mut Ops) {
        if copy == 0 {
            self.encode();
        }
        self.step = Step::Copy(copy);
        let buffer = Arc::clone(&self.buffer);
        let kind = OpKind::Write { offset: RECORDS[copy], buffer: buffer.into(), durable: true };
        ops.push(Device::Member(member), Purpose::Record, kind);
    }
}

/// The records of all members.
pub(crate) struct MemberRecords {
    records: Vec<Record>,
}

impl MemberRecords {
    pub(crate) fn new(members: &[Uuid]) -> MemberRecords {
        MemberRecords { records: members.iter().map(|device| Record::new(*device)).collect() }
    }

    fn of(&mut self, member: u16) -> &mut Record {
        &mut self.records[usize::from(member)]
    }

    /// Reads a member's record. Whether it has one, or none was ever written: the second copy is
    /// written when the first one is there.
    pub(crate) fn read(&mut self, media: &mut dyn Media, member: u16) -> bool {
        let mut copies = [Buffer::zeroed(PAGE), Buffer::zeroed(PAGE)];
        let mut begun = 0;
        for (copy, at) in copies.iter_mut().zip(RECORDS) {
            let read = media.read(Device::Member(member), at, copy);
            begun += u32::from(read.is_err() || MemberRecord::begins(copy));
            if read.is_err() {
                copy.fill(0);
            }
        }
        let record = self.of(member);
        if let Some(read) = MemberRecord::choose([&copies[0], &copies[1]], record.device) {
            (record.number, record.below) = (read.number, read.below);
            record.lost = read.lost.iter().copied().collect();
            let bytes = read.encode();
            record.damaged = (0..2).filter(|copy| copies[*copy][..] != bytes).collect();
            return true;
        }
        if begun > 0 {
            // What cannot be read now can perhaps be at a later start, and is out of date then.
            record.damaged = vec![0, 1];
        }
        let of_another = copies.iter().any(|copy| MemberRecord::decode(copy).is_some());
        of_another || begun < 2
    }

    /// Reads the record of a member that has no lost page, as the superblocks say. One that would
    /// say anything else to a start is to be repaired.
    pub(crate) fn read_without_lost(&mut self, media: &mut dyn Media, member: u16) {
        let known = self.read(media, member);
        let record = self.of(member);
        if !known || !record.lost.is_empty() {
            record.lost.clear();
            record.number += 1;
            record.damaged = vec![0, 1];
        }
    }

    /// Repairs a copy that [`MemberRecords::read`] found damaged, with what the other says. Only
    /// that is written: a crash that tears it leaves the other.
    pub(crate) fn repair(&mut self, media: &mut dyn Media) -> Result<(), (Device, IoError)> {
        self.write_damaged(media, |copies| copies == 1)
    }

    /// Writes the records of which neither copy is right.
    pub(crate) fn write_over(&mut self, media: &mut dyn Media) -> Result<(), (Device, IoError)> {
        self.write_damaged(media, |_| true)
    }

    fn write_damaged(
        &mut self,
        media: &mut dyn Media,
        of: impl Fn(usize) -> bool,
    ) -> Result<(), (Device, IoError)> {
        let damaged = (0..).zip(&mut self.records).filter(|(_, record)| of(record.damaged.len()));
        for (member, record) in damaged {
            let device = Device::Member(member);
            for copy in core::mem::take(&mut record.damaged) {
                write_durably(media, device, RECORDS[copy], &record.says().encode())?;
            }
        }
        Ok(())
    }

    /// Another device is this member: nothing is known of it.
    pub(crate) fn reset(&mut self, member: u16, device: Uuid) {
        *self.of(member) = Record::new(device);
    }

    /// A page could be reconstructed, or is lost.
    pub(crate) fn note(&mut self, member: u16, page: u64, lost: bool) {
        self.of(member).note(page, lost);
    }

    /// Writes a member's record once more.
    pub(crate) fn write_again(&mut self, member: u16, ops: &mut Ops, defect: Defect) {
        self.of(member).changed = true;
        self.turn(member, ops, defect);
    }

    /// Pages below this one are on the member, and a crash does not take them back.
    pub(crate) fn below(&self, member: u16) -> u64 {
        self.records[usize::from(member)].below
    }

    /// Number of a member's lost pages.
    pub(crate) fn lost_of(&self, member: u16) -> usize {
        self.records[usize::from(member)].lost.len()
    }

    /// Whether a member has more lost pages than its record has room for.
    pub(crate) fn is_full(&self, member: u16) -> bool {
        self.records[usize::from(member)].lost_on_medium().len() > LOST_MAX
    }

    /// Whether a crash now would leave any page lost.
    pub(crate) fn any_lost(&self) -> bool {
        self.unrecorded() || self.records.iter().any(|record| !record.lost.is_empty())
    }

    /// Whether any page would be lost after a crash though it was written since: the NVS may not
    /// forget what was written yet.
    pub(crate) fn unrecorded(&self) -> bool {
        self.records.iter().any(|record| record.unrecorded)
    }

    /// The lost pages: member, page.
    pub(crate) fn lost(&self) -> Vec<(u16, u64)> {
        let of = |(member, record): (u16, &Record)| {
            record.lost.iter().map(move |page| (member, *page)).collect::<Vec<_>>()
        };
        (0..).zip(&self.records).flat_map(of).collect()
    }

    /// Whether a command touches a lost page.
    pub(crate) fn touches_lost(&self, command: &DiskCommand) -> bool {
        let lost = &self.records[usize::from(command.disk.0)].lost;
        let end = command.first + u64::from(command.pages);
        !lost.is_empty() && lost.range(command.first..end).next().is_some()
    }

    /// A command has written pages: they are no longer lost.
    pub(crate) fn pages_written(&mut self, command: &DiskCommand, ops: &mut Ops, defect: Defect) {
        let by_rebuild = matches!(command.owner, Owner::Rebuild(_));
        if !command.write || by_rebuild || !self.touches_lost(command) {
            return;
        }
        let record = self.of(command.disk.0);
        let pages = command.first..command.first + u64::from(command.pages);
        let found: Vec<u64> = record.lost.range(pages).copied().collect();
        found.iter().for_each(|page| record.note(*page, false));
        record.written.extend(found);
        record.unrecorded = true;
        self.turn(command.disk.0, ops, defect);
    }

    /// Flushes a member, and then records that it has its pages below this one.
    pub(crate) fn checkpoint(&mut self, member: u16, below: u64, ops: &mut Ops, defect: Defect) {
        let record = self.of(member);
        record.wanted = record.wanted.max(Some(below));
        self.turn(member, ops, defect);
    }

    /// Begins to write a record if that is needed and it is not being written.
    pub(crate) fn turn(&mut self, member: u16, ops: &mut Ops, defect: Defect) {
        let record = self.of(member);
        if record.step != Step::Idle {
            return;
        }
        let written = !record.written.is_empty();
        let below = record.wanted.take().or(written.then_some(record.below));
        if let Some(below) = below {
            record.flushing = core::mem::take(&mut record.written);
            record.step = Step::Flush(below);
            if defect.is(Defect::ChecksBeforeFlush) {
                self.step_done(member, ops);
            } else {
                ops.push(Device::Member(member), Purpose::Record, OpKind::Flush);
            }
        } else if record.changed {
            record.write(member, 0, ops);
        }
    }

    /// A step of a record is done; whether the record is on the member. Then call
    /// [`MemberRecords::turn`].
    pub(crate) fn step_done(&mut self, member: u16, ops: &mut Ops) -> bool {
        let record = self.of(member);
        match record.step {
            Step::Idle => {}
            Step::Flush(below) => {
                record.flushing.clear();
                record.below = below;
                record.write(member, 0, ops);
            }
            Step::Copy(0) => {
                record.unrecorded = !record.written.is_empty();
                record.write(member, 1, ops);
            }
            Step::Copy(_) => {
                record.step = Step::Idle;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::units::DiskId;

    /// The record that is being written, if one is.
    fn written(ops: &mut Ops) -> Option<MemberRecord> {
        let mut out = Vec::new();
        ops.take(&mut out);
        let OpKind::Write { buffer, .. } = out.pop()?.kind else { panic!("no record") };
        Some(MemberRecord::decode(&buffer).expect("a record"))
    }

    /// Its lost pages.
    fn listed(ops: &mut Ops) -> Vec<u64> {
        written(ops).expect("a record is being written").lost
    }

    fn taken(ops: &mut Ops) -> Vec<&'static str> {
        let mut out = Vec::new();
        ops.take(&mut out);
        let name = |kind| match kind {
            OpKind::Flush => "flush",
            OpKind::Write { durable: false, .. } => "a write that a crash may lose",
            OpKind::Write { offset, .. } if offset == RECORDS[0] => "first",
            OpKind::Write { .. } => "second",
            OpKind::Read { .. } => "read",
        };
        out.into_iter().map(|op| name(op.kind)).collect()
    }

    #[test]
    fn a_checkpoint_flushes_the_member_before_its_record_says_so() {
        let (mut records, mut ops) = (MemberRecords::new(&[[1; 16]; 2]), Ops::default());
        records.checkpoint(1, 100, &mut ops, Defect::None);
        assert_eq!((taken(&mut ops), records.below(1)), (vec!["flush"], 0));
        records.checkpoint(1, 200, &mut ops, Defect::None);
        assert!(taken(&mut ops).is_empty(), "one after the other");
        assert!(!records.step_done(1, &mut ops));
        assert_eq!((taken(&mut ops), records.below(1)), (vec!["first"], 100));
        assert!(!records.step_done(1, &mut ops));
        assert_eq!(taken(&mut ops), ["second"]);
        assert!(records.step_done(1, &mut ops));
        records.turn(1, &mut ops, Defect::None);
        assert_eq!(taken(&mut ops), ["flush"], "the later checkpoint");
    }

    #[test]
    fn a_lost_page_is_lost_until_it_is_written() {
        let (mut records, mut ops) = (MemberRecords::new(&[[1; 16]]), Ops::default());
        records.note(0, 7, true);
        let owner = Owner::Destage(0);
        let write = DiskCommand { disk: DiskId(0), first: 4, pages: 4, write: true, owner };
        assert!(records.touches_lost(&write) && records.any_lost());
        for (first, pages, touches) in [(7, 1, true), (4, 3, false), (8, 4, false)] {
            let read = DiskCommand { first, pages, write: false, ..write };
            assert_eq!(records.touches_lost(&read), touches, "{first}");
        }
        records.pages_written(&write, &mut ops, Defect::None);
        assert_eq!((records.lost(), taken(&mut ops)), (vec![], vec!["flush"]));
    }

    /// A page that was written is lost after a crash until it is flushed.
    #[test]
    fn pages_that_are_written_and_not_flushed_count_as_lost() {
        let (mut records, mut ops) = (MemberRecords::new(&[[1; 16]]), Ops::default());
        (0..LOST_MAX as u64).for_each(|page| records.note(0, page, true));
        let owner = Owner::HostRead(0);
        let write = DiskCommand { disk: DiskId(0), first: 7, pages: 1, write: true, owner };
        records.pages_written(&write, &mut ops, Defect::None);
        assert_eq!(taken(&mut ops), ["flush"]);
        records.note(0, 1000, true);
        assert!(records.is_full(0) && records.lost_of(0) == LOST_MAX, "page 7 besides these");
        (0..=1000).filter(|page| *page != 9).for_each(|page| records.note(0, page, false));
        assert_eq!((records.any_lost(), records.lost()), (true, vec![(0, 9)]), "and page 7");
        // A page that is written during the flush needs the next one.
        let write = DiskCommand { first: 9, ..write };
        records.pages_written(&write, &mut ops, Defect::None);
        assert_eq!(records.lost(), []);
        assert!(!records.step_done(0, &mut ops));
        assert_eq!((listed(&mut ops), records.is_full(0)), (vec![9], false));
    }

    /// What was written is not released before a record says that it is no longer lost.
    #[test]
    fn pages_are_unrecorded_until_the_first_copy_no_longer_lists_them() {
        let (mut records, mut ops) = (MemberRecords::new(&[[1; 16]; 2]), Ops::default());
        let owner = Owner::Destage(0);
        let write = |first| DiskCommand { disk: DiskId(1), first, pages: 1, write: true, owner };
        [3, 4].into_iter().for_each(|page| records.note(1, page, true));
        assert!(!records.unrecorded(), "lost, but not written");
        records.pages_written(&write(3), &mut ops, Defect::None);
        assert!(records.unrecorded() && !records.step_done(1, &mut ops));
        assert_eq!(listed(&mut ops), [4]);
        // Too late for this record.
        records.pages_written(&write(4), &mut ops, Defect::None);
        assert!(!records.step_done(1, &mut ops) && records.unrecorded());
        assert!(records.step_done(1, &mut ops));
        records.turn(1, &mut ops, Defect::None);
        assert!(!records.step_done(1, &mut ops) && records.any_lost(), "listed on the medium");
        assert_eq!(listed(&mut ops), []);
        assert!(!records.step_done(1, &mut ops));
        assert!(!records.unrecorded() && !records.any_lost());
        // Of another device nothing is known.
        records.note(1, 3, true);
        records.pages_written(&write(3), &mut ops, Defect::None);
        records.reset(1, [2; 16]);
        assert!(!records.unrecorded());
    }

    /// A record has room for 504 lost pages.
    #[test]
    fn lost_pages_are_counted_and_one_more_than_fit_is_too_many() {
        let mut records = MemberRecords::new(&[[1; 16]; 2]);
        assert!(!records.any_lost() && !records.is_full(1));
        let pages = LOST_MAX as u64;
        (0..pages).for_each(|page| records.note(1, page * 3, true));
        assert_eq!((records.lost_of(0), records.lost_of(1)), (0, LOST_MAX));
        assert!(records.any_lost() && !records.is_full(1), "as many as fit");
        records.note(1, 1, true);
        assert!(records.is_full(1) && !records.is_full(0));
        (0..pages).for_each(|page| records.note(1, page * 3, false));
        records.note(1, 1, false);
        assert!(!records.any_lost() && records.lost().is_empty());
    }

    /// Its number says which of two copies is the later one.
    #[test]
    fn a_record_is_written_when_its_list_has_changed() {
        let (mut records, mut ops) = (MemberRecords::new(&[[1; 16]; 2]), Ops::default());
        for (page, lost, number, list) in [
            (7, true, Some(1), &[7][..]),
            (7, true, None, &[]),
            (3, true, Some(2), &[3, 7]),
            (4, false, None, &[]),
            (7, false, Some(3), &[3]),
        ] {
            records.note(1, page, lost);
            records.turn(1, &mut ops, Defect::None);
            let said = written(&mut ops);
            assert_eq!(said.as_ref().map(|said| said.number), number, "{page}");
            if let Some(said) = said {
                assert_eq!((said.device, said.below, &said.lost[..]), ([1; 16], 0, list));
                assert!(!records.step_done(1, &mut ops), "the second copy follows");
                assert_eq!(written(&mut ops), Some(said));
                assert!(records.step_done(1, &mut ops));
            }
        }
        records.write_again(1, &mut ops, Defect::None);
        let said = written(&mut ops).expect("it is written again");
        assert_eq!((said.number, said.lost), (4, vec![3]));
    }

    /// A rebuild writes other bytes to the pages that it could not reconstruct.
    #[test]
    fn only_writes_of_a_lost_page_with_its_own_bytes_make_it_good() {
        let (mut records, mut ops) = (MemberRecords::new(&[[1; 16]]), Ops::default());
        let lost = [4, 7, 8, 9, 16];
        lost.iter().for_each(|page| records.note(0, *page, true));
        let owner = Owner::Destage(0);
        let write = DiskCommand { disk: DiskId(0), first: 5, pages: 3, write: true, owner };
        let read = DiskCommand { write: false, ..write };
        let rebuild = DiskCommand { owner: Owner::Rebuild(0), ..write };
        let next_to_it = DiskCommand { pages: 2, ..write };
        for other in [read, rebuild, next_to_it] {
            records.pages_written(&other, &mut ops, Defect::None);
            assert!(!records.unrecorded() && records.lost_of(0) == lost.len(), "{other:?}");
            assert!(taken(&mut ops).is_empty(), "{other:?}");
        }
        records.pages_written(&write, &mut ops, Defect::None);
        assert_eq!(records.lost(), [(0, 4), (0, 8), (0, 9), (0, 16)]);
        assert_eq!(taken(&mut ops), ["flush"]);
    }
}
