//! The answer of a search, and how sure it is.

use super::needs::needs;
use super::{LOADS, LONGER, Search, Variant, is_random, rounded};
use crate::estimate::estimate;
use crate::options::OptionError;
use destage_report::advice::{Advice, AdvisedRun, CurvePoint, SizeResult, verdicts};
use destage_report::model::SCHEMA;
use std::collections::BTreeMap;

impl Search<'_> {
    /// From the runs by which the answer holds, if there is one.
    pub(super) fn advice(
        mut self,
        found: Option<&[AdvisedRun]>,
        below: Option<AdvisedRun>,
        holds: Option<f64>,
    ) -> Advice {
        let missed = self.missed(found.is_some(), below.as_ref());
        let by_size = self.by_size();
        let sure = self.sure(found, holds);
        let worst = found.and_then(|runs| {
            let ratio = |run: &AdvisedRun| run.ratio.unwrap_or(0.0);
            runs.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b))).cloned()
        });
        let decides = worst.as_ref().or(by_size.last().map(|largest| &largest.run));
        let warnings = self.warnings(decides);
        let place = |run: &AdvisedRun| {
            let variant = (run.nvs_pages, run.policy.clone(), run.thresholds.clone());
            (variant, run.seed, run.length)
        };
        self.runs.sort_by(|a, b| place(a).cmp(&place(b)).then(a.load.total_cmp(&b.load)));
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
            warnings,
            sure,
        }
    }

    /// The variant nearest to the goal of each size simulated, by size. What a long run says of one
    /// counts for more than a short run of another.
    fn by_size(&self) -> Vec<SizeResult> {
        let mut best: BTreeMap<u64, AdvisedRun> = BTreeMap::new();
        let rank = |run: &AdvisedRun| (!run.reached, run.length == 1);
        let ratio = |run: &AdvisedRun| run.ratio.unwrap_or(f64::INFINITY);
        for run in verdicts(&self.runs, self.question.load_factor) {
            let place = best.entry(run.nvs_pages).or_insert_with(|| run.clone());
            if rank(&run).cmp(&rank(place)).then(ratio(&run).total_cmp(&ratio(place))).is_lt() {
                *place = run;
            }
        }
        let result = |(pages, run): (u64, AdvisedRun)| {
            let needs = needs(pages);
            let cost = self.question.prices.map(|prices| prices.cost(&needs));
            SizeResult { run, needs, cost }
        };
        best.into_iter().map(result).collect()
    }

    /// Warnings of the load, of the disks, and of the figures of the run that decides.
    fn warnings(&self, decides: Option<&AdvisedRun>) -> Vec<String> {
        let base = &self.question.base;
        let ends = is_random(base) && base.get("workload").contains("requests=");
        let more = match (base.is_given("requests"), is_random(base), base.is_given("measure")) {
            (true, _, _) => "give more --requests",
            _ if ends => "raise requests= of --workload, or leave it out",
            (false, false, false) => "give a longer trace",
            _ => "give a longer --measure",
        };
        let mut warnings = self.warnings.clone();
        warnings.extend(base.build().iter().flat_map(crate::drives::notes));
        // A run that could not be made has no figures.
        let judged = decides.filter(|run| run.value.is_some());
        let own = judged.and_then(|run| self.notes_of(run).ok()).unwrap_or_default();
        warnings.extend(own.into_iter().filter(|note| !self.warnings.contains(note)));
        warnings.extend(judged.iter().flat_map(|run| self.question.goal.of_too_few(run, more)));
        warnings
    }

    /// What the load says of itself in a run: e.g. that it does not fill the NVS.
    fn notes_of(&self, run: &AdvisedRun) -> Result<Vec<String>, OptionError> {
        let (policy, thresholds) = (run.policy.clone(), run.thresholds.clone());
        let options = self.options(&Variant { policy, thresholds }, run.nvs_pages)?;
        if !options.on("prefill")? {
            return Ok(Vec::new());
        }
        Ok((self.make_source)(&options, &options.build()?)?.notes())
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
        for run in verdicts(&self.runs, self.question.load_factor) {
            *best.entry(run.nvs_pages).or_default() |= run.reached;
        }
        let above = best
            .iter()
            .filter(|(size, reached)| answer.is_some_and(|answer| **size > answer) && !**reached);
        above.map(|(size, _)| format!("{size} pages")).collect()
    }
}

fn seeds_sentence(runs: &[AdvisedRun]) -> Option<String> {
    let load = runs[0].load;
    let runs: Vec<&AdvisedRun> = runs.iter().filter(|run| run.load == load).collect();
    let values: Vec<f64> = runs.iter().filter_map(|run| run.value).collect();
    let estimate = estimate(&values);
    let [with_seeds, spread] = match values.len() {
        0 => return None,
        1 => Default::default(),
        seeds => [
            format!(" with each of {seeds} seeds"),
            format!(" ± {:.2} (95 % confidence interval of the mean)", estimate.half_width),
        ],
    };
    // A goal of several parts has the figure nearest to its limit, which may differ.
    let figure = match runs.iter().all(|run| run.figure == runs[0].figure) {
        true => format!(": {} {:.2}{spread}", runs[0].figure, estimate.mean),
        false => String::new(),
    };
    Some(format!("over {LONGER} times the window the answer reached the goal{with_seeds}{figure}"))
}
