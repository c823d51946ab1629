//! A spec made ready to run: zones laid out, every seek time in a table.
//!
//! Disks of one spec share one model.

use std::sync::Arc;

use crate::bus::Bus;
use crate::geometry::{Divisor, Revolution, SectorPlace, Slip, Zone};
use crate::seek::{ns, table_ns};
use crate::spec::{
    AheadUntil, CachePlace, DiskSpec, HitOverhead, Overhead, ReadAhead, Scheduler, SparesPer,
    SpecError, TrackOrder, ZoneSpec, Zones,
};

/// Zones are found through a table with this many entries.
const COARSE_ENTRIES: u64 = 1024;

/// Everything about a drive that does not change while it runs.
#[derive(Debug)]
pub struct DiskModel {
    pub(crate) zones: Vec<Zone>,
    pub(crate) revolution: Revolution,
    pub(crate) seek_ns: Vec<u32>,
    pub(crate) head_switch_ns: u32,
    pub(crate) write_settle_ns: i32,
    pub(crate) jog_ns: u32,
    /// Sectors that the drive offers, and all: those behind are the media cache, wherever it is.
    pub(crate) sectors: u64,
    pub(crate) all_sectors: u64,
    pub(crate) sector_bytes: u32,
    pub(crate) window: usize,
    pub(crate) scheduler: Scheduler,
    /// Age from which the oldest command goes first; the greatest number: never.
    pub(crate) max_wait_ns: u64,
    pub(crate) idle_ns: u32,
    pub(crate) per_command_ns: u32,
    pub(crate) costs: Costs,
    pub(crate) bus: Bus,
    pub(crate) read_on_arrival: bool,
    coarse: Vec<u16>,
    coarse_shift: u32,
}

/// Overheads in ns; first index: 0 for a read, 1 for a write; second: what came before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    /// Of commands that the medium serves.
    pub(crate) miss_ns: [[u32; 2]; 2],
    /// Of commands that the buffer serves.
    pub(crate) hit_ns: [[u32; 2]; 2],
    /// After the data are transferred.
    pub(crate) done_ns: [u32; 2],
}

impl Costs {
    fn new(overhead: &Overhead) -> Costs {
        let read_after_write_ms = overhead.read_after_write_ms.unwrap_or(overhead.read_ms);
        let write_after_read_ms = overhead.write_after_read_ms.unwrap_or(overhead.write_ms);
        let hit = overhead.hit.unwrap_or(HitOverhead {
            read_ms: overhead.read_ms,
            read_after_write_ms,
            write_ms: overhead.write_ms,
            write_after_read_ms,
        });
        Costs {
            miss_ns: [
                [ns(overhead.read_ms), ns(read_after_write_ms)],
                [ns(write_after_read_ms), ns(overhead.write_ms)],
            ],
            hit_ns: [
                [ns(hit.read_ms), ns(hit.read_after_write_ms)],
                [ns(hit.write_after_read_ms), ns(hit.write_ms)],
            ],
            done_ns: [ns(overhead.read_done_ms), ns(overhead.write_done_ms)],
        }
    }
}

/// A zone as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// First address, in sectors of the drive.
    pub first_lbn: u64,
    /// Addresses, in sectors of the drive.
    pub sectors: u64,
    /// First cylinder.
    pub first_cylinder: u32,
    /// Cylinders.
    pub cylinders: u32,
    /// Sectors on a track.
    pub sectors_per_track: u32,
    /// Skew between tracks of a cylinder, in sectors.
    pub track_skew: u32,
    /// Skew between cylinders, in sectors.
    pub cylinder_skew: u32,
}

/// The zones of a drive, outermost first, without its media cache.
pub fn zones(spec: &DiskSpec) -> Vec<ZoneInfo> {
    let model = DiskModel::new(spec);
    let info = |zone: &Zone| ZoneInfo {
        first_lbn: zone.first_lbn,
        sectors: zone.end_lbn.min(model.sectors) - zone.first_lbn,
        first_cylinder: zone.first_cylinder,
        cylinders: zone.cylinders,
        sectors_per_track: zone.track.value as u32,
        track_skew: zone.track_skew,
        cylinder_skew: zone.cylinder_skew,
    };
    model.zones.iter().filter(|zone| zone.first_lbn < model.sectors).map(info).collect()
}

