//! Requests: those of the host, the parts of them that the engine knows as requests, and their
//! replies.

use crate::disk_waits::DiskWaits;
use crate::partial::PartialPages;
use crate::reads::ReadOp;
use crate::request::{Answer, HostId, Refusal, Reply, Ticket};
use crate::slab::Slab;
use destage_engine::request::{PageRange, RequestId};
use destage_engine::units::Page;
use std::collections::{BTreeSet, VecDeque};

/// Most pages of one part of a write: what a commit takes.
const PART_PAGES: u64 = 256;

/// Pages of a write that are admitted at once, with an NVS of this many pages.
#[must_use]
pub fn part_pages(nvs_pages: u64) -> u64 {
    PART_PAGES.min(nvs_pages / 4).max(1)
}

/// A request of the host.
struct HostOp {
    ticket: Ticket,
    /// Parts that are not done, and one while it is submitted.
    pending: u32,
    error: Option<Refusal>,
    /// It has to be durable before it is answered.
    durable: bool,
    answer: Option<Answer>,
    /// Parts that are started one after another.
    later: Later,
}

/// What is left of a request that is carried out in parts, one after another.
#[derive(Default)]
pub(crate) enum Later {
    /// Nothing.
    #[default]
    Nothing,
    /// These pages become zeros, at most this many at a time.
    Zeros(core::ops::Range<u64>, u64),
    /// These are trimmed.
    Trims(VecDeque<PageRange>),
}

impl Later {
    /// Takes the next part.
    fn next(&mut self) -> Option<Range> {
        match self {
            Later::Nothing => None,
            Later::Zeros(pages, most) => {
                let range =
                    PageRange::new(Page(pages.start), (*most).min(pages.end - pages.start) as u32);
                pages.start = range.end().0;
                (range.pages > 0).then_some(Range::Zero(range))
            }
            Later::Trims(ranges) => ranges.pop_front().map(Range::Trim),
        }
    }
}

/// A part of a host request that zeros or trims pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    Zero(PageRange),
    Trim(PageRange),
}

/// What has to be done for a host request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: it waits for its other parts, or is answered.
    Nothing,
    /// Its next part can start.
    Start(Range),
    /// It has to become durable, and be reported as one more part.
    MakeDurable,
}

/// What the engine knows as one request.
pub(crate) enum EngineOp {
    /// A write of a range's pages.
    Write(WriteOp),
    /// A trim.
    Discard {
        /// The request that it is a part of.
        host: HostId,
        /// Its pages.
        range: PageRange,
    },
    /// A read.
    Read(ReadOp),
}

/// A write of pages, as the engine knows it.
pub(crate) struct WriteOp {
    pub(crate) host: HostId,
    pub(crate) range: PageRange,
    /// First byte in the first page.
    pub(crate) skip: usize,
    pub(crate) bytes: WriteBytes,
    /// Once it is logged: whether of its first page, and of its last, the NVS has only some
    /// sectors.
    pub(crate) in_part: (bool, bool),
    /// Pages that have to be completed before.
    pub(crate) incomplete: u32,
}

/// The bytes of a write, until they are logged.
pub(crate) enum WriteBytes {
    Zeros,
    /// The caller's, for as long as the call lasts.
    Borrowed,
    /// A copy, for a write that has to wait.
    Owned(Vec<u8>),
}

/// Requests that are not answered yet, and the replies to others.
#[derive(Default)]
pub(crate) struct Requests {
    hosts: Slab<HostOp>,
    ops: Slab<EngineOp>,
    replies: Vec<Reply>,
    /// Pages that are completed before a write to a part of a sector.
    pub(crate) partial: PartialPages,
    /// Requests that are answered when pages are on the disks.
    pub(crate) disk_waits: DiskWaits,
}

impl Requests {
    /// A new request, held open by one part until that is reported as done.
    pub(crate) fn begin(&mut self, ticket: Ticket, durable: bool) -> HostId {
        let (error, answer, later) = (None, None, Later::Nothing);
        HostId(self.hosts.insert(HostOp { ticket, pending: 1, error, durable, answer, later }))
    }

    /// Requests that are not answered yet.
    pub(crate) fn unanswered(&self) -> usize {
        self.hosts.len()
    }

    pub(crate) fn add_part(&mut self, host: HostId) {
        self.hosts.get_mut(host.0).pending += 1;
    }

    /// A part of a request is done. After the last part the request is answered, unless it has to
    /// become durable first.
    pub(crate) fn part_done(&mut self, host: HostId, error: Option<Refusal>) -> Next {
        // It may have been refused in the meantime, when the array stopped.
        let Some(op) = self.hosts.get_if(host.0) else { return Next::Nothing };
        op.error = op.error.or(error);
        op.pending -= 1;
        if op.pending > 0 {
            return Next::Nothing;
        }
        if let Some(range) = op.later.next() {
            op.pending += 1;
            return Next::Start(range);
        }
        if core::mem::take(&mut op.durable) && op.error.is_none() {
            op.pending = 1;
            return Next::MakeDurable;
        }
        let HostOp { ticket, error, answer, .. } = self.hosts.remove(host.0);
        let result = error.map_or(Ok(answer.unwrap_or(Answer::Done)), Err);
        self.replies.push(Reply { ticket, result });
        Next::Nothing
    }

