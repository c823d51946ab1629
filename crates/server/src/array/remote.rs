//! A member that another process serves over NBD, on the data thread: requests go out and
//! replies come in through the ring. An operation longer than the server's longest request is
//! several requests. When the connection breaks, operations wait for the next one
//! (`reconnect.rs`); then what the server may have lost is sent again, and then they.

use super::devices::request_bytes;
use super::kept::Kept;
use destage_block::{Driver, Handle, Io, Piece, SharedBytes};
use destage_engine::units::{Duration, Instant};
use destage_nbd::Session;
use destage_nbd::client::{Conversation, Reply};
use destage_nbd::request::{Command, Request};
use destage_nbd::wire;
use destage_nvslog::superblock::Uuid;
use destage_served::{Buffer, IoClass, IoError, OpId, OpKind};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const INPUT: usize = 256 << 10;
/// How long a server that ends is given to answer what it has, in nanoseconds.
const DRAIN: u64 = 3_000_000_000;

/// What a request without a reply is for.
#[derive(Clone, Copy)]
enum Purpose {
    /// The operation of this number, or a part of it.
    Op(u64),
    /// A flush that no operation asks for.
    Flush,
    /// A write that was kept, or a part of it.
    Kept,
}

/// An operation without a result.
struct Pending {
    kind: OpKind,
    since: Instant,
    /// Of a read.
    buffer: Option<Buffer>,
    /// A flush has been sent, when this was the last write that was kept.
    flush: Option<u64>,
    /// Requests of this connection that it waits for.
    left: usize,
    /// The first error of one of them, on any connection.
    error: Option<IoError>,
}

/// What a remote member is recognised by.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) uri: String,
    pub(super) array: Uuid,
    pub(super) device: Uuid,
    pub(super) bytes: u64,
    /// The least generation that its superblock may have: one with less is an older copy.
    pub(super) generation: u64,
    /// The newest generation that this server may have written to it: one with more has been used
    /// by another server since.
    pub(super) newest: u64,
}

/// The result of an operation.
pub(crate) type Ended = (OpId, Result<Option<Buffer>, IoError>);

/// What has happened to the connection.
pub(super) enum Event {
    /// It broke.
    Lost(IoError),
    /// It is back after this time; this many writes were sent again.
    Back { away: Duration, again: usize },
    /// The server gave it up, and why.
    GaveUp(String),
}

enum State {
    Up,
    /// The server ends: nothing more is asked, and replies are waited for. `since`: when the
    /// connection broke before, if this one was not of use yet. `until`: how long, once known.
    Drains {
        since: Option<Instant>,
        until: Option<Instant>,
    },
    /// The connection broke; nobody has begun to connect again.
    Cut(IoError),
    Waits {
        since: Instant,
        until: Instant,
        last: IoError,
        /// Ends the thread that connects.
        ended: Arc<AtomicBool>,
    },
    /// Writes that were kept are sent again: up to this number, without this many replies.
    Resends {
        since: Instant,
        through: u64,
        left: usize,
        again: usize,
    },
    Dead(IoError),
}

/// A remote member.
pub(crate) struct Remote {
    handle: Handle,
    conversation: Conversation,
    out: Vec<Piece>,
    sending: bool,
    receiving: bool,
    input: Option<Buffer>,
    /// By number, so in the order in which they were asked for.
    pending: BTreeMap<u64, Pending>,
    /// The requests of this connection without a reply, by their cookies.
    asked: BTreeMap<u64, Purpose>,
    /// The cookie of the last request: they ascend, and none comes again.
    last_cookie: u64,
    /// The cookie of the last request that was given to the socket.
    last_sent: u64,
    /// Bytes of the longest request that the server takes.
    most: usize,
    kept: Kept,
    /// Its own flush is in flight, sent when this was the last write that was kept.
    flush: Option<u64>,
    state: State,
    fua: bool,
    identity: Option<Identity>,
    events: Vec<Event>,
    /// When the connection broke first, if it came back and broke again before it was of use.
    away_since: Option<Instant>,
}

/// Keys of the two operations of a remote: send and receive.
pub(crate) struct Keys {
    pub(crate) send: u64,
    pub(crate) receive: u64,
}