/// Seek time in ms by distance in cylinders, for every distance from 1 to the full stroke.
pub fn seek_curve(spec: &DiskSpec) -> Vec<(u32, f64)> {
    let model = DiskModel::new(spec);
    (1..).zip(model.seek_ns.iter().skip(1).map(|&t| f64::from(t) / 1e6)).collect()
}

/// The zones of a spec one by one, each with its first cylinder.
pub(crate) fn listed_zones(spec: &DiskSpec) -> Vec<ZoneSpec> {
    let mut list = match &spec.zones {
        Zones::List(list) => list.clone(),
        Zones::Linear(linear) => {
            let steps = linear.count.max(2) - 1;
            let track = |i: u32| {
                let (outer, inner) = (u64::from(linear.outer_sectors), linear.inner_sectors);
                let fallen = (outer - u64::from(inner)) * u64::from(i);
                (outer - (2 * fallen + u64::from(steps)) / (2 * u64::from(steps))) as u32
            };
            let per_cylinder: u64 =
                (0..linear.count).map(|i| u64::from(track(i)) * u64::from(spec.heads)).sum();
            let offered = spec.sectors.unwrap_or(per_cylinder);
            let cylinders = (offered + reserved(spec, track(0))).div_ceil(per_cylinder) as u32;
            let zone =
                |i| ZoneSpec { cylinders, sectors_per_track: track(i), ..ZoneSpec::default() };
            (0..linear.count).map(zone).collect()
        }
    };
    let mut next = 0;
    for zone in &mut list {
        next = *zone.first_cylinder.get_or_insert(next) + zone.cylinders;
    }
    list
}

/// Sectors besides those that the drive offers, with this many on an outermost track: a media
/// cache there has its cylinders alone.
fn reserved(spec: &DiskSpec, track: u32) -> u64 {
    match spec.media_cache {
        None => 0,
        Some(cache) if cache.place == CachePlace::Inner => cache.sectors,
        Some(cache) => cache.sectors.next_multiple_of(u64::from(spec.heads) * u64::from(track)),
    }
}

/// Takes the cylinders of a media cache out of the outermost zone. None if there is no such cache;
/// an error if it leaves nothing of that zone, or the zone is not plain.
pub(crate) fn split_outer(
    spec: &DiskSpec,
    list: &mut [ZoneSpec],
) -> Result<Option<ZoneSpec>, SpecError> {
    if spec.media_cache.is_none_or(|cache| cache.place != CachePlace::Outer) {
        return Ok(None);
    }
    let zone = &mut list[0];
    let cylinders = reserved(spec, zone.sectors_per_track)
        / (u64::from(spec.heads) * u64::from(zone.sectors_per_track));
    let plain = zone.slips.is_empty() && zone.unused_front == 0;
    if cylinders >= u64::from(zone.cylinders) || !plain {
        return Err(SpecError::Value {
            key: "media_cache.sectors",
            expected: "less than the outermost zone, which must have neither `slips` nor \
                       `unused_front`, or have `place = \"inner\"`"
                .into(),
        });
    }
    let front = ZoneSpec { cylinders: cylinders as u32, offset_sectors: None, ..zone.clone() };
    zone.first_cylinder = zone.first_cylinder.map(|first| first + front.cylinders);
    zone.cylinders -= front.cylinders;
    Ok(Some(ZoneSpec { spare_sectors: 0, ..front }))
}

/// Addresses of a zone, were the drive not capped; none if its spares leave no room.
pub(crate) fn zone_addresses(spec: &DiskSpec, zone: &ZoneSpec) -> Option<u64> {
    let cylinder = u64::from(spec.heads) * u64::from(zone.sectors_per_track);
    let all = cylinder * u64::from(zone.cylinders);
    let units = match spec.spares_per {
        SparesPer::Track => u64::from(spec.heads) * u64::from(zone.cylinders),
        SparesPer::Cylinder => u64::from(zone.cylinders),
        SparesPer::Range => u64::from(zone.cylinders / spec.range_cylinders.max(1)),
        SparesPer::Zone => 1,
    };
    let spares = units * u64::from(zone.spare_sectors);
    all.checked_sub(spares + u64::from(zone.unused_front)).filter(|&left| left > 0)
}

