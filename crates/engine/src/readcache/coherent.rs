//! The controller's read cache: clean pages beside the NVS, coherent with it.
//!
//! - A page held in the NVS, in flight included, is answered from there, whatever is cached.
//! - A page is cached when its disk read is complete, unless it was written or discarded since the
//!   read began: what was read may be old.
//! - A written page leaves the cache, or stays and gets the new bytes when it leaves the NVS.
//! - A page that a scrub writes again leaves the cache when it is written.
//! - Another cache begins empty, and reads under way put nothing into it.
//!
//! The engine knows pages by number; [`Action::Keep`] and [`Action::Drop`] tell the driver whose
//! bytes to hold.

use crate::array::disks::DiskSet;
use crate::array::geometry::{Geometry, Level};
use crate::counters::Counters;
use crate::event::Action;
use crate::event::Bytes;
use crate::faults::Faults;
use crate::nvs::directory::Directory;
use crate::readcache::penalty::Penalties;
use crate::readcache::{ReadCache, ReadChoice, Weight};
use crate::units::{GroupId, Page};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What becomes of the cached copy of a page that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWrite {
    /// It is dropped.
    #[default]
    Invalidate,
    /// It stays, and gets the new bytes when they are on the disks.
    Update,
    /// As `Update`; and destaged pages that were not cached are.
    Keep,
}

impl OnWrite {
    /// All, by their names in options.
    pub const NAMES: [(&str, OnWrite); 3] =
        [("invalidate", OnWrite::Invalidate), ("update", OnWrite::Update), ("keep", OnWrite::Keep)];
}

/// A read cache to be.
#[derive(Clone, Debug)]
pub struct CleanConfig {
    /// The policy, and whether it heeds failed disks.
    pub policy: ReadChoice,
    /// Its size.
    pub pages: u64,
    /// What writes do to it.
    pub on_write: OnWrite,
}

/// The read cache.
pub(crate) struct Clean {
    pub(crate) cache: Box<dyn ReadCache>,
    pub(crate) on_write: OnWrite,
    /// What misses cost now; none while no disk is failed.
    pub(crate) fault: Option<Penalties>,
    /// The disks that are failed now.
    pub(crate) failed: DiskSet,
    /// What was counted when that was last another set.
    pub(crate) before: Counters,
    /// A deliberate fault, for tests.
    pub(crate) careless: Careless,
}

/// Deliberate faults of the read cache, for tests of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Careless {
    /// Pages are cached though they were written since their read began.
    pub loads_overtaken: bool,
    /// Pages that a scrub has written again stay.
    pub keeps_repaired: bool,
}

impl Clean {
    pub(crate) fn load(&mut self, page: u64, bytes: Bytes, actions: &mut Vec<Action>) {
        if let Some(evicted) = self.cache.access(page).evicted {
            actions.push(Action::Drop { page: Page(evicted) });
        }
        actions.push(Action::Keep { page: Page(page), bytes });
    }

    /// Pages of a group are on the disks and out of the NVS.
    pub(crate) fn released(
        &mut self,
        (group, mask): (GroupId, &[u64]),
        index: u32,
        directory: &Directory,
        actions: &mut Vec<Action>,
    ) {
        if self.on_write == OnWrite::Invalidate {
            return;
        }
        let first = directory.first_page(group);
        for (first_bit, length) in crate::array::plan::runs(mask, 0, directory.pages_per_group()) {
            for bit in first_bit..first_bit + length {
                let page = first.offset(bit);
                if directory.missing_span(page, 1).is_none() {
                    // Written again: newer bytes will follow.
                    continue;
                }
                let bytes = Bytes::Destage(index);
                if self.cache.holds(page.0) {
                    actions.push(Action::Keep { page, bytes });
                } else if self.on_write == OnWrite::Keep {
                    self.load(page.0, bytes, actions);
                }
            }
        }
    }
}

/// What the read cache is at, for reports and live metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanState {
    /// Pages held.
    pub held: usize,
    /// Pages that fit.
    pub pages: usize,
    /// What a lost page weighs in its policy; none while no disk is failed.
    pub weight: Option<Weight>,
    /// How often that was changed for a better one.
    pub weight_changes: u64,
    /// Bytes that the policy takes for what it knows.
    pub memory_bytes: usize,
    /// What had been counted when a disk last failed or came back, or the cache began.
    pub before: Counters,
}

pub(crate) enum Heed {
    Healthy,
    Faulty(Box<Penalties>),
    Beyond,
}

/// What misses cost with these faults.
pub(crate) fn penalties(geometry: &Geometry, faults: &Faults) -> Heed {
    let level: Level = geometry.level;
    let failed: Vec<u64> = faults.failed.iter().map(|disk| u64::from(disk.0)).collect();
    if failed.is_empty() || level.parities() == 0 {
        return Heed::Healthy;
    }
    let disks = u64::from(geometry.disks);
    let Ok(fault) = Penalties::new(level, disks, &failed, geometry.strip_pages) else {
        return Heed::Beyond;
    };
    let Some((disk, below)) = faults.furthest() else { return Heed::Faulty(Box::new(fault)) };
    let block = below / geometry.strip_pages * geometry.stripe_pages();
    let others: Vec<u64> = failed.into_iter().filter(|d| *d != u64::from(disk.0)).collect();
    Heed::Faulty(Box::new(fault.rebuilt_but(block, level, &others)))
}
