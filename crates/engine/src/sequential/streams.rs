//! The table of expected next pages, built for one-page random writes: two look-ups a write and
//! no branch that chance decides.
//!
//! An entry has a cell: one of the eight of the bucket that its page falls to, found by a tag of
//! one byte; or a cell in the annexe, where a tree finds it, if the bucket is full. The order
//! is a ring of cells, oldest first, with a bitmap of the places that were struck out; it is
//! packed when its end meets its start.
//!
//! Entries too many are forgotten some hundred at a time. Until then the oldest stand although
//! they are gone; what stands decides nothing before [`PageStreams::remove`] meets a match, and
//! that forgets them first.

use super::MOST_STREAMS;
use crate::request::PageRange;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

const BUCKETS: usize = 2048;
const WAYS: usize = 8;
const ANNEXE: usize = BUCKETS * WAYS;
const RING: usize = 4 * MOST_STREAMS;
/// Entries too many that may stand.
const OVERDUE_MAX: usize = 256;
const FREE: u8 = 0;
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

#[derive(Clone, Copy, Default)]
struct Entry {
    page: u64,
    count: u32,
    /// Where in the ring it is.
    place: u32,
}

/// At most [`MOST_STREAMS`] expected next pages with the length of the stream so far; the oldest
/// goes first.
pub struct PageStreams {
    threshold: u32,
    tags: Box<[[u8; WAYS]; BUCKETS]>,
    /// By cell; those of the annexe come last.
    entries: Vec<Entry>,
    ring: Box<[u16; RING]>,
    /// Bit by place, true of places struck out.
    struck: Box<[u64; RING / 64]>,
    annexe: BTreeMap<u64, u16>,
    annexe_free: Vec<u16>,
    /// Pages in the annexe, by the bucket they belong to.
    crowded: Box<[u16; BUCKETS]>,
    /// Places before this one, counted from the first ever used, do not stand.
    oldest: u64,
    next: u64,
    live: usize,
}

fn boxed<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    vec![value; N].into_boxed_slice().try_into().ok().expect("N long")
}

/// Bucket and tag of a page.
fn home(page: u64) -> (usize, u8) {
    let hash = page.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((hash >> 53) as usize % BUCKETS, ((hash >> 40) as u8).max(1))
}

/// The top bit of each byte that is 0; above the lowest such byte also of some that are 1.
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

fn first_way(bits: u64) -> usize {
    (bits.trailing_zeros() / 8) as usize % WAYS
}

fn place(number: u64) -> usize {
    number as usize % RING
}

impl PageStreams {
    pub(super) fn new(threshold: u32) -> PageStreams {
        PageStreams {
            threshold,
            tags: boxed([FREE; WAYS]),
            entries: vec![Entry::default(); ANNEXE],
            ring: boxed(0),
            struck: boxed(0),
            annexe: BTreeMap::new(),
            annexe_free: Vec::new(),
            crowded: boxed(0),
            oldest: 0,
            next: 0,
            live: 0,
        }
    }

    pub(super) fn classify(&mut self, range: PageRange) -> super::Classified {
        let count = self.remove(range.first.0);
        self.store(range.end().0, count.saturating_add(range.pages));
        let random = self.threshold.saturating_sub(count).min(range.pages);
        super::Classified { random, sequential: random < range.pages }
    }

    /// The ways of a bucket that have the tag, as [`zero_bytes`] gives them.
    fn tagged(&self, bucket: usize, tag: u8) -> u64 {
        zero_bytes(u64::from_le_bytes(self.tags[bucket]) ^ (u64::from(tag) * LOW))
    }

    /// Whether the page has a cell in its bucket, and which; if not, some cell of the bucket.
    fn find(&self, bucket: usize, tag: u8, page: u64) -> (bool, usize) {
        let bits = self.tagged(bucket, tag);
        if bits & bits.wrapping_sub(1) != 0 {
            return self.find_among(bucket, tag, page);
        }
        let cell = bucket * WAYS + first_way(bits);
        ((bits != 0) & (self.entries[cell].page == page), cell)
    }

    /// [`PageStreams::find`] where several ways seem to have the tag.
    #[cold]
    fn find_among(&self, bucket: usize, tag: u8, page: u64) -> (bool, usize) {
        let cells = bucket * WAYS..(bucket + 1) * WAYS;
        let holds = |cell: &usize| {
            self.tags[bucket][cell % WAYS] == tag && self.entries[*cell].page == page
        };
        cells.clone().find(holds).map_or((false, cells.start), |cell| (true, cell))
    }