impl Remote {
    pub(crate) fn new(handle: Handle, session: &Session) -> Remote {
        Remote {
            handle,
            conversation: Conversation::new(session),
            out: Vec::new(),
            sending: false,
            receiving: false,
            input: Some(Buffer::zeroed(INPUT)),
            pending: BTreeMap::new(),
            asked: BTreeMap::new(),
            last_cookie: 0,
            last_sent: 0,
            most: request_bytes(session),
            kept: Kept::default(),
            flush: None,
            state: State::Up,
            fua: session.has(wire::NBD_FLAG_SEND_FUA),
            identity: None,
            events: Vec::new(),
            away_since: None,
        }
    }

    /// Its socket.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// What it is known by when its server comes back.
    pub(super) fn identify(&mut self, identity: Identity) {
        self.identity = Some(identity);
    }

    pub(super) fn take_events(&mut self) -> Vec<Event> {
        core::mem::take(&mut self.events)
    }

    /// Puts an operation among what is to be sent.
    pub(crate) fn submit(&mut self, now: Instant, id: OpId, kind: OpKind, ended: &mut Vec<Ended>) {
        if let State::Dead(error) = self.state {
            ended.push((id, Err(error)));
            return;
        }
        let (buffer, flush, left, error) = (None, None, 0, None);
        self.pending.insert(id.0, Pending { kind, since: now, buffer, flush, left, error });
        if matches!(self.state, State::Up) {
            self.ask(id.0, ended);
        }
    }

    /// Asks for a pending operation.
    fn ask(&mut self, id: u64, ended: &mut Vec<Ended>) {
        let Some(mut pending) = self.pending.remove(&id) else { return };
        pending.left = 0;
        // Otherwise a part of it failed before the connection broke, which is its result.
        if pending.error.is_none() {
            (pending.left, pending.error) = self.put_operation(id, &mut pending);
        }
        match pending.error {
            Some(error) if pending.left == 0 => ended.push((OpId(id), Err(error))),
            _ => drop(self.pending.insert(id, pending)),
        }
    }

    /// Puts an operation among what is to be sent. Returns its number of requests, and the error if
    /// the server takes no more.
    fn put_operation(&mut self, id: u64, pending: &mut Pending) -> (usize, Option<IoError>) {
        pending.flush = None;
        match &pending.kind {
            OpKind::Read { offset, bytes } => {
                pending.buffer = Some(Buffer::zeroed(*bytes));
                self.put_read(id, *offset, *bytes)
            }
            OpKind::Write { offset, buffer, durable } => {
                let fua = *durable && self.fua;
                self.put_write(Purpose::Op(id), *offset, buffer, fua)
            }
            OpKind::Flush => {
                pending.flush = Some(self.kept.last());
                match self.put(Purpose::Op(id), Command::Flush) {
                    true => (1, None),
                    false => (0, Some(IoError::GONE)),
                }
            }
        }
    }

    fn put_read(&mut self, id: u64, offset: u64, bytes: usize) -> (usize, Option<IoError>) {
        let mut count = 0;
        for (offset, range) in parts(offset, bytes, self.most) {
            let length = range.len() as u32;
            let command = Command::Read { offset, length, dont_fragment: false };
            if !self.put(Purpose::Op(id), command) {
                return (count, Some(IoError::GONE));
            }
            count += 1;
        }
        (count, None)
    }

    fn put_write(
        &mut self,
        purpose: Purpose,
        offset: u64,
        buffer: &SharedBytes,
        fua: bool,
    ) -> (usize, Option<IoError>) {
        let mut count = 0;
        for (offset, range) in parts(offset, buffer.len(), self.most) {
            let length = range.len() as u32;
            if !self.put(purpose, Command::Write { offset, length, fua }) {
                return (count, Some(IoError::GONE));
            }
            count += 1;
            let all = range.len() == buffer.len();
            let part = if all { buffer.clone() } else { Buffer::copy_of(&buffer[range]).into() };
            self.out.push(Piece::Shared(part));
        }
        (count, None)
    }

    /// Puts a request among what is to be sent; false if the server takes no such request.
    fn put(&mut self, purpose: Purpose, command: Command) -> bool {
        let request = Request { cookie: self.last_cookie + 1, command };
        if !matches!(self.out.last(), Some(Piece::Bytes(_))) {
            self.out.push(Piece::Bytes(Vec::new()));
        }
        let Some(Piece::Bytes(bytes)) = self.out.last_mut() else { return false };
        if self.conversation.ask(&request, bytes).is_err() {
            return false;
        }
        self.last_cookie = request.cookie;
        self.asked.insert(request.cookie, purpose);
        true
    }

