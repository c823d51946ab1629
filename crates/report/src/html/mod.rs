//! stub
use crate::model::CompareReport;
/// stub
pub fn html(_: &CompareReport) -> String { String::new() }
/// stub
pub fn plotly_js() -> &'static str { "" }
