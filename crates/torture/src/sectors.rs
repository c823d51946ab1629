//! Sectors of members that cannot be read where too little else is left of their rows, or that
//! cannot be written again; and what the array may do for that, and not more.

use super::device::Device as Disk;
use super::load::{Kind, Request};
use super::run::Run;
use destage_engine::array::geometry::Redundancy;
use destage_engine::array::layout::DiskPage;
use destage_engine::units::{DiskId, PAGE_BYTES, Page};
use destage_nvslog::superblock::DATA_START;
use destage_served::{Cause, Device, IoClass};

/// Sectors of a page.
const SECTORS: u64 = PAGE_BYTES / 512;

/// First sector of a page of a member.
fn sector(page: u64) -> u64 {
    DATA_START / 512 + page * SECTORS
}

impl Run {
    /// Sometimes sectors of one row cannot be read on several members of an array that is complete:
    /// more than the level tolerates, mostly where something is dirty.
    pub(super) fn maybe_spoil_row(&mut self) {
        if !self.may_spoil(100) || !self.failing().is_empty() {
            return;
        }
        let geometry = self.case.geometry;
        let page = self.page_to_spoil();
        let DiskPage { disk, page: row } = geometry.place(page);
        // Of rows with parity perhaps not the page itself: then it can be destaged all the same.
        let parities = geometry.level.parities() as usize;
        let own = parities == 0 || self.draws.sectors.below(2) == 0;
        let mut members: Vec<u16> = match geometry.level.entry().redundancy {
            Redundancy::None => Vec::new(),
            Redundancy::Mirror => vec![disk.0 ^ 1],
            Redundancy::Parity { .. } => {
                (0..geometry.disks).filter(|other| *other != disk.0).collect()
            }
        };
        while parities > 0 && members.len() > parities + usize::from(!own) {
            members.remove(self.draws.sectors.below(members.len() as u64) as usize);
        }
        members.extend(own.then_some(disk.0));
        for member in members {
            let first = sector(row) + self.draws.sectors.below(SECTORS);
            for sector in first..first + 1 + self.draws.sectors.below(8) {
                self.world.members[usize::from(member)].spoil(sector);
            }
        }
        self.bad_media = true;
        self.many_bad = true;
        self.counts.mishaps += 1;
    }

    /// Sometimes the host reads a page that cannot be read, in a row that a destage is writing.
    ///
    /// # Errors
    /// A check failed.
    pub(super) fn maybe_read_a_row_being_written(&mut self) -> Result<(), String> {
        if !self.case.geometry.level.is_redundant() || !self.failing().is_empty() {
            return Ok(());
        }
        let rows = self.world.member_writes();
        if rows.is_empty() || !self.may_spoil(100) {
            return Ok(());
        }
        let geometry = self.case.geometry;
        let (of, row) = rows[self.draws.latent.below(rows.len() as u64) as usize];
        let member = DiskId(self.draws.latent.below(u64::from(geometry.disks)) as u16);
        let place = DiskPage { disk: member, page: row };
        // One member at a time of a row: a scrub may have seen another.
        let was_bad = |disk: &Disk| disk.was_bad(sector(row)..sector(row + 1));
        let alone = member.0 != of && !self.world.members.iter().any(was_bad);
        let Some(page) = geometry.page_at(place).filter(|_| alone) else { return Ok(()) };
        self.bad_media = true;
        self.world.members[usize::from(member.0)].spoil(sector(row));
        self.counts.mishaps += 1;
        // With pages before it of the same strip: other rows.
        let before = self.draws.latent.below(1 + row % geometry.strip_pages);
        let (first, bytes) = (page.0 - before, (1 + before) * PAGE_BYTES);
        self.submit(Request { kind: Kind::Read, offset: first * PAGE_BYTES, bytes, fua: false })
    }

    /// One of this many times, if nothing is wrong with the media.
    fn may_spoil(&mut self, rare: u64) -> bool {
        let drawn = self.case.mishaps && self.case.pressed && self.draws.sectors.below(rare) == 0;
        let bad = |disk: &Disk| disk.has_bad();
        drawn && !self.bad_media && !self.world.members.iter().any(bad) && self.rows_are_right()
    }

    /// Sectors of members that could not be read in the last life can be now; but sometimes the
    /// next start and the next life still cannot, and what an interrupted destage left in their
    /// rows may not suffice then.
    pub(super) fn maybe_heal(&mut self) {
        let may_stay = self.case.pressed && !self.nvs_lost() && self.rows_are_right();
        if may_stay && self.draws.latent.below(3) == 0 {
            self.many_bad = true;
            return;
        }
        self.world.members.iter_mut().for_each(Disk::heal);
        self.bad_media = false;
    }

    /// Mostly one that is dirty.
    fn page_to_spoil(&mut self) -> Page {
        let dirty = self.dirty_pages();
        Page(match dirty.len() as u64 {
            0 => self.draws.sectors.below(self.case.geometry.volume_pages().0),
            pages => dirty[self.draws.sectors.below(pages) as usize],
        })
    }

