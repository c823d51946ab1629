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
use crate::array::layout::Place;
use crate::array::plan::DiskRun;
use crate::controller::{Action, Controller};
use crate::counters::Counters;
use crate::nvs::directory::Directory;
use crate::protocol::Faults;
use crate::readcache::penalty::Penalties;
use crate::readcache::{ReadCache, ReadChoice, ReadPolicyError, Weight};
use crate::request::{PageRange, RequestId};
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

/// Where the bytes of a page to be kept are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// They were read for this request, which is answered next.
    Read(RequestId),
    /// They are those of this destage, which is released next.
    Destage(u32),
}

/// The read cache.
pub(crate) struct Clean {
    cache: Box<dyn ReadCache>,
    on_write: OnWrite,
    /// What misses cost now; none while no disk is failed.
    fault: Option<Penalties>,
    /// The disks that are failed now.
    failed: DiskSet,
    /// What was counted when that was last another set.
    before: Counters,
    /// A deliberate fault, for tests.
    careless: Careless,
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
    fn load(&mut self, page: u64, bytes: Bytes, actions: &mut Vec<Action>) {
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

impl Controller {
    /// Gives the controller a read cache, or another one, which is empty, or none. The driver
    /// forgets what it kept. What is being read now is not cached: until there is a cache, nobody
    /// is told which of it was written meanwhile.
    ///
    /// # Errors
    /// No size for a cache, or a value out of range; nothing is changed then.
    pub fn set_read_cache(&mut self, config: Option<&CleanConfig>) -> Result<(), ReadPolicyError> {
        self.clean = match config {
            None => None,
            Some(config) => Some(Clean {
                cache: config.policy.build(config.pages)?,
                on_write: config.on_write,
                fault: None,
                failed: self.faults.failed.clone(),
                before: self.counters,
                careless: Careless::default(),
            }),
        };
        self.reads.iter_mut().for_each(|read| read.loads.clear());
        self.heed_faults();
        Ok(())
    }

    /// For tests of tests: the read cache has these faults.
    pub fn cache_carelessly(&mut self, careless: Careless) {
        if let Some(clean) = &mut self.clean {
            clean.careless = careless;
        }
    }

    /// The driver could not keep a page that it was told to: it is not cached. Said before the
    /// next event.
    pub fn not_kept(&mut self, page: Page) {
        if let Some(clean) = &mut self.clean {
            clean.cache.forget(page.0);
        }
    }

    /// Whether a read of the page would be answered from the read cache, if not from the NVS.
    #[must_use]
    pub fn is_cached(&self, page: Page) -> bool {
        self.clean.as_ref().is_some_and(|clean| clean.cache.holds(page.0))
    }

    /// What the read cache is at.
    #[must_use]
    pub fn read_cache(&self) -> Option<CleanState> {
        self.clean.as_ref().map(|clean| CleanState {
            held: clean.cache.held(),
            pages: clean.cache.blocks(),
            weight: clean.cache.weight(),
            weight_changes: clean.cache.weight_changes(),
            memory_bytes: clean.cache.memory_bytes(),
            before: clean.before,
        })
    }

    /// Counts the pages of a read that arrives, and tells the cache's policy of its hits.
    pub(crate) fn look_up(&mut self, range: PageRange) {
        let Some(clean) = &mut self.clean else { return };
        let counters: &mut Counters = &mut self.counters;
        for page in (range.first.0..range.end().0).map(Page) {
            counters.read_pages += 1;
            if self.cache.directory.missing_span(page, 1).is_none() {
                counters.read_pages_nvs += 1;
            } else if clean.cache.holds(page.0) {
                counters.read_pages_cached += 1;
                clean.cache.access(page.0);
            } else {
                counters.read_penalty += clean.fault.as_ref().map_or(1, |fault| fault.of(page.0));
            }
        }
    }

    /// First and last page of a range that neither the NVS nor the read cache has.
    pub(crate) fn missing_span(&self, first: Page, pages: u32) -> Option<(Page, Page)> {
        let span = self.cache.directory.missing_span(first, pages)?;
        let Some(clean) = &self.clean else { return Some(span) };
        let missing = |page: &u64| {
            !clean.cache.holds(*page) && self.cache.directory.missing_span(Page(*page), 1).is_some()
        };
        let first = (span.0.0..=span.1.0).find(missing)?;
        let last = (first..=span.1.0).rev().find(missing)?;
        Some((Page(first), Page(last)))
    }

    /// The pages of a span that a read of it will bring and that may be cached then.
    pub(crate) fn to_load(&self, from: Page, to: Page) -> Vec<u64> {
        let Some(clean) = &self.clean else { return Vec::new() };
        let missing = |page: &u64| {
            !clean.cache.holds(*page) && self.cache.directory.missing_span(Page(*page), 1).is_some()
        };
        (from.0..=to.0).filter(missing).collect()
    }

    /// The disk reads of these pages are complete.
    pub(crate) fn load(&mut self, pages: &[u64], id: RequestId, actions: &mut Vec<Action>) {
        let Some(clean) = &mut self.clean else { return };
        for page in pages {
            let in_nvs = self.cache.directory.missing_span(Page(*page), 1).is_none();
            if !in_nvs && !clean.cache.holds(*page) {
                clean.load(*page, Bytes::Read(id), actions);
            }
        }
    }

    /// Pages were written, or discarded: what is cached of them, or being read, is old.
    pub(crate) fn outdate(&mut self, range: PageRange, discarded: bool, actions: &mut Vec<Action>) {
        let Some(clean) = &mut self.clean else { return };
        let gone = range.first.0..range.end().0;
        if !clean.careless.loads_overtaken {
            for read in &mut self.reads {
                read.loads.retain(|page| !gone.contains(page));
            }
        }
        if discarded || clean.on_write == OnWrite::Invalidate {
            for page in gone {
                if clean.cache.forget(page) {
                    actions.push(Action::Drop { page: Page(page) });
                }
            }
        }
    }

    /// Pages of a disk were written again with other bytes than they had: a copy of them may be
    /// what was wrong.
    pub(crate) fn outdate_run(&mut self, run: DiskRun, actions: &mut Vec<Action>) {
        if self.clean.as_ref().is_none_or(|clean| clean.careless.keeps_repaired) {
            return;
        }
        for page in run.first..run.first + u64::from(run.pages) {
            if let Some(page) = self.geometry.page_at(Place { disk: run.disk, page }) {
                self.outdate(PageRange::new(page, 1), true, actions);
            }
        }
    }

    /// Tells the read cache which disks are lost, and from where on.
    pub(crate) fn heed_faults(&mut self) {
        let Some(clean) = &mut self.clean else { return };
        if clean.failed != self.faults.failed {
            clean.failed = self.faults.failed.clone();
            clean.before = self.counters;
        }
        match penalties(&self.geometry, &self.faults) {
            Heed::Healthy => clean.fault = None,
            Heed::Faulty(fault) => clean.fault = Some(*fault),
            // Nothing to choose by.
            Heed::Beyond => return,
        }
        clean.cache.set_fault(clean.fault.clone());
    }
}

enum Heed {
    Healthy,
    Faulty(Box<Penalties>),
    Beyond,
}

/// What misses cost with these faults.
fn penalties(geometry: &Geometry, faults: &Faults) -> Heed {
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
