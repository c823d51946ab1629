//! Scrub with its bytes: what was read of a row is compared, what is wrong told and, if asked,
//! written again (docs/durability.md, "Scrub").

use crate::Buffer;
#[cfg(feature = "defects")]
use crate::defect::Defect;
use crate::io::{Device, OpKind};
use crate::memory::PAGE;
use crate::ops::Purpose;
use crate::request::Alarm;
use crate::rows::Pieces;
use crate::volume::Volume;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::plan::DiskRun;
use destage_engine::array::safe::RowAt;
use destage_engine::event::DiskCommand;
use destage_engine::event::Event;
use destage_engine::event::ScrubChunk;
use destage_engine::units::{DiskId, Instant, PAGE_BYTES};
use destage_parity::erasure::{missing_strips, parities};
use destage_parity::field::xor_into;
use destage_parity::syndrome::{Culprit, culprit};
use std::collections::BTreeMap;

/// Most ranges of rows that are remembered.
const RANGES_MAX: usize = 16;
/// Bytes of which one strip of a row may be wrong and another in the next.
const SECTOR: usize = 512;

/// Why a scrub is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubRefusal {
    /// A level without redundancy.
    NothingToCompare,
    /// A member has failed.
    Degraded,
    /// A member is being rebuilt.
    Rebuilding,
    /// One is under way.
    Running,
    /// The array has stopped.
    Stopped,
}

impl core::fmt::Display for ScrubRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ScrubRefusal::NothingToCompare => {
                "this level keeps every byte once: there is nothing to compare"
            }
            ScrubRefusal::Degraded => {
                "the array is degraded: without the failed member a row cannot be checked"
            }
            ScrubRefusal::Rebuilding => {
                "a member is being rebuilt: scrub when it is whole (`destage status`)"
            }
            ScrubRefusal::Running => {
                "a scrub is under way: see `destage status`, or end it with --stop"
            }
            ScrubRefusal::Stopped => "the array has stopped; see `destage status`",
        })
    }
}

impl std::error::Error for ScrubRefusal {}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Parity does not fit the data, and nothing tells which is wrong.
    Parity,
    /// Two copies differ.
    Copies,
    /// P and Q tell that it is this member's strip.
    Member(u16),
    /// A member cannot read it; what it held is known by the others.
    Unreadable(u16),
    /// Too little of it can be read: data is lost.
    Lost,
}

/// Rows one behind the other with the same thing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubRange {
    /// First of the members that have these rows.
    pub member: u16,
    /// How many members have them.
    pub members: u16,
    /// First page of each, from the start of its data.
    pub first: u64,
    /// Pages.
    pub pages: u64,
    /// What is wrong.
    pub wrong: Wrong,
}

/// How a scrub stands, or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// It is under way.
    pub running: bool,
    /// What is wrong is written again.
    pub repair: bool,
    /// It has read all rows, or will.
    pub whole: bool,
    /// Rows compared.
    pub rows_done: u64,
    /// Rows of the array.
    pub rows: u64,
    /// Bytes read of the members.
    pub bytes_read: u64,
    /// Rows whose parity or copies do not fit.
    pub inconsistent_rows: u64,
    /// Of these and of the rows with unreadable pages, those written again.
    pub repaired_rows: u64,
    /// Rows with pages that a member could not read, but the others tell.
    pub unreadable_rows: u64,
    /// Rows of which too little can be read.
    pub lost_rows: u64,
    /// Where: the first ranges found.
    pub ranges: Vec<ScrubRange>,
    /// Rows found wrong that are in none of the ranges.
    pub rows_elsewhere: u64,
    /// When it began.
    pub began: Instant,
    /// When it ended.
    pub ended: Option<Instant>,
}

impl ScrubStatus {
    /// Rows in which something is wrong and was not put right.
    #[must_use]
    pub fn rows_left(&self) -> u64 {
        (self.inconsistent_rows + self.unreadable_rows + self.lost_rows)
            .saturating_sub(self.repaired_rows)
    }

    fn found(&mut self, found: ScrubRange) {
        let joins = |range: &&mut ScrubRange| {
            (range.member, range.wrong) == (found.member, found.wrong)
                && range.first + range.pages == found.first
        };
        if let Some(range) = self.ranges.iter_mut().find(joins) {
            range.pages += found.pages;
        } else if self.ranges.len() < RANGES_MAX {
            self.ranges.push(found);
        } else {
            self.rows_elsewhere += found.pages;
        }
    }
}

/// What was read of a chunk, and what is to be written.
#[derive(Default)]
struct Chunk {
    pieces: Pieces,
    repairs: BTreeMap<(DiskId, u64), Vec<u8>>,
    rows: u64,
    repaired_rows: u64,
}

