//! Pages that are written in part: what they hold besides is read first. Writes to the same page
//! share that read.

use crate::Buffer;
use crate::request::Refusal;
use crate::store::PageMap;
use destage_engine::request::RequestId;

/// A page written in part.
#[derive(Default)]
struct PartialPage {
    /// Distinguishes it from an earlier completion of the same page.
    number: u64,
    /// The page as it is now, once that is known.
    bytes: Option<Buffer>,
    /// Writes that wait for it, or are not logged yet.
    users: Vec<RequestId>,
}

/// Pages that are being completed.
#[derive(Default)]
pub(crate) struct PartialPages {
    pages: PageMap<PartialPage>,
    /// How many there have been.
    started: u64,
}

/// What a write to a part of a page waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    /// Nothing: the page is known.
    Known,
    /// A read that is in flight.
    Waits,
    /// A read that has to be made, under this number.
    Read(u64),
}

/// What a completing read means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// Nothing: the page was written in the meantime, which is newer. It may even be on the disks
    /// since, and another write be waiting for a read of its own.
    Overtaken,
    /// These writes have one page less to wait for.
    Known(Vec<RequestId>),
    /// The page cannot be read: these writes fail.
    Failed(Vec<RequestId>, Refusal),
}

impl PartialPages {
    /// A write needs the page completed. `newest`: its bytes, if it is in memory.
    pub(crate) fn complete(
        &mut self,
        page: u64,
        user: RequestId,
        newest: impl FnOnce() -> Option<Buffer>,
    ) -> Completion {
        let known = self.pages.contains_key(&page);
        let partial = self.pages.entry(page).or_default();
        partial.users.push(user);
        if !known {
            self.started += 1;
            (partial.number, partial.bytes) = (self.started, newest());
        }
        match (&partial.bytes, known) {
            (Some(_), _) => Completion::Known,
            (None, true) => Completion::Waits,
            (None, false) => Completion::Read(partial.number),
        }
    }

    /// The read of this number is done.
    pub(crate) fn read_done(
        &mut self,
        page: u64,
        number: u64,
        result: Result<Buffer, Refusal>,
    ) -> Completed {
        let partial = self.pages.get_mut(&page);
        let waits = partial.filter(|partial| partial.bytes.is_none() && partial.number == number);
        let Some(partial) = waits else { return Completed::Overtaken };
        match result {
            Ok(bytes) => {
                partial.bytes = Some(bytes);
                Completed::Known(partial.users.clone())
            }
            Err(error) => {
                let users = core::mem::take(&mut partial.users);
                self.pages.remove(&page);
                Completed::Failed(users, error)
            }
        }
    }

    /// A whole page was written: later partial writes build on it, whatever the disks still hold.
    /// Returns the writes that waited for it.
    pub(crate) fn page_written(&mut self, page: u64, bytes: &[u8]) -> Vec<RequestId> {
        if self.pages.is_empty() {
            return Vec::new();
        }
        let Some(partial) = self.pages.get_mut(&page) else { return Vec::new() };
        let waited = partial.bytes.replace(Buffer::copy_of(bytes)).is_none();
        if waited { partial.users.clone() } else { Vec::new() }
    }

    /// The page's bytes, once they are known.
    pub(crate) fn bytes(&self, page: u64) -> Option<&[u8]> {
        self.pages.get(&page).and_then(|partial| partial.bytes.as_deref())
    }

    /// A write needs the page no longer.
    pub(crate) fn leave(&mut self, page: u64, user: RequestId) {
        if let Some(partial) = self.pages.get_mut(&page) {
            partial.users.retain(|other| *other != user);
            if partial.users.is_empty() {
                self.pages.remove(&page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: RequestId = RequestId(1);
    const SECOND: RequestId = RequestId(2);

    fn bytes(value: u8) -> Buffer {
        Buffer::copy_of(&[value; 8])
    }

    #[test]
    fn writes_to_a_page_share_one_read() {
        let mut partial = PartialPages::default();
        assert_eq!(partial.complete(9, FIRST, || None), Completion::Read(1));
        assert_eq!(partial.complete(9, SECOND, || None), Completion::Waits);
        let done = partial.read_done(9, 1, Ok(bytes(3)));
        assert_eq!(done, Completed::Known(vec![FIRST, SECOND]));
        assert_eq!(partial.bytes(9).map(|bytes| bytes[0]), Some(3));
        partial.leave(9, FIRST);
        partial.leave(9, SECOND);
        assert!(partial.bytes(9).is_none());
        assert_eq!(partial.complete(9, FIRST, || Some(bytes(4))), Completion::Known);
    }

    #[test]
    fn a_page_that_was_written_overtakes_its_read() {
        let mut partial = PartialPages::default();
        partial.complete(9, FIRST, || None);
        assert_eq!(partial.page_written(9, &[5; 8]), [FIRST]);
        assert_eq!(partial.read_done(9, 1, Ok(bytes(3))), Completed::Overtaken);
        assert_eq!(partial.bytes(9).map(|bytes| bytes[0]), Some(5));
        partial.leave(9, FIRST);
        partial.complete(9, SECOND, || None);
        assert_eq!(partial.read_done(9, 1, Ok(bytes(3))), Completed::Overtaken, "an older read");
        let failed = partial.read_done(9, 2, Err(Refusal::Unreadable));
        assert_eq!(failed, Completed::Failed(vec![SECOND], Refusal::Unreadable));
    }
}
