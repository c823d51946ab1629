//! The only serialised types, versioned, and the renderers that turn them into tables, CSV,
//! JSON, Parquet, SVG, PNG and one-file HTML.

pub mod model;
