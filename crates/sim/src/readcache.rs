//! Read caches over a trace: policies x arrays x sizes x failed disks, all on the same reads
//! (docs/readcache.md).

use crate::parallel::in_parallel;
use destage_engine::array::geometry::Level;
use destage_engine::readcache::optimum::{bound, replay_optimum};
use destage_engine::readcache::penalty::{CHUNK_BLOCKS, Penalties, PenaltyError};
use destage_engine::readcache::replay::{EventHash, Tally, replay};
use destage_engine::readcache::{Access, ReadCache, ReadChoice, ReadPolicyError, check_blocks};
use destage_engine::request::{Direction, PageRange};
use destage_engine::units::Instant;
use destage_workload::source::Source;
use destage_workload::trace::ReadOptions;
use destage_workload::trace::replay::{ReplayOptions, ReplayPace, TraceInput, TraceSource};
use thiserror::Error;

/// Disks that are failed at once, one case of a study.
pub type FailedSet = Vec<u64>;

/// Which disks are failed, case by case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// These cases.
    Cases(Vec<FailedSet>),
    /// Every disk in turn, alone, and the mean over them.
    All,
}

/// What is replayed.
#[derive(Clone, Debug)]
pub struct Study {
    /// The policies.
    pub policies: Vec<ReadChoice>,
    /// What knows the future, after them.
    pub offline: Vec<Offline>,
    /// RAID level.
    pub level: Level,
    /// Numbers of disks.
    pub disks: Vec<u64>,
    /// Cache sizes in blocks.
    pub blocks: Vec<u64>,
    /// Failed disks.
    pub failed: Failed,
}

/// Figures of one policy in one case, or their mean over all failed disks.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The policy, with its parameters.
    pub policy: String,
    /// Disks.
    pub disks: u64,
    /// Blocks of the cache.
    pub blocks: u64,
    /// Failed disks; none in a mean.
    pub failed: Option<FailedSet>,
    /// Block requests.
    pub requests: u64,
    /// Share of them that hit.
    pub hit_ratio: f64,
    /// Requests to the surviving disks per block request.
    pub rgr: f64,
    /// The same over requests that came to a full cache; none if it never was.
    pub rgr_warm: Option<f64>,
    /// By how much RGR is below the plain form's, as a share; for fault-aware forms only.
    pub reduction: Option<f64>,
    /// The same of the warm RGR.
    pub reduction_warm: Option<f64>,
    /// The most that such a policy can reduce RGR where all blocks are equally popular.
    pub ceiling: f64,
}

/// Why a study cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StudyError {
    /// A policy or cache size.
    #[error(transparent)]
    Policy(#[from] ReadPolicyError),
    /// An array.
    #[error(transparent)]
    Penalty(#[from] PenaltyError),
    /// The trace has no reads.
    #[error("{0}: no read in it, so nothing to cache")]
    NoReads(String),
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(String),
}

/// The reads of a trace as block ranges, devices laid one after another; operations that were not
/// recorded count as reads. Only this device, if one is given.
///
/// # Errors
/// The trace cannot be read or has no reads.
pub fn reads_of(
    input: impl Into<TraceInput>,
    read: &ReadOptions,
    device: Option<u32>,
) -> Result<Vec<PageRange>, StudyError> {
    let (reads, file) = requests_of(input, read, device, Direction::Read)?;
    match reads.is_empty() {
        true => Err(StudyError::NoReads(file)),
        false => Ok(reads),
    }
}

/// The requests of a trace in one direction, as [`reads_of`] has them, and the trace's name.
pub(crate) fn requests_of(
    input: impl Into<TraceInput>,
    read: &ReadOptions,
    device: Option<u32>,
    direction: Direction,
) -> Result<(Vec<PageRange>, String), StudyError> {
    let pace = ReplayPace::Closed { outstanding: 1 };
    let replay = ReplayOptions { pace, device, ..ReplayOptions::default() };
    let mut source = TraceSource::open(input, read, &replay, u64::MAX)
        .map_err(|error| StudyError::Trace(error.to_string()))?;
    let mut requests = Vec::new();
    while source.next_at().is_some() {
        let request =
            source.take(Instant::ZERO).map_err(|error| StudyError::Trace(error.to_string()))?;
        source.completed(request.tag, Instant::ZERO);
        if request.direction == direction {
            requests.push(request.range);
        }
    }
    Ok((requests, source.reader().file().to_string()))
}

/// What is named among the policies and knows the whole trace (docs/readcache.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offline {
    /// Belady's optimum.
    Optimum,
    /// The same with penalties taken into account.
    AwareOptimum,
    /// The most hits and the fewest requests that any cache can have; no cache need reach both.
    Bound,
}

