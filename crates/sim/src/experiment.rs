//! Experiments kept as TOML: the policies, options and sweep of a comparison.

use crate::axis::parse_sweep;
use crate::compare::Comparison;
use crate::options::{OptionError, RunOptions};
use crate::reproduce::item::{ItemFile, Options, Variant};
use crate::reproduce::kinds::RunnerKind;
use crate::reproduce::settings;
use serde::Deserialize;
use std::path::Path;

/// An experiment file. Every field may be left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Experiment {
    /// Heading of the report.
    pub title: Option<String>,
    /// Policies, each with its parameters.
    pub policies: Vec<String>,
    /// Further variants, each with options of its own.
    pub variants: Vec<Variant>,
    /// Run options by name; numbers may be written as such.
    pub options: Options,
    /// The swept option and its values.
    #[serde(deserialize_with = "sweep")]
    pub sweep: Option<(String, Vec<String>)>,
    /// Minimum seeds per point.
    pub seeds: Option<u32>,
    /// Maximum seeds per point, if a confidence interval is requested.
    pub seeds_max: Option<u32>,
    /// Half the 95 % confidence interval wanted, in per cent of the mean.
    pub confidence_percent: Option<f64>,
    /// Response times at which throughput is read off a sweep of iops.
    pub at_ms: Vec<f64>,
}

fn sweep<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<(String, Vec<String>)>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_sweep(&text).map(Some).map_err(serde::de::Error::custom)
}

impl Experiment {
    /// Reads an experiment file; of an item of `destage reproduce` one of its panels, which need
    /// not be named if it is the only one.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has a key that is not one of an experiment's. It
    /// has panels and none of this name, or the panel does not compare write caches.
    pub fn read(path: &Path, panel: Option<&str>) -> Result<Experiment, OptionError> {
        let named = |error: &dyn std::fmt::Display| {
            OptionError::input(format!("{}: {}", path.display(), one_line(&error.to_string())))
        };
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| named(&error))?;
        match (table.contains_key("panels"), panel) {
            (false, None) => toml::from_str(&text).map_err(|error| named(&error)),
            (false, Some(_)) => Err(named(&"has no panels: leave out --panel")),
            (true, name) => {
                let item: ItemFile = toml::from_str(&text).map_err(|error| named(&error))?;
                Experiment::of_panel(item, name).map_err(|why| named(&why))
            }
        }
    }

    /// The experiment of the panel of this name; without a name, of the only one.
    fn of_panel(item: ItemFile, name: Option<&str>) -> Result<Experiment, String> {
        let names: Vec<&str> = item.panels.iter().map(|panel| panel.name.as_str()).collect();
        let (name, panel) = match (name, item.panels.as_slice()) {
            (None, [only]) => (only.name.as_str(), Some(only)),
            (Some(name), panels) => (name, panels.iter().find(|panel| panel.name == name)),
            (None, _) => ("", None),
        };
        let Some(panel) = panel else {
            return Err(match names.as_slice() {
                [only] => format!("has no panel {name}, only {only}: leave out --panel"),
                _ => format!(
                    "has several panels. Name one with --panel: {}. `destage reproduce` runs all",
                    names.join(", ")
                ),
            });
        };
        if panel.runner != RunnerKind::Array {
            return Err(format!(
                "panel {name} does not compare write caches: run it with `destage reproduce`"
            ));
        }
        let mut options = item.options;
        options.extend(panel.options.clone());
        let sweep = panel.sweep.as_deref().map(parse_sweep).transpose();
        Ok(Experiment {
            title: Some(format!("{}: {name}", item.title)),
            policies: panel.policies.clone(),
            variants: panel.variants.clone(),
            options,
            sweep: sweep.map_err(|error| error.to_string())?,
            seeds: Some(item.seeds),
            ..Experiment::default()
        })
    }

    /// Takes a sweep from the command line: it replaces the file's, and the file's own value of
    /// the swept option.
    pub fn sweep_instead(&mut self, sweep: (String, Vec<String>)) {
        self.options.remove(&sweep.0);
        self.sweep = Some(sweep);
    }

    /// Its run options over the defaults.
    ///
    /// # Errors
    /// An unknown option.
    pub fn options(&self) -> Result<RunOptions, OptionError> {
        let mut options = RunOptions::default();
        for (name, value) in settings(&self.options) {
            options.set(&name, &value)?;
        }
        Ok(options)
    }

    /// The comparison it describes, with these options.
    pub fn comparison(&self, base: RunOptions, command: String) -> Comparison {
        let of_policy =
            |policy: &String| (policy.clone(), vec![("policy".to_string(), policy.clone())]);
        let named = |variant: &Variant| (variant.label.clone(), settings(&variant.options));
        let policies = self.policies.iter().map(of_policy);
        let seeds = self.seeds.unwrap_or(if self.confidence_percent.is_some() { 3 } else { 1 });
        let load = match self.sweep.as_ref().map(|(name, _)| name.as_str()) {
            Some("trace") => "traces".into(),
            Some("workload") => "workloads".into(),
            _ => load_of(&base),
        };
        let title = format!("{} on {load}", self.policies.join(", "));
        Comparison {
            title: self.title.clone().unwrap_or(title),
            command,
            base,
            variants: policies.chain(self.variants.iter().map(named)).collect(),
            sweep: self.sweep.clone(),
            seeds,
            confidence: self.confidence_percent.map(|percent| percent / 100.0),
            seeds_max: self.seeds_max.unwrap_or(20).max(seeds),
            levels_ms: self.at_ms.clone(),
        }
    }
}

fn load_of(options: &RunOptions) -> String {
    match options.get("trace") {
        "" => options.get("workload").to_string(),
        trace => trace.rsplit('/').next().unwrap_or(trace).to_string(),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_know_their_keys() {
        let text = "policies = [\"lrw\"]\nsweep = \"iops=1,2\"\n[options]\nnvs = 4096\n";
        let experiment: Experiment = toml::from_str(text).unwrap();
        assert_eq!(experiment.options().unwrap().get("nvs"), "4096");
        assert!(toml::from_str::<Experiment>("polices = []").is_err());
    }
}
