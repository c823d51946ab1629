//! A spec from a drive: what it is follows from when it answers.
//!
//! The parts see the drive only as a [`Probe`]. docs/disk-models.md has the method.

mod bench;
mod buffer;
mod build;
mod check;
mod layout;
mod overhead;
mod probe;
mod queue;
mod rotation;
mod seeks;
mod tracks;
mod words;
mod writes;
mod zones;

pub use check::{Check, check};
pub use probe::{Command, Kind, MeasureError, ModelProbe, Probe, Timed};

use crate::figures::Random;
use bench::Bench;
use buffer::{Buffer, Following};
use layout::Layout;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use tracks::Tracks;
use writes::Writes;
use zones::Region;

/// Fewest sectors of a drive that can be measured.
const FEWEST_SECTORS: u64 = 1_000_000;

/// What is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Drive {
    sectors: u64,
    sector_bytes: u32,
    writable: Range<u64>,
}

/// What has been measured so far; saved, it lets a measurement continue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Of the places that are read.
    seed: u64,
    drive: Option<Drive>,
    revolution_ns: Option<f64>,
    noise_ns: f64,
    far_ns: f64,
    zones: Option<Vec<Region>>,
    tracks: Option<Tracks>,
    /// Service of a read of the sector after the last, if the buffer has it.
    ahead_ns: Option<Option<f64>>,
    same_track_ns: Option<f64>,
    other_head_ns: Option<f64>,
    per_sector_ns: Option<(f64, f64)>,
    following: Option<Following>,
    buffer: Option<Option<Buffer>>,
    curve: Option<Vec<(u32, f64)>>,
    /// Time of a random read with many outstanding.
    queued_ns: Option<f64>,
    writes: Option<Option<Writes>>,
}

impl Measured {
    /// Nothing yet; another seed reads other places.
    pub fn new(seed: u64) -> Measured {
        Measured { seed, ..Measured::default() }
    }
}

/// Measures what is not measured yet; `save` is called after each part, `progress` with the
/// number of commands.
///
/// # Errors
/// The drive failed, or the target is not a disk drive.
pub fn measure(
    probe: &mut dyn Probe,
    measured: &mut Measured,
    save: &mut dyn FnMut(&Measured) -> Result<(), MeasureError>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), MeasureError> {
    let drive = checked_drive(probe, measured)?;
    let mut bench = Bench {
        probe,
        random: Random(measured.seed),
        revolution_ns: measured.revolution_ns.unwrap_or(1.0),
        tolerance_ns: 0.0,
        far_ns: measured.far_ns,
        buffered_ns: 0.0,
        skew_ns: 0.0,
        commands: 0,
        progress,
        done_ns: 0,
    };
    let bench = &mut bench;
    if measured.revolution_ns.is_none() {
        let rotation = rotation::measure(bench)?;
        measured.revolution_ns = Some(rotation.revolution_ns);
        (measured.noise_ns, measured.far_ns) = (rotation.noise_ns, rotation.far_ns);
        save(measured)?;
    }
    bench.revolution_ns = measured.revolution_ns.unwrap_or(1.0);
    bench.far_ns = measured.far_ns;
    bench.tolerance_ns = 3.0 * measured.noise_ns + 3.0;
    let regions = part(&mut measured.zones, || zones::measure(bench))?;
    save(measured)?;
    let ahead = part(&mut measured.ahead_ns, || overhead::read_ahead(bench))?;
    bench.buffered_ns = ahead.map_or(0.0, |ns| 1.3 * ns);
    let tracks = part(&mut measured.tracks, || tracks::measure(bench, regions[0].track))?;
    save(measured)?;
    bench.skew_ns = f64::from(tracks.track_skew) * bench.revolution_ns / tracks.track as f64;
    let same = || overhead::same_track(bench, &tracks, ahead.is_some());
    part(&mut measured.same_track_ns, same)?;
    part(&mut measured.other_head_ns, || overhead::other_head(bench, &tracks))?;
    part(&mut measured.per_sector_ns, || {
        let last = regions[regions.len() - 1];
        let outer = overhead::per_sector(bench, tracks.cylinder, tracks.track)?;
        let sectors = bench.probe.sectors();
        let inner = last.first.midpoint(sectors).min(sectors - 60 * last.track);
        Ok((outer, overhead::per_sector(bench, inner, last.track)?))
    })?;
    save(measured)?;
    part(&mut measured.following, || buffer::following(bench, &tracks))?;
    let found = || ahead.map(|next_ns| buffer::measure(bench, &tracks, next_ns)).transpose();
    part(&mut measured.buffer, found)?;
    save(measured)?;
    let layout = Layout::new(&regions, &tracks, drive.sectors, drive.sector_bytes);
    part(&mut measured.curve, || seeks::measure(bench, &layout))?;
    save(measured)?;
    part(&mut measured.queued_ns, || queue::measure(bench))?;
    if drive.writable.is_empty() {
        measured.writes = Some(None);
    }
    part(&mut measured.writes, || writes::measure(bench, &layout))?;
    save(measured)
}

/// The drive, if it is the one that was measured before and can be measured.
fn checked_drive(probe: &dyn Probe, measured: &mut Measured) -> Result<Drive, MeasureError> {
    let drive = Drive {
        sectors: probe.sectors(),
        sector_bytes: probe.sector_bytes(),
        writable: probe.writable(),
    };
    if measured.drive.get_or_insert_with(|| drive.clone()) != &drive {
        return Err(MeasureError::NotADisk(
            "what was saved is of a drive of another size, or with another range to overwrite"
                .to_string(),
        ));
    }
    if drive.sectors < FEWEST_SECTORS {
        return Err(MeasureError::NotADisk(format!(
            "{} sectors are too few to find tracks and zones: measure a drive of {FEWEST_SECTORS} \
             or more",
            drive.sectors
        )));
    }
    let least = drive.sectors / 100;
    let allowed = drive.writable.end.saturating_sub(drive.writable.start);
    if allowed > 0 && allowed < least {
        return Err(MeasureError::NotADisk(format!(
            "{allowed} sectors may be overwritten, which are too few: allow {least} or more"
        )));
    }
    Ok(drive)
}

/// What a part found, found now if it was not before.
fn part<T: Clone>(
    found: &mut Option<T>,
    find: impl FnOnce() -> Result<T, MeasureError>,
) -> Result<T, MeasureError> {
    if let Some(found) = found {
        return Ok(found.clone());
    }
    Ok(found.insert(find()?).clone())
}