impl Offline {
    const ALL: [Offline; 3] = [Offline::Optimum, Offline::AwareOptimum, Offline::Bound];

    /// Its name among policies.
    pub fn name(self) -> &'static str {
        match self {
            Offline::Optimum => "opt",
            Offline::AwareOptimum => "vdf-opt",
            Offline::Bound => "bound",
        }
    }

    /// The one of that name.
    pub fn named(name: &str) -> Option<Offline> {
        Offline::ALL.into_iter().find(|offline| offline.name() == name)
    }
}

/// Different blocks that these reads ask for: their working set.
pub fn working_set(reads: &[PageRange]) -> u64 {
    let mut ranges: Vec<(u64, u64)> = reads.iter().map(|r| (r.first.0, r.end().0)).collect();
    ranges.sort_unstable();
    let (mut blocks, mut end) = (0, 0);
    for (first, after) in ranges {
        blocks += after.saturating_sub(first.max(end));
        end = end.max(after);
    }
    blocks
}

/// What is replayed in one case.
#[derive(Clone, Copy)]
enum Choice<'a> {
    Policy(&'a ReadChoice),
    Offline(Offline),
}

/// One policy in one case.
pub struct Single<'a> {
    policy: Choice<'a>,
    disks: u64,
    blocks: u64,
    failed: FailedSet,
    penalties: Penalties,
}

/// Replays one policy in one case, telling every block request to `event`; its figures, and the
/// hash over its events.
pub fn replay_one(
    single: &Single<'_>,
    reads: &[PageRange],
    event: &mut dyn FnMut(u64, Access),
) -> (Row, u64) {
    let (mut tally, mut hash) = (Tally::default(), EventHash::default());
    let both = &mut |block, access| {
        hash.add(access);
        event(block, access);
    };
    single.replay(reads, &mut tally, both);
    (single.row(&tally), hash.value())
}

impl Single<'_> {
    fn cache(&self, policy: &ReadChoice) -> Box<dyn ReadCache> {
        let mut cache = policy.build(self.blocks).expect("checked before");
        cache.set_fault(Some(self.penalties.clone()));
        cache
    }

    fn replay(&self, reads: &[PageRange], tally: &mut Tally, event: &mut dyn FnMut(u64, Access)) {
        let (blocks, penalties) = (self.blocks as usize, &self.penalties);
        match self.policy {
            Choice::Policy(policy) => {
                replay(&mut *self.cache(policy), reads, penalties, tally, event);
            }
            Choice::Offline(Offline::Bound) => bound(reads, blocks, penalties, tally),
            Choice::Offline(offline) => {
                let aware = offline == Offline::AwareOptimum;
                replay_optimum(reads, blocks, aware, penalties, tally, event);
            }
        }
    }

    fn run(&self, reads: &[PageRange]) -> Row {
        let mut tally = Tally::default();
        match self.policy {
            Choice::Policy(policy) => self.cache(policy).run(reads, &self.penalties, &mut tally),
            Choice::Offline(_) => self.replay(reads, &mut tally, &mut |_, _| {}),
        }
        self.row(&tally)
    }

    fn row(&self, tally: &Tally) -> Row {
        let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
        let is_warm = tally.warm_requests > 0;
        let (lost, all) = self.penalties.lost_share();
        let extra = ratio(lost, all) * (self.penalties.of_lost() - 1) as f64;
        Row {
            policy: match self.policy {
                Choice::Policy(policy) => policy.describe(),
                Choice::Offline(offline) => offline.name().to_string(),
            },
            disks: self.disks,
            blocks: self.blocks,
            failed: Some(self.failed.clone()),
            requests: tally.requests,
            hit_ratio: ratio(tally.hits, tally.requests),
            rgr: ratio(tally.penalty, tally.requests),
            rgr_warm: is_warm.then(|| ratio(tally.warm_penalty, tally.warm_requests)),
            reduction: None,
            reduction_warm: None,
            ceiling: extra / (1.0 + extra),
        }
    }
}

