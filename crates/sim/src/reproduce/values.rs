//! From the runs of an item to the lines of its table.

use super::item::{Fold, Value};
use super::runner::{Cell, Plan, RunFigures};
use crate::estimate::{crossing, estimate};
use destage_report::ReproducedRow;
use std::collections::BTreeMap;

/// The runs of one panel, and the plan they came from.
#[derive(Clone, Debug)]
pub struct PanelRuns {
    /// The plan.
    pub plan: Plan,
    /// Added to names of lines where a figure shows several panels.
    pub label: String,
    /// Unit of the swept option.
    pub unit: &'static str,
    /// What the runs said.
    pub cells: Vec<Cell>,
}

impl PanelRuns {
    /// The runs of a variant with this seed, in the order of the sweep.
    fn of<'a>(&'a self, variant: &'a str, seed: usize) -> impl Iterator<Item = &'a RunFigures> {
        let cells = self.cells.iter().filter(move |c| c.variant == variant);
        cells.filter_map(move |c| c.samples.get(seed))
    }

    /// A figure of one variant with one seed; at a value of the sweep, where it is of one run.
    fn figure(&self, value: &Value, variant: &str, at: &str, seed: usize) -> Option<f64> {
        let curve = || {
            let pair =
                |s: &RunFigures| Some((*s.figures.get("iops")?, *s.figures.get("response-ms")?));
            self.of(variant, seed).filter_map(pair).collect::<Vec<(f64, f64)>>()
        };
        match value.metric.as_str() {
            "iops-at-ms" => crossing(&curve(), value.level),
            "kept-iops" => {
                let kept = self.of(variant, seed).filter(|s| kept_up(s));
                kept.filter_map(|s| s.figures.get("iops").copied()).reduce(f64::max)
            }
            "peak-iops" => curve().into_iter().map(|(iops, _)| iops).reduce(f64::max),
            name => {
                let cell = self.cells.iter().find(|c| c.variant == variant && c.value == at)?;
                cell.samples.get(seed)?.figures.get(name).copied()
            }
        }
    }
}

/// All panels of an item by name.
pub type Panels = BTreeMap<String, PanelRuns>;

/// Figures of an entire sweep.
pub const OF_SWEEPS: [&str; 3] = ["iops-at-ms", "kept-iops", "peak-iops"];

/// Least share of its target that a run serves when it keeps up: the bound of its own warning.
const KEPT: f64 = 0.97;

fn kept_up(sample: &RunFigures) -> bool {
    let figure = |name: &str| sample.figures.get(name).copied().unwrap_or(f64::NAN);
    figure("iops") >= KEPT * figure("target-iops")
}

/// The value of `variant`, or of `variant` over `value.over`, with one seed.
fn once(value: &Value, variant: &str, panels: &Panels, seed: usize) -> Option<f64> {
    let panel = panels.get(&value.panel)?;
    let other = value.over_panel.as_ref().map_or(Some(panel), |name| panels.get(name))?;
    let read = |at: &str, over_at: &str| {
        let mine = panel.figure(value, variant, at, seed)?;
        match &value.over {
            Some(over) => {
                Some(mine / other.figure(value, over, over_at, seed)?).filter(|v| v.is_finite())
            }
            None => Some(mine),
        }
    };
    let at = value.at.as_deref().unwrap_or_default();
    let Some(fold) = value.fold else {
        return read(at, value.over_at.as_deref().unwrap_or(at));
    };
    let all: Option<Vec<f64>> = panel.plan.values().iter().map(|at| read(at, at)).collect();
    let all = all?;
    match fold {
        Fold::AtMin => {
            let least = all.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            least.and_then(|(place, _)| panel.plan.values().get(place)?.parse().ok())
        }
        Fold::Min => all.into_iter().reduce(f64::min),
        Fold::Max => all.into_iter().reduce(f64::max),
        Fold::Mean => Some(all.iter().sum::<f64>() / all.len() as f64),
    }
}

/// Whether the panels that the value is read off were run.
pub fn has_runs(value: &Value, panels: &Panels) -> bool {
    let other = value.over_panel.as_ref().is_none_or(|name| panels.contains_key(name));
    other && panels.contains_key(&value.panel)
}

