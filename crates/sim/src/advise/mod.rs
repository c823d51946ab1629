//! How much NVS: the cheapest size, with its policy and thresholds, that reaches a goal
//! (docs/advise.md).
//!
//! Sampled replays of all sizes say where to begin; full simulations on both sides of the answer
//! decide. Of every size that is called a miss, every variant was simulated.

pub mod curve;
pub mod goal;
mod limit;
mod needs;

use crate::compare::{CompareError, MakeSource, run_one};
use crate::config::{SimConfig, Warmup};
use crate::estimate::estimate;
use crate::options::{OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::settling;
use crate::simulator::SimError;
use curve::{CurveSetup, Writes};
use destage_engine::policy::PolicyContext;
use destage_engine::request::{Direction, HostError, PageRange};
use destage_engine::units::Duration;
use destage_report::advice::{Advice, AdvisedRun, CurvePoint, Prices, SizeResult};
use destage_report::model::{BalanceState, RunReport, SCHEMA};
use goal::{Goal, Judgement};
use needs::needs;
use std::collections::BTreeMap;

/// Requests of a load that the sampled replay looks at, at most.
const REQUESTS_MAX: u64 = 20_000_000;

/// Share of the disk work that NVS can save, by the sampled replay, at the size where the search
/// begins.
const KNEE: f64 = 0.5;

/// The answer must also hold over a window this many times as long.
const LONGER: u64 = 10;

/// Greater loads at which the answer is tried, as multiples.
const LOADS: [f64; 4] = [1.05, 1.1, 1.2, 1.5];

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Array, load and all else.
    pub base: RunOptions,
    /// What must be reached.
    pub goal: Goal,
    /// Policies to consider.
    pub policies: Vec<String>,
    /// Thresholds to consider, as `90/80`; one empty text for the rate's own.
    pub thresholds: Vec<String>,
    /// Sizes to consider, in pages, ascending.
    pub sizes_pages: Vec<u64>,
    /// Seeds that the answer is tried with, where anything is random.
    pub seeds: u32,
    /// Replay every write group too, and say how far the sampled curve is from that.
    pub check_curve: bool,
    /// Minimum write groups per sample; normally [`curve::SAMPLE_GROUPS`].
    pub sample_groups: u64,
    /// Headroom: the answer must also hold at this multiple of the load, 1 or more.
    pub load_factor: f64,
    /// What a GiB costs, if that is known.
    pub prices: Option<Prices>,
}

/// Sizes from one to another, four a doubling.
pub fn ladder(from_pages: u64, to_pages: u64) -> Vec<u64> {
    let doublings = (0..64).map(|shift| 1u128 << shift);
    let steps = doublings.flat_map(|base| [4, 5, 6, 7].map(|quarters| base * quarters / 4));
    let wanted = u128::from(from_pages)..=u128::from(to_pages);
    let mut sizes: Vec<u64> =
        steps.filter(|size| wanted.contains(size)).map(|size| size as u64).collect();
    sizes.dedup();
    sizes
}

/// A policy and thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    policy: String,
    thresholds: String,
}

/// One simulation.
#[derive(Clone, Debug, PartialEq)]
struct Job {
    variant: Variant,
    pages: u64,
    seed: u64,
    /// Load and measured window, as multiples of those asked about.
    load: f64,
    length: u64,
}

impl Job {
    /// The job that gave this.
    fn of(run: &AdvisedRun) -> Job {
        let AdvisedRun { nvs_pages: pages, seed, load, length, .. } = *run;
        Job { variant: variant_of(run), pages, seed, load, length }
    }
}

/// A running search.
struct Search<'a> {
    question: &'a Question,
    make_source: &'a MakeSource<'a>,
    threads: usize,
    progress: &'a (dyn Fn(&str) + Sync),
    /// What the load asked about aims at, if it has a rate.
    target_iops: Option<f64>,
    curve: Vec<CurvePoint>,
    runs: Vec<AdvisedRun>,
}

