//! The served array with its bytes, as a state machine: the engine decides, this crate keeps the
//! pages, writes the NVS log, computes parity and recovers. It has no I/O, clock or threads:
//! a driver carries out its [`Op`]s and says when they are done. The server and the crash tests
//! drive the same code (docs/durability.md).
#![forbid(unsafe_code)]

mod buffer;
mod io;

pub use buffer::Buffer;
pub use io::{Device, IoError, Media, Op, OpId, OpKind};