/// A scrub under way, or the last one.
pub(crate) struct Scrub {
    status: ScrubStatus,
    chunks: BTreeMap<u32, Chunk>,
    written: Vec<u16>,
    flushes: usize,
}

/// What is wrong with a row and what makes it right.
#[derive(Default)]
struct Finding {
    wrong: Option<Wrong>,
    /// Pages that a member could not read.
    unreadable: Vec<(DiskId, Vec<u8>)>,
    /// Pages that do not fit.
    misfits: Vec<(DiskId, Vec<u8>)>,
}

impl Volume {
    /// Begins to compare all rows; pages that cannot be read are written again from the others,
    /// and with `repair` what does not fit is put right. Nothing is read before it is allowed to
    /// ([`Volume::allow_scrub`]).
    ///
    /// # Errors
    /// See [`ScrubRefusal`].
    pub fn start_scrub(&mut self, now: Instant, repair: bool) -> Result<(), ScrubRefusal> {
        self.ops.set_now(now);
        if self.faults.stopped {
            return Err(ScrubRefusal::Stopped);
        }
        if !self.controller.geometry().level.is_redundant() {
            return Err(ScrubRefusal::NothingToCompare);
        }
        if self.scrub.as_ref().is_some_and(|scrub| scrub.status.running) {
            return Err(ScrubRefusal::Running);
        }
        if !self.rebuilds.is_empty() {
            return Err(ScrubRefusal::Rebuilding);
        }
        if !self.controller.failed().is_empty() {
            return Err(ScrubRefusal::Degraded);
        }
        let status = ScrubStatus {
            running: true,
            repair,
            whole: true,
            rows_done: 0,
            rows: self.controller.scrub_rows(),
            bytes_read: 0,
            inconsistent_rows: 0,
            repaired_rows: 0,
            unreadable_rows: 0,
            lost_rows: 0,
            ranges: Vec::new(),
            rows_elsewhere: 0,
            began: now,
            ended: None,
        };
        let (chunks, written) = (BTreeMap::new(), Vec::new());
        self.scrub = Some(Scrub { status, chunks, written, flushes: 0 });
        self.step(Event::ScrubStart);
        #[cfg(feature = "defects")]
        if self.log.defect.is(Defect::ScrubsCarelessly) {
            self.controller.scrub_carelessly();
        }
        Ok(())
    }

    /// The scrub may read so many more bytes of the members.
    pub fn allow_scrub(&mut self, now: Instant, bytes: u64) {
        self.ops.set_now(now);
        self.step(Event::ScrubAllow(bytes / PAGE_BYTES));
        self.after();
    }

    /// Whether a scrub is under way.
    #[must_use]
    pub fn scrub_running(&self) -> bool {
        !self.faults.stopped && self.scrub.as_ref().is_some_and(|scrub| scrub.status.running)
    }

    /// Whether a scrub waits to be allowed more.
    #[must_use]
    pub fn scrub_waits(&self) -> bool {
        !self.faults.stopped && self.controller.scrub_waits()
    }

    /// Ends the scrub, if there is one, after what is under way.
    pub fn stop_scrub(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.step(Event::ScrubStop);
        self.after();
    }

    /// The scrub under way, or the last one since the start.
    #[must_use]
    pub fn scrub_status(&self) -> Option<ScrubStatus> {
        let mut status = self.scrub.as_ref()?.status.clone();
        if self.faults.stopped && status.running {
            (status.running, status.whole) = (false, false);
        }
        Some(status)
    }

    /// The engine wants a disk read for a chunk, or written again.
    pub(crate) fn scrub_command(&mut self, index: u32, command: &DiskCommand) {
        if !command.write {
            self.member_io(command, None);
            return;
        }
        let scrub = self.scrub.as_mut().expect("a scrub");
        if !scrub.written.contains(&command.disk.0) {
            scrub.written.push(command.disk.0);
        }
        let chunk = &scrub.chunks[&index];
        let mut bytes = Buffer::zeroed(command.pages as usize * PAGE);
        for (page, into) in (command.first..).zip(bytes.chunks_exact_mut(PAGE)) {
            into.copy_from_slice(&chunk.repairs[&(command.disk, page)]);
        }
        self.member_io(command, Some(bytes));
    }

    /// Bytes of a member for a chunk.
    pub(crate) fn scrub_bytes(&mut self, index: u32, command: &DiskCommand, bytes: Buffer) {
        let Some(scrub) = &mut self.scrub else { return };
        scrub.status.bytes_read += bytes.len() as u64;
        let chunk = scrub.chunks.entry(index).or_default();
        chunk.pieces.add(command.disk, command.first, bytes);
    }

