//! Destages: pages are frozen, the intent is logged, parity is computed and its checksums are
//! logged, disks are flushed, and pages are released.

use super::Volume;
use crate::Buffer;
use crate::defect::Defect;
use crate::destages::{Computing, Uncomputable, pages_of_group};
use crate::io::{Device, OpKind};
use crate::log::{RowSums, Waiter};
use crate::lost::runs;
use crate::ops::Purpose;
use crate::request::{Alarm, Refusal};
use crate::settings::Ack;
use destage_engine::array::disks::RowDisks;
use destage_engine::array::safe::is_set;
use destage_engine::event::Event;
use destage_engine::flushes::{Durability, Flushed};
use destage_engine::request::PageRange;
use destage_engine::units::{DiskId, GroupId, PAGE_BYTES};
use std::collections::BTreeMap;

impl Volume {
    /// Whether destages log an intent: without redundancy a row cannot become inconsistent.
    fn intends(&self) -> bool {
        self.controller().geometry().level.is_redundant()
    }

    /// The engine begins a destage: its pages are frozen as they are now.
    pub(super) fn begin_destage(&mut self, index: u32, group: GroupId) {
        let mask = self.controller().destage_mask(index).to_vec();
        let pages = pages_of_group(self.controller().geometry(), group);
        let adopted = self.destages.take_adopted(group);
        let through = adopted.unwrap_or(self.log.last_version());
        if adopted.is_none() {
            for bit in (0..u64::from(pages.pages)).filter(|bit| is_set(&mask, *bit)) {
                self.pages.freeze(pages.first.0 + bit);
            }
            if self.intends() {
                self.log.intend(pages, through);
            }
        }
        let sums = adopted.map(|_| self.logged_sums(pages));
        self.destages.begin(index, (group, pages), mask, through, sums);
    }

    /// The checksums that the last run logged for a group that it left open.
    fn logged_sums(&self, pages: PageRange) -> BTreeMap<u32, RowSums> {
        let geometry = self.controller().geometry();
        let rows = 0..(geometry.group_stripes * geometry.strip_pages) as u32;
        rows.filter_map(|row| Some((row, self.log.parity_of(pages.first, row)?))).collect()
    }

    /// All reads of a destage are done: parity is computed and its checksums are logged. If that
    /// of any row cannot be computed, nothing is logged or written.
    pub(super) fn intend(&mut self, index: u32) {
        let controller = self.engine.controller();
        let computing = Computing {
            controller,
            geometry: *controller.geometry(),
            pages: &self.pages,
            careless: self.settings.defect.is(Defect::DestagesUncomputableRows),
            skips_sums: self.settings.defect.is(Defect::SkipsParityLog),
            zeroes_others: self.settings.defect.is(Defect::LosesOtherParity),
        };
        match self.destages.compute(index, &computing, self.ops.now()) {
            Ok(computed) => {
                for (page, bytes) in computed.completed {
                    self.pages.complete_destaged(page.0, &bytes);
                }
                for (row, sums) in computed.sums {
                    self.log.parity(computed.first, row, sums);
                }
                if self.intends() || self.settings.ack == Ack::Flush {
                    self.log.wait(Waiter::Intent(index));
                } else {
                    self.step(Event::Intended(index));
                }
            }
            Err(Uncomputable { group, report }) => {
                self.answer_waiting_for(&[group]);
                if let Some(pages) = report {
                    let group_pages = pages_of_group(self.controller().geometry(), group);
                    let (first_page, ranges) = (group_pages.first.0, runs(&pages));
                    self.ops.alarm(Alarm::PagesKept { first_page, ranges });
                }
                self.step(Event::NotComputable(index));
            }
        }
    }

    /// Answers the requests that wait until pages of these groups are on the disks: their destage
    /// cannot be computed, and later writes to such a group wait for it, too. With a log they are
    /// durable as they are. Without one, only memory has these pages: that is an error.
    fn answer_waiting_for(&mut self, groups: &[GroupId]) {
        let per_group = self.controller().geometry().pages_per_group();
        let among = |page: u64| groups.contains(&GroupId(page / per_group));
        let mut waiting = self.requests.disk_waits.take_refused(among);
        if self.at_risk.any(among) {
            waiting.extend(self.at_risk.take_waits());
        }
        let refusal = self.log.lost().then_some(Refusal::Unreadable);
        waiting.into_iter().for_each(|host| self.part_done(host, refusal));
        self.answer_written();
    }

    /// The same for a request that has just begun to wait for these pages.
    pub(super) fn answer_uncomputable_pages(&mut self, pages: &[u64]) {
        if self.destages.retry_at().is_none() {
            return;
        }
        let per_group = self.controller().geometry().pages_per_group();
        let mut groups: Vec<GroupId> = pages.iter().map(|page| GroupId(page / per_group)).collect();
        groups.dedup();
        groups.retain(|group| self.controller().is_kept(*group));
        self.answer_waiting_for(&groups);
    }

