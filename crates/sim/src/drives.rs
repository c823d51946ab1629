//! What the kind of the disks means for an array, and what their own media caches did.

use crate::config::SimConfig;
use destage_disk::{Disk, DiskSpec};
use destage_engine::units::Instant;
use destage_report::model::MediaUse;

/// What a planner should know of disks of this kind in an array, in sentences.
pub(crate) fn notes(config: &SimConfig) -> Vec<String> {
    let array = config.controller.geometry.level.is_redundant() && config.track.is_none();
    let name = &config.disk.name;
    let mut notes = Vec::new();
    if array && config.disk.shingled.is_some() {
        notes.push(format!(
            "{name} is a shingled drive, which is not for a redundant array: once its media cache \
             is full, a write waits until bands are rewritten. A rebuild and destages then take \
             seconds per write, and the host may give the drive up (docs/operations.md)"
        ));
    }
    if array && config.disk.units > 1 {
        notes.push(format!(
            "{name} is one of {} logical units of a drive, which fail together: every disk of the \
             array is taken to be in a drive of its own. Two units of a drive must not be in one \
             row",
            config.disk.units
        ));
    }
    notes
}

/// What the media caches of the disks did until `now`.
pub(crate) fn media_use(disks: &mut [Disk], spec: &DiskSpec, now: Instant) -> Option<MediaUse> {
    let all: Vec<_> = disks.iter_mut().filter_map(|disk| disk.media_counts(now)).collect();
    if all.is_empty() {
        return None;
    }
    let sum = |of: fn(&destage_disk::MediaCounts) -> u64| all.iter().map(of).sum::<u64>();
    let pages = |sectors: u64| sectors / u64::from(spec.sectors_per_page());
    let share = |ns: u64| ns as f64 / (now.0.max(1) as f64 * all.len() as f64);
    let (written, rewritten) = (sum(|c| c.host_sectors), sum(|c| c.rewritten_sectors));
    Some(MediaUse {
        pages: pages(written),
        cached_pages: pages(sum(|c| c.cached_sectors)),
        bands_cleaned: sum(|c| c.bands_cleaned),
        moved_pages: pages(sum(|c| c.moved_sectors)),
        write_amplification: (written + rewritten) as f64 / written.max(1) as f64,
        moving_share: share(sum(|c| c.moving.0)),
        waited_share: share(sum(|c| c.waited.0)),
    })
}
