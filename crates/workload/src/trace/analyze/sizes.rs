//! Sizes of requests.

use std::collections::HashMap;

use destage_report::trace::{SizeClass, SizeFigures, Sizes};

use super::super::mixer::Mixed;

/// Largest size of the first class that is not 0.
const SECTOR_BYTES: u64 = 512;

/// Requests of each size, in bytes: reads and writes.
#[derive(Default)]
pub(super) struct SizeCounts(HashMap<u64, [u64; 2], Mixed>);

impl SizeCounts {
    pub(super) fn add(&mut self, bytes: u64, writes: bool) {
        self.0.entry(bytes).or_default()[usize::from(writes)] += 1;
    }

    pub(super) fn finish(self) -> Sizes {
        let mut sorted: Vec<(u64, [u64; 2])> = self.0.into_iter().collect();
        sorted.sort_unstable();
        let mut classes: Vec<SizeClass> = Vec::new();
        for (bytes, [reads, writes]) in &sorted {
            let to_bytes = class_of(*bytes);
            while classes.last().is_some_and(|last| last.to_bytes < to_bytes) {
                let next = class_of(classes[classes.len() - 1].to_bytes + 1);
                classes.push(SizeClass { to_bytes: next, reads: 0, writes: 0 });
            }
            if classes.is_empty() {
                classes.push(SizeClass { to_bytes, reads: 0, writes: 0 });
            }
            let class = classes.last_mut().expect("pushed above");
            class.reads += reads;
            class.writes += writes;
        }
        Sizes { reads: figures(&sorted, 0), writes: figures(&sorted, 1), classes }
    }
}

fn class_of(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { bytes.max(SECTOR_BYTES).next_power_of_two() }
}

/// Figures of one kind, of sizes in ascending order.
fn figures(sorted: &[(u64, [u64; 2])], kind: usize) -> Option<SizeFigures> {
    let requests: u64 = sorted.iter().map(|(_, counts)| counts[kind]).sum();
    if requests == 0 {
        return None;
    }
    let percentile = |percent: u64| {
        let wanted = (u128::from(requests) * u128::from(percent)).div_ceil(100);
        let mut seen = 0;
        let reached = sorted.iter().find(|(_, counts)| {
            seen += u128::from(counts[kind]);
            seen >= wanted
        });
        reached.map_or(0, |(bytes, _)| *bytes)
    };
    let bytes: f64 = sorted.iter().map(|(bytes, counts)| *bytes as f64 * counts[kind] as f64).sum();
    Some(SizeFigures {
        mean_bytes: bytes / requests as f64,
        p50_bytes: percentile(50),
        p90_bytes: percentile(90),
        p99_bytes: percentile(99),
        max_bytes: percentile(100),
    })
}
