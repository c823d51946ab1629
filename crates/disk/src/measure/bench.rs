//! What all parts of a measurement share: reads that the drive's buffer cannot serve, the angle of
//! a sector, and the least time between two places.
//!
//! A read's completion says where on the track its sector is: completions of one sector are full
//! revolutions apart. So one read of a sector gives its angle, and with the angles of two places
//! known, the host chooses how long a command waits for its sector: it delays the command. If the
//! heads come too late, the command takes one revolution more. A binary search between the two
//! finds the time without any wait for rotation.

use super::probe::{Command, Kind, MeasureError, Probe, Timed};
use crate::figures::Random;

/// Samples after which a search takes what it has.
const MOST_SAMPLES: u32 = 80;

/// A drive with what is known of it so far.
pub(super) struct Bench<'a> {
    pub(super) probe: &'a mut dyn Probe,
    pub(super) random: Random,
    /// One revolution, in ns.
    pub(super) revolution_ns: f64,
    /// How far two readings of one angle may be apart.
    pub(super) tolerance_ns: f64,
    /// The least service of a read a third of the drive or more away.
    pub(super) far_ns: f64,
    /// A service below this one came from the buffer.
    pub(super) buffered_ns: f64,
    /// Time by which a track is turned against the one before, once known.
    pub(super) skew_ns: f64,
    /// Commands so far.
    pub(super) commands: u64,
    pub(super) progress: &'a mut dyn FnMut(u64),
    /// Completion of the last command.
    pub(super) done_ns: u64,
}

/// A place whose sectors are used one after the other, downwards: what the drive reads ahead of
/// one is behind the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) lbn: u64,
    /// Time of a sector under the head, in ns.
    pub(super) slot_ns: f64,
    /// Sectors on a track.
    pub(super) track: u64,
    pub(super) sectors: u32,
    pub(super) kind: Kind,
    /// Angle at which the sector's completion comes, once known.
    pub(super) theta_ns: Option<f64>,
    /// How often the buffer had the sector. If it has more than one, the drive keeps what passes
    /// while it waits: each sector is then a track below the one before.
    pub(super) buffered: u32,
}

impl Spot {
    pub(super) fn new(lbn: u64, slot_ns: f64, track: u64) -> Spot {
        Spot { lbn, slot_ns, track, sectors: 1, kind: Kind::Read, theta_ns: None, buffered: 0 }
    }

    fn command(&self) -> Command {
        Command { lbn: self.lbn, sectors: self.sectors, kind: self.kind }
    }

    /// Moves down to the next sectors; `theta_ns` is the angle of the last.
    fn step(&mut self, theta_ns: f64, skew_ns: f64) {
        let (step, turned) = match self.buffered {
            2.. => (self.track, skew_ns),
            _ => (u64::from(self.sectors), f64::from(self.sectors) * self.slot_ns),
        };
        self.lbn = self.lbn.saturating_sub(step);
        self.theta_ns = Some(theta_ns - turned);
    }
}

/// How [`Bench::least`] searches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    /// Difference of the bounds at which it ends, in ns.
    pub(super) resolution_ns: f64,
    /// What the result probably is, in ns.
    pub(super) guess_ns: Option<f64>,
    /// A service below this one came from the buffer.
    pub(super) buffered_ns: f64,
    /// Only commands to the second place count.
    pub(super) one_way: bool,
}

