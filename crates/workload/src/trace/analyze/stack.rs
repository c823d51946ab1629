//! Exact LRU stack distances (Mattson 1970) in O(log n) per access. Every page keeps the place of
//! its last access; a bit is set for each such place, and a counting tree over blocks of bits says
//! how many are later. Memory grows with the pages: places are given out again when they run out.

/// Bits counted by one node of the tree.
const BLOCK: u64 = 512;
const WORDS: usize = (BLOCK / 64) as usize;
/// Places at least.
const PLACES_MIN: u64 = 1 << 16;
/// Places for each page, so that pages are renumbered seldom.
const PLACES_PER_PAGE: u64 = 4;
/// Pages at most: places are numbers of 32 bits.
pub(super) const PAGES_MAX: u64 = 1 << 31;

/// The order in which pages were accessed last.
#[derive(Default)]
pub(super) struct Stack {
    /// Place `p` is bit `p % 64` of word `p / 64`; set if it is a page's last access.
    bits: Vec<u64>,
    /// Fenwick tree over blocks: node `i`, from 1, counts the blocks `i - (i & -i)` to `i - 1`.
    tree: Vec<u32>,
    /// The first place that was never given out.
    next: u64,
    /// Bits that are set.
    pages: u64,
}

impl Stack {
    /// Pages that were accessed.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Accesses that can be made before [`Stack::renumber`].
    pub(super) fn room(&self) -> u64 {
        self.bits.len() as u64 * 64 - self.next
    }

    /// An access of a page whose last one was at `last`, if there was one. Returns its reuse
    /// distance, none for a first touch, and its place.
    pub(super) fn access(&mut self, last: Option<u32>) -> (Option<u64>, u32) {
        let place = self.next;
        self.next += 1;
        let distance = last.map(|last| {
            // The page itself is the first of those up to its place.
            let distance = self.pages - self.before(u64::from(last)) - 1;
            self.flip(u64::from(last), u32::MAX);
            distance
        });
        self.pages += u64::from(distance.is_none());
        self.flip(place, 1);
        (distance, place as u32)
    }

    /// Pages whose last access was before `place`.
    fn before(&self, place: u64) -> u64 {
        let mut count = 0;
        let mut node = (place / BLOCK) as usize;
        while node > 0 {
            count += u64::from(self.tree[node]);
            node &= node - 1;
        }
        let word = (place / 64) as usize;
        for bits in &self.bits[word - word % WORDS..word] {
            count += u64::from(bits.count_ones());
        }
        count + u64::from((self.bits[word] & ((1 << (place % 64)) - 1)).count_ones())
    }

    /// Flips the bit of a place; `change` is what that adds to the counts, modulo 2^32.
    fn flip(&mut self, place: u64, change: u32) {
        self.bits[(place / 64) as usize] ^= 1 << (place % 64);
        let mut node = (place / BLOCK) as usize + 1;
        while node < self.tree.len() {
            self.tree[node] = self.tree[node].wrapping_add(change);
            node += node & node.wrapping_neg();
        }
    }

    /// Makes room for this many accesses, and for more. `places` gets a function that returns the
    /// new place of each old one; it must be applied to every page.
    pub(super) fn renumber(&mut self, accesses: u64, places: impl FnOnce(&dyn Fn(u32) -> u32)) {
        places(&|place| self.before(u64::from(place)) as u32);
        let wanted = (self.pages * PLACES_PER_PAGE).clamp(PLACES_MIN, 1 << 32);
        let blocks = wanted.max(self.pages + accesses).div_ceil(BLOCK) as usize;
        self.bits.clear();
        self.bits.resize(blocks * WORDS, 0);
        self.tree.clear();
        self.tree.resize(blocks + 1, 0);
        for place in 0..self.pages {
            self.bits[(place / 64) as usize] |= 1 << (place % 64);
        }
        for node in 1..=blocks {
            let low = node & node.wrapping_neg();
            let (first, end) = ((node - low) as u64 * BLOCK, node as u64 * BLOCK);
            self.tree[node] = (self.pages.min(end) - self.pages.min(first)) as u32;
        }
        self.next = self.pages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashMap};

    /// Distances by counting distinct pages between two accesses.
    fn naive(accesses: &[u64]) -> Vec<Option<u64>> {
        let mut found = Vec::new();
        for (at, page) in accesses.iter().enumerate() {
            let last = accesses[..at].iter().rposition(|other| other == page);
            found.push(
                last.map(|last| {
                    accesses[last + 1..at].iter().collect::<BTreeSet<_>>().len() as u64
                }),
            );
        }
        found
    }

    fn stacked(accesses: &[u64]) -> Vec<Option<u64>> {
        let mut stack = Stack::default();
        let mut places: HashMap<u64, u32> = HashMap::new();
        let mut found = Vec::new();
        for page in accesses {
            if stack.room() == 0 {
                // No room beyond what is needed, so that places are given out again often.
                let pages = stack.pages();
                stack.renumber(1, |new| places.values_mut().for_each(|p| *p = new(*p)));
                assert_eq!(stack.pages(), pages);
                stack.next = (stack.bits.len() as u64 * 64 - 700).max(stack.next);
            }
            let (distance, place) = stack.access(places.get(page).copied());
            places.insert(*page, place);
            found.push(distance);
        }
        found
    }

    #[test]
    fn distances_are_those_of_the_definition() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for pages in [1, 2, 3, 40, 600, 3000] {
            let accesses: Vec<u64> = (0..4000).map(|_| random(pages).min(random(pages))).collect();
            assert_eq!(stacked(&accesses), naive(&accesses), "{pages} pages");
        }
    }
}
