//! What the page's script draws, as JSON that is safe inside a script element.

use crate::charts::{DISK_TIME, HITS, KINDS, distribution};
use crate::metric::{METRICS, mean};
use crate::view::{View, axis_label, occupancy, thresholds};
use destage_report::model::Point;
use serde_json::{Value, json};

/// Samples of a time series kept in the page.
const SAMPLES: usize = 1200;

/// The data element's content.
pub(super) fn json(view: &View<'_>) -> String {
    let metrics: Vec<Value> = METRICS
        .iter()
        .map(|m| json!({"name": m.long, "unit": m.unit, "log": m.log, "decimals": m.decimals}))
        .collect();
    let points: Vec<Value> = view.report.points.iter().map(|p| point(view, p)).collect();
    let axis = view.sweep().map(|axis| {
        json!({
            "name": axis.name,
            "label": axis_label(axis),
            "binary": view.is_binary(),
        })
    });
    let mut levels: Vec<f64> = view.report.at_response.iter().map(|at| at.response_ms).collect();
    levels.retain(|level| level.is_finite());
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    let data = json!({
        "variants": view.variants,
        "looks": destage_report::look::looks(&view.variants),
        "axis": axis,
        "values": view.values,
        "numbers": view.numbers,
        "metrics": metrics,
        "hits": HITS.map(|(name, _)| name),
        "disk_time": DISK_TIME.map(|(name, _)| name),
        "levels": levels,
        "points": points,
    });
    data.to_string()
}

/// Nothing in the result can end or begin an element, or end a line of script.
pub(super) fn harmless(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Five significant digits are more than a screen shows. What is not finite becomes null.
fn rounded(value: f64) -> Value {
    format!("{value:.4e}").parse::<f64>().map_or(Value::Null, Value::from)
}

fn point(view: &View<'_>, point: &Point) -> Value {
    let place = |list: &[&str], name: &str| list.iter().position(|item| *item == name);
    let values: Vec<Value> =
        METRICS.iter().map(|m| m.value(point).map_or(Value::Null, rounded)).collect();
    let run = point.runs.first();
    let samples = run.map(|run| occupancy(run, SAMPLES)).unwrap_or_default();
    // One list of bounds is enough: both kinds have the same.
    let shares = KINDS.each_ref().map(|kind| distribution(point, kind));
    let below = shares.iter().find(|shares| !shares.is_empty()).map_or(&[][..], Vec::as_slice);
    let per_cent = |kind: usize| shares[kind].iter().map(|at| rounded(at.1)).collect::<Vec<_>>();
    let lines: Vec<Value> = run
        .map(thresholds)
        .unwrap_or_default()
        .into_iter()
        .map(|(name, level)| json!({"name": name, "level": level}))
        .collect();
    json!({
        "variant": place(&view.variants, &point.variant),
        "value": place(&view.values, &point.value),
        "metrics": values,
        "hits": HITS.map(|(_, get)| rounded(100.0 * mean(point, get))),
        "disk_time": DISK_TIME.map(|(_, get)| rounded(100.0 * mean(point, get))),
        "times": samples.iter().map(|(time, _)| rounded(*time)).collect::<Vec<_>>(),
        "occupancy": samples.iter().map(|(_, level)| rounded(*level)).collect::<Vec<_>>(),
        "below": below.iter().map(|(below, _)| rounded(*below)).collect::<Vec<_>>(),
        "reads": per_cent(0),
        "writes": per_cent(1),
        "warmup": run.map_or(Value::Null, |run| rounded(run.warmup_s)),
        "thresholds": lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_cannot_leave_its_element() {
        let text = harmless(&json!({"a": "</script><!--&\u{2028}"}).to_string());
        assert!(!text.contains(['<', '>', '&', '\u{2028}']));
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["a"], "</script><!--&\u{2028}");
    }

    #[test]
    fn rounding_keeps_what_a_screen_shows() {
        assert_eq!(rounded(123_456.0), json!(123_460.0));
        assert_eq!(rounded(f64::NAN), Value::Null);
        assert_eq!(rounded(f64::INFINITY), Value::Null);
    }
}
