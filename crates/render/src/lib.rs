//! What turns the report of a simulation, or of a trace, into text, CSV, JSON, Parquet, SVG, PNG
//! and one-file HTML.

mod charts;
mod columns;
mod escape;
mod html;
mod metric;
mod parquet;
mod plot;
mod text;
mod trace;
mod view;

pub use charts::{PLOT_NAMES, plots};
pub use columns::run_row;
pub use html::{advice_html, html, plotly_js, reproduction_html, tournament_html, trace_html};
pub use parquet::{
    ParquetError, parquet_compare, parquet_read, parquet_row, parquet_runs, parquet_series,
};
pub use plot::{DrawError, MADE_BY, PlotFormat, color, draw};
pub use text::{render_compare, render_run};
pub use trace::render_trace;