impl DiskModel {
    /// Lays out a valid spec.
    pub fn new(spec: &DiskSpec) -> Arc<DiskModel> {
        let mut list = listed_zones(spec);
        let outer = split_outer(spec, &mut list).expect("a valid spec");
        let cylinders =
            list.iter().map(|z| z.first_cylinder.unwrap_or(0) + z.cylinders).max().unwrap_or(1);
        let mut model = DiskModel {
            zones: Vec::new(),
            revolution: Revolution::new((60e9 / spec.rpm).round() as u32),
            seek_ns: table_ns(&spec.seek, cylinders),
            head_switch_ns: ns(spec.head_switch_ms),
            write_settle_ns: (spec.write_settle_ms * 1e6).round() as i32,
            jog_ns: ns(spec.jog_ms),
            sectors: 0,
            all_sectors: 0,
            sector_bytes: spec.sector_bytes,
            window: spec.window,
            scheduler: spec.scheduler,
            max_wait_ns: match spec.max_wait_ms {
                0.0 => u64::MAX,
                ms => (ms * 1e6).round() as u64,
            },
            idle_ns: ns(spec.overhead.idle_ms),
            per_command_ns: ns(spec.overhead.per_command_ms),
            costs: Costs::new(&spec.overhead),
            bus: Bus::new(spec),
            read_on_arrival: spec.read_on_arrival,
            coarse: Vec::new(),
            coarse_shift: 0,
        };
        let reserved = spec.media_cache.map_or(0, |cache| cache.sectors);
        let behind = if outer.is_some() { 0 } else { reserved };
        let most = spec.sectors.map_or(u64::MAX, |offered| offered + behind);
        for zone in &list {
            model.add_zone(spec, zone, most);
        }
        model.sectors = model.all_sectors - behind;
        if let Some(zone) = outer {
            model.add_zone(spec, &zone, model.all_sectors + reserved);
        }
        model.index_zones();
        Arc::new(model)
    }

    /// Lays out a zone behind the others, up to this many sectors in all.
    fn add_zone(&mut self, spec: &DiskSpec, zone: &ZoneSpec, most: u64) {
        let cap = most - self.all_sectors;
        let addresses = zone_addresses(spec, zone).unwrap_or(0).min(cap);
        if addresses == 0 {
            return;
        }
        let track = u64::from(zone.sectors_per_track);
        let fraction = (u64::from(self.revolution.ns) << 32).div_ceil(track);
        let (unit_sectors, spares) = unit_of(spec, zone);
        let unit = unit_sectors - spares;
        let mut laid = Zone {
            first_lbn: self.all_sectors,
            end_lbn: self.all_sectors + addresses,
            first_cylinder: zone.first_cylinder.unwrap_or(0),
            cylinders: zone.cylinders,
            track: Divisor::new(track),
            heads: Divisor::new(u64::from(spec.heads)),
            sector_fraction: fraction,
            base_ns: 0,
            revolution_ns: self.revolution.ns,
            track_skew: zone.track_skew.unwrap_or_else(|| self.skew(track, self.head_switch_ns)),
            cylinder_skew: zone
                .cylinder_skew
                .unwrap_or_else(|| self.skew(track, self.cylinder_switch_ns(spec))),
            unused_front: u64::from(zone.unused_front),
            unit,
            unit_sectors,
            slips: slips_of(zone, unit_sectors, unit),
            plain: zone.slips.is_empty() && (spares == 0 || spec.spares_per == SparesPer::Zone),
            serpentine: match spec.order {
                TrackOrder::Forward => 0,
                TrackOrder::SerpentineByZone => 1,
                TrackOrder::Serpentine => 2,
            },
        };
        laid.base_ns = match (zone.offset_sectors, self.zones.last()) {
            (Some(offset), _) => laid.grid_ns(offset % zone.sectors_per_track),
            (None, None) => 0,
            (None, Some(last)) => self.base_after(last, &laid),
        };
        self.all_sectors += addresses;
        self.zones.push(laid);
    }

