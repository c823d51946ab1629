//! The fault-aware form (VDF) of any policy: two classes of blocks, the policy's best victim of
//! each, and one comparison. Where a policy keeps its blocks by [`Queue`], the classes cost it
//! nothing to write.

use super::store::{List, NONE, Node};

/// Class of a block that the surviving disks have; every block is in it while no disk is failed.
pub const LIGHT: u8 = 0;
/// Class of a block that must be computed from the surviving disks.
pub const HEAVY: u8 = 1;

/// What a policy says of its best victim of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// Estimated by the time since the last access: the larger the age times the *other* class's
    /// penalty, the sooner it goes.
    Age,
    /// Estimated by this frequency: the smaller frequency times penalty, the sooner it goes.
    Frequency(u64),
}

/// A victim offered.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Its node.
    pub slot: u32,
    /// Its last access.
    pub stamp: u64,
    /// What it is worth.
    pub worth: Worth,
}

/// How much more a heavy block weighs than a light one, in quarters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u64);

impl Weight {
    /// As much as a light one: the plain policy.
    pub const PLAIN: Weight = Weight(4);

    /// This many quarters; never less than [`Weight::PLAIN`].
    pub fn quarters(quarters: u64) -> Weight {
        Weight(quarters.max(Weight::PLAIN.0))
    }

    /// In quarters.
    pub fn in_quarters(self) -> u64 {
        self.0
    }
}

/// Chooses between the best victims of the two classes; `weight` is a heavy block's, `now` the
/// time of the request, and among equals the older goes, or the newer if `newest_ties`.
#[inline]
pub fn choose(heavy: Offer, light: Offer, weight: Weight, now: u64, newest_ties: bool) -> u32 {
    let (one, weight) = (Weight::PLAIN.0, weight.0);
    // How badly each is to be rid of, so that the larger goes.
    let (of_heavy, of_light) = match (heavy.worth, light.worth) {
        (Worth::Frequency(heavy), Worth::Frequency(light)) => {
            (light.saturating_mul(one), heavy.saturating_mul(weight))
        }
        _ => ((now - heavy.stamp).saturating_mul(one), (now - light.stamp).saturating_mul(weight)),
    };
    let heavy_is_older = heavy.stamp < light.stamp;
    let equal_goes = (of_heavy == of_light) & (heavy_is_older != newest_ties);
    [light.slot, heavy.slot][usize::from((of_heavy > of_light) | equal_goes)]
}

/// A list for each class, both in the order in which their nodes joined.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    lists: [List; 2],
}

impl Queue {
    /// No nodes.
    pub const EMPTY: Queue = Queue { lists: [List::EMPTY; 2] };

    /// Nodes of both classes.
    #[inline]
    pub fn len(&self) -> usize {
        self.lists[0].len + self.lists[1].len
    }

    /// The oldest node of a class, or [`NONE`].
    #[inline]
    pub fn oldest(&self, class: u8) -> u32 {
        self.lists[usize::from(class)].oldest
    }

    /// Of a queue by last access, the node that was not accessed for longest, or [`NONE`].
    pub fn oldest_access(&self, nodes: &[Node]) -> u32 {
        let [light, heavy] = [LIGHT, HEAVY].map(|class| self.oldest(class));
        if light == NONE || heavy == NONE {
            return light.min(heavy);
        }
        let stamp = |slot: u32| nodes[slot as usize].stamp;
        if stamp(light) < stamp(heavy) { light } else { heavy }
    }

    /// Adds a node at the newest end of its class.
    #[inline]
    pub fn push(&mut self, nodes: &mut [Node], slot: u32) {
        self.lists[usize::from(nodes[slot as usize].class)].push(nodes, slot);
    }

    /// Takes a node out.
    #[inline]
    pub fn unlink(&mut self, nodes: &mut [Node], slot: u32) {
        self.lists[usize::from(nodes[slot as usize].class)].unlink(nodes, slot);
    }

    /// Moves a node to the newest end of its class.
    #[inline]
    pub fn renew(&mut self, nodes: &mut [Node], slot: u32) {
        let list = &mut self.lists[usize::from(nodes[slot as usize].class)];
        if list.newest != slot {
            list.unlink(nodes, slot);
            list.push(nodes, slot);
        }
    }

    /// Puts every node in the class it now has, one pass, order kept: `place` is what the order
    /// is by.
    pub fn refile(
        &mut self,
        nodes: &mut [Node],
        class_of: &dyn Fn(u64) -> u8,
        place: impl Fn(u32, &Node) -> u64,
    ) {
        let mut at = [self.oldest(LIGHT), self.oldest(HEAVY)];
        self.lists = [List::EMPTY; 2];
        let place = |slot: u32, nodes: &[Node]| match slot {
            NONE => u64::MAX,
            slot => place(slot, &nodes[slot as usize]),
        };
        while at != [NONE, NONE] {
            let from = usize::from(place(at[1], nodes) < place(at[0], nodes));
            let slot = at[from];
            let node = &mut nodes[slot as usize];
            at[from] = node.newer;
            node.class = class_of(node.block);
            self.push(nodes, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(slot: u32, stamp: u64, worth: Worth) -> Offer {
        Offer { slot, stamp, worth }
    }

    #[test]
    fn ages_are_weighed_and_ties_go_to_the_older() {
        let age = |heavy, light| {
            let (heavy, light) = (offer(1, heavy, Worth::Age), offer(2, light, Worth::Age));
            choose(heavy, light, Weight::quarters(16), 101, false)
        };
        assert_eq!(age(1, 75), 2, "100 against 26 x 4");
        assert_eq!(age(1, 77), 1, "100 against 24 x 4");
        assert_eq!(age(1, 76), 1, "100 against 25 x 4: the older");
    }

    #[test]
    fn frequencies_are_weighed_and_ties_go_as_asked() {
        let offers =
            |light| (offer(1, 7, Worth::Frequency(2)), offer(2, 9, Worth::Frequency(light)));
        for (light, newest, goes) in [(7, false, 2), (9, false, 1), (8, false, 1), (8, true, 2)] {
            let (heavy, light) = offers(light);
            assert_eq!(choose(heavy, light, Weight::quarters(16), 20, newest), goes);
        }
    }
}
