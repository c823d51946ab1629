//! Pages that the host has discarded while they were held. The policy and admission still count
//! them until their group is picked; then they leave without being written.

use crate::nvs::directory::Directory;
use crate::nvs::masks::{GroupMasks, for_each_group};
use crate::request::PageRange;
use crate::units::GroupId;
use crate::writecache::WriteCache;

/// The discarded pages of held groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Discards(GroupMasks);

impl Discards {
    /// Marks what is held of a range as discarded.
    pub(super) fn discard(&mut self, range: PageRange, directory: &Directory) {
        let per_group = directory.pages_per_group();
        for_each_group(range, per_group, |group, bits| {
            let Some(slot) = directory.find(group) else { return };
            for bit in bits.filter(|bit| directory.holds(slot, *bit)) {
                self.0.insert(group, bit, per_group);
            }
        });
    }

    /// The pages of a range are written: they are no longer discarded.
    pub(super) fn written(&mut self, range: PageRange, pages_per_group: u64) {
        self.0.remove(range, pages_per_group);
    }

    /// Removes the discarded pages from the mask of a group that was picked, and frees them.
    /// Returns how many.
    pub(super) fn take_out(
        &mut self,
        group: GroupId,
        mask: &mut [u64],
        cache: &mut WriteCache,
    ) -> u64 {
        let Some(discarded) = self.0.take(group) else { return 0 };
        mask.iter_mut().zip(&discarded).for_each(|(word, gone)| *word &= !gone);
        cache.directory.release(group, &discarded)
    }
}