    /// The fewest sectors that pass during a switch, wherever it begins.
    fn skew(&self, track: u64, switch_ns: u32) -> u32 {
        if switch_ns == 0 {
            return 0;
        }
        let sectors = ((u64::from(switch_ns) + 1) * track).div_ceil(u64::from(self.revolution.ns));
        (sectors % track) as u32
    }

    fn cylinder_switch_ns(&self, spec: &DiskSpec) -> u32 {
        let seek = self.seek_ns.get(1).copied().unwrap_or(0);
        let changes_head = spec.order == TrackOrder::Forward && spec.heads > 1;
        if changes_head { seek.max(self.head_switch_ns) } else { seek }
    }

    /// Angle of slot 0 of `next` such that a stream out of `last` meets it without a wait.
    fn base_after(&self, last: &Zone, next: &Zone) -> u32 {
        let end = last.place(last.end_lbn - 1);
        let start = next.place(next.first_lbn);
        let angle = last.angle(end.slot) + last.pass_ns(end.slot, 1);
        let arrival = self.revolution.reduce(angle + self.move_ns(end, start.cylinder, start.head));
        self.revolution.wait(next.grid_ns(start.slot), arrival) % self.revolution.ns
    }

    fn index_zones(&mut self) {
        while (self.all_sectors >> self.coarse_shift) >= COARSE_ENTRIES {
            self.coarse_shift += 1;
        }
        let entries = (self.all_sectors >> self.coarse_shift) + 1;
        let holds = |i: u64| self.zones.partition_point(|z| z.end_lbn <= i << self.coarse_shift);
        let last = self.zones.len() - 1;
        self.coarse = (0..entries).map(|i| holds(i).min(last) as u16).collect();
    }

    /// The zone that holds an address.
    ///
    /// # Panics
    /// If the drive has no such address.
    #[inline]
    pub(crate) fn zone_of(&self, lbn: u64) -> usize {
        assert!(lbn < self.all_sectors, "sector {lbn} of a disk of {}", self.all_sectors);
        let mut zone = usize::from(self.coarse[(lbn >> self.coarse_shift) as usize]);
        while self.zones[zone].end_lbn <= lbn {
            zone += 1;
        }
        zone
    }

    /// Time to move the heads from a place to a track, without settling for a write.
    #[inline]
    pub(crate) fn move_ns(&self, from: SectorPlace, cylinder: u32, head: u32) -> u32 {
        let seek = self.seek_ns[from.cylinder.abs_diff(cylinder) as usize];
        seek.max(if from.head == head { 0 } else { self.head_switch_ns })
    }

    /// One past the last address, of at most `sectors` from `end` on, to which read-ahead goes
    /// after a read that ended there, with `first` the first address of its segment.
    pub(crate) fn ahead_limit(&self, first: u64, end: u64, read: &ReadAhead) -> u64 {
        let (sectors, until) = (u64::from(read.ahead_sectors), read.until);
        if until == AheadUntil::NextTrack && end < self.sectors {
            return self.next_track_limit(first, end);
        }
        let limit = (end + sectors).min(self.sectors);
        if until == AheadUntil::End || limit <= end {
            return limit;
        }
        let mut stretches = self.stream(end - 1, limit - end + 1);
        let Some(first) = stretches.next() else { return limit };
        let same = |at: SectorPlace| match until {
            AheadUntil::Track => (at.cylinder, at.head) == (first.place.cylinder, first.place.head),
            _ => at.cylinder == first.place.cylinder,
        };
        let reached = stretches.take_while(|stretch| same(stretch.place)).last().unwrap_or(first);
        reached.lbn + u64::from(reached.sectors)
    }