/// Finds the answer; `progress` hears of every step.
///
/// # Errors
/// An option that does not fit, a run that fails, or a goal about requests that there are none of.
pub fn advise(
    question: &Question,
    threads: usize,
    make_source: &MakeSource<'_>,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Advice, CompareError> {
    if question.sizes_pages.is_empty() || question.policies.is_empty() {
        let message = "nothing to choose from: give sizes and policies";
        return Err(OptionError::usage(message.into()).into());
    }
    let mut base = question.base.clone();
    if !base.is_given("as") {
        base.set("as", "served")?;
    }
    if !is_random(&base) && !base.is_given("prefill") && !base.is_given("requests") {
        // Into an empty NVS any load fits for a while.
        base.set("prefill", "on")?;
    }
    let question = &Question { base, ..question.clone() };
    let (curve, runs, target_iops) = (Vec::new(), Vec::new(), None);
    let mut search = Search { question, make_source, threads, progress, target_iops, curve, runs };
    search.sample()?;
    let (low, high) = search.bracket()?;
    search.finish(low, high)
}

impl Search<'_> {
    fn options(&self, variant: &Variant, pages: u64) -> Result<RunOptions, OptionError> {
        let mut options = self.question.base.clone();
        options.set("policy", &variant.policy)?;
        if !variant.thresholds.is_empty() {
            options.set("thresholds", &variant.thresholds)?;
        }
        options.set("nvs", &pages.to_string())?;
        Ok(options)
    }

    /// Sampled replays of every size and policy.
    fn sample(&mut self) -> Result<(), CompareError> {
        let largest = *self.question.sizes_pages.last().expect("checked");
        let thresholds = self.question.thresholds.first().cloned().unwrap_or_default();
        let variant =
            |policy: &String| Variant { policy: policy.clone(), thresholds: thresholds.clone() };
        let mut configs = Vec::new();
        for policy in &self.question.policies {
            configs.push(self.options(&variant(policy), largest)?.build()?);
        }
        if configs[0].track.is_some() {
            let message = "advice is for write groups of stripes, not for --group track";
            return Err(OptionError::usage(message.into()).into());
        }
        (self.progress)("reading the load");
        let mut options = self.options(&variant(&self.question.policies[0]), largest)?;
        options.set("prefill", "off")?;
        let ranges = self.writes(&options, &configs[0])?;
        let shape = shape_of(&configs[0]);
        let writes = Writes::new(
            &ranges,
            configs[0].controller.geometry,
            &shape,
            self.question.sample_groups,
        );
        let sizes = &self.question.sizes_pages;
        let jobs: Vec<(u64, &SimConfig)> =
            sizes.iter().flat_map(|size| configs.iter().map(|config| (*size, config))).collect();
        (self.progress)("sampled replay");
        let work = |job: &(u64, &SimConfig)| {
            let (policy, check) = (&job.1.controller.policy, self.question.check_curve);
            writes.point(policy, &shape, job.0, check)
        };
        let points = in_parallel(&jobs, self.threads, &work, Result::is_err, &|_| {});
        self.curve = points.into_iter().collect::<Result<_, OptionError>>()?;
        Ok(())
    }

    /// A load without a rate of its own cannot be made greater.
    fn check_headroom(&self) -> Result<(), OptionError> {
        let factor = self.question.load_factor;
        if !(1.0..=1000.0).contains(&factor) {
            let message = format!(
                "--load-factor is headroom, 1 to 1000 times the load: not {factor}. For a smaller \
                 load give --iops or --trace-speed"
            );
            return Err(OptionError::usage(message));
        }
        let mut options = self.question.base.clone();
        if factor > 1.0 && !scale_load(&mut options, factor, self.target_iops)? {
            let message = "--load-factor needs a load with a rate: this one issues a request when \
                           another is answered. Give --iops, or --trace-mode open";
            return Err(OptionError::usage(message.into()));
        }
        Ok(())
    }

    /// One simulation of the load asked about, with its headroom.
    fn job(&self, variant: Variant, pages: u64, seed: u64) -> Job {
        Job { variant, pages, seed, load: self.question.load_factor, length: 1 }
    }

    /// The writes of the load, as if each were answered at once.
    fn writes(
        &mut self,
        options: &RunOptions,
        config: &SimConfig,
    ) -> Result<Vec<PageRange>, CompareError> {
        let mut source = (self.make_source)(options, config)?;
        self.target_iops = source.target_iops();
        self.check_headroom()?;
        let end = match config.warmup {
            Warmup::Time(time) | Warmup::Settled(time) => time.0.saturating_add(config.measured.0),
            Warmup::Destaged(_) => u64::MAX,
        };
        let mut writes = Vec::new();
        let mut requests = 0;
        while let Some(at) = source.next_at()
            && at.0 <= end
            && requests < REQUESTS_MAX.min(config.requests_max)
        {
            let request = source.take(at).map_err(|why| OptionError::input(why.to_string()))?;
            source.completed(request.tag, at);
            requests += 1;
            if request.direction == Direction::Write {
                writes.push(request.range);
            }
        }
        if writes.is_empty() {
            let message = "the load has no writes, so an NVS would hold nothing";
            return Err(OptionError::input(message.into()).into());
        }
        Ok(writes)
    }

    /// Disk operations per page at a size, by the best policy.
    fn work_at(&self, pages: u64) -> f64 {
        let of_size = self.curve.iter().filter(|point| point.nvs_pages == pages);
        of_size.map(|point| point.disk_ops_per_page).fold(f64::INFINITY, f64::min)
    }

    /// The first size that saves most of the disk work that can be saved.
    fn knee(&self) -> usize {
        let work: Vec<f64> =
            self.question.sizes_pages.iter().map(|size| self.work_at(*size)).collect();
        let least = work.iter().copied().fold(f64::INFINITY, f64::min);
        let most = work.iter().copied().fold(0.0, f64::max);
        let enough = most - KNEE * (most - least);
        work.iter().position(|work| *work <= enough).unwrap_or(0)
    }

    /// Variants at a size, those first that the sampled replay gives the least work.
    fn variants(&self, pages: u64) -> Vec<Variant> {
        let work = |policy: &String| {
            let index = self.question.policies.iter().position(|p| p == policy).unwrap_or(0);
            let of_size: Vec<&CurvePoint> =
                self.curve.iter().filter(|point| point.nvs_pages == pages).collect();
            of_size.get(index).map_or(f64::INFINITY, |point| point.disk_ops_per_page)
        };
        let mut policies = self.question.policies.clone();
        policies.sort_by(|a, b| work(a).total_cmp(&work(b)));
        let thresholds = &self.question.thresholds;
        let pairs = policies.iter().flat_map(|policy| {
            thresholds.iter().map(|t| Variant { policy: policy.clone(), thresholds: t.clone() })
        });
        pairs.collect()
    }

    fn base_seed(&self) -> Result<u64, OptionError> {
        self.question.base.seed()
    }

    /// Simulates one variant, unless that was done before.
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
        let judged = match unsustained(&report, &options)? {
            Some(why) if judged.why.is_empty() => Judgement { why, ..judged },
            _ => judged,
        };
        let config = options.build()?;
        let rate = config.controller.rate.build(config.controller.nvs_pages.0);
        limit::limit(&report, rate.map_or(8000, |rate| rate.thresholds().low), &mut run);
        run.reached = judged.reached();
        (run.digest, run.target_iops) = (report.digest, report.target_iops);
        (run.figure, run.value) = (judged.figure, Some(judged.value));
        (run.ratio, run.why) = (Some(judged.ratio), judged.why);
        Ok(run)
    }

    /// Simulates those that were not, in parallel.
    fn judge_all(&mut self, jobs: &[Job]) -> Result<Vec<AdvisedRun>, CompareError> {
        let known =
            |job: &Job, runs: &[AdvisedRun]| runs.iter().find(|run| Job::of(run) == *job).cloned();
        let missing: Vec<Job> =
            jobs.iter().filter(|job| known(job, &self.runs).is_none()).cloned().collect();
        let work = |job: &Job| self.judge(job);
        let runs = in_parallel(&missing, self.threads, &work, Result::is_err, &|_| {});
        let runs: Vec<AdvisedRun> = runs.into_iter().collect::<Result<_, CompareError>>()?;
        self.runs.extend(runs);
        Ok(jobs.iter().map(|job| known(job, &self.runs).expect("simulated above")).collect())
    }

    /// Whether some variant reaches the goal at this size; of a size that does not, all were run.
    fn reaches(&mut self, index: usize) -> Result<bool, CompareError> {
        let (pages, seed) = (self.question.sizes_pages[index], self.base_seed()?);
        (self.progress)(&format!("simulating {pages} pages"));
        let variants = self.variants(pages);
        for some in variants.chunks(self.threads.max(1)) {
            let jobs: Vec<Job> =
                some.iter().map(|variant| self.job(variant.clone(), pages, seed)).collect();
            if self.judge_all(&jobs)?.iter().any(|run| run.reached) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Neighbouring sizes, of which the lower misses the goal and the upper reaches it; either may
    /// be absent at the ends.
    fn bracket(&mut self) -> Result<(Option<usize>, Option<usize>), CompareError> {
        let last = self.question.sizes_pages.len() - 1;
        let (mut low, mut high): (Option<usize>, Option<usize>) = (None, None);
        let (mut at, mut step) = (self.knee(), 1);
        while low.is_none() || high.is_none() {
            if self.reaches(at)? {
                high = Some(high.map_or(at, |high| high.min(at)));
                if at == 0 {
                    return Ok((None, high));
                }
                at = at.saturating_sub(step);
            } else {
                low = Some(low.map_or(at, |low| low.max(at)));
                if at == last {
                    return Ok((low, None));
                }
                at = (at + step).min(last);
            }
            step *= 2;
        }
        let (mut low, mut high) = (low.expect("found"), high.expect("found"));
        while high > low + 1 {
            let middle = low.midpoint(high);
            match self.reaches(middle)? {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok((Some(low), Some(high)))
    }

    /// Every variant at a size, best first.
    fn all_at(&mut self, index: usize) -> Result<Vec<AdvisedRun>, CompareError> {
        let (pages, seed) = (self.question.sizes_pages[index], self.base_seed()?);
        let variants = self.variants(pages);
        let jobs: Vec<Job> =
            variants.into_iter().map(|variant| self.job(variant, pages, seed)).collect();
        let mut runs = self.judge_all(&jobs)?;
        let rank = |run: &AdvisedRun| (!run.reached, run.ratio.unwrap_or(f64::INFINITY));
        runs.sort_by(|a, b| {
            let ((a_missed, a), (b_missed, b)) = (rank(a), rank(b));
            a_missed.cmp(&b_missed).then(a.total_cmp(&b))
        });
        Ok(runs)
    }

    /// The best variant at a size: its runs with every seed, and the longer one. None if no variant
    /// holds in all.
    fn best_at(&mut self, index: usize) -> Result<Option<Vec<AdvisedRun>>, CompareError> {
        let seeds = if is_random(&self.question.base) { self.question.seeds.max(1) } else { 1 };
        let first = self.base_seed()?;
        for run in self.all_at(index)?.into_iter().filter(|run| run.reached) {
            let variant = variant_of(&run);
            let seeds = (0..u64::from(seeds)).map(|seed| first.wrapping_add(seed));
            let jobs: Vec<Job> =
                seeds.map(|seed| self.job(variant.clone(), run.nvs_pages, seed)).collect();
            let mut runs = self.judge_all(&jobs)?;
            if runs.iter().all(|run| run.reached) && self.question.load_factor > 1.0 {
                // The load itself, without headroom.
                let base = Job { load: 1.0, ..Job::of(&run) };
                runs.extend(self.judge_all(&[base])?);
            }
            if runs.iter().all(|run| run.reached) {
                runs.extend(self.for_longer(&run)?);
            }
            if runs.iter().all(|run| run.reached) {
                return Ok(Some(runs));
            }
        }
        Ok(None)
    }

    /// The same over a longer window: the array may keep a load up for minutes only. Of a trace
    /// there is no more.
    fn for_longer(&mut self, run: &AdvisedRun) -> Result<Vec<AdvisedRun>, CompareError> {
        if !is_random(&self.question.base) {
            return Ok(Vec::new());
        }
        (self.progress)("the answer for longer");
        self.judge_all(&[Job { length: LONGER, ..Job::of(run) }])
    }

    fn finish(mut self, low: Option<usize>, high: Option<usize>) -> Result<Advice, CompareError> {
        let mut found = None;
        let mut at = high;
        // A size that reaches the goal with one seed may miss it with another: then one more.
        while let Some(index) = at {
            (self.progress)("every variant at the answer");
            match self.best_at(index)? {
                Some(runs) => {
                    found = Some((index, runs));
                    break;
                }
                None => at = (index + 1 < self.question.sizes_pages.len()).then_some(index + 1),
            }
        }
        let below_index = match &found {
            Some((index, _)) => index.checked_sub(1),
            None => low,
        };
        let below = match below_index {
            Some(index) => self.miss_at(index)?,
            None => None,
        };
        let holds = match &found {
            Some((_, runs)) => self.holds_to(&runs[0])?,
            None => None,
        };
        Ok(self.advice(found, below, holds))
    }

    /// The variant that comes nearest to the goal at a size that misses it: each counts by the
    /// worst of the seeds that it was tried with.
    fn miss_at(&mut self, index: usize) -> Result<Option<AdvisedRun>, CompareError> {
        let mut worst: Vec<AdvisedRun> = Vec::new();
        let ratio = |run: &AdvisedRun| run.ratio.unwrap_or(f64::INFINITY);
        for base in self.all_at(index)? {
            let same = |run: &&AdvisedRun| {
                let job = Job { seed: base.seed, length: base.length, ..Job::of(run) };
                job == Job::of(&base)
            };
            let of_variant = self.runs.iter().filter(same);
            let rank = |run: &AdvisedRun| (run.reached, ratio(run));
            worst.extend(of_variant.cloned().max_by(|a, b| {
                let ((a_reached, a), (b_reached, b)) = (rank(a), rank(b));
                b_reached.cmp(&a_reached).then(a.total_cmp(&b))
            }));
        }
        Ok(worst.into_iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b))))
    }

    /// The greatest load that the answer still holds at; none if the load cannot be made greater.
    fn holds_to(&mut self, answer: &AdvisedRun) -> Result<Option<f64>, CompareError> {
        (self.progress)("greater loads");
        if !scale_load(&mut self.question.base.clone(), 1.0, self.target_iops)? {
            return Ok(None);
        }
        let mut holds = self.question.load_factor;
        for load in LOADS.map(|more| rounded(more * self.question.load_factor)) {
            let job = Job { load, ..Job::of(answer) };
            if !self.judge_all(&[job])?[0].reached {
                break;
            }
            holds = load;
        }
        Ok(Some(holds))
    }

    fn advice(
        mut self,
        found: Option<(usize, Vec<AdvisedRun>)>,
        below: Option<AdvisedRun>,
        holds: Option<f64>,
    ) -> Advice {
        let missed = self.missed(found.is_some(), below.as_ref());
        let by_size = self.by_size();
        let sure = self.sure(found.as_ref().map(|(_, runs)| runs.as_slice()), holds);
        let worst = found.map(|(_, runs)| {
            let worst = runs
                .into_iter()
                .max_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)));
            worst.expect("a seed at least")
        });
        self.runs.sort_by(|a, b| {
            (a.nvs_pages, &a.policy, &a.thresholds, a.seed)
                .cmp(&(b.nvs_pages, &b.policy, &b.thresholds, b.seed))
                .then(a.load.total_cmp(&b.load))
        });
        let question = self.question;
        let variants = question.policies.len() * question.thresholds.len();
        let mut options = question.base.describe();
        options.retain(|name, _| !["policy", "nvs", "thresholds"].contains(&name.as_str()));
        Advice {
            schema: SCHEMA,
            goal: question.goal.text.clone(),
            load_factor: question.load_factor,
            missed,
            prices: question.prices,
            by_size,
            options,
            sizes_pages: question.sizes_pages.clone(),
            margin: worst.as_ref().and_then(|run| run.ratio).map(|ratio| 1.0 - ratio),
            needs: worst.as_ref().map(|answer| needs(answer.nvs_pages)),
            answer: worst,
            holds_to_load: holds,
            below,
            curve: self.curve,
            runs: self.runs,
            grid_runs: (question.sizes_pages.len() * variants) as u64,
            sure,
        }
    }

    /// The variant nearest to the goal of each size simulated, by size.
    fn by_size(&self) -> Vec<SizeResult> {
        let mut best: BTreeMap<u64, &AdvisedRun> = BTreeMap::new();
        let rank = |run: &AdvisedRun| (!run.reached, run.ratio.unwrap_or(f64::INFINITY));
        let load = self.question.load_factor;
        for run in self.runs.iter().filter(|run| run.load == load && run.length == 1) {
            let place = best.entry(run.nvs_pages).or_insert(run);
            let ((missed, ratio), (best_missed, best_ratio)) = (rank(run), rank(place));
            if missed.cmp(&best_missed).then(ratio.total_cmp(&best_ratio)).is_lt() {
                *place = run;
            }
        }
        let result = |(pages, run): (u64, &AdvisedRun)| {
            let needs = needs(pages);
            let cost = self.question.prices.map(|prices| prices.cost(&needs));
            SizeResult { run: run.clone(), needs, cost }
        };
        best.into_iter().map(result).collect()
    }

    /// Why the size below misses, or the one that comes nearest if none reaches the goal.
    fn missed(&self, found: bool, below: Option<&AdvisedRun>) -> Option<String> {
        let nearest = match found {
            true => below.cloned(),
            false => self.by_size().pop().map(|largest| largest.run),
        }?;
        let why = match nearest.because.as_str() {
            "" => nearest.why.clone(),
            because => format!("the limit is {}: {because}", nearest.limit),
        };
        Some(format!("at {} pages {why}", nearest.nvs_pages))
    }

    fn sure(&self, found: Option<&[AdvisedRun]>, holds: Option<f64>) -> Vec<String> {
        let mut sure = Vec::new();
        let sizes: BTreeMap<u64, ()> = self.runs.iter().map(|run| (run.nvs_pages, ())).collect();
        sure.push(format!(
            "{} full simulations at {} of {} sizes; of every size called a miss, all policies \
             and thresholds were simulated",
            self.runs.len(),
            sizes.len(),
            self.question.sizes_pages.len()
        ));
        match found {
            Some(runs) if is_random(&self.question.base) => sure.extend(seeds_sentence(runs)),
            Some(_) => sure.push(
                "a trace is one recorded history: its replay is exact, another day may differ"
                    .into(),
            ),
            None => {}
        }
        let longer = found.and_then(|runs| runs.iter().find(|run| run.length > 1));
        if let Some((longer, value)) = longer.and_then(|run| Some((run, run.value?))) {
            sure.push(format!(
                "over {LONGER} times the window the answer reaches it, too: {} {value:.2}",
                longer.figure
            ));
        }
        if let Some(holds) = holds {
            let asked = self.question.load_factor;
            let next = rounded(LOADS[0] * asked);
            sure.push(match holds > asked {
                true => format!("the answer still holds at {holds} times the load"),
                false => format!("at {next} times the load the answer misses the goal"),
            });
        }
        let answer = found.map(|runs| runs[0].nvs_pages);
        let missed_above = self.above_that_miss(answer);
        if !missed_above.is_empty() {
            sure.push(format!(
                "the figure does not fall steadily with size: no variant reached the goal at {}",
                missed_above.join(", ")
            ));
        }
        sure.push(self.curve_sentence());
        sure
    }

    /// How good the sampled curve is: its own estimate, or the difference from the full one.
    fn curve_sentence(&self) -> String {
        let sampled: Vec<&CurvePoint> =
            self.curve.iter().filter(|point| point.sampled_share < 1.0).collect();
        let most = |of: &dyn Fn(&CurvePoint) -> f64| {
            100.0 * sampled.iter().map(|point| of(point)).fold(0.0, f64::max)
        };
        let mut text = format!(
            "the curve, which only says where to begin, was sampled at {} of {} points, the others \
             replayed in full; its standard error is at most {:.1} % of the pages written",
            sampled.len(),
            self.curve.len(),
            most(&|point| point.error)
        );
        if self.question.check_curve && !sampled.is_empty() {
            let apart = |point: &CurvePoint| {
                (point.destaged_per_page - point.unsampled_per_page.unwrap_or(0.0)).abs()
            };
            let mean = sampled.iter().map(|p| apart(p)).sum::<f64>() / sampled.len() as f64;
            text += &format!(
                "; from the full curve it differs by {:.2} % of them on average, at most {:.2} %",
                100.0 * mean,
                most(&apart)
            );
        }
        text
    }

    /// Sizes above the answer of which every variant was run and missed.
    fn above_that_miss(&self, answer: Option<u64>) -> Vec<String> {
        let mut best: BTreeMap<u64, bool> = BTreeMap::new();
        let load = self.question.load_factor;
        for run in self.runs.iter().filter(|run| run.load == load) {
            *best.entry(run.nvs_pages).or_default() |= run.reached;
        }
        let above = best
            .iter()
            .filter(|(size, reached)| answer.is_some_and(|answer| **size > answer) && !**reached);
        above.map(|(size, _)| format!("{size} pages")).collect()
    }
}

