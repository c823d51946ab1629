//! Scrubs of tortured arrays: after each recovery, under load and faults. Rows that a scrub calls
//! wrong must have been made so by a write-through without NVS that a crash interrupted.

use super::run::{End, Run};

use destage_engine::units::{DiskId, PAGE_BYTES};
use destage_served::{ScrubRange, ScrubStatus, Wrong};

/// First byte of the data of a member.
const DATA: u64 = 1 << 20;

impl Run {
    /// Whether a scrub may be started.
    pub(super) fn can_scrub(&self) -> bool {
        self.case.geometry.level.is_redundant() && self.is_in_sync() && self.volume().ready()
    }

    /// Sometimes starts a scrub, or ends one.
    ///
    /// # Errors
    /// It is refused for no reason.
    pub(super) fn maybe_scrub(&mut self) -> Result<(), String> {
        if !self.case.scrubs || self.draws.scrubs.below(60) > 0 {
            return Ok(());
        }
        let (now, repair) = (self.now(), self.draws.scrubs.below(2) == 0);
        let running = self.volume().scrub_status().is_some_and(|scrub| scrub.running);
        let doubted = self.case.pressed && self.volume().status().rows_doubted;
        if running && self.draws.scrubs.below(if doubted { 2 } else { 4 }) == 0 {
            self.volume_mut().stop_scrub(now);
            if doubted && !self.stopped && !self.any_full() {
                // It may not have come to all rows.
                self.read_several_times()?;
            }
        } else if !running && self.can_scrub() && !self.volume().status().stopped {
            self.begin_scrub(repair)?;
        }
        Ok(())
    }

    /// Starts a scrub.
    ///
    /// # Errors
    /// It is refused.
    pub fn begin_scrub(&mut self, repair: bool) -> Result<(), String> {
        let now = self.now();
        (self.scrub_seen, self.wronged_lately) = (false, false);
        let begun = self.volume_mut().start_scrub(now, repair);
        begun.map_err(|why| format!("no scrub: {why}"))?;
        self.collect()
    }

    /// A complete scrub, without new requests.
    ///
    /// # Errors
    /// What it found, or it does not end.
    pub fn scrub(&mut self, repair: bool) -> Result<End, String> {
        self.begin_scrub(repair)?;
        let ended = |run: &Run| run.volume().scrub_status().is_some_and(|scrub| !scrub.running);
        self.drive_until(&ended)
    }

    /// A complete scrub whose findings are not judged.
    ///
    /// # Errors
    /// It does not end.
    pub fn scrub_quietly(&mut self, repair: bool) -> Result<End, String> {
        self.begin_scrub(repair)?;
        self.scrub_seen = true;
        let ended = |run: &Run| run.volume().scrub_status().is_some_and(|scrub| !scrub.running);
        self.drive_until(&ended)
    }

    /// Ends a running scrub.
    ///
    /// # Errors
    /// It does not end.
    pub(super) fn end_scrub(&mut self) -> Result<End, String> {
        let now = self.now();
        self.volume_mut().stop_scrub(now);
        self.collect()?;
        let ended = |run: &Run| run.volume().scrub_status().is_none_or(|scrub| !scrub.running);
        self.drive_until(&ended)
    }

    /// After a recovery: no row may be inconsistent.
    ///
    /// # Errors
    /// One is.
    pub fn check_rows(&mut self) -> Result<End, String> {
        if !self.case.scrubs || !self.can_scrub() {
            return Ok(End::Done);
        }
        self.scrub(false)
    }

