//! How much NVS, which policy: what `destage advise` found, and its text.

use crate::format::Format;
use crate::model::simulated_as;
use crate::plot::{PlotSpec, Scale};
use crate::table::{Cell, Table};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// [`crate::model::SCHEMA`].
    pub schema: u32,
    /// The goal as written.
    pub goal: String,
    /// Headroom: the answer reaches the goal at this multiple of the load asked about too.
    #[serde(default = "one")]
    pub load_factor: f64,
    /// The options common to all runs.
    pub options: BTreeMap<String, String>,
    /// Sizes that were considered, in pages, ascending.
    pub sizes_pages: Vec<u64>,
    /// The cheapest that reaches the goal, if one does.
    pub answer: Option<AdvisedRun>,
    /// Why the size below misses the goal, or the largest one tried if none reaches it.
    #[serde(default)]
    pub missed: Option<String>,
    /// Prices given, if any.
    #[serde(default)]
    pub prices: Option<Prices>,
    /// The best variant of each size that was simulated completely or reached the goal, by size.
    #[serde(default)]
    pub by_size: Vec<SizeResult>,
    /// What the answer takes of a served array; absent without one.
    pub needs: Option<Needs>,
    /// How far the answer is below the goal, as a share of it.
    pub margin: Option<f64>,
    /// The greatest load at which the answer was seen to hold, as a multiple of the load asked
    /// about; 1 if it held at no greater one, absent for loads that cannot be made greater.
    pub holds_to_load: Option<f64>,
    /// The best of one size less, which misses the goal, or of the largest size tried if there is
    /// no answer; absent at the smallest size.
    pub below: Option<AdvisedRun>,
    /// Sampled replays, by size and policy.
    pub curve: Vec<CurvePoint>,
    /// Every full simulation made, by size.
    pub runs: Vec<AdvisedRun>,
    /// Simulations that the full grid would have taken.
    pub grid_runs: u64,
    /// Warnings to read before trusting the answer: of the trace, of the disks, and of figures that
    /// rest on too few requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// How sure the answer is, in plain sentences.
    pub sure: Vec<String>,
}

/// The load asked about itself.
fn one() -> f64 {
    1.0
}

/// What is paid for a GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Of NVS device.
    pub nvs_per_gib: f64,
    /// Of memory.
    pub memory_per_gib: f64,
}

impl Prices {
    /// Reads `nvs=12,memory=4`; either may be absent, and counts as 0.
    ///
    /// # Errors
    /// Another form, a price below 0, or a price given twice: a sentence that says so.
    pub fn parse(text: &str) -> Result<Prices, String> {
        let bad = || {
            format!("--prices takes nvs=PRICE,memory=PRICE, each per GiB and once: not `{text}`")
        };
        let (mut nvs, mut memory) = (None, None);
        for part in text.split(',') {
            let (name, price) = part.split_once('=').ok_or_else(bad)?;
            let price: f64 = price.trim().parse().map_err(|_| bad())?;
            let place = match name.trim() {
                "nvs" => &mut nvs,
                "memory" => &mut memory,
                _ => return Err(bad()),
            };
            if !price.is_finite() || price < 0.0 || place.replace(price).is_some() {
                return Err(bad());
            }
        }
        let (nvs_per_gib, memory_per_gib) = (nvs.unwrap_or(0.0), memory.unwrap_or(0.0));
        Ok(Prices { nvs_per_gib, memory_per_gib })
    }

    /// The price of a device with sectors of 4,096 bytes, and of the memory.
    pub fn cost(&self, needs: &Needs) -> f64 {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        self.nvs_per_gib * gib(needs.device_bytes_4096)
            + self.memory_per_gib * gib(needs.memory_bytes)
    }
}

/// The variant that comes nearest to the goal at a size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SizeResult {
    /// The run that decides: the worst of the long ones where there are any.
    pub run: AdvisedRun,
    /// What the size takes of a served array.
    pub needs: Needs,
    /// What that costs, where prices were given.
    pub cost: Option<f64>,
}

/// What a served array needs to hold as many dirty pages as an NVS of the simulator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Needs {
    /// Bytes of an NVS device with sectors of 512 bytes.
    pub device_bytes_512: u64,
    /// Bytes of one with sectors of 4,096 bytes.
    pub device_bytes_4096: u64,
    /// Bytes of memory, where the dirty pages are too.
    pub memory_bytes: u64,
}

