//! STF: the group whose write would begin soonest, by the modelled heads.

use super::ordered::OrderedGroups;
use super::{DestagePolicy, PageWrite, PolicyContext, PolicyEntry};
use crate::conditions::Conditions;
use crate::conditions::Heads;
use crate::nvs::directory::{Directory, Slot};
use crate::registry::Entry;
use crate::units::GroupId;
use alloc::boxed::Box;

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    entry: Entry {
        name: "stf",
        summary: "shortest access time first: least seek and rotation to the first dirty page",
        source: "Haining & Long section 2.1; docs/simulator.md",
        params: &[],
    },
    make: |_, context| Ok(Box::new(Stf::new(context))),
};

/// Groups by address. The search goes outward from every head and ends where the seek alone
/// costs more than the best access found. Without modelled heads, the group nearest to the one
/// picked last, ties to the lower.
struct Stf {
    groups: OrderedGroups,
    last: GroupId,
}

/// The best found so far: cost, group, slot.
type Best = Option<(u64, GroupId, Slot)>;

impl Stf {
    fn new(context: &PolicyContext) -> Stf {
        Stf { groups: OrderedGroups::new(context.groups, context.nvs_pages), last: GroupId(0) }
    }

    fn nearest(&self, directory: &Directory) -> Best {
        let mut best = None;
        let distance = |group: GroupId| group.0.abs_diff(self.last.0);
        self.outward(self.last, directory, &mut best, &distance, &|group, _| distance(group));
        best
    }

    /// Looks at groups below and above `from`, each way until `floor` says that no farther one
    /// can be better.
    fn outward(
        &self,
        from: GroupId,
        directory: &Directory,
        best: &mut Best,
        floor: &dyn Fn(GroupId) -> u64,
        cost: &dyn Fn(GroupId, Slot) -> u64,
    ) {
        let mut consider = |group: GroupId| {
            // A tie is worth looking at: it may go to a lower group.
            if best.is_some_and(|(least, ..)| floor(group) > least) {
                return false;
            }
            let slot = directory.find(group).expect("a group in order is held");
            if directory.may_pick(slot) {
                let found = (cost(group, slot), group, slot);
                if best.is_none_or(|(least, at, _)| (found.0, found.1) < (least, at)) {
                    *best = Some(found);
                }
            }
            true
        };
        let mut up = self.groups.at_or_after(from.0);
        let mut down = from.0.checked_sub(1).and_then(|below| self.groups.at_or_before(below));
        while up.is_some() || down.is_some() {
            up = up.filter(|group| consider(*group));
            up = up.and_then(|group| self.groups.at_or_after(group.0 + 1));
            down = down.filter(|group| consider(*group));
            down = down
                .and_then(|group| group.0.checked_sub(1))
                .and_then(|below| self.groups.at_or_before(below));
        }
    }

    fn best(&self, directory: &Directory, heads: &dyn Heads) -> Best {
        if heads.count() == 0 {
            return self.nearest(directory);
        }
        let mut best = None;
        for head in 0..heads.count() {
            let floor = |group| heads.floor(head, group);
            let cost = |group, slot| heads.cost(group, directory.first_held(slot));
            self.outward(heads.over(head), directory, &mut best, &floor, &cost);
        }
        best
    }
}

impl DestagePolicy for Stf {
    fn needs_detector(&self) -> bool {
        false
    }

    fn on_write(&mut self, write: PageWrite, _now: &Conditions<'_>) {
        if write.created() {
            self.groups.insert(write.group);
        }
    }

    fn pick(&mut self, directory: &Directory, now: &Conditions<'_>) -> Option<Slot> {
        let (_, group, slot) = self.best(directory, now.heads)?;
        self.groups.remove(group);
        self.last = group;
        Some(slot)
    }

    fn candidate(&self, directory: &Directory) -> Option<Slot> {
        self.nearest(directory).map(|(_, _, slot)| slot)
    }
}
