//! What the front ends of a server, its backends and the loop between them share. Nothing here
//! belongs to one protocol, and nothing does I/O.
//!
//! A front end turns what clients send into [`Request`]s. A [`Backend`] carries them out and gives
//! each an [`Answer`]. The [`Driver`] between them has the clock and the devices, and takes the
//! answers back to the clients. docs/frontends.md says how to add a front end.
#![forbid(unsafe_code)]

mod backend;
mod buffer;
mod driver;
mod error;
mod export;
mod request;

pub use backend::Backend;
pub use buffer::{Buffer, SharedBytes};
pub use driver::{Driver, Handle, Io, Outcome, Piece};
pub use error::{IoClass, IoError, RequestError};
pub use export::{BlockSizes, Export};
pub use request::{Answer, Extent, Map, Maps, Payload, Request};
