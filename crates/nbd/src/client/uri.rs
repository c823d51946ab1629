//! NBD URIs (doc/uri.md): `nbd://host[:port]/name`, `nbd+unix:///name?socket=path`, and the same
//! with `nbds` for TLS.

use crate::wire;
use std::fmt;
use std::str::FromStr;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Host name or address (IPv6 without brackets) and port.
    Tcp(String, u16),
    /// Path of a Unix domain socket.
    Unix(String),
}

/// A server and one of its exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// Where to connect.
    pub address: Address,
    /// Name of the export; may be empty.
    pub export: String,
    /// Connect only with TLS.
    pub tls: bool,
    /// `tls-hostname`: the name to verify the server's certificate against.
    pub tls_hostname: Option<String>,
}

/// Why a text is not an NBD URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UriError {
    /// Does not begin with `nbd://`, `nbds://`, `nbd+unix://` or `nbds+unix://`.
    Scheme,
    /// No host, or a user name or an address that cannot be understood.
    Authority,
    /// Not a port number.
    Port,
    /// A `nbd+unix` URI without `socket`, or with a host; or `socket` without `+unix`.
    Socket,
    /// A percent sign without two hexadecimal digits, a NUL, or bytes that are not UTF-8.
    Escape,
    /// A query parameter that is unknown, given twice, or without a value.
    Parameter(String),
    /// A `#` part, which NBD URIs do not have.
    Fragment,
    /// An export name over 4096 bytes.
    TooLong,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UriError::Scheme => {
                "an NBD URI begins with nbd://, nbds://, nbd+unix:// or nbds+unix://"
            }
            UriError::Authority => "the host of the NBD URI is missing or malformed",
            UriError::Port => "the port of the NBD URI is not a number from 1 to 65535",
            UriError::Socket => {
                "?socket=PATH goes with nbd+unix:// or nbds+unix://, without a host"
            }
            UriError::Escape => "the NBD URI has a malformed percent escape",
            UriError::Parameter(name) => {
                return write!(f, "NBD URI parameter {name}: unknown, repeated or without a value");
            }
            UriError::Fragment => "an NBD URI cannot have a # part",
            UriError::TooLong => "the export name is over 4096 bytes",
        })
    }
}

impl std::error::Error for UriError {}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Uri, UriError> {
        let (scheme, rest) = text.split_once("://").ok_or(UriError::Scheme)?;
        let (tls, unix) = match scheme.to_ascii_lowercase().as_str() {
            "nbd" => (false, false),
            "nbds" => (true, false),
            "nbd+unix" => (false, true),
            "nbds+unix" => (true, true),
            _ => return Err(UriError::Scheme),
        };
        if rest.contains('#') {
            return Err(UriError::Fragment);
        }
        let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = before.split_once('/').unwrap_or((before, ""));
        let export = decoded(path)?;
        if export.len() > wire::STRING_MAX {
            return Err(UriError::TooLong);
        }
        let (socket, tls_hostname) = parameters(query)?;
        let address = match (unix, socket) {
            (true, Some(path)) if authority.is_empty() && !path.is_empty() => Address::Unix(path),
            (false, None) => tcp(authority)?,
            _ => return Err(UriError::Socket),
        };
        Ok(Uri { address, export, tls, tls_hostname })
    }
}

/// `socket` and `tls-hostname`.
fn parameters(query: &str) -> Result<(Option<String>, Option<String>), UriError> {
    let (mut socket, mut hostname) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let slot = match name {
            "socket" => &mut socket,
            "tls-hostname" => &mut hostname,
            _ => return Err(UriError::Parameter(name.to_string())),
        };
        if value.is_empty() || slot.replace(decoded(value)?).is_some() {
            return Err(UriError::Parameter(name.to_string()));
        }
    }
    Ok((socket, hostname))
}

fn tcp(authority: &str) -> Result<Address, UriError> {
    let (host, port) = if let Some(inside) = authority.strip_prefix('[') {
        let (host, after) = inside.split_once(']').ok_or(UriError::Authority)?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| UriError::Authority)?;
        let port = match after.strip_prefix(':') {
            None if !after.is_empty() => return Err(UriError::Authority),
            port => port,
        };
        (host.to_string(), port)
    } else {
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let host = decoded(host)?;
        if host.contains(['/', ':']) {
            return Err(UriError::Authority);
        }
        (host, port)
    };
    if host.is_empty() || host.contains('@') || port.is_some_and(|port| port.contains('@')) {
        return Err(UriError::Authority);
    }
    let number = match port {
        None | Some("") => wire::DEFAULT_PORT,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            port.parse().ok().filter(|port| *port != 0).ok_or(UriError::Port)?
        }
        Some(_) => return Err(UriError::Port),
    };
    Ok(Address::Tcp(host, number))
}

/// Without percent escapes.
fn decoded(text: &str) -> Result<String, UriError> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let byte = if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            let (high, low) = digit().zip(digit()).ok_or(UriError::Escape)?;
            (high * 16 + low) as u8
        } else {
            byte
        };
        if byte == 0 {
            return Err(UriError::Escape);
        }
        plain.push(byte);
    }
    String::from_utf8(plain).map_err(|_| UriError::Escape)
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "nbds" } else { "nbd" })?;
        match &self.address {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "://[{host}]:{port}/")?,
            Address::Tcp(host, port) => write!(f, "://{}:{port}/", escaped(host))?,
            Address::Unix(_) => f.write_str("+unix:///")?,
        }
        f.write_str(&escaped(&self.export))?;
        let mut mark = '?';
        if let Address::Unix(path) = &self.address {
            write!(f, "?socket={}", escaped(path))?;
            mark = '&';
        }
        match &self.tls_hostname {
            Some(name) => write!(f, "{mark}tls-hostname={}", escaped(name)),
            None => Ok(()),
        }
    }
}

/// With percent escapes for all that could be taken for something else.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
