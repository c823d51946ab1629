//! The controller's read cache next to the NVS, and how the two are kept coherent.
//!
//! - A page held in the NVS, in flight included, is answered from there, whatever is cached.
//! - A page is cached when its disk read is complete, unless it was written or discarded since the
//!   read began: what was read may be old.
//! - A written page leaves the cache, or stays and gets the new bytes when it leaves the NVS.
//! - A page that a scrub repairs leaves the cache when it is written.
//! - Another cache begins empty, and reads in flight put nothing into it.
//!
//! The engine knows pages by number; [`Action::Keep`] and [`Action::Drop`] tell the driver whose
//! bytes to hold.

use crate::array::disks::DiskSet;
use crate::array::geometry::Geometry;
use crate::array::plan::runs;
use crate::counters::Counters;
use crate::event::{Action, Bytes};
use crate::faults::Faults;
use crate::nvs::directory::Directory;
use crate::readcache::penalty::Penalties;
use crate::readcache::{ReadCache, ReadChoice, ReadPolicyError, Weight};
use crate::request::{PageRange, RequestId};
use crate::units::{GroupId, Page};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What happens to the cached copy of a page that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnWrite {
    /// It is dropped.
    #[default]
    Invalidate,
    /// It stays, and gets the new bytes when they are on the disks.
    Update,
    /// Like `Update`; and pages that were not cached are cached when they are destaged.
    Keep,
}

impl OnWrite {
    /// All, by their names in options.
    pub const NAMES: [(&str, OnWrite); 3] =
        [("invalidate", OnWrite::Invalidate), ("update", OnWrite::Update), ("keep", OnWrite::Keep)];
}

/// What a read cache is made of.
#[derive(Clone, Debug)]
pub struct ReadCacheChoice {
    /// The policy, and whether it takes failed disks into account.
    pub policy: ReadChoice,
    /// Its size.
    pub pages: u64,
    /// What writes do to it.
    pub on_write: OnWrite,
}

/// Deliberate faults of the read cache. Tests must catch them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Careless {
    /// Pages are cached although they were written since their read began.
    pub loads_overtaken: bool,
    /// Pages that a scrub has repaired stay.
    pub keeps_repaired: bool,
}

/// The state of the read cache, for reports and live metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCacheState {
    /// Pages held.
    pub held: usize,
    /// Pages that fit.
    pub pages: usize,
    /// Weight of a failed disk's page in the policy; `None` while no disk is failed.
    pub weight: Option<Weight>,
    /// How often the weight was changed for a better one.
    pub weight_changes: u64,
    /// Bytes that the policy takes for its own state.
    pub memory_bytes: usize,
    /// The counters when a disk last failed or came back, or when the cache began.
    pub before: Counters,
}

struct Cached {
    cache: Box<dyn ReadCache>,
    on_write: OnWrite,
    /// What misses cost now; `None` while no disk is failed.
    fault: Option<Penalties>,
    /// The disks that are failed now.
    failed: DiskSet,
    /// The counters when that set last changed.
    before: Counters,
    careless: Careless,
}

/// The read cache of a controller, if it has one.
#[derive(Default)]
pub(crate) struct CoherentCache(Option<Cached>);

impl CoherentCache {
    /// Switches to another cache, which is empty, or to none.
    pub(crate) fn set(
        &mut self,
        config: Option<&ReadCacheChoice>,
        failed: &DiskSet,
        counters: &Counters,
    ) -> Result<(), ReadPolicyError> {
        self.0 = match config {
            None => None,
            Some(config) => Some(Cached {
                cache: config.policy.build(config.pages)?,
                on_write: config.on_write,
                fault: None,
                failed: failed.clone(),
                before: *counters,
                careless: Careless::default(),
            }),
        };
        Ok(())
    }

