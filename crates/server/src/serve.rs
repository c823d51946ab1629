//! The loop of the data thread.

mod room;

use crate::conn::Input;
use crate::front::{FrontEnd, Offer, Tls};
use crate::listen::{Listen, ListenError, Listener};
use crate::port::{Owner, Port, Token};
use crate::ring::{Completion, Work};
use destage_block::{Backend, Driver, Export, Piece};
use destage_engine::units::{Duration, Instant};
use rustix::event::{EventfdFlags, eventfd};
use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

/// What a server offers and allows.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens, and for which front end.
    pub listen: Vec<(FrontEnd, Listen)>,
    /// What it serves.
    pub export: Export,
    /// With it, TCP clients must use TLS and those of Unix sockets may.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// With TLS, clients of Unix sockets must use it too.
    pub tls_required: bool,
    /// Allow TCP addresses that other machines reach, without TLS.
    pub plain_tcp: bool,
    /// Most connections at a time. A new one takes the place of one that has not opened the export,
    /// or is unused. If there is none, the new one is closed at once.
    pub connections_max: usize,
    /// A connection that has made no request for this long is unused.
    pub unused_time: std::time::Duration,
    /// So is one that made none for this long after its last.
    pub idle_time: std::time::Duration,
    /// How long a client may take until it has opened the export.
    pub handshake_time: std::time::Duration,
    /// Bytes of requests and replies of one connection at which nothing more is received. One
    /// request may go over it.
    pub connection_bytes: usize,
    /// Bytes of requests and replies of all connections at which clients that do not take their
    /// replies are not served.
    pub total_bytes: usize,
    /// While that total is reached, the server disconnects a client that for this long takes none
    /// of its replies, or sends nothing of a payload.
    pub reply_time: std::time::Duration,
    /// How long the data thread polls for work before it sleeps, if the last work came that soon.
    pub busy_poll: std::time::Duration,
}

/// Waking a processor takes some microseconds, and more for a virtual one. A client at depth 1
/// needs about as long for its next request.
const BUSY_POLL: std::time::Duration = std::time::Duration::from_micros(20);

impl Settings {
    /// The usual limits for an export.
    pub fn new(export: Export, listen: Vec<(FrontEnd, Listen)>) -> Settings {
        Settings {
            listen,
            export,
            tls: None,
            tls_required: false,
            plain_tcp: false,
            connections_max: 256,
            unused_time: std::time::Duration::from_secs(10),
            idle_time: std::time::Duration::from_secs(300),
            handshake_time: std::time::Duration::from_secs(10),
            connection_bytes: 64 << 20,
            // An eighth of a machine with 1 GiB.
            total_bytes: 128 << 20,
            reply_time: std::time::Duration::from_secs(60),
            // With one processor the client could not run in the meantime.
            busy_poll: match std::thread::available_parallelism() {
                Ok(processors) if processors.get() > 1 => BUSY_POLL,
                _ => std::time::Duration::ZERO,
            },
        }
    }

    /// When the clients of an address use TLS.
    fn tls_at(&self, listen: &Listen) -> Tls {
        match (&self.tls, listen) {
            (None, _) => Tls::Off,
            (Some(_), Listen::Tcp(_)) => Tls::Required,
            (Some(_), Listen::Unix(_)) if self.tls_required => Tls::Required,
            (Some(_), Listen::Unix(_)) => Tls::Offered,
        }
    }
}

enum Note {
    Message(Box<dyn Any + Send>),
    Stop,
    Hurry,
}

/// The way to a running server from other threads.
#[derive(Clone)]
pub struct Remote {
    notes: mpsc::Sender<Note>,
    event: Arc<OwnedFd>,
    connections: Arc<AtomicUsize>,
}

impl Remote {
    /// Sends the backend a message; false if the server is gone.
    pub fn send(&self, message: Box<dyn Any + Send>) -> bool {
        self.note(Note::Message(message))
    }

    /// Ends the server: it takes no more requests, answers those it has, and returns.
    pub fn stop(&self) -> bool {
        self.note(Note::Stop)
    }

    /// Ends the server at once: its pending requests may get no answer.
    pub fn hurry(&self) -> bool {
        self.note(Note::Hurry)
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn note(&self, note: Note) -> bool {
        let sent = self.notes.send(note).is_ok();
        // A full counter has woken the thread already.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
        sent
    }
}

/// A server that listens and does not serve yet.
pub struct Server {
    settings: Settings,
    listeners: Vec<Listener>,
    notes: mpsc::Receiver<Note>,
    remote: Remote,
}

impl Server {
    /// Listens on all addresses.
    pub fn bind(settings: Settings) -> Result<Server, ListenError> {
        let bind = |(front_end, listen): &(FrontEnd, Listen)| {
            Listener::bind(*front_end, listen, settings.tls_at(listen), settings.plain_tcp)
        };
        let listeners = settings.listen.iter().map(bind).collect::<Result<_, _>>()?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| ListenError::System("eventfd".to_string(), error.into()))?;
        let (sender, notes) = mpsc::channel();
        let connections = Arc::default();
        let remote = Remote { notes: sender, event: Arc::new(event), connections };
        Ok(Server { settings, listeners, notes, remote })
    }

