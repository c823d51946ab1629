//! A spec from a drive: what it is follows from when it answers.
//!
//! The parts see the drive only as a [`Probe`]. docs/disk-models.md has the method.

mod bench;
mod layout;
mod overhead;
mod probe;
mod rotation;
mod seeks;
mod tracks;
mod zones;

pub use probe::{Command, Kind, MeasureError, ModelProbe, Probe, Timed};

use crate::figures::Random;
use crate::spec::{
    BusSpec, DiskSpec, HostSpec, Overhead, Scheduler, Seek, SeekTable, TrackOrder, Zones,
};
use bench::Bench;
use layout::Layout;
use serde::{Deserialize, Serialize};
use tracks::Tracks;
use zones::Region;

/// What has been measured so far; saved, it lets a measurement continue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
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
    curve: Option<Vec<(u32, f64)>>,
}

/// Measures what is not measured yet; `save` is called after each part, `progress` with the
/// number of commands.
///
/// # Errors
/// The drive failed, or is no disk drive.
pub fn measure(
    probe: &mut dyn Probe,
    measured: &mut Measured,
    save: &mut dyn FnMut(&Measured) -> Result<(), MeasureError>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), MeasureError> {
    let mut bench = Bench {
        probe,
        random: Random(1),
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
    let layout =
        Layout::new(&regions, &tracks, bench.probe.sectors(), bench.probe.sector_bytes());
    part(&mut measured.curve, || seeks::measure(bench, &layout))?;
    save(measured)?;
    Ok(())
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

impl Measured {
    /// The spec of the drive.
    ///
    /// # Errors
    /// A part is missing, or the parts make no drive.
    pub fn spec(
        &self,
        name: &str,
        sectors: u64,
        sector_bytes: u32,
    ) -> Result<DiskSpec, MeasureError> {
        let missing = || MeasureError::NotADisk("not all has been measured".to_string());
        let revolution_ns = self.revolution_ns.ok_or_else(missing)?;
        let regions = self.zones.as_ref().ok_or_else(missing)?;
        let tracks = self.tracks.as_ref().ok_or_else(missing)?;
        let curve = self.curve.as_ref().ok_or_else(missing)?;
        let (outer_ns, inner_ns) = self.per_sector_ns.ok_or_else(missing)?;
        let same_ns = self.same_track_ns.ok_or_else(missing)?;
        let head_ns = self.other_head_ns.ok_or_else(missing)?;
        let layout = Layout::new(regions, tracks, sectors, sector_bytes);
        let slots = [tracks.track, regions[regions.len() - 1].track]
            .map(|track| revolution_ns / track as f64);
        let bus = bus((outer_ns, inner_ns), slots);
        let start_ns = bus.map_or(0.0, |bus| bus.read_sector_ms * 1e6);
        let read_ms = (same_ns - slots[0] - start_ns).max(0.0) / 1e6;
        let rounded = |ms: f64| (ms * 1e5).round() / 1e5;
        let points =
            curve.iter().map(|(d, ns)| (*d, rounded((ns - same_ns).max(0.0) / 1e6))).collect();
        let spec = DiskSpec {
            name: name.to_string(),
            summary: format!("{name}, measured by `destage disks measure`"),
            source: "`destage disks measure`".to_string(),
            sector_bytes,
            sectors: Some(sectors),
            heads: layout.heads,
            rpm: 60e9 / revolution_ns,
            head_switch_ms: rounded((head_ns - same_ns).max(0.0) / 1e6),
            write_settle_ms: 0.0,
            jog_ms: 0.0,
            order: TrackOrder::Forward,
            spares_per: layout.spares_per,
            range_cylinders: 1,
            window: 1,
            scheduler: Scheduler::Fcfs,
            max_wait_ms: 0.0,
            read_on_arrival: false,
            bus_mb_per_s: None,
            bus,
            overhead: Overhead { read_ms: rounded(read_ms), ..Overhead::default() },
            host: HostSpec::default(),
            read_ahead: None,
            write_back: None,
            seek: Seek::Table(SeekTable { points }),
            zones: Zones::List(layout.zones),
        };
        spec.validate().map_err(|error| MeasureError::NotADisk(error.to_string()))?;
        Ok(spec)
    }
}

/// The bus, where reads grow by more than a sector's time under the head.
fn bus(per_sector_ns: (f64, f64), slots: [f64; 2]) -> Option<BusSpec> {
    let (outer, inner) = per_sector_ns;
    if outer < slots[0] * 1.03 {
        return None;
    }
    // A share of the medium's time comes before the bus's.
    let apart = slots[1] - slots[0];
    let share = if apart > 0.03 * slots[0] { ((inner - outer) / apart).clamp(0.0, 1.0) } else { 0.0 };
    let sector_ms = (outer - share * slots[0]) / 1e6;
    Some(BusSpec {
        read_sector_ms: sector_ms,
        write_sector_ms: sector_ms,
        read_start: share,
        read_start_of: crate::spec::StartOf::Request,
        reselect_ms: 0.0,
        write_lead_ms: 0.0,
    })
}
