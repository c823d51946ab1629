//! Whether what is written is destaged: dirty pages neither rise nor fall (docs/simulator.md,
//! "Settled").

use destage_engine::counters::Counters;
use destage_engine::units::{Duration, Instant};
use destage_report::model::{Balance, BalanceState, RunReport};
use std::collections::VecDeque;

/// Parts that a line is fitted to, at least, where there are as many.
const PARTS: usize = 16;

/// Parts kept; when there are more, neighbours are joined.
const PARTS_MAX: usize = 1024;

/// A slope within this many of its standard errors does not count.
const ERRORS: f64 = 3.0;

/// A load that leaves more than this share of what it dirtied says so.
const LEFT_MAX: f64 = 0.05;

/// Looks per window that a warm-up takes; it ends by what the last half of them saw.
const LOOKS: usize = 8;

/// A warm-up ends after this time at the latest, or after as many requests.
const WARM_UP_MAX: Duration = Duration::from_secs(6 * 3600);
const WARM_UP_REQUESTS: u64 = 20_000_000;

/// Nor does one that over the window comes to less than this share of the pages dirtied, unless the
/// array destages as fast as it can, and the NVS is full before as many windows have passed.
const SHARE: f64 = 0.02;
const SOON: f64 = 20.0;

/// Standard deviations of the number of random arrivals by which a load may miss its target.
const DEVIATIONS: f64 = 3.0;

/// Share of its target that a load is served at least, if it is not overloaded.
pub(crate) const SERVED: f64 = 0.97;

/// How the warning begins of a run that serves less than its target, that ends behind its trace,
/// and that measures a load or response times that rise or fall.
pub(crate) const OVERLOADED: &str = "overloaded";
pub(crate) const BEHIND: &str = "does not keep up";
pub(crate) const UNSETTLED: &str = "not settled";

/// Whether the array served less than was asked of it.
pub(crate) fn is_overloaded(run: &RunReport) -> bool {
    warns(run, OVERLOADED) || warns(run, BEHIND)
}

/// Whether another window would measure something else.
pub(crate) fn is_unsettled(run: &RunReport) -> bool {
    warns(run, UNSETTLED)
}

fn warns(run: &RunReport, beginning: &str) -> bool {
    run.warnings.iter().any(|warning| warning.starts_with(beginning))
}

/// Whether requests per second reach this share of a target, but for the chance of random arrivals.
pub(crate) fn reaches(share: f64, target: f64, iops: f64, seconds: f64) -> bool {
    iops >= share * target - DEVIATIONS * (target / seconds).sqrt()
}

/// The mean number of dirty pages in each of equal parts of a stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Dirty {
    part: Duration,
    means: Vec<f64>,
    /// Page-nanoseconds of the part that is not complete, and when it began.
    integral: u128,
    began: Instant,
    now: Instant,
}

impl Dirty {
    /// From now on, in parts of this length.
    pub(crate) fn new(now: Instant, part: Duration) -> Dirty {
        let part = part.max(Duration(1));
        Dirty { part, means: Vec::new(), integral: 0, began: now, now }
    }

    /// Until now there were `pages` dirty pages.
    pub(crate) fn advance(&mut self, now: Instant, pages: u64) {
        while now.since(self.began) >= self.part {
            let end = self.began + self.part;
            self.add(end, pages);
            self.means.push(self.integral as f64 / self.part.0 as f64);
            (self.integral, self.began) = (0, end);
            if self.means.len() == PARTS_MAX {
                self.part += self.part;
                self.means =
                    self.means.chunks_exact(2).map(|m| f64::midpoint(m[0], m[1])).collect();
            }
        }
        self.add(now, pages);
    }

    /// Forgets all complete parts but the last ones.
    fn keep_last(&mut self, parts: usize) {
        self.means.drain(..self.means.len().saturating_sub(parts));
    }

    fn add(&mut self, until: Instant, pages: u64) {
        self.integral += u128::from(pages) * u128::from(until.since(self.now).0);
        self.now = until;
    }

    /// Complete parts so far.
    pub(crate) fn parts(&self) -> usize {
        self.means.len()
    }

    /// Over the last `parts` of them: which way dirty pages go, and how fast, in pages per second.
    pub(crate) fn slope(&self, parts: usize, ends: Ends, room: Room) -> (BalanceState, f64) {
        let last = &self.means[self.means.len().saturating_sub(parts)..];
        let joined = (last.len() / PARTS).max(1);
        let points: Vec<f64> = last
            .rchunks_exact(joined)
            .rev()
            .map(|part| part.iter().sum::<f64>() / joined as f64)
            .collect();
        let (slope, error) = line(&points);
        let seconds = self.part.as_secs_f64() * joined as f64;
        let change = slope * points.len() as f64;
        let much = change.abs() > SHARE * ends.dirtied().max(1) as f64;
        let left = room.pages.saturating_sub(ends.dirty[1]);
        let fills = ends.dirty[1] > room.full_speed && change * SOON > left as f64;
        let state = match () {
            () if slope.abs() <= ERRORS * error => BalanceState::Settled,
            () if slope > 0.0 && (much || fills) => BalanceState::Rising,
            () if slope < 0.0 && much => BalanceState::Falling,
            () => BalanceState::Settled,
        };
        (state, slope / seconds)
    }
}

