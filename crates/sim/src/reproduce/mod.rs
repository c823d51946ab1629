//! The papers' figures and tables, run again.
//!
//! Each is an item: a file in `specs/experiments` that says what runs, what is read off the runs,
//! what was published and what is drawn. The files are part of the program.

mod array;
mod figures;
pub mod item;
mod items;
pub mod kinds;
mod reads;
mod rebuild;
pub mod runner;
mod track;
mod values;

use crate::axis::parse_sweep;
use crate::compare::CompareError;
use crate::options::OptionError;
use destage_engine::registry::nearest_first;
use destage_report::{ReproducedFigure, ReproducedItem, ReproducedPanel, ReproducedPoint};
use item::{DrawingKind, ItemFile, Options, Panel, Value};
pub use items::ITEMS;
use runner::{Cell, OptionValues, Plan};
use std::path::{Path, PathBuf};
use values::{OF_SWEEPS, PanelRuns, Panels};

/// One figure or table of a paper.
pub struct Item {
    /// Paper, as the command line names it.
    pub paper: &'static str,
    /// Item within the paper, as the command line names it.
    pub name: &'static str,
    /// The item's file.
    text: &'static str,
}

/// The items that `PAPER` or `PAPER:ITEM` names.
///
/// # Errors
/// No such paper, or no such item of it.
pub fn find(text: &str) -> Result<Vec<&'static Item>, OptionError> {
    let (paper, name) = text.split_once(':').map_or((text, None), |(p, n)| (p, Some(n)));
    let of_paper: Vec<&Item> = ITEMS.iter().filter(|item| item.paper == paper).collect();
    if of_paper.is_empty() {
        let mut papers: Vec<&str> = ITEMS.iter().map(|item| item.paper).collect();
        papers.dedup();
        let known = nearest_first(paper, papers).join(", ");
        return Err(OptionError::usage(format!("unknown paper `{paper}`; known: {known}")));
    }
    let Some(name) = name else { return Ok(of_paper) };
    match of_paper.iter().find(|item| item.name == name) {
        Some(item) => Ok(vec![item]),
        None => {
            let known = nearest_first(name, of_paper.iter().map(|item| item.name)).join(", ");
            Err(OptionError::usage(format!("unknown item `{name}` of {paper}; known: {known}")))
        }
    }
}

/// Where traces are looked for: `DESTAGE_TRACES`, or `../shared/traces`.
pub fn trace_folder() -> PathBuf {
    std::env::var_os("DESTAGE_TRACES").map_or_else(|| "../shared/traces".into(), PathBuf::from)
}

