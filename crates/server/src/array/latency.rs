//! Times in buckets: sixteen to an octave, so that a time is known to a sixteenth, and a copy of
//! all is a few KiB. Differences of two copies are the times between them.

/// Bits that tell buckets of an octave apart.
const SUB_BITS: u32 = 4;
const SUB: u64 = 1 << SUB_BITS;
/// Times from here on fall into the last bucket: 18 minutes.
const OCTAVES: u32 = 40;
const BUCKETS: usize = ((OCTAVES - SUB_BITS + 1) as u64 * SUB) as usize;

/// How many times fell where.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: Box<[u64; BUCKETS]>,
    /// Their sum, in ns.
    pub sum_ns: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: Box::new([0; BUCKETS]), sum_ns: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let octave = ns.ilog2() - SUB_BITS;
    let index = u64::from(octave + 1) * SUB + (ns >> octave) - SUB;
    (index as usize).min(BUCKETS - 1)
}

/// One past the last time of a bucket.
fn end(bucket: usize) -> u64 {
    let (octave, sub) = (bucket as u64 / SUB, bucket as u64 % SUB);
    if octave == 0 { sub + 1 } else { (SUB + sub + 1) << (octave - 1) }
}

impl Latencies {
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.sum_ns += ns;
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many were shorter than 2^`bits` ns.
    pub fn below(&self, bits: u32) -> u64 {
        let end = bucket(1 << bits);
        self.counts[..end].iter().sum()
    }

    /// Those that came after `earlier`, a copy of before.
    pub fn since(&self, earlier: &Latencies) -> Latencies {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(earlier.counts.iter()) {
            *count -= before;
        }
        since.sum_ns = self.sum_ns.wrapping_sub(earlier.sum_ns);
        since
    }

    /// Each of these shares of the times is at most as long, in ns: the end of its bucket.
    /// 0 if there are none.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [u64; N] {
        let total = self.count();
        shares.map(|share| {
            let wanted = ((total as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = self.counts.iter().position(|count| {
                seen += count;
                seen >= wanted
            });
            if total == 0 { 0 } else { end(found.unwrap_or(BUCKETS - 1)) - 1 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_its_bucket() {
        for ns in (0..4096).chain([1 << 20, (1 << 20) + 1, 123_456_789, (1 << 40) - 1]) {
            let found = bucket(ns);
            let first = if found == 0 { 0 } else { end(found - 1) };
            assert!((first..end(found)).contains(&ns), "{ns} in {first}..{}", end(found));
            assert!(end(found) - first <= (ns / SUB).max(1));
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_counts_and_differences() {
        let mut times = Latencies::default();
        (1..=100).for_each(|us| times.record(us * 1000));
        let before = times.clone();
        (0..900).for_each(|_| times.record(1 << 20));
        let near = |ns: u64, us: u64| ns >= us * 1000 && ns <= us * 1000 * 17 / 16;
        assert!(near(before.quantiles([0.5])[0], 50) && near(before.quantiles([0.99])[0], 99));
        let since = times.since(&before);
        assert_eq!((since.count(), since.sum_ns), (900, 900 << 20));
        assert_eq!((times.below(20), times.below(21), times.count()), (100, 1000, 1000));
        assert_eq!(Latencies::default().quantiles([0.5]), [0]);
    }
}