    /// A chunk is read: its rows are compared.
    pub(crate) fn scrub_compare(&mut self, index: u32, rows: ScrubChunk) {
        let geometry = *self.controller.geometry();
        // Without a log a row may be wrong because its write was interrupted: several strips are
        // then new or old, which can look like one that is wrong.
        let locate = !self.log.lost();
        let scrub = self.scrub.as_mut().expect("a scrub");
        let mut chunk = scrub.chunks.remove(&index).unwrap_or_default();
        let status = &mut scrub.status;
        chunk.rows = u64::from(rows.pages);
        let mut unreadable: Vec<(DiskId, u64)> = Vec::new();
        for page in rows.first..rows.first + chunk.rows {
            let finding = match geometry.level.is_mirrored() {
                true => compare_copies(&chunk.pieces, rows.disk, page),
                false => compare_row(&geometry, &chunk.pieces, page, locate),
            };
            let Some(wrong) = finding.wrong else { continue };
            let (member, members) = (rows.disk.0, rows.disks);
            status.found(ScrubRange { member, members, first: page, pages: 1, wrong });
            let misfits = !finding.misfits.is_empty();
            status.lost_rows += u64::from(wrong == Wrong::Lost);
            status.inconsistent_rows += u64::from(misfits);
            status.unreadable_rows += u64::from(wrong != Wrong::Lost && !misfits);
            let mut repairs = finding.unreadable;
            if misfits && !status.repair {
                // What could not be read is told by a row that is wrong: only if asked to.
                continue;
            }
            unreadable.extend(repairs.iter().map(|(disk, _)| (*disk, page)));
            repairs.extend(finding.misfits);
            chunk.repaired_rows += u64::from(!repairs.is_empty());
            chunk
                .repairs
                .extend(repairs.into_iter().map(|(disk, page_of)| ((disk, page), page_of)));
        }
        chunk.pieces.clear();
        let runs = runs_of(chunk.repairs.keys());
        scrub.chunks.insert(index, chunk);
        unreadable.sort_unstable();
        for DiskRun { disk, first: page, pages } in runs_of(unreadable.iter()) {
            self.alarm(Alarm::Repaired { member: disk.0, page, pages });
        }
        for run in runs {
            self.step(Event::ScrubRepair(index, run));
        }
        self.step(Event::ScrubCompared(index));
    }

    /// A chunk is over.
    pub(crate) fn scrub_done(&mut self, index: u32, whole: bool) {
        let scrub = self.scrub.as_mut().expect("a scrub");
        let chunk = scrub.chunks.remove(&index).unwrap_or_default();
        if whole {
            scrub.status.rows_done += chunk.rows;
            scrub.status.repaired_rows += chunk.repaired_rows;
        }
    }

    /// The pass is over: what was written is flushed.
    pub(crate) fn scrub_ended(&mut self, whole: bool) {
        let scrub = self.scrub.as_mut().expect("a scrub");
        let done = scrub.status.rows_done == scrub.status.rows;
        scrub.status.whole &= whole && done;
        let written = core::mem::take(&mut scrub.written);
        let failed = self.controller.failed();
        let there: Vec<u16> =
            written.into_iter().filter(|member| !failed.contains(DiskId(*member))).collect();
        // One more, so that it ends without any too.
        scrub.flushes = there.len() + 1;
        for member in there {
            self.ops.push(Device::Member(member), Purpose::ScrubFlush, OpKind::Flush);
        }
        self.scrub_flushed(true);
    }

    /// A member is flushed, or has failed meanwhile.
    pub(crate) fn scrub_flushed(&mut self, whole: bool) {
        let now = self.ops.now();
        let Some(scrub) = &mut self.scrub else { return };
        scrub.flushes -= 1;
        scrub.status.whole &= whole;
        if scrub.flushes == 0 {
            (scrub.status.running, scrub.status.ended) = (false, Some(now));
        }
    }
}

/// Single pages of disks, in order, as runs.
fn runs_of<'a>(pages: impl Iterator<Item = &'a (DiskId, u64)>) -> Vec<DiskRun> {
    let mut runs: Vec<DiskRun> = Vec::new();
    for (disk, page) in pages {
        match runs.last_mut() {
            Some(run) if run.disk == *disk && run.first + u64::from(run.pages) == *page => {
                run.pages += 1;
            }
            _ => runs.push(DiskRun { disk: *disk, first: *page, pages: 1 }),
        }
    }
    runs
}

/// Two copies: the first counts.
fn compare_copies(pieces: &Pieces, disk: DiskId, page: u64) -> Finding {
    let other = DiskId(disk.0 + 1);
    let lost = |disk: DiskId, bytes: &[u8]| Finding {
        wrong: Some(Wrong::Unreadable(disk.0)),
        unreadable: vec![(disk, bytes.to_vec())],
        ..Finding::default()
    };
    match (pieces.read(disk, page), pieces.read(other, page)) {
        (Some(a), Some(b)) if a == b => Finding::default(),
        (Some(a), Some(_)) => Finding {
            wrong: Some(Wrong::Copies),
            misfits: vec![(other, a.to_vec())],
            ..Finding::default()
        },
        (Some(a), None) => lost(other, a),
        (None, Some(b)) => lost(disk, b),
        (None, None) => Finding { wrong: Some(Wrong::Lost), ..Finding::default() },
    }
}

