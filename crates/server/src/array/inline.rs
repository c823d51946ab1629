//! Members on tmpfs: their operations wait for no device, so they are done here, a few in each
//! turn, after the answers of that turn. Over the ring each would take a thread of the kernel's.

use super::remote::Ended;
use destage_served::{Buffer, IoError, OpId, OpKind};
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Fewest operations of a turn that does some.
const SOME: usize = 4;

/// Operations to be done, in the order in which they were asked for.
#[derive(Default)]
pub(crate) struct Backlog {
    queue: VecDeque<(OpId, Arc<File>, OpKind)>,
    /// Requests since operations were last done.
    requests: usize,
    /// None were done in the last turn, for the requests that came in it.
    put_off: bool,
}

impl Backlog {
    pub(crate) fn push(&mut self, id: OpId, file: Arc<File>, kind: OpKind) {
        self.queue.push_back((id, file, kind));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A request has come: its answer goes out first.
    pub(crate) fn requested(&mut self) {
        self.requests += 1;
    }

    /// How many operations are due in this turn: none in one with requests if the last one had
    /// some done, else as many as there were requests, so that members keep up with clients.
    pub(crate) fn due(&mut self) -> usize {
        if self.queue.is_empty() {
            (self.requests, self.put_off) = (0, false);
            return 0;
        }
        if self.requests > 0 && !self.put_off {
            self.put_off = true;
            return 0;
        }
        self.put_off = false;
        let due = core::mem::take(&mut self.requests).max(SOME);
        due.min(self.queue.len())
    }

    /// Does the next operation.
    pub(crate) fn next(&mut self) -> Option<Ended> {
        let (id, file, kind) = self.queue.pop_front()?;
        Some((id, carry_out(&file, kind)))
    }
}

fn carry_out(file: &File, kind: OpKind) -> Result<Option<Buffer>, IoError> {
    let done = match kind {
        OpKind::Read { offset, bytes } => {
            let mut buffer = Buffer::zeroed(bytes);
            file.read_exact_at(&mut buffer, offset).map(|()| Some(buffer))
        }
        OpKind::Write { offset, buffer, .. } => file.write_all_at(&buffer, offset).map(|()| None),
        // What is written there is as durable as it can be.
        OpKind::Flush => Ok(None),
    };
    done.map_err(|error| IoError::from_std(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_go_first_and_members_keep_up() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.due(), 0);
        let file = Arc::new(tempfile::tempfile().unwrap());
        (0..100).for_each(|id| backlog.push(OpId(id), Arc::clone(&file), OpKind::Flush));
        backlog.requested();
        assert_eq!(backlog.due(), 0, "the answer goes out");
        assert_eq!(backlog.due(), SOME);
        (0..32).for_each(|_| backlog.requested());
        assert_eq!(backlog.due(), 0);
        (0..32).for_each(|_| backlog.requested());
        assert_eq!(backlog.due(), 64, "there is always another request");
        let ended: Vec<u64> = core::iter::from_fn(|| backlog.next()).map(|(id, _)| id.0).collect();
        assert_eq!(ended, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_member_that_ends_early_is_gone() {
        let file = tempfile::tempfile().unwrap();
        let write = |offset, bytes: &[u8]| OpKind::Write {
            offset,
            buffer: Buffer::copy_of(bytes).into(),
            durable: false,
        };
        assert_eq!(carry_out(&file, write(512, &[7; 512])).map(|_| ()), Ok(()));
        let read = carry_out(&file, OpKind::Read { offset: 512, bytes: 512 });
        assert_eq!(read.unwrap().unwrap()[..], [7; 512]);
        let past = carry_out(&file, OpKind::Read { offset: 768, bytes: 512 });
        assert_eq!(past.map(|_| ()), Err(IoError::SHORT));
    }
}
