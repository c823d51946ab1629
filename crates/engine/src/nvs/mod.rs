//! The non-volatile store: what is held.

pub mod directory;
mod hash;
mod index;
