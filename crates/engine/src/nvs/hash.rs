//! A hash index from group to slot, as small as it can be: 4 bytes per entry.
//!
//! Open addressing with linear probing and backward-shift deletion. The keys are not stored:
//! the caller knows the group of a slot. Growth is by half, up to what the NVS can ever need,
//! so that a full index of a full NVS costs 5 bytes per group.

use alloc::vec;
use alloc::vec::Vec;

/// No slot.
pub const EMPTY: u32 = u32::MAX;

/// Group number to slot number.
#[derive(Clone)]
pub struct HashIndex {
    table: Vec<u32>,
    used: usize,
    most: usize,
}

impl Default for HashIndex {
    fn default() -> HashIndex {
        HashIndex::new(0)
    }
}

impl HashIndex {
    /// An index that will never hold more than `capacity` groups.
    pub fn new(capacity: u64) -> HashIndex {
        let most = (capacity + capacity / 4 + 16) as usize;
        HashIndex { table: vec![EMPTY; most.min(1024)], used: 0, most }
    }

    /// Stores a slot for a key that is not in the index, whose size is not known in advance.
    pub fn insert_growing(&mut self, key: u64, slot: u32, key_of: impl Fn(u32) -> u64) {
        if self.used * 5 >= self.most * 4 {
            self.most *= 2;
        }
        self.insert(key, slot, key_of);
    }

    /// Stores another slot for a key, in place of `old`. The old slot must still have that key.
    pub fn replace(&mut self, key: u64, slot: u32, old: u32) {
        let mut at = self.home(key);
        while self.table[at] != old {
            assert!(self.table[at] != EMPTY, "the key is in the index");
            at = self.next(at);
        }
        self.table[at] = slot;
    }

    fn home(&self, key: u64) -> usize {
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((hash * self.table.len() as u64) >> 32) as usize
    }

    fn next(&self, at: usize) -> usize {
        if at + 1 == self.table.len() { 0 } else { at + 1 }
    }

    /// Steps forward from one place to another.
    fn steps(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.table.len() - from }
    }

    fn locate(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<usize> {
        let mut at = self.home(key);
        loop {
            match self.table[at] {
                EMPTY => return None,
                slot if key_of(slot) == key => return Some(at),
                _ => at = self.next(at),
            }
        }
    }

    /// The slot stored for `key`.
    pub fn find(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        self.locate(key, key_of).map(|at| self.table[at])
    }

    /// Stores a slot for a key that is not in the index.
    pub fn insert(&mut self, key: u64, slot: u32, key_of: impl Fn(u32) -> u64) {
        self.used += 1;
        if self.used * 5 > self.table.len() * 4 && self.table.len() < self.most {
            self.grow(key_of);
        }
        assert!(self.used < self.table.len(), "more groups than the NVS has pages");
        self.place(key, slot);
    }

    fn place(&mut self, key: u64, slot: u32) {
        let mut at = self.home(key);
        while self.table[at] != EMPTY {
            at = self.next(at);
        }
        self.table[at] = slot;
    }

    fn grow(&mut self, key_of: impl Fn(u32) -> u64) {
        let size = (self.table.len() + self.table.len() / 2).min(self.most);
        let old = core::mem::replace(&mut self.table, vec![EMPTY; size]);
        for slot in old.into_iter().filter(|s| *s != EMPTY) {
            self.place(key_of(slot), slot);
        }
    }

    /// Takes a key out.
    ///
    /// # Panics
    /// If it is not in the index.
    pub fn remove(&mut self, key: u64, key_of: impl Fn(u32) -> u64) {
        let mut hole = self.locate(key, &key_of).expect("the group is held");
        self.used -= 1;
        let mut at = self.next(hole);
        while self.table[at] != EMPTY {
            let home = self.home(key_of(self.table[at]));
            // The entry may move back to the hole unless its home is after it.
            if self.steps(home, at) >= self.steps(hole, at) {
                self.table[hole] = self.table[at];
                hole = at;
            }
            at = self.next(at);
        }
        self.table[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_map_under_random_operations() {
        let mut index = HashIndex::new(5000);
        let mut keys: Vec<u64> = Vec::new();
        let mut free: Vec<u32> = Vec::new();
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut state = 1u64;
        for _ in 0..60_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (state >> 33) % 6000;
            if let Some(slot) = model.remove(&key) {
                index.remove(key, |s| keys[s as usize]);
                free.push(slot);
            } else if model.len() < 5000 {
                let slot = free.pop().unwrap_or(keys.len() as u32);
                keys.resize(keys.len().max(slot as usize + 1), 0);
                keys[slot as usize] = key;
                index.insert(key, slot, |s| keys[s as usize]);
                model.insert(key, slot);
            }
            assert_eq!(index.find(key, |s| keys[s as usize]), model.get(&key).copied());
        }
        for key in 0..6000 {
            assert_eq!(index.find(key, |s| keys[s as usize]), model.get(&key).copied());
        }
    }
}