/// Options as the command line would have them.
pub(crate) fn settings(options: &Options) -> OptionValues {
    let text = |value: &toml::Value| match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    options.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

/// Settings of which a later one replaces an earlier one.
fn over(parts: &[&Options]) -> OptionValues {
    let mut all = Options::new();
    for part in parts {
        all.extend((*part).clone());
    }
    settings(&all)
}

impl Item {
    /// `PAPER:ITEM`.
    pub fn id(&self) -> String {
        format!("{}:{}", self.paper, self.name)
    }

    /// What its file says.
    ///
    /// # Panics
    /// If the file is malformed: a bug, which a test finds.
    pub fn file(&self) -> ItemFile {
        toml::from_str(self.text).unwrap_or_else(|error| panic!("{}: {error}", self.id()))
    }

    /// How many runs it takes.
    ///
    /// # Errors
    /// An invalid sweep.
    pub fn runs(&self, quick: bool) -> Result<usize, OptionError> {
        let file = self.file();
        let plans = file.panels.iter().map(|panel| plan(&file, panel, quick));
        plans.map(|plan| plan.map(|plan| plan.runs())).sum()
    }

    /// Checks that every run could be made, and that every value and figure names something known.
    ///
    /// # Errors
    /// The first that could not.
    pub fn check(&self) -> Result<(), CompareError> {
        let file = self.file();
        for quick in [false, true] {
            for panel in &file.panels {
                panel.runner.runner().check(&plan(&file, panel, quick)?)?;
            }
            for value in &file.values {
                check_value(&file, value, quick)?;
            }
        }
        check_figures(&file)
    }

    /// Runs it on this many threads; `progress` receives the number of finished runs. Panels whose
    /// traces are missing are skipped, and the result says so.
    ///
    /// # Errors
    /// The first option that does not fit, or run that fails.
    pub fn run(
        &self,
        quick: bool,
        threads: usize,
        traces: &Path,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<ReproducedItem, CompareError> {
        let file = self.file();
        let (mut panels, mut skipped) = (Panels::new(), Vec::new());
        let mut done = 0;
        for panel in &file.panels {
            let plan = Plan { traces: traces.to_path_buf(), ..plan(&file, panel, quick)? };
            let runner = panel.runner.runner();
            if let Some(missing) = runner.missing(&plan) {
                skipped.push(format!("{}: {missing}", panel.name));
                done += plan.runs();
                progress(done);
                continue;
            }
            let cells = runner.run(&plan, threads, &|finished| progress(done + finished))?;
            done += plan.runs();
            let unit = plan.sweep.as_ref().map_or("-", |(name, _)| runner.unit(name));
            let label = panel.label.clone();
            panels.insert(panel.name.clone(), PanelRuns { plan, label, unit, cells });
        }
        Ok(ReproducedItem { skipped, ..self.report(&file, &panels) })
    }

    fn report(&self, file: &ItemFile, panels: &Panels) -> ReproducedItem {
        let samples = panels.values().flat_map(|p| &p.cells).flat_map(|c| &c.samples);
        let columns = file.columns.clone().unwrap_or(["published".into(), "ours".into()]);
        let panel = |panel: &Panel| {
            let PanelRuns { plan, cells, .. } = panels.get(&panel.name)?;
            let sweep = plan.sweep.as_ref();
            let sweep = sweep.map(|(name, values)| format!("{name}={}", values.join(" ")));
            let variants: Vec<&str> = plan.variants.iter().map(|(name, _)| name.as_str()).collect();
            Some(ReproducedPanel {
                name: panel.name.clone(),
                options: plan.base.iter().cloned().collect(),
                variants: variants.join(", "),
                sweep: sweep.unwrap_or_default(),
                seeds: plan.seeds,
                points: cells.iter().map(point).collect(),
            })
        };
        let runs: usize = panels.values().map(|panel| panel.plan.runs()).sum();
        let with_runs = |value: &&Value| values::has_runs(value, panels);
        let drawn = |figure: &&item::Drawing| figure.panels.iter().any(|p| panels.contains_key(p));
        let figure = |figure: &item::Drawing| ReproducedFigure {
            name: figure.name.clone(),
            plot: figures::plot(figure, panels),
        };
        ReproducedItem {
            id: self.id(),
            title: file.title.clone(),
            source: file.source.clone(),
            about: file.about.clone(),
            columns,
            rows: file
                .values
                .iter()
                .filter(with_runs)
                .map(|value| values::row(value, panels))
                .collect(),
            figures: file.figures.iter().filter(drawn).map(figure).collect(),
            panels: file.panels.iter().filter_map(panel).collect(),
            runs: runs as u64,
            skipped: Vec::new(),
            unsettled: samples.filter(|s| s.unsettled).count() as u64,
        }
    }
}

fn point(cell: &Cell) -> ReproducedPoint {
    let names = cell.samples.iter().flat_map(|sample| sample.figures.keys());
    let mean = |name: &&'static str| {
        let all = cell.samples.iter().filter_map(|sample| sample.figures.get(name));
        let (count, sum) = all.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
        sum / count
    };
    let figures = names.map(|name| ((*name).to_string(), mean(name)));
    ReproducedPoint {
        variant: cell.variant.clone(),
        value: cell.value.clone(),
        figures: figures.filter(|(_, value)| value.is_finite()).collect(),
    }
}

fn plan(file: &ItemFile, panel: &Panel, quick: bool) -> Result<Plan, OptionError> {
    let none = Options::new();
    let (all_quick, own_quick) =
        if quick { (&file.quick.options, &panel.quick_options) } else { (&none, &none) };
    let policies = panel.policies.iter();
    let policy = |name: &String| (name.clone(), vec![("policy".to_string(), name.clone())]);
    let variants = panel.variants.iter().map(|v| (v.label.clone(), settings(&v.options)));
    let sweep = match quick {
        true => panel.quick_sweep.as_ref().or(panel.sweep.as_ref()),
        false => panel.sweep.as_ref(),
    };
    Ok(Plan {
        title: file.title.clone(),
        base: over(&[&file.options, &panel.options, all_quick, own_quick]),
        variants: policies.map(policy).chain(variants).collect(),
        sweep: sweep.map(|text| parse_sweep(text)).transpose()?,
        seeds: if quick { 1 } else { file.seeds },
        traces: PathBuf::new(),
    })
}

fn missing(what: &str, name: &str) -> CompareError {
    OptionError::usage(format!("{what} `{name}`, which is not there")).into()
}

fn panel_named<'a>(file: &'a ItemFile, name: &str) -> Result<&'a Panel, CompareError> {
    let found = file.panels.iter().find(|panel| panel.name == *name);
    found.ok_or_else(|| missing("panel", name))
}

