//! What a backend is given: the clock, replies, device operations. Holds what goes out.

use crate::backend::{Answer, Handle, Io, Kind, Outcome, SendPart, Token};
use crate::ring::{Completion, Piece, Ring, Work};
use crate::total::{Share, Total};
use destage_engine::units::Instant;
use destage_nbd::Mode;
use destage_nbd::reply::{Encoder, Tag};
use destage_served::{Buffer, IoError};
use rustix::io::Errno;
use rustix::net::SendFlags;
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
    Device(u64),
    Wake,
}

/// Reads at least this long are sent from where they are; shorter ones are copied, so that many
/// replies are one run of bytes.
const SHARED_MIN: usize = 16 << 10;
/// Most bytes that are sent outside the ring.
const NOW_MAX: usize = 64 << 10;
/// What a request counts for beside its bytes.
pub(crate) const REQUEST_CHARGE: u32 = 256;

/// What goes out on a connection.
#[derive(Debug)]
pub(crate) struct Output {
    /// Tokens of other generations belong to connections that are gone.
    pub(crate) generation: u32,
    encoder: Encoder,
    contexts: Vec<u32>,
    /// Not sent yet; under TLS, not encrypted yet.
    plain: Vec<Piece>,
    plain_bytes: usize,
    /// To go out before the rest, as it is.
    pub(crate) wire: Vec<Piece>,
    /// A send is under way.
    pub(crate) sending: bool,
    /// Bytes of that send.
    pub(crate) sending_bytes: usize,
    /// Requests without an answer, and what they count for.
    pub(crate) requests: u32,
    requests_bytes: usize,
    /// Its part of the total.
    pub(crate) share: Share,
    /// When the client last took bytes, or was first to take some.
    pub(crate) taken: Instant,
    dirty: bool,
}

impl Output {
    fn new() -> Output {
        Output {
            generation: 0,
            encoder: Encoder::new(Mode::Simple),
            contexts: Vec::new(),
            plain: Vec::new(),
            plain_bytes: 0,
            wire: Vec::new(),
            sending: false,
            sending_bytes: 0,
            requests: 0,
            requests_bytes: 0,
            share: Share::default(),
            taken: Instant(0),
            dirty: false,
        }
    }

    /// Where bytes are appended.
    fn tail(&mut self) -> &mut Vec<u8> {
        if !matches!(self.plain.last(), Some(Piece::Bytes(_))) {
            self.plain.push(Piece::Bytes(Vec::with_capacity(512)));
        }
        match self.plain.last_mut() {
            Some(Piece::Bytes(bytes)) => bytes,
            _ => unreachable!("was pushed"),
        }
    }

    /// Appends by a function.
    fn append(&mut self, write: impl FnOnce(&Encoder, &mut Vec<u8>)) {
        let encoder = self.encoder;
        let tail = self.tail();
        let before = tail.len();
        write(&encoder, tail);
        let added = tail.len() - before;
        self.plain_bytes += added;
    }

    /// Bytes that this connection holds on to: requests under way and what is not sent.
    pub(crate) fn held_bytes(&self) -> usize {
        self.requests_bytes + self.plain_bytes + self.sending_bytes
    }

    /// Nothing under way and nothing to send.
    pub(crate) fn idle(&self) -> bool {
        self.requests == 0 && !self.sending && !self.unsent()
    }

    /// There is something to send. What is left of `plain` when all of it was sent has no bytes,
    /// and its memory is used again.
    pub(crate) fn unsent(&self) -> bool {
        self.plain_bytes > 0 || !self.wire.is_empty()
    }

    /// Takes what is to be sent.
    pub(crate) fn take_plain(&mut self) -> Vec<Piece> {
        self.plain_bytes = 0;
        std::mem::take(&mut self.plain)
    }

