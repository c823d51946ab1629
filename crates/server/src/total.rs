//! One total of the bytes that all connections hold: requests in flight and replies not sent yet.
//! Clients that do not read their replies fill at most half of it, and then only they wait.

/// A connection that holds no more than this is served even when the total is reached, so that a
/// client that takes its replies never waits for one that does not.
pub(crate) const SMALL: usize = 128 << 10;
/// Bytes that a client must have written or taken before it counts as one that reads: more than
/// the system's buffers hold.
const PROOF: u64 = 1 << 20;

/// What the total knows of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    /// Bytes counted for it.
    counted: usize,
    /// Bytes that it has written, or taken of replies.
    moved: u64,
    /// It has moved enough, and all replies to it were sent since.
    reads: bool,
}

impl Share {
    /// The client took bytes of a reply, or had bytes written.
    pub(crate) fn moved(&mut self, bytes: usize) {
        self.moved += bytes as u64;
    }
}

/// The total, and the connections that wait for room in it.
#[derive(Debug)]
pub(crate) struct Total {
    held: usize,
    /// The part held by clients that have not shown that they read.
    unread: usize,
    /// The part held by requests of connections that are gone.
    orphans: usize,
    max: usize,
    /// The connection whose one large request exceeded it.
    over: Option<u32>,
    /// The waiting connections, and the bytes of the requests they wait for.
    waiting: Vec<(usize, u32)>,
    /// There is more room since they were last checked.
    freed: bool,
}

impl Total {
    pub(crate) fn new(max: usize) -> Total {
        let (held, unread, orphans) = (0, 0, 0);
        Total { held, unread, orphans, max, over: None, waiting: Vec::new(), freed: false }
    }

    /// A connection is gone, and requests of it that hold this many bytes are not.
    pub(crate) fn orphaned(&mut self, bytes: usize) {
        self.held += bytes;
        self.orphans += bytes;
    }

    /// One of them has ended.
    pub(crate) fn orphan_ended(&mut self, bytes: usize) {
        self.held -= bytes;
        self.orphans -= bytes;
        self.freed |= bytes > 0;
    }

    /// Records how many bytes a connection holds now, and how many of them are replies not sent
    /// yet. Requests in flight say nothing against it: one that always has some would never count
    /// as one that reads.
    pub(crate) fn change(&mut self, slot: u32, share: &mut Share, now: usize, unsent: usize) {
        let before = std::mem::replace(&mut share.counted, now);
        self.held = self.held + now - before;
        if !share.reads {
            self.unread = self.unread + now - before;
            if unsent == 0 && share.moved >= PROOF {
                share.reads = true;
                self.unread -= now;
            }
        }
        self.freed |= now < before;
        if now == 0 && self.over == Some(slot) {
            self.over = None;
        }
    }

    /// Whether a request that counts for `charge` bytes may begin. Where requests of connections
    /// that are gone reach the total, only small ones of clients that read may: who connects again
    /// and again must not hold more each time. Otherwise a client that reads and has
    /// nothing outstanding may exceed the total, one client at a time. So it is served whatever
    /// the others hold and however large its request is. The others share half of the total, with
    /// one large request each.
    pub(crate) fn admit(&mut self, slot: u32, share: Share, charge: usize) -> bool {
        let held = share.counted;
        let lost = self.orphans >= self.max;
        if lost && !share.reads {
            return false;
        }
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
        let may = held == 0 && self.over.is_none() && !lost;
        if may {
            self.over = Some(slot);
        }
        may
    }

    /// The total is reached: nothing is received from connections that hold more than [`SMALL`].
    pub(crate) fn full(&self) -> bool {
        self.held >= self.max
    }

    /// Nothing more fits, or a connection waits for room.
    pub(crate) fn exhausted(&self) -> bool {
        self.full() || !self.waiting.is_empty()
    }

    /// A request of this many bytes waits for room.
    pub(crate) fn wait(&mut self, slot: u32, charge: usize) {
        if !self.waiting.iter().any(|(_, other)| *other == slot) {
            self.waiting.push((charge, slot));
        }
    }

