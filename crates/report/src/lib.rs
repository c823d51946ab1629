//! The serialised types, versioned, and tables as text, CSV and JSON. What needs a plotting stack
//! or Parquet is in `destage-render`, so that a server does not carry it.

pub mod advice;
pub mod live;
pub mod look;
pub mod model;
pub mod plot;
pub mod reproduction;
pub mod sample;
pub mod scrub;
pub mod state;
pub mod table;
pub mod tournament;
pub mod trace;

mod format;
mod write;

pub use format::{Format, UnknownFormat, thousands};
pub use model::{CompareReport, RunReport};
pub use plot::{PlotSpec, Scale};
pub use reproduction::{
    ReproducedFigure, ReproducedItem, ReproducedPanel, ReproducedPoint, ReproducedRow,
    Reproduction, Verdict, render_reproduction,
};
pub use table::{Cell, Table};
pub use write::{WriteError, write_file};
