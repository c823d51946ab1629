//! Loads: trace readers, one file a format, and generators.

pub mod source;
