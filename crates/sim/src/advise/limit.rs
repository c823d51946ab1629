//! What keeps a run from better figures: the disks' time, the NVS, or the destage rate.

use destage_report::advice::AdvisedRun;
use destage_report::model::RunReport;

/// Disks busier than this have no time left.
const BUSY: f64 = 0.95;

/// Fewer stalled writes than this do not decide a figure.
const STALLED: f64 = 0.001;

/// The share of time that the busiest disk is busy.
pub(super) fn busiest(report: &RunReport) -> f64 {
    report.disks.iter().map(|disk| disk.utilisation).fold(0.0, f64::max)
}

/// Fills in what limits the run, and by which of its figures; `low` is the occupancy, in hundredths
/// of a per cent of the NVS, below which its rate destages nothing.
pub(super) fn limit(report: &RunReport, low: u64, run: &mut AdvisedRun) {
    run.stalled_share = report.stalled_share.unwrap_or(0.0);
    run.full_share = report.time_full;
    run.disk_busy = busiest(report);
    let (busy, stalled) = (100.0 * run.disk_busy, 100.0 * run.stalled_share);
    let occupied = 100.0 * report.occupancy.mean;
    let (limit, because) = if run.disk_busy >= BUSY {
        let text = format!(
            "the busiest disk is busy {busy:.0} % of the time, and {stalled:.1} % of writes wait \
             for space"
        );
        ("disk time", text)
    } else if run.stalled_share <= STALLED {
        let text = format!(
            "next to no write waits for space: requests wait for disks, the busiest of which is \
             busy {busy:.0} % of the time"
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
    use destage_report::model::DiskUse;

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
}
