//! The driver that backends are given: the clock, device operations on the ring, and answers.

use crate::front::{Encode, Tag};
use crate::output::Output;
use crate::ring::{Completion, Ring, Work};
use crate::spare::Spare;
use crate::total::{Share, Total};
use destage_block::{
    Answer, Buffer, Driver, Handle, Io, IoError, Outcome, Piece, Request, RequestError, SharedBytes,
};
use destage_engine::units::{Instant, PAGE_BYTES};
use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What an operation of the ring belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Owner {
    Listener(usize),
    Receive(u32),
    Send(u32),
    /// Its slot and generation: others may have the slot since.
    HangUp(u32, u32),
    Device(u64),
    Wake,
}

/// Reads at least this long are sent from where they are. Shorter ones are copied, so that many
/// answers are one run of bytes.
const SHARED_MIN: usize = 16 << 10;
/// What a request counts for in addition to its bytes.
const REQUEST_CHARGE: u64 = 256;
/// What a page counts for of which a request writes a part: its bytes, and the buffer in which the
/// rest of it is read.
const PART_CHARGE: u64 = 3 * PAGE_BYTES;
/// Zeros that do not begin and end with pages are written as bytes, if they are at most these: the
/// largest part of `destage_served::part_pages`.
const ZEROS_MAX: u64 = 1 << 20;
/// A TRIM keeps a byte for each of these bytes that it covers.
const TRIM_SHARE: u64 = 4 << 20;

/// Names a request until it is answered. If its connection is gone, the answer is dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    slot: u32,
    generation: u32,
    tag: Tag,
    /// Bytes of a READ or WRITE.
    length: u32,
    kind: Kind,
    /// Bytes that it counts for among those in flight.
    charge: u32,
}

impl Token {
    /// Whether it is of this connection, or of an earlier one in its place, which is gone.
    pub(crate) fn is_of(&self, slot: u32) -> bool {
        self.slot == slot
    }
}

/// What kind of answer a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Read,
    Status,
}

/// Bytes that a request counts for among those in flight: at least what a backend holds for it.
pub(crate) fn charge(request: &Request) -> u32 {
    let held = match *request {
        // Pages are read, into a buffer that begins with one.
        Request::Read { offset, length } => {
            let end = offset.saturating_add(length.into());
            PAGE_BYTES + (end.div_ceil(PAGE_BYTES) - offset / PAGE_BYTES) * PAGE_BYTES
        }
        Request::Write { offset, length, .. } => {
            u64::from(length) + parts(offset, u64::from(length)) * PART_CHARGE
        }
        Request::Zero { offset, length, .. } => match parts(offset, length) {
            0 => 0,
            parts => length.min(ZEROS_MAX) + parts * PART_CHARGE,
        },
        Request::Trim { length, .. } => length / TRIM_SHARE,
        _ => 0,
    };
    u32::try_from(held + REQUEST_CHARGE).unwrap_or(u32::MAX)
}

/// Pages of which a range has a part only.
fn parts(offset: u64, length: u64) -> u64 {
    let end = offset.saturating_add(length);
    let begins = u64::from(!offset.is_multiple_of(PAGE_BYTES));
    let ends =
        !end.is_multiple_of(PAGE_BYTES) && (begins == 0 || end / PAGE_BYTES > offset / PAGE_BYTES);
    begins + u64::from(ends)
}

/// The driver of a backend on the data thread.
pub struct Port {
    started: std::time::Instant,
    /// The clock when it was read last.
    looked: Cell<Instant>,
    pub(crate) ring: Ring<Owner>,
    pub(crate) outputs: Vec<Output>,
    dirty: Vec<u32>,
    devices: Vec<Option<Arc<OwnedFd>>>,
    spare: Spare,
    /// What all connections hold.
    pub(crate) total: Total,
    /// The ring's first error, which ends the server.
    pub(crate) broken: Option<io::Error>,
}

impl Port {
    pub(crate) fn new(total_bytes: usize) -> io::Result<Port> {
        Ok(Port {
            started: std::time::Instant::now(),
            looked: Cell::new(Instant(0)),
            ring: Ring::new()?,
            outputs: Vec::new(),
            dirty: Vec::new(),
            devices: Vec::new(),
            spare: Spare::default(),
            total: Total::new(total_bytes),
            broken: None,
        })
    }

