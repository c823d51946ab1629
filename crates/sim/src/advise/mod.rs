//! How much NVS: the cheapest size, with its policy and thresholds, that reaches a goal
//! (docs/advise.md).
//!
//! Sampled replays of all sizes say where to begin. Short simulations find the neighbourhood of the
//! answer, and long ones of several seeds decide. Of every size that is called a miss, every
//! variant was simulated.

mod answer;
pub mod curve;
pub mod goal;
mod judge;
mod limit;
mod needs;
mod search;

use crate::compare::{CompareError, MakeSource};
use crate::config::{SimConfig, Warmup};
use crate::options::{OptionError, RunOptions};
use crate::parallel::in_parallel;
use curve::{CurveSetup, Writes};
use destage_engine::policy::PolicyContext;
use destage_engine::request::{Direction, PageRange};
use destage_report::advice::{Advice, AdvisedRun, CurvePoint, Prices};
use goal::Goal;
use judge::scale_load;

/// Requests of a load that the sampled replay looks at, at most.
const REQUESTS_MAX: u64 = 20_000_000;

/// Share of the disk work that NVS can save, by the sampled replay, at the size where the search
/// begins.
const KNEE: f64 = 0.5;

/// The answer must also hold over a window this many times as long.
const LONGER: u64 = 10;

/// And this many times, if dirty pages rise over the longer one.
const LONGEST: u64 = 100;

/// Greater loads at which the answer is tried, as multiples.
const LOADS: [f64; 4] = [1.05, 1.1, 1.2, 1.5];

/// Thresholds that are considered unless others are given.
pub const TRY_THRESHOLDS: &str = "90/80,70/40,50/20";

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

/// The thresholds to consider: those given, or else [`TRY_THRESHOLDS`], or the rate's own.
///
/// # Errors
/// Thresholds that are given twice, or that do not fit the rate.
pub fn thresholds_of(
    base: &RunOptions,
    given: Option<Vec<String>>,
) -> Result<Vec<String>, OptionError> {
    let fits = |listed: &String| base.check_thresholds("try-thresholds", listed);
    if let Some(given) = given {
        base.check_distinct("thresholds", &given)?;
        given.iter().try_for_each(fits)?;
        return Ok(given);
    }
    let all: Vec<String> = TRY_THRESHOLDS.split(',').map(str::to_owned).collect();
    Ok(if all.iter().all(|listed| fits(listed).is_ok()) { all } else { vec![String::new()] })
}

/// A policy and thresholds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variant {
    policy: String,
    thresholds: String,
}

/// A running search.
struct Search<'a> {
    question: &'a Question,
    make_source: &'a MakeSource<'a>,
    threads: usize,
    progress: &'a (dyn Fn(&str) + Sync),
    /// What it is doing.
    step: String,
    /// What the load asked about aims at, if it has a rate.
    target_iops: Option<f64>,
    /// What the load says of itself, e.g. that devices of a trace share the volume.
    warnings: Vec<String>,
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
    let nothing = question.policies.is_empty() || question.thresholds.is_empty();
    if nothing || question.sizes_pages.is_empty() {
        let message = "nothing to choose from: give sizes, policies and thresholds";
        return Err(OptionError::usage(message.into()).into());
    }
    if question.base.get("write-cache") == "off" {
        let message = "--write-cache off is an array without NVS, but advise asks how much NVS it \
                       needs: leave it out";
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
    let mut search = Search {
        question,
        make_source,
        threads,
        progress,
        step: String::new(),
        target_iops: None,
        warnings: Vec::new(),
        curve: Vec::new(),
        runs: Vec::new(),
    };
    search.sample()?;
    let knee = search.knee();
    search.search(knee)
}

impl Search<'_> {
    fn say(&mut self, step: String) {
        (self.progress)(&step);
        self.step = step;
    }

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
        self.warnings = source.notes();
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
}

/// A multiple of a load, without digits that only rounding made.
fn rounded(load: f64) -> f64 {
    (load * 1e4).round() / 1e4
}

/// Whether the load depends on the seed.
fn is_random(options: &RunOptions) -> bool {
    options.get("trace").is_empty()
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
            group_pages: controller.geometry.pages_per_group(),
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
