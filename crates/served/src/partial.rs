//! Writes that begin or end inside a sector: what the sector's page holds besides is read first.
//! Writes to the same page share that read. Only clients that negotiated no block size send them.

use crate::Buffer;
use crate::pages::copy_sectors;
use crate::request::Refusal;
use crate::store::{PAGE, PageMap};
use destage_engine::request::RequestId;
use destage_nvslog::record::ALL_SECTORS;

/// A page that is being completed.
#[derive(Default)]
struct PartialPage {
    /// Distinguishes it from an earlier completion of the same page.
    number: u64,
    /// The page as it is now, once that is known.
    bytes: Option<Buffer>,
    /// Until then: sectors that were written since its read began, and which.
    newer: Option<(Buffer, u8)>,
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
            Ok(mut bytes) => {
                if let Some((newer, sectors)) = partial.newer.take() {
                    copy_sectors(&newer, sectors, &mut bytes);
                }
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

    /// Sectors of a page were written: what it is completed with has them, whatever the disks
    /// still hold. Returns the writes that no longer wait for the read.
    pub(crate) fn written(&mut self, page: u64, bytes: &[u8], sectors: u8) -> Vec<RequestId> {
        if self.pages.is_empty() {
            return Vec::new();
        }
        let Some(partial) = self.pages.get_mut(&page) else { return Vec::new() };
        if let Some(known) = &mut partial.bytes {
            copy_sectors(bytes, sectors, known);
            return Vec::new();
        }
        let newer = partial.newer.get_or_insert_with(|| (Buffer::zeroed(PAGE), 0));
        copy_sectors(bytes, sectors, &mut newer.0);
        newer.1 |= sectors;
        if newer.1 != ALL_SECTORS {
            return Vec::new();
        }
        partial.bytes = partial.newer.take().map(|(bytes, _)| bytes);
        partial.users.clone()
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
        Buffer::copy_of(&[value; PAGE])
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
        assert_eq!(partial.written(9, &[5; PAGE], ALL_SECTORS), [FIRST]);
        assert_eq!(partial.read_done(9, 1, Ok(bytes(3))), Completed::Overtaken);
        assert_eq!(partial.bytes(9).map(|bytes| bytes[0]), Some(5));
        partial.leave(9, FIRST);
        partial.complete(9, SECOND, || None);
        assert_eq!(partial.read_done(9, 1, Ok(bytes(3))), Completed::Overtaken, "an older read");
        let failed = partial.read_done(9, 2, Err(Refusal::Unreadable));
        assert_eq!(failed, Completed::Failed(vec![SECOND], Refusal::Unreadable));
    }

    #[test]
    fn sectors_written_since_go_over_what_the_read_brings() {
        let mut partial = PartialPages::default();
        partial.complete(9, FIRST, || None);
        assert!(partial.written(9, &[5; PAGE], 1).is_empty());
        assert_eq!(partial.read_done(9, 1, Ok(bytes(3))), Completed::Known(vec![FIRST]));
        assert!(partial.written(9, &[6; PAGE], 2).is_empty());
        let now = partial.bytes(9).unwrap();
        assert_eq!([now[0], now[512], now[1024]], [5, 6, 3]);
    }
}