    /// Sends what there is and listens for replies.
    pub(crate) fn turn(&mut self, port: &mut impl Driver, keys: &Keys) {
        if !matches!(self.state, State::Up | State::Resends { .. } | State::Drains { .. }) {
            return;
        }
        if matches!(self.state, State::Up)
            && self.flush.is_none()
            && self.kept.wants_flush()
            && self.put(Purpose::Flush, Command::Flush)
        {
            self.flush = Some(self.kept.last());
        }
        if !self.sending && !self.out.is_empty() {
            (self.sending, self.last_sent) = (true, self.last_cookie);
            let bytes = core::mem::take(&mut self.out);
            port.submit(keys.send, Io::Send { device: self.handle, bytes });
        }
        if !self.receiving && !self.asked.is_empty() {
            self.receiving = true;
            let mut buffer = self.input.take().unwrap_or_else(|| Buffer::zeroed(INPUT));
            buffer.set_len(INPUT);
            port.submit(keys.receive, Io::Receive { device: self.handle, buffer });
        }
    }

    /// A send is over.
    pub(crate) fn sent(&mut self, result: Result<(), IoError>) {
        self.sending = false;
        if let Err(error) = result {
            self.cut(error);
        }
    }

    /// Something was received.
    pub(crate) fn received(
        &mut self,
        result: Result<(), IoError>,
        buffer: Option<Buffer>,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) {
        self.receiving = false;
        let buffer = match (result, buffer) {
            (Ok(()), Some(buffer)) => buffer,
            // The server has closed the connection.
            (Err(IoError::SHORT), _) | (Ok(()), None) => {
                self.cut(IoError::from_errno(libc::ECONNRESET));
                return;
            }
            (Err(error), _) => {
                self.cut(error);
                return;
            }
        };
        let mut at = 0;
        loop {
            let (taken, reply) = self.conversation.next(&buffer[at..]);
            match reply {
                Reply::NeedMore => break,
                Reply::Data { cookie, offset, range } => {
                    let bytes = &buffer[at + range.start..at + range.end];
                    if let Some(Purpose::Op(id)) = self.asked.get(&cookie)
                        && let Some(Pending {
                            kind: OpKind::Read { offset: from, .. },
                            buffer: Some(into),
                            ..
                        }) = self.pending.get_mut(id)
                    {
                        let to = (offset - *from) as usize;
                        into[to..to + bytes.len()].copy_from_slice(bytes);
                    }
                }
                // The buffer is zeros already.
                Reply::Hole { .. } | Reply::Extents { .. } | Reply::Error { .. } => {}
                Reply::Done { cookie, errno } => self.done(cookie, errno, now, ended),
                Reply::HangUp(_) => {
                    self.die(Some("its server broke the protocol".to_string()), ended);
                    return;
                }
            }
            at += taken;
        }
        self.input = Some(buffer);
    }

    /// The end of a reply.
    fn done(&mut self, cookie: u64, errno: Option<u32>, now: Instant, ended: &mut Vec<Ended>) {
        let Some(purpose) = self.asked.remove(&cookie) else { return };
        match purpose {
            // What was asked is sent to the next server.
            _ if errno == Some(wire::NBD_ESHUTDOWN) => self.drain(),
            Purpose::Op(id) => self.finish(id, errno, ended),
            Purpose::Flush | Purpose::Kept => self.own_done(purpose, errno, now, ended),
        }
        if matches!(self.state, State::Drains { .. }) && self.asked.is_empty() {
            self.cut(IoError::from_errno(libc::ESHUTDOWN));
        }
    }

