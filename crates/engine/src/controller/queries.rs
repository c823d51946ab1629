//! What a driver and its monitors may look at: nothing here changes anything.

use super::{Controller, scrub};
use crate::array::disks::DiskSet;
use crate::array::geometry::Geometry;
use crate::counters::Counters;
use crate::destage::StripeMemoryState;
use crate::nvs::directory::Directory;
use crate::policy::{Gauges, PolicyContext};
use crate::rate::Thresholds;
use crate::readcache::coherent::ReadCacheState;
use crate::rebuild::Progress;
use crate::request::RequestId;
use crate::sequential::DetectorKind;
use crate::units::{DiskId, GroupId, Instant, Page, PageCount};

impl Controller {
    /// The array.
    pub fn geometry(&self) -> &Geometry {
        &self.state.geometry
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.state.counters
    }

    /// The disks that have failed.
    pub fn failed(&self) -> &DiskSet {
        &self.state.faults.failed
    }

    /// The disks that are lost at this page of theirs: failed, and not rebuilt so far.
    pub fn failed_at(&self, page: u64) -> DiskSet {
        self.state.faults.at(page)
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.state.paused
    }

    /// Pages that occupy NVS space.
    pub fn occupancy(&self) -> PageCount {
        PageCount(self.cache.directory.occupancy())
    }

    /// What the NVS holds.
    pub fn directory(&self) -> &Directory {
        &self.cache.directory
    }

    /// Writes waiting for space.
    pub fn waiting(&self) -> usize {
        self.writes.waiting()
    }

    /// The request that a host read's commands belong to.
    pub fn read_id(&self, index: u32) -> RequestId {
        self.reads.id(index)
    }

    /// Destage writes in flight.
    pub fn destages_in_flight(&self) -> u32 {
        self.destager.in_flight()
    }

    /// The pages of a destage in flight, bit i = page i of the group.
    pub fn destage_mask(&self, index: u32) -> &[u64] {
        self.destager.mask(index)
    }

    /// Of the pages of a group in flight, those of which only some sectors are held, as a mask;
    /// none: no words.
    #[must_use]
    pub fn incomplete_of(&self, group: GroupId) -> &[u64] {
        self.cache.directory.incomplete_in_flight(group)
    }

    /// Whether a destage redoes what may be partly written.
    pub fn is_redo(&self, index: u32) -> bool {
        self.destager.is_redo(index)
    }

    /// Pages of groups whose destage cannot be computed: what a flush leaves.
    pub fn kept_pages(&self) -> u64 {
        self.destager.kept().map(|group| self.cache.directory.pages_of(group)).sum()
    }

    /// Whether the destage of this group cannot be computed.
    pub fn is_kept(&self, group: GroupId) -> bool {
        self.destager.keeps(group)
    }

    /// Whether a destage that cannot be computed may have written parts of the row at this page of
    /// the disks: what the row implies may be wrong.
    pub fn is_in_doubt(&self, page: u64) -> bool {
        self.destager.is_in_doubt(&self.state.geometry, page)
    }

    /// How often a destage was deferred because it was expensive.
    pub fn deferrals(&self) -> u64 {
        self.destager.deferrals()
    }

    /// The state of the policy, for people to look at.
    pub fn gauges(&self) -> Gauges {
        self.cache.gauges()
    }

    /// The thresholds of the rate.
    pub fn thresholds(&self) -> Thresholds {
        self.destager.thresholds()
    }

    /// What another policy would be made with here.
    pub fn policy_context(&self) -> PolicyContext {
        self.setup.context(&self.state.geometry, self.thresholds())
    }

    /// The detector and its threshold, whether or not the running policy needs one.
    pub fn detector_kind(&self) -> (DetectorKind, u32) {
        self.setup.detector_kind()
    }

    /// Whether a read of the page would be answered from the read cache, if not from the NVS.
    pub fn is_cached(&self, page: Page) -> bool {
        self.read_cache.holds(page)
    }

    /// The state of the read cache, if there is one.
    pub fn read_cache(&self) -> Option<ReadCacheState> {
        self.read_cache.state()
    }

    /// How full the stripe memory is, if there is one.
    pub fn stripe_memory(&self) -> Option<StripeMemoryState> {
        self.destager.stripe_memory()
    }

    /// How far the rebuilds are.
    pub fn rebuilds(&self) -> impl Iterator<Item = Progress> + '_ {
        self.rebuilds.progress(&self.state)
    }

    /// The disk that a window of a rebuild is of; `None`: the rebuild is over.
    pub fn window_disk(&self, window: u32) -> Option<DiskId> {
        self.rebuilds.window_disk(window)
    }

    /// When the controller needs [`crate::event::Event::Tick`], if nothing happens before.
    pub fn deadline(&self) -> Option<Instant> {
        let rebuild = self.rebuilds.deadline(&self.state);
        let idle = || self.destager.idle_from(&self.state, &self.cache, self.rebuilds.count());
        // Once it has come, what else is in the way ends with an event of its own.
        let idle = (!self.state.paused).then(idle).flatten().filter(|at| *at > self.state.now);
        [rebuild, idle].into_iter().flatten().min()
    }

    /// Rows that a scrub reads, one page of each disk of a row.
    pub fn scrub_rows(&self) -> u64 {
        scrub::rows(&self.state.geometry)
    }

    /// Whether a scrub is running that may read no more until it is allowed to.
    pub fn scrub_waits(&self) -> bool {
        self.scrub.waits()
    }
}
