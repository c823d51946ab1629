//! The table of expected next pages, built for one-page random writes: two look-ups per write and
//! no data-dependent branches.
//!
//! The entries are a ring in the order in which they were stored, with a bitmap of those struck
//! out since; it is packed when its end meets its start. The place of a page in the ring is found
//! by a tag of 15 bits in a bucket of four lanes; or in a tree, the annexe, if the bucket is full.
//! Writing the entries one after the other, and nothing at random but a bucket of 16 bytes, is
//! what this layout gains over entries in a hash table.
//!
//! Every 64 writes the excess entries are forgotten. Until then the oldest are still in the table
//! although they are overdue. That changes no answer: when [`PageStreams::remove`] meets a match,
//! it forgets overdue entries first.

use super::{Classified, MOST_STREAMS};
use crate::hash;
use crate::request::PageRange;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

const BUCKETS: usize = 8192;
const RING: usize = 4 * MOST_STREAMS;
/// No place of the ring.
const NOWHERE: u16 = RING as u16;
/// Lanes of a bucket, and bits of a lane.
const WAYS: usize = 4;
const LANE: u32 = 16;
const LANE_MASK: u64 = 0xFFFF;
const LOW: u64 = 0x0001_0001_0001_0001;
const HIGH: u64 = 0x8000_8000_8000_8000;

/// Where the pages of one hash value are in the ring.
#[derive(Clone, Copy)]
struct Bucket {
    /// A tag a lane, or 0 if the lane is free.
    tags: u64,
    /// The place a lane, or [`NOWHERE`] if the lane is free.
    places: [u16; WAYS],
}

/// All of fixed size, in one block of memory: one address in a register reaches all of it, and
/// no access needs a check of bounds.
struct Tables {
    buckets: [Bucket; BUCKETS],
    /// By place.
    pages: [u64; RING],
    counts: [u32; RING],
    /// Bit by place, true of places struck out.
    struck: [u64; RING / 64],
    /// The first of these places are yet to be struck out.
    replaced: [u16; 64],
    /// Pages in the annexe, by the bucket they belong to.
    crowded: [u16; BUCKETS],
}

/// At most [`MOST_STREAMS`] expected next pages with the length of the stream so far; the oldest
/// goes first.
pub struct PageStreams {
    tables: Box<Tables>,
    threshold: u32,
    /// Entries, including overdue ones.
    live: usize,
    /// How many of `Tables::replaced` count.
    replaced: usize,
    /// Places before this one, counted from the first ever used, are unused.
    oldest: u64,
    next: u64,
    /// The places of pages whose bucket was full.
    annexe: BTreeMap<u64, u16>,
}

/// Bucket of a page, and its tag in all lanes.
#[inline]
fn home(page: u64) -> (usize, u64) {
    let hash = hash::of(page);
    ((hash >> 51) as usize % BUCKETS, ((hash >> 36) & LANE_MASK | 1) * LOW)
}

