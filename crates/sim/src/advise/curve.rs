//! Sampled replay: what a policy and a size would destage, from a part of the write groups and an
//! NVS smaller in proportion, without time. After SHARDS (Waldspurger et al., FAST'15), which
//! samples the blocks of a read cache by their hash; here write groups are sampled, since
//! they are what is destaged, and the sequential detector sees every request.

use crate::options::OptionError;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::plan::{Plan, Planner};
use destage_engine::conditions::Conditions;
use destage_engine::mix::mix;
use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{PolicyChoice, PolicyContext};
use destage_engine::request::PageRange;
use destage_engine::sequential::{Classified, Detector, DetectorKind};
use destage_engine::units::{GroupId, Page, PageCount};
use destage_engine::writecache::{Admitted, Picked, ReplayEvents, WriteCache};
use destage_report::advice::CurvePoint;

/// Pages of the smaller NVS at least.
const SCALED_PAGES: u64 = 16_384;

/// Write groups of a sample at least, on average, unless asked otherwise.
pub const SAMPLE_GROUPS: u64 = 2_048;

/// Samples of one size at most; they have no group in common.
const SAMPLES: u64 = 4;

/// Sampling less sparse than this is not worth it: all is replayed.
const ONE_IN_LEAST: u64 = 4;

/// The writes of a load, classified.
pub struct Writes {
    requests: Vec<(PageRange, Classified)>,
    /// Write groups touched.
    groups: u64,
    geometry: Geometry,
    sample_groups: u64,
}

/// What is the same for all points of a curve.
#[derive(Clone, Copy)]
pub struct CurveSetup {
    /// Disks of the array, queue depth, thresholds.
    pub context: PolicyContext,
    /// How requests are classified.
    pub detector: DetectorKind,
    /// Its threshold.
    pub threshold: u32,
}

impl Writes {
    /// Classifies these writes, for samples of at least this many groups.
    pub fn new(
        ranges: &[PageRange],
        geometry: Geometry,
        shape: &CurveSetup,
        sample_groups: u64,
    ) -> Writes {
        let per_group = geometry.pages_per_group();
        let mut detector = Detector::new(shape.detector, shape.threshold, per_group);
        let mut groups = std::collections::HashSet::new();
        let mut requests = Vec::with_capacity(ranges.len());
        for range in ranges {
            requests.push((*range, detector.classify(*range)));
            groups.extend(range.first.0 / per_group..=(range.end().0 - 1) / per_group);
        }
        let groups = groups.len() as u64;
        Writes { requests, groups, geometry, sample_groups: sample_groups.max(1) }
    }

    /// One in how many groups a size is replayed with.
    fn one_in(&self, nvs_pages: u64) -> u64 {
        match (nvs_pages / SCALED_PAGES).min(self.groups / self.sample_groups) {
            0..ONE_IN_LEAST => 1,
            one_in => one_in,
        }
    }

    /// A point of the curve, sampled; with every group too if `check` asks for it.
    ///
    /// # Errors
    /// A policy parameter out of range.
    pub fn point(
        &self,
        policy: &PolicyChoice,
        shape: &CurveSetup,
        nvs_pages: u64,
        check: bool,
    ) -> Result<CurvePoint, OptionError> {
        let mut point = self.point_of(policy, shape, nvs_pages, self.one_in(nvs_pages))?;
        if check {
            let full = self.point_of(policy, shape, nvs_pages, 1)?;
            point.unsampled_per_page = Some(full.destaged_per_page);
        }
        Ok(point)
    }