/// One full simulation, judged by the goal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdvisedRun {
    /// NVS in pages.
    pub nvs_pages: u64,
    /// Policy with its parameters.
    pub policy: String,
    /// High and low threshold, in per cent of the NVS; empty for the rate's own.
    pub thresholds: String,
    /// Seed of all generators.
    pub seed: u64,
    /// Load, as a multiple of what was asked about.
    pub load: f64,
    /// What was measured, as a multiple of the window asked about.
    pub length: u64,
    /// Target of the load in requests per second, if it has one.
    pub target_iops: Option<f64>,
    /// The figure of the goal that is farthest from it, as `p99`.
    pub figure: String,
    /// Its value, in ms or per cent as the goal has it; absent if the run could not be made.
    pub value: Option<f64>,
    /// The value over its limit: below 1 the goal is reached.
    pub ratio: Option<f64>,
    /// Whether the goal was reached.
    pub reached: bool,
    /// Why not, where it is not the figure.
    pub why: String,
    /// Reads in the measured window.
    #[serde(default)]
    pub reads: u64,
    /// Writes in the measured window.
    #[serde(default)]
    pub writes: u64,
    /// What keeps the run from better figures: `disk time`, `access time`, `NVS` or `rate`; empty
    /// if the run could not be made.
    #[serde(default)]
    pub limit: String,
    /// The figures by which that was judged, as a sentence.
    #[serde(default)]
    pub because: String,
    /// Writes that waited for space, as a share of writes, 0 to 1.
    #[serde(default)]
    pub stalled_share: f64,
    /// Share of time in which a write waited for space, 0 to 1.
    #[serde(default)]
    pub full_share: f64,
    /// Share of time that the busiest disk was busy, 0 to 1.
    #[serde(default)]
    pub disk_busy: f64,
    /// Digest of the run.
    pub digest: String,
}

/// What a sampled replay of the writes, without time, gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// NVS in pages.
    pub nvs_pages: u64,
    /// Policy.
    pub policy: String,
    /// Share of the write groups that were replayed, 0 to 1.
    pub sampled_share: f64,
    /// Pages destaged for each page written.
    pub destaged_per_page: f64,
    /// Standard error of that, over the samples; 0 where all was replayed.
    pub error: f64,
    /// Disk operations for each page written.
    pub disk_ops_per_page: f64,
    /// Pages destaged for each page written when every group is replayed, where that was asked for.
    pub unsampled_per_page: Option<f64>,
}

/// The run that decides for each size and variant, of a load: the worst of the longest run of each
/// seed. A short run counts where there is no longer one.
pub fn verdicts(runs: &[AdvisedRun], load: f64) -> Vec<AdvisedRun> {
    let mut by_variant: BTreeMap<(u64, &str, &str), BTreeMap<u64, &AdvisedRun>> = BTreeMap::new();
    for run in runs.iter().filter(|run| run.load == load) {
        let variant = (run.nvs_pages, run.policy.as_str(), run.thresholds.as_str());
        let longest = by_variant.entry(variant).or_default().entry(run.seed).or_insert(run);
        if run.length > longest.length {
            *longest = run;
        }
    }
    let ratio = |run: &AdvisedRun| run.ratio.unwrap_or(f64::INFINITY);
    let weight = |run: &AdvisedRun| (run.length > 1, !run.reached);
    let worst = by_variant.values().filter_map(|seeds| {
        seeds.values().max_by(|a, b| weight(a).cmp(&weight(b)).then(ratio(a).total_cmp(&ratio(b))))
    });
    worst.map(|run| (*run).clone()).collect()
}

impl Needs {
    fn describe(&self) -> String {
        let mib = |bytes: u64| (bytes as f64 / f64::from(1 << 20)).ceil();
        format!(
            "        served: an NVS device of {} MiB (sectors of 512 bytes) or {} MiB (4,096), \
             and {} MiB of memory\n",
            mib(self.device_bytes_512),
            mib(self.device_bytes_4096),
            mib(self.memory_bytes)
        )
    }
}

impl AdvisedRun {
    /// Size, policy and thresholds.
    pub fn describe(&self) -> String {
        let thresholds = match self.thresholds.as_str() {
            "" => String::new(),
            thresholds => format!(", thresholds {thresholds}"),
        };
        let mib = self.nvs_pages as f64 / 256.0;
        format!("{} pages ({mib:.1} MiB), {}{thresholds}", self.nvs_pages, self.policy)
    }

    /// The figure, or why the run does not count.
    pub fn figure_text(&self) -> String {
        match (self.value, self.why.as_str()) {
            (Some(value), "") => format!("{} {value:.2}", self.figure),
            (_, why) => why.to_string(),
        }
    }
}

