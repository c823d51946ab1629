//! Pages that the host has discarded while they were held. The policy and admission still count
//! them until their group is picked; then they leave without being written.

use crate::nvs::directory::Directory;
use crate::request::PageRange;
use crate::units::GroupId;
use crate::writecache::WriteCache;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// The discarded pages of held groups, bit i = page i of the group.
#[derive(Clone, Debug, Default)]
pub(super) struct Discards(BTreeMap<u64, Vec<u64>>);

impl Discards {
    /// Marks what is held of a range as discarded.
    pub(super) fn discard(&mut self, range: PageRange, directory: &Directory) {
        let words = directory.pages_per_group().div_ceil(64) as usize;
        for_each_group(range, directory.pages_per_group(), |group, bits| {
            let Some(slot) = directory.find(group) else { return };
            for bit in bits.filter(|bit| directory.holds(slot, *bit)) {
                let mask = self.0.entry(group.0).or_insert_with(|| vec![0; words]);
                mask[(bit / 64) as usize] |= 1 << (bit % 64);
            }
        });
    }

    /// The pages of a range are written: they are no longer discarded.
    pub(super) fn written(&mut self, range: PageRange, pages_per_group: u64) {
        if self.0.is_empty() {
            return;
        }
        for_each_group(range, pages_per_group, |group, bits| {
            let Some(mask) = self.0.get_mut(&group.0) else { return };
            bits.for_each(|bit| mask[(bit / 64) as usize] &= !(1 << (bit % 64)));
            if mask.iter().all(|word| *word == 0) {
                self.0.remove(&group.0);
            }
        });
    }

    /// Removes the discarded pages from the mask of a group that was picked, and frees them.
    /// Returns how many.
    pub(super) fn take_out(
        &mut self,
        group: GroupId,
        mask: &mut [u64],
        cache: &mut WriteCache,
    ) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let Some(discarded) = self.0.remove(&group.0) else { return 0 };
        mask.iter_mut().zip(&discarded).for_each(|(word, gone)| *word &= !gone);
        cache.directory.release(group, &discarded)
    }
}

fn for_each_group(
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
