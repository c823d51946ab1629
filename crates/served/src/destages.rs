//! Destages with their bytes: freeze, read, compute parity, intend, write, flush, release.

use crate::Buffer;
use crate::crc::crc32c;
use crate::defect::Defect;
use crate::io::OpKind;
use crate::log::Waiter;
use crate::memory::PAGE;
use crate::ops::Purpose;
use crate::request::{Alarm, Refusal};
use crate::rows::{Pieces, interrupted_row, modified};
use crate::settings::Ack;
use crate::volume::Volume;
use destage_engine::array::disks::DiskSet;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::layout::DiskPage;
use destage_engine::array::safe::{RowAt, SafeMethod, is_set};
use destage_engine::event::DiskCommand;
use destage_engine::event::Event;
use destage_engine::units::{DiskId, Duration, GroupId, Page};
use destage_nvslog::contents::ParityRow;
use destage_nvslog::record::{Pages, SectorSums};
use destage_parity::erasure::parities;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Destages that could not be computed are tried again after this time.
const KEPT_RETRY: Duration = Duration::from_secs(5);

/// A destage under way.
pub(crate) struct Destage {
    group: GroupId,
    mask: Vec<u64>,
    /// It writes what was held up to this version.
    through: u64,
    /// Taken over from the last run.
    adopted: bool,
    pieces: Pieces,
    parity: BTreeMap<(DiskId, u64), Vec<u8>>,
    /// Disks written since they were flushed for it.
    written: DiskSet,
    flushes: u32,
    whole: bool,
    /// Checksums of the parity that it was first to write, by row.
    sums: BTreeMap<u32, ParityRow>,
    /// An alarm says that it cannot be computed.
    kept: bool,
}

/// The new data and parities of a row.
type NewRow = (Vec<u8>, Option<Vec<u8>>);

impl Volume {
    fn pages_of_group(&self, group: GroupId) -> Pages {
        let per_group = self.controller.geometry().pages_per_group();
        Pages::new(Page(group.0 * per_group), per_group as u32)
    }

    fn intends(&self) -> bool {
        self.controller.geometry().level.is_redundant()
    }

    /// The engine begins a destage: its pages are frozen as they are now.
    pub(crate) fn begin(&mut self, index: u32, group: GroupId) {
        let mask = self.controller.destage_mask(index).to_vec();
        let pages = self.pages_of_group(group);
        let first = (0..u64::from(pages.count)).find(|bit| is_set(&mask, *bit));
        self.recent.push(pages.first.0 + first.unwrap_or(0));
        let adopted = self.adopted.remove(&group.0);
        let through = adopted.unwrap_or(self.log.last_version());
        if adopted.is_none() {
            let per_group = u64::from(pages.count);
            for bit in (0..per_group).filter(|bit| is_set(&mask, *bit)) {
                self.memory.freeze(pages.first.0 + bit);
            }
            if self.intends() {
                self.log.intend(pages, through);
            }
        }
        let sums = if adopted.is_some() { self.logged_sums(pages) } else { BTreeMap::new() };
        let destage = Destage {
            group,
            mask,
            through,
            adopted: adopted.is_some(),
            pieces: Pieces::default(),
            parity: BTreeMap::new(),
            written: DiskSet::default(),
            flushes: 0,
            whole: true,
            sums,
            kept: false,
        };
        let index = index as usize;
        if self.destages.len() <= index {
            self.destages.resize_with(index + 1, || None);
        }
        self.destages[index] = Some(destage);
    }

    /// The checksums that the last run logged for a group that it left open.
    fn logged_sums(&self, pages: Pages) -> BTreeMap<u32, ParityRow> {
        let geometry = self.controller.geometry();
        let rows = 0..(geometry.group_stripes * geometry.strip_pages) as u32;
        let logged = |row| self.log.contents.parity(pages.first, row).map(|sums| (row, *sums));
        rows.filter_map(logged).collect()
    }

    fn destage(&mut self, index: u32) -> &mut Destage {
        self.destages[index as usize].as_mut().expect("a destage under way")
    }

