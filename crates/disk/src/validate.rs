//! Whether a spec's values can be a disk.

use crate::model::{listed_zones, split_outer, unit_of, zone_addresses};
use crate::seek::{fall, fit_coefficients, formula_points, table_ns};
use crate::spec::{DiskSpec, Seek, SparesPer, SpecError, ZoneSpec, Zones};

/// Longest overhead, settle or switch time taken, in ms.
const LONGEST_MS: f64 = 500.0;
/// Longest FLUSH overhead and age of a queued command taken, in ms.
const LONGEST_FLUSH_MS: f64 = 4000.0;
/// Longest seek taken, in ms.
const LONGEST_SEEK_MS: f64 = 1000.0;
/// Most sectors on a track, cylinders and zones taken.
const MOST_PER_TRACK: u32 = 60_000;
const MOST_CYLINDERS: u64 = 4_000_000;
const MOST_ZONES: usize = 10_000;

fn check(fine: bool, key: &'static str, expected: &str) -> Result<(), SpecError> {
    if fine { Ok(()) } else { Err(SpecError::Value { key, expected: expected.to_string() }) }
}

fn check_ms(ms: f64, most: f64, key: &'static str) -> Result<(), SpecError> {
    check((0.0..=most).contains(&ms), key, &format!("from 0 to {most} ms"))
}

/// Refuses a seek curve that falls by more than noise.
fn check_rises(points: &[(u32, f64)], key: &'static str) -> Result<(), SpecError> {
    let Some([(near, near_ms), (far, far_ms)]) = fall(points) else { return Ok(()) };
    let [near_ms, far_ms] = [near_ms, far_ms].map(|ms| (ms * 1e3).round() / 1e3);
    let expected = format!(
        "a curve that rises, but for noise: it falls from {near_ms} ms at distance {near} to \
         {far_ms} ms at {far}. Give the time in ms that each distance in cylinders takes"
    );
    Err(SpecError::Value { key, expected })
}

impl DiskSpec {
    /// Whether the values can be a disk.
    ///
    /// # Errors
    /// [`SpecError::Value`] names the first key whose value cannot be, and says what can.
    pub fn validate(&self) -> Result<(), SpecError> {
        let sizes = [256, 512, 1024, 2048, 4096];
        check(sizes.contains(&self.sector_bytes), "sector_bytes", "256, 512, 1024, 2048 or 4096")?;
        check((1..=8).contains(&self.units), "units", "from 1 to 8")?;
        check((1..=256).contains(&self.heads), "heads", "from 1 to 256")?;
        check((1000.0..=100_000.0).contains(&self.rpm), "rpm", "from 1000 to 100000")?;
        check((1..=100_000).contains(&self.window), "window", "from 1 to 100000")?;
        check(self.range_cylinders > 0, "range_cylinders", "at least 1")?;
        check_ms(self.head_switch_ms, LONGEST_MS, "head_switch_ms")?;
        check_ms(self.jog_ms, LONGEST_MS, "jog_ms")?;
        check_ms(self.max_wait_ms, LONGEST_FLUSH_MS, "max_wait_ms")?;
        let settle = self.write_settle_ms.abs() <= LONGEST_MS;
        check(settle, "write_settle_ms", "from -500 to 500 ms")?;
        self.validate_overhead()?;
        self.validate_bus()?;
        if let Some(read) = self.read_ahead {
            check(read.segments > 0, "read_ahead.segments", "at least 1")?;
            check(read.segment_sectors > 0, "read_ahead.segment_sectors", "at least 1")?;
        }
        if let Some(write) = self.write_back {
            check(write.capacity_sectors > 0, "write_back.capacity_sectors", "at least 1")?;
            check_ms(write.flush_ms, LONGEST_FLUSH_MS, "write_back.flush_ms")?;
        }
        let cylinders = self.validate_zones()?;
        self.validate_media()?;
        self.validate_seek(cylinders)
    }

    fn validate_media(&self) -> Result<(), SpecError> {
        let Some(cache) = self.media_cache else {
            return check(self.shingled.is_none(), "shingled", "next to a [media_cache]");
        };
        check(cache.map_entries >= 8, "media_cache.map_entries", "at least 8")?;
        check(cache.entry_sectors > 0, "media_cache.entry_sectors", "at least 1")?;
        check(cache.min_extents > 0, "media_cache.min_extents", "at least 1")?;
        check_ms(cache.entry_ms, LONGEST_MS, "media_cache.entry_ms")?;
        check_ms(cache.idle_ms, LONGEST_FLUSH_MS, "media_cache.idle_ms")?;
        let mut least = u64::from(cache.entry_sectors);
        if let Some(shingled) = self.shingled {
            let tracks = shingled.band_tracks;
            check((1..=10_000).contains(&tracks), "shingled.band_tracks", "from 1 to 10000")?;
            check(shingled.stream_sectors > 0, "shingled.stream_sectors", "at least 1")?;
            let longest =
                listed_zones(self).iter().map(|zone| zone.sectors_per_track).max().unwrap_or(0);
            let band = u64::from(tracks) * u64::from(longest);
            least = (2 * band).max(band + least);
        }
        check(cache.sectors >= least, "media_cache.sectors", &format!("at least {least}"))
    }