    /// Takes the entry of a page out; its count, or 0.
    fn remove(&mut self, page: u64) -> u32 {
        let (bucket, tag) = home(page);
        if self.tagged(bucket, tag) == 0 && self.crowded[bucket] == 0 {
            return 0; // most often
        }
        self.remove_match(page)
    }

    /// [`PageStreams::remove`] where the page may well have an entry.
    #[inline(never)]
    fn remove_match(&mut self, page: u64) -> u32 {
        let (bucket, tag) = home(page);
        let (mut found, mut cell) = self.find(bucket, tag, page);
        if !found && self.crowded[bucket] > 0 {
            let other = self.annexe.get(&page);
            (found, cell) = (other.is_some(), other.map_or(cell, |cell| usize::from(*cell)));
        }
        if !found {
            return 0;
        }
        if self.live > MOST_STREAMS {
            self.forget_overdue();
            return self.remove(page); // it may have been one of them
        }
        let Entry { count, place, .. } = self.entries[cell];
        self.struck[place as usize / 64] |= 1 << (place % 64);
        self.live -= 1;
        self.vacate(cell);
        count
    }

    fn vacate(&mut self, cell: usize) {
        match self.tags.get_mut(cell / WAYS) {
            Some(tags) => tags[cell % WAYS] = FREE,
            None => self.leave_annexe(cell),
        }
    }

    #[cold]
    fn leave_annexe(&mut self, cell: usize) {
        let page = self.entries[cell].page;
        self.annexe.remove(&page);
        self.annexe_free.push(cell as u16);
        self.crowded[home(page).0] -= 1;
    }

    fn store(&mut self, page: u64, count: u32) {
        let place = place(self.next);
        self.next += 1;
        let (bucket, tag) = home(page);
        let (mut found, mut cell) = self.find(bucket, tag, page);
        let free = zero_bytes(u64::from_le_bytes(self.tags[bucket]));
        if ((free == 0) | (self.crowded[bucket] > 0)) && !found {
            (found, cell) = self.cell_where_crowded(page);
        } else {
            let open = bucket * WAYS + first_way(free);
            cell = open ^ (open ^ cell) & usize::from(found).wrapping_neg();
            self.tags[bucket][cell % WAYS] = tag;
        }
        let entry = &mut self.entries[cell];
        let old = entry.place as usize % RING;
        *entry = Entry { page, count, place: place as u32 };
        if place.is_multiple_of(64) {
            self.struck[place / 64] = 0;
        }
        self.struck[old / 64] |= u64::from(found) << (old % 64);
        self.ring[place] = cell as u16;
        self.live += usize::from(!found);
        if self.live == MOST_STREAMS + OVERDUE_MAX {
            self.forget_overdue();
        }
        if self.next - self.oldest == RING as u64 {
            self.pack();
        }
    }

    /// A cell for a page that is not in its bucket, where that is full or was; whether the page
    /// had it already.
    #[cold]
    fn cell_where_crowded(&mut self, page: u64) -> (bool, usize) {
        let (bucket, tag) = home(page);
        if let Some(cell) = self.annexe.get(&page) {
            return (true, usize::from(*cell));
        }
        if let Some(way) = self.tags[bucket].iter().position(|tag| *tag == FREE) {
            self.tags[bucket][way] = tag;
            return (false, bucket * WAYS + way);
        }
        let cell = self.annexe_free.pop().map_or(self.entries.len(), usize::from);
        if cell == self.entries.len() {
            self.entries.push(Entry::default());
        }
        self.annexe.insert(page, cell as u16);
        self.crowded[bucket] += 1;
        (false, cell)
    }

    /// Forgets the oldest entries, until there are no more than may be.
    #[inline(never)]
    fn forget_overdue(&mut self) {
        while self.live > MOST_STREAMS {
            let mut word = !self.struck[place(self.oldest) / 64] >> (self.oldest % 64);
            while word == 0 {
                self.oldest += 64 - self.oldest % 64;
                word = !self.struck[place(self.oldest) / 64];
            }
            self.oldest += u64::from(word.trailing_zeros());
            self.vacate(usize::from(self.ring[place(self.oldest)]));
            self.oldest += 1;
            self.live -= 1;
        }
    }

    /// Packs the ring: entries keep their order and lose the gaps between them.
    #[cold]
    fn pack(&mut self) {
        let mut packed = 0;
        for number in self.oldest..self.next {
            let from = place(number);
            if self.struck[from / 64] >> (from % 64) & 1 == 0 {
                let to = place(self.oldest + packed);
                self.ring[to] = self.ring[from];
                self.entries[usize::from(self.ring[to])].place = to as u32;
                packed += 1;
            }
        }
        self.next = self.oldest + packed;
        self.struck.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Page;

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
        // Streams beside noise.
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
    }
}
