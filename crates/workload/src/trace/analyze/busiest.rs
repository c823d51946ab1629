//! The second and the 60 consecutive seconds with the most requests. Seconds are
//! counted from the first request.

use std::collections::VecDeque;

use destage_report::trace::{Peak, Totals};

/// Seconds of a minute.
const MINUTE: u64 = 60;

/// What the seconds of a trace have, one after the other.
#[derive(Default)]
pub(super) struct Busiest {
    second: Option<(u64, Totals)>,
    minute: Option<(u64, Totals)>,
    /// The seconds with requests among the last 60, and their sum.
    last: VecDeque<(u64, Totals)>,
    sum: Totals,
}

impl Busiest {
    /// The next second, with what it has. Those between two calls have no requests.
    pub(super) fn add(&mut self, second: u64, total: &Totals) {
        if total.requests() == 0 {
            return;
        }
        self.last.push_back((second, *total));
        self.sum = sum(&self.sum, total);
        while let Some((_, left)) = self.last.front().filter(|(first, _)| first + MINUTE <= second)
        {
            self.sum = difference(&self.sum, left);
            self.last.pop_front();
        }
        // The earliest of the busiest minutes ends with a second that has requests, or is the
        // first of all.
        let start = (second + 1).saturating_sub(MINUTE);
        let minute = (start, self.sum);
        for (peak, found) in [(&mut self.second, (second, *total)), (&mut self.minute, minute)] {
            if peak.is_none_or(|(_, most)| found.1.requests() > most.requests()) {
                *peak = Some(found);
            }
        }
    }

    /// The busiest second; none if the trace is shorter.
    pub(super) fn second(&self, duration_s: f64) -> Option<Peak> {
        let (second, total) = self.second.filter(|_| duration_s >= 1.0)?;
        Some(Peak { start_s: second as f64, length_s: 1.0, total })
    }

    /// The busiest minute: all of a trace that is shorter.
    pub(super) fn minute(&self, duration_s: f64, all: &Totals) -> Peak {
        match self.minute.filter(|_| duration_s >= MINUTE as f64) {
            Some((second, total)) => {
                Peak { start_s: second as f64, length_s: MINUTE as f64, total }
            }
            None => Peak { start_s: 0.0, length_s: duration_s, total: *all },
        }
    }
}

fn sum(one: &Totals, other: &Totals) -> Totals {
    Totals {
        reads: one.reads + other.reads,
        writes: one.writes + other.writes,
        read_bytes: one.read_bytes + other.read_bytes,
        written_bytes: one.written_bytes + other.written_bytes,
    }
}

pub(super) fn difference(now: &Totals, before: &Totals) -> Totals {
    Totals {
        reads: now.reads - before.reads,
        writes: now.writes - before.writes,
        read_bytes: now.read_bytes - before.read_bytes,
        written_bytes: now.written_bytes - before.written_bytes,
    }
}
