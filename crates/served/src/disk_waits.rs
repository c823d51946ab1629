//! Requests that are answered when pages are on the disks: without an NVS, writes are written
//! through.

use crate::request::HostId;

/// What becomes of a wait for a page that is kept, since no destage can compute it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfKept {
    /// The request is refused.
    Refused,
    /// It waits for its other pages: whoever wrote this one was refused.
    LeftOut,
}

struct DiskWait {
    host: HostId,
    if_kept: IfKept,
    /// The pages that are not on the disks yet, each with the oldest write that suffices.
    pages: Vec<(u64, u64)>,
}

/// Requests that wait for the disks.
#[derive(Default)]
pub(crate) struct DiskWaits {
    waits: Vec<DiskWait>,
}

impl DiskWaits {
    /// Has a request wait until these pages are on the disks, as the write of this version left
    /// them or a later one.
    pub(crate) fn add(&mut self, host: HostId, pages: Vec<(u64, u64)>, if_kept: IfKept) {
        self.waits.push(DiskWait { host, if_kept, pages });
    }

    /// A page is on the disks as the write of this version left it, or need not be.
    pub(crate) fn page_written(&mut self, page: u64, version: u64) {
        for wait in &mut self.waits {
            wait.pages.retain(|(waits, least)| *waits != page || *least > version);
        }
    }

    /// Takes the requests that wait for nothing any more, or all.
    pub(crate) fn take_done(&mut self, all: bool) -> Vec<HostId> {
        self.take(|wait| all || wait.pages.is_empty())
    }

    /// These pages are kept. Takes the requests that are refused for it.
    pub(crate) fn take_refused(&mut self, kept: impl Fn(u64) -> bool) -> Vec<HostId> {
        for wait in self.waits.iter_mut().filter(|wait| wait.if_kept == IfKept::LeftOut) {
            wait.pages.retain(|(page, _)| !kept(*page));
        }
        self.take(|wait| wait.pages.iter().any(|(page, _)| kept(*page)))
    }

    fn take(&mut self, which: impl Fn(&DiskWait) -> bool) -> Vec<HostId> {
        self.waits.extract_if(.., |wait| which(wait)).map(|wait| wait.host).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::Requests;

    #[test]
    fn a_request_waits_for_each_of_its_pages_as_it_was_written_or_newer() {
        let mut requests = Requests::default();
        let hosts = [requests.begin(1, false), requests.begin(2, false)];
        let mut waits = DiskWaits::default();
        waits.add(hosts[0], vec![(5, 10), (6, 11)], IfKept::Refused);
        waits.add(hosts[1], vec![(6, 12)], IfKept::Refused);
        waits.page_written(6, 11);
        waits.page_written(5, 9);
        assert!(waits.take_done(false).is_empty(), "page 5 is on the disks as it was before");
        waits.page_written(5, 12);
        assert_eq!(waits.take_done(false), [hosts[0]]);
        assert_eq!(waits.take_refused(|page| page == 6), [hosts[1]]);
        assert!(waits.waits.is_empty());
    }

    #[test]
    fn a_request_that_leaves_out_what_is_kept_waits_for_the_rest() {
        let mut requests = Requests::default();
        let host = requests.begin(1, false);
        let mut waits = DiskWaits::default();
        waits.add(host, vec![(5, 10), (6, 11)], IfKept::LeftOut);
        assert!(waits.take_refused(|page| page == 6).is_empty());
        assert!(waits.take_done(false).is_empty());
        assert!(waits.take_refused(|page| page == 5).is_empty());
        assert_eq!(waits.take_done(false), [host]);
    }
}
