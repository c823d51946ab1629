//! The non-volatile store: what is held, the bytes of its log, and their recovery.

pub mod directory;
mod hash;
mod index;
pub mod journal;
pub mod recover;
