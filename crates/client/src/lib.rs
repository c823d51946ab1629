//! An NBD client on a blocking socket that keeps many requests in flight. `destage bench`, remote
//! members (to connect) and tests use it.

use destage_nbd::client::{self, Address, Conversation, Handshake, Options, Reply, Step, Uri};
use destage_nbd::request::{Command, Request};
use destage_nbd::{Mode, Session, wire};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, recv, send,
    socket_with,
};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why a client cannot continue.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address cannot be reached, or the connection broke.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// The server answered nothing for as long as the client waits.
    #[error("the server did not answer for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The handshake failed.
    #[error("{}", handshake_words(.0))]
    Handshake(client::Failure),
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0:?}")]
    Violation(client::Violation),
    /// The session does not allow the request.
    #[error("{0}")]
    Refused(&'static str),
    /// The server answered a request with this error.
    #[error("the server answers with error {0}")]
    Answer(u32),
    /// The URI asks for TLS.
    #[error("this client has no TLS; use nbd:// or nbd+unix://")]
    Tls,
}

fn handshake_words(failure: &client::Failure) -> String {
    match failure {
        client::Failure::Refused { text, .. } if !text.is_empty() => {
            format!("the server refuses: {text}")
        }
        failure => format!("the handshake failed: {failure:?}"),
    }
}

impl From<rustix::io::Errno> for ClientError {
    fn from(error: rustix::io::Errno) -> ClientError {
        ClientError::Io(error.into())
    }
}

/// Part of a reply, as it arrives.
#[derive(Debug)]
pub enum Heard<'a> {
    /// Bytes of a read, with their offset in the export; the request's cookie.
    Data(u64, u64, &'a [u8]),
    /// Zeros of a read: offset and number.
    Hole(u64, u64, u32),
    /// A reply is complete; its error, if it failed.
    Done(u64, Option<u32>),
}

/// A connection in the transmission phase.
pub struct Client {
    socket: OwnedFd,
    session: Session,
    conversation: Conversation,
    out: Vec<u8>,
    out_at: usize,
    input: Vec<u8>,
    /// Longest wait for a reply in [`Client::call`].
    patience: Option<Duration>,
    /// The connection broke: requests may still be without a reply.
    ended: bool,
}

const INPUT: usize = 256 << 10;

