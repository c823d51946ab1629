//! The host bus: how its transfers overlap the medium, in integer nanoseconds.

use crate::seek::ns;
use crate::spec::{BusSpec, DiskSpec, StartOf};

/// ns a sector takes, in 2^-32 ns.
fn fraction(sector_ns: f64) -> u64 {
    (sector_ns * 4_294_967_296.0).round() as u64
}

fn share(fraction: u64, sectors: u32) -> u64 {
    ((u128::from(sectors) * u128::from(fraction)) >> 32) as u64
}

/// The bus of a drive, ready for look-ups. Without one everything takes no time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bus {
    /// ns a sector takes to the host, in 2^-32 ns.
    read_fraction: u64,
    /// The same from the host.
    write_fraction: u64,
    /// Sector by sector: a read's last follows the medium, a write's first precedes it.
    detail: Option<Detail>,
}

#[derive(Clone, Copy, Debug)]
struct Detail {
    /// Share that is buffered before the transfer begins, in 2^-16, and of what.
    start_share: u64,
    start_of: StartOf,
    reselect_ns: u64,
    lead_ns: u64,
}

impl Bus {
    pub(crate) fn new(spec: &DiskSpec) -> Bus {
        if let Some(BusSpec {
            read_sector_ms,
            write_sector_ms,
            read_start,
            read_start_of,
            reselect_ms,
            write_lead_ms,
        }) = spec.bus
        {
            return Bus {
                read_fraction: fraction(read_sector_ms * 1e6),
                write_fraction: fraction(write_sector_ms * 1e6),
                detail: Some(Detail {
                    start_share: (read_start * 65_536.0).round() as u64,
                    start_of: read_start_of,
                    reselect_ns: u64::from(ns(reselect_ms)),
                    lead_ns: u64::from(ns(write_lead_ms)),
                }),
            };
        }
        let sector_ns = |rate: f64| f64::from(spec.sector_bytes) * 1e3 / rate;
        let fraction = spec.bus_mb_per_s.map_or(0, |rate| fraction(sector_ns(rate)));
        Bus { read_fraction: fraction, write_fraction: fraction, detail: None }
    }

    /// Time some sectors take to or from the host.
    #[inline]
    pub(crate) fn ns(&self, sectors: u32, write: bool) -> u64 {
        share(if write { self.write_fraction } else { self.read_fraction }, sectors)
    }

    /// Time from a read's first sector under the head until its last is with the host; the medium
    /// takes `media_ns`, and the sectors on the last track, with their time, are `tail`. What is
    /// on the tracks before crosses the bus while the heads move on.
    #[inline]
    pub(crate) fn read_ns(&self, sectors: u32, media_ns: u64, tail: (u32, u32)) -> u64 {
        let all_ns = share(self.read_fraction, sectors);
        match self.detail {
            None => media_ns.max(all_ns),
            Some(detail) => self.detailed_read_ns(detail, all_ns, media_ns, tail),
        }
    }

    #[inline(never)]
    fn detailed_read_ns(
        &self,
        detail: Detail,
        all_ns: u64,
        media_ns: u64,
        tail: (u32, u32),
    ) -> u64 {
        let (tail_sectors, tail_ns) = (tail.0, u64::from(tail.1).min(media_ns));
        let first_ns = tail_ns / u64::from(tail_sectors.max(1));
        let started = |of_ns: u64| first_ns.max((of_ns * detail.start_share) >> 16);
        let tail_begin_ns = media_ns - tail_ns;
        let tail_bus_ns = share(self.read_fraction, tail_sectors);
        let held_ns = match detail.start_of {
            StartOf::Request => started(media_ns) + all_ns,
            StartOf::Track => tail_begin_ns + started(tail_ns) + tail_bus_ns,
        };
        let follows_ns = tail_begin_ns + first_ns + tail_bus_ns;
        let last_ns = media_ns + share(self.read_fraction, 1);
        (held_ns + detail.reselect_ns).max(follows_ns).max(last_ns).max(all_ns)
    }

    /// Time from a sector's coming into the buffer until it is with the host.
    #[inline]
    pub(crate) fn follow_ns(&self) -> u64 {
        self.detail.map_or(0, |_| share(self.read_fraction, 1))
    }

    /// Least time from overhead to first sector that lets the bus keep up with a write.
    #[inline]
    pub(crate) fn hold_ns(&self, sectors: u32, media_ns: u64) -> u32 {
        if self.write_fraction == 0 && self.detail.is_none() {
            return 0;
        }
        let behind_ns = share(self.write_fraction, sectors).saturating_sub(media_ns);
        let hold_ns = match self.detail {
            Some(detail) => detail.lead_ns + behind_ns.max(share(self.write_fraction, 1)),
            None => behind_ns,
        };
        u32::try_from(hold_ns).unwrap_or(u32::MAX).min(1_000_000_000)
    }
}