/// A multiple of a load, without digits that only rounding made.
fn rounded(load: f64) -> f64 {
    (load * 1e4).round() / 1e4
}

fn seeds_sentence(runs: &[AdvisedRun]) -> Option<String> {
    let load = runs[0].load;
    let same = |run: &&AdvisedRun| run.length == 1 && run.load == load;
    let seeds: Vec<&AdvisedRun> = runs.iter().filter(same).collect();
    let values: Vec<f64> = seeds.iter().filter_map(|run| run.value).collect();
    let estimate = estimate(&values);
    (seeds.len() > 1).then(|| {
        format!(
            "with {} seeds the answer reached the goal each time: {} {:.2} ± {:.2} (95 % \
             confidence interval of the mean)",
            seeds.len(),
            runs[0].figure,
            estimate.mean,
            estimate.half_width
        )
    })
}

fn variant_of(run: &AdvisedRun) -> Variant {
    Variant { policy: run.policy.clone(), thresholds: run.thresholds.clone() }
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
/// with more dirty pages than it began with as long as the array could still destage faster.
fn unsustained(run: &RunReport, options: &RunOptions) -> Result<Option<String>, OptionError> {
    let balance = &run.balance;
    if is_random(options) {
        let rising = balance.state == BalanceState::Rising;
        return Ok(rising.then(|| settling::warning(balance)).flatten());
    }
    let config = options.build()?;
    let nvs = config.controller.nvs_pages.0;
    let high = config.controller.rate.build(nvs).map_or(9000, |rate| rate.thresholds().high);
    let at_full_speed = balance.dirty_pages_last * 10_000 > nvs * high;
    let fuller = balance.dirty_pages_last > balance.dirty_pages_first;
    Ok((at_full_speed && fuller).then(|| {
        format!(
            "the NVS ends {:.0} % full, and {:.0} % when the trace begins: more was written than \
             was destaged at full speed",
            100.0 * balance.dirty_pages_last as f64 / nvs as f64,
            100.0 * balance.dirty_pages_first as f64 / nvs as f64
        )
    }))
}

/// Whether the load depends on the seed.
fn is_random(options: &RunOptions) -> bool {
    options.get("trace").is_empty()
}

/// Multiplies the load: the speed of a trace, the target of a workload (`target_iops`, as a run at
/// the load asked about had it). False if the load has neither, as a closed loop.
fn scale_load(
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

fn shape_of(config: &SimConfig) -> CurveSetup {
    let controller = &config.controller;
    let rate = controller.rate.build(controller.nvs_pages.0);
    let (high, low) = rate.map_or((9000, 8000), |rate| {
        let thresholds = rate.thresholds();
        (thresholds.high, thresholds.low)
    });
    CurveSetup {
        context: PolicyContext {
            nvs_pages: controller.nvs_pages.0,
            groups: controller.geometry.groups(),
            disks: u64::from(controller.geometry.disks),
            queue_depth: u64::from(controller.destage.queue_depth),
            high,
            low,
            mirrored: controller.geometry.level.is_mirrored(),
        },
        detector: controller.detector,
        threshold: controller.sequential_threshold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_has_four_steps_a_doubling() {
        assert_eq!(ladder(256, 512), [256, 320, 384, 448, 512]);
        assert_eq!(ladder(1, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(ladder(9, 9).is_empty());
    }
}