    /// Gives a request parts that are started one after another; returns the first.
    pub(crate) fn start_ranges(&mut self, host: HostId, ranges: Later) -> Option<Range> {
        let op = self.hosts.get_mut(host.0);
        op.later = ranges;
        let first = op.later.next()?;
        op.pending += 1;
        Some(first)
    }

    /// Sets the answer that a request gets when it is done; whether it still waits for one.
    pub(crate) fn set_answer(&mut self, host: HostId, answer: Answer) -> bool {
        let op = self.hosts.get_if(host.0);
        op.map(|op| op.answer = Some(answer)).is_some()
    }

    /// The request has to be durable before it is answered.
    pub(crate) fn require_durable(&mut self, host: HostId) {
        self.hosts.get_mut(host.0).durable = true;
    }

    /// Whether it is not answered yet.
    pub(crate) fn is_unanswered(&self, host: HostId) -> bool {
        self.hosts.get(host.0).is_some()
    }

    pub(crate) fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        self.replies.push(Reply { ticket, result: Err(refusal) });
    }

    /// Nobody waits for the answers to these requests any more: no further part of them begins by
    /// itself. The writes and trims of them that are not answered.
    pub(crate) fn withdraw(&mut self, tickets: &BTreeSet<Ticket>) -> Vec<RequestId> {
        let of_them = |(host, op): (u64, &HostOp)| tickets.contains(&op.ticket).then_some(host);
        let hosts: BTreeSet<u64> = self.hosts.iter().filter_map(of_them).collect();
        for host in &hosts {
            let op = self.hosts.get_mut(*host);
            op.later = Later::Nothing;
            op.durable = false;
        }
        let parts = self.ops.iter().filter(|(_, op)| match op {
            EngineOp::Write(WriteOp { host, .. }) | EngineOp::Discard { host, .. } => {
                hosts.contains(&host.0)
            }
            EngineOp::Read(_) => false,
        });
        parts.map(|(id, _)| RequestId(id)).collect()
    }

    /// Refuses all requests: the array has stopped.
    pub(crate) fn refuse_all(&mut self, refusal: Refusal) {
        for HostOp { ticket, .. } in self.hosts.drain() {
            self.refuse(ticket, refusal);
        }
    }

    pub(crate) fn take_replies(&mut self, into: &mut Vec<Reply>) {
        into.append(&mut self.replies);
    }

    pub(crate) fn insert(&mut self, op: EngineOp) -> RequestId {
        RequestId(self.ops.insert(op))
    }

    pub(crate) fn op(&mut self, id: RequestId) -> &mut EngineOp {
        self.ops.get_mut(id.0)
    }

    pub(crate) fn remove(&mut self, id: RequestId) -> EngineOp {
        self.ops.remove(id.0)
    }

    /// A write that the engine has not answered.
    pub(crate) fn write(&mut self, id: RequestId) -> Option<&mut WriteOp> {
        match self.ops.get_if(id.0) {
            Some(EngineOp::Write(write)) => Some(write),
            _ => None,
        }
    }

    /// A read that the engine has not answered.
    ///
    /// # Panics
    /// If it is not a read.
    pub(crate) fn read(&mut self, id: RequestId) -> &mut ReadOp {
        match self.ops.get_mut(id.0) {
            EngineOp::Read(read) => read,
            _ => unreachable!("not a read"),
        }
    }

    /// Takes a read out for a moment.
    pub(crate) fn take_read(&mut self, id: RequestId) -> ReadOp {
        core::mem::replace(self.read(id), ReadOp::empty())
    }

    /// Copies the bytes of a write that is not logged yet: the caller's are about to go.
    pub(crate) fn own_bytes(&mut self, id: RequestId, bytes: &[u8]) {
        if let Some(WriteOp { bytes: own @ WriteBytes::Borrowed, .. }) = self.write(id) {
            *own = WriteBytes::Owned(bytes.to_vec());
        }
    }

    /// Whether this is a write of which pages have to be completed before.
    pub(crate) fn is_incomplete(&self, id: RequestId) -> bool {
        matches!(self.ops.get(id.0), Some(EngineOp::Write(write)) if write.incomplete > 0)
    }

    /// One page less to be completed; the write's range if it was the last.
    pub(crate) fn one_completed(&mut self, id: RequestId) -> Option<PageRange> {
        let write = self.write(id).filter(|write| write.incomplete > 0)?;
        write.incomplete -= 1;
        (write.incomplete == 0).then_some(write.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replies(requests: &mut Requests) -> Vec<(Ticket, bool)> {
        let mut replies = Vec::new();
        requests.take_replies(&mut replies);
        replies.into_iter().map(|reply| (reply.ticket, reply.result.is_ok())).collect()
    }

    #[test]
    fn a_request_is_answered_after_its_last_part_and_with_any_parts_error() {
        let mut requests = Requests::default();
        let host = requests.begin(7, true);
        requests.add_part(host);
        assert_eq!(requests.part_done(host, Some(Refusal::Unreadable)), Next::Nothing);
        assert!(replies(&mut requests).is_empty());
        assert_eq!(requests.part_done(host, None), Next::Nothing);
        assert_eq!(replies(&mut requests), [(7, false)]);
    }

    #[test]
    fn a_durable_request_is_answered_after_it_was_made_durable() {
        let mut requests = Requests::default();
        let host = requests.begin(8, true);
        assert_eq!(requests.part_done(host, None), Next::MakeDurable);
        assert_eq!(requests.unanswered(), 1);
        assert_eq!(requests.part_done(host, None), Next::Nothing);
        assert_eq!(replies(&mut requests), [(8, true)]);
    }

    /// It read what a crash could still take back.
    #[test]
    fn a_request_may_have_to_wait_until_what_it_shows_is_durable() {
        let mut requests = Requests::default();
        let host = requests.begin(8, false);
        requests.require_durable(host);
        assert_eq!(requests.part_done(host, None), Next::MakeDurable);
        assert!(replies(&mut requests).is_empty());
        assert_eq!(requests.part_done(host, None), Next::Nothing);
        assert_eq!(replies(&mut requests), [(8, true)]);
    }

    #[test]
    fn ranges_start_one_after_another() {
        let mut requests = Requests::default();
        let host = requests.begin(9, false);
        let range = |page, pages| Range::Zero(PageRange::new(Page(page), pages));
        let started = requests.start_ranges(host, Later::Zeros(10..17, 4));
        assert_eq!(started, Some(range(10, 4)));
        assert_eq!(requests.part_done(host, None), Next::Nothing, "submitted");
        assert_eq!(requests.part_done(host, None), Next::Start(range(14, 3)));
        assert_eq!(requests.part_done(host, None), Next::Nothing);
        assert_eq!(replies(&mut requests), [(9, true)]);
    }

    #[test]
    fn what_was_withdrawn_begins_no_further_part() {
        let mut requests = Requests::default();
        let hosts = [1, 2].map(|ticket| requests.begin(ticket, true));
        for host in hosts {
            requests.start_ranges(host, Later::Zeros(0..8, 4));
        }
        let part = |host| EngineOp::Discard { host, range: PageRange::new(Page(0), 4) };
        let [first, _] = hosts.map(|host| requests.insert(part(host)));
        assert_eq!(requests.withdraw(&[1].into()), [first]);
        for (host, next) in hosts
            .into_iter()
            .zip([Next::Nothing, Next::Start(Range::Zero(PageRange::new(Page(4), 4)))])
        {
            assert_eq!(requests.part_done(host, None), Next::Nothing, "submitted");
            assert_eq!(requests.part_done(host, None), next);
        }
        assert_eq!(replies(&mut requests), [(1, true)]);
    }

    #[test]
    fn what_was_refused_when_the_array_stopped_is_not_answered_again() {
        let mut requests = Requests::default();
        let host = requests.begin(1, false);
        assert!(requests.is_unanswered(host) && requests.set_answer(host, Answer::Done));
        requests.refuse_all(Refusal::Stopped);
        assert!(!requests.is_unanswered(host) && !requests.set_answer(host, Answer::Done));
        assert_eq!(requests.part_done(host, None), Next::Nothing);
        assert_eq!(replies(&mut requests), [(1, false)]);
    }

    #[test]
    fn a_write_begins_when_the_last_of_its_pages_is_complete() {
        let mut requests = Requests::default();
        let host = requests.begin(1, false);
        let (range, bytes) = (PageRange::new(Page(3), 2), WriteBytes::Borrowed);
        let write = WriteOp { host, range, skip: 0, bytes, in_part: (false, false), incomplete: 2 };
        let id = requests.insert(EngineOp::Write(write));
        requests.own_bytes(id, &[5, 6]);
        let own = |write: &mut WriteOp| match &write.bytes {
            WriteBytes::Owned(bytes) => bytes.clone(),
            _ => Vec::new(),
        };
        assert_eq!(requests.write(id).map(own), Some(vec![5, 6]));
        assert!(requests.is_incomplete(id));
        assert_eq!(requests.one_completed(id), None, "there is another");
        assert_eq!(requests.one_completed(id), Some(range));
        assert!(!requests.is_incomplete(id));
        assert_eq!(requests.one_completed(id), None, "it has begun");
    }

    /// A commit takes 256 pages, and of a small NVS a quarter.
    #[test]
    fn parts_of_a_write_are_no_larger_than_a_commit_or_a_quarter_of_the_nvs() {
        let parts = [1, 4, 9, 1023, 1024, 5000].map(part_pages);
        assert_eq!(parts, [1, 1, 2, 255, 256, 256]);
    }
}