/// The slope of the line through these values at equal distances, and its standard error.
fn line(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    if values.len() < 4 {
        return (0.0, 0.0);
    }
    let (mean_x, mean_y) = ((n - 1.0) / 2.0, values.iter().sum::<f64>() / n);
    let about = || (0..).zip(values).map(|(x, y)| (f64::from(x) - mean_x, y - mean_y));
    let squares: f64 = about().map(|(x, _)| x * x).sum();
    let slope = about().map(|(x, y)| x * y).sum::<f64>() / squares;
    let left: f64 = about().map(|(x, y)| (y - slope * x).powi(2)).sum();
    (slope, (left / (n - 2.0) / squares).sqrt())
}

/// Dirty pages that an NVS has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pages: u64,
    /// With more the array destages as fast as it can.
    full_speed: u64,
}

impl Room {
    /// Of an NVS of this many pages, and a high threshold in hundredths of a per cent.
    pub(crate) fn new(pages: u64, high: u64) -> Room {
        let full_speed = (u128::from(pages) * u128::from(high) / 10_000) as u64;
        Room { pages, full_speed }
    }
}

/// Dirty pages at the ends of a window, and pages destaged in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) dirty: [u64; 2],
    pub(crate) destaged: u64,
}

impl Ends {
    /// Pages that became dirty in the window.
    pub(crate) fn dirtied(&self) -> u64 {
        (self.destaged + self.dirty[1]).saturating_sub(self.dirty[0])
    }
}

/// A time as people say it.
pub(crate) fn spoken(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} seconds"),
        s if s < 7200.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} hours", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// What is to be said of a run that has not settled.
pub(crate) fn warning(balance: &Balance) -> Option<String> {
    let Balance { dirty_pages_first: first, dirty_pages_last: last, .. } = balance;
    let (dirtied, destaged) = (balance.dirtied_pages_per_s, balance.destaged_pages_per_s);
    match (balance.state, balance.full_in_s) {
        (BalanceState::Rising, _) if balance.full_speed_in_s.is_some() => Some(format!(
            "{UNSETTLED}: dirty pages rise from {first} to {last}. The array does not destage at \
             full speed before the high threshold, which they may reach in {}: only then it shows \
             whether the NVS becomes full. Warm up for longer",
            spoken(balance.full_speed_in_s.unwrap_or_default())
        )),
        (BalanceState::Rising, Some(full_in)) => Some(format!(
            "{UNSETTLED}: dirty pages rise. This array destages {destaged:.0} pages/s of \
             {dirtied:.0} dirtied: the NVS is full {}",
            if full_in > 0.0 { format!("in {}", spoken(full_in)) } else { "now".into() }
        )),
        (BalanceState::Rising, None) => Some(format!(
            "ends fuller: the NVS has {first} dirty pages at the beginning and {last} at the end \
             of the load; {:.0} % of the pages dirtied were not destaged. A load that lasts longer \
             needs that too",
            100.0 * (1.0 - destaged / dirtied.max(f64::MIN_POSITIVE))
        )),
        (BalanceState::Falling, _) => Some(format!(
            "{UNSETTLED}: dirty pages fall. This array destages {destaged:.0} pages/s, and \
             {dirtied:.0} are dirtied"
        )),
        (BalanceState::Settled | BalanceState::Overloaded, _) => None,
    }
}

/// What came into the NVS in a window of this many seconds, and what left it. Without `dirty` the
/// window is all of a load, which may change: only its ends count.
pub(crate) fn balance(dirty: Option<&Dirty>, ends: Ends, seconds: f64, room: Room) -> Balance {
    let [first, last] = ends.dirty;
    let much = LEFT_MAX * ends.dirtied().max(ends.destaged) as f64;
    let (state, pages_per_s) = match dirty {
        Some(dirty) => dirty.slope(dirty.parts(), ends, room),
        None if last.saturating_sub(first) as f64 > much => (BalanceState::Rising, 0.0),
        None if first.saturating_sub(last) as f64 > much => (BalanceState::Falling, 0.0),
        None => (BalanceState::Settled, 0.0),
    };
    let per_s = |pages: u64| if seconds > 0.0 { pages as f64 / seconds } else { 0.0 };
    let rises = state == BalanceState::Rising && pages_per_s > 0.0;
    let is_full_speed = last > room.full_speed;
    let until = |pages: u64| pages.saturating_sub(last) as f64 / pages_per_s;
    Balance {
        state,
        dirty_pages_first: first,
        dirty_pages_last: last,
        dirtied_pages_per_s: per_s(ends.dirtied()),
        destaged_pages_per_s: per_s(ends.destaged),
        full_speed_in_s: (rises && !is_full_speed).then(|| until(room.full_speed)),
        full_in_s: (rises && is_full_speed).then(|| until(room.pages)),
    }
}

