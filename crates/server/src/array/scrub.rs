//! The pace of a scrub, and what the control socket tells of it: the volume compares, the server
//! has the clock.

use super::backend::ArrayBackend;
use super::mismatch::affected;
use destage_engine::units::{Duration, Instant};
use destage_report::scrub::{ScrubRange as Range, ScrubStatus as Told};
use destage_served::{ScrubRange, Wrong};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of the members that a scrub reads in a second, unless told otherwise.
pub const SCRUB_RATE: u64 = 100 << 20;
/// Fewest that may be asked for.
pub const SCRUB_RATE_MIN: u64 = 1 << 20;
/// How often it is allowed more.
const TICK: Duration = Duration::from_millis(10);
/// What it did not use for longer than this is forgotten.
const BURST: Duration = Duration::from_millis(100);
/// How often what was found so far is looked at.
const LOOK: Duration = Duration::from_secs(60);
/// First byte of the data of a member.
const DATA: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// How fast a scrub goes.
#[derive(Default)]
pub(crate) struct Pace {
    rate: u64,
    /// It was allowed what is due up to then.
    fed: Instant,
    running: bool,
    /// When what was found so far is looked at.
    look: Instant,
    /// It was told as an alarm already.
    pub(super) alarmed: bool,
    ended: Option<SystemTime>,
}

impl ArrayBackend {
    /// Begins a scrub.
    pub(crate) fn scrub(&mut self, now: Instant, repair: bool, rate: u64) -> Result<(), String> {
        if rate < SCRUB_RATE_MIN {
            return Err(format!("a scrub reads at least {SCRUB_RATE_MIN} bytes a second"));
        }
        self.volume.start_scrub(now, repair).map_err(|refusal| refusal.to_string())?;
        self.pace =
            Pace { rate, fed: now, running: true, look: now + LOOK, alarmed: false, ended: None };
        Ok(())
    }

    /// Ends the scrub under way.
    pub(crate) fn end_scrub(&mut self, now: Instant) -> Result<(), String> {
        if !self.volume.scrub_running() {
            return Err("no scrub is under way".to_string());
        }
        self.volume.stop_scrub(now);
        Ok(())
    }

    /// Allows the scrub what is due, and notes its end.
    pub(crate) fn feed_scrub(&mut self, now: Instant) {
        if !self.pace.running {
            return;
        }
        if !self.volume.scrub_running() {
            (self.pace.running, self.pace.ended) = (false, Some(SystemTime::now()));
            if let (Some(told), Some(scrub)) = (self.scrub_told(now), self.volume.scrub_status()) {
                let array = self.name();
                tracing::info!(target: "destage", array, "scrub: {}", told.line());
                self.scrub_over(&scrub, told.ended_unix_s);
            }
            return;
        }
        if !self.pace.alarmed && now >= self.pace.look {
            self.pace.look = now + LOOK;
            self.scrub_looks();
        }
        if !self.volume.scrub_waits() {
            return;
        }
        let pace = &mut self.pace;
        let earliest = Instant(now.0.saturating_sub(BURST.0));
        pace.fed = pace.fed.max(earliest);
        let per_page = PAGE * 1_000_000_000 / pace.rate;
        let pages = now.since(pace.fed).0 / per_page.max(1);
        if pages > 0 {
            pace.fed = Instant(pace.fed.0 + pages * per_page);
            self.volume.allow_scrub(now, pages * PAGE);
        }
    }

    /// When [`ArrayBackend::feed_scrub`] has something to do.
    pub(crate) fn scrub_deadline(&self) -> Option<Instant> {
        (self.pace.running && self.volume.scrub_waits()).then(|| self.pace.fed + TICK)
    }

    /// How it stands.
    pub(crate) fn scrub_told(&self, now: Instant) -> Option<Told> {
        let scrub = self.volume.scrub_status()?;
        let state = match (scrub.running, scrub.whole) {
            (true, _) => "running",
            (false, true) => "complete",
            (false, false) => "ended early",
        };
        let seconds = scrub.ended.unwrap_or(now).since(scrub.began).0 as f64 / 1e9;
        let per_second = |of: u64| if seconds > 0.0 { of as f64 / seconds } else { 0.0 };
        let speed = per_second(scrub.rows_done);
        let left = (scrub.rows - scrub.rows_done) as f64;
        let ended = self.pace.ended.filter(|_| !scrub.running);
        Some(Told {
            state: state.to_string(),
            repair: scrub.repair,
            rows_done: scrub.rows_done,
            rows: scrub.rows,
            bytes_read: scrub.bytes_read,
            mib_per_s: per_second(scrub.bytes_read) / 1048576.0,
            limit_mib_per_s: self.pace.rate as f64 / 1048576.0,
            seconds_to_go: (scrub.running && speed > 0.0).then(|| left / speed),
            inconsistent_rows: scrub.inconsistent_rows,
            unreadable_rows: scrub.unreadable_rows,
            lost_rows: scrub.lost_rows,
            repaired_rows: scrub.repaired_rows,
            rows_left: scrub.rows_left(),
            ranges: scrub.ranges.iter().map(|found| self.range(found)).collect(),
            rows_elsewhere: scrub.rows_elsewhere,
            ended_unix_s: ended
                .and_then(|ended| ended.duration_since(UNIX_EPOCH).ok())
                .map(|since| since.as_secs()),
        })
    }

    fn range(&self, range: &ScrubRange) -> Range {
        let ScrubRange { member, members, first, pages, wrong } = *range;
        let what = match wrong {
            Wrong::Parity => "parity does not fit the data".to_string(),
            Wrong::Copies => "the copies differ".to_string(),
            Wrong::Member(member) => format!("member {member} is wrong"),
            Wrong::Unreadable(member) => format!("member {member} could not read it"),
            Wrong::Lost => "too little of it can be read".to_string(),
        };
        let found = affected(self.volume.controller().geometry(), range);
        let bytes = |(first, pages): &(u64, u64)| (first * PAGE, pages * PAGE);
        Range {
            members: (member, member + members - 1),
            first_byte: DATA + first * PAGE,
            bytes: pages * PAGE,
            what,
            volume: found.runs.iter().map(bytes).collect(),
            volume_bytes: found.pages * PAGE,
        }
    }
}