impl Advice {
    /// As text in the form asked for: a table, JSON, or CSV of the simulations.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => serde_json::to_string_pretty(self).unwrap_or_default() + "\n",
            Format::Csv => self.runs_table().render(Format::Csv),
            Format::Table => self.text(),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("Goal: {}{}\n", self.goal, self.headroom());
        text.extend(simulated_as(&self.options).map(|said| format!("{said}\n")));
        match (&self.answer, self.margin) {
            (Some(answer), Some(margin)) => {
                text += &format!("Answer: {}\n", answer.describe());
                text += &format!(
                    "        {}, {:.1} % inside the goal\n",
                    answer.figure_text(),
                    100.0 * margin
                );
                if let Some(needs) = &self.needs {
                    text += &needs.describe();
                    if let Some(prices) = &self.prices {
                        text += &format!("        cost: {:.2}\n", prices.cost(needs));
                    }
                }
            }
            _ => text += "Answer: none of the sizes reaches it\n",
        }
        if let Some(below) = &self.below {
            let size = match self.answer {
                Some(_) => "One step below misses it",
                None => "The largest size tried misses it",
            };
            text += &format!("{size}: {}\n", below.describe());
            text += &format!("        {}\n", below.figure_text());
        }
        if let Some(missed) = &self.missed {
            text += &format!("Why: {missed}\n");
        }
        for (title, sentences) in [("Warnings", &self.warnings), ("How sure", &self.sure)] {
            if !sentences.is_empty() {
                text += &format!("\n{title}:\n");
            }
            text.extend(sentences.iter().map(|sentence| format!("  - {sentence}\n")));
        }
        text += "\nBy size: the best variant of each size simulated\n";
        text += &self.size_table().render(Format::Table);
        text += "\nSampled replay: pages destaged for each page written\n";
        text += &self.curve_table().render(Format::Table);
        text += "\nFull simulations\n";
        text + &self.runs_table().render(Format::Table)
    }

    /// The headroom asked for, in words; nothing without.
    pub fn headroom(&self) -> String {
        match self.load_factor > 1.0 {
            true => format!(", also at {} times the load", self.load_factor),
            false => String::new(),
        }
    }

    /// The best variant of each size, with its stalls, its limit and what it costs.
    pub fn size_table(&self) -> Table {
        let mut head = vec![
            ("NVS", "pages"),
            ("device", "MiB"),
            ("memory", "MiB"),
            ("policy", ""),
            ("thresholds", "%"),
            ("figure", ""),
            ("value", ""),
            ("of goal", "%"),
            ("stalled", "% writes"),
            ("full", "% time"),
            ("disk", "% busy"),
            ("limit", ""),
            ("goal", ""),
        ];
        if self.prices.is_some() {
            head.push(("cost", ""));
        }
        let mut table = Table::new(&head);
        let mib = |bytes: u64| Cell::num((bytes as f64 / f64::from(1 << 20)).ceil(), 0);
        for SizeResult { run, needs, cost } in &self.by_size {
            let mut row = vec![
                Cell::int(run.nvs_pages),
                mib(needs.device_bytes_4096),
                mib(needs.memory_bytes),
                Cell::text(&run.policy),
                Cell::text(&run.thresholds),
                Cell::text(&run.figure),
                Cell::maybe(run.value, 2),
                Cell::maybe(run.ratio.map(|ratio| 100.0 * ratio), 0),
                Cell::num(100.0 * run.stalled_share, 2),
                Cell::num(100.0 * run.full_share, 2),
                Cell::num(100.0 * run.disk_busy, 0),
                Cell::text(&run.limit),
                Cell::text(if run.reached { "reached" } else { "missed" }),
            ];
            if self.prices.is_some() {
                row.push(Cell::maybe(*cost, 2));
            }
            table.push(row);
        }
        table
    }

    /// Pages destaged for each page written, by size and policy.
    pub fn curve_table(&self) -> Table {
        let mut policies: Vec<&str> = Vec::new();
        for point in &self.curve {
            if !policies.contains(&point.policy.as_str()) {
                policies.push(&point.policy);
            }
        }
        let mut head = vec![("NVS", "pages"), ("sampled", "%")];
        head.extend(policies.iter().map(|policy| (*policy, "")));
        let mut table = Table::new(&head);
        for size in &self.sizes_pages {
            let of_size: Vec<&CurvePoint> =
                self.curve.iter().filter(|p| p.nvs_pages == *size).collect();
            let Some(first) = of_size.first() else { continue };
            let mut row = vec![Cell::int(*size), Cell::num(100.0 * first.sampled_share, 1)];
            row.extend(of_size.iter().map(|p| Cell::num(p.destaged_per_page, 3)));
            table.push(row);
        }
        table
    }

    /// Every full simulation.
    pub fn runs_table(&self) -> Table {
        let head = [
            ("NVS", "pages"),
            ("policy", ""),
            ("thresholds", "%"),
            ("seed", ""),
            ("load", "x"),
            ("window", "x"),
            ("requests", ""),
            ("figure", ""),
            ("value", ""),
            ("stalled", "% writes"),
            ("disk", "% busy"),
            ("limit", ""),
            ("goal", ""),
        ];
        let mut table = Table::new(&head);
        for run in &self.runs {
            let value = run.value.map_or_else(|| Cell::text("-"), |value| Cell::num(value, 2));
            let goal = match (run.reached, run.why.as_str()) {
                (true, _) => "reached",
                (false, "") => "missed",
                (false, why) => why,
            };
            table.push(vec![
                Cell::int(run.nvs_pages),
                Cell::text(&run.policy),
                Cell::text(&run.thresholds),
                Cell::int(run.seed),
                Cell::num(run.load, 2),
                Cell::int(run.length),
                Cell::int(run.reads + run.writes),
                Cell::text(&run.figure),
                value,
                Cell::num(100.0 * run.stalled_share, 2),
                Cell::num(100.0 * run.disk_busy, 0),
                Cell::text(&run.limit),
                Cell::text(goal),
            ]);
        }
        table
    }

    /// The goal's figure by size, as a share of the limit: the best variant of each size that was
    /// simulated, one line a policy, and the goal across.
    pub fn plot(&self) -> PlotSpec {
        let title = format!("How near the goal {}", self.goal);
        let mut plot = PlotSpec::lines(&title, "NVS (pages)", "Figure over its limit")
            .x_scale(Scale::Log2)
            .y_scale(Scale::Log10)
            .h_line(1.0, "goal");
        let mut lines: BTreeMap<&str, BTreeMap<u64, f64>> = BTreeMap::new();
        let verdicts = verdicts(&self.runs, self.load_factor);
        for run in &verdicts {
            let Some(ratio) = run.ratio else { continue };
            let best = lines.entry(&run.policy).or_default().entry(run.nvs_pages).or_insert(ratio);
            *best = best.min(ratio);
        }
        for (policy, points) in lines {
            let points = points.into_iter().map(|(size, ratio)| (size as f64, ratio)).collect();
            plot = plot.series(policy, points);
        }
        plot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_given_once_each() {
        let prices = Prices::parse("nvs=12, memory=4.5").expect("prices");
        assert_eq!((prices.nvs_per_gib, prices.memory_per_gib), (12.0, 4.5));
        let gib = 1 << 30;
        let needs = Needs { device_bytes_4096: 2 * gib, memory_bytes: gib / 2, ..Needs::default() };
        assert_eq!(prices.cost(&needs), 26.25);
        assert_eq!(Prices::parse("nvs=1").expect("a price").memory_per_gib, 0.0);
        for bad in ["", "nvs", "nvs=x", "nvs=-1", "nvs=1,nvs=2", "disk=3", "nvs=inf"] {
            assert!(Prices::parse(bad).unwrap_err().contains("--prices takes"), "{bad}");
        }
    }

    #[test]
    fn text_names_the_size_that_misses_and_has_the_warnings() {
        let below = Some(AdvisedRun { nvs_pages: 64, ..AdvisedRun::default() });
        let mut advice = Advice { below, ..Advice::default() };
        let text = advice.render(Format::Table);
        assert!(text.contains("The largest size tried misses it: 64 pages"), "{text}");
        assert!(!text.contains("Warnings"), "{text}");
        advice.answer = Some(AdvisedRun::default());
        advice.warnings = vec!["2 devices share a volume".into()];
        let text = advice.render(Format::Table);
        assert!(text.contains("One step below misses it: 64 pages"), "{text}");
        assert!(text.contains("\nWarnings:\n  - 2 devices share a volume\n"), "{text}");
    }

    #[test]
    fn the_worst_of_the_longest_runs_decides() {
        let run = |seed, length, ratio: f64| AdvisedRun {
            seed,
            length,
            load: 1.0,
            ratio: Some(ratio),
            reached: ratio < 1.0,
            ..AdvisedRun::default()
        };
        let decides = |runs: &[AdvisedRun]| verdicts(runs, 1.0)[0].ratio;
        assert_eq!(decides(&[run(1, 1, 2.0), run(1, 10, 0.5)]), Some(0.5));
        assert_eq!(decides(&[run(1, 10, 0.5), run(2, 10, 1.5), run(3, 1, 3.0)]), Some(1.5));
        assert_eq!(decides(&[run(1, 10, 1.5), run(1, 100, 0.7), run(2, 10, 0.6)]), Some(0.7));
        assert!(verdicts(&[run(1, 1, 2.0)], 1.5).is_empty());
    }
}