/// A warm-up that ends when dirty pages neither rise nor fall.
#[derive(Debug)]
pub(crate) struct WarmUp {
    dirty: Dirty,
    least: Instant,
    room: Room,
    look: Duration,
    next: Instant,
    /// Dirty pages and pages destaged at the last looks, oldest first.
    looks: VecDeque<(u64, u64)>,
}

impl WarmUp {
    /// At least this long, before a window of this length.
    pub(crate) fn new(least: Duration, window: Duration, room: Room) -> WarmUp {
        let look = Duration(window.0 / LOOKS as u64).max(Duration(1));
        let part = Duration(look.0 * (LOOKS / 2) as u64 / PARTS as u64);
        WarmUp {
            dirty: Dirty::new(Instant::ZERO, part),
            least: Instant::ZERO + least,
            room,
            look,
            next: Instant::ZERO + look,
            looks: VecDeque::from([(0, 0)]),
        }
    }

    /// There were `pages` dirty pages until now. When the warm-up has ended, if it has.
    pub(crate) fn advance(
        &mut self,
        now: Instant,
        pages: u64,
        counters: &Counters,
    ) -> Option<Instant> {
        while self.next <= now {
            let at = self.next;
            self.next += self.look;
            self.dirty.advance(at, pages);
            self.dirty.keep_last(PARTS);
            self.looks.push_back((pages, counters.destaged_pages));
            if self.looks.len() > LOOKS / 2 + 1 {
                self.looks.pop_front();
            }
            let requests = counters.read_requests + counters.write_requests;
            let too_long = at >= self.least + WARM_UP_MAX || requests > WARM_UP_REQUESTS;
            if at >= self.least && (too_long || self.is_settled()) {
                return Some(at);
            }
        }
        self.dirty.advance(now, pages);
        None
    }

    fn is_settled(&self) -> bool {
        let (first, last) = (self.looks[0], self.looks[self.looks.len() - 1]);
        let ends = Ends { dirty: [first.0, last.0], destaged: last.1 - first.1 };
        let complete = self.looks.len() > LOOKS / 2;
        complete && self.dirty.slope(PARTS, ends, self.room).0 == BalanceState::Settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over 320 s a second apart: this many dirty pages.
    fn over(pages: impl Fn(u64) -> u64) -> Dirty {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let mut dirty = Dirty::new(Instant::ZERO, Duration::from_secs(20));
        (1..=320).for_each(|s| dirty.advance(second(s), pages(s)));
        dirty
    }

    #[test]
    fn dirty_pages_that_rise_or_fall_are_seen() {
        let ends = Ends { dirty: [100_000, 100_000], destaged: 320_000 };
        let far = Room::new(10_000_000, 9000);
        let state = |dirty: &Dirty| dirty.slope(16, ends, far).0;
        assert_eq!(state(&over(|_| 500)), BalanceState::Settled);
        assert_eq!(state(&over(|s| 1000 + 30 * s)), BalanceState::Rising);
        assert_eq!(state(&over(|s| 100_000 - 30 * s)), BalanceState::Falling);
        let (_, per_s) = over(|s| 1000 + 30 * s).slope(16, ends, far);
        assert!((per_s - 30.0).abs() < 0.01, "{per_s}");
        // Less than 2 % of what is dirtied, far from full, and near to it.
        let slowly = over(|s| 1000 + 19 * s);
        assert_eq!(state(&slowly), BalanceState::Settled);
        assert_eq!(slowly.slope(16, ends, Room::new(110_000, 9000)).0, BalanceState::Rising);
        assert_eq!(slowly.slope(16, ends, Room::new(120_000, 9000)).0, BalanceState::Settled);
        // A wave that is larger than the rise.
        let wave = |s: u64| if s / 20 % 4 < 2 { 0 } else { 100_000 };
        assert_eq!(state(&over(|s| wave(s) + 30 * s)), BalanceState::Settled);
    }

    /// However long it lasts, it looks back over half a window only.
    #[test]
    fn a_long_warm_up_before_a_short_window_ends() {
        let mut counters = Counters::default();
        let least = Duration::from_secs(400);
        let mut warm_up = WarmUp::new(least, Duration::from_secs(1), Room::new(1 << 30, 9000));
        // Dirty pages rise by 1 % of what is dirtied.
        let ended = (0..42_000u64).find_map(|hundredth| {
            counters.destaged_pages = 1000 * hundredth;
            warm_up.advance(Instant(hundredth * 10_000_000), 10 * hundredth, &counters)
        });
        assert_eq!(ended, Some(Instant::ZERO + least));
    }

    #[test]
    fn parts_are_joined_in_a_long_window() {
        let mut dirty = Dirty::new(Instant::ZERO, Duration(1));
        (0..5000).for_each(|at| dirty.advance(Instant(at), at));
        assert!((512..1024).contains(&dirty.parts()), "{}", dirty.parts());
        let (state, per_s) = dirty.slope(dirty.parts(), Ends::default(), Room::new(5000, 9000));
        assert_eq!(state, BalanceState::Rising);
        assert!((per_s * 1e-9 - 1.0).abs() < 0.01, "{per_s}");
    }
}