    /// Closes a socket. What is in flight on it ends, though its other end may not.
    pub(crate) fn close_socket(&mut self, socket: Handle) {
        if let Some(open) = &self.devices[socket.0] {
            // It may be disconnected already.
            let _ = rustix::net::shutdown(&**open, rustix::net::Shutdown::Both);
        }
        self.close(socket);
    }

    /// Keeps the buffers of what was sent.
    pub(crate) fn recycle_pieces(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            if let Piece::Shared(bytes) = piece
                && let Some(buffer) = bytes.into_buffer()
            {
                self.spare.give(buffer);
            }
        }
    }

    pub(crate) fn push(&mut self, owner: Owner, work: Work) {
        if let Err(error) = self.ring.submit(owner, work) {
            self.broken.get_or_insert(error);
        }
    }

    /// Takes the kernel's completion of a device operation. Submits the rest of a short one.
    pub(crate) fn device_done(&mut self, completion: Completion<Owner>) -> Option<(u64, Outcome)> {
        let Completion { tag: owner, result, mut work, .. } = completion;
        let Owner::Device(key) = owner else { return None };
        let end = |result, errno, buffer| Some((key, Outcome { result, errno, buffer }));
        let count = match result {
            Ok(count) => count,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                // The volume tries a busy device again, after a while.
                let socket = matches!(work, Work::Send { .. } | Work::Receive { .. });
                if errno == libc::EINTR || errno == libc::EAGAIN && socket {
                    self.push(owner, work);
                    return None;
                }
                return end(Err(IoError::from_errno(errno)), errno, buffer_of(work));
            }
        };
        let left = match &mut work {
            Work::Read { buffer, from, .. } => {
                *from += count;
                buffer.len() - *from
            }
            Work::Write { buffer, from, .. } => {
                *from += count;
                buffer.len() - *from
            }
            Work::Send { pieces, from, .. } => {
                *from += count;
                pieces.iter().map(|piece| piece.bytes().len()).sum::<usize>() - *from
            }
            Work::Receive { buffer, .. } => {
                buffer.set_len(count);
                usize::from(count == 0)
            }
            _ => 0,
        };
        if left > 0 && count > 0 {
            self.push(owner, work);
            return None;
        }
        // The device is shorter than it was.
        let result = if left > 0 { Err(IoError::SHORT) } else { Ok(()) };
        if let Work::Write { buffer, .. } = work {
            if let Some(buffer) = buffer.into_buffer() {
                self.spare.give(buffer);
            }
            return end(result, 0, None);
        }
        end(result, 0, buffer_of(work))
    }

    /// Ends a request without an answer; false if its connection is gone.
    pub(crate) fn forget(&mut self, token: &Token) -> bool {
        let output = &mut self.outputs[token.slot as usize];
        if output.generation != token.generation {
            self.total.orphan_ended(token.charge as usize);
            return false;
        }
        output.requests -= 1;
        output.requests_bytes -= token.charge as usize;
        if token.kind == Kind::Plain {
            output.share.moved(token.length as usize);
        }
        true
    }

    /// Appends what is said before the export is open.
    pub(crate) fn append(&mut self, slot: u32, write: impl FnOnce(&mut Vec<u8>)) {
        self.outputs[slot as usize].append(write);
        self.touch(slot);
    }

    /// Refuses a request before the backend sees it.
    pub(crate) fn refuse(&mut self, slot: u32, tag: Tag, error: RequestError, text: &str) {
        self.outputs[slot as usize].answer(|encoder, out| encoder.error(out, tag, error, text));
        self.touch(slot);
    }

    /// Counts a request; returns the token that names it.
    pub(crate) fn admit(&mut self, slot: u32, cookie: u64, request: &Request) -> Token {
        let output = &mut self.outputs[slot as usize];
        let charge = charge(request);
        output.requests += 1;
        output.requests_bytes += charge as usize;
        let (kind, length) = match *request {
            Request::Read { length, .. } => (Kind::Read, length),
            Request::Status { .. } => (Kind::Status, 0),
            Request::Write { length, .. } => (Kind::Plain, length),
            _ => (Kind::Plain, 0),
        };
        let tag = Tag { cookie, offset: request.offset() };
        let token = Token { slot, generation: output.generation, tag, length, kind, charge };
        self.count(slot);
        token
    }

    /// Updates the total with what a connection holds now.
    pub(crate) fn count(&mut self, slot: u32) {
        let output = &mut self.outputs[slot as usize];
        let (held, unsent) = (output.held_bytes(), output.unsent_bytes());
        self.total.change(slot, &mut output.share, held, unsent);
    }

    /// A connection is gone. Its requests in flight hold what they hold until they end.
    pub(crate) fn abandon(&mut self, slot: u32) {
        let output = &mut self.outputs[slot as usize];
        let orphans = output.requests_bytes;
        output.abandon();
        self.count(slot);
        self.outputs[slot as usize].share = Share::default();
        self.total.orphaned(orphans);
    }

    /// Has the connection looked at when the turn ends.
    pub(crate) fn touch(&mut self, slot: u32) {
        self.count(slot);
        let output = &mut self.outputs[slot as usize];
        if !output.dirty {
            output.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Whether there are connections to look at.
    pub(crate) fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The connections to look at.
    pub(crate) fn take_dirty(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.dirty);
        for slot in into.iter() {
            self.outputs[*slot as usize].dirty = false;
        }
    }

    pub(crate) fn add_output(&mut self) {
        self.outputs.push(Output::default());
    }
}

