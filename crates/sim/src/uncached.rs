//! An array without a cache, to compare with: a write is answered when its pages are durable on the
//! disks, and destaged at once.

use destage_engine::nvs::directory::Directory;
use destage_engine::request::{PageRange, RequestId};

/// Writes that wait for the disks.
#[derive(Default)]
pub(crate) struct Uncached {
    waiting: Vec<(RequestId, PageRange)>,
}

impl Uncached {
    /// A write waits until none of its pages is in memory any more.
    pub(crate) fn add(&mut self, id: RequestId, range: PageRange) {
        self.waiting.push((id, range));
    }

    /// Takes the writes that are on the disks.
    pub(crate) fn take_written(&mut self, directory: &Directory) -> Vec<RequestId> {
        let held = |range: &PageRange| {
            (0..u64::from(range.pages)).any(|i| directory.holds_some_of(range.first.offset(i)))
        };
        let done = self.waiting.extract_if(.., |(_, range)| !held(range));
        done.map(|(id, _)| id).collect()
    }
}