fn check_value(file: &ItemFile, value: &Value, quick: bool) -> Result<(), CompareError> {
    let mut read = vec![(&value.panel, Some(&value.of), &value.at)];
    let other = value.over_panel.as_ref().unwrap_or(&value.panel);
    let other_at = if value.over_at.is_some() { &value.over_at } else { &value.at };
    read.push((other, value.over.as_ref(), other_at));
    read.push((&value.panel, value.without.as_ref(), &value.at));
    for (name, variant, at) in read {
        let Some(variant) = variant else { continue };
        let panel = panel_named(file, name)?;
        let plan = plan(file, panel, quick)?;
        if !plan.variants.iter().any(|(label, _)| label == variant) {
            return Err(missing(&format!("`{}`: variant", value.what), variant));
        }
        let of_sweep = OF_SWEEPS.contains(&value.metric.as_str());
        if !of_sweep && !panel.runner.runner().figures().contains(&value.metric.as_str()) {
            return Err(missing(&format!("`{}`: metric", value.what), &value.metric));
        }
        let at = at.as_deref().unwrap_or_default();
        if !of_sweep && value.fold.is_none() && !plan.values().iter().any(|v| v == at) {
            return Err(missing(&format!("`{}`: value", value.what), at));
        }
    }
    Ok(())
}

fn check_figures(file: &ItemFile) -> Result<(), CompareError> {
    for figure in &file.figures {
        for name in &figure.panels {
            let panel = panel_named(file, name)?;
            let figures = panel.runner.runner().figures();
            if figure.kind == DrawingKind::Along && !figures.contains(&figure.metric.as_str()) {
                return Err(missing(&format!("{}: metric", figure.name), &figure.metric));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_can_be_run() {
        for item in ITEMS {
            item.check().unwrap_or_else(|error| panic!("{}: {error}", item.id()));
            assert!(item.runs(true).unwrap() <= item.runs(false).unwrap(), "{}", item.id());
        }
    }

    #[test]
    fn items_are_found_by_paper_and_name() {
        assert!(find("haining-long").unwrap().len() > 1);
        assert_eq!(find("stow:fig8").unwrap()[0].id(), "stow:fig8");
        let error = find("stwo").err().unwrap().message;
        assert!(error.contains("unknown paper `stwo`; known: stow"), "{error}");
        let error = find("stow:fig88").err().unwrap().message;
        assert!(error.contains("unknown item `fig88` of stow; known: fig8"), "{error}");
    }
}
