//! Where a server listens.

use std::fmt;
use std::io::{self, Read};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `tcp:ADDRESS:PORT`.
    Tcp(String),
}

/// Why an address cannot be listened on.
#[derive(Debug)]
pub enum ListenError {
    /// Neither `unix:PATH` nor `tcp:ADDRESS:PORT`.
    Form(String),
    /// A TCP address that other machines reach, without TLS.
    Open(String),
    /// Another server listens there.
    Taken(PathBuf),
    /// There is a file that is no socket.
    NoSocket(PathBuf),
    /// The system refuses.
    System(String, io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::Form(text) => {
                write!(f, "{text}: write unix:PATH or tcp:ADDRESS:PORT")
            }
            ListenError::Open(address) => write!(
                f,
                "tcp:{address}: other machines could read and write the data; give --tls-cert and \
                 --tls-key, listen on 127.0.0.1, or say --allow-plain-tcp"
            ),
            ListenError::Taken(path) => {
                write!(f, "{}: another server listens there; stop it first", path.display())
            }
            ListenError::NoSocket(path) => {
                write!(f, "{}: exists and is no socket; choose another path", path.display())
            }
            ListenError::System(address, error) => write!(f, "{address}: {error}"),
        }
    }
}

impl std::error::Error for ListenError {}

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
    pub(crate) tcp: bool,
    /// Where it can be reached: the port is known now.
    pub(crate) address: Listen,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listen::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Listener {
    /// Listens. `plain_tcp`: a TCP address need not be loopback.
    pub(crate) fn bind(listen: &Listen, plain_tcp: bool) -> Result<Listener, ListenError> {
        let system = |error| ListenError::System(listen.to_string(), error);
        match listen {
            Listen::Unix(path) => {
                clear_stale(path)?;
                let socket = UnixListener::bind(path).map_err(system)?;
                Ok(Listener { socket: Some(socket.into()), tcp: false, address: listen.clone() })
            }
            Listen::Tcp(address) => {
                let found: Vec<_> = address.to_socket_addrs().map_err(system)?.collect();
                if !plain_tcp && found.iter().any(|it| !it.ip().is_loopback()) {
                    return Err(ListenError::Open(address.clone()));
                }
                let socket = TcpListener::bind(&found[..]).map_err(system)?;
                let address = Listen::Tcp(socket.local_addr().map_err(system)?.to_string());
                Ok(Listener { socket: Some(socket.into()), tcp: true, address })
            }
        }
    }
}

/// Whether the other end hangs up without a word. The kernel takes a killed process's ring down
/// some time after the process, and until then its sockets let clients in that nobody greets.
fn abandoned(mut stream: &UnixStream) -> bool {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(3)));
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

/// Takes away the socket of a server that is dead.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    let Ok(about) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !about.file_type().is_socket() {
        return Err(ListenError::NoSocket(path.to_path_buf()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Ok(stream) if abandoned(&stream) => {}
        _ => return Err(ListenError::Taken(path.to_path_buf())),
    }
    std::fs::remove_file(path)
        .map_err(|error| ListenError::System(path.display().to_string(), error))
}
