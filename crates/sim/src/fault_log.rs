//! What a run sees of its faults.

use crate::config::FaultPlan;
use destage_engine::array::geometry::Geometry;
use destage_engine::readcache::penalty::Penalties;
use destage_engine::request::PageRange;
use destage_engine::units::{DiskId, Duration, Instant};
use destage_report::model::{FaultUse, WritePenalty};

/// What a run has seen of its faults.
#[derive(Clone, Debug, Default)]
pub struct FaultLog {
    /// Disks that failed.
    pub failed: Vec<u16>,
    /// When the rebuild began.
    pub began: Option<Instant>,
    /// How long it took.
    pub rebuilt: Option<Duration>,
    /// How much of it was done at the end.
    pub share: f64,
    /// Pages that could not be computed.
    pub lost_pages: u64,
    penalties: Option<Penalties>,
    /// Pages written while degraded, and what each costs alone, both ways of counting.
    writes: [u64; 3],
}

impl FaultLog {
    /// A disk has failed.
    pub fn fail(&mut self, geometry: &Geometry, disk: DiskId) {
        self.failed.push(disk.0);
        let failed: Vec<u64> = self.failed.iter().map(|disk| u64::from(*disk)).collect();
        let disks = u64::from(geometry.disks);
        self.penalties = Penalties::new(geometry.level, disks, &failed, geometry.strip_pages).ok();
    }

    /// The disk is rebuilt.
    pub fn rebuilt(&mut self, now: Instant) {
        self.rebuilt = self.began.map(|began| now.since(began));
        self.share = 1.0;
        self.penalties = None;
    }

    /// The host writes while a disk is failed.
    pub fn written(&mut self, range: PageRange) {
        let Some(penalties) = &self.penalties else { return };
        for page in range.first.0..range.end().0 {
            let costs = (penalties.write_paper(page), penalties.write_exact(page));
            let (Some(paper), Some(exact)) = costs else { return };
            self.writes[0] += 1;
            self.writes[1] += paper;
            self.writes[2] += exact;
        }
    }

    /// What the plan has after the end of the run, in sentences; `failed` counts the disks that
    /// did fail.
    pub(crate) fn not_reached(&self, plan: &FaultPlan, failed: usize) -> Vec<String> {
        let late = |what: String, option: &str, at: Instant| {
            let seconds = at.since(Instant::ZERO).as_secs_f64();
            format!(
                "{what}: the run ended before {seconds} s (--{option}). Give an earlier time or a \
                 longer run"
            )
        };
        let mut sentences = Vec::new();
        for (at, disk) in plan.fails.iter().skip(failed) {
            sentences.push(late(format!("disk {disk} did not fail"), "fail", *at));
        }
        if let Some(rebuild) = &plan.rebuild
            && failed > 0
            && self.began.is_none()
        {
            sentences.push(late("the rebuild did not begin".into(), "rebuild", rebuild.at));
        }
        sentences
    }

    /// For the report; none where nothing failed.
    pub fn report(&self, put_off: u64) -> Option<FaultUse> {
        let [pages, paper, exact] = self.writes.map(|n| n as f64);
        (!self.failed.is_empty()).then(|| FaultUse {
            failed: self.failed.clone(),
            rebuild_s: self.rebuilt.map(Duration::as_secs_f64),
            rebuilt_share: self.share,
            lost_pages: self.lost_pages,
            put_off,
            write_penalty: (pages > 0.0)
                .then(|| WritePenalty { paper: paper / pages, exact: exact / pages }),
        })
    }
}
