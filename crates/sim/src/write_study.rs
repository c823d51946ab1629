//! Write caches over a trace without time: policies x NVS sizes on the same writes, and the bound
//! that no policy undercuts (docs/simulator.md).

use crate::fewest_destages::WriteOrder;
use crate::options::{OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::readcache::requests_of;
use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{PolicyChoice, PolicyContext};
use destage_engine::readcache::optimum::fewest_misses;
use destage_engine::request::{Direction, PageRange};
use destage_engine::sequential::{Detector, DetectorKind};
use destage_engine::units::PageCount;
use destage_engine::writecache::{Admitted, Picked, ReplayEvents, WriteCache};
use destage_workload::trace::ReadOptions;
use destage_workload::trace::replay::TraceInput;

/// The name of the bound among policies.
pub const BOUND: &str = "bound";

/// Pages after which a stream is sequential, as for a simulation.
const SEQ_THRESHOLD: u32 = 16;

/// An NVS size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NvsSize {
    /// In pages.
    Pages(u64),
    /// In per cent of the different pages that are written.
    Share(f64),
}

impl NvsSize {
    /// Reads pages, bytes with a unit or a share, e.g. `16384`, `64M` or `10%`.
    ///
    /// # Errors
    /// None of them.
    pub fn parse(text: &str) -> Result<NvsSize, OptionError> {
        let Some(percent) = text.strip_suffix('%') else {
            let mut options = RunOptions::default();
            options.set("nvs", text)?;
            return options.pages("nvs").map(NvsSize::Pages);
        };
        let percent = percent.parse().ok().filter(|share| *share > 0.0 && *share <= 100.0);
        let wrong = || {
            OptionError::usage(format!("--nvs takes shares above 0% and up to 100%, not `{text}`"))
        };
        percent.map(NvsSize::Share).ok_or_else(wrong)
    }
}

/// What is replayed.
#[derive(Clone, Debug)]
pub struct WriteStudy {
    /// The policies.
    pub policies: Vec<PolicyChoice>,
    /// The bound too, after them.
    pub bound: bool,
    /// NVS sizes.
    pub nvs: Vec<NvsSize>,
    /// Pages of a write group.
    pub group_pages: u64,
    /// Disks in the array, for policies that ask.
    pub disks: u64,
}

/// Figures of one policy with one NVS. All count until the NVS is empty at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteRow {
    /// The policy, with its parameters.
    pub policy: String,
    /// NVS size in pages.
    pub nvs_pages: u64,
    /// Pages written by the host.
    pub written: u64,
    /// Destages of write groups.
    pub destages: u64,
    /// Pages that these wrote.
    pub destaged: u64,
    /// By which share the destages, and the pages destaged, exceed the bound, if it was asked for.
    pub over_bound: Option<(f64, f64)>,
}

#[derive(Default)]
struct Destaged {
    groups: u64,
    pages: u64,
}

impl ReplayEvents for Destaged {
    fn destaged(&mut self, picked: Picked, _mask: &[u64]) {
        self.groups += 1;
        self.pages += picked.pages;
    }

    fn admitted(&mut self, _admitted: Admitted) {}
}

/// The writes of a trace.
struct Writes {
    ranges: Vec<PageRange>,
    order: WriteOrder,
    threads: usize,
}

/// One replay: of a policy, or of none for the bound.
struct Job<'a> {
    policy: Option<&'a PolicyChoice>,
    nvs_pages: u64,
}

impl WriteStudy {
    /// Replays the writes of a trace on this many threads.
    ///
    /// # Errors
    /// The trace cannot be read or has no writes, one of its requests is larger than the NVS, or a
    /// size is out of range.
    pub fn run(
        &self,
        input: impl Into<TraceInput>,
        read: &ReadOptions,
        device: Option<u32>,
        threads: usize,
    ) -> Result<Vec<WriteRow>, OptionError> {
        let wrong = |error| OptionError::input(format!("{error}"));
        let (ranges, file) = requests_of(input, read, device, Direction::Write).map_err(wrong)?;
        let Some(largest) = ranges.iter().map(|range| u64::from(range.pages)).max() else {
            return Err(OptionError::input(format!("{file}: no write in it, so no destages")));
        };
        let order = WriteOrder::new(&ranges, self.group_pages);
        let sizes = self.nvs.iter().map(|size| match size {
            NvsSize::Pages(pages) => *pages,
            NvsSize::Share(share) => (order.pages() as f64 * share / 100.0) as u64,
        });
        let sizes: Vec<u64> = sizes.collect();
        if let Some(small) = sizes.iter().find(|pages| **pages < largest) {
            return Err(OptionError::input(format!(
                "{file}: its largest write has {largest} pages, and an NVS of {small} cannot take \
                 it. Use a larger --nvs."
            )));
        }
        let writes = Writes { ranges, order, threads };
        let job = |nvs_pages| {
            let policies = self.policies.iter().map(Some);
            let all = policies.chain(self.bound.then_some(None));
            all.map(move |policy| Job { policy, nvs_pages })
        };
        let jobs: Vec<Job<'_>> = sizes.into_iter().flat_map(job).collect();
        let run = |job: &Job<'_>| self.row(job, &writes);
        let rows = in_parallel(&jobs, threads, &run, |_| false, &|_| {});
        let mut rows = rows.into_iter().collect::<Result<Vec<WriteRow>, OptionError>>()?;
        if self.bound {
            rows.chunks_mut(self.policies.len() + 1).for_each(compare_with_bound);
        }
        Ok(rows)
    }

