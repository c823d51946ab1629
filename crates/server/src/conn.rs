//! What comes in on a connection: TLS, what opens it, requests, payloads.

use crate::front::{Decoder, Event, Opening};
use crate::output::Output;
use crate::port::{Port, Token, charge};
use crate::total::SMALL;
use destage_block::{Backend, Buffer, Driver, Payload, Request};
use destage_engine::units::Instant;
use rustix::net::RecvFlags;
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Payloads with at least this much to come are received into their own buffer.
const DIRECT_MIN: u32 = 32 << 10;
/// Plain bytes taken out of TLS at once.
const PLAIN_PART: usize = 64 << 10;
/// Bytes of replies that are encrypted at once.
const ENCRYPTED_AT_ONCE: usize = 1 << 20;

/// Work that a connection has done for it in a turn; then the others have theirs.
const TURN: u32 = 256;
/// The share of a request that may look at all dirty pages, or has many records.
const LONG: u32 = 32;
/// Zeros that are longer have many records.
const ZEROS_LONG: u64 = 1 << 20;

fn work(request: &Request) -> u32 {
    match *request {
        Request::Trim { .. } | Request::Status { .. } => LONG,
        Request::Zero { length, .. } if length > ZEROS_LONG => LONG,
        _ => 1,
    }
}

/// A WRITE whose payload is still coming.
struct Assembling {
    token: Token,
    request: Request,
    buffer: Buffer,
    at: usize,
}

/// Bytes that arrived and were not decoded yet: the client has too much in flight.
struct Held {
    buffer: Buffer,
    at: usize,
    end: usize,
}

/// The incoming side of a connection.
pub(crate) struct Input {
    pub(crate) socket: Arc<OwnedFd>,
    slot: u32,
    decoder: Decoder,
    pub(crate) tls: Option<Box<ServerConnection>>,
    tls_config: Option<Arc<ServerConfig>>,
    assembling: Option<Assembling>,
    /// A request, with its cookie, that waits until the total of all connections has room for it.
    parked: Option<(u64, Request)>,
    /// When bytes arrived last.
    pub(crate) heard: Instant,
    /// It has made a request.
    pub(crate) asked: bool,
    held: Option<Held>,
    /// Out of TLS; from `plain_at` on not decoded yet.
    plain: Vec<u8>,
    plain_at: usize,
    /// The receive buffer while the kernel does not have it.
    spare: Option<Buffer>,
    /// A receive is in flight.
    pub(crate) receiving: bool,
    /// Work that was done for it in this turn.
    done: u32,
    /// Nothing more was taken from the client, because of what it has in flight, since its last
    /// request began.
    limited: bool,
    /// Nothing more comes.
    pub(crate) ended: bool,
    /// Close at once.
    pub(crate) broken: bool,
    /// The socket is shut down.
    pub(crate) closed: bool,
    /// Most bytes that may be in flight.
    bytes_max: usize,
}

impl Input {
    pub(crate) fn new(
        socket: Arc<OwnedFd>,
        slot: u32,
        decoder: Decoder,
        tls_config: Option<Arc<ServerConfig>>,
        bytes_max: usize,
    ) -> Input {
        Input {
            socket,
            slot,
            decoder,
            tls: None,
            tls_config,
            assembling: None,
            parked: None,
            heard: Instant(0),
            asked: false,
            held: None,
            plain: Vec::new(),
            plain_at: 0,
            spare: Some(crate::port::receive_buffer()),
            receiving: false,
            done: 0,
            limited: false,
            ended: false,
            broken: false,
            closed: false,
            bytes_max,
        }
    }

    /// The client has not opened the export yet.
    pub(crate) fn opening(&self) -> bool {
        !self.decoder.is_open()
    }

    /// The client has enough in flight. A request that has begun may always end.
    fn congested(&self, port: &Port) -> bool {
        let held = port.outputs[self.slot as usize].held_bytes();
        let most = if port.total.full() { self.bytes_max.min(SMALL) } else { self.bytes_max };
        self.assembling.is_none() && (self.parked.is_some() || held >= most)
    }

    /// Bytes that arrived were not decoded, and can be now.
    pub(crate) fn may_resume(&self, port: &Port) -> bool {
        let waits = self.held.is_some() || self.plain_at < self.plain.len();
        waits && !self.receiving && !self.broken && !self.congested(port)
    }

    /// The payload of a WRITE is still to come.
    pub(crate) fn assembles(&self) -> bool {
        self.assembling.is_some()
    }

    /// No part of a request is here that was not handed over.
    pub(crate) fn rests(&self) -> bool {
        self.assembling.is_none() && self.parked.is_none() && self.held.is_none()
    }

    /// Where to receive next, and from which position on; `None` while there is enough.
    pub(crate) fn receive_into(&mut self, port: &Port) -> Option<(Buffer, usize)> {
        let waits = self.held.is_some() || self.plain_at < self.plain.len();
        if self.receiving || self.ended || self.broken || waits {
            return None;
        }
        if self.congested(port) {
            self.limited = true;
            return None;
        }
        self.receiving = true;
        if let Some(assembling) = &mut self.assembling
            && self.tls.is_none()
            && self.decoder.payload_left() >= DIRECT_MIN
        {
            let buffer = std::mem::replace(&mut assembling.buffer, Buffer::zeroed(0));
            return Some((buffer, assembling.at));
        }
        Some((self.spare.take().expect("the kernel does not have it"), 0))
    }

