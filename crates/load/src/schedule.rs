//! When the requests of an open loop are due.

use super::load::{Arrivals, Load, Pace};
use destage_engine::mix::mix;

/// The due times of one worker.
pub(super) struct Schedule {
    arrivals: Arrivals,
    each_ns: f64,
    /// Requests before the next.
    number: u64,
    /// Fraction of a gap by which all are later, so that workers take turns.
    shift: f64,
    next_ns: f64,
    state: u64,
}

impl Schedule {
    /// Worker `number` of `workers` has its share of the load's rate.
    pub(super) fn new(load: &Load, number: usize, workers: usize) -> Option<Schedule> {
        let Pace::Scheduled { iops, arrivals } = load.pace else { return None };
        let each_ns = 1e9 * workers as f64 / iops;
        let shift = number as f64 / workers as f64;
        let state = mix(load.seed ^ mix(number as u64 ^ 0x5c4e_d01e));
        let mut schedule =
            Schedule { arrivals, each_ns, number: 0, shift, next_ns: shift * each_ns, state };
        if arrivals == Arrivals::Poisson {
            schedule.next_ns = schedule.gap_ns();
        }
        Some(schedule)
    }

    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    fn gap_ns(&mut self) -> f64 {
        self.state = self.state.wrapping_add(1);
        // 53 bits, above 0 and at most 1.
        let unit = ((mix(self.state) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -unit.ln() * self.each_ns
    }

    /// Moves to the next request.
    pub(super) fn advance(&mut self) {
        self.number += 1;
        self.next_ns = match self.arrivals {
            Arrivals::Even => (self.number as f64 + self.shift) * self.each_ns,
            Arrivals::Poisson => self.next_ns + self.gap_ns(),
        };
    }

    /// Skips the requests due before this time; returns how many.
    pub(super) fn pass(&mut self, end_ns: u64) -> u64 {
        let mut passed = 0;
        while self.next_ns() < end_ns {
            self.advance();
            passed += 1;
        }
        passed
    }
}

/// Makes timers precise: by default the kernel wakes a thread up to 50 us late.
pub(super) fn wake_on_time() {
    // If that fails, waits are as coarse as the system's.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::load;

    fn dues(arrivals: Arrivals, number: usize, workers: usize) -> Vec<u64> {
        let mut load = load();
        load.pace = Pace::Scheduled { iops: 1_000.0, arrivals };
        let mut schedule = Schedule::new(&load, number, workers).expect("a schedule");
        let mut dues = Vec::new();
        for _ in 0..20_000 {
            dues.push(schedule.next_ns());
            schedule.advance();
        }
        dues
    }

    #[test]
    fn even_distances_do_not_drift_and_workers_take_turns() {
        let dues: [_; 2] = std::array::from_fn(|number| dues(Arrivals::Even, number, 2));
        assert_eq!((dues[0][0], dues[1][0]), (0, 1_000_000));
        assert_eq!((dues[0][10_000], dues[1][10_000]), (20_000_000_000, 20_001_000_000));
    }

    #[test]
    fn poisson_distances_have_their_mean_and_their_spread() {
        let dues = dues(Arrivals::Poisson, 0, 1);
        let gaps: Vec<f64> = dues.windows(2).map(|two| (two[1] - two[0]) as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let spread = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of 20,000 exponential distances of mean 1, to five standard errors.
        assert!((mean - 1.0).abs() < 0.036, "{mean}");
        assert!((spread - 1.0).abs() < 0.11, "{spread}");
    }

    #[test]
    fn what_is_passed_over_is_counted() {
        let mut load = load();
        load.pace = Pace::Scheduled { iops: 1_000.0, arrivals: Arrivals::Even };
        let mut schedule = Schedule::new(&load, 0, 1).expect("a schedule");
        assert_eq!(schedule.pass(1_000_000_000), 1_000);
        assert_eq!(schedule.pass(1_000_000_000), 0);
    }
}