    /// The same for requests that wait for all that a lost NVS had.
    pub(super) fn answer_uncomputable_risks(&mut self) {
        let per_group = self.controller().geometry().pages_per_group();
        let kept = |page: u64| self.controller().is_kept(GroupId(page / per_group));
        if self.destages.retry_at().is_some() && self.at_risk.any(kept) {
            let waiting = self.at_risk.take_waits();
            waiting.into_iter().for_each(|host| self.part_done(host, Some(Refusal::Unreadable)));
        }
    }

    /// Tries again what could not be computed, when it is time.
    pub(super) fn retry_uncomputable(&mut self) {
        if !self.controller().is_paused() && self.destages.take_retry(self.ops.now()) {
            self.step(Event::TryKept);
            if self.controller().kept_pages() > 0 {
                // Pages that a rebuild or a scrub holds at the moment.
                self.destages.retry_later(self.ops.now());
            }
        }
    }

    /// A destage waits until what it has written is durable.
    pub(super) fn flush_disks(&mut self, index: u32) {
        let (engine, rebuilds) = (&self.engine, &self.rebuilds);
        let gone = |member| engine.failed(member) && !rebuilds.is_attached(member);
        let flushed = self.flushes.wanted(index, self.ops.now(), gone);
        self.destages_flushed(flushed);
    }

    /// How destages become durable on a member from now on: another device takes its place, of
    /// which the driver knows this. Until then it is assumed to have a volatile cache.
    pub fn set_durability(&mut self, member: u16, how: Durability) {
        self.flushes.set(member, how);
    }

    /// How large the drives of the members are, of which the array may use a part.
    pub fn set_drive_bytes(&mut self, bytes: u64) {
        self.engine.controller_mut().set_drive_pages(bytes / PAGE_BYTES);
    }

    /// How destages become durable on a member.
    #[must_use]
    pub fn durability(&self, member: u16) -> Durability {
        self.flushes.how(member)
    }

    /// Begins the flushes of members that are due.
    pub(super) fn flush_members(&mut self) {
        for member in 0..self.controller().geometry().disks {
            if !self.flushes.begin(member, self.ops.now()) {
                continue;
            }
            let one = self.settings.defect.is(Defect::SkipsFlushesOfOneMember) && member == 0;
            if one || self.settings.defect.is(Defect::ReleasesBeforeFlush) {
                self.member_flushed(member);
            } else {
                self.ops.push(Device::Member(member), Purpose::Flush, OpKind::Flush);
            }
        }
    }

    /// A member is flushed.
    pub(super) fn member_flushed(&mut self, member: u16) {
        let flushed = self.flushes.done(member, self.ops.now());
        self.destages_flushed(flushed);
    }

    pub(super) fn destages_flushed(&mut self, destages: impl IntoIterator<Item = Flushed>) {
        destages.into_iter().for_each(|flushed| self.destages.hold_flushed(flushed));
        self.continue_flushed();
    }

    /// Continues destages that are flushed, if all is recorded that they build on: which members
    /// are out of date, and which pages are no longer lost. After a release, a crash before that
    /// would leave older pages, or errors, and the NVS would have nothing.
    pub(super) fn continue_flushed(&mut self) {
        if self.devices.changing() || self.devices.records.unrecorded() {
            return;
        }
        for flushed in self.destages.take_held_flushes() {
            self.step(Event::Flushed(flushed.index, flushed.ok));
        }
    }

    /// A page is in the stripe memory: it counts as read.
    pub(super) fn recall(&mut self, index: u32, disk: DiskId, row: u64) {
        let Some(bytes) = self.stripes.get(row, disk) else {
            // The engine knows what is kept; without it the row could not be computed.
            debug_assert!(false, "the stripe memory has no page {row} of member {}", disk.0);
            return;
        };
        let mut buffer = Buffer::zeroed(bytes.len());
        buffer.copy_from_slice(bytes);
        let op = self.ops.next_id();
        self.destages.recall(index, disk, row, op, buffer);
    }

    /// Pages of a row are on the disks as a destage wrote them: they are kept.
    pub(super) fn remember(&mut self, index: u32, row: u64, disks: RowDisks) {
        let geometry = self.engine.controller().geometry();
        for disk in disks.iter() {
            let bytes = self.destages.written(index, disk, row, geometry, &self.pages);
            self.stripes.keep(row, disk, bytes);
        }
    }

    /// A destage is on the disks.
    pub(super) fn released(&mut self, index: u32) {
        let geometry = self.engine.controller().geometry();
        let released = self.destages.release(index, geometry, self.ops.now());
        let first_page = released.pages.first.0;
        if released.was_kept {
            self.ops.alarm(Alarm::PagesDestaged { first_page });
        }
        self.log.release(released.pages, released.through);
        let bits = 0..u64::from(released.pages.pages);
        for bit in bits.filter(|bit| is_set(&released.mask, *bit)) {
            if let Some(version) = self.pages.release(first_page + bit) {
                self.requests.disk_waits.page_written(first_page + bit, version);
                self.at_risk.look_at(first_page + bit, &self.pages);
            }
        }
        self.answer_written();
    }
}