    /// Bytes arrived: `buffer[from..from + count]`.
    pub(crate) fn received<B: Backend<Port> + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        (buffer, from): (Buffer, usize),
        count: usize,
    ) {
        self.receiving = false;
        self.ended |= count == 0;
        let direct = self.spare.is_some();
        if direct {
            self.direct(port, backend, buffer, from, count);
        } else if count > 0 {
            if self.tls.is_none() {
                self.decoder.look_ahead(&buffer[..count], |offset| backend.soon(offset));
            }
            self.held = Some(Held { buffer, at: 0, end: count });
            self.resume(port, backend);
            self.rest_now(port, backend);
        } else {
            self.spare = Some(buffer);
        }
    }

    /// A part of a payload arrived in its own buffer.
    fn direct<B: Backend<Port> + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        buffer: Buffer,
        from: usize,
        count: usize,
    ) {
        let Some(mut assembling) = self.assembling.take() else { return };
        let mut last = false;
        if count > 0 {
            let (_, event) = self.decoder.next(&buffer[from..from + count]);
            last = matches!(event, Event::Payload { last: true, .. });
        }
        assembling.buffer = buffer;
        assembling.at = from + count;
        if last {
            let Assembling { token, request, buffer, .. } = assembling;
            backend.request(port, token, request, Payload::Owned(buffer));
        } else {
            self.assembling = Some(assembling);
        }
    }

    /// Takes the rest of a short payload if it has arrived already, which it has if the client
    /// sent the request in two parts. By the ring it would take another turn.
    fn rest_now<B: Backend<Port> + ?Sized>(&mut self, port: &mut Port, backend: &mut B) {
        let Some(assembling) = &mut self.assembling else { return };
        let left = self.decoder.payload_left();
        if self.tls.is_some() || self.ended || self.broken || !(1..DIRECT_MIN).contains(&left) {
            return;
        }
        let mut buffer = std::mem::replace(&mut assembling.buffer, Buffer::zeroed(0));
        let at = assembling.at;
        let room = &mut buffer[at..at + left as usize];
        let came = rustix::net::recv(&*self.socket, room, RecvFlags::DONTWAIT);
        match came {
            Ok((count, _)) if count > 0 => self.direct(port, backend, buffer, at, count),
            // Nothing yet; or an end or an error, which the ring will report too.
            _ => assembling.buffer = buffer,
        }
    }

    /// Decodes what arrived, as far as the client's limits allow.
    pub(crate) fn resume<B: Backend<Port> + ?Sized>(&mut self, port: &mut Port, backend: &mut B) {
        self.done = 0;
        // The slot of a disconnected client is the next one's, who would get the answer.
        if let Some((cookie, request)) = self.parked.take().filter(|_| !self.broken) {
            self.begin(port, backend, (cookie, request), &[]);
        }
        if self.parked.is_some() {
            return;
        }
        loop {
            if self.plain_at < self.plain.len() {
                let plain = std::mem::take(&mut self.plain);
                self.plain_at += self.feed(port, backend, &plain[self.plain_at..]);
                self.plain = plain;
                if self.broken || self.plain_at < self.plain.len() {
                    return;
                }
            }
            if self.tls.is_some() && self.decrypt() {
                continue;
            }
            let Some(mut held) = self.held.take() else { return };
            if self.broken || held.at == held.end {
                self.spare = Some(held.buffer);
                return;
            }
            let input = &held.buffer[held.at..held.end];
            let count = if self.tls.is_some() {
                self.give_tls(input)
            } else {
                self.feed(port, backend, input)
            };
            held.at += count;
            self.held = Some(held);
            // TLS that takes nothing has plain bytes to give first.
            if count == 0 && self.tls.is_none() {
                return;
            }
            if self.tls.is_some() {
                port.touch(self.slot);
            }
        }
    }

    /// Hands encrypted bytes to TLS; returns how many it took.
    fn give_tls(&mut self, mut input: &[u8]) -> usize {
        let Some(tls) = &mut self.tls else { return 0 };
        let taken = tls.read_tls(&mut input);
        let processed = tls.process_new_packets();
        match (taken, processed) {
            (Ok(count), Ok(_)) if count > 0 => count,
            // The alert that says why goes out, if it can.
            _ => {
                self.ended = true;
                self.broken = !tls.wants_write();
                input.len()
            }
        }
    }

    /// Takes plain bytes out of TLS; returns whether there were any.
    fn decrypt(&mut self) -> bool {
        let Some(tls) = &mut self.tls else { return false };
        self.plain.resize(PLAIN_PART, 0);
        self.plain_at = 0;
        let count = match tls.reader().read(&mut self.plain) {
            Ok(0) => {
                self.ended = true;
                0
            }
            Ok(count) => count,
            Err(_) => 0,
        };
        self.plain.truncate(count);
        count > 0
    }

    /// Decodes plain bytes; returns how many it took. Fewer than all: enough is in flight, or the
    /// connection is over, or TLS starts.
    fn feed<B: Backend<Port> + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        bytes: &[u8],
    ) -> usize {
        let mut at = 0;
        while at < bytes.len() && !self.broken {
            if self.ended {
                return bytes.len();
            }
            if self.congested(port) {
                self.limited = true;
                break;
            }
            if self.done >= TURN && self.assembling.is_none() {
                // The rest is for the next turn.
                port.touch(self.slot);
                break;
            }
            let encrypted = self.tls.is_some();
            at += if self.decoder.is_open() {
                self.serve(port, backend, &bytes[at..])
            } else {
                self.open(port, &bytes[at..])
            };
            if self.tls.is_some() != encrypted {
                break;
            }
        }
        at
    }

    fn open(&mut self, port: &mut Port, bytes: &[u8]) -> usize {
        let mut taken = (0, Opening::More);
        port.append(self.slot, |out| taken = self.decoder.open(bytes, out));
        let (count, opening) = taken;
        match opening {
            Opening::More => {}
            Opening::StartTls => {
                port.outputs[self.slot as usize].seal();
                let config = self.tls_config.clone().expect("offered only with a configuration");
                match ServerConnection::new(config) {
                    Ok(mut tls) => {
                        tls.set_buffer_limit(None);
                        self.tls = Some(Box::new(tls));
                    }
                    Err(_) => self.broken = true,
                }
                self.decoder.tls_started();
            }
            Opening::Open(encoder) => port.outputs[self.slot as usize].open(encoder),
            Opening::End => self.ended = true,
            Opening::HangUp => self.broken = true,
        }
        count
    }

    fn serve<B: Backend<Port> + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        bytes: &[u8],
    ) -> usize {
        let (count, event) = self.decoder.next(bytes);
        match event {
            Event::More => {}
            Event::Request(cookie, request) => {
                self.asked = true;
                return count + self.begin(port, backend, (cookie, request), &bytes[count..]);
            }
            Event::Payload { bytes: length, last } => {
                self.gather(port, backend, &bytes[..length], last);
            }
            Event::Refused(tag, error, text) => port.refuse(self.slot, tag, error, text),
            Event::End => self.ended = true,
            Event::HangUp => self.broken = true,
        }
        count
    }

    /// Begins a request, or parks it until there is room; returns how many bytes of its payload
    /// it took from what came with it.
    fn begin<B: Backend<Port> + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        (cookie, request): (u64, Request),
        rest: &[u8],
    ) -> usize {
        let (share, charge) = (port.outputs[self.slot as usize].share, charge(&request) as usize);
        if !port.total.admit(self.slot, share, charge) {
            port.total.wait(self.slot, charge);
            self.parked = Some((cookie, request));
            self.limited = true;
            return 0;
        }
        if std::mem::take(&mut self.limited) {
            backend.held_back();
        }
        self.done += work(&request);
        let token = port.admit(self.slot, cookie, &request);
        let Request::Write { length, .. } = request else {
            backend.request(port, token, request, Payload::Bytes(&[]));
            return 0;
        };
        let length = length as usize;
        if rest.len() >= length {
            // All of the payload is here: no copy.
            let (taken, _) = self.decoder.next(&rest[..length]);
            backend.request(port, token, request, Payload::Bytes(&rest[..taken]));
            return taken;
        }
        let buffer = port.buffer(length);
        self.assembling = Some(Assembling { token, request, buffer, at: 0 });
        0
    }

    /// Copies a part of a payload; the last one makes the request complete.
    fn gather<B: Backend<Port> + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        part: &[u8],
        last: bool,
    ) {
        let Some(mut assembling) = self.assembling.take() else { return };
        assembling.buffer[assembling.at..assembling.at + part.len()].copy_from_slice(part);
        assembling.at += part.len();
        if last {
            let Assembling { token, request, buffer, .. } = assembling;
            backend.request(port, token, request, Payload::Owned(buffer));
        } else {
            self.assembling = Some(assembling);
        }
    }

    /// Nothing more comes, so an incomplete request stays incomplete. It gets no reply: the client
    /// sees the connection end, and asks again on another. An error would mean that the disk
    /// failed.
    pub(crate) fn drop_incomplete(&mut self, port: &mut Port) {
        self.parked = None;
        if let Some(Assembling { token, .. }) = self.assembling.take() {
            port.forget(&token);
        }
    }

    /// Encrypts some of what is to be sent. While that is done it is in memory three times.
    pub(crate) fn encrypt(&mut self, output: &mut Output) -> Option<Vec<u8>> {
        let tls = self.tls.as_mut()?;
        let mut out = Vec::new();
        // The buffer of TLS has no limit: all of it is taken.
        output.take_part(ENCRYPTED_AT_ONCE, |bytes| tls.writer().write_all(bytes)).ok()?;
        while tls.wants_write() {
            tls.write_tls(&mut out).ok()?;
        }
        Some(out)
    }
}
