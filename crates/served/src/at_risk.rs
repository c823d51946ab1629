//! Pages that a lost NVS had and the disks do not have yet, and the requests that wait for them.

use crate::pages::DirtyPages;
use crate::request::HostId;
use std::collections::HashSet;

/// What only memory has since the last NVS device was lost.
#[derive(Default)]
pub(crate) struct AtRisk {
    pages: HashSet<u64>,
    /// The newest write when the NVS was lost.
    through: u64,
    waits: Vec<HostId>,
}

impl AtRisk {
    /// The NVS is lost, and this was the newest write.
    pub(crate) fn begin(&mut self, through: u64, pages: &DirtyPages) {
        self.through = through;
        self.pages = pages.pages_through(through).collect();
    }

    /// Whether the disks have everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Whether this holds for any of the pages.
    pub(crate) fn any(&self, holds: impl Fn(u64) -> bool) -> bool {
        self.pages.iter().any(|page| holds(*page))
    }

    /// A copy of this page is gone: it is on the disks, or was trimmed.
    pub(crate) fn look_at(&mut self, page: u64, pages: &DirtyPages) {
        if !self.pages.is_empty() && !pages.is_through(page, self.through) {
            self.pages.remove(&page);
        }
    }

    /// Has a request wait until nothing is at risk.
    pub(crate) fn wait(&mut self, host: HostId) {
        self.waits.push(host);
    }

    /// Takes the requests that wait for nothing any more.
    pub(crate) fn take_done(&mut self) -> Vec<HostId> {
        if self.pages.is_empty() { self.take_waits() } else { Vec::new() }
    }

    /// Takes all requests that wait.
    pub(crate) fn take_waits(&mut self) -> Vec<HostId> {
        core::mem::take(&mut self.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::PageMemory;
    use crate::store::PAGE;
    use destage_nvslog::record::ALL_SECTORS;

    #[test]
    fn a_request_waits_until_the_disks_have_each_page_as_it_was_or_newer() {
        let mut pages = DirtyPages::new(PageMemory::default());
        let put = |pages: &mut DirtyPages, page, version| {
            pages.put(page, version, &[version as u8; PAGE], ALL_SECTORS);
        };
        put(&mut pages, 5, 1);
        put(&mut pages, 6, 2);
        let mut at_risk = AtRisk::default();
        at_risk.begin(2, &pages);
        at_risk.wait(HostId(9));
        put(&mut pages, 5, 3);
        pages.freeze(5);
        put(&mut pages, 5, 4);
        at_risk.look_at(5, &pages);
        assert!(at_risk.any(|page| page == 5), "it is being destaged");
        pages.release(5);
        at_risk.look_at(5, &pages);
        assert!(!at_risk.any(|page| page == 5), "the disks have what was acknowledged");
        assert!(at_risk.take_done().is_empty());
        pages.drop_current(6);
        at_risk.look_at(6, &pages);
        assert_eq!(at_risk.take_done(), [HostId(9)]);
        assert!(at_risk.is_empty() && at_risk.take_done().is_empty());
    }
}
