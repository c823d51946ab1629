//! Groups that were destaged not long ago, the oldest forgotten first.

use crate::nvs::hash::HashIndex;
use crate::units::GroupId;
use alloc::vec::Vec;

/// No group: it has returned.
const RETURNED: u64 = u64::MAX;

/// The last groups destaged, of a fixed number.
pub(super) struct History {
    /// In the order of destages, from `next` on round and round.
    groups: Vec<u64>,
    next: usize,
    most: usize,
    index: HashIndex,
}

impl History {
    /// Remembers up to `most` groups.
    pub(super) fn new(most: u64) -> History {
        let index = HashIndex::new(most);
        History { groups: Vec::new(), next: 0, most: most as usize, index }
    }

    pub(super) fn is_on(&self) -> bool {
        self.most > 0
    }

    /// A group that is not remembered is destaged.
    pub(super) fn remember(&mut self, group: GroupId) {
        if !self.is_on() {
            return;
        }
        let History { groups, next, most, index } = self;
        if groups.len() < *most {
            groups.push(group.0);
            *next = groups.len() - 1;
        } else {
            let oldest = groups[*next];
            if oldest != RETURNED {
                index.remove(oldest, |slot| groups[slot as usize]);
            }
            groups[*next] = group.0;
        }
        index.insert(group.0, *next as u32, |slot| groups[slot as usize]);
        *next = (*next + 1) % *most;
    }

    /// A group is written that was not held. Whether it was remembered; it is forgotten.
    pub(super) fn recall(&mut self, group: GroupId) -> bool {
        let History { groups, index, .. } = self;
        if groups.is_empty() {
            return false;
        }
        let Some(slot) = index.find(group.0, |slot| groups[slot as usize]) else { return false };
        index.remove(group.0, |slot| groups[slot as usize]);
        groups[slot as usize] = RETURNED;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn the_last_groups_are_remembered_until_they_return() {
        for most in [0, 1, 5, 100] {
            let mut history = History::new(most);
            // The plain form: a list, in which what has returned keeps its place.
            let mut list: VecDeque<Option<u64>> = VecDeque::new();
            let mut state = 1_u64;
            let mut held = std::collections::BTreeSet::new();
            for _ in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let group = (state >> 33) % 300;
                if held.remove(&group) {
                    history.remember(GroupId(group));
                    list.push_back(Some(group));
                    if list.len() as u64 > most {
                        list.pop_front();
                    }
                } else {
                    held.insert(group);
                    let known = list.iter_mut().find(|of| **of == Some(group));
                    let expected = known.map(|of| *of = None).is_some();
                    assert_eq!(history.recall(GroupId(group)), expected);
                }
            }
        }
    }
}
