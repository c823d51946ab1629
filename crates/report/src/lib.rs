//! The only serialised types, versioned, and the renderers that turn them into tables, CSV,
//! JSON, Parquet, SVG, PNG and one-file HTML.

pub mod advice;
pub mod live;
pub mod model;
pub mod plot;
pub mod sample;
pub mod scrub;
pub mod state;

mod charts;
mod columns;
mod format;
mod html;
mod metric;
mod parquet;
mod reproduction;

mod table;
mod text;
mod view;
mod write;

pub use charts::plots;
pub use columns::{run_columns, run_row};
pub use format::{Format, UnknownFormat};
pub use html::{html, plotly_js, reproduction_html};
pub use model::{CompareReport, RunReport};
pub use parquet::{
    ParquetError, parquet_compare, parquet_compare_series, parquet_read, parquet_row, parquet_runs,
    parquet_series,
};
pub use plot::{DrawError, PlotFormat, PlotSpec, Scale, draw};
pub use reproduction::{
    ReproducedFigure, ReproducedItem, ReproducedPanel, ReproducedPoint, ReproducedRow,
    Reproduction, Verdict, render_reproduction,
};
pub use table::{Cell, Table};
pub use text::{render_compare, render_run};
pub use write::{WriteError, write_file};