    fn validate_overhead(&self) -> Result<(), SpecError> {
        let overhead = &self.overhead;
        let hit = overhead.hit.unwrap_or_default();
        for (ms, key) in [
            (overhead.idle_ms, "overhead.idle_ms"),
            (overhead.per_command_ms, "overhead.per_command_ms"),
            (overhead.read_ms, "overhead.read_ms"),
            (overhead.write_ms, "overhead.write_ms"),
            (overhead.read_after_write_ms.unwrap_or(0.0), "overhead.read_after_write_ms"),
            (overhead.write_after_read_ms.unwrap_or(0.0), "overhead.write_after_read_ms"),
            (overhead.read_done_ms, "overhead.read_done_ms"),
            (overhead.write_done_ms, "overhead.write_done_ms"),
            (hit.read_ms, "overhead.hit.read_ms"),
            (hit.read_after_write_ms, "overhead.hit.read_after_write_ms"),
            (hit.write_ms, "overhead.hit.write_ms"),
            (hit.write_after_read_ms, "overhead.hit.write_after_read_ms"),
        ] {
            check_ms(ms, LONGEST_MS, key)?;
        }
        Ok(())
    }

    fn validate_bus(&self) -> Result<(), SpecError> {
        let rate = self.bus_mb_per_s.unwrap_or(1.0);
        check((0.01..=1e6).contains(&rate), "bus_mb_per_s", "from 0.01 to 1000000")?;
        let Some(bus) = self.bus else { return Ok(()) };
        check(self.bus_mb_per_s.is_none(), "bus_mb_per_s", "left out where there is a [bus]")?;
        check((0.0..=1.0).contains(&bus.read_start), "bus.read_start", "from 0 to 1")?;
        for (ms, key) in [
            (bus.read_sector_ms, "bus.read_sector_ms"),
            (bus.write_sector_ms, "bus.write_sector_ms"),
            (bus.reselect_ms, "bus.reselect_ms"),
            (bus.write_lead_ms, "bus.write_lead_ms"),
        ] {
            check_ms(ms, LONGEST_MS, key)?;
        }
        Ok(())
    }

    /// The number of cylinders, if the zones can be.
    fn validate_zones(&self) -> Result<u32, SpecError> {
        if let Zones::Linear(linear) = &self.zones {
            check((1..=1000).contains(&linear.count), "zones.linear.count", "from 1 to 1000")?;
            let falls = linear.outer_sectors >= linear.inner_sectors;
            check(falls, "zones.linear.outer_sectors", "at least inner_sectors")?;
            let fits = linear.inner_sectors > 0 && linear.outer_sectors <= MOST_PER_TRACK;
            check(fits, "zones.linear.inner_sectors", "from 1 to 60000, as outer_sectors")?;
            check(self.sectors.is_some(), "sectors", "given where zones are linear")?;
            check(self.sectors != Some(0), "sectors", "at least 1")?;
            let least = u64::from(self.heads) * u64::from(linear.inner_sectors);
            let reserved = self.media_cache.map_or(0, |cache| cache.sectors);
            let all = self.sectors.unwrap_or(0).saturating_add(reserved);
            let fits = all / least <= MOST_CYLINDERS;
            check(fits, "sectors", "few enough for 4000000 cylinders, with [media_cache]")?;
        }
        let mut list = listed_zones(self);
        check((1..=MOST_ZONES).contains(&list.len()), "zones", "from 1 to 10000 zones")?;
        let (mut held, mut next) = (0, 0);
        for zone in &list {
            let first = u64::from(zone.first_cylinder.unwrap_or(0));
            check(first >= next, "first_cylinder", "after the zone before, in ascending order")?;
            next = first + u64::from(zone.cylinders);
            self.validate_zone(zone)?;
            held += zone_addresses(self, zone).unwrap_or(0);
        }
        check(next <= MOST_CYLINDERS, "cylinders", "at most 4000000 in all")?;
        if let Some(cache) = self.media_cache {
            held = match split_outer(self, &mut list)? {
                Some(_) => list.iter().filter_map(|zone| zone_addresses(self, zone)).sum(),
                None => held.saturating_sub(cache.sectors),
            };
            check(held > 0, "media_cache.sectors", "less than what the zones hold")?;
        }
        let expected = format!("from 1 to {held}, which is what the zones hold");
        check((1..=held).contains(&self.sectors.unwrap_or(held)), "sectors", &expected)?;
        Ok(next as u32)
    }

