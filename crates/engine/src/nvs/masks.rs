//! A set of pages, kept as a mask for each write group that has some.

use crate::request::PageRange;
use crate::units::GroupId;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// Pages by group, bit i = page i of the group.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupMasks(BTreeMap<u64, Vec<u64>>);

impl GroupMasks {
    /// Puts a page in; groups have `per_group` pages.
    pub(crate) fn insert(&mut self, group: GroupId, bit: u64, per_group: u64) {
        let words = per_group.div_ceil(64) as usize;
        let mask = self.0.entry(group.0).or_insert_with(|| vec![0; words]);
        mask[(bit / 64) as usize] |= 1 << (bit % 64);
    }

    /// Takes the pages of a range out.
    pub(crate) fn remove(&mut self, range: PageRange, per_group: u64) {
        if self.0.is_empty() {
            return;
        }
        for_each_group(range, per_group, |group, bits| {
            let Some(mask) = self.0.get_mut(&group.0) else { return };
            bits.for_each(|bit| mask[(bit / 64) as usize] &= !(1 << (bit % 64)));
            if mask.iter().all(|word| *word == 0) {
                self.0.remove(&group.0);
            }
        });
    }

    /// Takes a group's pages out.
    pub(crate) fn take(&mut self, group: GroupId) -> Option<Vec<u64>> {
        if self.0.is_empty() { None } else { self.0.remove(&group.0) }
    }

    /// Whether a page is in it.
    pub(crate) fn has(&self, group: GroupId, bit: u64) -> bool {
        let mask = if self.0.is_empty() { None } else { self.0.get(&group.0) };
        mask.is_some_and(|mask| mask[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
    }
}

/// Visits the groups of a range, with the numbers of its pages in each.
pub(crate) fn for_each_group(
    range: PageRange,
    per_group: u64,
    mut visit: impl FnMut(GroupId, core::ops::Range<u64>),
) {
    let (mut page, end) = (range.first.0, range.end().0);
    while page < end {
        let first = page % per_group;
        let length = (per_group - first).min(end - page);
        visit(GroupId(page / per_group), first..first + length);
        page += length;
    }
}