impl Driver for Port {
    type Token = Token;

    fn now(&self) -> Instant {
        let nanoseconds = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.looked.set(Instant(nanoseconds));
        self.looked.get()
    }

    fn lately(&self) -> Instant {
        self.looked.get()
    }

    fn buffer(&mut self, length: usize) -> Buffer {
        self.spare.take(length)
    }

    fn recycle(&mut self, buffer: Buffer) {
        self.spare.give(buffer);
    }

    fn open(&mut self, device: OwnedFd) -> Handle {
        self.devices.push(Some(Arc::new(device)));
        Handle(self.devices.len() - 1)
    }

    /// A thread of its own closes the device, since that may take seconds: the last descriptor of
    /// a deleted file frees all that it held.
    fn close(&mut self, device: Handle) {
        let Some(device) = self.devices[device.0].take() else { return };
        let work = move || close_last(device);
        // Without a thread the last operation in flight closes it, or this.
        let _ = std::thread::Builder::new().name("close".to_string()).spawn(work);
    }

    fn submit(&mut self, key: u64, io: Io) {
        let device = |handle: Handle| self.devices[handle.0].clone().expect("an open device");
        let work = match io {
            Io::Read { device: handle, offset, buffer } => {
                Work::Read { device: device(handle), offset, buffer, from: 0 }
            }
            Io::Write { device: handle, offset, buffer, durable } => {
                Work::Write { device: device(handle), offset, buffer, from: 0, durable }
            }
            Io::Flush { device: handle } => Work::Sync { device: device(handle) },
            Io::Receive { device: handle, buffer } => {
                Work::Receive { socket: device(handle), buffer, from: 0 }
            }
            Io::Send { device: handle, bytes } => {
                Work::Send { socket: device(handle), pieces: bytes, from: 0 }
            }
        };
        self.push(Owner::Device(key), work);
    }

    fn reply(&mut self, token: Token, answer: Answer<'_>) {
        if !self.forget(&token) {
            return;
        }
        let output = &mut self.outputs[token.slot as usize];
        let (tag, length) = (token.tag, token.length);
        let fits = |kind: Kind, bytes: usize| {
            let right = token.kind == kind && bytes == length as usize;
            assert!(right, "an answer to another request");
        };
        match answer {
            Answer::Done => {
                fits(Kind::Plain, length as usize);
                output.answer(|encoder, out| encoder.done(out, tag));
            }
            Answer::Bytes(bytes) => {
                fits(Kind::Read, bytes.len());
                output.answer(|encoder, out| {
                    encoder.read(out, tag, length);
                    out.extend_from_slice(bytes);
                });
            }
            Answer::Parts(parts) => {
                fits(Kind::Read, parts.iter().map(|part| part.len()).sum());
                output.answer(|encoder, out| {
                    encoder.read(out, tag, length);
                    parts.iter().for_each(|part| out.extend_from_slice(part));
                });
            }
            Answer::Data(buffer, range) => {
                fits(Kind::Read, range.len());
                let shared = range.len() >= SHARED_MIN;
                output.answer(|encoder, out| {
                    encoder.read(out, tag, length);
                    if !shared {
                        out.extend_from_slice(&buffer[range.clone()]);
                    }
                });
                if shared {
                    output.push(Piece::Shared(SharedBytes::part(&buffer, range)));
                }
            }
            Answer::Error { error, text } => {
                output.answer(|encoder, out| encoder.error(out, tag, error, text));
            }
            Answer::Status(maps) => {
                fits(Kind::Status, length as usize);
                output.answer(|encoder, out| encoder.status(out, tag, maps));
            }
        }
        self.touch(token.slot);
    }
}

