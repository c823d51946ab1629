//! `what-if` and `record`: what the monitor of the array answers.

use super::command::{About, Argument, Command, Context, Kind, Recording};
use crate::array::refusal::{RecordingError, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Reports what other policies would have destaged.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WhatIf {}

impl Command for WhatIf {
    const ABOUT: About = About {
        name: "what-if",
        help: "Report what other policies would have destaged (serve --what-if)",
        details: "Example: destage status tank --what-if",
        arguments: &[],
        changes: false,
        http: false,
        question: "",
        done: "",
    };
    type Reply = Value;

    fn run(self, context: &mut Context<'_>) -> Result<Value, Refusal> {
        context.monitor.what_if().ok_or(Refusal::NoShadows)
    }
}

/// Records the requests as a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Record {
    /// The file, by its absolute path.
    pub out: PathBuf,
    /// For this many seconds at most.
    pub seconds: Option<f64>,
    /// This many requests at most.
    pub requests: u64,
    /// Only one in this many write groups, chosen by its number.
    pub one_in: u64,
}

impl Command for Record {
    const ABOUT: About = About {
        name: "record",
        help: "Record the load of a served array as a trace",
        details: "Example: destage trace record tank --out tank.dtrc.zst --time 10m",
        arguments: &[Argument::required(
            "out",
            Kind::Text("FILE"),
            "The trace: .dtrc or .csv, compressed or not",
        )],
        changes: false,
        http: false,
        question: "",
        done: "",
    };
    type Reply = Value;

    fn run(self, context: &mut Context<'_>) -> Result<Value, Refusal> {
        if !self.out.is_absolute() {
            let path = self.out.display().to_string();
            return Err(RecordingError::RelativePath(path).into());
        }
        let time = self.seconds.map(Duration::try_from_secs_f64).transpose();
        let time = time.map_err(|error| RecordingError::Duration(error.to_string()))?;
        let Record { out, requests, one_in, .. } = self;
        let recording = Recording { out, time, requests, one_in };
        Ok(context.monitor.record(&recording, context.progress)?)
    }
}
