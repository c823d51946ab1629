//! How much of the time drives have commands.

use crate::units::{Duration, Instant};

/// The mean is over about this long.
const MEMORY: Duration = Duration::from_secs(30);
/// All of the time, as a share.
const ALL: u64 = 1 << 40;

/// The mean share of the drives that have a command.
pub(super) struct Usage {
    drives: u64,
    in_use: u64,
    /// Of [`ALL`], up to `since`.
    share: u64,
    since: Instant,
}

impl Usage {
    pub(super) fn new(drives: u16) -> Usage {
        Usage { drives: drives.into(), in_use: 0, share: 0, since: Instant::ZERO }
    }

    /// A drive that had no command has one.
    pub(super) fn begin(&mut self, now: Instant) {
        self.update(now);
        self.in_use += 1;
    }

    /// A drive has none left.
    pub(super) fn end(&mut self, now: Instant) {
        self.update(now);
        self.in_use -= 1;
    }

    /// The mean up to now. As (part, of).
    pub(super) fn share(&mut self, now: Instant) -> (u64, u64) {
        self.update(now);
        (self.share, ALL)
    }

    fn update(&mut self, now: Instant) {
        let part = |of: u64| {
            let time = now.since(self.since).0.min(MEMORY.0);
            (u128::from(of) * u128::from(time) / u128::from(MEMORY.0)) as u64
        };
        let is = self.in_use * ALL / self.drives.max(1);
        self.share = self.share + part(is) - part(self.share);
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant(millis * 1_000_000)
    }

    fn percent(usage: &mut Usage, now: Instant) -> u64 {
        let (part, of) = usage.share(now);
        (part * 100 + of / 2) / of
    }

    #[test]
    fn the_share_follows_what_drives_do_within_half_a_minute() {
        let mut usage = Usage::new(4);
        assert_eq!(percent(&mut usage, at(0)), 0);
        // Of two drives, one has a command all the time, the other one half of it.
        usage.begin(at(0));
        for step in 0..30_000 {
            usage.begin(at(10 * step));
            usage.end(at(10 * step + 5));
        }
        assert_eq!(percent(&mut usage, at(300_000)), 37);
        usage.end(at(300_000));
        assert_eq!(percent(&mut usage, at(315_000)), 19);
        assert_eq!(percent(&mut usage, at(345_000)), 0);
    }

    #[test]
    fn long_silence_and_short_commands_are_counted() {
        let mut usage = Usage::new(1);
        usage.begin(at(0));
        assert_eq!(percent(&mut usage, at(1 << 40)), 100);
        usage.end(at(1 << 40));
        let mut now = at((1 << 40) + 40_000);
        // A microsecond of ten, for a minute: six sevenths of a tenth.
        for _ in 0..6_000_000 {
            usage.begin(now);
            now.0 += 1_000;
            usage.end(now);
            now.0 += 9_000;
        }
        assert_eq!(percent(&mut usage, now), 9);
    }
}