fn buffer_of(work: Work) -> Option<Buffer> {
    match work {
        Work::Read { buffer, .. } | Work::Receive { buffer, .. } => Some(buffer),
        _ => None,
    }
}

/// A buffer for what is received.
pub(crate) fn receive_buffer() -> Buffer {
    Buffer::zeroed(64 << 10)
}

/// Closes a device once no operation is in flight on it, so that none of them has to.
fn close_last(mut device: Arc<OwnedFd>) {
    // An operation that never ends keeps the device, but not this thread.
    for _ in 0..6000 {
        device = match Arc::try_unwrap(device) {
            Ok(device) => return drop(device),
            Err(shared) => shared,
        };
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_block::IoClass;

    fn done(port: &mut Port, work: Work, errno: i32) -> Option<Result<(), IoError>> {
        let result = Err(io::Error::from_raw_os_error(errno));
        let completion = Completion { tag: Owner::Device(1), result, work, accepted: None };
        port.device_done(completion).map(|(_, outcome)| outcome.result)
    }

    #[test]
    fn writes_reach_the_ring_as_durable_as_they_are_asked_for() {
        let mut port = Port::new(1 << 20).expect("a ring");
        let device = port.open(tempfile::tempfile().expect("a file").into());
        for asked in [true, false] {
            let buffer = Buffer::zeroed(4096).into();
            port.submit(7, Io::Write { device, offset: 0, buffer, durable: asked });
            let mut done = Vec::new();
            while done.is_empty() {
                port.ring.wait(None, &mut done).expect("a completion");
            }
            let Work::Write { durable, .. } = done[0].work else { panic!("{done:?}") };
            assert_eq!(durable, asked);
        }
    }

    #[test]
    fn requests_count_for_the_pages_that_they_hold() {
        let of = |request| u64::from(charge(&request)) - REQUEST_CHARGE;
        let read = |offset, length| of(Request::Read { offset, length });
        let write = |offset, length| of(Request::Write { offset, length, fua: false });
        let zero = |offset, length| of(Request::Zero { offset, length, fua: false });
        assert_eq!([read(0, 1), read(4095, 2), read(8192, 4096)], [8192, 3 * 4096, 8192]);
        let part = PART_CHARGE;
        assert_eq!([write(0, 4096), write(1, 1), write(0, 1)], [4096, 1 + part, 1 + part]);
        assert_eq!([write(1, 4095), write(4095, 2)], [4095 + part, 2 + 2 * part]);
        assert_eq!([zero(0, 1 << 40), zero(4096, 8192)], [0, 0], "nothing but records");
        assert_eq!(zero(512, (1 << 20) - 4096), (1 << 20) - 4096 + 2 * part);
        assert_eq!(zero(1, 1 << 40), ZEROS_MAX + 2 * part);
        let trim = |length| of(Request::Trim { offset: 0, length, fua: false });
        assert_eq!(trim(1 << 40), 16 * (1 << 40) / (64 << 20), "a range for each 64 MiB");
        assert_eq!(charge(&Request::Flush), 256);
    }

    #[test]
    fn a_busy_device_is_reported_and_a_socket_asked_again() {
        let mut port = Port::new(1 << 20).expect("a ring");
        let file = || Arc::new(OwnedFd::from(tempfile::tempfile().expect("a file")));
        let buffer = || Buffer::zeroed(4096);
        let read = || Work::Read { device: file(), offset: 0, buffer: buffer(), from: 0 };
        let write = || {
            let buffer = buffer().into();
            Work::Write { device: file(), offset: 0, buffer, from: 0, durable: true }
        };
        for work in [read(), write(), Work::Sync { device: file() }] {
            let busy = done(&mut port, work, libc::EAGAIN).expect("reported").expect_err("busy");
            assert_eq!((busy.class, busy.errno), (IoClass::Busy, libc::EAGAIN));
        }
        // The operation was interrupted, and not begun.
        assert_eq!(done(&mut port, read(), libc::EINTR), None);
        for errno in [libc::EAGAIN, libc::EINTR] {
            let receive = Work::Receive { socket: file(), buffer: buffer(), from: 0 };
            let send = Work::Send { socket: file(), pieces: Vec::new(), from: 0 };
            assert_eq!(done(&mut port, receive, errno), None);
            assert_eq!(done(&mut port, send, errno), None);
        }
    }
}
