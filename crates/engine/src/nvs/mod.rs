//! The non-volatile store: what is held, by write group.

pub mod directory;
pub mod hash;
mod index;
pub(crate) mod masks;
