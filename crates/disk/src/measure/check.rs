//! How well a spec predicts what the drive did: traces that were not used to find it.

use super::probe::{Command, Kind, MeasureError, ModelProbe, Probe};
use crate::figures::Random;
use crate::spec::DiskSpec;

/// Commands of a trace.
const COMMANDS: usize = 2000;
/// Quantiles of the distributions that are compared.
const QUANTILES: usize = 1000;

/// How a trace was served, and how the spec would have.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Name of the trace.
    pub trace: &'static str,
    /// Commands in it.
    pub commands: usize,
    /// Mean service time of the drive, in ms.
    pub measured_ms: f64,
    /// The same of the spec.
    pub predicted_ms: f64,
    /// Root mean square of the distance between the two distributions, in ms.
    pub rms_ms: f64,
}

impl Check {
    /// Error of the mean, as a share of it.
    pub fn error(&self) -> f64 {
        self.predicted_ms / self.measured_ms - 1.0
    }

    /// The rms over the measured mean.
    pub fn demerit(&self) -> f64 {
        self.rms_ms / self.measured_ms
    }
}

/// Serves a random and a mixed trace, on the drive and on a model of the spec.
///
/// # Errors
/// The drive failed.
pub fn check(
    probe: &mut dyn Probe,
    spec: &DiskSpec,
    seed: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Check>, MeasureError> {
    let writable = probe.writable();
    let mut checks = Vec::new();
    for (trace, mixed) in [("random", false), ("mixed", true)] {
        let commands = trace_of(probe, mixed, seed);
        let mut model = ModelProbe::new(spec, writable.clone());
        // What the drive still holds of before would be written during the trace.
        if !writable.is_empty() {
            probe.flush()?;
        }
        let (mut measured, mut predicted) = (Vec::new(), Vec::new());
        for (at, (delay_ns, command)) in commands.iter().enumerate() {
            measured.push(probe.serve(*delay_ns, *command)?.service_ns());
            predicted.push(model.serve(*delay_ns, *command)?.service_ns());
            if at % 64 == 0 {
                progress(at as u64);
            }
        }
        checks.push(compare(trace, measured, predicted));
    }
    Ok(checks)
}

/// Commands, each with the time that the host waits before it.
fn trace_of(probe: &dyn Probe, mixed: bool, seed: u64) -> Vec<(u64, Command)> {
    let mut random = Random(seed ^ if mixed { 0x6d69 } else { 0x7261 });
    let page = u64::from(4096_u32.div_ceil(probe.sector_bytes()));
    let (all, writable) = (0..probe.sectors(), probe.writable());
    let mut next = 0;
    let mut kind = Kind::Read;
    let mut commands = Vec::new();
    for _ in 0..COMMANDS {
        let pages = if mixed { 1 + random.below(8) * random.below(3) } else { 1 };
        let sectors = pages * page;
        let follows = mixed && random.below(10) < 3;
        if !follows {
            let writes = mixed && !writable.is_empty() && random.below(3) == 0;
            kind = if writes { Kind::Write } else { Kind::Read };
        }
        let range = if kind == Kind::Read { &all } else { &writable };
        if !follows || next + sectors > range.end {
            let room = (range.end - range.start).saturating_sub(sectors) / page;
            next = range.start + random.below(room.max(1)) * page;
        }
        // A third comes at once, the others within 20 ms.
        let wait = if mixed && random.below(3) > 0 { random.below(20_000_000) } else { 0 };
        commands.push((wait, Command { lbn: next, sectors: sectors as u32, kind }));
        next += sectors;
    }
    commands
}

fn compare(trace: &'static str, mut measured: Vec<f64>, mut predicted: Vec<f64>) -> Check {
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64 / 1e6;
    let (measured_ms, predicted_ms) = (mean(&measured), mean(&predicted));
    measured.sort_by(f64::total_cmp);
    predicted.sort_by(f64::total_cmp);
    let at = |times: &[f64], q: usize| times[(times.len() * q / QUANTILES).min(times.len() - 1)];
    let square = |q| (at(&measured, q) - at(&predicted, q)).powi(2);
    let mean_square = (0..QUANTILES).map(square).sum::<f64>() / QUANTILES as f64;
    Check {
        trace,
        commands: measured.len(),
        measured_ms,
        predicted_ms,
        rms_ms: mean_square.sqrt() / 1e6,
    }
}
