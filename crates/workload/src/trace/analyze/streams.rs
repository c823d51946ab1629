//! Requests that begin where others of their device ended.

use destage_report::trace::Sequential;

/// Requests before that count for interleaved streams.
const STREAMS: usize = 32;

/// Where the last requests of a device ended.
pub(super) struct Ends {
    /// The latest is at `next - 1`, and others before it, in a ring.
    ends: [u64; STREAMS],
    next: usize,
}

impl Default for Ends {
    fn default() -> Ends {
        // No request begins there.
        Ends { ends: [u64::MAX; STREAMS], next: 0 }
    }
}

impl Ends {
    /// A request of this device; counts it in `found`.
    pub(super) fn add(&mut self, first: u64, end: u64, writes: bool, found: &mut Sequential) {
        found.streams = STREAMS as u64;
        let strict = u64::from(self.ends[(self.next + STREAMS - 1) % STREAMS] == first);
        let in_streams = u64::from(self.ends.contains(&first));
        let (all, streams) = match writes {
            false => (&mut found.reads, &mut found.reads_in_streams),
            true => (&mut found.writes, &mut found.writes_in_streams),
        };
        *all += strict;
        *streams += in_streams;
        self.ends[self.next] = end;
        self.next = (self.next + 1) % STREAMS;
    }
}
