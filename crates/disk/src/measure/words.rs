//! What a measurement found, for people: figures, and what the spec assumes.

use super::Measured;
use super::writes::FLUSHED;
use crate::seek::table_ns;
use crate::spec::DiskSpec;

/// A figure: its name, value, decimals and unit.
pub type Row = (&'static str, f64, usize, &'static str);

impl Measured {
    /// Where the spec's numbers are from, in a paragraph.
    pub fn notes(&self, target: &str) -> String {
        let mut assumed = vec!["age limit of queued commands", "jog"];
        let writes = self.writes.as_ref().and_then(Option::as_ref);
        let cache = writes.and_then(|writes| writes.cache.as_ref());
        if writes.is_none() {
            assumed.extend(["write cache (none)", "FLUSH", "FUA", "overhead of writes (as reads)"]);
        }
        if writes.is_none() || cache.is_some_and(|cache| !cache.durable) {
            assumed.push("settling of writes");
        }
        if self.tracks.as_ref().is_some_and(|tracks| tracks.heads.is_none()) {
            assumed.push("number of heads (one per TB)");
        }
        format!(
            "Made by `destage disks measure` from {target}. Assumed: {}. All else was measured.",
            assumed.join(", ")
        )
    }

    /// The figures that describe the drive.
    pub fn figures(&self, spec: &DiskSpec) -> Vec<Row> {
        let zones = crate::model::zones(spec);
        let cylinders: u32 = zones.iter().map(|zone| zone.cylinders).sum();
        let seeks = table_ns(&spec.seek, cylinders);
        let seek = |distance: u32| f64::from(seeks[distance as usize]) / 1e6;
        let last = cylinders.saturating_sub(1);
        let track = |at: usize| f64::from(zones[at].sectors_per_track);
        let overhead = &spec.overhead;
        let mut rows = vec![
            ("revolution", 6e4 / spec.rpm, 4, "ms"),
            ("noise of a completion", self.noise_ns / 1e6, 4, "ms"),
            ("heads", f64::from(spec.heads), 0, ""),
            ("cylinders", f64::from(cylinders), 0, ""),
            ("zones", zones.len() as f64, 0, ""),
            ("track, outermost", track(0), 0, "sectors"),
            ("track, innermost", track(zones.len() - 1), 0, "sectors"),
            ("seek, one cylinder", seek(1.min(last)), 3, "ms"),
            ("seek, a third", seek(last / 3), 3, "ms"),
            ("seek, full stroke", seek(last), 3, "ms"),
            ("head switch", spec.head_switch_ms, 3, "ms"),
            ("overhead of a read", overhead.read_ms + overhead.per_command_ms, 3, "ms"),
            ("window", spec.window as f64, 0, "commands"),
        ];
        if let Some(queued_ns) = self.queued_ns {
            rows.push(("random reads, depth 32", 1e9 / queued_ns, 1, "I/O/s"));
        }
        if let Some(bus) = spec.bus {
            rows.push(("sector on the bus", bus.read_sector_ms, 4, "ms"));
        }
        if let Some(read) = spec.read_ahead {
            rows.push(("read-ahead segments", f64::from(read.segments), 0, ""));
            rows.push(("read-ahead", f64::from(read.ahead_sectors), 0, "sectors"));
        }
        let Some(writes) = self.writes.as_ref().and_then(Option::as_ref) else { return rows };
        rows.push(("overhead of a write", overhead.write_ms + overhead.per_command_ms, 3, "ms"));
        rows.push(("settling of a write", spec.write_settle_ms, 3, "ms"));
        let Some(cache) = &writes.cache else { return rows };
        rows.push(("write cache", f64::from(cache.capacity_sectors), 0, "sectors"));
        // The line through the first and the last that the cache can hold.
        let held = |at: &usize| {
            let writes = FLUSHED[*at];
            writes * 8 <= u64::from(cache.capacity_sectors)
                && (cache.extents == 0 || writes <= u64::from(cache.extents))
        };
        let last = (1..FLUSHED.len()).rev().find(held).unwrap_or(1);
        let (low, high) = (cache.flush_ns[0], cache.flush_ns[last]);
        let per_write = (high - low) / (FLUSHED[last] - FLUSHED[0]) as f64;
        let fixed = low - FLUSHED[0] as f64 * per_write;
        rows.push(("FLUSH, fixed", fixed / 1e6, 2, "ms"));
        rows.push(("FLUSH, per scattered write", per_write / 1e6, 2, "ms"));
        if cache.durable {
            rows.push((
                "write with FUA, without waiting",
                writes.write_after_write_ns / 1e6,
                3,
                "ms",
            ));
        }
        rows
    }
}
