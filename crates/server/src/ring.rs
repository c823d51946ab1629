//! The io_uring of the data thread: operations that own what the kernel reads or writes.
//!
//! Why its `unsafe` is sound: a [`Work`] moves into the ring's table when it is submitted, and out
//! of it only with its completion, so descriptors and memory outlive the kernel's use of them. A
//! ring that is dropped waits for the kernel, or leaks the table.
#![allow(unsafe_code)]

use destage_block::{Buffer, Piece, SharedBytes};
use io_uring::{IoUring, opcode, squeue, types};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An operation for the kernel. `from`: how much of the buffer is done already.
#[derive(Debug)]
pub(crate) enum Work {
    Accept {
        socket: Arc<OwnedFd>,
    },
    Receive {
        socket: Arc<OwnedFd>,
        buffer: Buffer,
        from: usize,
    },
    Send {
        socket: Arc<OwnedFd>,
        pieces: Vec<Piece>,
        from: usize,
    },
    Read {
        device: Arc<OwnedFd>,
        offset: u64,
        buffer: Buffer,
        from: usize,
    },
    Write {
        device: Arc<OwnedFd>,
        offset: u64,
        buffer: SharedBytes,
        from: usize,
        durable: bool,
    },
    Sync {
        device: Arc<OwnedFd>,
    },
    Readable {
        event: Arc<OwnedFd>,
    },
    /// Ends when the other end of a socket is closed, or sends no more.
    HangUp {
        socket: Arc<OwnedFd>,
    },
}

impl Work {
    fn is_durable_write(&self) -> bool {
        matches!(self, Work::Write { durable: true, .. })
    }
}

/// A [`Work`] that has ended.
#[derive(Debug)]
pub(crate) struct Completion<T> {
    pub(crate) tag: T,
    pub(crate) result: io::Result<usize>,
    pub(crate) work: Work,
    /// The connection of an accept.
    pub(crate) accepted: Option<OwnedFd>,
}

/// A message header and what it points to.
struct Message {
    header: libc::msghdr,
    _vectors: Vec<libc::iovec>,
}

struct InFlight<T> {
    tag: T,
    work: Work,
    /// Read by the kernel while the work is in flight.
    _message: Option<Box<Message>>,
}

/// The ring.
pub(crate) struct Ring<T> {
    io: IoUring,
    table: Vec<Option<InFlight<T>>>,
    free: Vec<usize>,
    /// Done while work was submitted.
    early: Vec<Completion<T>>,
    /// Longest time to poll for completions before sleeping.
    busy_poll: Duration,
    /// The last wait was so short that polling would have sufficed.
    brisk: bool,
    /// This wait may poll.
    may_poll: bool,
    /// Durable writes in flight. The next completion is probably one of them, which takes a
    /// device's time.
    durable_writes: usize,
}

const ENTRIES: u32 = 512;
/// Pieces that go into one send.
const VECTORS_MAX: usize = 256;
/// Longest part of a buffer that one operation moves: lengths are 32 bits there.
const PART_MAX: usize = 1 << 30;
/// Most threads of the kernel for operations on local devices that block: flushes, and whatever a
/// file system does not do at once. By default there are four per processor, and one device that
/// hangs (NFS, FUSE, a frozen file system) takes them all: healthy ones would count as stalled. It
/// takes as many as its window, 32 by default, and some for flushes, so this is enough for a dozen
/// such devices. A thread exists only while it is needed.
const WORKERS_MAX: u32 = 512;

