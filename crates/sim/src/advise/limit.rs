//! What keeps a run from better figures: the disks' time, that of a single access, the NVS, or the
//! destage rate.

use destage_report::advice::AdvisedRun;
use destage_report::model::{DiskUse, RunReport};

/// Disks busier than this have no time left.
const BUSY: f64 = 0.95;

/// Fewer stalled writes than this do not decide a figure.
const STALLED: f64 = 0.001;

/// Disks less busy than this are mostly idle: a command that arrives at random waits there, on
/// average, for less time than it is served (as in a queue with random arrivals).
const IDLE: f64 = 0.5;

/// A response time of more accesses than this is one of requests that wait for each other, even at
/// disks that are mostly idle: they come in bursts.
const ACCESSES: f64 = 5.0;

/// The share of time that the busiest disk is busy.
pub(super) fn busiest(report: &RunReport) -> f64 {
    report.disks.iter().map(|disk| disk.utilisation).fold(0.0, f64::max)
}

/// Milliseconds that the busiest disk takes for a command, on average.
fn access_ms(report: &RunReport) -> f64 {
    let busiest = report.disks.iter().max_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    let of = |disk: &DiskUse| {
        let commands = (disk.reads + disk.writes).max(1);
        1e3 * disk.utilisation * report.measured_s / commands as f64
    };
    busiest.map_or(0.0, of)
}

/// Fills in what limits the run, whose figure is judged, and by which of its figures; `low` is the
/// occupancy, in hundredths of a per cent of the NVS, below which its rate destages nothing.
pub(super) fn limit(report: &RunReport, low: u64, run: &mut AdvisedRun) {
    run.stalled_share = report.stalled_share.unwrap_or(0.0);
    run.full_share = report.time_full;
    run.disk_busy = busiest(report);
    let (busy, stalled) = (100.0 * run.disk_busy, 100.0 * run.stalled_share);
    let occupied = 100.0 * report.occupancy.mean;
    let access_ms = access_ms(report);
    let response_ms = run.value.filter(|_| run.figure != "full");
    let (limit, because) = if run.disk_busy >= BUSY {
        let text = format!(
            "the busiest disk is busy {busy:.0} % of the time, and {stalled:.1} % of writes wait \
             for space"
        );
        ("disk time", text)
    } else if run.stalled_share <= STALLED
        && run.disk_busy < IDLE
        && response_ms.is_some_and(|ms| (0.5 * access_ms..=ACCESSES * access_ms).contains(&ms))
    {
        let text = format!(
            "the busiest disk is busy {busy:.0} % of the time, so requests hardly wait for each \
             other, but each command takes it {access_ms:.1} ms. Neither more NVS nor lower \
             thresholds help: take faster drives, or for reads a read cache"
        );
        ("access time", text)
    } else if run.stalled_share <= STALLED {
        let bursts = if run.disk_busy < IDLE { "come in bursts and " } else { "" };
        let text = format!(
            "next to no write waits for space: requests {bursts}wait for disks, the busiest of \
             which is busy {busy:.0} % of the time"
        );
        ("disk time", text)
    } else if report.occupancy.mean * 10_000.0 > low as f64 {
        let text = format!(
            "{stalled:.1} % of writes wait for space while the busiest disk is busy only \
             {busy:.0} % of the time: the rate keeps the NVS {occupied:.0} % full on average, \
             which leaves too little room for bursts. Try lower thresholds"
        );
        ("rate", text)
    } else {
        let text = format!(
            "{stalled:.1} % of writes wait for space, although the busiest disk is busy only \
             {busy:.0} % of the time and the NVS is {occupied:.0} % full on average: bursts are \
             larger than the NVS"
        );
        ("NVS", text)
    };
    (run.limit, run.because) = (limit.into(), because);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_can_be_the_limit() {
        let judged = |busy: f64, stalled: f64, mean: f64| {
            let disks =
                [0.2, busy].map(|utilisation| DiskUse { utilisation, ..Default::default() });
            let (disks, stalled_share) = (disks.to_vec(), Some(stalled));
            let mut report = RunReport { disks, stalled_share, ..Default::default() };
            report.occupancy.mean = mean;
            let mut run = AdvisedRun::default();
            limit(&report, 4000, &mut run);
            (run.limit, run.because)
        };
        assert_eq!(judged(0.99, 0.5, 0.9).0, "disk time");
        assert_eq!(judged(0.5, 0.001, 0.9).0, "disk time");
        assert_eq!(judged(0.5, 0.05, 0.6).0, "rate");
        let (limit, because) = judged(0.5, 0.05, 0.2);
        assert_eq!(limit, "NVS");
        assert!(because.contains("5.0 % of writes wait for space"), "{because}");
        assert!(because.contains("busy only 50 %"), "{because}");
    }

    #[test]
    fn where_disks_are_idle_the_limit_is_a_single_access() {
        // As many commands in 10 s as make it this busy, each of which takes 15 ms.
        let judged = |busy: f64, figure: &str, value: f64| {
            let reads = (busy * 10.0 / 0.015).round() as u64;
            let disks = vec![DiskUse { utilisation: busy, reads, ..Default::default() }];
            let report = RunReport { disks, measured_s: 10.0, ..Default::default() };
            let (figure, value) = (figure.into(), Some(value));
            let mut run = AdvisedRun { figure, value, ..Default::default() };
            limit(&report, 4000, &mut run);
            (run.limit, run.because)
        };
        let (limit, because) = judged(0.09, "p99", 30.0);
        assert_eq!(limit, "access time");
        for said in ["busy 9 % of the time", "takes it 15.0 ms", "take faster drives"] {
            assert!(because.contains(said), "{because}");
        }
        assert_eq!(judged(0.6, "p99", 30.0).0, "disk time", "requests wait for each other");
        let (limit, because) = judged(0.09, "p99", 300.0);
        assert_eq!(limit, "disk time");
        assert!(because.contains("come in bursts"), "{because}");
        assert_eq!(judged(0.09, "full", 0.5).0, "disk time");
    }
}
