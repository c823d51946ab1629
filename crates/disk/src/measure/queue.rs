//! What queueing gains: the window with which the model serves random reads as fast as the drive.

use super::bench::Bench;
use super::probe::{Command, Kind, MeasureError, ModelProbe, Probe};
use crate::spec::{DiskSpec, Scheduler};

/// Commands outstanding, and how many are served.
pub(super) const DEPTH: usize = 32;
const COMMANDS: usize = 800;
const WINDOWS: [usize; 13] = [1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 28, 32];

/// Time of a random read with [`DEPTH`] outstanding, in ns.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<f64, MeasureError> {
    let commands = reads(bench.probe.sectors(), bench.probe.sector_bytes());
    bench.commands += commands.len() as u64;
    let all = bench.probe.serve_all(DEPTH, &commands)?;
    Ok(all as f64 / commands.len() as f64)
}

fn reads(sectors: u64, sector_bytes: u32) -> Vec<Command> {
    let mut random = crate::figures::Random(32);
    let page = u64::from(4096_u32.div_ceil(sector_bytes));
    let read = |_| {
        let lbn = random.below(sectors / page) * page;
        Command { lbn, sectors: page as u32, kind: Kind::Read }
    };
    (0..COMMANDS).map(read).collect()
}

/// Sets the window with which the spec's reads take this long.
pub(super) fn fit(spec: &mut DiskSpec, sectors: u64, read_ns: f64) -> Result<(), MeasureError> {
    let commands = reads(sectors, spec.sector_bytes);
    let mut best = (f64::INFINITY, 1);
    for window in WINDOWS {
        spec.window = window;
        spec.scheduler = if window == 1 { Scheduler::Fcfs } else { Scheduler::Sptf };
        let all = ModelProbe::new(spec, 0..0).serve_all(DEPTH, &commands)?;
        let off = (all as f64 / commands.len() as f64 / read_ns - 1.0).abs();
        // A greater window has to be better beyond doubt.
        if off < best.0 - 0.01 {
            best = (off, window);
        }
    }
    spec.window = best.1;
    spec.scheduler = if best.1 == 1 { Scheduler::Fcfs } else { Scheduler::Sptf };
    Ok(())
}
