//! STF with modelled heads: its search outward from the heads finds what asking every group finds.

use destage_engine::conditions::Conditions;
use destage_engine::conditions::Heads;
use destage_engine::nvs::directory::Directory;
use destage_engine::policy::{self, PolicyContext};
use destage_engine::request::PageRange;
use destage_engine::sequential::Detector;
use destage_engine::units::{GroupId, Page, PageCount};
use destage_engine::writecache::WriteCache;
use std::cell::Cell;
use std::collections::BTreeMap;

const PER_GROUP: u64 = 8;
const GROUPS: u64 = 5000;

/// Heads over some groups; a group is on disk `group mod heads`. A seek takes 10 a group, and a
/// page comes round every 3000.
struct Model {
    heads: Vec<u64>,
    angle: u64,
    asked: Cell<u64>,
}

impl Model {
    fn seek(&self, head: usize, group: u64) -> u64 {
        self.heads[head].abs_diff(group) * 10
    }
}

impl Heads for Model {
    fn count(&self) -> usize {
        self.heads.len()
    }

    fn over(&self, head: usize) -> GroupId {
        GroupId(self.heads[head])
    }

    fn floor(&self, head: usize, group: GroupId) -> u64 {
        self.seek(head, group.0)
    }

    fn cost(&self, group: GroupId, first_page: u64) -> u64 {
        self.asked.set(self.asked.get() + 1);
        let seek = self.seek(group.0 as usize % self.heads.len(), group.0);
        let at = (group.0 * 577 + first_page * 375) % 3000;
        seek + (at + 3000 - (self.angle + seek) % 3000) % 3000
    }
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    *state >> 33
}

#[test]
fn the_search_finds_the_cheapest() {
    let mut state = 3;
    let (mut asked, mut held_at_picks, mut picks) = (0, 0, 0);
    for heads in [1usize, 2, 5] {
        let context = PolicyContext {
            nvs_pages: 2000,
            groups: GROUPS,
            group_pages: PER_GROUP,
            disks: heads as u64,
            queue_depth: 1,
            high: 9000,
            low: 8000,
            mirrored: false,
        };
        let policy = policy::choose("stf").expect("a policy").build(&context).expect("made");
        let directory = Directory::new(PageCount(2000), PER_GROUP, GROUPS);
        let mut cache = WriteCache::new(directory, Detector::Off, policy);
        let mut held: BTreeMap<u64, u64> = BTreeMap::new();
        let mut mask = Vec::new();
        for _ in 0..6000 {
            let page = next(&mut state) % (GROUPS * PER_GROUP);
            let range = PageRange::new(Page(page), 1);
            let classified = cache.classify(range);
            if cache.try_admit(range, classified).is_some() {
                *held.entry(page / PER_GROUP).or_insert(0) |= 1 << (page % PER_GROUP);
                continue;
            }
            let heads = (0..heads).map(|_| next(&mut state) % GROUPS).collect();
            let model = Model { heads, angle: next(&mut state) % 3000, asked: Cell::new(0) };
            let cost = |(group, mask): (&u64, &u64)| {
                (model.cost(GroupId(*group), u64::from(mask.trailing_zeros())), *group)
            };
            let cheapest = held.iter().map(cost).min().expect("something is held").1;
            model.asked.set(0);
            let now = Conditions { heads: &model, ..Conditions::NONE };
            let picked = cache.pick(&now, &mut |_, _| false, &mut mask).expect("a victim");
            assert_eq!(picked.group.0, cheapest);
            (asked, held_at_picks, picks) =
                (asked + model.asked.get(), held_at_picks + held.len() as u64, picks + 1);
            held.remove(&cheapest);
            cache.directory.release(picked.group, &mask);
        }
    }
    assert!(picks > 1000);
    assert!(asked * 4 < held_at_picks, "{asked} of {held_at_picks} groups were asked about");
}
