//! Sets of places on a volume, kept as spans.

use std::collections::BTreeMap;

/// Spans are merged for the first time when there are this many.
const MERGE_MIN: usize = 1 << 16;

/// Places that are collected in any order, as spans from a first place to an end. The memory is in
/// proportion to the separate spans, not to what was added.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans {
    spans: Vec<(u64, u64)>,
    /// This many are merged next.
    merge_at: usize,
}

impl Spans {
    pub(super) fn add(&mut self, first: u64, end: u64) {
        match self.spans.last_mut() {
            Some(last) if last.0 <= first && first <= last.1 => last.1 = last.1.max(end),
            _ => self.spans.push((first, end)),
        }
        if self.spans.len() >= self.merge_at.max(MERGE_MIN) {
            self.merge();
            self.merge_at = 2 * self.spans.len();
        }
    }

    fn merge(&mut self) {
        self.spans.sort_unstable();
        self.spans.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
    }

    pub(super) fn taken(mut self) -> Taken {
        self.merge();
        Taken(self.spans.into_iter().collect())
    }
}

/// Places that are in use: the end of each span by its first place. Spans do not touch each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken(BTreeMap<u64, u64>);

impl Taken {
    /// Takes the first free place from `from` on, of `places` in a ring.
    pub(super) fn take_next(&mut self, from: u64, places: u64) -> Option<u64> {
        let free = [from, 0].map(|from| self.free_from(from));
        let place = free.into_iter().find(|place| *place < places)?;
        self.take(place);
        Some(place)
    }

    fn free_from(&self, from: u64) -> u64 {
        match self.0.range(..=from).next_back() {
            Some((_, end)) if *end > from => *end,
            _ => from,
        }
    }

    /// Takes a free place.
    fn take(&mut self, place: u64) {
        let before = self.0.range(..place).next_back();
        let first = before.filter(|(_, end)| **end == place).map_or(place, |(first, _)| *first);
        let end = self.0.remove(&(place + 1)).unwrap_or(place + 1);
        self.0.insert(first, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_touch_are_one() {
        let mut spans = Spans::default();
        for (first, end) in [(8, 10), (2, 4), (4, 5), (9, 12), (20, 21), (0, 1)] {
            spans.add(first, end);
        }
        let taken = spans.taken();
        assert_eq!(taken.0, BTreeMap::from([(0, 1), (2, 5), (8, 12), (20, 21)]));
    }

    #[test]
    fn many_spans_are_merged_as_they_come() {
        let mut spans = Spans::default();
        for _ in 0..3 {
            for at in 0..MERGE_MIN as u64 {
                let first = at * 48_271 % MERGE_MIN as u64;
                spans.add(first, first + 1);
            }
        }
        assert!(spans.spans.len() < 2 * MERGE_MIN, "{}", spans.spans.len());
        assert_eq!(spans.taken().0, BTreeMap::from([(0, MERGE_MIN as u64)]));
    }

    #[test]
    fn each_free_place_is_taken_once_and_the_ring_has_an_end() {
        let mut spans = Spans::default();
        spans.add(0, 2);
        spans.add(5, 7);
        let mut taken = spans.taken();
        let mut next = |from| taken.take_next(from, 10);
        assert_eq!([next(5), next(5), next(8)], [Some(7), Some(8), Some(9)]);
        assert_eq!([next(6), next(3), next(0)], [Some(2), Some(3), Some(4)]);
        assert_eq!(next(4), None);
        assert_eq!(taken.0, BTreeMap::from([(0, 10)]));
    }
}