impl<T> Ring<T> {
    /// A ring for the thread that calls: no other may use it.
    pub(crate) fn new() -> io::Result<Ring<T>> {
        let mut deferred = IoUring::builder();
        deferred.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
        deferred.setup_taskrun_flag();
        let mut cooperative = IoUring::builder();
        cooperative.setup_coop_taskrun().setup_taskrun_flag();
        let mut last = None;
        // Older kernels refuse flags that they do not know.
        for mut builder in [deferred, cooperative, IoUring::builder()] {
            match builder.setup_cqsize(8 * ENTRIES).build(ENTRIES) {
                Ok(io) if io.params().is_feature_ext_arg() && io.params().is_feature_nodrop() => {
                    // Kernels before 5.15 refuse, and keep their own limit.
                    let _ = io.submitter().register_iowq_max_workers(&mut [WORKERS_MAX, 0]);
                    return Ok(Ring {
                        io,
                        table: Vec::new(),
                        free: Vec::new(),
                        early: Vec::new(),
                        busy_poll: Duration::ZERO,
                        brisk: false,
                        may_poll: false,
                        durable_writes: 0,
                    });
                }
                Ok(_) => last = Some(io::Error::from(io::ErrorKind::Unsupported)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("three were tried"))
    }

    /// Submits an operation with the next [`Ring::wait`] or earlier.
    pub(crate) fn submit(&mut self, tag: T, mut work: Work) -> io::Result<()> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.table.push(None);
            self.table.len() - 1
        });
        let (entry, message) = entry(&mut work);
        let entry = entry.user_data(slot as u64);
        self.durable_writes += usize::from(work.is_durable_write());
        self.table[slot] = Some(InFlight { tag, work, _message: message });
        loop {
            // SAFETY: all that the entry points to is owned by the table until its completion.
            let pushed = unsafe { self.io.submission().push(&entry) };
            if pushed.is_ok() {
                return Ok(());
            }
            match self.io.submit() {
                Ok(_) => {}
                Err(error) if transient(&error) => {
                    // Older kernels take nothing while completions wait for room.
                    let mut early = std::mem::take(&mut self.early);
                    self.collect(&mut early);
                    self.early = early;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Polls for completions for up to this long before it sleeps, if the last ones came that
    /// soon. Waking takes longer than many clients need for their next request.
    pub(crate) fn set_busy_poll(&mut self, most: Duration) {
        self.busy_poll = most;
    }

    /// Polls for completions without sleeping; returns whether there are any.
    fn poll(&mut self, most: Duration) -> io::Result<bool> {
        if !self.io.submission().is_empty() {
            match self.io.submit() {
                Ok(_) => {}
                Err(error) if transient(&error) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        let begun = Instant::now();
        loop {
            // The kernel has completions to post, or has posted them.
            if self.io.submission().taskrun() || !self.io.completion().is_empty() {
                return Ok(true);
            }
            if begun.elapsed() >= most {
                return Ok(false);
            }
            std::hint::spin_loop();
        }
    }

    /// Waits for completions for at most this long, and appends them.
    pub(crate) fn wait(
        &mut self,
        most: Option<Duration>,
        done: &mut Vec<Completion<T>>,
    ) -> io::Result<()> {
        done.append(&mut self.early);
        let most = if done.is_empty() { most } else { Some(Duration::ZERO) };
        let may_sleep = most.is_none_or(|most| most > self.busy_poll);
        // To poll while a durable write is in flight would only take the processor from those who
        // carry it out.
        self.may_poll = self.busy_poll > Duration::ZERO && may_sleep && self.durable_writes == 0;
        if self.may_poll
            && self.brisk
            && self.poll(self.busy_poll)?
            && !self.io.completion().is_empty()
        {
            self.collect(done);
            return Ok(());
        }
        self.sleep(most, done)
    }

    /// Reports how long the last wait took, which decides whether the next one polls.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.brisk = self.may_poll && time < 2 * self.busy_poll;
    }

    fn sleep(&mut self, most: Option<Duration>, done: &mut Vec<Completion<T>>) -> io::Result<()> {
        let result = match most {
            Some(most) => {
                let time = types::Timespec::new().sec(most.as_secs()).nsec(most.subsec_nanos());
                let args = types::SubmitArgs::new().timespec(&time);
                self.io.submitter().submit_with_args(1, &args)
            }
            None => self.io.submit_and_wait(1),
        };
        match result {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIME) || transient(&error) => {}
            Err(error) => return Err(error),
        }
        self.collect(done);
        Ok(())
    }

    fn collect(&mut self, done: &mut Vec<Completion<T>>) {
        for event in self.io.completion() {
            let slot = event.user_data() as usize;
            let Some(InFlight { tag, work, .. }) = self.table[slot].take() else { continue };
            self.free.push(slot);
            self.durable_writes -= usize::from(work.is_durable_write());
            let result = match event.result() {
                failed if failed < 0 => Err(io::Error::from_raw_os_error(-failed)),
                count => Ok(count as usize),
            };
            let accepted = match (&work, &result) {
                // SAFETY: the kernel made this descriptor for us and nobody else knows it.
                (Work::Accept { .. }, Ok(fd)) => Some(unsafe { OwnedFd::from_raw_fd(*fd as i32) }),
                _ => None,
            };
            done.push(Completion { tag, result, work, accepted });
        }
    }

    /// Operations in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.table.len() - self.free.len()
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let _ = self.io.submit();
        let mut done = Vec::new();
        for _ in 0..20 {
            if self.in_flight() == 0 {
                return;
            }
            let time = types::Timespec::new().nsec(100_000_000);
            let _ =
                self.io.submitter().register_sync_cancel(Some(time), types::CancelBuilder::any());
            let _ = self.wait(Some(Duration::from_millis(100)), &mut done);
            done.clear();
        }
        // The kernel may still write to these buffers.
        std::mem::forget(std::mem::take(&mut self.table));
    }
}

fn transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY | libc::EAGAIN))
}

