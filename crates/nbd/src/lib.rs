//! The NBD protocol as state machines: bytes to typed commands and back, for both sides.
//!
//! Numbers and names are those of doc/proto.md of the NetworkBlockDevice project
//! (<https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>), cited as "proto.md";
//! URIs follow doc/uri.md there. The crate holds no socket and no clock: a driver feeds it the
//! bytes that came, in pieces of any length, and sends what it appends to a vector.
//!
//! A server: [`handshake::Server`] until [`handshake::Step::Transmission`], then
//! [`request::Decoder`] for what comes and [`reply::Encoder`] for what goes. A client:
//! [`client::Handshake`], then [`client::Conversation`]. [`client::Uri`] names a server.
//!
//! What a peer sends never panics and never costs more memory than the limits say.
#![forbid(unsafe_code)]

mod bytes;
pub mod client;
pub mod handshake;
pub mod reply;
pub mod request;
mod session;
pub mod wire;

pub use session::{BlockSizes, CONTEXTS_MAX, Context, ContextSet, Mode, Session};