    /// Sends short plain answers at once, as far as the socket takes them: by the ring a send
    /// costs a completion more.
    pub(crate) fn send_now(&mut self, socket: &OwnedFd, now: Instant) -> io::Result<()> {
        let ([], [Piece::Bytes(bytes)]) = (&self.wire[..], &mut self.plain[..]) else {
            return Ok(());
        };
        if bytes.is_empty() || bytes.len() > NOW_MAX {
            return Ok(());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(socket, bytes, flags) {
            Ok(sent) => {
                self.plain_bytes -= sent;
                self.taken = now;
                self.share.moved(sent);
                bytes.drain(..sent);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What was appended goes out as it is, whatever is encrypted later.
    pub(crate) fn seal(&mut self) {
        let plain = self.take_plain();
        self.wire.extend(plain);
    }

    pub(crate) fn begin(&mut self, mode: Mode, contexts: Vec<u32>) {
        self.encoder = Encoder::new(mode);
        self.contexts = contexts;
    }

    /// The connection is gone; a send under way is not forgotten.
    pub(crate) fn abandon(&mut self) {
        let (generation, sending) = (self.generation.wrapping_add(1), self.sending);
        let (dirty, share) = (self.dirty, self.share);
        *self = Output { generation, sending, dirty, share, ..Output::new() };
    }
}

/// The backend's way to the world.
pub struct Port {
    started: std::time::Instant,
    /// When the clock was looked at last.
    looked: Cell<Instant>,
    pub(crate) ring: Ring<Owner>,
    pub(crate) outputs: Vec<Output>,
    dirty: Vec<u32>,
    devices: Vec<Option<Arc<OwnedFd>>>,
    spare: Spare,
    /// What all connections hold.
    pub(crate) total: Total,
    /// The first thing the ring refused: the end of the server.
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

    /// Time since the server began; never goes back.
    #[must_use]
    pub fn now(&self) -> Instant {
        let nanoseconds = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.looked.set(Instant(nanoseconds));
        self.looked.get()
    }

    /// What [`Port::now`] said last: when this turn began, or when it was last asked in it.
    #[must_use]
    pub(crate) fn lately(&self) -> Instant {
        self.looked.get()
    }

    /// A buffer of this length. What it holds is whatever was there.
    #[must_use]
    pub fn buffer(&mut self, length: usize) -> Buffer {
        self.spare.take(length)
    }

    /// Gives a buffer back that is needed no more, so that the next one costs less.
    pub fn recycle(&mut self, buffer: Buffer) {
        self.spare.give(buffer);
    }

    /// Keeps the buffers of what was sent.
    pub(crate) fn recycle_pieces(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            if let Piece::Shared(buffer, _) = piece
                && let Some(buffer) = Arc::into_inner(buffer)
            {
                self.spare.give(buffer);
            }
        }
    }

    /// Takes a device over: its descriptor stays open until [`Port::close`].
    pub fn open(&mut self, device: OwnedFd) -> Handle {
        self.devices.push(Some(Arc::new(device)));
        Handle(self.devices.len() - 1)
    }

    /// Gives a device up; what is under way on it ends first. A thread of its own closes it, since
    /// that may take seconds: the last descriptor of a deleted file frees all that it held.
    pub fn close(&mut self, device: Handle) {
        let Some(device) = self.devices[device.0].take() else { return };
        let work = move || close_last(device);
        // Without a thread the last operation under way closes it, or this.
        let _ = std::thread::Builder::new().name("close".to_string()).spawn(work);
    }

    /// Begins an operation on a device; [`crate::Backend::done`] hears of its end under this key.
    ///
    /// # Panics
    /// If the device was given up.
    pub fn submit(&mut self, key: u64, io: Io) {
        let device = |handle: Handle| {
            self.devices[handle.0].clone().expect("a device that was not given up")
        };
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
                let piece = |part| match part {
                    SendPart::Bytes(bytes) => Piece::Bytes(bytes),
                    SendPart::Shared(buffer) => {
                        let all = 0..buffer.len();
                        Piece::Shared(buffer, all)
                    }
                };
                let pieces = bytes.into_iter().map(piece).collect();
                Work::Send { socket: device(handle), pieces, from: 0 }
            }
        };
        self.push(Owner::Device(key), work);
    }

    pub(crate) fn push(&mut self, owner: Owner, work: Work) {
        if let Err(error) = self.ring.submit(owner, work) {
            self.broken.get_or_insert(error);
        }
    }

    /// Looks at a device operation that the kernel has done; what is short goes on.
    pub(crate) fn device_done(&mut self, completion: Completion<Owner>) -> Option<(u64, Outcome)> {
        let Completion { tag: owner, result, mut work, .. } = completion;
        let Owner::Device(key) = owner else { return None };
        let end = |result, errno, buffer| Some((key, Outcome { result, errno, buffer }));
        let count = match result {
            Ok(count) => count,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                // A device that is busy is for the volume to ask again, after a while.
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
        // A device that ends before its end has lost part of itself.
        let result = if left > 0 { Err(IoError::SHORT) } else { Ok(()) };
        if let Work::Write { buffer, .. } = work {
            if let Some(buffer) = Arc::into_inner(buffer) {
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
            return false;
        }
        output.requests -= 1;
        output.requests_bytes -= token.charge as usize;
        if token.kind == Kind::Plain {
            output.share.moved(token.charge.saturating_sub(REQUEST_CHARGE) as usize);
        }
        true
    }

    /// Answers a request. Sent at the end of the turn.
    ///
    /// # Panics
    /// If the answer is of another kind than the request, or of another length.
    pub fn reply(&mut self, token: Token, answer: Answer<'_>) {
        if !self.forget(&token) {
            return;
        }
        let output = &mut self.outputs[token.slot as usize];
        let tag = Tag { cookie: token.cookie, offset: token.offset };
        let length = token.length as usize;
        let fits = |kind: Kind, bytes: usize| {
            assert!(token.kind == kind && bytes == length, "an answer to another request");
        };
        match answer {
            Answer::Done => {
                fits(Kind::Plain, length);
                output.append(|encoder, out| encoder.success(out, tag));
            }
            Answer::Bytes(bytes) => {
                fits(Kind::Read, bytes.len());
                output.append(|encoder, out| {
                    encoder.read(out, tag, token.length);
                    out.extend_from_slice(bytes);
                });
            }
            Answer::Parts(parts) => {
                fits(Kind::Read, parts.iter().map(|part| part.len()).sum());
                output.append(|encoder, out| {
                    encoder.read(out, tag, token.length);
                    parts.iter().for_each(|part| out.extend_from_slice(part));
                });
            }
            Answer::Data(buffer, range) => {
                fits(Kind::Read, range.len());
                output.append(|encoder, out| {
                    encoder.read(out, tag, token.length);
                    if range.len() < SHARED_MIN {
                        out.extend_from_slice(&buffer[range.clone()]);
                    }
                });
                if range.len() >= SHARED_MIN {
                    output.plain_bytes += range.len();
                    output.plain.push(Piece::Shared(buffer, range));
                }
            }
            Answer::Error { errno, text } => {
                output.append(|encoder, out| encoder.error(out, tag, errno, text));
            }
            Answer::Status(contexts) => {
                fits(Kind::Status, length);
                let ids = std::mem::take(&mut output.contexts);
                output.append(|encoder, out| {
                    for (number, (position, extents)) in contexts.iter().enumerate() {
                        let last = number + 1 == contexts.len();
                        encoder.block_status(out, tag, last, ids[*position], extents);
                    }
                });
                output.contexts = ids;
            }
        }
        self.touch(token.slot);
    }

    /// Appends bytes that are no reply of a backend's.
    pub(crate) fn append(&mut self, slot: u32, write: impl FnOnce(&Encoder, &mut Vec<u8>)) {
        self.outputs[slot as usize].append(write);
        self.touch(slot);
    }

    /// Notes a request; gives the token that names it.
    pub(crate) fn admit(&mut self, slot: u32, mut token: Token) -> Token {
        let output = &mut self.outputs[slot as usize];
        output.requests += 1;
        output.requests_bytes += token.charge as usize;
        (token.slot, token.generation) = (slot, output.generation);
        self.count(slot);
        token
    }

    /// Takes what a connection holds now into the total.
    pub(crate) fn count(&mut self, slot: u32) {
        let output = &mut self.outputs[slot as usize];
        let held = output.held_bytes();
        self.total.change(slot, &mut output.share, held);
    }

    /// The connection is to be looked at when the turn ends.
    pub(crate) fn touch(&mut self, slot: u32) {
        self.count(slot);
        let output = &mut self.outputs[slot as usize];
        if !output.dirty {
            output.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Connections to be looked at.
    pub(crate) fn take_dirty(&mut self, into: &mut Vec<u32>) {
        into.append(&mut self.dirty);
        for slot in into.iter() {
            self.outputs[*slot as usize].dirty = false;
        }
    }

    pub(crate) fn add_output(&mut self) {
        self.outputs.push(Output::new());
    }
}

fn buffer_of(work: Work) -> Option<Buffer> {
    match work {
        Work::Read { buffer, .. } | Work::Receive { buffer, .. } => Some(buffer),
        _ => None,
    }
}

/// Large buffers to be used again: fresh memory costs the kernel more than the copy into it.
#[derive(Default)]
struct Spare {
    buffers: Vec<Buffer>,
    bytes: usize,
}

const SPARE_MIN: usize = 32 << 10;
const SPARE_BYTES_MAX: usize = 32 << 20;

impl Spare {
    fn take(&mut self, length: usize) -> Buffer {
        let fits = |buffer: &Buffer| (length..=2 * length).contains(&buffer.capacity());
        let Some(at) = self.buffers.iter().rposition(fits) else { return Buffer::zeroed(length) };
        let mut buffer = self.buffers.swap_remove(at);
        self.bytes -= buffer.capacity();
        buffer.set_len(length);
        buffer
    }

    fn give(&mut self, buffer: Buffer) {
        let bytes = buffer.capacity();
        if bytes >= SPARE_MIN && self.bytes + bytes <= SPARE_BYTES_MAX {
            self.bytes += bytes;
            self.buffers.push(buffer);
        }
    }
}

/// A buffer for what is received.
pub(crate) fn receive_buffer() -> Buffer {
    Buffer::zeroed(64 << 10)
}

/// Closes a device when no operation is under way on it any more, so that none of them has to.
fn close_last(mut device: Arc<OwnedFd>) {
    // One that never ends keeps it, not this thread.
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
    use destage_served::IoClass;

    fn done(port: &mut Port, work: Work, errno: i32) -> Option<Result<(), IoError>> {
        let result = Err(io::Error::from_raw_os_error(errno));
        let completion = Completion { tag: Owner::Device(1), result, work, accepted: None };
        port.device_done(completion).map(|(_, outcome)| outcome.result)
    }

    #[test]
    fn a_busy_device_is_reported_and_a_socket_asked_again() {
        let mut port = Port::new(1 << 20).expect("a ring");
        let file = || Arc::new(OwnedFd::from(tempfile::tempfile().expect("a file")));
        let buffer = || Buffer::zeroed(4096);
        let read = || Work::Read { device: file(), offset: 0, buffer: buffer(), from: 0 };
        let write = || {
            let buffer = Arc::new(buffer());
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