    /// Bytes read from a member for the engine.
    pub(crate) fn disk_bytes(&mut self, command: &DiskCommand, bytes: Buffer) {
        let DiskCommand { disk, first, .. } = *command;
        match command.owner {
            destage_engine::event::Owner::Destage(index) => {
                self.destage(index).pieces.add(disk, first, bytes);
            }
            destage_engine::event::Owner::Rebuild(window) => {
                self.windows.entry(window).or_default().pieces.add(disk, first, bytes);
            }
            destage_engine::event::Owner::Scrub(index) => {
                self.scrub_bytes(index, command, bytes);
            }
            destage_engine::event::Owner::HostRead(index) => {
                let read = self.disk_reads.entry(u64::from(index)).or_default();
                read.pieces.add(disk, first, bytes);
            }
        }
    }

    /// The engine wants a disk read or written for a destage.
    pub(crate) fn destage_command(&mut self, index: u32, command: &DiskCommand) {
        if !command.write {
            self.member_io(command, None);
            return;
        }
        let mut bytes = Buffer::zeroed(command.pages as usize * PAGE);
        let geometry = *self.controller.geometry();
        let destage = self.destages[index as usize].as_ref().expect("a destage under way");
        for (i, into) in bytes.chunks_exact_mut(PAGE).enumerate() {
            let place = DiskPage { disk: command.disk, page: command.first + i as u64 };
            match geometry.page_at(place) {
                Some(page) => {
                    let held = self.memory.flying(page.0).expect("a page of the destage");
                    into.copy_from_slice(self.memory.bytes(held));
                }
                None => into.copy_from_slice(&destage.parity[&(place.disk, place.page)]),
            }
        }
        self.destage(index).written.insert(command.disk);
        self.member_io(command, Some(bytes));
    }

    /// All reads of a destage are done: parity is computed and intended. If that of any row cannot
    /// be computed, nothing is logged or written of any.
    pub(crate) fn intend(&mut self, index: u32) {
        let mut destage = self.destages[index as usize].take().expect("a destage under way");
        let redo = self.controller.is_redo(index);
        destage.parity.clear();
        destage.whole = true;
        let geometry = *self.controller.geometry();
        let mut computed = Vec::new();
        let mut lacking = Vec::new();
        for at in geometry.rows(destage.group, &destage.mask) {
            let failed = self.controller.failed_at(at.page);
            let method = geometry.safe_method(&at, &destage.mask, &failed, redo);
            if method == SafeMethod::NoParity {
                continue;
            }
            match self.new_parity(&geometry, &destage, &at, method, redo) {
                Some(new) => computed.push((at, method, new)),
                None => lacking.push(at),
            }
        }
        destage.pieces.clear();
        if lacking.is_empty() {
            self.log_parity(&mut destage, computed);
            self.destages[index as usize] = Some(destage);
            if self.intends() || self.settings.ack == Ack::Flush {
                self.log.wait(Waiter::Intent(index));
            } else {
                self.step(Event::Intended(index));
            }
        } else {
            self.keep_destage(&mut destage, &lacking);
            self.destages[index as usize] = Some(destage);
            self.step(Event::NotComputable(index));
        }
    }

    /// Logs the checksums of a destage's new parity, and keeps that to be written.
    fn log_parity(&mut self, destage: &mut Destage, rows: Vec<(RowAt, SafeMethod, NewRow)>) {
        let first = self.pages_of_group(destage.group).first.0;
        let geometry = *self.controller.geometry();
        for (at, method, (p, q)) in rows {
            let skip = self.log.defect.is(Defect::SkipsParityLog);
            // An intent may have become durable without its checksums: then nothing was written.
            let known = destage.sums.contains_key(&at.row);
            if method != SafeMethod::FullStripe && !known && !skip {
                let (p, q) = (sums(&p), q.as_deref().map(sums));
                self.log.parity(first, at.row, p, q);
                destage.sums.insert(at.row, ParityRow { p, q, sequence: 0 });
            }
            for (disk, bytes) in geometry.parity_disks(at.stripe).zip([Some(p), q]) {
                if let Some(bytes) = bytes {
                    destage.parity.insert((disk, at.page), bytes);
                }
            }
        }
    }