/// Mean over seeds and half its confidence interval; none if a seed has no such value.
fn over_seeds(value: &Value, variant: &str, panels: &Panels) -> Option<(f64, f64)> {
    let seeds = panels.get(&value.panel)?.plan.seeds.max(1) as usize;
    let all: Option<Vec<f64>> = (0..seeds).map(|seed| once(value, variant, panels, seed)).collect();
    let estimate = estimate(&all?);
    Some((estimate.mean * value.scale, estimate.half_width * value.scale))
}

/// The line of the table.
pub fn row(value: &Value, panels: &Panels) -> ReproducedRow {
    let ours = over_seeds(value, &value.of, panels);
    let without = value.without.as_ref().and_then(|v| over_seeds(value, v, panels));
    let [low, high] = value.band.map_or([None, None], |[low, high]| [Some(low), Some(high)]);
    ReproducedRow {
        what: value.what.clone(),
        unit: value.unit.clone(),
        reference: value.published.or(without.map(|(mean, _)| mean)),
        ours: ours.map(|(mean, _)| mean),
        half_width: ours.map_or(0.0, |(_, half)| half),
        low: low.or(value.least),
        high: high.or(value.most),
        published: value.published.is_some(),
        gain: value.published.is_some() && value.over.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panels() -> Panels {
        let cell = |variant: &str, value: &str, figures: &[(f64, f64)]| Cell {
            variant: variant.into(),
            value: value.into(),
            samples: figures
                .iter()
                .map(|(iops, ms)| RunFigures {
                    figures: [("iops", *iops), ("response-ms", *ms)].into(),
                    ..RunFigures::default()
                })
                .collect(),
        };
        let cells = vec![
            cell("a", "1", &[(100.0, 10.0), (100.0, 10.0)]),
            cell("a", "2", &[(200.0, 30.0), (300.0, 30.0)]),
            cell("b", "1", &[(50.0, 10.0), (50.0, 10.0)]),
            cell("b", "2", &[(50.0, 15.0), (50.0, 15.0)]),
        ];
        let sweep = Some(("iops".to_string(), vec!["1".to_string(), "2".to_string()]));
        let plan = Plan {
            title: String::new(),
            base: vec![],
            variants: vec![],
            sweep,
            seeds: 2,
            traces: "".into(),
        };
        [("p".to_string(), PanelRuns { plan, label: String::new(), unit: "-", cells })].into()
    }

    fn value(text: &str) -> Value {
        toml::from_str(&format!("what = \"x\"\npanel = \"p\"\nof = \"a\"\n{text}")).unwrap()
    }

    fn ours(text: &str) -> Option<f64> {
        row(&value(text), &panels()).ours
    }

    #[test]
    fn figures_ratios_and_folds() {
        assert_eq!(ours("metric = \"iops\"\nat = \"1\""), Some(100.0));
        assert_eq!(ours("metric = \"iops\"\nat = \"2\""), Some(250.0));
        assert_eq!(ours("metric = \"iops\"\nat = \"2\"\nover = \"b\""), Some(5.0));
        assert_eq!(ours("metric = \"iops\"\nat = \"2\"\nover = \"b\"\nover-at = \"1\""), Some(5.0));
        assert_eq!(ours("metric = \"iops\"\nfold = \"min\"\nover = \"b\""), Some(2.0));
        assert_eq!(ours("metric = \"iops\"\nfold = \"at-min\""), Some(1.0));
        assert_eq!(ours("metric = \"peak-iops\""), Some(250.0));
        assert_eq!(ours("metric = \"peak-iops\"\nscale = 2.0"), Some(500.0));
    }

    #[test]
    fn a_level_that_is_never_crossed_has_no_value() {
        assert_eq!(ours("metric = \"iops-at-ms\"\nlevel = 20.0"), Some(175.0));
        assert_eq!(ours("metric = \"iops-at-ms\"\nlevel = 20.0\nover = \"b\""), None);
        let row = row(&value("metric = \"iops\"\nat = \"1\"\nwithout = \"b\""), &panels());
        assert_eq!((row.reference, row.ours, row.published), (Some(50.0), Some(100.0), false));
    }
}