    #[cfg(feature = "defects")]
    pub(crate) fn set_careless(&mut self, careless: Careless) {
        if let Some(cached) = &mut self.0 {
            cached.careless = careless;
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn holds(&self, page: Page) -> bool {
        self.0.as_ref().is_some_and(|cached| cached.cache.holds(page.0))
    }

    pub(crate) fn forget(&mut self, page: Page) {
        if let Some(cached) = &mut self.0 {
            cached.cache.forget(page.0);
        }
    }

    pub(crate) fn state(&self) -> Option<ReadCacheState> {
        self.0.as_ref().map(|cached| ReadCacheState {
            held: cached.cache.held(),
            pages: cached.cache.blocks(),
            weight: cached.cache.weight(),
            weight_changes: cached.cache.weight_changes(),
            memory_bytes: cached.cache.memory_bytes(),
            before: cached.before,
        })
    }

    /// Counts the pages of a read that arrives, and reports its hits to the cache's policy.
    pub(crate) fn look_up(
        &mut self,
        range: PageRange,
        directory: &Directory,
        counters: &mut Counters,
    ) {
        let Some(cached) = &mut self.0 else { return };
        for page in (range.first.0..range.end().0).map(Page) {
            counters.read_pages += 1;
            if directory.missing_span(page, 1).is_none() {
                counters.read_pages_nvs += 1;
            } else if cached.cache.holds(page.0) {
                counters.read_pages_cached += 1;
                cached.cache.access(page.0);
            } else {
                counters.read_penalty += cached.fault.as_ref().map_or(1, |fault| fault.of(page.0));
            }
        }
    }

    /// First and last page of a range that neither the NVS nor the read cache has.
    pub(crate) fn missing_span(
        &self,
        first: Page,
        pages: u32,
        directory: &Directory,
    ) -> Option<(Page, Page)> {
        let (from, to) = directory.missing_span(first, pages)?;
        let Some(cached) = &self.0 else { return Some((from, to)) };
        let missing = |page: &u64| cached.misses(*page, directory);
        let first = (from.0..=to.0).find(missing)?;
        let last = (first..=to.0).rev().find(missing)?;
        Some((Page(first), Page(last)))
    }

    /// The pages of a span that a disk read of it may put into the cache.
    pub(crate) fn to_load(&self, from: Page, to: Page, directory: &Directory) -> Vec<u64> {
        let Some(cached) = &self.0 else { return Vec::new() };
        // What the disks have of an incomplete page is out of date in its other sectors.
        let clean = |page: &u64| !directory.holds_some_of(Page(*page));
        let misses = |page: &u64| cached.misses(*page, directory);
        (from.0..=to.0).filter(|page| clean(page) && misses(page)).collect()
    }

    /// The disk reads of these pages are complete.
    pub(crate) fn load(
        &mut self,
        pages: &[u64],
        id: RequestId,
        directory: &Directory,
        actions: &mut Vec<Action>,
    ) {
        let Some(cached) = &mut self.0 else { return };
        for page in pages {
            if cached.misses(*page, directory) {
                cached.load(*page, Bytes::Read(id), actions);
            }
        }
    }

    /// Whether reads in flight must not cache pages that are written in the meantime.
    pub(crate) fn drops_overtaken_loads(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|cached| !(cfg!(feature = "defects") && cached.careless.loads_overtaken))
    }

    /// Pages were written, or discarded: the cached copy is old.
    pub(crate) fn invalidate(
        &mut self,
        range: PageRange,
        discarded: bool,
        actions: &mut Vec<Action>,
    ) {
        let Some(cached) = &mut self.0 else { return };
        if discarded || cached.on_write == OnWrite::Invalidate {
            for page in range.first.0..range.end().0 {
                if cached.cache.forget(page) {
                    actions.push(Action::Drop { page: Page(page) });
                }
            }
        }
    }

    /// Whether pages that a scrub repairs must leave the cache.
    pub(crate) fn drops_repaired(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|cached| !(cfg!(feature = "defects") && cached.careless.keeps_repaired))
    }

    /// Pages of a group are on the disks and out of the NVS.
    pub(crate) fn released(
        &mut self,
        (group, mask): (GroupId, &[u64]),
        index: u32,
        directory: &Directory,
        actions: &mut Vec<Action>,
    ) {
        let Some(cached) = &mut self.0 else { return };
        if cached.on_write == OnWrite::Invalidate {
            return;
        }
        let first = directory.first_page(group);
        for (first_bit, length) in runs(mask, 0, directory.pages_per_group()) {
            for bit in first_bit..first_bit + length {
                let page = first.offset(bit);
                if directory.missing_span(page, 1).is_none() {
                    // Written again: newer bytes will follow.
                    continue;
                }
                let bytes = Bytes::Destage(index);
                if cached.cache.holds(page.0) {
                    actions.push(Action::Keep { page, bytes });
                } else if cached.on_write == OnWrite::Keep {
                    cached.load(page.0, bytes, actions);
                }
            }
        }
    }

    /// Disks failed, or pages of them were rebuilt: what a miss costs has changed.
    pub(crate) fn refresh_weights(
        &mut self,
        geometry: &Geometry,
        faults: &Faults,
        counters: &Counters,
    ) {
        let Some(cached) = &mut self.0 else { return };
        if cached.failed != faults.failed {
            cached.failed = faults.failed.clone();
            cached.before = *counters;
        }
        if let Some(fault) = penalties(geometry, faults) {
            cached.fault = fault;
            cached.cache.set_fault(cached.fault.clone());
        }
    }
}

impl Cached {
    /// Whether neither the NVS nor the cache has the page.
    fn misses(&self, page: u64, directory: &Directory) -> bool {
        !self.cache.holds(page) && directory.missing_span(Page(page), 1).is_some()
    }

    fn load(&mut self, page: u64, bytes: Bytes, actions: &mut Vec<Action>) {
        if let Some(evicted) = self.cache.access(page).evicted {
            actions.push(Action::Drop { page: Page(evicted) });
        }
        actions.push(Action::Keep { page: Page(page), bytes });
    }
}

/// What misses cost with these faults: `Some(None)` if all cost the same, `None` if more disks have
/// failed than the level tolerates.
fn penalties(geometry: &Geometry, faults: &Faults) -> Option<Option<Penalties>> {
    let level = geometry.level;
    let failed: Vec<u64> = faults.failed.iter().map(|disk| u64::from(disk.0)).collect();
    if failed.is_empty() || level.parities() == 0 {
        return Some(None);
    }
    let disks = u64::from(geometry.disks);
    let fault = Penalties::new(level, disks, &failed, geometry.strip_pages).ok()?;
    let Some((disk, below)) = faults.furthest() else { return Some(Some(fault)) };
    let block = below / geometry.strip_pages * geometry.stripe_pages();
    let others: Vec<u64> = failed.into_iter().filter(|d| *d != u64::from(disk.0)).collect();
    Some(Some(fault.rebuilt_but(block, level, &others)))
}