    /// Rows of a destage cannot be computed: it waits, and is tried again later.
    fn keep_destage(&mut self, destage: &mut Destage, lacking: &[RowAt]) {
        // The start does not wait for it: what its rows do not imply is answered with an error.
        self.redoing -= u32::from(core::mem::take(&mut destage.adopted));
        self.try_kept_at.get_or_insert(self.ops.now() + KEPT_RETRY);
        self.refuse_kept(destage);
        if core::mem::replace(&mut destage.kept, true) {
            return;
        }
        let geometry = *self.controller.geometry();
        let first_page = self.pages_of_group(destage.group).first.0;
        let strips = 0..geometry.data_strips() as u16;
        let bits = lacking.iter().flat_map(|at| strips.clone().map(|s| geometry.bit_of(at, s)));
        let dirty = bits.filter(|bit| is_set(&destage.mask, *bit));
        let mut pages: Vec<u64> = dirty.map(|bit| first_page + bit).collect();
        pages.sort_unstable();
        self.alarm(Alarm::PagesKept { first_page, ranges: crate::lost::runs(&pages) });
    }

    /// Without NVS, requests that wait for pages which cannot be destaged are answered with an
    /// error: only memory has these pages.
    fn refuse_kept(&mut self, destage: &Destage) {
        self.answer_kept(&[destage.group]);
    }

    /// Answers the requests that wait for pages of groups whose destage is kept: later writes to
    /// such a group wait for it, too. With a log they are durable as they are.
    fn answer_kept(&mut self, groups: &[GroupId]) {
        let per_group = self.controller.geometry().pages_per_group();
        let kept = |page: u64| groups.contains(&GroupId(page / per_group));
        let waits = self.through.extract_if(.., |t| t.waits.iter().any(|(page, _)| kept(*page)));
        let waits: Vec<u64> = waits.map(|through| through.whole).collect();
        let refusal = self.log.lost().then_some(Refusal::Unreadable);
        waits.into_iter().for_each(|whole| self.part_done(whole, refusal));
    }

    /// The same for a request that has just begun to wait for these pages.
    pub(crate) fn look_for_kept(&mut self, pages: &[u64]) {
        if self.try_kept_at.is_none() {
            return;
        }
        let per_group = self.controller.geometry().pages_per_group();
        let mut groups: Vec<GroupId> = pages.iter().map(|page| GroupId(page / per_group)).collect();
        groups.dedup();
        groups.retain(|group| self.controller.is_kept(*group));
        self.answer_kept(&groups);
    }

    /// Tries again what could not be computed, when it is time.
    pub(crate) fn kept_turn(&mut self) {
        if self.try_kept_at.is_some_and(|at| at <= self.ops.now()) && !self.controller.is_paused() {
            self.try_kept_at = None;
            self.step(Event::TryKept);
            if self.controller.kept_pages() > 0 {
                // What a rebuild or a scrub has now.
                self.try_kept_at.get_or_insert(self.ops.now() + KEPT_RETRY);
            }
        }
    }

