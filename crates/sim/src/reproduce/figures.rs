//! From the runs of an item to its drawings.

use super::item::{Drawing, DrawingKind};
use super::runner::{Cell, RunFigures, TimeSeries};
use super::values::{PanelRuns, Panels};
use destage_report::plot::{PlotSpec, Scale, thinned};

/// Samples of a series over time that are drawn.
const SAMPLES: usize = 600;

/// Draws a figure.
pub fn plot(figure: &Drawing, panels: &Panels) -> PlotSpec {
    let shown: Vec<&PanelRuns> = figure.panels.iter().filter_map(|name| panels.get(name)).collect();
    let (x, y) = labels(figure, &shown);
    let mut plot = PlotSpec::lines(&figure.title, &x, &y);
    let categories = categories(figure, &shown);
    for (name, points) in lines(figure, &shown, &categories) {
        plot = plot.series(&name, points);
    }
    if figure.log_x {
        plot = plot.x_scale(Scale::Log2);
    }
    if figure.log_y {
        plot = plot.y_scale(Scale::Log10);
    }
    if figure.kind == DrawingKind::Response {
        plot = plot.h_line(20.0, "20 ms");
    }
    plot.categories(categories)
}

fn labels(figure: &Drawing, shown: &[&PanelRuns]) -> (String, String) {
    let (x, y) = match figure.kind {
        DrawingKind::Response => ("Throughput (I/O/s)".into(), "Mean response time (ms)".into()),
        DrawingKind::Target => ("Throughput (I/O/s)".into(), "Target throughput (I/O/s)".into()),
        DrawingKind::Time => ("Time (s)".into(), figure.metric.clone()),
        DrawingKind::Along => {
            let sweep = shown.first().and_then(|p| Some((p.plan.sweep.as_ref()?, p.unit)));
            let x = sweep.map_or_else(String::new, |((name, _), unit)| format!("{name} ({unit})"));
            (x, figure.metric.clone())
        }
    };
    (figure.x_label.clone().unwrap_or(x), figure.y_label.clone().unwrap_or(y))
}

/// The values of a sweep that is not over numbers.
fn categories(figure: &Drawing, shown: &[&PanelRuns]) -> Vec<String> {
    let values: Vec<String> = shown.first().map(|p| p.plan.values()).unwrap_or_default();
    let numbers = values.iter().all(|v| v.parse::<f64>().is_ok());
    if figure.kind != DrawingKind::Along || numbers { Vec::new() } else { values }
}

type Line = (String, Vec<(f64, f64)>);

fn lines(figure: &Drawing, shown: &[&PanelRuns], categories: &[String]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for panel in shown {
        for (variant, _) in &panel.plan.variants {
            if !figure.variants.is_empty() && !figure.variants.contains(variant) {
                continue;
            }
            let several = shown.len() > 1 && !figure.join && !panel.label.is_empty();
            let name = if several { format!("{variant} {}", panel.label) } else { variant.clone() };
            let cells: Vec<&Cell> = panel.cells.iter().filter(|c| c.variant == *variant).collect();
            let points = points(figure, &cells, categories);
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, line)) => line.extend(points),
                None => lines.push((name, points)),
            }
        }
    }
    for (_, points) in &mut lines {
        points.retain(|(x, _)| x.is_finite());
        if let Some(most) = figure.y_most {
            cut(points, most);
        }
    }
    lines
}

/// Ends a line where it first rises above `most`.
fn cut(points: &mut Vec<(f64, f64)>, most: f64) {
    let Some(first) = points.iter().position(|(_, y)| *y > most) else { return };
    let (x, y) = points[first];
    points.truncate(first);
    if let Some((x0, y0)) = points.last().copied() {
        points.push((x0 + (x - x0) * (most - y0) / (y - y0), most));
    }
}

/// Mean over seeds.
fn mean(cell: &Cell, get: impl Fn(&RunFigures) -> Option<f64>) -> f64 {
    let all: Option<Vec<f64>> = cell.samples.iter().map(get).collect();
    all.map_or(f64::NAN, |all| all.iter().sum::<f64>() / all.len().max(1) as f64)
}

fn points(figure: &Drawing, cells: &[&Cell], categories: &[String]) -> Vec<(f64, f64)> {
    let of = |cell: &Cell, name: &str| mean(cell, |s| s.figures.get(name).copied());
    if figure.kind == DrawingKind::Time {
        let at = figure.at.as_deref().unwrap_or_default();
        let cell = cells.iter().find(|c| c.value == at);
        let series =
            cell.and_then(|c| c.samples.first()).and_then(|s| s.series.get(figure.metric.as_str()));
        let scaled = |(x, y): &(f64, f64)| (*x, y * figure.scale);
        let points: TimeSeries = series.into_iter().flatten().map(scaled).collect();
        return thinned(&points, SAMPLES);
    }
    let point = |cell: &&Cell| {
        let written = || match categories.iter().position(|c| *c == cell.value) {
            Some(place) => place as f64,
            None => cell.value.parse().unwrap_or(f64::NAN),
        };
        let (x, y) = match figure.kind {
            DrawingKind::Response => (of(cell, "iops"), of(cell, "response-ms")),
            DrawingKind::Target => (of(cell, "iops"), written()),
            _ => (written(), of(cell, &figure.metric)),
        };
        (x, y * figure.scale)
    };
    cells.iter().map(point).filter(|(_, y)| y.is_finite()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_they_leave_the_plot() {
        let mut points = vec![(0.0, 10.0), (1.0, 20.0), (2.0, 100.0), (3.0, 5.0)];
        cut(&mut points, 60.0);
        assert_eq!(points, [(0.0, 10.0), (1.0, 20.0), (1.5, 60.0)]);
    }
}
