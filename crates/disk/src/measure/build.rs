//! The spec that the measured parts make.

use super::layout::Layout;
use super::probe::MeasureError;
use super::writes::{self, Writes};
use super::{Drive, Measured, queue};
use crate::spec::{
    BusSpec, DiskSpec, HitOverhead, HostSpec, Overhead, ReadAhead, Scheduler, Seek, SeekTable,
    StartOf, TrackOrder, Zones,
};

/// Settling of writes where none could be measured, in ms.
const ASSUMED_SETTLE_MS: f64 = 0.3;

/// Milliseconds of a time in ns, not below 0, rounded to 10 ns: a spec is read by people.
fn ms(ns: f64) -> f64 {
    (ns.max(0.0) / 10.0).round() / 1e5
}

/// Overheads in ns.
struct Costs {
    /// Of a read on the medium, without its time on the bus.
    read: f64,
    /// Part of it that a command which continues the one before does not pay.
    per_command: f64,
    /// Of a sector on the bus to the host.
    bus: f64,
}

impl Measured {
    /// The spec of the drive.
    ///
    /// # Errors
    /// A part is missing, or the parts make no drive.
    pub fn spec(&self, name: &str) -> Result<DiskSpec, MeasureError> {
        self.build(name)
            .ok_or_else(|| MeasureError::NotADisk("not all has been measured".to_string()))?
    }

    fn build(&self, name: &str) -> Option<Result<DiskSpec, MeasureError>> {
        let Drive { sectors, sector_bytes, writable } = self.drive.clone()?;
        let revolution_ns = self.revolution_ns?;
        let (regions, tracks) = (self.zones.as_ref()?, self.tracks.as_ref()?);
        let curve = self.curve.as_ref()?;
        let (same_ns, head_ns) = (self.same_track_ns?, self.other_head_ns?);
        let (following, writes) = (self.following?, self.writes.clone()?);
        let layout = Layout::new(regions, tracks, sectors, sector_bytes);
        let slots = [tracks.track, regions[regions.len() - 1].track]
            .map(|track| revolution_ns / track as f64);
        let bus = bus(self.per_sector_ns?, slots);
        let costs = self.costs(same_ns - slots[0], bus)?;
        let points = curve.iter().map(|(d, ns)| (*d, ms(ns - same_ns))).collect();
        // A drive's skews cover its switches; the search may have met another cylinder.
        let skew_ns = f64::from(tracks.track_skew) * slots[0];
        let mut spec = DiskSpec {
            name: name.to_string(),
            summary: format!("{name}, measured by `destage disks measure`"),
            source: "`destage disks measure`".to_string(),
            sector_bytes,
            sectors: Some(sectors),
            units: 1,
            heads: layout.heads,
            rpm: (60e12 / revolution_ns).round() / 1e3,
            head_switch_ms: ms((head_ns - same_ns).min(0.99 * skew_ns)),
            write_settle_ms: ASSUMED_SETTLE_MS,
            jog_ms: 0.0,
            order: TrackOrder::Forward,
            spares_per: layout.spares_per,
            range_cylinders: 1,
            window: 1,
            scheduler: Scheduler::Fcfs,
            max_wait_ms: 0.0,
            read_on_arrival: following.on_arrival,
            bus_mb_per_s: None,
            bus,
            overhead: Overhead {
                per_command_ms: ms(costs.per_command),
                read_ms: ms(costs.read - costs.per_command),
                write_ms: ms(costs.read - costs.per_command),
                ..Overhead::default()
            },
            host: HostSpec::default(),
            read_ahead: self.read_ahead(tracks.sectors),
            write_back: None,
            media_cache: None,
            shingled: None,
            seek: Seek::Table(SeekTable { points }),
            zones: Zones::List(layout.zones.clone()),
        };
        if let Some(writes) = &writes {
            let at = layout.cylinder_of(writable.start);
            let slot_ns = layout.spot(at.max(1), revolution_ns).slot_ns;
            set_writes(&mut spec, &costs, writes, slot_ns);
        }
        self.set_hits(&mut spec, &costs, writes.as_ref());
        let valid = spec.validate().map_err(|error| MeasureError::NotADisk(error.to_string()));
        Some(valid.and_then(|()| {
            queue::fit(&mut spec, sectors, self.queued_ns.unwrap_or(same_ns))?;
            if let Some(cache) = writes.as_ref().and_then(|writes| writes.cache.as_ref()) {
                writes::fit(&mut spec, cache, writable)?;
            }
            Ok(spec)
        }))
    }

