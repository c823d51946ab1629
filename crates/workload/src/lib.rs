//! Loads: trace readers, one file a format, and generators.
//!
//! Everything that drives a simulation is a [`source::Source`]. Generators are found in
//! [`generator::entries`] and built by [`generator::build`]; traces are read by
//! [`trace::Reader`], described by [`trace::info::TraceInfo`] and replayed by
//! [`trace::replay::TraceSource`].

pub mod generator;
pub mod random;
pub mod source;
pub mod trace;