impl Study {
    /// Puts the plain form of each fault-aware policy before it, if it is not there yet.
    ///
    /// # Errors
    /// None for policies of the table.
    pub fn add_plain_forms(&mut self) -> Result<(), StudyError> {
        if let Some(at) = self.offline.iter().position(|o| *o == Offline::AwareOptimum)
            && !self.offline.contains(&Offline::Optimum)
        {
            self.offline.insert(at, Offline::Optimum);
        }
        let mut at = 0;
        while at < self.policies.len() {
            let name = self.policies[at].describe();
            if let Some(plain) = plain_name(&name)
                && self.policies.iter().all(|p| p.describe() != plain)
            {
                self.policies.insert(at, destage_engine::readcache::choose(plain)?);
                at += 1;
            }
            at += 1;
        }
        Ok(())
    }

    fn jobs(&self) -> Result<Vec<Single<'_>>, StudyError> {
        let mut jobs = Vec::new();
        for &disks in &self.disks {
            // An array of a size that makes none is refused before its disks are counted up.
            Penalties::new(self.level, disks, &[], CHUNK_BLOCKS)?;
            let cases = match &self.failed {
                Failed::Cases(cases) => cases.clone(),
                Failed::All => (0..disks).map(|disk| vec![disk]).collect(),
            };
            for &blocks in &self.blocks {
                for failed in &cases {
                    let penalties = Penalties::new(self.level, disks, failed, CHUNK_BLOCKS)?;
                    let policies = self.policies.iter().map(Choice::Policy);
                    for policy in policies.chain(self.offline.iter().copied().map(Choice::Offline))
                    {
                        check_blocks(blocks)?;
                        let (failed, penalties) = (failed.clone(), penalties.clone());
                        jobs.push(Single { policy, disks, blocks, failed, penalties });
                    }
                }
            }
        }
        Ok(jobs)
    }

    /// Whether every part of it can be run, without running any.
    ///
    /// # Errors
    /// The first array or size that cannot be.
    pub fn check(&self) -> Result<(), StudyError> {
        self.jobs().map(drop)
    }

    /// The only policy and case of the study, if it has but one; a bound has no events.
    pub fn single(&self) -> Option<Single<'_>> {
        if self.failed == Failed::All || self.offline == [Offline::Bound] {
            return None;
        }
        let mut jobs = self.jobs().ok()?;
        if jobs.len() == 1 { jobs.pop() } else { None }
    }

    /// Replays everything on this many threads; any of them calls `progress(done, total)`.
    ///
    /// # Errors
    /// The first array or size that cannot be, before anything runs.
    pub fn run(
        &self,
        reads: &[PageRange],
        threads: usize,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<Vec<Row>, StudyError> {
        let jobs = self.jobs()?;
        let policies = self.policies.len() + self.offline.len();
        let total = jobs.len();
        let mut rows = in_parallel(&jobs, threads, &|job| job.run(reads), |_| false, &|done| {
            progress(done, total);
        });
        if self.failed == Failed::All {
            rows = with_means(rows, policies);
        }
        compare_with_plain(&mut rows, policies);
        Ok(rows)
    }
}

/// Adds the means over all failed disks after the rows of each array and size.
fn with_means(rows: Vec<Row>, policies: usize) -> Vec<Row> {
    let mut all = Vec::new();
    for case in rows.chunk_by(|a, b| (a.disks, a.blocks) == (b.disks, b.blocks)) {
        all.extend_from_slice(case);
        for policy in 0..policies {
            let of_policy: Vec<&Row> = case.iter().skip(policy).step_by(policies).collect();
            let mean = |f: &dyn Fn(&Row) -> f64| {
                of_policy.iter().map(|row| f(row)).sum::<f64>() / of_policy.len() as f64
            };
            let is_warm = of_policy[0].rgr_warm.is_some();
            all.push(Row {
                failed: None,
                hit_ratio: mean(&|row| row.hit_ratio),
                rgr: mean(&|row| row.rgr),
                rgr_warm: is_warm.then(|| mean(&|row| row.rgr_warm.unwrap_or(0.0))),
                ceiling: mean(&|row| row.ceiling),
                ..of_policy[0].clone()
            });
        }
    }
    all
}

/// The plain form's name of a fault-aware form's.
pub fn plain_name(name: &str) -> Option<&str> {
    name.strip_prefix("vdf-").or_else(|| name.strip_prefix("adaptive-"))
}

