//! What turns the report of a simulation into text, CSV, JSON, Parquet, SVG, PNG and one-file HTML.

mod charts;
mod columns;
mod escape;
mod html;
mod metric;
mod parquet;
mod plot;
mod text;
mod view;

pub use charts::plots;
pub use columns::run_row;
pub use html::{html, plotly_js, reproduction_html};
pub use parquet::{
    ParquetError, parquet_compare, parquet_read, parquet_row, parquet_runs, parquet_series,
};
pub use plot::{DrawError, PlotFormat, draw};
pub use text::{render_compare, render_run};