    /// Where it listens; ports that were 0 are known.
    pub fn addresses(&self) -> Vec<Listen> {
        self.listeners.iter().map(|listener| listener.address.clone()).collect()
    }

    /// The way to it from other threads.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Serves until [`Remote::stop`]. The calling thread is the data thread.
    ///
    /// # Errors
    /// If the kernel has no usable io_uring, or refuses it later.
    pub fn run<B: Backend<Port> + ?Sized>(self, backend: &mut B) -> io::Result<()> {
        // So that a wait ends on time and not 50 us later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let port = Port::new(self.settings.total_bytes)?;
        let mut turns = Loop::new(self, port, backend);
        turns.port.ring.set_busy_poll(turns.server.settings.busy_poll);
        turns.begin();
        turns.run()
    }
}

/// How long a stopping server waits for clients to take their replies.
const LINGER: Duration = Duration::from_secs(5);
/// How long no connection is accepted after the system refused one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

struct Loop<'b, B: Backend<Port> + ?Sized> {
    server: Server,
    sockets: Vec<Arc<OwnedFd>>,
    port: Port,
    backend: &'b mut B,
    inputs: Vec<Option<Input>>,
    free: Vec<u32>,
    /// When connections must have opened the export, in order of time: slots and generations.
    opening: VecDeque<(Instant, u32, u32)>,
    /// Listeners to accept from again, and when.
    paused: Vec<usize>,
    accept_again: Option<Instant>,
    /// When a stopping server no longer waits for its clients.
    stopping: Option<Instant>,
    /// When to look for clients that do not take their replies.
    look_at: Option<Instant>,
    /// When the log last said that connections are refused.
    refused: Option<Instant>,
    hurried: bool,
    dirty: Vec<u32>,
}

