//! Experiments kept as TOML: the policies, options and sweep of a comparison.

use crate::compare::Comparison;
use crate::options::{OptionError, RunOptions};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// An experiment file. Every field may be left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Experiment {
    /// Heading of the report.
    pub title: Option<String>,
    /// Policies, each with its parameters.
    pub policies: Vec<String>,
    /// Run options by name; numbers may be written as such.
    pub options: BTreeMap<String, toml::Value>,
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

/// Reads `option=v1,v2,...`, `option=v1;v2;...` or `option=first..last..step`.
///
/// # Errors
/// No `=`, no values, or an invalid range.
pub fn parse_sweep(text: &str) -> Result<(String, Vec<String>), OptionError> {
    let bad = |what: &str| {
        OptionError::usage(format!(
            "--sweep takes OPTION=V1,V2,... or OPTION=FIRST..LAST..STEP: {what} in `{text}`"
        ))
    };
    let (name, values) = text.split_once('=').ok_or_else(|| bad("no `=`"))?;
    let bounds: Vec<&str> = values.split("..").collect();
    let values = match bounds[..] {
        [first, last, step] => {
            let number = |text: &str| text.trim().parse::<u64>().ok();
            let range = (number(first), number(last), number(step));
            let (Some(first), Some(last), Some(step)) = range else {
                return Err(bad("not whole numbers"));
            };
            if step == 0 || last < first || (last - first) / step > 10_000 {
                return Err(bad("no range"));
            }
            (first..=last).step_by(step as usize).map(|v| v.to_string()).collect()
        }
        _ => {
            let separator = if values.contains(';') { ';' } else { ',' };
            values.split(separator).map(|v| v.trim().to_string()).collect::<Vec<String>>()
        }
    };
    if values.iter().any(String::is_empty) {
        return Err(bad("an empty value"));
    }
    Ok((name.trim().to_string(), values))
}

impl Experiment {
    /// Reads an experiment file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has a key that is not one of an experiment's.
    pub fn read(path: &Path) -> Result<Experiment, OptionError> {
        let named = |error: &dyn std::fmt::Display| {
            OptionError::input(format!("{}: {}", path.display(), one_line(&error.to_string())))
        };
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        let table: toml::Table = toml::from_str(&text).map_err(|error| named(&error))?;
        if table.contains_key("panels") {
            let item = "has several panels, which are not one comparison: run it with `destage \
                        reproduce` (--list names the items)";
            return Err(named(&item));
        }
        toml::from_str(&text).map_err(|error| named(&error))
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
        for (name, value) in &self.options {
            let text = match value {
                toml::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            options.set(name, &text)?;
        }
        Ok(options)
    }

    /// The comparison it describes, with these options.
    pub fn comparison(&self, base: RunOptions, command: String) -> Comparison {
        let variant =
            |policy: &String| (policy.clone(), vec![("policy".to_string(), policy.clone())]);
        let seeds = self.seeds.unwrap_or(if self.confidence_percent.is_some() { 3 } else { 1 });
        Comparison {
            title: self
                .title
                .clone()
                .unwrap_or_else(|| format!("{} on {}", self.policies.join(", "), load_of(&base))),
            command,
            base,
            variants: self.policies.iter().map(variant).collect(),
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
    fn sweeps_are_lists_or_ranges() {
        let values = |text| parse_sweep(text).map(|(_, values)| values);
        assert_eq!(values("iops=100..300..100").unwrap(), ["100", "200", "300"]);
        assert_eq!(values("thresholds=90/80,70/40").unwrap(), ["90/80", "70/40"]);
        assert_eq!(values("policy=wow:0,2;lrw").unwrap(), ["wow:0,2", "lrw"]);
        assert!(
            values("iops").is_err() && values("iops=").is_err() && values("x=1..9..0").is_err()
        );
    }

    #[test]
    fn experiments_know_their_keys() {
        let text = "policies = [\"lrw\"]\nsweep = \"iops=1,2\"\n[options]\nnvs = 4096\n";
        let experiment: Experiment = toml::from_str(text).unwrap();
        assert_eq!(experiment.options().unwrap().get("nvs"), "4096");
        assert!(toml::from_str::<Experiment>("polices = []").is_err());
    }
}