impl Client {
    /// Connects and opens the export, with messages of at most this form. Waits for the server
    /// without end.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub fn connect(uri: &Uri, mode: Mode) -> Result<Client, ClientError> {
        Client::open(uri, mode, None)
    }

    /// The same, for a server that may hang: [`ClientError::Silent`] if the handshake, or later a
    /// [`Client::call`], waits for longer than this.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(
        uri: &Uri,
        mode: Mode,
        patience: Duration,
    ) -> Result<Client, ClientError> {
        Client::open(uri, mode, Some(patience))
    }

    fn open(uri: &Uri, mode: Mode, patience: Option<Duration>) -> Result<Client, ClientError> {
        if uri.tls {
            return Err(ClientError::Tls);
        }
        let mut options = Options::new(&uri.export);
        options.mode = mode;
        let socket: OwnedFd = match &uri.address {
            Address::Unix(path) => unix(path.as_ref(), patience)?,
            Address::Tcp(host, port) => {
                let stream = tcp(host, *port, patience)?;
                stream.set_nodelay(true)?;
                stream.into()
            }
        };
        set_socket_timeout(&socket, Timeout::Recv, patience)?;
        let mut stream = File::from(socket);
        let (session, rest) = shake(&mut stream, options, patience)?;
        let socket = stream.into();
        set_socket_timeout(&socket, Timeout::Recv, None)?;
        Client::new(socket, session, &rest, patience)
    }

    fn new(
        socket: OwnedFd,
        session: Session,
        rest: &[u8],
        patience: Option<Duration>,
    ) -> Result<Client, ClientError> {
        if !rest.is_empty() {
            return Err(ClientError::Violation(client::Violation::Cookie));
        }
        Ok(Client {
            socket,
            conversation: Conversation::new(&session),
            session,
            out: Vec::new(),
            out_at: 0,
            input: vec![0; INPUT],
            patience,
            ended: false,
        })
    }

    /// What was negotiated.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Requests without a complete reply.
    pub fn in_flight(&self) -> usize {
        self.conversation.in_flight()
    }

    /// Queues a request for sending, and the payload of a WRITE.
    ///
    /// # Errors
    /// If the session does not allow it, or the connection has broken. Nothing is queued then.
    pub fn put(&mut self, request: &Request, payload: &[u8]) -> Result<(), ClientError> {
        if self.ended {
            return Err(ClientError::Closed);
        }
        let refused = |refusal: destage_nbd::request::Refusal| ClientError::Refused(refusal.text());
        self.conversation.ask(request, &mut self.out).map_err(refused)?;
        self.out.extend_from_slice(payload);
        Ok(())
    }

    /// Sends what is queued, and waits for replies for at most this long.
    ///
    /// # Errors
    /// If the connection has ended, or the server breaks the protocol.
    pub fn pump(
        &mut self,
        most: Option<Duration>,
        hear: impl FnMut(Heard<'_>),
    ) -> Result<(), ClientError> {
        self.send()?;
        let unsent = self.out_at < self.out.len();
        let mut flags = RecvFlags::empty();
        if unsent || most.is_some() {
            flags = RecvFlags::DONTWAIT;
            let wanted = if unsent { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            let time = most.map(|most| Timespec {
                tv_sec: most.as_secs() as i64,
                tv_nsec: i64::from(most.subsec_nanos()),
            });
            match poll(&mut [PollFd::new(&self.socket, wanted)], time.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.receive(flags, hear)
    }

    fn receive(
        &mut self,
        flags: RecvFlags,
        hear: impl FnMut(Heard<'_>),
    ) -> Result<(), ClientError> {
        let heard = match recv(&self.socket, &mut self.input[..], flags) {
            Ok((_, 0)) => Err(ClientError::Closed),
            Ok((_, count)) => self.decode(count, hear),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        };
        self.ended |= heard.is_err();
        heard
    }

    /// Limits a wait without end: it returns after this long if nothing arrives.
    ///
    /// # Errors
    /// If the socket does not take it.
    pub fn set_timeout(&mut self, time: Duration) -> Result<(), ClientError> {
        Ok(set_socket_timeout(&self.socket, Timeout::Recv, Some(time))?)
    }

    /// Sends what the socket takes, without waiting; returns whether there is more.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn send_some(&mut self) -> Result<bool, ClientError> {
        self.send()?;
        Ok(self.out_at < self.out.len())
    }

    /// Takes in what has arrived, without waiting.
    ///
    /// # Errors
    /// As [`Client::pump`].
    pub fn hear_some(&mut self, hear: impl FnMut(Heard<'_>)) -> Result<(), ClientError> {
        self.receive(RecvFlags::DONTWAIT, hear)
    }

    fn send(&mut self) -> Result<(), ClientError> {
        while self.out_at < self.out.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.socket, &self.out[self.out_at..], flags) {
                Ok(count) => self.out_at += count,
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    self.ended = true;
                    return Err(error.into());
                }
            }
        }
        self.out.clear();
        self.out_at = 0;
        Ok(())
    }

    fn decode(&mut self, count: usize, mut hear: impl FnMut(Heard<'_>)) -> Result<(), ClientError> {
        let mut at = 0;
        loop {
            let (taken, reply) = self.conversation.next(&self.input[at..count]);
            match reply {
                Reply::NeedMore => return Ok(()),
                Reply::Data { cookie, offset, range } => {
                    hear(Heard::Data(cookie, offset, &self.input[at..][range]));
                }
                Reply::Hole { cookie, offset, length } => hear(Heard::Hole(cookie, offset, length)),
                Reply::Done { cookie, errno } => hear(Heard::Done(cookie, errno)),
                Reply::HangUp(violation) => return Err(ClientError::Violation(violation)),
                Reply::Extents { .. } | Reply::Error { .. } => {}
            }
            at += taken;
        }
    }

    /// Sends one request and waits for its reply; returns the bytes of a read.
    ///
    /// # Errors
    /// If the server refuses it, or the connection breaks: then every later request fails too.
    pub fn call(&mut self, command: Command, payload: &[u8]) -> Result<Vec<u8>, ClientError> {
        const COOKIE: u64 = u64::MAX;
        let mut bytes = match command {
            Command::Read { length, .. } => vec![0; length as usize],
            _ => Vec::new(),
        };
        self.put(&Request { cookie: COOKIE, command }, payload)?;
        let (mut end, begun) = (None, Instant::now());
        while end.is_none() {
            let left = self.patience.map(|most| most.saturating_sub(begun.elapsed()));
            if let (Some(most), Some(Duration::ZERO)) = (self.patience, left) {
                // Its reply may still come, to no request.
                self.ended = true;
                return Err(ClientError::Silent(most));
            }
            self.pump(left, |heard| match heard {
                Heard::Data(COOKIE, offset, part) => {
                    let at = (offset - command.offset()) as usize;
                    bytes[at..at + part.len()].copy_from_slice(part);
                }
                Heard::Done(COOKIE, errno) => end = Some(errno),
                _ => {}
            })?;
        }
        match end.flatten() {
            Some(errno) => Err(ClientError::Answer(errno)),
            None => Ok(bytes),
        }
    }

    /// Informs the server that the client leaves.
    ///
    /// # Errors
    /// If the connection has ended already.
    pub fn disconnect(mut self) -> Result<(), ClientError> {
        self.conversation.disconnect(&mut self.out);
        self.send()
    }

    /// The socket, in the transmission phase with nothing in flight, and what was negotiated.
    pub fn into_parts(self) -> (OwnedFd, Session) {
        (self.socket, self.session)
    }

    /// Whether the server offers FLUSH.
    pub fn offers_flush(&self) -> bool {
        self.session.has(wire::NBD_FLAG_SEND_FLUSH)
    }
}

/// For waiting on several clients at once.
impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Connects to the first address of a host that takes it.
/// A server that hangs accepts nothing, and its queue may be full.
fn unix(path: &Path, patience: Option<Duration>) -> Result<OwnedFd, ClientError> {
    let kind = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, kind, None).map_err(io)?;
    set_socket_timeout(&socket, Timeout::Send, patience).map_err(io)?;
    let address = SocketAddrUnix::new(path).map_err(io)?;
    loop {
        match (rustix::net::connect(&socket, &address), patience) {
            (Ok(()), _) => break,
            (Err(Errno::INTR), _) => {}
            (Err(Errno::AGAIN), Some(most)) => return Err(ClientError::Silent(most)),
            (Err(error), _) => return Err(io(error)),
        }
    }
    set_socket_timeout(&socket, Timeout::Send, None).map_err(io)?;
    Ok(socket)
}

fn io(error: Errno) -> ClientError {
    ClientError::Io(error.into())
}

fn tcp(host: &str, port: u16, patience: Option<Duration>) -> io::Result<TcpStream> {
    let Some(most) = patience else { return TcpStream::connect((host, port)) };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, most) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The handshake; returns what was negotiated, and the bytes that followed it.
fn shake(
    stream: &mut File,
    options: Options,
    patience: Option<Duration>,
) -> Result<(Session, Vec<u8>), ClientError> {
    let (mut handshake, mut out) = (Handshake::new(options), Vec::new());
    let mut input = vec![0; 64 << 10];
    loop {
        let count = match (stream.read(&mut input), patience) {
            (Err(error), Some(most)) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(ClientError::Silent(most));
            }
            (read, _) => read?,
        };
        if count == 0 {
            return Err(ClientError::Closed);
        }
        let (taken, step) = handshake.feed(&input[..count], &mut out);
        stream.write_all(&out)?;
        out.clear();
        match step {
            Step::NeedMore => {}
            Step::Transmission(session) => return Ok((session, input[taken..count].to_vec())),
            Step::StartTls => return Err(ClientError::Tls),
            Step::Failed(failure) => return Err(ClientError::Handshake(failure)),
        }
    }
}