    /// `read_ns` is the least time of a read on the track of the one before, without the sector's
    /// own under the head.
    fn costs(&self, read_ns: f64, bus: Option<BusSpec>) -> Option<Costs> {
        let bus = bus.map_or(0.0, |bus| bus.read_sector_ms * 1e6);
        let read = (read_ns - bus).max(0.0);
        let per_command = match self.buffer.as_ref()? {
            Some(buffer) => buffer.again_ns.map_or(0.0, |again| again - buffer.next_ns),
            None if self.following?.in_time => read,
            None => 0.0,
        };
        // What is below the resolution of the search is nothing.
        let per_command = if per_command < 10e3 { 0.0 } else { per_command.min(read) };
        Some(Costs { read, per_command, bus })
    }

    fn read_ahead(&self, track: u64) -> Option<ReadAhead> {
        let buffer = self.buffer.as_ref()?.as_ref()?;
        let most = |sectors: u64| sectors.clamp(1, u64::from(u32::MAX)) as u32;
        Some(ReadAhead {
            segments: buffer.segments,
            segment_sectors: most(buffer.ahead_sectors.max(match buffer.until {
                crate::spec::AheadUntil::End => 1,
                _ => track,
            })),
            ahead_sectors: most(buffer.ahead_sectors),
            until: buffer.until,
            keeps_before: buffer.keeps_before,
            drops_read: buffer.again_ns.is_none(),
        })
    }

    /// Overheads of commands that the buffer serves.
    fn set_hits(&self, spec: &mut DiskSpec, costs: &Costs, writes: Option<&Writes>) {
        let overhead = spec.overhead;
        let buffer = self.buffer.as_ref().and_then(Option::as_ref);
        let cache = writes.and_then(|writes| writes.cache.as_ref());
        if buffer.is_none() && cache.is_none() {
            return;
        }
        let read_ms = buffer.map_or(overhead.read_ms, |buffer| ms(buffer.next_ns - costs.bus));
        let bus = spec.bus.map_or(0.0, |bus| bus.write_sector_ms * 1e6);
        let accepted = |ns: f64| ms(ns - bus - costs.per_command);
        let after_write = writes.and_then(|writes| writes.held_after_write_ns);
        let after_write = after_write.map(|ns| ms(ns - costs.bus - costs.per_command));
        spec.overhead.hit = Some(HitOverhead {
            read_ms,
            read_after_write_ms: after_write.unwrap_or(read_ms),
            write_ms: cache.map_or(overhead.write_ms, |cache| accepted(cache.accept_ns)),
            write_after_read_ms: cache
                .map_or(overhead.write_after_read_ms.unwrap_or(overhead.write_ms), |cache| {
                    accepted(cache.after_read_ns)
                }),
        });
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
    let share = match apart > 0.03 * slots[0] {
        true => ((inner - outer) / apart).clamp(0.0, 1.0),
        false => 0.0,
    };
    let sector_ms = ms(outer - share * slots[0]);
    Some(BusSpec {
        read_sector_ms: sector_ms,
        write_sector_ms: sector_ms,
        read_start: (share * 1e4).round() / 1e4,
        read_start_of: StartOf::Request,
        reselect_ms: 0.0,
        write_lead_ms: 0.0,
    })
}

/// Sets what writes on the medium cost; a sector takes `slot_ns` under the head there.
fn set_writes(spec: &mut DiskSpec, costs: &Costs, writes: &Writes, slot_ns: f64) {
    if let (Some(bus), Some(cache)) = (&mut spec.bus, &writes.cache) {
        bus.write_sector_ms = ms(cache.sector_ns);
    }
    if writes.cache.as_ref().is_some_and(|cache| !cache.durable) {
        return;
    }
    let bus = spec.bus.map_or(0.0, |bus| bus.write_sector_ms * 1e6);
    // Against reads over the same distance.
    let read = costs.read + costs.bus - writes.read_after_read_ns;
    let moved = writes.write_after_write_ns + read;
    let stayed = writes.same_track_ns - slot_ns - bus;
    // Without a seek the bus is what a write may wait for.
    let lead = stayed - moved;
    let overhead = if lead > 0.0 { moved } else { stayed.max(costs.per_command) };
    let settle = moved - overhead;
    spec.write_settle_ms = ms(settle.max(0.0));
    let after_read = writes.write_after_read_ns + read - settle;
    spec.overhead.write_ms = ms(overhead - costs.per_command);
    spec.overhead.write_after_read_ms = Some(ms(after_read - costs.per_command));
    let after_write = writes.read_after_write_ns + read - costs.bus;
    spec.overhead.read_after_write_ms = Some(ms(after_write - costs.per_command));
    if lead > slot_ns {
        let none = BusSpec {
            read_sector_ms: 0.0,
            write_sector_ms: 0.0,
            read_start: 0.0,
            read_start_of: StartOf::Request,
            reselect_ms: 0.0,
            write_lead_ms: 0.0,
        };
        spec.bus.get_or_insert(none).write_lead_ms = ms(lead);
    }
}
