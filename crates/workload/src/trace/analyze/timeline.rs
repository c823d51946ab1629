//! What happens when: intervals of every length at once, because the duration is known only at the
//! end. Each length is a multiple of the one before, so an interval ends with one of every shorter
//! length, and a page that is new in an interval is new in each shorter one that ends with it.

use super::busiest::{Busiest, difference};
use destage_report::trace::{Distinct, Hour, Interval, OverTime, Totals, WorkingSet};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const LENGTHS: usize = 19;
/// Lengths in nanoseconds.
const LENGTHS_NS: [u64; LENGTHS] = [
    10 * MILLISECOND,
    50 * MILLISECOND,
    100 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    10 * DAY,
    100 * DAY,
    1000 * DAY,
];
/// Windows of which working sets are reported.
const WINDOWS_NS: [u64; 7] = [SECOND, 10 * SECOND, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY];
/// Intervals shown at most.
const INTERVALS_MAX: u64 = 360;

/// Intervals of one length.
#[derive(Default)]
struct Length {
    /// Everything before the open interval.
    before: Totals,
    /// Intervals that have ended; none if there are too many.
    rows: Option<Vec<Interval>>,
    /// Pages of the intervals that have ended, accessed, read and written: sums, and the most.
    pages_sum: [u64; 3],
    pages_max: [u64; 3],
}

/// Counts over time.
pub(super) struct Timeline {
    /// Everything until now.
    total: Totals,
    footprint_pages: u64,
    /// Pages accessed, read and written in the open interval of each length.
    pages: [[u64; LENGTHS]; 3],
    /// When the open intervals began.
    starts_ns: [u64; LENGTHS],
    lengths: [Length; LENGTHS],
    hours: Vec<Hour>,
    busiest: Busiest,
}

impl Timeline {
    pub(super) fn new() -> Timeline {
        let length = || Length { rows: Some(Vec::new()), ..Length::default() };
        Timeline {
            total: Totals::default(),
            footprint_pages: 0,
            pages: [[0; LENGTHS]; 3],
            starts_ns: [0; LENGTHS],
            lengths: std::array::from_fn(|_| length()),
            hours: Vec::new(),
            busiest: Busiest::default(),
        }
    }

    pub(super) fn total(&self) -> &Totals {
        &self.total
    }

    /// A request at this time, never earlier than the one before.
    pub(super) fn request(&mut self, time_ns: u64, bytes: u64, writes: bool) {
        for (at, length_ns) in LENGTHS_NS.iter().enumerate() {
            if time_ns - self.starts_ns[at] < *length_ns {
                break;
            }
            self.close(at, time_ns / length_ns);
        }
        let total = &mut self.total;
        let (requests, moved) = match writes {
            false => (&mut total.reads, &mut total.read_bytes),
            true => (&mut total.writes, &mut total.written_bytes),
        };
        *requests += 1;
        *moved += bytes;
    }

    /// An access of a page by that request. Last times are those of the page's last access of any
    /// kind and of this kind.
    pub(super) fn page(&mut self, last_ns: Option<u64>, same_kind_ns: Option<u64>, writes: bool) {
        self.footprint_pages += u64::from(last_ns.is_none());
        let kind = 1 + usize::from(writes);
        for (counts, last_ns) in [(0, last_ns), (kind, same_kind_ns)] {
            let new = match last_ns {
                None => LENGTHS,
                Some(last_ns) => self.starts_ns.iter().take_while(|s| **s > last_ns).count(),
            };
            self.pages[counts][..new].iter_mut().for_each(|count| *count += 1);
        }
    }

    /// Ends the open interval of a length. The next one with requests is at `next`, counted from 0.
    fn close(&mut self, at: usize, next: u64) {
        let length = &mut self.lengths[at];
        let index = self.starts_ns[at] / LENGTHS_NS[at];
        let total = difference(&self.total, &length.before);
        let pages = [0, 1, 2].map(|kind| std::mem::take(&mut self.pages[kind][at]));
        for (kind, pages) in pages.into_iter().enumerate() {
            length.pages_sum[kind] += pages;
            length.pages_max[kind] = length.pages_max[kind].max(pages);
        }
        if LENGTHS_NS[at] == SECOND {
            self.busiest.add(index, &total);
        }
        if LENGTHS_NS[at] == HOUR && total.requests() > 0 {
            self.hours.push(Hour { hour: index, total });
        }
        if next > INTERVALS_MAX {
            length.rows = None;
        }
        if let Some(rows) = &mut length.rows {
            let footprint_pages = self.footprint_pages;
            rows.push(Interval { total, pages: distinct(pages), footprint_pages });
            rows.resize(next as usize, Interval { footprint_pages, ..Interval::default() });
        }
        length.before = self.total;
        self.starts_ns[at] = next * LENGTHS_NS[at];
    }

    /// The figures of a trace whose last request was at this time, which is not 0.
    pub(super) fn finish(mut self, last_ns: u64) -> OverTime {
        for (at, length_ns) in LENGTHS_NS.iter().enumerate() {
            self.close(at, last_ns / length_ns + 1);
        }
        let at_of = |ns| LENGTHS_NS.iter().position(|length| *length == ns).expect("in the list");
        let window = |ns: &u64| {
            let (length, windows) = (&self.lengths[at_of(*ns)], last_ns / ns + 1);
            let [pages_mean, read_pages_mean, written_pages_mean] =
                length.pages_sum.map(|sum| sum as f64 / windows as f64);
            WorkingSet {
                window_s: seconds(*ns),
                windows,
                pages_mean,
                read_pages_mean,
                written_pages_mean,
                pages_max: distinct(length.pages_max),
            }
        };
        let working_sets = WINDOWS_NS.iter().filter(|ns| **ns <= last_ns).map(window).collect();
        // A trace spans at most 146 years: the longest interval is never too short.
        let shown = self.lengths.iter().position(|length| length.rows.is_some());
        let shown = shown.unwrap_or(LENGTHS - 1);
        OverTime {
            requests_per_s: self.total.requests() as f64 / seconds(last_ns),
            bytes_per_s: self.total.bytes() as f64 / seconds(last_ns),
            peak_minute: Some(self.busiest.minute(seconds(last_ns), &self.total)),
            peak_second: self.busiest.second(seconds(last_ns)),
            interval_s: seconds(LENGTHS_NS[shown]),
            intervals: self.lengths[shown].rows.take().unwrap_or_default(),
            hours: self.hours,
            working_sets,
        }
    }
}

fn distinct([all, read, written]: [u64; 3]) -> Distinct {
    Distinct { all, read, written }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
