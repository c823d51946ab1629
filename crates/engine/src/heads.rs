//! Where the disks' heads are: what a positioning-aware policy asks of its driver.

use crate::units::GroupId;

/// The modelled heads of the member disks at the moment of a pick.
///
/// [`Heads::cost`] is exact; [`Heads::floor`] lets a policy search outward from a head and stop
/// early instead of asking the cost of every group held.
pub trait Heads {
    /// Heads there are; 0 if the driver models none.
    fn count(&self) -> usize;

    /// The group over which a head stands.
    fn over(&self, head: usize) -> GroupId;

    /// Nanoseconds that a write to this group, or to one farther from this head, costs at least
    /// where it is this head that must move.
    fn floor(&self, head: usize, group: GroupId) -> u64;

    /// Seek and rotation, in nanoseconds, to page `first_page` of the group if its write began
    /// now, for the first disk concerned.
    fn cost(&self, group: GroupId, first_page: u64) -> u64;
}

/// No model: a policy falls back to distances between addresses.
pub struct NoHeads;

impl Heads for NoHeads {
    fn count(&self) -> usize {
        0
    }

    fn over(&self, _head: usize) -> GroupId {
        GroupId(0)
    }

    fn floor(&self, _head: usize, _group: GroupId) -> u64 {
        0
    }

    fn cost(&self, _group: GroupId, _first_page: u64) -> u64 {
        0
    }
}
