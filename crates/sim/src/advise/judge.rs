//! One simulation of a search, judged by the goal.

use super::goal::Judgement;
use super::{LONGER, LONGEST, Search, Variant, is_random, limit};
use crate::compare::{CompareError, run_one};
use crate::options::{OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::settling::{self, UNSETTLED};
use crate::simulator::SimError;
use destage_engine::request::HostError;
use destage_engine::units::Duration;
use destage_report::advice::AdvisedRun;
use destage_report::model::{BalanceState, RunReport};

/// One simulation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Job {
    pub(super) variant: Variant,
    pub(super) pages: u64,
    pub(super) seed: u64,
    /// Load and measured window, as multiples of those asked about.
    pub(super) load: f64,
    pub(super) length: u64,
}

impl Job {
    /// The job that gave this.
    pub(super) fn of(run: &AdvisedRun) -> Job {
        let AdvisedRun { nvs_pages: pages, seed, load, length, .. } = *run;
        Job { variant: variant_of(run), pages, seed, load, length }
    }
}

/// A figure of a long run nearer to its limit than this may miss it with another seed.
const SAFE: f64 = 0.98;

/// Dirty pages that rise by more than this share of the pages dirtied have not settled.
const RISE: f64 = 0.02;

fn close() -> String {
    let margin = 100.0 * (1.0 - SAFE);
    format!("less than {margin:.0} % inside the goal, which another seed may miss")
}

fn variant_of(run: &AdvisedRun) -> Variant {
    Variant { policy: run.policy.clone(), thresholds: run.thresholds.clone() }
}

impl Search<'_> {
    /// Simulates one variant.
    fn judge(&self, job: &Job) -> Result<AdvisedRun, CompareError> {
        let mut options = self.options(&job.variant, job.pages)?;
        options.set("seed", &job.seed.to_string())?;
        if job.load != 1.0 {
            scale_load(&mut options, job.load, self.target_iops)?;
        }
        if job.length > 1 {
            lengthen(&mut options, job.length)?;
        }
        let mut run = AdvisedRun {
            nvs_pages: job.pages,
            policy: job.variant.policy.clone(),
            thresholds: job.variant.thresholds.clone(),
            seed: job.seed,
            load: job.load,
            length: job.length,
            ..AdvisedRun::default()
        };
        let report = match run_one(&job.variant.policy, &options, self.make_source) {
            Err(CompareError::Run {
                error: SimError::Refused { error: HostError::LargerThanNvs { .. }, .. },
                ..
            }) => {
                run.why = "a write is larger than the NVS".into();
                return Ok(run);
            }
            other => other?,
        };
        let judged = self.question.goal.judge(&report)?;
        let why = match judged.ratio {
            // Of the longest runs the figures decide: dirty pages may rise to where they stay.
            ratio if ratio < SAFE && job.length == LONGEST => None,
            ratio if job.length > 1 && (SAFE..1.0).contains(&ratio) => Some(close()),
            _ => unsustained(&report, &options)?,
        };
        let judged = match why {
            Some(why) if judged.why.is_empty() => Judgement { why, ..judged },
            _ => judged,
        };
        run.reached = judged.reached();
        (run.figure, run.value) = (judged.figure, Some(judged.value));
        (run.ratio, run.why) = (Some(judged.ratio), judged.why);
        (run.reads, run.writes) = (report.response.reads.count, report.response.writes.count);
        let config = options.build()?;
        let rate = config.controller.rate.build(config.controller.nvs_pages.0);
        limit::limit(&report, rate.map_or(8000, |rate| rate.thresholds().low), &mut run);
        (run.digest, run.target_iops) = (report.digest, report.target_iops);
        Ok(run)
    }

    /// Simulates these for longer. Where the figures reach the goal but dirty pages rise, a run of
    /// the greatest length decides.
    pub(super) fn judge_longer(&mut self, jobs: &[Job]) -> Result<Vec<AdvisedRun>, CompareError> {
        let of = |job: &Job, length| Job { length, ..job.clone() };
        let longer: Vec<Job> = jobs.iter().map(|job| of(job, LONGER)).collect();
        let mut runs = self.judge_all(&longer)?;
        let undecided = |run: &AdvisedRun| {
            run.why.starts_with(UNSETTLED) && run.ratio.is_some_and(|ratio| ratio < SAFE)
        };
        let longest =
            runs.iter().filter(|run| undecided(run)).map(|run| of(&Job::of(run), LONGEST));
        let longest: Vec<Job> = longest.collect();
        let longest = self.judge_all(&longest)?;
        let places = runs.iter_mut().filter(|run| undecided(run));
        places.zip(longest).for_each(|(place, run)| *place = run);
        Ok(runs)
    }

    /// Simulates those that were not, in parallel.
    pub(super) fn judge_all(&mut self, jobs: &[Job]) -> Result<Vec<AdvisedRun>, CompareError> {
        let known =
            |job: &Job, runs: &[AdvisedRun]| runs.iter().find(|run| Job::of(run) == *job).cloned();
        let missing: Vec<Job> =
            jobs.iter().filter(|job| known(job, &self.runs).is_none()).cloned().collect();
        let work = |job: &Job| self.judge(job);
        let done =
            |done| (self.progress)(&format!("{}: {done} of {} runs", self.step, missing.len()));
        let runs = in_parallel(&missing, self.threads, &work, Result::is_err, &done);
        let runs: Vec<AdvisedRun> = runs.into_iter().collect::<Result<_, CompareError>>()?;
        self.runs.extend(runs);
        Ok(jobs.iter().map(|job| known(job, &self.runs).expect("simulated above")).collect())
    }
}

