//! Where a server listens.

use crate::front::{FrontEnd, Tls};
use std::fmt;
use std::io::{self, Read};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};
use thiserror::Error;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `tcp:ADDRESS:PORT`.
    Tcp(String),
}

/// Why an address cannot be listened on.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Neither `unix:PATH` nor `tcp:ADDRESS:PORT`.
    #[error("{0}: not an address. Write unix:PATH or tcp:ADDRESS:PORT")]
    Form(String),
    /// A TCP address that other machines reach, without TLS.
    #[error(
        "tcp:{0}: other machines could read and write the data. Give --tls-cert and --tls-key, \
         listen on 127.0.0.1, or pass --allow-plain-tcp"
    )]
    Open(String),
    /// Another server listens there.
    #[error("{0}: another server listens there. Stop it first")]
    Taken(PathBuf),
    /// A file that is not a socket is there.
    #[error("{0}: exists and is not a socket. Choose another path")]
    NoSocket(PathBuf),
    /// TLS is required, and this front end has none.
    #[error("--{0}: clients must use TLS, which this front end does not have")]
    NoTls(&'static str),
    /// The system refuses.
    #[error("{0}: {1}")]
    System(String, io::Error),
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Listen, ListenError> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Listen::Unix(PathBuf::from(path))),
            Some(("tcp", address)) if address.contains(':') => Ok(Listen::Tcp(address.to_string())),
            _ => Err(ListenError::Form(text.to_string())),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
            Listen::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) front_end: FrontEnd,
    /// When its clients' connections are encrypted.
    pub(crate) tls: Tls,
    pub(crate) tcp: bool,
    /// Where it can be reached: the port is known now.
    pub(crate) address: Listen,
    /// Of a Unix socket's file.
    inode: Option<u64>,
}

impl Drop for Listener {
    /// Another server may have its socket there by now.
    fn drop(&mut self) {
        if let Listen::Unix(path) = &self.address
            && inode(path) == self.inode
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|about| about.ino())
}

impl Listener {
    /// Listens. `plain_tcp`: other machines may reach a TCP address without TLS.
    pub(crate) fn bind(
        front_end: FrontEnd,
        listen: &Listen,
        tls: Tls,
        plain_tcp: bool,
    ) -> Result<Listener, ListenError> {
        let entry = front_end.entry();
        if tls == Tls::Required && !entry.tls {
            return Err(ListenError::NoTls(entry.name));
        }
        let listener = |socket, tcp, address, inode| {
            let socket = Some(socket);
            Listener { socket, front_end, tls, tcp, address, inode }
        };
        let system = |error| ListenError::System(listen.to_string(), error);
        match listen {
            Listen::Unix(path) => {
                clear_stale(path)?;
                let socket = UnixListener::bind(path).map_err(system)?;
                Ok(listener(socket.into(), false, listen.clone(), inode(path)))
            }
            Listen::Tcp(address) => {
                let found: Vec<_> = address.to_socket_addrs().map_err(system)?.collect();
                if tls == Tls::Off && !plain_tcp && found.iter().any(|it| !it.ip().is_loopback()) {
                    return Err(ListenError::Open(address.clone()));
                }
                let socket = TcpListener::bind(&found[..]).map_err(system)?;
                let address = Listen::Tcp(socket.local_addr().map_err(system)?.to_string());
                Ok(listener(socket.into(), true, address, None))
            }
        }
    }
}

/// How long a killed process's ring may still accept clients that nobody serves: the kernel removes
/// it some time after the process.
const DEAD_FOR: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

/// Whether the other end hangs up without a greeting.
fn hangs_up(mut stream: &UnixStream) -> bool {
    let _ = stream.set_read_timeout(Some(DEAD_FOR));
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

/// Whether nobody listens there. A server that has no room for another client hangs up, too, but
/// keeps accepting.
fn is_dead(path: &Path) -> bool {
    let until = Instant::now() + DEAD_FOR;
    loop {
        match UnixStream::connect(path) {
            Err(error) => return error.kind() == io::ErrorKind::ConnectionRefused,
            Ok(stream) if Instant::now() < until && hangs_up(&stream) => {}
            Ok(_) => return false,
        }
        std::thread::sleep(LOOK);
    }
}

/// Removes the socket of a server that is dead.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(about) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !about.file_type().is_socket() {
        return Err(ListenError::NoSocket(path.to_path_buf()));
    }
    if !is_dead(path) {
        return Err(ListenError::Taken(path.to_path_buf()));
    }
    std::fs::remove_file(path)
        .map_err(|error| ListenError::System(path.display().to_string(), error))
}
