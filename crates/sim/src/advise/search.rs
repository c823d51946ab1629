//! The search for the smallest size that holds: short simulations first, long ones decide.

use super::judge::{Job, scale_load};
use super::{LOADS, Search, Variant, is_random, rounded};
use crate::compare::CompareError;
use destage_report::advice::{Advice, AdvisedRun, verdicts};

/// A variant whose short run missed the goal by more than this is not simulated for longer.
const NEAR: f64 = 1.25;

/// An answer must also hold at this multiple of the load: what only just holds depends on the seed.
const MORE: f64 = 1.01;

/// Neighbouring sizes, of which the lower misses the goal and the upper reaches it; either may be
/// absent at the ends.
type Neighbours = (Option<usize>, Option<usize>);

impl Search<'_> {
    /// The answer, from the size where the search begins.
    pub(super) fn search(mut self, at: usize) -> Result<Advice, CompareError> {
        let (_, high) = self.bracket(at, &mut |search, index| search.reaches(index))?;
        let mut held: Vec<(usize, Vec<AdvisedRun>)> = Vec::new();
        let at = high.unwrap_or(self.question.sizes_pages.len() - 1);
        let (low, high) = self.bracket(at, &mut |search, index| {
            let runs = search.holds(index)?;
            held.extend(runs.clone().map(|runs| (index, runs)));
            Ok(runs.is_some())
        })?;
        let found = held.into_iter().find(|(index, _)| Some(*index) == high).map(|held| held.1);
        let below = low.and_then(|index| self.miss_at(index));
        let holds_to = match &found {
            Some(runs) => self.holds_to(&runs[0])?,
            None => None,
        };
        Ok(self.advice(found.as_deref(), below, holds_to))
    }

    /// Goes from a size outward in growing steps, and halves the last one.
    fn bracket(
        &mut self,
        from: usize,
        test: &mut dyn FnMut(&mut Self, usize) -> Result<bool, CompareError>,
    ) -> Result<Neighbours, CompareError> {
        let last = self.question.sizes_pages.len() - 1;
        let (mut low, mut high): Neighbours = (None, None);
        let (mut at, mut step) = (from, 1);
        while low.is_none() || high.is_none() {
            if test(self, at)? {
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
            match test(self, middle)? {
                true => high = middle,
                false => low = middle,
            }
        }
        Ok((Some(low), Some(high)))
    }

    /// Short runs of some variants at a size, with the first seed.
    fn short(&mut self, index: usize, some: &[Variant]) -> Result<Vec<AdvisedRun>, CompareError> {
        let (pages, seed) = (self.question.sizes_pages[index], self.question.base.seed()?);
        let load = self.question.load_factor;
        let jobs: Vec<Job> = some
            .iter()
            .map(|variant| {
                let variant = variant.clone();
                Job { variant, pages, seed, load, length: 1 }
            })
            .collect();
        self.judge_all(&jobs)
    }

    /// Whether some variant reaches the goal at this size with one seed; of a size that does not,
    /// all were run.
    fn reaches(&mut self, index: usize) -> Result<bool, CompareError> {
        let pages = self.question.sizes_pages[index];
        self.say(format!("simulating {pages} pages"));
        let random = is_random(&self.question.base);
        for some in self.variants(pages).chunks(self.threads.max(1)) {
            let runs = self.short(index, some)?;
            // Its figures reach it, but its window is too short to say that they will stay so.
            let unsettled = |run: &&AdvisedRun| {
                random && !run.reached && run.ratio.is_some_and(|ratio| ratio < 1.0)
            };
            let longer: Vec<Job> = runs.iter().filter(unsettled).map(Job::of).collect();
            let reached = |run: &AdvisedRun| run.reached;
            if runs.iter().any(reached) || self.judge_longer(&longer)?.iter().any(reached) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The runs by which the best variant holds at a size: long ones with every seed. None if no
    /// variant holds in all. A trace has one history.
    fn holds(&mut self, index: usize) -> Result<Option<Vec<AdvisedRun>>, CompareError> {
        let pages = self.question.sizes_pages[index];
        self.say(format!("checking {pages} pages for longer"));
        let variants = self.variants(pages);
        let mut short = self.short(index, &variants)?;
        short.sort_by(|a, b| {
            let ratio = |run: &AdvisedRun| run.ratio.unwrap_or(f64::INFINITY);
            b.reached.cmp(&a.reached).then(ratio(a).total_cmp(&ratio(b)))
        });
        let random = is_random(&self.question.base);
        let near = |run: &AdvisedRun| random && run.ratio.is_some_and(|ratio| ratio < NEAR);
        for run in short.into_iter().filter(|run| run.reached || near(run)) {
            if let Some(runs) = self.variant_holds(&run)? {
                return Ok(Some(runs));
            }
        }
        Ok(None)
    }

    /// The runs by which the variant of a short run holds, if it does.
    fn variant_holds(&mut self, run: &AdvisedRun) -> Result<Option<Vec<AdvisedRun>>, CompareError> {
        let job = Job::of(run);
        let mut loads = vec![job.load];
        if job.load > 1.0 {
            // The load itself, without headroom.
            loads.push(1.0);
        }
        let random = is_random(&self.question.base);
        let seeds = if random { u64::from(self.question.seeds.max(1)) } else { 1 };
        let seeds = (0..seeds).map(|n| job.seed.wrapping_add(n));
        let jobs: Vec<Job> = seeds
            .flat_map(|seed| loads.iter().map(move |load| (seed, *load)))
            .map(|(seed, load)| Job { seed, load, ..job.clone() })
            .collect();
        if !random {
            let runs = self.judge_all(&jobs)?;
            return Ok(runs.iter().all(|run| run.reached).then_some(runs));
        }
        // Only if the first seed holds are the others tried.
        let mut runs = Vec::new();
        let (first, others) = jobs.split_at(loads.len());
        for some in [first, others] {
            let some = self.judge_longer(some)?;
            if !some.iter().all(|run| run.reached) {
                return Ok(None);
            }
            runs.extend(some);
        }
        Ok(self.has_margin(&runs[0])?.then_some(runs))
    }

    /// Whether the first seed also holds at a little more of the load. If it does not, its run is
    /// marked as one that misses.
    fn has_margin(&mut self, run: &AdvisedRun) -> Result<bool, CompareError> {
        if self.target_iops.is_none() {
            return Ok(true);
        }
        let job = Job { length: 1, load: rounded(run.load * MORE), ..Job::of(run) };
        if self.judge_longer(&[job])?[0].reached {
            return Ok(true);
        }
        let missed = self.runs.iter_mut().find(|known| Job::of(known) == Job::of(run));
        let missed = missed.expect("it was simulated");
        missed.reached = false;
        missed.why = format!("at {MORE} times the load it misses the goal");
        Ok(false)
    }

    /// The variant that comes nearest to the goal at a size that misses it.
    fn miss_at(&self, index: usize) -> Option<AdvisedRun> {
        let pages = self.question.sizes_pages[index];
        let of_size = verdicts(&self.runs, self.question.load_factor);
        let ratio = |run: &AdvisedRun| run.ratio.unwrap_or(f64::INFINITY);
        let of_size = of_size.into_iter().filter(|run| run.nvs_pages == pages);
        of_size.min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    }

    /// The greatest load that the answer still holds at; none if the load cannot be made greater.
    fn holds_to(&mut self, answer: &AdvisedRun) -> Result<Option<f64>, CompareError> {
        if !scale_load(&mut self.question.base.clone(), 1.0, self.target_iops)? {
            return Ok(None);
        }
        let random = is_random(&self.question.base);
        let mut holds = self.question.load_factor;
        for load in LOADS.map(|more| rounded(more * self.question.load_factor)) {
            self.say(format!("the answer at {load} times the load"));
            let job = [Job { load, length: 1, ..Job::of(answer) }];
            let runs = if random { self.judge_longer(&job)? } else { self.judge_all(&job)? };
            if !runs[0].reached {
                break;
            }
            holds = load;
        }
        Ok(Some(holds))
    }
}