    /// The reply to an operation, or to a part of it. It ends with the last one: until then the
    /// array does not write there again.
    fn finish(&mut self, id: u64, errno: Option<u32>, ended: &mut Vec<Ended>) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.left -= 1;
        if let Some(errno) = errno {
            let mut error = IoError::from_errno(errno as i32);
            let durable = matches!(pending.kind, OpKind::Write { durable: true, .. });
            if pending.flush.is_some() || durable && self.fua {
                // The server may have dropped writes: another flush that succeeds proves nothing.
                error.class = IoClass::Gone;
            }
            pending.error.get_or_insert(error);
        }
        if pending.left > 0 {
            return;
        }
        let Some(mut pending) = self.pending.remove(&id) else { return };
        if let Some(error) = pending.error {
            ended.push((OpId(id), Err(error)));
            return;
        }
        if let Some(mark) = pending.flush {
            self.kept.flushed(mark);
        } else if let OpKind::Write { offset, buffer, durable } = &pending.kind {
            let flush = *durable && !self.fua;
            match flush || !*durable {
                true => self.kept.add(*offset, buffer.clone()),
                false => self.kept.durable(*offset, buffer),
            }
            if flush {
                (pending.flush, pending.left) = (Some(self.kept.last()), 1);
                // Otherwise the next server is asked for the write, and for this.
                if !matches!(self.state, State::Up) || self.put(Purpose::Op(id), Command::Flush) {
                    self.pending.insert(id, pending);
                } else {
                    ended.push((OpId(id), Err(IoError::GONE)));
                }
                return;
            }
        }
        ended.push((OpId(id), Ok(pending.buffer)));
    }

    /// The reply to a request of its own.
    fn own_done(
        &mut self,
        purpose: Purpose,
        errno: Option<u32>,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) {
        if let Some(errno) = errno {
            let error = IoError::from_errno(errno as i32);
            self.die(Some(format!("a write or flush that was repeated failed: {error}")), ended);
            return;
        }
        if matches!(purpose, Purpose::Flush) {
            if let Some(mark) = self.flush.take() {
                self.kept.flushed(mark);
            }
            return;
        }
        if let State::Resends { left, .. } = &mut self.state {
            *left -= 1;
            if *left == 0 {
                self.resend(now, ended);
            }
        }
    }

    /// The server ends. It still carries out what it has, so its replies are waited for: an older
    /// write must not come after a newer one of the next connection.
    fn drain(&mut self) {
        let since = match self.state {
            State::Up => None,
            State::Resends { since, .. } => Some(since),
            _ => return,
        };
        let last_sent = self.last_sent;
        self.asked.retain(|cookie, _| *cookie <= last_sent);
        self.out.clear();
        self.state = State::Drains { since, until: None };
    }

    /// The connection broke.
    fn cut(&mut self, error: IoError) {
        let (since, error) = match self.state {
            State::Up => (None, error),
            // It had come back, and was not of use yet.
            State::Resends { since, .. } => (Some(since), error),
            State::Drains { since, .. } => (since, IoError::from_errno(libc::ESHUTDOWN)),
            _ => return,
        };
        if since.is_none() {
            self.events.push(Event::Lost(error));
        }
        self.away_since = since;
        self.state = State::Cut(error);
    }

    /// The connection broke, and nobody has begun to connect again.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self.state, State::Cut(_))
    }

    /// Whether it waits for a connection.
    pub(super) fn waits(&self) -> bool {
        matches!(self.state, State::Waits { .. })
    }

    /// Waits for a connection from now on, for this many nanoseconds from the oldest operation on:
    /// what to connect to, and what ends the attempts. `None` if it cannot be used again.
    pub(super) fn begin_wait(
        &mut self,
        now: Instant,
        limit: u64,
    ) -> Option<(Identity, Arc<AtomicBool>)> {
        let State::Cut(last) = self.state else { return None };
        if self.kept.has_let_go() {
            let text = "more writes than are kept had not been flushed when the connection broke";
            self.events.push(Event::GaveUp(text.to_string()));
            return None;
        }
        let identity = self.identity.clone()?;
        let since = self.away_since.take().unwrap_or(now);
        let oldest = self.pending.values().map(|pending| pending.since).min();
        let until = oldest.unwrap_or(since).min(since) + Duration(limit);
        let ended = Arc::new(AtomicBool::new(false));
        self.state = State::Waits { since, until, last, ended: Arc::clone(&ended) };
        Some((identity, ended))
    }

    /// When [`Remote::expire`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Waits { until, .. } => Some(*until),
            State::Drains { until, .. } => *until,
            _ => None,
        }
    }

    /// Gives it up if it has waited too long for a connection, and a connection if its server ends
    /// and has not answered for long. `limit`: as in [`Remote::begin_wait`], which has to follow.
    pub(super) fn expire(&mut self, now: Instant, limit: u64, ended: &mut Vec<Ended>) {
        match &mut self.state {
            State::Drains { until, .. } => {
                let until = *until.get_or_insert(now + Duration(DRAIN.min(limit / 4)));
                if now >= until {
                    self.cut(IoError::from_errno(libc::ESHUTDOWN));
                }
            }
            State::Waits { since, until, last, .. } if now >= *until => {
                let seconds = now.since(*since).0 as f64 / 1e9;
                let text = format!("its server could not be reached for {seconds:.1} s: {last}");
                self.die(Some(text), ended);
            }
            _ => {}
        }
    }

    /// An attempt to connect failed.
    pub(super) fn failed_again(&mut self, error: IoError) {
        if let State::Waits { last, .. } = &mut self.state {
            *last = error;
        }
    }

    /// The disk that is served there is another one.
    pub(super) fn refuse(&mut self, why: &str, ended: &mut Vec<Ended>) {
        if let State::Waits { last, .. } = &mut self.state {
            *last = IoError::from_errno(libc::ENODEV);
            self.die(Some(format!("its server came back with another disk: {why}")), ended);
        }
    }

    /// There is a connection again: first what the server may have lost.
    pub(super) fn back(
        &mut self,
        handle: Handle,
        session: &Session,
        now: Instant,
        ended: &mut Vec<Ended>,
    ) {
        let State::Waits { since, .. } = self.state else { return };
        self.handle = handle;
        self.conversation = Conversation::new(session);
        self.fua = session.has(wire::NBD_FLAG_SEND_FUA);
        self.most = request_bytes(session);
        self.out.clear();
        self.asked.clear();
        (self.sending, self.receiving, self.flush) = (false, false, None);
        let again = self.kept.len();
        self.state = State::Resends { since, through: 0, left: 0, again };
        self.resend(now, ended);
    }

    /// Sends the next of the writes that were kept; after the last, what is pending.
    fn resend(&mut self, now: Instant, ended: &mut Vec<Ended>) {
        let State::Resends { since, through, again, .. } = self.state else { return };
        let batch = self.kept.batch(through);
        if let Some((last, ..)) = batch.last() {
            let (through, mut left) = (*last, 0);
            for (_, offset, buffer) in batch {
                let (count, refused) = self.put_write(Purpose::Kept, offset, &buffer, false);
                if refused.is_some() {
                    let text = "its server takes no such writes any more";
                    return self.die(Some(text.to_string()), ended);
                }
                left += count;
            }
            self.state = State::Resends { since, through, left, again };
            return;
        }
        self.state = State::Up;
        self.events.push(Event::Back { away: now.since(since), again });
        let ids: Vec<u64> = self.pending.keys().copied().collect();
        ids.into_iter().for_each(|id| self.ask(id, ended));
    }

    /// It is not used any further: all that is pending fails.
    pub(super) fn die(&mut self, why: Option<String>, ended: &mut Vec<Ended>) {
        let error = match &self.state {
            State::Cut(error) | State::Dead(error) => *error,
            State::Waits { last, ended, .. } => {
                ended.store(true, Ordering::Relaxed);
                *last
            }
            State::Up | State::Resends { .. } | State::Drains { .. } => IoError::GONE,
        };
        // What may pass is tried again, for ever: nothing is carried out here any more.
        let error = if error.passes() { IoError { class: IoClass::Gone, ..error } } else { error };
        self.events.extend(why.map(Event::GaveUp));
        self.state = State::Dead(error);
        let pending = core::mem::take(&mut self.pending);
        ended.extend(pending.into_keys().map(|id| (OpId(id), Err(error))));
    }
}

/// The requests of at most this many bytes that cover a range: where each begins, and which of the
/// range's bytes it has.
fn parts(offset: u64, bytes: usize, most: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    let part = move |from: usize| (offset + from as u64, from..bytes.min(from + most));
    // What has no bytes is one request, too: it must not end without an answer.
    (0..bytes.max(1)).step_by(most).map(part)
}

impl Drop for Remote {
    fn drop(&mut self) {
        if let State::Waits { ended, .. } = &self.state {
            ended.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "remote_tests.rs"]
mod tests;