    fn new_parity(
        &self,
        geometry: &Geometry,
        destage: &Destage,
        at: &RowAt,
        method: SafeMethod,
        redo: bool,
    ) -> Option<NewRow> {
        let first = self.pages_of_group(destage.group).first.0;
        let strips = 0..geometry.data_strips() as u16;
        let new: Vec<Option<&[u8]>> = strips
            .map(|strip| {
                let bit = geometry.bit_of(at, strip);
                let held = is_set(&destage.mask, bit).then(|| self.memory.flying(first + bit));
                held.map(|held| self.memory.bytes(held.expect("a page of the destage")))
            })
            .collect();
        let disks = destage.pieces.data_of(geometry, at);
        let parity = destage.pieces.parities_of(geometry, at);
        let with_q = geometry.level.parities() > 1;
        // Those that will be written must come of it.
        let failed = self.controller.failed_at(at.page);
        let lost = geometry.parity_disks(at.stripe).map(|disk| failed.contains(disk));
        let all_read = parity.iter().zip(lost).all(|(parity, lost)| lost || parity.is_some());
        if method == SafeMethod::ReadModifyWrite
            && all_read
            && let Some([p, q]) = modified(&disks, &new, parity)
        {
            return Some((p.unwrap_or_else(|| vec![0; PAGE]), q));
        }
        let row: Option<Vec<Cow<'_, [u8]>>> = if redo {
            let row = interrupted_row(&new, &disks, parity, destage.sums.get(&at.row));
            row.map(|row| row.into_iter().map(Cow::Owned).collect())
        } else if let Some(row) = new.iter().zip(&disks).map(|(new, disk)| new.or(*disk)).collect()
        {
            let row: Vec<&[u8]> = row;
            Some(row.into_iter().map(Cow::Borrowed).collect())
        } else {
            let old = destage.pieces.whole_row(geometry, at);
            old.map(|old| with_new(&new, old))
        };
        let careless = self.log.defect.is(Defect::DestagesUncomputableRows);
        let zeros =
            || careless.then(|| with_new(&new, new.iter().map(|_| vec![0; PAGE]).collect()));
        let row = row.or_else(zeros)?;
        let data: Vec<&[u8]> = row.iter().map(|page| &**page).collect();
        Some(parities(&data, with_q))
    }

    /// Flushes the disks that a destage has written.
    pub(crate) fn flush_disks(&mut self, index: u32) {
        let skip = self.log.defect.is(Defect::ReleasesBeforeFlush);
        let disks = core::mem::take(&mut self.destage(index).written);
        if skip || disks.is_empty() {
            self.flushed(index, true);
            return;
        }
        self.destage(index).flushes = disks.iter().count() as u32;
        for disk in disks.iter() {
            let flushes = &mut self.faults.flushes[usize::from(disk.0)];
            flushes.next.push(index);
            self.flush_member(disk.0);
        }
    }

    /// Starts a flush of a member if one is wanted and none is under way.
    fn flush_member(&mut self, member: u16) {
        let failed = self.is_gone(member);
        let flushes = &mut self.faults.flushes[usize::from(member)];
        if flushes.next.is_empty() || !flushes.now.is_empty() {
            return;
        }
        flushes.now = core::mem::take(&mut flushes.next);
        if failed {
            self.member_flush_failed(member);
        } else {
            let device = crate::io::Device::Member(member);
            self.ops.push(device, Purpose::Flush, OpKind::Flush);
        }
    }

    /// A member is flushed.
    pub(crate) fn member_flushed(&mut self, device: crate::io::Device) {
        let crate::io::Device::Member(member) = device else { return };
        let flushes = &mut self.faults.flushes[usize::from(member)];
        for index in core::mem::take(&mut flushes.now) {
            self.one_flushed(index, true);
        }
        self.flush_member(member);
    }

    /// A member has failed while it was to be flushed.
    pub(crate) fn member_flush_failed(&mut self, member: u16) {
        let flushes = &mut self.faults.flushes[usize::from(member)];
        let waiting: Vec<u32> = flushes.now.drain(..).chain(flushes.next.drain(..)).collect();
        waiting.into_iter().for_each(|index| self.one_flushed(index, false));
    }

    fn one_flushed(&mut self, index: u32, whole: bool) {
        let destage = self.destage(index);
        destage.whole &= whole;
        destage.flushes -= 1;
        if destage.flushes == 0 {
            let whole = destage.whole;
            self.flushed(index, whole);
        }
    }

    fn flushed(&mut self, index: u32, whole: bool) {
        if self.faults.changing() {
            // A release now could outlive the news that a disk is out of date.
            self.faults.held.push((index, whole));
        } else {
            self.step(Event::Flushed(index, whole));
        }
    }

    /// A destage is on the disks.
    pub(crate) fn released(&mut self, index: u32, group: GroupId) {
        let destage = self.destages[index as usize].take().expect("a destage under way");
        let pages = self.pages_of_group(group);
        if destage.kept {
            self.alarm(Alarm::PagesDestaged { first_page: pages.first.0 });
            // What could not be read can be: the others perhaps too.
            self.try_kept_at = self.try_kept_at.map(|_| self.ops.now());
        }
        self.log.release(pages, destage.through);
        let per_group = u64::from(pages.count);
        for bit in (0..per_group).filter(|bit| is_set(&destage.mask, *bit)) {
            let page = pages.first.0 + bit;
            if let Some(version) = self.memory.release(page) {
                self.through_page(page, version);
            }
        }
        self.redoing -= u32::from(destage.adopted);
        if !self.through.is_empty() {
            self.look_through();
        }
    }
}

/// The row with its new pages over the others.
fn with_new<'a>(new: &[Option<&'a [u8]>], others: Vec<Vec<u8>>) -> Vec<Cow<'a, [u8]>> {
    let over =
        |(new, old): (&Option<&'a [u8]>, Vec<u8>)| new.map_or(Cow::Owned(old), Cow::Borrowed);
    new.iter().zip(others).map(over).collect()
}

fn sums(page: &[u8]) -> SectorSums {
    let mut sums = SectorSums::default();
    for (sum, sector) in sums.iter_mut().zip(page.chunks_exact(512)) {
        *sum = crc32c(sector);
    }
    sums
}
