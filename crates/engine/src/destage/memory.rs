//! The stripe memory: whose old data and parity a driver keeps after destages, so that the next
//! destage of a row reads less (docs/stripe-memory.md). It is a hint: what it says is on the disks.

use crate::array::disks::RowDisks;
use crate::array::geometry::Geometry;
use crate::array::safe::{RowAt, is_set};
use crate::event::Action;
use crate::readcache::store::{List, NONE, Store};
use alloc::vec::Vec;

/// How full the stripe memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeMemoryState {
    /// Pages that are kept.
    pub held: u64,
    /// Pages that there is room for.
    pub pages: u64,
}

/// Rows of which pages are known, the one destaged longest ago first to go.
pub(crate) struct StripeMemory {
    pages_max: u64,
    pages: u64,
    /// By the row's page on the disks; the stamp is its [`RowDisks`].
    rows: Store,
    order: List,
}

impl StripeMemory {
    /// Room for this many pages.
    pub(crate) fn new(pages_max: u64) -> StripeMemory {
        StripeMemory { pages_max, pages: 0, rows: Store::new(), order: List::EMPTY }
    }

    /// Whether there is one.
    pub(crate) fn is_on(&self) -> bool {
        self.pages_max > 0
    }

    /// Pages that are kept, and those that there is room for; `None` if there is no such memory.
    pub(crate) fn state(&self) -> Option<StripeMemoryState> {
        let StripeMemory { pages: held, pages_max: pages, .. } = *self;
        self.is_on().then_some(StripeMemoryState { held, pages })
    }

    /// The disks whose pages of a row are known.
    pub(crate) fn known(&self, row: u64) -> RowDisks {
        match self.rows.find(row) {
            NONE => RowDisks::default(),
            slot => RowDisks::of(self.rows.nodes[slot as usize].stamp),
        }
    }

    /// Forgets a row.
    pub(crate) fn forget(&mut self, row: u64, actions: &mut Vec<Action>) {
        let slot = self.rows.find(row);
        if slot != NONE {
            self.pages -= u64::from(self.rows.nodes[slot as usize].stamp.count_ones());
            self.order.unlink(&mut self.rows.nodes, slot);
            self.rows.free(slot);
            actions.push(Action::Forget { row });
        }
    }

    /// Forgets all rows.
    pub(crate) fn clear(&mut self, actions: &mut Vec<Action>) {
        if self.pages > 0 {
            *self = StripeMemory::new(self.pages_max);
            actions.push(Action::ForgetAll);
        }
    }

    /// The pages of a destage's rows are on the disks: data and parity.
    pub(crate) fn destaged(
        &mut self,
        index: u32,
        geometry: &Geometry,
        rows: impl Iterator<Item = RowAt>,
        mask: &[u64],
        actions: &mut Vec<Action>,
    ) {
        for at in rows {
            let mut disks = RowDisks::default();
            for strip in 0..geometry.data_strips() as u16 {
                if is_set(mask, geometry.bit_of(&at, strip)) {
                    disks.insert(geometry.data_disk(at.stripe, strip));
                }
            }
            geometry.parity_disks(at.stripe).for_each(|disk| disks.insert(disk));
            self.remember(index, at.page, disks, actions);
        }
    }

    fn remember(&mut self, index: u32, row: u64, disks: RowDisks, actions: &mut Vec<Action>) {
        let mut slot = self.rows.find(row);
        if slot == NONE {
            slot = self.rows.add(row);
        } else {
            self.order.unlink(&mut self.rows.nodes, slot);
        }
        let node = &mut self.rows.nodes[slot as usize];
        self.pages -= u64::from(node.stamp.count_ones());
        node.stamp |= disks.bits();
        self.pages += u64::from(node.stamp.count_ones());
        self.order.push(&mut self.rows.nodes, slot);
        actions.push(Action::Remember { index, row, disks });
        while self.pages > self.pages_max {
            let oldest = self.rows.nodes[self.order.oldest as usize].block;
            self.forget(oldest, actions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::DiskId;
    use alloc::vec;

    fn disks(all: &[u16]) -> RowDisks {
        let mut disks = RowDisks::default();
        all.iter().for_each(|disk| disks.insert(DiskId(*disk)));
        disks
    }

    #[test]
    fn without_room_for_pages_there_is_none() {
        assert_eq!((StripeMemory::new(0).is_on(), StripeMemory::new(0).state()), (false, None));
        let empty = StripeMemoryState { held: 0, pages: 1 };
        assert_eq!(
            (StripeMemory::new(1).is_on(), StripeMemory::new(1).state()),
            (true, Some(empty))
        );
    }

    #[test]
    fn what_was_destaged_longest_ago_goes_first_and_rows_add_up() {
        let mut memory = StripeMemory::new(5);
        let mut actions = Vec::new();
        memory.remember(0, 7, disks(&[0, 4]), &mut actions);
        memory.remember(0, 8, disks(&[0, 4]), &mut actions);
        memory.remember(1, 7, disks(&[1, 4]), &mut actions);
        assert_eq!(memory.known(7), disks(&[0, 1, 4]));
        assert_eq!(memory.state(), Some(StripeMemoryState { held: 5, pages: 5 }));
        actions.clear();
        memory.remember(2, 9, disks(&[63]), &mut actions);
        let remembers = Action::Remember { index: 2, row: 9, disks: disks(&[63]) };
        assert_eq!(actions, vec![remembers, Action::Forget { row: 8 }]);
        assert_eq!((memory.known(8), memory.pages), (RowDisks::default(), 4));
        actions.clear();
        memory.forget(8, &mut actions);
        assert!(actions.is_empty(), "it is not there");
        memory.clear(&mut actions);
        assert_eq!((actions, memory.pages), (vec![Action::ForgetAll], 0));
        assert_eq!(disks(&[2, 63]).iter().collect::<Vec<_>>(), [DiskId(2), DiskId(63)]);
    }
}