/// Fills in reductions; the rows of one case are adjacent, one row per policy.
fn compare_with_plain(rows: &mut [Row], policies: usize) {
    for case in rows.chunks_mut(policies) {
        for at in 0..case.len() {
            let Some(name) = plain_name(&case[at].policy) else { continue };
            let Some(plain) = case.iter().find(|row| row.policy == name) else { continue };
            let below = |value: f64, of: f64| (of > 0.0).then(|| 1.0 - value / of);
            let reduction = below(case[at].rgr, plain.rgr);
            let warm = case[at].rgr_warm.zip(plain.rgr_warm);
            let reduction_warm = warm.and_then(|(value, of)| below(value, of));
            (case[at].reduction, case[at].reduction_warm) = (reduction, reduction_warm);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::readcache::choose;
    use destage_engine::units::Page;

    fn study() -> Study {
        Study {
            policies: vec![choose("vdf-lru").unwrap(), choose("vdf-lfu").unwrap()],
            offline: vec![],
            level: Level::Raid5,
            disks: vec![5],
            blocks: vec![16, 64],
            failed: Failed::All,
        }
    }

    #[test]
    fn rows_are_the_same_on_any_number_of_threads_and_means_are_means() {
        let mut study = study();
        study.add_plain_forms().unwrap();
        let names: Vec<String> = study.policies.iter().map(ReadChoice::describe).collect();
        assert_eq!(names, ["lru", "vdf-lru", "lfu:ties=oldest", "vdf-lfu:ties=oldest"]);
        let reads: Vec<PageRange> =
            (0..3000u64).map(|i| PageRange::new(Page(i * i % 331), 1)).collect();
        let rows = study.run(&reads, 1, &|_, _| {}).unwrap();
        assert_eq!(rows, study.run(&reads, 3, &|_, _| {}).unwrap());
        assert_eq!(rows.len(), 2 * (5 + 1) * 4);
        let of_vdf_lru: Vec<&Row> = rows[..24].iter().filter(|r| r.policy == "vdf-lru").collect();
        let mean = of_vdf_lru[..5].iter().map(|r| r.rgr).sum::<f64>() / 5.0;
        assert!(of_vdf_lru[5].failed.is_none() && (of_vdf_lru[5].rgr - mean).abs() < 1e-12);
        assert!((of_vdf_lru[0].ceiling - 0.375).abs() < 1e-12);
        let plain = rows.iter().find(|r| r.policy == "lru" && r.failed.is_none()).unwrap();
        let reduction = of_vdf_lru[5].reduction.unwrap();
        assert!((reduction - (1.0 - of_vdf_lru[5].rgr / plain.rgr)).abs() < 1e-12);
    }

    #[test]
    fn a_working_set_counts_each_block_once_and_the_optimum_comes_last() {
        let range = |first, length| PageRange::new(Page(first), length);
        let reads = [range(10, 4), range(0, 2), range(12, 4), range(12, 1), range(1, 1)];
        assert_eq!(working_set(&reads), 8);
        let mut study = Study {
            offline: vec![Offline::Optimum],
            failed: Failed::Cases(vec![vec![]]),
            ..study()
        };
        study.add_plain_forms().unwrap();
        let reads: Vec<PageRange> = (0..3000u64).map(|i| range(i * i % 331, 1)).collect();
        let rows = study.run(&reads, 2, &|_, _| {}).unwrap();
        let names: Vec<&str> = rows[..5].iter().map(|row| row.policy.as_str()).collect();
        assert_eq!(names[4], "opt");
        assert!(rows.chunks(5).all(|case| case.iter().all(|r| r.hit_ratio <= case[4].hit_ratio)));
        assert_eq!(rows[4].reduction, None);
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_runs() {
        let refused = |change: &dyn Fn(&mut Study)| {
            let mut study = study();
            change(&mut study);
            study.check().unwrap_err().to_string()
        };
        assert!(refused(&|s| s.disks.push(2)).contains("not 2"));
        assert!(refused(&|s| s.disks.push(u64::MAX)).contains("1024 disks"));
        assert!(refused(&|s| s.blocks.push(0)).contains("not 0"));
        assert!(refused(&|s| s.failed = Failed::Cases(vec![vec![5]])).contains("disk 5"));
        assert!(refused(&|s| s.level = Level::Raid0).contains("no parity"));
    }
}
