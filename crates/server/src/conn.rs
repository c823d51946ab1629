//! What comes in on a connection: handshake, TLS, requests, payloads.

use crate::backend::{Backend, Kind, Payload, Token};
use crate::port::{Port, REQUEST_CHARGE};
use crate::total::SMALL;
use destage_engine::units::Instant;
use destage_nbd::handshake::{self, Server};
use destage_nbd::request::{Command, Decoder, Request, Step};
use destage_served::Buffer;
use rustix::net::RecvFlags;
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Payloads with at least this much to come are received where they are to lie.
const DIRECT_MIN: u32 = 32 << 10;
/// Plain bytes taken out of TLS at once.
const PLAIN_PART: usize = 64 << 10;

enum Phase {
    Handshake(Box<Server>),
    Serving(Box<Decoder>),
}

/// A WRITE whose payload is still coming.
struct Assembling {
    token: Token,
    command: Command,
    buffer: Buffer,
    at: usize,
}

/// Bytes that came but were not looked at: the client has too much under way.
struct Held {
    buffer: Buffer,
    at: usize,
    end: usize,
}

/// The incoming side of a connection.
pub(crate) struct Input {
    pub(crate) socket: Arc<OwnedFd>,
    slot: u32,
    phase: Phase,
    pub(crate) tls: Option<Box<ServerConnection>>,
    tls_config: Option<Arc<ServerConfig>>,
    assembling: Option<Assembling>,
    /// A request that waits until the total of all connections has room for it.
    parked: Option<Request>,
    /// When bytes came last.
    pub(crate) heard: Instant,
    /// It has made a request.
    pub(crate) asked: bool,
    held: Option<Held>,
    /// Out of TLS, not looked at from `plain_at` on.
    plain: Vec<u8>,
    plain_at: usize,
    /// The receive buffer while the kernel does not have it.
    spare: Option<Buffer>,
    /// A receive is under way.
    pub(crate) receiving: bool,
    /// Nothing more is to come.
    pub(crate) ended: bool,
    /// Close at once.
    pub(crate) broken: bool,
    /// The socket is shut down.
    pub(crate) closed: bool,
    /// Most bytes that may be under way.
    bytes_max: usize,
}

impl Input {
    pub(crate) fn new(
        socket: Arc<OwnedFd>,
        slot: u32,
        server: Server,
        tls_config: Option<Arc<ServerConfig>>,
        bytes_max: usize,
    ) -> Input {
        Input {
            socket,
            slot,
            phase: Phase::Handshake(Box::new(server)),
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
            ended: false,
            broken: false,
            closed: false,
            bytes_max,
        }
    }

    /// Is the handshake not over?
    pub(crate) fn shaking(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Has the client enough in flight? A request that has begun may always end.
    fn congested(&self, port: &Port) -> bool {
        let held = port.outputs[self.slot as usize].held_bytes();
        let most = if port.total.full() { self.bytes_max.min(SMALL) } else { self.bytes_max };
        self.assembling.is_none() && (self.parked.is_some() || held >= most)
    }

    /// Bytes that came were not looked at, and may be now.
    pub(crate) fn may_resume(&self, port: &Port) -> bool {
        let waits = self.held.is_some() || self.plain_at < self.plain.len();
        waits && !self.receiving && !self.broken && !self.congested(port)
    }

    /// The payload of a WRITE is still to come.
    pub(crate) fn assembles(&self) -> bool {
        self.assembling.is_some()
    }

    /// Nothing of a request is here that is not carried out.
    pub(crate) fn rests(&self) -> bool {
        self.assembling.is_none() && self.parked.is_none() && self.held.is_none()
    }

    /// Where to receive next, and from which position on; none while there is enough.
    pub(crate) fn receive_into(&mut self, port: &Port) -> Option<(Buffer, usize)> {
        let waits = self.held.is_some() || self.plain_at < self.plain.len();
        if self.receiving || self.ended || self.broken || waits || self.congested(port) {
            return None;
        }
        self.receiving = true;
        if let (Some(assembling), Phase::Serving(decoder)) = (&mut self.assembling, &self.phase)
            && self.tls.is_none()
            && decoder.payload_left() >= DIRECT_MIN
        {
            let buffer = std::mem::replace(&mut assembling.buffer, Buffer::zeroed(0));
            return Some((buffer, assembling.at));
        }
        Some((self.spare.take().expect("the kernel does not have it"), 0))
    }

    /// Bytes came: `buffer[from..from + count]`.
    pub(crate) fn received<B: Backend + ?Sized>(
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
            if let Phase::Serving(decoder) = &self.phase
                && self.tls.is_none()
            {
                decoder.look_ahead(&buffer[..count], |offset| backend.soon(offset));
            }
            self.held = Some(Held { buffer, at: 0, end: count });
            self.resume(port, backend);
            self.rest_now(port, backend);
        } else {
            self.spare = Some(buffer);
        }
    }

