//! Position of each address: cylinder, head and slot, without a division at run time.
//!
//! A slot is a sector's place on its track after skew: slot k of every track of a zone passes
//! under the head at the same angle. Angles are ns since the zone's slot 0 or the index passed.

/// Division by a fixed number through a multiplication; exact while the dividend times the
/// divisor is below 2^64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    pub(crate) value: u64,
    reciprocal: u64,
}

impl Divisor {
    /// A divisor of at least 1.
    pub(crate) fn new(value: u64) -> Divisor {
        assert!(value > 0, "division by zero");
        Divisor { value, reciprocal: if value == 1 { 0 } else { u64::MAX / value + 1 } }
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) fn div_rem(self, dividend: u64) -> (u64, u64) {
        if self.value == 1 {
            return (dividend, 0);
        }
        let quotient = ((u128::from(dividend) * u128::from(self.reciprocal)) >> 64) as u64;
        (quotient, dividend - quotient * self.value)
    }
}

/// A revolution, and times reduced to angles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Revolution {
    pub(crate) ns: u32,
    /// The angle at time 0.
    begins_ns: u32,
    reciprocal_32: u32,
    reciprocal_64: u64,
}

impl Revolution {
    pub(crate) fn new(ns: u32) -> Revolution {
        let reciprocal_32 = ((1_u64 << 32) / u64::from(ns)) as u32;
        let reciprocal_64 = ((1_u128 << 64) / u128::from(ns)) as u64;
        Revolution { ns, begins_ns: 0, reciprocal_32, reciprocal_64 }
    }

    /// The same, with the platter at this angle, in 2^-32 revolutions, at time 0.
    pub(crate) fn begun_at(self, phase: u32) -> Revolution {
        let begins_ns = ((u64::from(self.ns) * u64::from(phase)) >> 32) as u32;
        Revolution { begins_ns, ..self }
    }

    /// The angle, in ns since the index, of the platter after `time_ns`.
    #[inline]
    pub(crate) fn angle(self, time_ns: u64) -> u32 {
        let turns = ((u128::from(time_ns) * u128::from(self.reciprocal_64)) >> 64) as u64;
        let rest = (time_ns - turns * u64::from(self.ns)) as u32;
        let turned = rest.min(rest.wrapping_sub(self.ns)) + self.begins_ns;
        turned.min(turned.wrapping_sub(self.ns))
    }

    /// The same for a sum of an angle and a few times.
    #[inline]
    pub(crate) fn reduce(self, ns: u32) -> u32 {
        let turns = ((u64::from(ns) * u64::from(self.reciprocal_32)) >> 32) as u32;
        let rest = ns - turns * self.ns;
        rest.min(rest.wrapping_sub(self.ns))
    }

    /// Time from one angle until the next.
    #[inline]
    pub(crate) fn wait(self, from: u32, to: u32) -> u32 {
        let ahead = to.wrapping_sub(from);
        ahead.min(ahead.wrapping_add(self.ns))
    }
}

/// A defective stretch that addresses skip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slip {
    /// First address of the zone, counted from its start, behind the stretch.
    pub(crate) address: u64,
    /// Unit of its zone.
    pub(crate) unit: u64,
    /// Sectors skipped so far in that unit, with this stretch.
    pub(crate) skipped: u64,
}

/// A zone, ready for look-ups.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) first_lbn: u64,
    pub(crate) end_lbn: u64,
    pub(crate) first_cylinder: u32,
    pub(crate) cylinders: u32,
    pub(crate) track: Divisor,
    pub(crate) heads: Divisor,
    /// ns a sector takes, in 2^-32 ns, rounded up so that a full track is a revolution.
    pub(crate) sector_fraction: u64,
    /// Angle of slot 0.
    pub(crate) base_ns: u32,
    pub(crate) revolution_ns: u32,
    pub(crate) track_skew: u32,
    pub(crate) cylinder_skew: u32,
    pub(crate) unused_front: u64,
    /// Addresses between spares, and sectors with the spares.
    pub(crate) unit: u64,
    pub(crate) unit_sectors: u64,
    pub(crate) slips: Vec<Slip>,
    /// No slips, and no spares inside: addresses are contiguous.
    pub(crate) plain: bool,
    /// Backwards heads: 0 never, 1 on odd cylinders of the zone, 2 on odd cylinders.
    pub(crate) serpentine: u32,
}

/// Position of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SectorPlace {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    pub(crate) sector: u32,
    pub(crate) slot: u32,
}

