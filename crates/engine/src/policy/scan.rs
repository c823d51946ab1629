//! One ring of groups in address order with a pointer and a counter per group: what CSCAN, WOW and
//! both queues of STOW are made of.
//!
//! The pointer is an address: the next candidate is the lowest group not below it, wrapping;
//! after looking at group g the pointer is g + 1 (docs/simulator.md).

use super::ordered::OrderedGroups;
use crate::nvs::directory::{Directory, Slot};
use crate::units::GroupId;

/// In a counter: the group was passed over because it held few pages.
pub const SPARED: u8 = 4;

/// Which groups a scan passes over because they hold few pages: up to this many.
#[derive(Clone, Copy)]
pub enum Sparse {
    /// None.
    Never,
    /// Those, once more each.
    Once(u64),
    /// Those, each time.
    Always(u64),
}

/// The greatest number of pages that is less than three quarters of the mean of `groups` groups,
/// which hold `pages`.
pub fn below_mean(pages: u64, groups: u64) -> u64 {
    (3 * pages).saturating_sub(1) / (4 * groups).max(1)
}

/// A ring with a destage pointer.
pub struct Ring {
    groups: OrderedGroups,
    pointer: u64,
    count: u64,
}

impl Ring {
    /// An empty ring over `groups` groups for an NVS of `nvs_pages`.
    pub fn new(groups: u64, nvs_pages: u64) -> Ring {
        Ring { groups: OrderedGroups::new(groups, nvs_pages), pointer: 0, count: 0 }
    }

    /// A group was created.
    pub fn insert(&mut self, group: GroupId) {
        self.groups.insert(group);
        self.count += 1;
    }

    /// How many groups it has.
    pub fn groups(&self) -> u64 {
        self.count
    }

    /// Takes a group out, whatever its counter says; false if it is not in the ring.
    pub fn withdraw(&mut self, group: GroupId) -> bool {
        let held = self.groups.next(group.0) == Some(group);
        if held {
            self.groups.remove(group);
            self.count -= 1;
        }
        held
    }

    /// The address from which it looks for its next candidate.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// Moves the pointer to where another ring's is.
    pub fn follow(&mut self, pointer: u64) {
        self.pointer = pointer;
    }

    /// The next candidate, whatever its counter says.
    pub fn candidate(&self, directory: &Directory) -> Option<Slot> {
        let group = self.groups.next(self.pointer)?;
        Some(directory.find(group).expect("a ring's group is held"))
    }

    /// As many looks as `laps` laps of the ring take.
    pub fn laps(&self, laps: u64) -> u64 {
        self.count.saturating_mul(laps)
    }

    /// Scans for a victim and takes it out of the ring: a group whose counter is 0, while those
    /// it passes over are counted down. One that is `sparse` is passed over once more, and has
    /// [`SPARED`] set, or again and again; `spared` gets the pages of the former. Gives up after
    /// `looks` groups.
    pub fn take(
        &mut self,
        directory: &Directory,
        mut looks: u64,
        counter: &mut [u8],
        mask: u8,
        sparse: Sparse,
        mut spared: impl FnMut(u64),
    ) -> Option<(GroupId, Slot)> {
        while looks > 0 {
            let mut run = self.groups.run(self.pointer).expect("the ring is not empty");
            while let Some(group) = run.next()
                && looks > 0
            {
                looks -= 1;
                let slot = directory.find(group).expect("a ring's group is held");
                self.pointer = group.0 + 1;
                if !directory.may_pick(slot) {
                    continue;
                }
                let counter = &mut counter[slot.index()];
                if *counter & mask == 0 {
                    let few = |most: u64| directory.pages(slot) <= most;
                    match sparse {
                        Sparse::Once(most) if *counter & SPARED == 0 && few(most) => {
                            *counter |= SPARED;
                            spared(directory.pages(slot));
                            continue;
                        }
                        Sparse::Always(most) if few(most) => continue,
                        _ => (),
                    }
                    self.groups.remove(group);
                    self.count -= 1;
                    return Some((group, slot));
                }
                *counter -= 1;
            }
        }
        None
    }
}
