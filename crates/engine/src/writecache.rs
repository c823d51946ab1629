//! The directory and the policy kept in step: what a write does to both, and what a pick does.
//!
//! This is the whole write cache without time or disks: `destage policy-trace` and cache-only
//! replays drive it directly, the controller drives it with both.

use crate::nvs::directory::{Directory, Slot};
use crate::policy::{DestagePolicy, PageWrite};
use crate::request::PageRange;
use crate::sequential::{Classified, Detector};
use crate::units::{GroupId, Page};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// What one admitted write request did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Pages that were held.
    pub page_hits: u64,
    /// Pages whose group existed before the request.
    pub group_hits: u64,
    /// Pages that were not held.
    pub new_pages: u64,
}

/// A group taken for destage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Picked {
    /// The group.
    pub group: GroupId,
    /// Its pages.
    pub pages: u64,
    /// Whether its last written page was sequential.
    pub sequential: bool,
}

/// Directory, detector and policy.
pub struct WriteCache {
    /// What is held.
    pub directory: Directory,
    detector: Detector,
    policy: Box<dyn DestagePolicy>,
}

impl WriteCache {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        directory: Directory,
        detector: Detector,
        policy: Box<dyn DestagePolicy>,
    ) -> WriteCache {
        WriteCache { directory, detector, policy }
    }

    /// Shows an arriving write to the sequential detector.
    pub fn classify(&mut self, range: PageRange) -> Classified {
        self.detector.classify(range)
    }

    /// Writes all pages of a request. The caller has seen to it that they fit.
    pub fn admit(&mut self, range: PageRange, classified: Classified) -> Admitted {
        let mut admitted = Admitted::default();
        let per_group = self.directory.pages_per_group();
        let mut page = range.first.0;
        let end = range.end().0;
        while page < end {
            let group = self.directory.group_of(Page(page));
            let bit = page - self.directory.first_page(group).0;
            let stop = (page + per_group - bit).min(end);
            let first_sequential = range.first.0 + u64::from(classified.random);
            self.admit_segment(group, bit, page..stop, first_sequential, &mut admitted);
            page = stop;
        }
        self.policy.on_admitted(classified.sequential, self.directory.occupancy());
        admitted
    }

    fn admit_segment(
        &mut self,
        group: GroupId,
        first_bit: u64,
        pages: core::ops::Range<u64>,
        first_sequential: u64,
        admitted: &mut Admitted,
    ) {
        let last_bit = self.directory.pages_per_group() - 1;
        let mut slot: Option<Slot> = None;
        let mut existed = true;
        for (offset, page) in pages.enumerate() {
            let bit = first_bit + offset as u64;
            let sequential = page >= first_sequential;
            let written = self.directory.write(group, slot, bit, sequential);
            existed &= !written.created;
            slot = Some(written.slot);
            self.policy.on_write(&PageWrite {
                slot: written.slot,
                group,
                created: written.created,
                existed,
                page_hit: written.page_hit,
                sequential,
                last_page: bit == last_bit,
            });
            admitted.page_hits += u64::from(written.page_hit);
            admitted.new_pages += u64::from(!written.page_hit);
            admitted.group_hits += u64::from(existed);
        }
    }

    /// Picks a victim and takes it out of the held groups; its pages are in flight until
    /// [`Directory::release`]. `mask` receives its pages.
    pub fn pick(&mut self, mask: &mut Vec<u64>) -> Option<Picked> {
        if !self.directory.has_pickable() {
            return None;
        }
        let slot = self.policy.pick(&self.directory)?;
        let group = self.directory.id(slot);
        let sequential = self.directory.is_sequential(slot);
        let pages = self.directory.begin_destage(slot, mask);
        Some(Picked { group, pages, sequential })
    }

    /// Whether the next candidate is a sequential group.
    #[must_use]
    pub fn next_is_sequential(&self) -> bool {
        let candidate = self.policy.candidate(&self.directory);
        candidate.is_some_and(|slot| self.directory.is_sequential(slot))
    }
}