    fn point_of(
        &self,
        policy: &PolicyChoice,
        shape: &CurveSetup,
        nvs_pages: u64,
        one_in: u64,
    ) -> Result<CurvePoint, OptionError> {
        let mut sums = Tally::default();
        let mut shares = Vec::new();
        let samples = (one_in / 2).clamp(1, SAMPLES);
        for sample in 0..samples {
            let tally = self.replay(policy, shape, nvs_pages / one_in, (sample, one_in))?;
            shares.push(tally.destaged as f64 / tally.written.max(1) as f64);
            sums.add(&tally);
        }
        let per_page = |what: u64| what as f64 / sums.written.max(1) as f64;
        Ok(CurvePoint {
            nvs_pages,
            policy: policy.choice.describe(),
            sampled_share: samples as f64 / one_in as f64,
            destaged_per_page: per_page(sums.destaged),
            error: if one_in == 1 { 0.0 } else { standard_error(&shares) },
            unsampled_per_page: None,
            disk_ops_per_page: per_page(sums.disk_ops),
        })
    }

    /// Replays the groups of one sample through an NVS of this many pages.
    fn replay(
        &self,
        policy: &PolicyChoice,
        shape: &CurveSetup,
        nvs_pages: u64,
        (sample, one_in): (u64, u64),
    ) -> Result<Tally, OptionError> {
        let per_group = self.geometry.pages_per_group();
        let capacity = nvs_pages.max(per_group);
        let groups = self.geometry.groups();
        let context = PolicyContext { nvs_pages: capacity, groups, ..shape.context };
        let policy = policy.build(&context).map_err(|why| OptionError::usage(why.to_string()))?;
        let directory = Directory::new(PageCount(capacity), per_group, groups);
        // Parts are classified already.
        let mut cache = WriteCache::new(directory, Detector::Off, policy);
        let mut tally = Tally::default();
        let mut disks = Disks::new(&self.geometry);
        for (range, classified) in &self.requests {
            let (mut page, end) = (range.first.0, range.end().0);
            let first_sequential = page + u64::from(classified.random);
            let mut is_in = false;
            while page < end {
                let group = GroupId(page / per_group);
                let bit = page % per_group;
                let pages = (per_group - bit).min(end - page);
                if one_in == 1 || mix(group.0) % one_in == sample {
                    is_in = true;
                    let first = Page(page);
                    while cache.directory.missing(first, pages as u32)
                        > cache.directory.free_pages()
                    {
                        if !cache.destage_at_once(&mut disks) {
                            let message = "the policy found nothing to destage in a full NVS";
                            return Err(OptionError::input(message.into()));
                        }
                    }
                    let random = first_sequential.saturating_sub(page);
                    cache.write_part(group, bit, pages, random, &Conditions::NONE);
                    tally.written += pages;
                }
                page += pages;
            }
            if is_in {
                cache.end_request(*classified);
            }
        }
        (tally.destaged, tally.disk_ops) = (disks.destaged, disks.ops);
        Ok(tally)
    }
}

/// What replays add up to.
#[derive(Default)]
struct Tally {
    written: u64,
    destaged: u64,
    disk_ops: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.written += other.written;
        self.destaged += other.destaged;
        self.disk_ops += other.disk_ops;
    }
}

/// Counts what destages would ask of the disks.
struct Disks<'a> {
    geometry: &'a Geometry,
    planner: Planner,
    plan: Plan,
    destaged: u64,
    ops: u64,
}

impl Disks<'_> {
    fn new(geometry: &Geometry) -> Disks<'_> {
        let (planner, plan) = (Planner::default(), Plan::default());
        Disks { geometry, planner, plan, destaged: 0, ops: 0 }
    }
}

impl ReplayEvents for Disks<'_> {
    fn destaged(&mut self, picked: Picked, mask: &[u64]) {
        self.geometry.plan(picked.group, mask, &mut self.planner, &mut self.plan);
        self.destaged += picked.pages;
        self.ops += (self.plan.reads.len() + self.plan.writes.len()) as u64;
    }

    fn admitted(&mut self, _admitted: Admitted) {}
}

fn standard_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if n > 1.0 { (squares / (n - 1.0) / n).sqrt() } else { 0.0 }
}