/// The submission queue's entry for an operation. Its pointers are to heap memory, which stays
/// where it is when the work moves.
fn entry(work: &mut Work) -> (squeue::Entry, Option<Box<Message>>) {
    let entry = match work {
        Work::Accept { socket } => {
            let null = std::ptr::null_mut();
            opcode::Accept::new(types::Fd(socket.as_raw_fd()), null, null.cast())
                .flags(libc::SOCK_CLOEXEC)
                .build()
        }
        Work::Receive { socket, buffer, from } => {
            let rest = &mut buffer[*from..];
            let len = rest.len().min(PART_MAX) as u32;
            opcode::Recv::new(types::Fd(socket.as_raw_fd()), rest.as_mut_ptr(), len).build()
        }
        Work::Send { socket, pieces, from } => return send(socket, pieces, *from),
        Work::Read { device, offset, buffer, from } => {
            let rest = &mut buffer[*from..];
            let len = rest.len().min(PART_MAX) as u32;
            opcode::Read::new(types::Fd(device.as_raw_fd()), rest.as_mut_ptr(), len)
                .offset(*offset + *from as u64)
                .build()
        }
        Work::Write { device, offset, buffer, from, durable } => {
            let rest = &buffer[*from..];
            let len = rest.len().min(PART_MAX) as u32;
            opcode::Write::new(types::Fd(device.as_raw_fd()), rest.as_ptr(), len)
                .offset(*offset + *from as u64)
                .rw_flags(if *durable { libc::RWF_DSYNC } else { 0 })
                .build()
        }
        Work::Sync { device } => opcode::Fsync::new(types::Fd(device.as_raw_fd()))
            .flags(types::FsyncFlags::DATASYNC)
            .build(),
        Work::Readable { event } => {
            opcode::PollAdd::new(types::Fd(event.as_raw_fd()), libc::POLLIN as u32).build()
        }
        Work::HangUp { socket } => {
            opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), libc::POLLRDHUP as u32).build()
        }
    };
    (entry, None)
}

fn send(
    socket: &Arc<OwnedFd>,
    pieces: &[Piece],
    from: usize,
) -> (squeue::Entry, Option<Box<Message>>) {
    let fd = types::Fd(socket.as_raw_fd());
    let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
    if let [piece] = pieces {
        let rest = &piece.bytes()[from..];
        let len = rest.len().min(PART_MAX) as u32;
        return (opcode::Send::new(fd, rest.as_ptr(), len).flags(flags).build(), None);
    }
    let mut skip = from;
    let mut vectors = Vec::with_capacity(pieces.len().min(VECTORS_MAX));
    for piece in pieces {
        let bytes = piece.bytes();
        let skipped = skip.min(bytes.len());
        skip -= skipped;
        let rest = &bytes[skipped..];
        if !rest.is_empty() && vectors.len() < VECTORS_MAX {
            let base = rest.as_ptr().cast_mut().cast();
            vectors.push(libc::iovec { iov_base: base, iov_len: rest.len() });
        }
    }
    // SAFETY: all of a message header may be zero: no name, no control data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = vectors.as_mut_ptr();
    header.msg_iovlen = vectors.len() as _;
    let message = Box::new(Message { header, _vectors: vectors });
    let entry = opcode::SendMsg::new(fd, &raw const message.header).flags(flags as u32).build();
    (entry, Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the kernel's `struct io_uring_sqe` has `rw_flags`.
    const RW_FLAGS: usize = 28;

    fn flags_of(durable: bool) -> i32 {
        let device = Arc::new(OwnedFd::from(tempfile::tempfile().expect("a file")));
        let buffer = Buffer::zeroed(512).into();
        let (entry, _) = entry(&mut Work::Write { device, offset: 0, buffer, from: 0, durable });
        assert_eq!(size_of_val(&entry), 64);
        // SAFETY: an entry is the kernel's struct, of numbers alone, and longer than this.
        unsafe { std::ptr::from_ref(&entry).cast::<u8>().add(RW_FLAGS).cast::<i32>().read() }
    }

    /// In a container the limit of processes may be lower, and then counts.
    #[test]
    fn a_device_that_hangs_leaves_threads_for_the_others() {
        let ring = Ring::<()>::new().expect("a ring");
        // Zeros change nothing: the kernel only says what holds.
        let mut limits = [0; 2];
        if let Err(error) = ring.io.submitter().register_iowq_max_workers(&mut limits) {
            return println!("SKIPPED: the kernel has no such limit: {error}");
        }
        let processes = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
        let most = processes.unwrap_or(u64::MAX).min(u64::from(WORKERS_MAX));
        assert_eq!(u64::from(limits[0]), most);
    }

    #[test]
    fn the_kernel_is_asked_to_make_durable_writes_durable() {
        assert_eq!([true, false].map(flags_of), [libc::RWF_DSYNC, 0]);
    }
}
