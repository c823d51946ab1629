//! The pace of a scrub, and its status: the volume compares, the server has the clock.

use super::alarms::Alarms;
use super::mismatch::{Mismatches, affected};
use super::refusal::Refusal;
use destage_engine::units::{Duration, Instant, PAGE_BYTES};
use destage_nvslog::superblock::DATA_START;
use destage_report::scrub::{ScrubRange as Range, ScrubStatus as Report};
use destage_report::state::ScrubState;
use destage_served::{ScrubRange, Volume, Wrong};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of the members that a scrub reads per second, by default.
pub(super) const SCRUB_LIMIT: u64 = 100 << 20;
/// The lowest limit that may be given.
pub(super) const SCRUB_LIMIT_MIN: u64 = 1 << 20;
/// How often it is allowed more.
const TICK: Duration = Duration::from_millis(10);
/// An allowance not used for longer than this is forgotten.
const BURST: Duration = Duration::from_millis(100);
/// How often the findings so far are checked.
const LOOK: Duration = Duration::from_secs(60);

/// The scrubs of an array: how fast one goes, and what they found.
pub(super) struct Scrub {
    array: String,
    limit: u64,
    /// It was allowed what is due until then.
    fed: Instant,
    running: bool,
    /// When the findings so far are checked next.
    look: Instant,
    /// The running scrub has raised an alarm already.
    alarmed: bool,
    ended: Option<SystemTime>,
    mismatches: Mismatches,
}

impl Scrub {
    pub(super) fn new(array: &str) -> Scrub {
        Scrub {
            array: array.to_string(),
            limit: 0,
            fed: Instant(0),
            running: false,
            look: Instant(0),
            alarmed: false,
            ended: None,
            mismatches: Mismatches::new(array),
        }
    }

    pub(super) fn mismatches(&self) -> &Mismatches {
        &self.mismatches
    }

    /// Begins a scrub.
    pub(super) fn start(
        &mut self,
        volume: &mut Volume,
        now: Instant,
        repair: bool,
        limit: u64,
    ) -> Result<(), Refusal> {
        volume.start_scrub(now, repair)?;
        (self.limit, self.fed, self.look) = (limit, now, now + LOOK);
        (self.running, self.alarmed, self.ended) = (true, false, None);
        Ok(())
    }

    /// Allows the scrub what is due, and notes its end.
    pub(super) fn feed(&mut self, volume: &mut Volume, now: Instant, alarms: &mut Alarms) {
        if !self.running {
            return;
        }
        if !volume.scrub_running() {
            (self.running, self.ended) = (false, Some(SystemTime::now()));
            if let (Some(report), Some(scrub)) = (self.report(volume, now), volume.scrub_status()) {
                let array = &self.array;
                tracing::info!(target: "destage", array, "scrub: {}", report.line());
                self.mismatches.ended(&scrub, report.ended_unix_s, volume, alarms);
            }
            return;
        }
        if !self.alarmed && now >= self.look {
            self.look = now + LOOK;
            self.alarmed = self.mismatches.look(volume, alarms);
        }
        if !volume.scrub_waits() {
            return;
        }
        let earliest = Instant(now.0.saturating_sub(BURST.0));
        self.fed = self.fed.max(earliest);
        let per_page = PAGE_BYTES * 1_000_000_000 / self.limit;
        let pages = now.since(self.fed).0 / per_page.max(1);
        if pages > 0 {
            self.fed = Instant(self.fed.0 + pages * per_page);
            volume.allow_scrub(now, pages * PAGE_BYTES);
        }
    }

    /// When [`Scrub::feed`] has something to do.
    pub(super) fn deadline(&self, volume: &Volume) -> Option<Instant> {
        (self.running && volume.scrub_waits()).then(|| self.fed + TICK)
    }

    /// The running scrub, or the last one.
    pub(super) fn report(&self, volume: &Volume, now: Instant) -> Option<Report> {
        let scrub = volume.scrub_status()?;
        let state = match (scrub.running, scrub.whole) {
            (true, _) => ScrubState::Running,
            (false, true) => ScrubState::Complete,
            (false, false) => ScrubState::EndedEarly,
        };
        let seconds = scrub.ended.unwrap_or(now).since(scrub.began).0 as f64 / 1e9;
        let per_second = |of: u64| if seconds > 0.0 { of as f64 / seconds } else { 0.0 };
        let speed = per_second(scrub.rows_done);
        let left = (scrub.rows - scrub.rows_done) as f64;
        let ended = self.ended.filter(|_| !scrub.running);
        Some(Report {
            state,
            repair: scrub.repair,
            rows_done: scrub.rows_done,
            rows: scrub.rows,
            bytes_read: scrub.bytes_read,
            mib_per_s: per_second(scrub.bytes_read) / 1048576.0,
            limit_mib_per_s: self.limit as f64 / 1048576.0,
            seconds_to_go: (scrub.running && speed > 0.0).then(|| left / speed),
            inconsistent_rows: scrub.inconsistent_rows,
            unreadable_rows: scrub.unreadable_rows,
            lost_rows: scrub.lost_rows,
            repaired_rows: scrub.repaired_rows,
            rows_left: scrub.rows_left(),
            ranges: scrub.ranges.iter().map(|found| range_report(volume, found)).collect(),
            rows_elsewhere: scrub.rows_elsewhere,
            ended_unix_s: ended
                .and_then(|ended| ended.duration_since(UNIX_EPOCH).ok())
                .map(|since| since.as_secs()),
        })
    }
}

fn range_report(volume: &Volume, range: &ScrubRange) -> Range {
    let ScrubRange { member, members, first, pages, wrong } = *range;
    let what = match wrong {
        Wrong::Parity => "parity does not match the data".to_string(),
        Wrong::Copies => "the copies differ".to_string(),
        Wrong::Member(member) => format!("member {member} is wrong"),
        Wrong::Unreadable(member) => format!("member {member} could not read it"),
        Wrong::Lost => "too little of it can be read".to_string(),
    };
    let found = affected(volume.controller().geometry(), range);
    let bytes = |(first, pages): &(u64, u64)| (first * PAGE_BYTES, pages * PAGE_BYTES);
    Range {
        members: (member, member + members - 1),
        first_byte: DATA_START + first * PAGE_BYTES,
        bytes: pages * PAGE_BYTES,
        what,
        volume: found.runs.iter().map(bytes).collect(),
        volume_bytes: found.pages * PAGE_BYTES,
    }
}
