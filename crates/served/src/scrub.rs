//! Scrubs: what was read of a row is compared, what is wrong is reported and, if requested,
//! repaired (docs/durability.md, "Scrub").

use crate::Buffer;
use crate::io::OpId;
use crate::rows::Pieces;
use crate::store::PAGE;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::plan::DiskRun;
use destage_engine::array::safe::RowAt;
use destage_engine::event::{DiskCommand, ScrubChunk};
use destage_engine::units::{DiskId, Instant};
use destage_parity::erasure::{missing_strips, parities};
use destage_parity::field::xor_into;
use destage_parity::syndrome::{Culprit, culprit};
use std::collections::BTreeMap;

/// Most ranges of rows that are reported.
const RANGES_MAX: usize = 16;
/// Each sector of a row may have another wrong strip.
const SECTOR: usize = 512;

/// Why a scrub is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubRefusal {
    /// A level without redundancy.
    NothingToCompare,
    /// A member has failed.
    Degraded,
    /// A member is being rebuilt.
    Rebuilding,
    /// A scrub is running.
    Running,
    /// The array has stopped.
    Stopped,
}

impl core::fmt::Display for ScrubRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            ScrubRefusal::NothingToCompare => {
                "the level has no redundancy: there is nothing to compare"
            }
            ScrubRefusal::Degraded => {
                "the array is degraded: rows cannot be checked without the failed member"
            }
            ScrubRefusal::Rebuilding => {
                "a member is being rebuilt; scrub when that is complete (`destage status`)"
            }
            ScrubRefusal::Running => {
                "a scrub is running; see `destage status`, or end it with --stop"
            }
            ScrubRefusal::Stopped => "the array has stopped; see `destage status`",
        })
    }
}

impl std::error::Error for ScrubRefusal {}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Parity does not match the data, and it is not known which of them is wrong.
    Parity,
    /// Two copies differ.
    Copies,
    /// P and Q show that it is this member's strip.
    Member(u16),
    /// A member cannot read it; it can be reconstructed from the others.
    Unreadable(u16),
    /// Too little of it can be read: data is lost.
    Lost,
}

/// Consecutive rows with the same thing wrong.
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

/// State of a scrub, or its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubStatus {
    /// It is running.
    pub running: bool,
    /// Inconsistent rows are repaired.
    pub repair: bool,
    /// Nothing has kept it from reading all rows so far.
    pub whole: bool,
    /// Rows compared.
    pub rows_done: u64,
    /// Rows of the array.
    pub rows: u64,
    /// Bytes read of the members.
    pub bytes_read: u64,
    /// Rows whose parity does not match, or whose copies differ.
    pub inconsistent_rows: u64,
    /// Of these and of the rows with unreadable pages, those that were repaired.
    pub repaired_rows: u64,
    /// Rows with pages that a member could not read, and that could be reconstructed.
    pub unreadable_rows: u64,
    /// Rows of which too little can be read.
    pub lost_rows: u64,
    /// The first ranges found.
    pub ranges: Vec<ScrubRange>,
    /// Wrong rows that are in none of these ranges.
    pub rows_elsewhere: u64,
    /// When it started.
    pub began: Instant,
    /// When it ended.
    pub ended: Option<Instant>,
}