    /// One past the last address on the track of `end`, or on the track after it if `first` is on
    /// a track before.
    fn next_track_limit(&self, first: u64, end: u64) -> u64 {
        let track = |lbn: u64| {
            let place = self.zones[self.zone_of(lbn)].place(lbn);
            (place.cylinder, place.head)
        };
        let mut left = if track(first.min(end)) == track(end) { 1 } else { 2 };
        let mut on = track(end);
        let mut reached = end;
        for stretch in self.stream(end, self.sectors - end) {
            let at = (stretch.place.cylinder, stretch.place.head);
            left -= u32::from(at != on);
            on = at;
            if left == 0 {
                break;
            }
            reached = stretch.lbn + u64::from(stretch.sectors);
        }
        reached
    }

    /// Walks the stretches of `sectors` addresses from `lbn` on, with the head on the first.
    pub(crate) fn stream(&self, lbn: u64, sectors: u64) -> Stream<'_> {
        Stream { model: self, lbn, left: sectors, at: None, elapsed_ns: 0 }
    }
}

/// Sectors between the ends of spare areas, and the spares among them.
pub(crate) fn unit_of(spec: &DiskSpec, zone: &ZoneSpec) -> (u64, u64) {
    let track = u64::from(zone.sectors_per_track);
    let cylinder = track * u64::from(spec.heads);
    let sectors = match spec.spares_per {
        SparesPer::Track => track,
        SparesPer::Cylinder => cylinder,
        SparesPer::Range => cylinder * u64::from(spec.range_cylinders),
        SparesPer::Zone => cylinder * u64::from(zone.cylinders),
    };
    (sectors, u64::from(zone.spare_sectors))
}

fn slips_of(zone: &ZoneSpec, unit_sectors: u64, unit: u64) -> Vec<Slip> {
    let mut slips: Vec<Slip> = Vec::new();
    for &(start, sectors) in &zone.slips {
        let (start, sectors) = (u64::from(start), u64::from(sectors));
        let number = start / unit_sectors;
        let offset = start - number * unit_sectors;
        let before = slips.last().filter(|s| s.unit == number).map_or(0, |s| s.skipped);
        if offset < unit + before {
            let address = number * unit + offset - before;
            slips.push(Slip { address, unit: number, skipped: before + sectors });
        }
    }
    slips
}

/// One stretch of a stream: addresses that follow each other on a track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    pub(crate) lbn: u64,
    pub(crate) sectors: u32,
    pub(crate) place: SectorPlace,
    /// From the start of the stream until its first sector is under the head.
    pub(crate) begin_ns: u64,
    /// Until its last sector has passed.
    pub(crate) end_ns: u64,
}

/// The stretches of a stream and when each passes.
pub(crate) struct Stream<'a> {
    model: &'a DiskModel,
    lbn: u64,
    left: u64,
    /// Where the last stretch ended: place, and angle.
    at: Option<(SectorPlace, u32)>,
    elapsed_ns: u64,
}

impl Iterator for Stream<'_> {
    type Item = Stretch;

    fn next(&mut self) -> Option<Stretch> {
        if self.left == 0 || self.lbn >= self.model.all_sectors {
            return None;
        }
        let zone = &self.model.zones[self.model.zone_of(self.lbn)];
        let place = zone.place(self.lbn);
        let sectors = zone.run(self.lbn, place).min(self.left.min(u64::from(u32::MAX)) as u32);
        if let Some((from, angle)) = self.at {
            let travel = self.model.move_ns(from, place.cylinder, place.head);
            let arrival = self.model.revolution.reduce(angle + travel);
            let wait = self.model.revolution.wait(arrival, zone.angle(place.slot));
            self.elapsed_ns += u64::from(travel + wait);
        }
        let begin_ns = self.elapsed_ns;
        let pass = zone.pass_ns(place.slot, sectors);
        self.elapsed_ns += u64::from(pass);
        self.at = Some((place, self.model.revolution.reduce(zone.angle(place.slot) + pass)));
        let lbn = self.lbn;
        self.lbn += u64::from(sectors);
        self.left -= u64::from(sectors);
        let end_ns = self.elapsed_ns;
        Some(Stretch { lbn, sectors, place, begin_ns, end_ns })
    }
}