/// A row of data and parity.
fn compare_row(geometry: &Geometry, pieces: &Pieces, page: u64, locate: bool) -> Finding {
    let (_, at) = geometry.row_of_disk_page(page);
    let data = pieces.data_of(geometry, &at);
    let read = pieces.parities_of(geometry, &at);
    let disks = disks_of(geometry, &at);
    let with_q = geometry.level.parities() > 1;
    let there: Vec<&[u8]> = data.iter().flatten().copied().collect();
    if let (true, [Some(p), q]) = (there.len() == data.len(), read)
        && q.is_some() == with_q
    {
        return compare_whole(&there, p, q, &disks, locate);
    }
    let Some(missing) = missing_strips(&data, read[0], read[1]) else {
        return Finding { wrong: Some(Wrong::Lost), ..Finding::default() };
    };
    let mut row: Vec<Vec<u8>> =
        data.iter().map(|strip| strip.map(<[u8]>::to_vec).unwrap_or_default()).collect();
    let mut finding = Finding::default();
    for (strip, bytes) in missing {
        finding.unreadable.push((disks[usize::from(strip)], bytes.clone()));
        row[usize::from(strip)] = bytes;
    }
    let row: Vec<&[u8]> = row.iter().map(Vec::as_slice).collect();
    let (p, q) = parities(&row, with_q);
    for ((disk, read), new) in disks[data.len()..].iter().zip(read).zip([Some(p), q]) {
        let Some(new) = new else { continue };
        match read {
            None => finding.unreadable.push((*disk, new)),
            Some(read) if *read != *new => finding.misfits.push((*disk, new)),
            Some(_) => {}
        }
    }
    let first = finding.unreadable.first().map(|(disk, _)| Wrong::Unreadable(disk.0));
    finding.wrong = if finding.misfits.is_empty() { first } else { Some(Wrong::Parity) };
    finding
}

/// The disks of a row: data, P, Q.
fn disks_of(geometry: &Geometry, at: &RowAt) -> Vec<DiskId> {
    let strips = 0..geometry.data_strips() as u16;
    let data = strips.map(|strip| geometry.data_disk(at.stripe, strip));
    data.chain(geometry.parity_disks(at.stripe)).collect()
}

/// A row all of which was read. `locate`: one wrong data strip is put right, not the parity.
fn compare_whole(
    data: &[&[u8]],
    p: &[u8],
    q: Option<&[u8]>,
    disks: &[DiskId],
    locate: bool,
) -> Finding {
    let (new_p, new_q) = parities(data, q.is_some());
    if *p == *new_p && q == new_q.as_deref() {
        return Finding::default();
    }
    let strips = data.len() as u16;
    let mut right: Vec<Vec<u8>> =
        data.iter().copied().chain([p]).chain(q).map(<[u8]>::to_vec).collect();
    let mut culprits: Vec<Culprit> = Vec::new();
    for from in (0..PAGE).step_by(SECTOR) {
        let part = from..from + SECTOR;
        let difference = |old: &[u8], new: &[u8]| {
            let mut difference = old[part.clone()].to_vec();
            xor_into(&mut difference, &new[part.clone()]);
            difference
        };
        let of_p = difference(p, &new_p);
        let of_q = q.zip(new_q.as_deref()).map(|(q, new)| difference(q, new));
        let Some(mut found) = culprit(&of_p, of_q.as_deref(), strips) else { continue };
        if !locate {
            found = Culprit::Unknown;
        }
        if let Culprit::Strip(strip) = found {
            xor_into(&mut right[usize::from(strip)][part.clone()], &of_p);
        } else {
            right[data.len()][part.clone()].copy_from_slice(&new_p[part.clone()]);
            if let Some(new_q) = &new_q {
                right[data.len() + 1][part.clone()].copy_from_slice(&new_q[part]);
            }
        }
        culprits.push(found);
    }
    culprits.sort_unstable();
    culprits.dedup();
    let wrong = match culprits[..] {
        [Culprit::P] => Wrong::Member(disks[data.len()].0),
        [Culprit::Q] => Wrong::Member(disks[data.len() + 1].0),
        [Culprit::Strip(strip)] => Wrong::Member(disks[usize::from(strip)].0),
        _ => Wrong::Parity,
    };
    let old = data.iter().copied().chain([p]).chain(q);
    let changed = right.into_iter().zip(old).zip(disks);
    let misfits = changed
        .filter(|((right, old), _)| *right != **old)
        .map(|((right, _), disk)| (*disk, right))
        .collect();
    Finding { wrong: Some(wrong), misfits, ..Finding::default() }
}