    /// Allows a running scrub some bytes, and checks one that has ended.
    pub(super) fn feed_scrub(&mut self) -> Result<(), String> {
        if self.volume().scrub_waits() {
            let (now, bytes) = (self.now(), PAGE_BYTES * self.draws.scrubs.below(200));
            self.volume_mut().allow_scrub(now, bytes);
        }
        let Some(scrub) = self.volume().scrub_status() else { return Ok(()) };
        if scrub.repair && !self.scrub_seen {
            self.note_wrong_repairs();
        }
        if scrub.running || core::mem::replace(&mut self.scrub_seen, true) {
            return Ok(());
        }
        if scrub.repaired_rows > 0 {
            self.world.maybe_crash_soon(2);
        }
        if scrub.repair {
            self.check_right_strips()?;
        }
        self.counts.scrubs += 1;
        self.counts.rows_scrubbed += scrub.rows_done;
        if self.expected.is_empty() {
            self.judge(&scrub)?;
        } else {
            self.judge_injected(&scrub)?;
        }
        if scrub.whole && scrub.repair && !self.wronged_lately && !self.wronged_in_memory {
            self.holes.clear();
            self.wronged.clear();
        }
        Ok(())
    }

    fn judge(&self, scrub: &ScrubStatus) -> Result<(), String> {
        let explained = |range: &ScrubRange| {
            let mut pages = range.first..range.first + range.pages;
            let holes = |page| self.holes.contains(&self.group_of(range.member, page));
            match range.wrong {
                // To media that could not be read while a member had failed.
                Wrong::Lost => {
                    pages.all(|page| self.is_row_lost(range.member, page) || holes(page))
                }
                Wrong::Unreadable(member) => {
                    pages.all(|page| self.lacked(DiskId(member), page) || holes(page))
                }
                _ => pages.all(holes),
            }
        };
        let wrong = scrub.ranges.iter().find(|range| !explained(range));
        let elsewhere = scrub.rows_elsewhere > 0 && self.holes.is_empty();
        let lost_rows = if self.may_lack_rows() { 0 } else { scrub.lost_rows };
        if wrong.is_some() || elsewhere && scrub.inconsistent_rows + lost_rows > 0 {
            return Err(format!("a scrub found what should not be: {wrong:?} of {scrub:?}"));
        }
        Ok(())
    }

    /// Exactly what was done to the members must have been found.
    fn judge_injected(&self, scrub: &ScrubStatus) -> Result<(), String> {
        let mut found: Vec<(u16, u64)> = Vec::new();
        for range in &scrub.ranges {
            found.extend((range.first..range.first + range.pages).map(|page| (range.member, page)));
        }
        found.sort_unstable();
        let mut expected = self.expected.clone();
        expected.sort_unstable();
        if found != expected || scrub.inconsistent_rows != expected.len() as u64 {
            return Err(format!("{expected:?} are wrong, but the scrub says {scrub:?}"));
        }
        Ok(())
    }

    /// The write group of a page of a member.
    pub(super) fn group_of(&self, member: u16, page: u64) -> u64 {
        let geometry = &self.case.geometry;
        if geometry.level.is_mirrored() {
            return page / geometry.strip_pages * geometry.data_strips() + u64::from(member / 2);
        }
        geometry.row_of_disk_page(page).0.0
    }

    /// Flips a bit of a page of a member; the next scrub must find it.
    pub fn flip(&mut self, member: u16, page: u64, bit: u64) {
        self.flip_bit(member, page, bit);
        let first = if self.case.geometry.level.is_mirrored() { member & !1 } else { 0 };
        if !self.expected.contains(&(first, page)) {
            self.expected.push((first, page));
        }
    }

    pub(super) fn flip_bit(&mut self, member: u16, page: u64, bit: u64) {
        let offset = DATA + page * PAGE_BYTES + bit / 8;
        let disk = &mut self.world.members[usize::from(member)];
        let mut sector = vec![0; 512];
        let from = offset / 512 * 512;
        disk.read(from, &mut sector).expect("a sector that can be read");
        sector[(offset - from) as usize] ^= 1 << (bit % 8);
        disk.put(from, &sector);
    }

    /// What was flipped is right again.
    pub fn forget_flips(&mut self) {
        self.expected.clear();
    }

    /// The running scrub, or the last one.
    pub fn last_scrub(&self) -> Option<ScrubStatus> {
        self.volume().scrub_status()
    }

    /// The power fails in the midst of it, and the array comes back.
    ///
    /// # Errors
    /// It does not.
    pub fn crash_and_open(&mut self) -> Result<(), String> {
        self.crash(super::Survivors::Random);
        self.open().map(|_| ())
    }
}