impl<'b, B: Backend<Port> + ?Sized> Loop<'b, B> {
    fn new(mut server: Server, port: Port, backend: &'b mut B) -> Loop<'b, B> {
        let sockets = server.listeners.iter_mut().map(|listener| {
            let socket = listener.socket.take().expect("taken once");
            Arc::new(socket)
        });
        let sockets = sockets.collect();
        Loop {
            sockets,
            server,
            port,
            backend,
            inputs: Vec::new(),
            free: Vec::new(),
            opening: VecDeque::new(),
            paused: Vec::new(),
            accept_again: None,
            stopping: None,
            look_at: None,
            refused: None,
            hurried: false,
            dirty: Vec::new(),
        }
    }

    fn begin(&mut self) {
        for listener in 0..self.sockets.len() {
            self.accept(listener);
        }
        self.watch();
        self.backend.start(&mut self.port);
    }

    fn accept(&mut self, listener: usize) {
        let socket = self.sockets[listener].clone();
        self.port.push(Owner::Listener(listener), Work::Accept { socket });
    }

    fn watch(&mut self) {
        let event = self.server.remote.event.clone();
        self.port.push(Owner::Wake, Work::Readable { event });
    }

    fn run(&mut self) -> io::Result<()> {
        let mut done = Vec::new();
        while !self.over() {
            let begun = self.port.now();
            let most = self.wake_at().map(|at| std::time::Duration::from_nanos(at.since(begun).0));
            self.port.ring.wait(most, &mut done)?;
            let waited = self.port.now().since(begun);
            self.port.ring.waited(std::time::Duration::from_nanos(waited.0));
            for completion in done.drain(..) {
                self.complete(completion);
            }
            self.times();
            self.admit_waiting();
            self.backend.turn(&mut self.port);
            self.flush();
            if let Some(error) = self.port.broken.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn over(&self) -> bool {
        let Some(at) = self.stopping else { return false };
        if self.hurried {
            return true;
        }
        let drained = self.inputs.iter().all(Option::is_none) || self.port.now() >= at;
        drained && self.backend.stopped()
    }

    fn wake_at(&self) -> Option<Instant> {
        let opening = self.opening.front().map(|(at, ..)| *at);
        let linger = self.stopping.filter(|at| self.port.now() < *at);
        let at_once = self.port.total.due() || self.port.has_dirty();
        let waiting = at_once.then_some(Instant(0));
        let times = [self.backend.deadline(), opening, self.accept_again, linger];
        times.into_iter().chain([self.look_at, waiting]).flatten().min()
    }

    fn complete(&mut self, mut completion: Completion<Owner>) {
        match completion.tag {
            Owner::Listener(listener) => self.accepted(listener, completion),
            Owner::Receive(slot) => self.received(slot, completion),
            Owner::Send(slot) => self.sent(slot, completion),
            Owner::HangUp(slot, generation) => self.hung_up(slot, generation),
            Owner::Device(_) => {
                if let Some((key, outcome)) = self.port.device_done(completion) {
                    self.backend.done(&mut self.port, key, outcome);
                }
            }
            Owner::Wake => {
                completion.accepted = None;
                self.woken();
            }
        }
    }

    fn accepted(&mut self, listener: usize, completion: Completion<Owner>) {
        if self.stopping.is_some() {
            return;
        }
        match (completion.accepted, completion.result) {
            (Some(socket), _) => self.connect(listener, socket),
            (None, Err(error)) if error.raw_os_error() == Some(libc::ECONNABORTED) => {}
            // Out of descriptors or memory: later.
            _ => {
                self.paused.push(listener);
                self.accept_again.get_or_insert(self.port.now() + ACCEPT_PAUSE);
                return;
            }
        }
        self.accept(listener);
    }

    fn connect(&mut self, listener: usize, socket: OwnedFd) {
        if self.server.remote.connections() >= self.server.settings.connections_max
            && !self.make_room()
        {
            return;
        }
        if self.server.listeners[listener].tcp {
            let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
            let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
        }
        self.server.remote.connections.fetch_add(1, Ordering::Relaxed);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.inputs.push(None);
            self.port.add_output();
            self.inputs.len() as u32 - 1
        });
        let (listener, settings) = (&self.server.listeners[listener], &self.server.settings);
        let offer = Offer { export: &settings.export, tls: listener.tls };
        let mut greeting = Vec::new();
        let decoder = listener.front_end.connect(&offer, &mut greeting);
        self.port.append(slot, |out| out.extend_from_slice(&greeting));
        let (tls, bytes) = (settings.tls.clone(), settings.connection_bytes);
        let time = Duration(settings.handshake_time.as_nanos() as u64);
        let generation = self.port.outputs[slot as usize].generation;
        self.opening.push_back((self.port.now() + time, slot, generation));
        let mut input = Input::new(Arc::new(socket), slot, decoder, tls, bytes);
        input.heard = self.port.now();
        let socket = input.socket.clone();
        self.port.push(Owner::HangUp(slot, generation), Work::HangUp { socket });
        self.inputs[slot as usize] = Some(input);
    }

    fn received(&mut self, slot: u32, completion: Completion<Owner>) {
        let Some(input) = &mut self.inputs[slot as usize] else { return };
        let Work::Receive { buffer, from, .. } = completion.work else { return };
        let count = match completion.result {
            Ok(count) => count,
            Err(error) => {
                let again = matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN));
                input.broken |= !again;
                if again {
                    let socket = input.socket.clone();
                    let work = Work::Receive { socket, buffer, from };
                    return self.port.push(Owner::Receive(slot), work);
                }
                0
            }
        };
        if count > 0 {
            input.heard = self.port.lately();
        }
        input.received(&mut self.port, self.backend, (buffer, from), count);
        if input.ended {
            input.drop_incomplete(&mut self.port);
        }
        self.port.touch(slot);
    }

    fn sent(&mut self, slot: u32, completion: Completion<Owner>) {
        let Work::Send { socket, pieces, from } = completion.work else { return };
        let total: usize = pieces.iter().map(|piece| piece.bytes().len()).sum();
        if let Ok(count @ 1..) = completion.result {
            let now = self.port.lately();
            let output = &mut self.port.outputs[slot as usize];
            output.taken = now;
            output.share.moved(count);
        }
        let again = match completion.result {
            Ok(count) => Some(from + count),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {
                Some(from)
            }
            Err(_) => None,
        };
        match again {
            Some(from) if from < total => {
                let work = Work::Send { socket, pieces, from };
                return self.port.push(Owner::Send(slot), work);
            }
            Some(_) => self.port.recycle_pieces(pieces),
            None => {
                if let Some(input) = &mut self.inputs[slot as usize] {
                    input.broken = true;
                }
            }
        }
        let output = &mut self.port.outputs[slot as usize];
        (output.sending, output.sending_bytes) = (false, 0);
        self.port.touch(slot);
        // It may have been waiting for this.
        if let Some(input) = &mut self.inputs[slot as usize]
            && !input.receiving
        {
            input.resume(&mut self.port, self.backend);
        }
    }

    fn woken(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.server.remote.event, &mut count);
        while let Ok(note) = self.server.notes.try_recv() {
            match note {
                Note::Message(message) => self.backend.message(&mut self.port, message),
                Note::Stop => self.stop(),
                Note::Hurry => {
                    self.stop();
                    self.backend.hurry(&mut self.port);
                    self.hurried = true;
                }
            }
        }
        self.watch();
    }

    fn stop(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        self.stopping = Some(self.port.now() + LINGER);
        self.backend.stop(&mut self.port);
        for slot in 0..self.inputs.len() {
            if let Some(input) = &mut self.inputs[slot] {
                input.ended = true;
                input.drop_incomplete(&mut self.port);
                self.port.touch(slot as u32);
            }
        }
    }

    fn times(&mut self) {
        let now = self.port.lately();
        while let Some((at, slot, generation)) = self.opening.front().copied() {
            let output = &self.port.outputs[slot as usize];
            let current = output.generation == generation;
            let input = self.inputs[slot as usize].as_mut().filter(|_| current);
            let opening = input.filter(|input| input.opening());
            if at > now && opening.is_some() {
                break;
            }
            self.opening.pop_front();
            if let Some(input) = opening {
                input.broken = true;
                self.port.touch(slot);
            }
        }
        self.look_for_stalled(now);
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            for listener in std::mem::take(&mut self.paused) {
                self.accept(listener);
            }
        }
        if self.backend.deadline().is_some_and(|at| at <= now) {
            self.backend.timer(&mut self.port);
        }
    }

    /// The client of a connection is gone, or sends no more: nothing more of what it has sent is
    /// taken, and what has not begun is not carried out. What has begun is answered.
    fn hung_up(&mut self, slot: u32, generation: u32) {
        let Some(input) = &mut self.inputs[slot as usize] else { return };
        if self.port.outputs[slot as usize].generation == generation {
            input.ended = true;
            input.drop_incomplete(&mut self.port);
            self.backend.withdraw(&mut self.port, &|token: &Token| token.is_of(slot));
            self.port.touch(slot);
        }
    }

    /// Sends what there is, receives where there is room, closes what has ended.
    fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.port.take_dirty(&mut dirty);
        for slot in dirty.drain(..) {
            self.flush_one(slot);
        }
        self.dirty = dirty;
    }

    fn flush_one(&mut self, slot: u32) {
        self.send(slot);
        self.port.count(slot);
        let Some(input) = &mut self.inputs[slot as usize] else { return };
        let over = input.broken || input.ended && self.port.outputs[slot as usize].idle();
        if over {
            return self.close(slot);
        }
        if input.may_resume(&self.port) {
            self.port.total.resume(slot);
        }
        if let Some((buffer, from)) = input.receive_into(&self.port) {
            let socket = input.socket.clone();
            self.port.push(Owner::Receive(slot), Work::Receive { socket, buffer, from });
        }
    }

    fn send(&mut self, slot: u32) {
        let now = self.port.lately();
        let Some(input) = &mut self.inputs[slot as usize] else { return };
        let output = &mut self.port.outputs[slot as usize];
        if !output.sending && !input.broken && input.tls.is_none() {
            input.broken = output.send_now(&input.socket, now).is_err();
        }
        if !output.sending && !input.broken && (input.tls.is_some() || output.unsent()) {
            let held = output.held_bytes();
            let mut pieces = std::mem::take(&mut output.wire);
            if input.tls.is_some() {
                match input.encrypt(output) {
                    Some(bytes) if bytes.is_empty() => {}
                    Some(bytes) => pieces.push(Piece::Bytes(bytes)),
                    None => input.broken = true,
                }
            } else if pieces.is_empty() {
                pieces = output.take_plain();
            } else {
                pieces.append(&mut output.take_plain());
            }
            pieces.retain(|piece| !piece.bytes().is_empty());
            if !pieces.is_empty() {
                output.sending = true;
                output.taken = now;
                output.sending_bytes = held.saturating_sub(output.held_bytes());
                let socket = input.socket.clone();
                self.port.push(Owner::Send(slot), Work::Send { socket, pieces, from: 0 });
            }
        }
    }

    /// Ends a connection. Its slot is free once the kernel no longer uses its buffers.
    fn close(&mut self, slot: u32) {
        let Some(input) = &mut self.inputs[slot as usize] else { return };
        if !input.closed {
            input.broken = true;
            input.closed = true;
            let _ = rustix::net::shutdown(&*input.socket, rustix::net::Shutdown::Both);
            // The backend does not know it, and it would count for ever.
            input.drop_incomplete(&mut self.port);
            self.port.abandon(slot);
            self.backend.withdraw(&mut self.port, &|token: &Token| token.is_of(slot));
            self.server.remote.connections.fetch_sub(1, Ordering::Relaxed);
        }
        if !input.receiving && !self.port.outputs[slot as usize].sending {
            self.inputs[slot as usize] = None;
            self.free.push(slot);
        }
    }
}