    fn row(&self, job: &Job<'_>, writes: &Writes) -> Result<WriteRow, OptionError> {
        let (policy, count) = match job.policy {
            Some(policy) => (policy.choice.describe(), self.replay(policy, job, writes)?),
            None => (BOUND.to_string(), bound(job.nvs_pages, writes)),
        };
        Ok(WriteRow {
            policy,
            nvs_pages: job.nvs_pages,
            written: writes.ranges.iter().map(|range| u64::from(range.pages)).sum(),
            destages: count.groups,
            destaged: count.pages,
            over_bound: None,
        })
    }

    /// Destages where the next write does not fit, and everything at the end.
    fn replay(
        &self,
        policy: &PolicyChoice,
        job: &Job<'_>,
        writes: &Writes,
    ) -> Result<Destaged, OptionError> {
        let last = writes.ranges.iter().map(|range| range.end().0).max().unwrap_or(0);
        let groups = last / self.group_pages + 1;
        let context = PolicyContext {
            nvs_pages: job.nvs_pages,
            groups,
            group_pages: self.group_pages,
            disks: self.disks,
            queue_depth: 20,
            high: 9000,
            low: 8000,
            mirrored: false,
        };
        let policy = policy.build(&context).map_err(|why| OptionError::usage(why.to_string()))?;
        let detector = Detector::new(DetectorKind::Pages, SEQ_THRESHOLD, self.group_pages);
        let directory = Directory::new(PageCount(job.nvs_pages), self.group_pages, groups);
        let mut cache = WriteCache::new(directory, detector, policy);
        let mut count = Destaged::default();
        cache.replay(&writes.ranges, &mut count);
        while cache.destage_at_once(&mut count) {}
        Ok(count)
    }
}

fn bound(nvs_pages: u64, writes: &Writes) -> Destaged {
    let pages = writes.ranges.iter().flat_map(|range| range.first.0..range.end().0);
    let pages: Vec<u64> = pages.collect();
    Destaged {
        groups: writes.order.fewest(nvs_pages, writes.threads),
        pages: fewest_misses(&pages, nvs_pages as usize),
    }
}

/// Fills in the last column of the rows of one size; the last row is the bound.
fn compare_with_bound(rows: &mut [WriteRow]) {
    let Some((bound, rows)) = rows.split_last_mut() else { return };
    let over = |of: u64, least: u64| of as f64 / least as f64 - 1.0;
    for row in rows {
        let pages = over(row.destaged, bound.destaged);
        row.over_bound = Some((over(row.destages, bound.destages), pages));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::policy::{POLICIES, choose};
    use destage_engine::units::Page;

    #[test]
    fn no_policy_is_below_the_bound() {
        for seed in 1..4u64 {
            let mut state = seed;
            let mut below = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            let ranges: Vec<PageRange> = (0..20_000)
                .map(|_| {
                    let first = below(150) * below(150);
                    PageRange::new(Page(first), 1 + below(6) as u32)
                })
                .collect();
            let order = WriteOrder::new(&ranges, 16);
            let writes = Writes { ranges, order, threads: 2 };
            for nvs_pages in [200, 2000, 8000] {
                let least = bound(nvs_pages, &writes);
                for entry in POLICIES {
                    let study = WriteStudy {
                        policies: vec![choose(entry.entry.name).unwrap()],
                        bound: false,
                        nvs: vec![],
                        group_pages: 16,
                        disks: 5,
                    };
                    let job = Job { policy: Some(&study.policies[0]), nvs_pages };
                    let count = study.replay(&study.policies[0], &job, &writes).unwrap();
                    let name = entry.entry.name;
                    println!(
                        "seed {seed}, {nvs_pages} pages, {name}: {} of {} destages, {} of {} pages",
                        count.groups, least.groups, count.pages, least.pages
                    );
                    assert!(count.groups >= least.groups && count.pages >= least.pages, "{name}");
                }
            }
        }
    }

    #[test]
    fn sizes_are_pages_bytes_or_shares() {
        let parsed = |text| NvsSize::parse(text).map_err(|error| error.to_string());
        assert_eq!(parsed("16384"), Ok(NvsSize::Pages(16384)));
        assert_eq!(parsed("64M"), Ok(NvsSize::Pages(16384)));
        assert_eq!(parsed("2.5%"), Ok(NvsSize::Share(2.5)));
        for bad in ["0%", "101%", "x%", "64X", "-1"] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
