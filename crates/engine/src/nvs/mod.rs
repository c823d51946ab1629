//! The non-volatile store: what is held.

pub mod directory;
pub mod index;
