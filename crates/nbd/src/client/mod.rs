//! The client's side: handshake, requests, replies, and the URIs that name a server.

mod conversation;
mod handshake;
mod reply;
pub mod request;
mod uri;

pub use conversation::Conversation;
pub use handshake::{Failure, Handshake, Options, Step};
pub use reply::{Reply, ReplyDecoder, Violation};
pub use uri::{Address, Uri, UriError};