impl Bench<'_> {
    pub(super) fn serve(&mut self, delay_ns: f64, command: Command) -> Result<Timed, MeasureError> {
        self.commands += 1;
        if self.commands.is_multiple_of(64) {
            (self.progress)(self.commands);
        }
        let timed = self.probe.serve(delay_ns.max(0.0).round() as u64, command)?;
        self.done_ns = timed.done_ns;
        Ok(timed)
    }

    pub(super) fn read(&mut self, delay_ns: f64, lbn: u64) -> Result<Timed, MeasureError> {
        self.serve(delay_ns, Command { lbn, sectors: 1, kind: Kind::Read })
    }

    /// A time as an angle, from 0 to a revolution.
    pub(super) fn angle(&self, ns: f64) -> f64 {
        ns.rem_euclid(self.revolution_ns)
    }

    /// The shorter way from 0 to an angle, with its sign.
    pub(super) fn near_zero(&self, ns: f64) -> f64 {
        let angle = self.angle(ns);
        if angle > self.revolution_ns / 2.0 { angle - self.revolution_ns } else { angle }
    }

    /// A place a third of the drive or more away from another, not used before.
    pub(super) fn far_from(&mut self, lbn: u64) -> u64 {
        let third = self.probe.sectors() / 3;
        let place = self.random.below(third.max(1));
        if lbn > self.probe.sectors() / 2 { place } else { 2 * third + place }
    }

    /// Reads far from a place until the buffer of most drives has forgotten it.
    pub(super) fn evict(&mut self, lbn: u64) -> Result<(), MeasureError> {
        for _ in 0..24 {
            let far = self.far_from(lbn);
            self.read(0.0, far)?;
        }
        Ok(())
    }

    /// The angle at which the read of a sector completes; none if the buffer served it.
    pub(super) fn theta(&mut self, lbn: u64) -> Result<Option<f64>, MeasureError> {
        let far = self.far_from(lbn);
        self.read(0.0, far)?;
        let timed = self.read(0.0, lbn)?;
        let buffered = timed.service_ns() < 0.6 * self.far_ns;
        Ok((!buffered).then(|| self.angle(timed.done_ns as f64)))
    }

    /// The least time of a command at either of two places after one at the other: overhead, seek
    /// and transfer without waiting for rotation, in ns.
    pub(super) fn least(
        &mut self,
        mut spots: [Spot; 2],
        search: &Search,
    ) -> Result<f64, MeasureError> {
        let (mut low, mut high) = (0.0_f64, f64::INFINITY);
        let mut guesses = search.guess_ns.map_or(Vec::new(), |guess| {
            let off = (self.revolution_ns / 60.0).max(4.0 * search.resolution_ns);
            vec![guess - off, guess + off]
        });
        let turn = self.revolution_ns;
        let mut target = 0;
        let mut begun = false;
        for _ in 0..MOST_SAMPLES {
            let counts = begun && (target == 1 || !search.one_way);
            let spot = spots[target];
            let mut wanted = None;
            if let (Some(theta), true) = (spot.theta_ns, counts && high.is_finite()) {
                let middle = f64::midpoint(low, high);
                guesses.retain(|guess| *guess > low && *guess < high);
                let next = guesses.pop().unwrap_or(middle);
                wanted = Some((next, self.angle(theta - self.done_ns as f64 - next)));
            }
            let delay_ns = wanted.map_or(0.0, |(_, delay)| delay);
            let timed = self.serve(delay_ns, spot.command())?;
            let service = timed.service_ns();
            if service < search.buffered_ns {
                // The heads did not move. Try another track.
                let spot = &mut spots[target];
                spot.lbn = spot.lbn.saturating_sub(spot.track);
                spot.theta_ns = None;
                spot.buffered += 1;
                continue;
            }
            let mut theta = self.angle(timed.done_ns as f64);
            let window = (turn / 40.0).max(1.2 * spot.slot_ns);
            match (wanted, spot.theta_ns) {
                (Some((wanted, _)), Some(predicted))
                    if self.near_zero(theta - predicted).abs() < window =>
                {
                    if service > wanted + turn / 2.0 {
                        // Too late. A drive that reads on arrival may then end a bit earlier.
                        low = low.max(wanted);
                        theta = predicted;
                    } else {
                        high = high.min(service);
                    }
                }
                _ if counts && service - turn <= low => high = high.min(service),
                _ => {}
            }
            if counts && service < low - self.tolerance_ns {
                (low, high) = (0.0, service);
            }
            low = low.max(high - turn);
            spots[target].step(theta, self.skew_ns);
            begun = true;
            target = 1 - target;
            if high - low < search.resolution_ns {
                break;
            }
        }
        Ok(high)
    }
}
