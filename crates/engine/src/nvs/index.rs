//! Which slot a group is in: a plain table over all groups of the volume where that is small
//! compared with the NVS, else a hash index of 5 bytes per group held.

use super::hash::{EMPTY, HashIndex};
use alloc::vec;
use alloc::vec::Vec;

/// A plain table may take this much, or [`TABLE_BYTES_PER_PAGE`] a page of NVS if that is more.
const TABLE_BYTES_MIN: u64 = 1 << 20;
const TABLE_BYTES_PER_PAGE: u64 = 5;

/// Group number to slot number.
pub enum SlotIndex {
    /// By group number.
    Table(Vec<u32>),
    /// By hash.
    Hash(HashIndex),
}

impl SlotIndex {
    /// An index of groups `0..groups` that will never hold more than `capacity` of them.
    pub fn new(capacity: u64, groups: u64) -> SlotIndex {
        let most = (capacity * TABLE_BYTES_PER_PAGE).max(TABLE_BYTES_MIN);
        if groups.saturating_mul(4) <= most {
            SlotIndex::Table(vec![EMPTY; groups as usize])
        } else {
            SlotIndex::Hash(HashIndex::new(capacity))
        }
    }

    /// The slot stored for `key`; `key_of` gives the group of a slot.
    pub fn find(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        match self {
            SlotIndex::Table(table) => {
                let slot = table[key as usize];
                if slot == EMPTY { None } else { Some(slot) }
            }
            SlotIndex::Hash(hash) => hash.find(key, key_of),
        }
    }

    /// Stores a slot for a key that is not in the index.
    pub fn insert(&mut self, key: u64, slot: u32, key_of: impl Fn(u32) -> u64) {
        match self {
            SlotIndex::Table(table) => table[key as usize] = slot,
            SlotIndex::Hash(hash) => hash.insert(key, slot, key_of),
        }
    }

    /// Takes a key out.
    ///
    /// # Panics
    /// If it is not in the index.
    pub fn remove(&mut self, key: u64, key_of: impl Fn(u32) -> u64) {
        match self {
            SlotIndex::Table(table) => table[key as usize] = EMPTY,
            SlotIndex::Hash(hash) => hash.remove(key, key_of),
        }
    }
}