/// Makes the measured window as many times as long.
fn lengthen(options: &mut RunOptions, times: u64) -> Result<(), OptionError> {
    let config = options.build()?;
    let text = match (options.get("measure"), config.measured) {
        (_, Duration(u64::MAX)) if config.answered_max < u64::MAX => {
            format!("requests:{}", config.answered_max.saturating_mul(times))
        }
        (text, Duration(u64::MAX)) => text.to_string(),
        (_, measured) => (measured.as_secs_f64() * times as f64).to_string(),
    };
    options.set("measure", &text)
}

/// Why a run says nothing of a load that lasts: more was written than was destaged. A trace may end
/// with more dirty pages than it began with as long as the array could destage faster, or the disks
/// had the time for the rest, so that the trace could come again.
fn unsustained(run: &RunReport, options: &RunOptions) -> Result<Option<String>, OptionError> {
    let balance = &run.balance;
    if is_random(options) {
        if balance.state == BalanceState::Rising {
            return Ok(settling::warning(balance));
        }
        let (first, last) = (balance.dirty_pages_first, balance.dirty_pages_last);
        let dirtied = balance.dirtied_pages_per_s * run.measured_s;
        let rises = last.saturating_sub(first) as f64 > RISE * dirtied;
        return Ok(rises.then(|| format!("{UNSETTLED}: dirty pages rise from {first} to {last}")));
    }
    let config = options.build()?;
    let nvs = config.controller.nvs_pages.0;
    let high = config.controller.rate.build(nvs).map_or(9000, |rate| rate.thresholds().high);
    let at_full_speed = balance.dirty_pages_last * 10_000 > nvs * high;
    let rest = balance.dirty_pages_last.saturating_sub(balance.dirty_pages_first) as f64;
    let busy = limit::busiest(run);
    let destaged = balance.destaged_pages_per_s * run.measured_s;
    let lasts = rest * busy < destaged * (1.0 - busy);
    Ok((at_full_speed && rest > 0.0 && !lasts).then(|| {
        format!(
            "the NVS ends {:.0} % full, and {:.0} % when the trace begins: more was written than \
             was destaged, and the busiest disk, {:.0} % busy, had no time for the rest",
            100.0 * balance.dirty_pages_last as f64 / nvs as f64,
            100.0 * balance.dirty_pages_first as f64 / nvs as f64,
            100.0 * busy
        )
    }))
}

/// Multiplies the load: the speed of a trace, the target of a workload (`target_iops`, as a run at
/// the load asked about had it). False if the load has neither, as a closed loop.
pub(super) fn scale_load(
    options: &mut RunOptions,
    load: f64,
    target_iops: Option<f64>,
) -> Result<bool, OptionError> {
    let (name, value) = match (is_random(options), target_iops) {
        (true, None) => return Ok(false),
        (true, Some(target)) => ("iops", target),
        (false, _) if options.get("trace-mode") != "open" => return Ok(false),
        (false, _) => ("trace-speed", options.get("trace-speed").parse().unwrap_or(1.0)),
    };
    options.set(name, &(value * load).to_string())?;
    Ok(true)
}
