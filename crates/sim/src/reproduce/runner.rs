//! What the runs of a panel are, and what they hand back. Values and figures know nothing of how
//! they are made.

use crate::compare::CompareError;
use crate::options::OPTIONS;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// OptionValues as written: option and value.
pub type OptionValues = Vec<(String, String)>;

/// The runs of one panel; what the options mean is up to the runner.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Heading, for messages.
    pub title: String,
    /// Options common to all runs.
    pub base: OptionValues,
    /// Variants: a label and options over the common ones.
    pub variants: Vec<(String, OptionValues)>,
    /// The swept option and its values.
    pub sweep: Option<(String, Vec<String>)>,
    /// Seeds per point.
    pub seeds: u32,
    /// Folder of the traces that options name.
    pub traces: PathBuf,
}

impl Plan {
    /// Values of the sweep; a single empty one without a sweep.
    pub fn values(&self) -> Vec<String> {
        self.sweep.as_ref().map_or_else(|| vec![String::new()], |(_, values)| values.clone())
    }

    /// What a setting says without regard to variants and sweep.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.base.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The trace that the plan names.
    pub fn trace(&self) -> PathBuf {
        self.traces.join(self.setting("trace").unwrap_or_default())
    }

    /// Why the runs cannot be made here, if the trace is not there.
    pub fn missing_trace(&self) -> Option<String> {
        let trace = self.trace();
        let missing = !trace.is_file();
        missing.then(|| {
            let name = self.setting("trace").unwrap_or_default();
            format!("no {name} in {} (--traces or DESTAGE_TRACES)", self.traces.display())
        })
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.variants.len() * self.values().len() * self.seeds.max(1) as usize
    }
}

/// Carries out plans.
pub trait Runner: Sync {
    /// The figures that its runs have, by name.
    fn figures(&self) -> Vec<&'static str>;

    /// Unit of an option, for the label of an axis.
    fn unit(&self, option: &str) -> &'static str {
        OPTIONS.iter().find(|o| o.name == option).map_or("-", |o| o.unit)
    }

    /// Whether every run of the plan could be made, without making any.
    ///
    /// # Errors
    /// The first option that does not fit.
    fn check(&self, plan: &Plan) -> Result<(), CompareError>;

    /// What the plan needs and cannot find; its runs are then skipped, which is not a failure.
    fn missing(&self, plan: &Plan) -> Option<String> {
        plan.setting("trace").and_then(|_| plan.missing_trace())
    }

    /// Runs the plan on this many threads; `progress` receives the number of finished runs.
    ///
    /// # Errors
    /// The first option that does not fit, or run that fails.
    fn run(
        &self,
        plan: &Plan,
        threads: usize,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Cell>, CompareError>;
}

/// A series over time: seconds and value.
pub type TimeSeries = Vec<(f64, f64)>;

/// What one run says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFigures {
    /// Figures by name.
    pub figures: BTreeMap<&'static str, f64>,
    /// Series over time by name.
    pub series: BTreeMap<&'static str, TimeSeries>,
    /// Whether the run warns that it had not settled.
    pub unsettled: bool,
    /// Digest of everything that happened, where the runner has one.
    pub digest: String,
}

/// One variant at one value of the sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Variant.
    pub variant: String,
    /// Value of the sweep; empty without one.
    pub value: String,
    /// One a seed.
    pub samples: Vec<RunFigures>,
}