    /// A part of a payload came where it is to lie.
    fn direct<B: Backend + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        buffer: Buffer,
        from: usize,
        count: usize,
    ) {
        let (Some(mut assembling), Phase::Serving(decoder)) =
            (self.assembling.take(), &mut self.phase)
        else {
            return;
        };
        let mut last = false;
        if count > 0 {
            let (_, step) = decoder.next(&buffer[from..from + count]);
            last = matches!(step, Step::Payload { last: true, .. });
        }
        assembling.buffer = buffer;
        assembling.at = from + count;
        if last {
            let Assembling { token, command, buffer, .. } = assembling;
            backend.request(port, token, command, Payload::Owned(buffer));
        } else {
            self.assembling = Some(assembling);
        }
    }

    /// Takes the rest of a short payload if it is here already, as it is of a client that sends a
    /// request in two parts: by the ring that would be a turn more.
    fn rest_now<B: Backend + ?Sized>(&mut self, port: &mut Port, backend: &mut B) {
        let (Some(assembling), Phase::Serving(decoder)) = (&mut self.assembling, &self.phase)
        else {
            return;
        };
        let left = decoder.payload_left();
        if self.tls.is_some() || self.ended || self.broken || !(1..DIRECT_MIN).contains(&left) {
            return;
        }
        let mut buffer = std::mem::replace(&mut assembling.buffer, Buffer::zeroed(0));
        let at = assembling.at;
        let room = &mut buffer[at..at + left as usize];
        let came = rustix::net::recv(&*self.socket, room, RecvFlags::DONTWAIT);
        match came {
            Ok((count, _)) if count > 0 => self.direct(port, backend, buffer, at, count),
            // Nothing yet; or an end or an error, which the ring will be told too.
            _ => assembling.buffer = buffer,
        }
    }

    /// Looks at what came, as far as the client may have under way.
    pub(crate) fn resume<B: Backend + ?Sized>(&mut self, port: &mut Port, backend: &mut B) {
        // The slot of one that was sent away is the next client's, and so would be the answer.
        if let Some(request) = self.parked.take().filter(|_| !self.broken) {
            self.begin(port, backend, request, &[]);
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

    /// Hands encrypted bytes to TLS; says how many it took.
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

    /// Takes plain bytes out of TLS; says whether there were any.
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

    /// Looks at plain bytes; says how many it took. Fewer than all: enough is under way, or the
    /// connection is over, or TLS begins.
    fn feed<B: Backend + ?Sized>(
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
                break;
            }
            let encrypted = self.tls.is_some();
            at += match &mut self.phase {
                Phase::Handshake(_) => self.shake(port, &bytes[at..]),
                Phase::Serving(_) => self.serve(port, backend, &bytes[at..]),
            };
            if self.tls.is_some() != encrypted {
                break;
            }
        }
        at
    }

    fn shake(&mut self, port: &mut Port, bytes: &[u8]) -> usize {
        let Phase::Handshake(server) = &mut self.phase else { return 0 };
        let mut taken = (0, handshake::Step::NeedMore);
        port.append(self.slot, |_, out| taken = server.feed(bytes, out));
        let (count, step) = taken;
        match step {
            handshake::Step::NeedMore | handshake::Step::Option { .. } => {}
            handshake::Step::StartTls => {
                port.outputs[self.slot as usize].seal();
                let config = self.tls_config.clone().expect("offered only where there is one");
                match ServerConnection::new(config) {
                    Ok(tls) => self.tls = Some(Box::new(tls)),
                    Err(_) => self.broken = true,
                }
                if let Some(tls) = &mut self.tls {
                    tls.set_buffer_limit(None);
                }
                server.tls_started();
            }
            handshake::Step::Transmission { session, .. } => {
                let contexts = session.contexts.iter().map(|context| context.id).collect();
                port.outputs[self.slot as usize].begin(session.mode, contexts);
                self.phase = Phase::Serving(Box::new(Decoder::new(&session)));
            }
            handshake::Step::Aborted => self.ended = true,
            handshake::Step::HangUp(_) => self.broken = true,
        }
        count
    }

    fn serve<B: Backend + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        bytes: &[u8],
    ) -> usize {
        let Phase::Serving(decoder) = &mut self.phase else { return 0 };
        let (count, step) = decoder.next(bytes);
        match step {
            Step::NeedMore => {}
            Step::Request(request) => {
                self.asked = true;
                return count + self.begin(port, backend, request, &bytes[count..]);
            }
            Step::Payload { range, last, .. } => self.gather(port, backend, &bytes[range], last),
            Step::Refused { cookie, offset, why, .. } => {
                let tag = destage_nbd::reply::Tag { cookie, offset };
                let (errno, text) = (why.errno(), why.text());
                port.append(self.slot, |encoder, out| encoder.error(out, tag, errno, text));
            }
            Step::Disconnect => self.ended = true,
            Step::HangUp(_) => self.broken = true,
        }
        count
    }

    /// Begins a request, or parks it until there is room; says how many bytes of its payload it
    /// took from what came with it.
    fn begin<B: Backend + ?Sized>(
        &mut self,
        port: &mut Port,
        backend: &mut B,
        request: Request,
        rest: &[u8],
    ) -> usize {
        let Phase::Serving(decoder) = &mut self.phase else { return 0 };
        let token = token(&request);
        let (share, charge) = (port.outputs[self.slot as usize].share, token.charge as usize);
        if !port.total.admit(self.slot, share, charge) {
            port.total.wait(self.slot, charge);
            self.parked = Some(request);
            return 0;
        }
        let token = port.admit(self.slot, token);
        match request.command {
            Command::Write { length, .. } => {
                let length = length as usize;
                if rest.len() >= length {
                    // All of it is here: no copy.
                    let (taken, _) = decoder.next(&rest[..length]);
                    let payload = Payload::Bytes(&rest[..taken]);
                    backend.request(port, token, request.command, payload);
                    return taken;
                }
                let buffer = port.buffer(length);
                let command = request.command;
                self.assembling = Some(Assembling { token, command, buffer, at: 0 });
            }
            command => backend.request(port, token, command, Payload::Bytes(&[])),
        }
        0
    }

    /// Copies a part of a payload; the last one makes the request complete.
    fn gather<B: Backend + ?Sized>(
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
            let Assembling { token, command, buffer, .. } = assembling;
            backend.request(port, token, command, Payload::Owned(buffer));
        } else {
            self.assembling = Some(assembling);
        }
    }

    /// Nothing more comes: a request that is not complete never will be. It gets no reply. The
    /// client sees that the connection ends and asks again elsewhere; an error would tell it that
    /// the disk failed.
    pub(crate) fn drop_incomplete(&mut self, port: &mut Port) {
        self.parked = None;
        if let Some(Assembling { token, .. }) = self.assembling.take() {
            port.forget(&token);
        }
    }

    /// Encrypts what is to be sent.
    pub(crate) fn encrypt(&mut self, plain: &[crate::ring::Piece]) -> Option<Vec<u8>> {
        let tls = self.tls.as_mut()?;
        let mut out = Vec::new();
        for piece in plain {
            // The buffer has no limit: all of it is taken.
            tls.writer().write_all(piece.bytes()).ok()?;
        }
        while tls.wants_write() {
            tls.write_tls(&mut out).ok()?;
        }
        Some(out)
    }
}

/// The token of a request, without its connection.
fn token(request: &Request) -> Token {
    let (kind, length, moved) = match request.command {
        Command::Read { length, .. } => (Kind::Read, length, length),
        Command::Write { length, .. } => (Kind::Plain, 0, length),
        Command::BlockStatus { .. } => (Kind::Status, 0, 0),
        _ => (Kind::Plain, 0, 0),
    };
    Token {
        slot: 0,
        generation: 0,
        cookie: request.cookie,
        offset: request.command.offset(),
        length,
        kind,
        charge: moved.saturating_add(REQUEST_CHARGE),
    }
}
