//! An item to reproduce, as its file in `specs/experiments` says it.

use super::kinds::RunnerKind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Options by name; numbers may be written as such.
pub type Options = BTreeMap<String, toml::Value>;

/// One figure or table of a paper: what runs, what is read off the runs, what was published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ItemFile {
    /// Heading.
    pub title: String,
    /// Source of the published values.
    pub source: String,
    /// What the paper leaves open, and what is taken here.
    #[serde(default)]
    pub about: String,
    /// Headings of the two columns that are compared, where nothing was published.
    #[serde(default)]
    pub columns: Option<[String; 2]>,
    /// Options common to all panels.
    #[serde(default)]
    pub options: Options,
    /// Seeds per point.
    #[serde(default = "one")]
    pub seeds: u32,
    /// What a quick run does differently.
    #[serde(default)]
    pub quick: Quick,
    /// What runs.
    pub panels: Vec<Panel>,
    /// What is read off the runs.
    #[serde(default)]
    pub values: Vec<Value>,
    /// What is drawn.
    #[serde(default)]
    pub figures: Vec<Drawing>,
}

fn one() -> u32 {
    1
}

/// What a quick run does differently; it uses one seed, and each panel's `quick-sweep`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Quick {
    /// Options that replace those of the full run.
    pub options: Options,
}

/// Runs that share options and a sweep.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Panel {
    /// Name within the item.
    pub name: String,
    /// What carries out the runs.
    pub runner: RunnerKind,
    /// Added to the names of the lines where a figure shows several panels.
    pub label: String,
    /// Options over the item's.
    pub options: Options,
    /// One variant for each of these policies.
    pub policies: Vec<String>,
    /// Further variants.
    pub variants: Vec<Variant>,
    /// The swept option and its values.
    pub sweep: Option<String>,
    /// The same in a quick run.
    pub quick_sweep: Option<String>,
    /// Options over all others in a quick run.
    pub quick_options: Options,
}

/// A named set of options.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Variant {
    /// Name in values and figures.
    pub label: String,
    /// Options over the panel's.
    pub options: Options,
}

/// How a value along a sweep becomes one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fold {
    /// The least.
    Min,
    /// The largest.
    Max,
    /// The mean.
    Mean,
    /// The value of the sweep that has the least; of equals the first.
    AtMin,
}

/// One line of the table: a figure of one variant, perhaps over that of another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Value {
    /// What it is.
    pub what: String,
    /// Unit; empty for ratios.
    #[serde(default)]
    pub unit: String,
    /// Panel it is read off.
    pub panel: String,
    /// A figure of a run by name, or one of a sweep: `peak-iops`, `kept-iops` (the most that a run
    /// served which kept up with its target), `iops-at-ms` with `level`.
    pub metric: String,
    /// Mean response time in ms for `iops-at-ms`.
    #[serde(default)]
    pub level: f64,
    /// Variant.
    pub of: String,
    /// Variant whose figure it is divided by.
    pub over: Option<String>,
    /// Panel of `over`, if another.
    pub over_panel: Option<String>,
    /// Value of the sweep at which it is read.
    pub at: Option<String>,
    /// The same for `over`, if another.
    pub over_at: Option<String>,
    /// Over all values of the sweep.
    pub fold: Option<Fold>,
    /// Factor of the result, such as 100 for per cent.
    #[serde(default = "unity")]
    pub scale: f64,
    /// What was published.
    pub published: Option<f64>,
    /// In place of a published value: the same figure of this variant.
    pub without: Option<String>,
    /// Least and largest value that count as reproduced.
    pub band: Option<[f64; 2]>,
    /// Least value that counts as reproduced.
    pub least: Option<f64>,
    /// Largest value that counts as reproduced.
    pub most: Option<f64>,
}

fn unity() -> f64 {
    1.0
}

/// What a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawingKind {
    /// Mean response time by achieved throughput.
    Response,
    /// Target throughput by achieved throughput.
    Target,
    /// A figure of the runs along the swept option.
    Along,
    /// A series over time.
    Time,
}

/// One drawing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Drawing {
    /// Name, fit for a file.
    pub name: String,
    /// Heading.
    pub title: String,
    /// What it shows.
    pub kind: DrawingKind,
    /// Panels it shows.
    pub panels: Vec<String>,
    /// Variants it shows; all if empty.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Whether a variant is one line through all panels.
    #[serde(default)]
    pub join: bool,
    /// Figure of a run, or series over time.
    #[serde(default)]
    pub metric: String,
    /// Value of the sweep, for a series over time.
    pub at: Option<String>,
    /// Label of the x axis, if not the usual one.
    pub x_label: Option<String>,
    /// Label of the y axis, if not the usual one.
    pub y_label: Option<String>,
    /// Logarithmic x axis, marked at powers of two.
    #[serde(default)]
    pub log_x: bool,
    /// Logarithmic y axis.
    #[serde(default)]
    pub log_y: bool,
    /// Where lines are cut off.
    pub y_most: Option<f64>,
    /// Factor of the y values.
    #[serde(default = "unity")]
    pub scale: f64,
}