impl Zone {
    /// Position of an address of this zone.
    #[inline]
    pub(crate) fn place(&self, lbn: u64) -> SectorPlace {
        let mut position = lbn - self.first_lbn + self.unused_front;
        if !self.plain {
            position = self.skip(position);
        }
        let (track, sector) = self.track.div_rem(position);
        let (cylinder, turn) = self.heads.div_rem(track);
        let slot = self.slot(cylinder, turn, sector);
        let cylinder = self.first_cylinder + cylinder as u32;
        let backwards = match self.serpentine {
            0 => false,
            1 => (cylinder - self.first_cylinder) % 2 == 1,
            _ => cylinder % 2 == 1,
        };
        let turn = turn as u32;
        let head = if backwards { self.heads.value as u32 - 1 - turn } else { turn };
        SectorPlace { cylinder, head, sector: sector as u32, slot }
    }

    /// The slot of a sector, from its track's skew.
    #[inline]
    fn slot(&self, cylinder: u64, turn: u64, sector: u64) -> u32 {
        let tracks = self.heads.value - 1;
        let per_cylinder = tracks * u64::from(self.track_skew) + u64::from(self.cylinder_skew);
        let shift = cylinder * per_cylinder + turn * u64::from(self.track_skew) + sector;
        self.track.div_rem(shift).1 as u32
    }

    /// The sector, counted from the zone's start, of an address likewise counted.
    fn skip(&self, address: u64) -> u64 {
        let (unit, offset) = (address / self.unit, address % self.unit);
        let behind = self.slips.partition_point(|slip| slip.address <= address);
        let skipped = match behind.checked_sub(1).map(|i| self.slips[i]) {
            Some(slip) if slip.unit == unit => slip.skipped,
            _ => 0,
        };
        unit * self.unit_sectors + offset + skipped
    }

    /// Time from slot 0 until a slot begins; `slot` is below the track's length.
    #[inline]
    pub(crate) fn grid_ns(&self, slot: u32) -> u32 {
        ((u128::from(slot) * u128::from(self.sector_fraction)) >> 32) as u32
    }

    /// Angle at which a slot begins.
    #[inline]
    pub(crate) fn angle(&self, slot: u32) -> u32 {
        let angle = self.base_ns + self.grid_ns(slot);
        if angle >= self.revolution_ns { angle - self.revolution_ns } else { angle }
    }

    /// Time `sectors` take from `slot` on, at most one track.
    #[inline]
    pub(crate) fn pass_ns(&self, slot: u32, sectors: u32) -> u32 {
        let (end, track) = (slot + sectors, self.track.value as u32);
        let end_ns = if end >= track {
            self.revolution_ns + self.grid_ns(end - track)
        } else {
            self.grid_ns(end)
        };
        end_ns - self.grid_ns(slot)
    }

    /// Addresses from `lbn` on that follow each other on the medium without a gap, at `place`:
    /// to the end of the track or zone, or to the next stretch skipped.
    pub(crate) fn run(&self, lbn: u64, place: SectorPlace) -> u32 {
        let mut run = (self.end_lbn - lbn).min(self.track.value - u64::from(place.sector));
        if !self.plain {
            let address = lbn - self.first_lbn + self.unused_front;
            run = run.min(self.unit - address % self.unit);
            let behind = self.slips.partition_point(|slip| slip.address <= address);
            if let Some(slip) = self.slips.get(behind) {
                run = run.min(slip.address - address);
            }
        }
        run as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_is_exact() {
        for value in [1, 2, 3, 7, 19, 72, 113, 457, 738, 4096, 60_000] {
            let divisor = Divisor::new(value);
            for k in [0, 1, 2, 1000, (1 << 44) / value, u64::MAX / value / value] {
                for dividend in [k * value, (k * value).saturating_sub(1), k * value + (value - 1)]
                {
                    let expected = (dividend / value, dividend % value);
                    assert_eq!(divisor.div_rem(dividend), expected, "{dividend} by {value}");
                }
            }
        }
    }

    #[test]
    fn a_phase_is_added_to_every_angle() {
        let revolution = Revolution::new(6_000_000);
        let later = revolution.begun_at(3 << 30);
        for time in [0, 1, 1_499_999, 1_500_000, 5_999_999, 1 << 40] {
            assert_eq!(later.angle(time), revolution.angle(time + 4_500_000));
        }
        assert_eq!(revolution.begun_at(u32::MAX).angle(0), 5_999_999);
    }

    #[test]
    fn angles_are_remainders() {
        for ns in [600_000, 5_985_037, 6_000_000, 14_992_504, 60_000_000] {
            let revolution = Revolution::new(ns);
            for time in [0, 1, u64::from(ns) - 1, u64::from(ns), 1 << 33, 1 << 62, u64::MAX] {
                for time in [time.saturating_sub(1), time, time / u64::from(ns) * u64::from(ns)] {
                    assert_eq!(u64::from(revolution.angle(time)), time % u64::from(ns));
                    let short = time as u32;
                    assert_eq!(revolution.reduce(short), short % ns);
                }
            }
        }
    }
}