    /// The connection can continue in the next turn.
    pub(crate) fn resume(&mut self, slot: u32) {
        self.wait(slot, 0);
        self.freed = true;
    }

    /// Whether waiting connections are to be checked.
    pub(crate) fn due(&self) -> bool {
        self.freed && !self.waiting.is_empty()
    }

    /// The waiting connections, smallest requests first, if there is more room than when they were
    /// last checked.
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
    fn a_full_total_stops_only_clients_that_hold_much() {
        let mut total = Total::new(MIB);
        let mut shares = [reader(), reader(), reader()];
        assert!(total.admit(0, shares[0], MIB));
        total.change(0, &mut shares[0], MIB, 0);
        assert!(total.full());
        // Small requests are always served; large ones of idle clients, one at a time.
        assert!(total.admit(1, shares[1], 4096) && !total.admit(0, shares[0], 4096));
        assert!(total.admit(1, shares[1], 64 * MIB));
        total.change(1, &mut shares[1], 64 * MIB, 0);
        assert!(!total.admit(2, shares[2], MIB) && total.admit(2, shares[2], 4096));
        total.wait(2, MIB);
        total.wait(2, MIB);
        assert!(total.exhausted() && !total.due());
        total.change(1, &mut shares[1], 0, 0);
        assert!(total.due());
        assert_eq!(total.take_waiting(), [(MIB, 2)]);
        assert!(total.admit(2, shares[2], MIB), "the one place over the total is free again");
        total.change(0, &mut shares[0], 0, 0);
        assert!(!total.exhausted());
    }

    #[test]
    fn clients_that_have_not_read_share_half_with_one_large_request_each() {
        let mut total = Total::new(2 * MIB);
        let mut shares = [Share::default(); 3];
        assert!(total.admit(0, shares[0], MIB));
        total.change(0, &mut shares[0], MIB, 0);
        assert!(!total.admit(0, shares[0], MIB / 4) && !total.admit(1, shares[1], MIB / 4));
        assert!(total.admit(2, reader(), MIB), "the other half is for clients that read");
        // It takes all of it, and counts as one that reads from then on.
        shares[0].moved(MIB);
        total.change(0, &mut shares[0], 0, 0);
        assert!(total.admit(0, shares[0], 2 * MIB));
        total.wait(1, MIB);
        total.resume(2);
        assert_eq!(total.take_waiting(), [(0, 2), (MIB, 1)]);
    }

    #[test]
    fn requests_of_connections_that_are_gone_count_until_they_end() {
        let mut total = Total::new(MIB);
        total.orphaned(MIB / 2);
        assert!(!total.full() && total.admit(0, reader(), MIB / 2));
        total.orphaned(MIB / 2);
        assert!(total.full() && !total.admit(0, Share::default(), 4096));
        total.wait(0, 4096);
        total.orphan_ended(MIB / 2);
        assert!(total.due() && total.admit(0, Share::default(), 4096));
        total.orphan_ended(MIB / 2);
        assert_eq!(total.held, 0);
    }

    /// Where writes take long a busy client never has nothing outstanding.
    #[test]
    fn a_client_that_always_has_requests_in_flight_counts_as_one_that_reads() {
        let mut total = Total::new(2 * MIB);
        let mut share = Share::default();
        let held = SMALL + 4096;
        total.change(0, &mut share, held, 0);
        assert!(!total.admit(0, share, 4096), "it has not moved enough");
        share.moved(MIB);
        total.change(0, &mut share, held, 16);
        assert!(!total.admit(0, share, 4096), "a reply is not sent");
        total.change(0, &mut share, held, 0);
        assert!(total.admit(0, share, MIB));
        assert!(total.admit(1, Share::default(), MIB), "half is for those that have not read");
        total.change(0, &mut share, 0, 0);
        assert_eq!((total.held, total.unread), (0, 0));
    }
}