    /// Sometimes, while a member is rebuilt, a page in a row that it has already can neither be
    /// read nor written on another member: no repair succeeds.
    pub(super) fn maybe_stick(&mut self) {
        if !self.may_spoil(5) || !self.case.geometry.level.is_redundant() {
            return;
        }
        let geometry = self.case.geometry;
        let Some(rebuild) = self.rebuilds().first().copied() else { return };
        let done = rebuild.progress.done_pages;
        let member = self.draws.sectors.below(u64::from(geometry.disks)) as u16;
        let page = self.draws.sectors.below(done.max(1));
        let place = DiskPage { disk: DiskId(member), page };
        let of_volume = geometry.page_at(place).map(|page| page.0);
        let Some(page) = of_volume.filter(|_| done > 0 && member != rebuild.member) else { return };
        let clean = self.volume().dirty_in(page, page + 1).is_empty();
        // What is rebuilt may be complete when this member fails, and is needed then.
        let fails_soon = self.world.members.iter().any(Disk::fails_soon);
        // Writes may wait for space.
        let writes = self.pending.values().any(|pending| pending.request.kind != Kind::Read);
        if !clean
            || writes
            || fails_soon
            || !self.withdrawn.is_empty()
            || self.may_be_away(member)
            || self.failing().contains(DiskId(member))
        {
            return;
        }
        self.bad_media = true;
        let disk = &mut self.world.members[usize::from(member)];
        let first = sector(place.page);
        (first..first + SECTORS).for_each(|sector| disk.spoil(sector));
        disk.stuck = Some(first..first + SECTORS);
        self.stuck = Some(page);
        self.was_stuck = Some(usize::from(member));
        self.counts.mishaps += 1;
    }

    /// Often the host reads a page that no repair succeeds to write.
    pub(super) fn read_what_is_stuck(&mut self) -> Option<Request> {
        let page = self.stuck.filter(|_| self.draws.sectors.below(3) == 0)?;
        let offset = page * PAGE_BYTES;
        Some(Request { kind: Kind::Read, offset, bytes: PAGE_BYTES, fua: false })
    }

    /// The host writes pages: then they can be written.
    pub(super) fn unstick(&mut self, pages: &std::ops::Range<u64>) {
        if self.stuck.is_some_and(|page| pages.contains(&page)) {
            self.stuck = None;
            self.world.members.iter_mut().for_each(|disk| disk.stuck = None);
        }
    }

    /// A member may fail for what it cannot read only if that was many pages.
    ///
    /// # Errors
    /// It was few.
    pub(super) fn check_failure(&mut self, member: u16, cause: &Cause) -> Result<(), String> {
        let most = self.case.settings.read_errors_max;
        let bad = self.world.members[usize::from(member)].bad_pages;
        match cause {
            Cause::Read(error) if error.class == IoClass::Medium && bad <= most => {
                Err(format!("member {member} failed for {bad} pages that it could not read"))
            }
            _ => self.check_given_up(Device::Member(member), cause),
        }
    }

    /// A device may be given up only for what befell it.
    ///
    /// # Errors
    /// Nothing did.
    pub(super) fn check_given_up(&mut self, device: Device, cause: &Cause) -> Result<(), String> {
        let disk = self.world.device(device);
        let befell = match cause {
            Cause::Read(_) | Cause::Write(_) | Cause::Flush(_) => disk.erred,
            Cause::Stalled(_) => disk.hangs || disk.was_slow,
            Cause::Asked => true,
            Cause::Deleted | Cause::TooManyLost | Cause::Shrunk { .. } => false,
        };
        match befell {
            true => Ok(()),
            false => Err(format!("{device} is given up for nothing: {cause:?}")),
        }
    }

    /// Pages may be kept only if something is lacking that their destage cannot do without: the old
    /// data of what is dirty in the row, or a parity.
    ///
    /// # Errors
    /// All of that is there.
    pub(super) fn check_kept(&self, ranges: &[(u64, u64)]) -> Result<(), String> {
        let redone = self.redoes || !self.failed_lately.is_empty();
        if redone || !self.holes.is_empty() {
            // What an interrupted try wrote is computed otherwise.
            return Ok(());
        }
        let geometry = self.case.geometry;
        for page in ranges.iter().flat_map(|(first, pages)| *first..first + pages) {
            let place = geometry.place(Page(page));
            let mut needs = vec![place.disk];
            if geometry.level.parities() > 0 {
                let (group, at) = geometry.row_of_disk_page(place.page);
                let first = group.0 * geometry.pages_per_group();
                let strips = 0..geometry.data_strips() as u16;
                let dirty = |strip: &u16| {
                    let page = first + geometry.bit_of(&at, *strip);
                    !self.volume().dirty_in(page, page + 1).is_empty()
                };
                let dirty = strips.filter(dirty).map(|strip| geometry.data_disk(at.stripe, strip));
                needs.extend(dirty.chain(geometry.parity_disks(at.stripe)));
            }
            if !needs.iter().any(|disk| self.may_lack(*disk, place.page)) {
                return Err(format!("page {page} is kept, and {needs:?} have what it needs"));
            }
        }
        Ok(())
    }
}
