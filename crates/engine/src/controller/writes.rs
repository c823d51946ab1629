//! Admission of writes: appends to the NVS in flight, and writes that wait for space.

use crate::destage::Destager;
use crate::event::Action;
use crate::nvs::directory::{Directory, Slot};
use crate::request::{HostRequest, PageRange, RequestId};
use crate::sequential::Classified;
use crate::units::GroupId;
use crate::writecache::WriteCache;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// A write, or a discard, which is appended to the NVS like a write but needs no space.
#[derive(Clone, Copy)]
pub(super) struct Write {
    pub(super) request: HostRequest,
    /// `None`: a discard.
    pub(super) classified: Option<Classified>,
}

/// A write whose append is not durable yet.
struct Append {
    write: Write,
    /// Pages reserved for it.
    missing: u64,
    pinned: Vec<Slot>,
}

/// Writes that are not acknowledged yet.
#[derive(Default)]
pub(super) struct Writes {
    /// For space, in the order of arrival.
    waiting: VecDeque<Write>,
    appends: VecDeque<Append>,
}

impl Writes {
    /// How many wait for space.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Appends a write that has just arrived, or lets it wait. Returns whether it waits.
    pub(super) fn arrive(
        &mut self,
        write: Write,
        cache: &mut WriteCache,
        destager: &mut Destager,
        actions: &mut Vec<Action>,
    ) -> bool {
        let missing = missing(&write, &cache.directory);
        // A write that needs no space may pass those that wait for it; a discard may not.
        let passes = missing == 0 && write.classified.is_some();
        let first_in_line = self.waiting.is_empty() || passes;
        let appends = first_in_line && fits(&write, missing, &cache.directory);
        if appends {
            self.append(write, missing, cache, destager, actions);
        } else {
            self.waiting.push_back(write);
        }
        !appends
    }

    /// Appends the writes that have waited and now fit, in order.
    pub(super) fn admit_waiting(
        &mut self,
        cache: &mut WriteCache,
        destager: &mut Destager,
        actions: &mut Vec<Action>,
    ) {
        while let Some(write) = self.waiting.front().copied() {
            let missing = missing(&write, &cache.directory);
            if !fits(&write, missing, &cache.directory) {
                return;
            }
            self.waiting.pop_front();
            self.append(write, missing, cache, destager, actions);
        }
    }

    /// Takes out those that wait and that nobody waits for any more.
    pub(super) fn withdraw(&mut self, gone: &mut dyn FnMut(RequestId) -> bool) -> Vec<RequestId> {
        let mut taken = Vec::new();
        self.waiting.retain(|write| {
            let id = write.request.id;
            let is_gone = gone(id);
            if is_gone {
                taken.push(id);
            }
            !is_gone
        });
        taken
    }

    fn append(
        &mut self,
        write: Write,
        missing: u64,
        cache: &mut WriteCache,
        destager: &mut Destager,
        actions: &mut Vec<Action>,
    ) {
        let HostRequest { id, range, .. } = write.request;
        let pinned = cache.directory.reserve(missing, range.first, range.pages);
        destager.on_occupancy(cache.directory.occupancy());
        actions.push(Action::NvsAppend { id, range });
        self.appends.push_back(Append { write, missing, pinned });
    }

    /// The oldest append is durable: takes it out, and back what was reserved for it.
    pub(super) fn durable(&mut self, id: RequestId, directory: &mut Directory) -> Write {
        let append = self.appends.pop_front().expect("an append is in flight");
        assert_eq!(append.write.request.id, id, "appends complete in order");
        directory.unreserve(append.missing, &append.pinned);
        append.write
    }

    /// Keeps groups just created from being picked while later appends to them are pending. The log
    /// has those already, and an intent must not come after what it does not cover. The last of
    /// these appends releases the group, because appends complete in order.
    pub(super) fn pin_for_later_appends(&mut self, created: PageRange, directory: &mut Directory) {
        let per_group = directory.pages_per_group();
        let first = created.first.0 / per_group;
        for group in first..=(created.end().0 - 1) / per_group {
            let pages = group * per_group..(group + 1) * per_group;
            let meets = |append: &Append| {
                let range = append.write.request.range;
                range.first.0 < pages.end && pages.start < range.end().0
            };
            if let Some(last) = self.appends.iter().rposition(meets) {
                let slot = directory.find(GroupId(group)).expect("just written");
                self.appends[last].pinned.extend(directory.pin_if_free(slot));
            }
        }
    }
}

/// Pages that a write needs room for.
fn missing(write: &Write, directory: &Directory) -> u64 {
    let PageRange { first, pages } = write.request.range;
    write.classified.map_or(0, |_| directory.missing(first, pages))
}

fn fits(write: &Write, missing: u64, directory: &Directory) -> bool {
    let PageRange { first, pages } = write.request.range;
    missing <= directory.free_pages() && directory.can_pin(first, pages)
}