impl ScrubStatus {
    /// Wrong rows that were not repaired.
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

/// What was read of a chunk, and what has to be written.
#[derive(Default)]
struct Chunk {
    pieces: Pieces,
    repairs: BTreeMap<(DiskId, u64), Vec<u8>>,
    rows: u64,
    repaired_rows: u64,
}

/// The scrub that is running, or the last one.
struct Pass {
    status: ScrubStatus,
    chunks: BTreeMap<u32, Chunk>,
    written: Vec<u16>,
    flushes: usize,
}

/// What is wrong with a row, and what repairs it.
#[derive(Default)]
struct Finding {
    wrong: Option<Wrong>,
    /// Pages that a member could not read.
    unreadable: Vec<(DiskId, Vec<u8>)>,
    /// Pages that are wrong.
    misfits: Vec<(DiskId, Vec<u8>)>,
}

/// Repairs of a chunk.
pub(crate) struct Repairs {
    /// Pages that a member could not read.
    pub(crate) unreadable: Vec<DiskRun>,
    /// All pages that have to be written.
    pub(crate) runs: Vec<DiskRun>,
}

/// Scrubs of the array, one at a time.
#[derive(Default)]
pub(crate) struct Scrub {
    pass: Option<Pass>,
}

impl Scrub {
    /// Starts a scrub of this many rows.
    pub(crate) fn start(&mut self, rows: u64, repair: bool, now: Instant) {
        let status = ScrubStatus {
            running: true,
            repair,
            whole: true,
            rows_done: 0,
            rows,
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
        self.pass = Some(Pass { status, chunks, written, flushes: 0 });
    }

    pub(crate) fn running(&self) -> bool {
        self.pass.as_ref().is_some_and(|pass| pass.status.running)
    }

    pub(crate) fn status(&self) -> Option<&ScrubStatus> {
        self.pass.as_ref().map(|pass| &pass.status)
    }

    fn pass(&mut self) -> &mut Pass {
        self.pass.as_mut().expect("a scrub")
    }

    /// Bytes that were read for a chunk.
    pub(crate) fn add_bytes(&mut self, index: u32, command: &DiskCommand, op: OpId, bytes: Buffer) {
        let Some(pass) = &mut self.pass else { return };
        pass.status.bytes_read += bytes.len() as u64;
        let chunk = pass.chunks.entry(index).or_default();
        chunk.pieces.add(command.disk, command.first, op, bytes);
    }

    /// The bytes that repair these pages.
    pub(crate) fn repair_bytes(&mut self, index: u32, command: &DiskCommand) -> Buffer {
        let pass = self.pass();
        if !pass.written.contains(&command.disk.0) {
            pass.written.push(command.disk.0);
        }
        let chunk = &pass.chunks[&index];
        let mut bytes = Buffer::zeroed(command.pages as usize * PAGE);
        for (page, into) in (command.first..).zip(bytes.chunks_exact_mut(PAGE)) {
            into.copy_from_slice(&chunk.repairs[&(command.disk, page)]);
        }
        bytes
    }

    /// A chunk is read: its rows are compared. `locate`: a single wrong strip can be identified.
    pub(crate) fn compare(
        &mut self,
        index: u32,
        rows: ScrubChunk,
        geometry: &Geometry,
        locate: bool,
    ) -> Repairs {
        let pass = self.pass();
        let mut chunk = pass.chunks.remove(&index).unwrap_or_default();
        let status = &mut pass.status;
        chunk.rows = u64::from(rows.pages);
        let mut unreadable: Vec<(DiskId, u64)> = Vec::new();
        for page in rows.first..rows.first + chunk.rows {
            let finding = match geometry.level.is_mirrored() {
                true => compare_copies(&chunk.pieces, rows.disk, page),
                false => compare_row(geometry, &chunk.pieces, page, locate),
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
                // What could not be read would be reconstructed from a wrong row: only on request.
                continue;
            }
            unreadable.extend(repairs.iter().map(|(disk, _)| (*disk, page)));
            repairs.extend(finding.misfits);
            chunk.repaired_rows += u64::from(!repairs.is_empty());
            let of_page = repairs.into_iter().map(|(disk, bytes)| ((disk, page), bytes));
            chunk.repairs.extend(of_page);
        }
        chunk.pieces.clear();
        let runs = runs_of(chunk.repairs.keys());
        pass.chunks.insert(index, chunk);
        unreadable.sort_unstable();
        Repairs { unreadable: runs_of(unreadable.iter()), runs }
    }

    /// A chunk has ended.
    pub(crate) fn chunk_done(&mut self, index: u32, complete: bool) {
        let pass = self.pass();
        let chunk = pass.chunks.remove(&index).unwrap_or_default();
        if complete {
            pass.status.rows_done += chunk.rows;
            pass.status.repaired_rows += chunk.repaired_rows;
        }
    }

    /// All chunks have ended. Returns the members that were written: they have to be flushed, and
    /// each flush reported to [`Scrub::flushed`], and one more.
    pub(crate) fn ended(&mut self, complete: bool, in_use: impl Fn(u16) -> bool) -> Vec<u16> {
        let pass = self.pass();
        let done = pass.status.rows_done == pass.status.rows;
        pass.status.whole &= complete && done;
        let mut written = core::mem::take(&mut pass.written);
        written.retain(|member| in_use(*member));
        pass.flushes = written.len() + 1;
        written
    }

    /// A member is flushed, or has failed in the meantime.
    pub(crate) fn flushed(&mut self, ok: bool, now: Instant) {
        let Some(pass) = &mut self.pass else { return };
        pass.flushes -= 1;
        pass.status.whole &= ok;
        if pass.flushes == 0 {
            (pass.status.running, pass.status.ended) = (false, Some(now));
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

/// A row that was read completely. `locate`: a single wrong data strip is repaired, not the parity.
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

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::array::geometry::Level;
    use destage_engine::event::Owner;
    use destage_engine::units::{GroupId, StripeId};

    #[test]
    fn a_wrong_copy_is_repaired_only_on_request() {
        for repair in [false, true] {
            let mut scrub = Scrub::default();
            scrub.start(1, repair, Instant::ZERO);
            let owner = destage_engine::event::Owner::Scrub(0);
            for disk in [0, 1] {
                let command =
                    DiskCommand { disk: DiskId(disk), first: 3, pages: 1, write: false, owner };
                scrub.add_bytes(0, &command, OpId(0), Buffer::copy_of(&[disk as u8; PAGE]));
            }
            let geometry = Geometry {
                level: Level::Raid10,
                disks: 2,
                strip_pages: 4,
                group_stripes: 1,
                disk_pages: 8,
            };
            let group = destage_engine::units::GroupId(0);
            let rows = ScrubChunk { group, disk: DiskId(0), disks: 2, first: 3, pages: 1 };
            let repairs = scrub.compare(0, rows, &geometry, true);
            assert_eq!(repairs.runs.len(), usize::from(repair));
            scrub.chunk_done(0, true);
            let written = scrub.ended(true, |_| true);
            assert!(written.is_empty(), "nobody fetched the bytes of the repair");
            scrub.flushed(true, Instant::ZERO);
            let status = scrub.status().expect("a scrub");
            assert!(!status.running && status.whole);
            assert_eq!(status.rows_left(), u64::from(!repair));
        }
    }

    /// Rows that follow each other and have the same wrong are one range; 16 ranges are listed, and
    /// the rows of further ones are counted.
    #[test]
    fn wrong_rows_are_listed_as_ranges_and_the_rest_is_counted() {
        let (mut scrub, rows) = (Scrub::default(), 60);
        scrub.start(rows, false, Instant::ZERO);
        let owner = destage_engine::event::Owner::Scrub(0);
        for disk in [0, 1] {
            let mut bytes = Buffer::zeroed(rows as usize * PAGE);
            // Two rows of three are wrong.
            for (row, page) in bytes.chunks_exact_mut(PAGE).enumerate() {
                page.fill(if row % 3 == 0 { 7 } else { disk });
            }
            let (pages, disk) = (rows as u32, DiskId(u16::from(disk)));
            let command = DiskCommand { disk, first: 0, pages, write: false, owner };
            scrub.add_bytes(0, &command, OpId(0), bytes);
        }
        let (level, strip_pages, group_stripes) = (Level::Raid10, 60, 1);
        let geometry = Geometry { level, disks: 2, strip_pages, group_stripes, disk_pages: rows };
        let (group, pages) = (destage_engine::units::GroupId(0), rows as u32);
        let chunk = ScrubChunk { group, disk: DiskId(0), disks: 2, first: 0, pages };
        scrub.compare(0, chunk, &geometry, true);
        let status = scrub.status().expect("a scrub");
        let ranges: Vec<(u64, u64)> = status.ranges.iter().map(|r| (r.first, r.pages)).collect();
        let all = (0..rows / 3).map(|third| (third * 3 + 1, 2));
        assert_eq!(ranges, all.take(RANGES_MAX).collect::<Vec<_>>());
        assert_eq!((status.inconsistent_rows, status.rows_elsewhere), (40, 40 - 32));
    }

    #[test]
    fn pages_of_a_disk_that_follow_each_other_are_one_run() {
        let pages = [(0, 0), (0, 1), (0, 2), (0, 4), (1, 5), (1, 6), (2, 0)];
        let pages = pages.map(|(disk, page)| (DiskId(disk), page));
        assert_eq!(places(&runs_of(pages.iter())), [(0, 0, 3), (0, 4, 1), (1, 5, 2), (2, 0, 1)]);
    }

    fn places(runs: &[DiskRun]) -> Vec<(u16, u64, u32)> {
        runs.iter().map(|run| (run.disk.0, run.first, run.pages)).collect()
    }

    /// Of level 6 a strip cannot be read, and the rest of its row does not fit: what it had is
    /// reconstructed from that only on request.
    #[test]
    fn an_unreadable_page_of_a_row_that_does_not_fit_is_written_only_on_request() {
        let (level, strip_pages, group_stripes) = (Level::Raid6, 1, 1);
        let geometry = Geometry { level, disks: 4, strip_pages, group_stripes, disk_pages: 1 };
        let row = StripeId(0);
        let read = [(geometry.data_disk(row, 1), 2), (geometry.parity_disk(row), 3)];
        for repair in [false, true] {
            let mut scrub = Scrub::default();
            scrub.start(1, repair, Instant::ZERO);
            for (disk, fill) in read.into_iter().chain([(geometry.q_disk(row), 99)]) {
                let owner = Owner::Scrub(0);
                let command = DiskCommand { disk, first: 0, pages: 1, write: false, owner };
                scrub.add_bytes(0, &command, OpId(0), Buffer::copy_of(&[fill; PAGE]));
            }
            let (group, disk) = (GroupId(0), DiskId(0));
            let rows = ScrubChunk { group, disk, disks: 4, first: 0, pages: 1 };
            let repairs = scrub.compare(0, rows, &geometry, true);
            assert_eq!(repairs.runs.len(), if repair { 2 } else { 0 });
            assert_eq!(scrub.status().expect("a scrub").inconsistent_rows, 1);
        }
    }

    /// A chunk of a pair: a row that fits, one whose copies differ, two that one of the disks
    /// cannot read, and one that neither can.
    #[test]
    fn rows_are_counted_by_what_is_wrong_with_them() {
        let (level, strip_pages, group_stripes) = (Level::Raid10, 5, 1);
        let geometry = Geometry { level, disks: 4, strip_pages, group_stripes, disk_pages: 20 };
        let owner = Owner::Scrub(6);
        let command =
            |disk, first, write| DiskCommand { disk: DiskId(disk), first, pages: 1, write, owner };
        for repair in [false, true] {
            let mut scrub = Scrub::default();
            scrub.start(5, repair, Instant(3));
            for (disk, page, fill) in
                [(2, 10, 1), (3, 10, 1), (2, 11, 1), (3, 11, 2), (3, 12, 4), (2, 13, 5)]
            {
                let bytes = Buffer::copy_of(&[fill; PAGE]);
                scrub.add_bytes(6, &command(disk, page, false), OpId(0), bytes);
            }
            let (group, disk) = (GroupId(0), DiskId(2));
            let rows = ScrubChunk { group, disk, disks: 2, first: 10, pages: 5 };
            let repairs = scrub.compare(6, rows, &geometry, true);
            assert_eq!(places(&repairs.unreadable), [(2, 12, 1), (3, 13, 1)]);
            let written = [(2, 12, 4), (3, 11, 1), (3, 13, 5)];
            let written = written.into_iter().filter(|(_, page, _)| repair || *page != 11);
            let runs: Vec<(u16, u64, u32)> =
                written.clone().map(|(disk, page, _)| (disk, page, 1)).collect();
            assert_eq!(places(&repairs.runs), runs);
            for (disk, page, fill) in written {
                assert_eq!(*scrub.repair_bytes(6, &command(disk, page, true)), [fill; PAGE]);
            }
            scrub.chunk_done(6, true);
            assert_eq!(scrub.ended(true, |member| member != 3), [2], "the other has failed");
            scrub.flushed(true, Instant(7));
            assert!(scrub.running(), "a flush is in flight");
            scrub.flushed(true, Instant(8));
            let status = scrub.status().expect("a scrub");
            assert!(!status.running && status.whole && status.repair == repair);
            assert_eq!((status.began, status.ended), (Instant(3), Some(Instant(8))));
            assert_eq!((status.rows_done, status.bytes_read), (5, 6 * PAGE as u64));
            let found = (status.inconsistent_rows, status.unreadable_rows, status.lost_rows);
            assert_eq!(found, (1, 2, 1));
            assert_eq!(status.repaired_rows, 2 + u64::from(repair));
            assert_eq!(status.rows_left(), 2 - u64::from(repair));
            let wrong: Vec<(u64, Wrong)> =
                status.ranges.iter().map(|r| (r.first, r.wrong)).collect();
            let (one, other) = (Wrong::Unreadable(2), Wrong::Unreadable(3));
            assert_eq!(wrong, [(11, Wrong::Copies), (12, one), (13, other), (14, Wrong::Lost)]);
            assert!(status.ranges.iter().all(|r| (r.member, r.members, r.pages) == (2, 2, 1)));
        }
    }

    #[test]
    fn a_scrub_that_left_something_out_is_not_whole() {
        let (level, strip_pages, group_stripes) = (Level::Raid10, 4, 1);
        let geometry = Geometry { level, disks: 2, strip_pages, group_stripes, disk_pages: 4 };
        let all = [true; 3];
        for parts in [all, [false, true, true], [true, false, true], [true, true, false]] {
            let [chunk, rows, flush] = parts;
            let mut scrub = Scrub::default();
            scrub.start(1, false, Instant::ZERO);
            let (group, disk) = (GroupId(0), DiskId(0));
            let of_one = ScrubChunk { group, disk, disks: 2, first: 0, pages: 1 };
            scrub.compare(0, of_one, &geometry, true);
            scrub.chunk_done(0, chunk);
            assert!(scrub.ended(rows, |_| true).is_empty());
            scrub.flushed(flush, Instant::ZERO);
            let status = scrub.status().expect("a scrub");
            assert_eq!((status.running, status.whole), (false, parts == all), "{parts:?}");
        }
        // Of two chunks the last is not compared.
        for last in [true, false] {
            let mut scrub = Scrub::default();
            scrub.start(2, false, Instant::ZERO);
            for (index, first, complete) in [(0, 0, true), (1, 1, last)] {
                let (group, disk) = (GroupId(0), DiskId(0));
                let chunk = ScrubChunk { group, disk, disks: 2, first, pages: 1 };
                scrub.compare(index, chunk, &geometry, true);
                scrub.chunk_done(index, complete);
            }
            assert!(scrub.ended(true, |_| true).is_empty());
            scrub.flushed(true, Instant::ZERO);
            let status = scrub.status().expect("a scrub");
            assert_eq!((status.rows_done, status.whole), (1 + u64::from(last), last));
        }
    }

    type Found = (Option<Wrong>, Vec<(u16, bool)>, Vec<(u16, bool)>);

    /// What is found in a row of three data strips, P and perhaps Q, of which some are changed,
    /// each in a sector of its own, and some cannot be read: what is wrong, and then the strips
    /// that were unreadable and those that do not fit, each with whether it becomes what it was.
    /// Members are strips here.
    fn found(level: Level, changed: &[u16], missing: &[u16], locate: bool) -> Found {
        let (disks, strip_pages, group_stripes) = (3 + level.parities(), 1, 1);
        let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages: 4 };
        let (_, at) = geometry.row_of_disk_page(0);
        let data: [&[u8]; 3] = [&[1; PAGE], &[2; PAGE], &[7; PAGE]];
        let (p, q) = parities(&data, level == Level::Raid6);
        let row: Vec<Vec<u8>> = data.iter().map(|s| s.to_vec()).chain([p]).chain(q).collect();
        let disks = disks_of(&geometry, &at);
        let mut pieces = Pieces::default();
        for ((strip, bytes), disk) in (0..).zip(&row).zip(&disks) {
            let mut bytes = Buffer::copy_of(bytes);
            if changed.contains(&strip) {
                bytes[usize::from(strip) * SECTOR + 9] ^= 4;
            }
            if !missing.contains(&strip) {
                pieces.add(*disk, 0, OpId(0), bytes);
            }
        }
        let Finding { wrong, unreadable, misfits } = compare_row(&geometry, &pieces, 0, locate);
        let strip_of = |number: u16| {
            disks.iter().position(|disk| disk.0 == number).expect("a disk of the row") as u16
        };
        let wrong = wrong.map(|wrong| match wrong {
            Wrong::Member(disk) => Wrong::Member(strip_of(disk)),
            Wrong::Unreadable(disk) => Wrong::Unreadable(strip_of(disk)),
            other => other,
        });
        let strips = |pages: Vec<(DiskId, Vec<u8>)>| -> Vec<(u16, bool)> {
            let strip = |(disk, bytes): (DiskId, Vec<u8>)| {
                let strip = strip_of(disk.0);
                (strip, bytes == row[usize::from(strip)])
            };
            pages.into_iter().map(strip).collect()
        };
        (wrong, strips(unreadable), strips(misfits))
    }

    /// With one parity nothing can be located: the parity is computed again.
    #[test]
    fn what_is_wrong_with_a_row_of_one_parity_is_found() {
        for level in [Level::Raid4, Level::Raid5] {
            let found = |changed: &[u16], missing: &[u16]| found(level, changed, missing, true);
            let parity = |fits| -> Found { (Some(Wrong::Parity), vec![], vec![(3, fits)]) };
            let unreadable =
                |strip| -> Found { (Some(Wrong::Unreadable(strip)), vec![(strip, true)], vec![]) };
            assert_eq!(found(&[], &[]), (None, vec![], vec![]));
            assert_eq!(found(&[1], &[]), parity(false));
            assert_eq!(found(&[3], &[]), parity(true));
            assert_eq!(found(&[], &[1]), unreadable(1));
            assert_eq!(found(&[], &[3]), unreadable(3));
            assert_eq!(found(&[], &[0, 1]), (Some(Wrong::Lost), vec![], vec![]));
        }
    }

    #[test]
    fn what_is_wrong_with_a_row_of_two_parities_is_found() {
        let level = Level::Raid6;
        let found =
            |changed: &[u16], missing: &[u16], locate| found(level, changed, missing, locate);
        let member = |strip| -> Found { (Some(Wrong::Member(strip)), vec![], vec![(strip, true)]) };
        let unreadable =
            |strip| -> Found { (Some(Wrong::Unreadable(strip)), vec![(strip, true)], vec![]) };
        assert_eq!(found(&[], &[], true), (None, vec![], vec![]));
        for strip in 0..5 {
            assert_eq!(found(&[strip], &[], true), member(strip));
            assert_eq!(found(&[], &[strip], true), unreadable(strip));
        }
        let both = (Some(Wrong::Parity), vec![], vec![(3, false), (4, false)]);
        assert_eq!(found(&[2], &[], false), both, "it may not be located");
        let each = (Some(Wrong::Parity), vec![], vec![(0, true), (1, true)]);
        assert_eq!(found(&[0, 1], &[], true), each, "in a sector of its own");
        let first_and_q = (Some(Wrong::Parity), vec![(0, true)], vec![(4, true)]);
        assert_eq!(found(&[4], &[0], true), first_and_q);
        let two = (Some(Wrong::Unreadable(0)), vec![(0, true), (2, true)], vec![]);
        assert_eq!(found(&[], &[0, 2], true), two);
        assert_eq!(found(&[], &[0, 1, 3], true), (Some(Wrong::Lost), vec![], vec![]));
    }
}