    fn validate_zone(&self, zone: &ZoneSpec) -> Result<(), SpecError> {
        let track = zone.sectors_per_track;
        check((1..=MOST_PER_TRACK).contains(&track), "sectors_per_track", "from 1 to 60000")?;
        check(
            (1..=MOST_CYLINDERS).contains(&u64::from(zone.cylinders)),
            "cylinders",
            "at least 1",
        )?;
        check(zone.track_skew.unwrap_or(0) < track, "track_skew", "less than a track")?;
        check(zone.cylinder_skew.unwrap_or(0) < track, "cylinder_skew", "less than a track")?;
        let unit = match self.spares_per {
            SparesPer::Track => u64::from(track),
            _ => u64::from(track) * u64::from(self.heads),
        };
        let whole = self.spares_per == SparesPer::Zone;
        let fits = whole || u64::from(zone.spare_sectors) < unit;
        check(
            fits && zone_addresses(self, zone).is_some(),
            "spare_sectors",
            "fewer than there are",
        )?;
        self.validate_slips(zone)
    }

    /// Slips must ascend, and each unit must have the spares for its own.
    fn validate_slips(&self, zone: &ZoneSpec) -> Result<(), SpecError> {
        let (unit_sectors, spares) = unit_of(self, zone);
        let cylinder = u64::from(zone.sectors_per_track) * u64::from(self.heads);
        let whole_units = u64::from(zone.cylinders) * cylinder / unit_sectors;
        let (mut next, mut unit, mut skipped) = (0, 0, 0);
        for &(start, sectors) in &zone.slips {
            let (start, sectors) = (u64::from(start), u64::from(sectors));
            check(start >= next && sectors > 0, "slips", "ascending stretches, not empty")?;
            next = start + sectors;
            if start / unit_sectors != unit {
                (unit, skipped) = (start / unit_sectors, 0);
            }
            skipped += sectors;
            let fits = skipped <= spares && unit < whole_units;
            check(fits, "slips", "inside the zone, and no more than spare_sectors where they lie")?;
        }
        Ok(())
    }

    fn validate_seek(&self, cylinders: u32) -> Result<(), SpecError> {
        match &self.seek {
            Seek::Fit(fit) => {
                for ms in [fit.one_cylinder_ms, fit.third_ms, fit.full_ms] {
                    check_ms(ms, LONGEST_SEEK_MS, "seek.fit")?;
                }
                let (a, b, c) = fit_coefficients(fit, cylinders);
                let finite = [a, b, c].iter().all(|x| x.is_finite());
                check(finite, "seek.fit", "three points of a curve")?;
            }
            Seek::Formula(formula) => {
                let at_end = formula.long_ms + formula.long_cylinder_ms * f64::from(cylinders);
                check_ms(at_end, LONGEST_SEEK_MS, "seek.formula")?;
                check_ms(formula.short_ms, LONGEST_SEEK_MS, "seek.formula.short_ms")?;
                check_rises(&formula_points(formula, cylinders), "seek.formula")?;
            }
            Seek::Table(table) => {
                let ascending = table.points.windows(2).all(|p| p[0].0 < p[1].0);
                let given = table.points.first().is_some_and(|p| p.0 > 0);
                check(ascending && given, "seek.table.points", "ascending distances from 1 on")?;
                for point in &table.points {
                    check_ms(point.1, LONGEST_SEEK_MS, "seek.table.points")?;
                }
                check_rises(&table.points, "seek.table.points")?;
            }
        }
        let times = table_ns(&self.seek, cylinders);
        // Measured curves have noise; one through three points of a data sheet has none.
        let falls = times.windows(2).position(|pair| pair[1] < pair[0]);
        if let (Seek::Fit(_), Some(distance)) = (&self.seek, falls) {
            return Err(SpecError::Value {
                key: "seek.fit",
                expected: format!(
                    "a curve that rises: it falls beyond {distance} cylinders. Give \
                     one_cylinder_ms, third_ms and full_ms as the data sheet has them"
                ),
            });
        }
        let longest = times.into_iter().max().unwrap_or(0);
        check_ms(f64::from(longest) / 1e6, LONGEST_SEEK_MS, "seek")
    }
}
