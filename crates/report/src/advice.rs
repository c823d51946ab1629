//! How much NVS, which policy: what `destage advise` found, and its text.

use crate::format::Format;
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
    /// The options common to all runs.
    pub options: BTreeMap<String, String>,
    /// Sizes that were considered, in pages, ascending.
    pub sizes_pages: Vec<u64>,
    /// The cheapest that reaches the goal, if one does.
    pub answer: Option<AdvisedRun>,
    /// What the answer takes of a served array; absent without one.
    pub needs: Option<Needs>,
    /// How far the answer is below the goal, as a share of it.
    pub margin: Option<f64>,
    /// The greatest load at which the answer was seen to hold, as a multiple of the load asked
    /// about; 1 if it held at no greater one, absent for loads that cannot be made greater.
    pub holds_to_load: Option<f64>,
    /// The best of one size less, which misses the goal; absent at the smallest size.
    pub below: Option<AdvisedRun>,
    /// Sampled replays, by size and policy.
    pub curve: Vec<CurvePoint>,
    /// Every full simulation made, by size.
    pub runs: Vec<AdvisedRun>,
    /// Simulations that the full grid would have taken.
    pub grid_runs: u64,
    /// How sure the answer is, in plain sentences.
    pub sure: Vec<String>,
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
    fn describe(&self) -> String {
        let thresholds = match self.thresholds.as_str() {
            "" => String::new(),
            thresholds => format!(", thresholds {thresholds}"),
        };
        let mib = self.nvs_pages as f64 / 256.0;
        format!("{} pages ({mib:.1} MiB), {}{thresholds}", self.nvs_pages, self.policy)
    }

    fn figure_text(&self) -> String {
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
        let mut text = format!("Goal: {}\n", self.goal);
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
                }
            }
            _ => text += "Answer: none of the sizes reaches it\n",
        }
        if let Some(below) = &self.below {
            text += &format!("One step below misses it: {}\n", below.describe());
            text += &format!("        {}\n", below.figure_text());
        }
        text += "\nHow sure:\n";
        for sentence in &self.sure {
            text += &format!("  - {sentence}\n");
        }
        text += "\nSampled replay: pages destaged for each page written\n";
        text += &self.curve_table().render(Format::Table);
        text += "\nFull simulations\n";
        text + &self.runs_table().render(Format::Table)
    }

    fn curve_table(&self) -> Table {
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

    fn runs_table(&self) -> Table {
        let head = [
            ("NVS", "pages"),
            ("policy", ""),
            ("thresholds", "%"),
            ("seed", ""),
            ("load", "x"),
            ("window", "x"),
            ("figure", ""),
            ("value", ""),
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
                Cell::text(&run.figure),
                value,
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
        for run in self.runs.iter().filter(|run| run.load == 1.0) {
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