/// The top bit of each lane that is 0; above the lowest such lane also of some that are 1.
#[inline]
fn zero_lanes(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

/// Of the lanes that [`zero_lanes`] found, the lowest.
#[inline]
fn way(bits: u64) -> usize {
    (bits.trailing_zeros() / LANE) as usize % WAYS
}

fn place(number: u64) -> usize {
    number as usize % RING
}

impl PageStreams {
    pub(super) fn new(threshold: u32) -> PageStreams {
        let tables = Tables {
            buckets: [Bucket { tags: 0, places: [NOWHERE; WAYS] }; BUCKETS],
            pages: [0; RING],
            counts: [0; RING],
            struck: [0; RING / 64],
            replaced: [0; 64],
            crowded: [0; BUCKETS],
        };
        PageStreams {
            tables: Box::new(tables),
            threshold,
            live: 0,
            replaced: 0,
            oldest: 0,
            next: 0,
            annexe: BTreeMap::new(),
        }
    }

    #[inline]
    pub(super) fn classify(&mut self, range: PageRange) -> Classified {
        let count = self.remove(range.first.0);
        self.store(range.end().0, count.saturating_add(range.pages));
        let random = self.threshold.saturating_sub(count).min(range.pages);
        Classified { random, sequential: random < range.pages }
    }

    /// Takes the entry of a page out; its count, or 0.
    #[inline]
    fn remove(&mut self, page: u64) -> u32 {
        let (bucket, tag) = home(page);
        let matches = zero_lanes(self.tables.buckets[bucket].tags ^ tag);
        if (matches == 0) & (self.tables.crowded[bucket] == 0) {
            return 0; // most often
        }
        self.remove_match(page)
    }

    /// [`PageStreams::remove`] where the page may well have an entry.
    #[cold]
    #[inline(never)]
    fn remove_match(&mut self, page: u64) -> u32 {
        if self.find(page).is_some() {
            self.forget_overdue(); // it may be one of them
        }
        let Some(place) = self.find(page) else { return 0 };
        self.strike(place);
        self.live -= 1;
        self.vacate(place);
        self.tables.counts[place]
    }

    /// The place of a page, looked for thoroughly.
    fn find(&self, page: u64) -> Option<usize> {
        let (bucket, tag) = home(page);
        let Bucket { tags, places } = self.tables.buckets[bucket];
        let holds = |way: &usize| {
            (tags ^ tag) >> (*way as u32 * LANE) & LANE_MASK == 0
                && self.tables.pages[usize::from(places[*way]) % RING] == page
        };
        match (0..WAYS).find(holds) {
            Some(way) => Some(usize::from(places[way])),
            None => self.annexe.get(&page).map(|place| usize::from(*place)),
        }
    }

    fn strike(&mut self, place: usize) {
        self.tables.struck[place / 64] |= 1 << (place % 64);
    }

    /// The bucket and the way that say where this place's page is; none if it is in the annexe.
    #[inline]
    fn way_of(&self, place: usize) -> (usize, Option<usize>) {
        let (bucket, _) = home(self.tables.pages[place]);
        // Joined to one word and searched at once: which way it is cannot be predicted.
        let lanes = self.tables.buckets[bucket].places.map(u64::from);
        let lanes = lanes[0] | lanes[1] << LANE | lanes[2] << (2 * LANE) | lanes[3] << (3 * LANE);
        let same = zero_lanes(lanes ^ (place as u64 * LOW));
        (bucket, (same != 0).then(|| way(same)))
    }

    /// The page of this place has a place no more.
    #[inline]
    fn vacate(&mut self, place: usize) {
        let (bucket, Some(way)) = self.way_of(place) else { return self.leave_annexe(place) };
        let bucket = &mut self.tables.buckets[bucket];
        bucket.tags &= !(LANE_MASK << (way as u32 * LANE));
        bucket.places[way] = NOWHERE;
    }

    #[cold]
    fn leave_annexe(&mut self, place: usize) {
        let page = self.tables.pages[place];
        self.annexe.remove(&page);
        self.tables.crowded[home(page).0] -= 1;
    }

    #[inline]
    fn store(&mut self, page: u64, count: u32) {
        let tables = &mut *self.tables;
        let place = place(self.next);
        let (bucket, tag) = home(page);
        let crowded = tables.crowded[bucket] > 0;
        let bucket = &mut tables.buckets[bucket];
        let matches = zero_lanes(bucket.tags ^ tag);
        let found = matches != 0;
        let lanes = if found { matches } else { zero_lanes(bucket.tags) };
        let way = way(lanes);
        let old = bucket.places[way];
        if crowded | (lanes == 0) | (found & (tables.pages[usize::from(old) % RING] != page)) {
            return self.store_where_crowded(page, count);
        }
        bucket.tags |= (tag & LANE_MASK) << (way as u32 * LANE);
        bucket.places[way] = place as u16;
        tables.replaced[self.replaced % 64] = old;
        self.replaced += usize::from(found);
        tables.pages[place] = page;
        tables.counts[place] = count;
        self.live += usize::from(!found);
        self.next += 1;
        if self.next.is_multiple_of(64) {
            self.maintain_ring();
        }
    }

    /// [`PageStreams::store`] where the page's bucket is full or was, or another page of the
    /// bucket has its tag.
    #[cold]
    #[inline(never)]
    fn store_where_crowded(&mut self, page: u64, count: u32) {
        if let Some(old) = self.find(page) {
            self.strike(old);
            self.vacate(old);
            self.live -= 1;
        }
        let place = place(self.next);
        self.tables.pages[place] = page;
        self.tables.counts[place] = count;
        let (bucket, tag) = home(page);
        let home = &mut self.tables.buckets[bucket];
        match zero_lanes(home.tags) {
            0 => {
                self.annexe.insert(page, place as u16);
                self.tables.crowded[bucket] += 1;
            }
            free => {
                let way = way(free);
                home.tags |= (tag & LANE_MASK) << (way as u32 * LANE);
                home.places[way] = place as u16;
            }
        }
        self.live += 1;
        self.next += 1;
        if self.next.is_multiple_of(64) {
            self.maintain_ring();
        }
    }

    /// Makes the next 64 places of the ring ready.
    #[inline(never)]
    fn maintain_ring(&mut self) {
        self.forget_overdue();
        if self.next + 64 > self.oldest + RING as u64 {
            self.pack();
        }
        self.tables.struck[place(self.next) / 64] = 0;
    }

    /// Strikes out what [`PageStreams::store`] replaced.
    fn strike_replaced(&mut self) {
        let Tables { struck, replaced, .. } = &mut *self.tables;
        for place in &replaced[..self.replaced] {
            struck[usize::from(*place / 64) % (RING / 64)] |= 1 << (*place % 64);
        }
        self.replaced = 0;
    }

    /// Forgets the oldest entries, until there are no more than may be.
    fn forget_overdue(&mut self) {
        self.strike_replaced();
        while self.live > MOST_STREAMS {
            let first = self.oldest & !63;
            let passed = (1 << (self.oldest % 64)) - 1;
            let mut standing = !self.tables.struck[place(first) / 64] & !passed;
            let forgotten = (standing.count_ones() as usize).min(self.live - MOST_STREAMS);
            for _ in 0..forgotten {
                self.oldest = first + u64::from(standing.trailing_zeros()) + 1;
                self.vacate(place(self.oldest - 1));
                standing &= standing - 1;
            }
            self.live -= forgotten;
            if standing == 0 {
                self.oldest = first + 64;
            }
        }
    }

    /// Packs the ring: entries keep their order and lose the gaps between them.
    #[cold]
    fn pack(&mut self) {
        let mut packed = 0;
        for number in self.oldest..self.next {
            let from = place(number);
            if self.tables.struck[from / 64] >> (from % 64) & 1 == 0 {
                self.move_entry(from, place(self.oldest + packed));
                packed += 1;
            }
        }
        self.next = self.oldest + packed;
        self.tables.struck.fill(0);
    }

    fn move_entry(&mut self, from: usize, to: usize) {
        let page = self.tables.pages[from];
        match self.way_of(from) {
            (bucket, Some(way)) => self.tables.buckets[bucket].places[way] = to as u16,
            (_, None) => {
                self.annexe.insert(page, to as u16);
            }
        }
        self.tables.pages[to] = page;
        self.tables.counts[to] = self.tables.counts[from];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Page;
    use alloc::vec::Vec;

    /// The definition, word for word: expected page to (when stored, count).
    #[derive(Default)]
    struct Naive {
        table: BTreeMap<u64, (u64, u32)>,
        clock: u64,
    }

    impl Naive {
        fn random(&mut self, first: u64, pages: u32, threshold: u32) -> u32 {
            let count = self.table.remove(&first).map_or(0, |entry| entry.1);
            self.clock += 1;
            self.table.insert(first + u64::from(pages), (self.clock, count + pages));
            if self.table.len() > MOST_STREAMS {
                let oldest = *self.table.iter().min_by_key(|(_, entry)| entry.0).expect("some").0;
                self.table.remove(&oldest);
            }
            threshold.saturating_sub(count).min(pages)
        }
    }

    fn agrees(seed: u64, mut draw: impl FnMut(u64, u64) -> (u64, u32)) {
        let mut streams = PageStreams::new(16);
        let mut naive = Naive::default();
        let mut state = seed;
        for step in 0..40_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (first, pages) = draw(step, state >> 33);
            let random = streams.classify(PageRange::new(Page(first), pages)).random;
            assert_eq!(random, naive.random(first, pages, 16), "step {step}");
            assert_eq!(streams.live.min(MOST_STREAMS), naive.table.len(), "step {step}");
        }
    }

    #[test]
    fn agrees_with_the_definition() {
        // Spread wide: the table is full, the oldest goes.
        agrees(1, |_, random| (random % 100_000, 1 + (random >> 20) as u32 % 3));
        // Met again and again: entries are refreshed, the ring is packed.
        agrees(2, |_, random| (random % 3000, 1));
        // Streams among noise.
        agrees(3, |step, random| match step % 4 {
            0 => (random % 1_000_000, 1),
            stream => ((stream << 40) | (step / 4 * 8), 8),
        });
    }

    #[test]
    fn agrees_with_the_definition_where_all_pages_share_few_buckets() {
        let mut crowd: Vec<u64> = (0..30_000_000).filter(|p| home(*p + 1).0 < 12).collect();
        crowd.truncate(9000);
        assert_eq!(crowd.len(), 9000);
        agrees(4, |_, random| (crowd[random as usize % crowd.len()], 1));
        // Met again and again: the ring is packed, with most pages in the annexe.
        agrees(5, |_, random| (crowd[random as usize % 1500], 1));
    }
}
