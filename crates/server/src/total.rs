//! One total of the bytes that all connections hold: requests in flight and replies not sent yet.
//! Clients that do not read their replies fill a half of it at most, and then only they wait.

/// A connection that holds no more than this is served though the total is reached: a client that
/// takes its replies never waits for one that does not.
pub(crate) const SMALL: usize = 128 << 10;
/// Bytes that a client must have written or taken before it counts as one that reads: more than the
/// system's buffers take without it.
const PROOF: u64 = 1 << 20;

/// What the total knows of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Bytes counted for it.
    counted: usize,
    /// Bytes that it has written, and taken of replies.
    moved: u64,
    /// It has taken enough, and at some time all.
    reads: bool,
}

impl Share {
    /// The client took bytes of a reply, or had bytes written.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.moved += bytes as u64;
    }
}

/// The total, and who waits for room in it.
#[derive(Debug)]
pub(crate) struct Total {
    held: usize,
    /// Of that, what clients hold that have not shown that they read.
    unread: usize,
    max: usize,
    /// The connection whose one large request went over it.
    over: Option<u32>,
    /// Connections that wait, and bytes of the request for which they do.
    waiting: Vec<(usize, u32)>,
    /// There is more room since they were looked at.
    freed: bool,
}

impl Total {
    pub(crate) fn new(max: usize) -> Total {
        Total { held: 0, unread: 0, max, over: None, waiting: Vec::new(), freed: false }
    }

    /// A connection holds this many bytes now.
    pub(crate) fn change(&mut self, slot: u32, share: &mut Share, now: usize) {
        let before = std::mem::replace(&mut share.counted, now);
        self.held = self.held + now - before;
        if !share.reads {
            self.unread = self.unread + now - before;
        }
        self.freed |= now < before;
        if now == 0 {
            share.reads |= share.moved >= PROOF;
            if self.over == Some(slot) {
                self.over = None;
            }
        }
    }

    /// Whether a request may begin that counts for `charge` bytes. A client that reads and has
    /// nothing outstanding may go over the total, one at a time: so it is served whatever the
    /// others hold, and however large its request. The others have a half, one large request each.
    pub(crate) fn admit(&mut self, slot: u32, share: Share, charge: usize) -> bool {
        let held = share.counted;
        if held + charge <= SMALL {
            return true;
        }
        if !share.reads {
            let fits = held <= SMALL && self.unread + charge <= self.max / 2;
            return fits || self.unread == 0;
        }
        if self.held + charge <= self.max {
            return true;
        }
        let may = held == 0 && self.over.is_none();
        if may {
            self.over = Some(slot);
        }
        may
    }

    /// The total is reached: a connection that holds more than a little is not read from.
    pub(crate) fn full(&self) -> bool {
        self.held >= self.max
    }

    /// Nothing more fits, or somebody waits for room.
    pub(crate) fn exhausted(&self) -> bool {
        self.full() || !self.waiting.is_empty()
    }

    /// The connection has a request of this many bytes that waits for room.
    pub(crate) fn wait(&mut self, slot: u32, charge: usize) {
        if !self.waiting.iter().any(|(_, other)| *other == slot) {
            self.waiting.push((charge, slot));
        }
    }

    /// The connection can go on, in the next turn.
    pub(crate) fn resume(&mut self, slot: u32) {
        self.wait(slot, 0);
        self.freed = true;
    }

    /// Whether those who wait are to be looked at.
    pub(crate) fn due(&self) -> bool {
        self.freed && !self.waiting.is_empty()
    }

    /// Those who wait, the smallest requests first, if there is more room than when they were last
    /// looked at.
    pub(crate) fn take_waiting(&mut self) -> Vec<(usize, u32)> {
        if !core::mem::take(&mut self.freed) {
            return Vec::new();
        }
        let mut waiting = core::mem::take(&mut self.waiting);
        waiting.sort_by_key(|(charge, _)| *charge);
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn reader() -> Share {
        Share { reads: true, ..Share::default() }
    }

    #[test]
    fn a_full_total_stops_those_who_hold_much_and_no_others() {
        let mut total = Total::new(MIB);
        let mut shares = [reader(), reader(), reader()];
        assert!(total.admit(0, shares[0], MIB));
        total.change(0, &mut shares[0], MIB);
        assert!(total.full());
        // A little is always served; a large request of one who holds nothing, one at a time.
        assert!(total.admit(1, shares[1], 4096) && !total.admit(0, shares[0], 4096));
        assert!(total.admit(1, shares[1], 64 * MIB));
        total.change(1, &mut shares[1], 64 * MIB);
        assert!(!total.admit(2, shares[2], MIB) && total.admit(2, shares[2], 4096));
        total.wait(2, MIB);
        total.wait(2, MIB);
        assert!(total.exhausted() && !total.due());
        total.change(1, &mut shares[1], 0);
        assert!(total.due());
        assert_eq!(total.take_waiting(), [(MIB, 2)]);
        assert!(total.admit(2, shares[2], MIB), "the one place over the total is free again");
        total.change(0, &mut shares[0], 0);
        assert!(!total.exhausted());
    }

    #[test]
    fn who_has_not_shown_that_it_reads_has_a_half_and_one_large_request() {
        let mut total = Total::new(2 * MIB);
        let mut shares = [Share::default(); 3];
        assert!(total.admit(0, shares[0], MIB));
        total.change(0, &mut shares[0], MIB);
        assert!(!total.admit(0, shares[0], MIB / 4) && !total.admit(1, shares[1], MIB / 4));
        assert!(total.admit(2, reader(), MIB), "the other half is for those who read");
        // It takes all of it: from then on it is one of them.
        shares[0].moved(MIB);
        total.change(0, &mut shares[0], 0);
        assert!(total.admit(0, shares[0], 2 * MIB));
        total.wait(1, MIB);
        total.resume(2);
        assert_eq!(total.take_waiting(), [(0, 2), (MIB, 1)]);
    }
}
