//! The data itself: lines with markers and error bars, bars, stacks.

use super::font::Fonts;
use super::frame::{Frame, text};
use super::scene::{Anchor, Scene, Spot, Stroke};
use super::style::{self, INK};
use destage_report::look;
use destage_report::plot::{Bars, Marks, PlotSpec, Scale, Series};

/// Text size of the numbers on bars.
const NUMBER: f64 = 11.0;

/// With more points than this, only about [`SPARSE`] of a line get a marker.
const DENSE: usize = 40;
const SPARSE: usize = 10;

/// Names for the legend, one per series.
pub(super) fn names(spec: &PlotSpec) -> Vec<&str> {
    match &spec.marks {
        Marks::Lines { series } => series.iter().map(|s| s.name.as_str()).collect(),
        Marks::Bars(bars) | Marks::Stack(bars) => bars.iter().map(|b| b.name.as_str()).collect(),
    }
}

/// The place in the palette of each name.
pub(super) fn looks(spec: &PlotSpec) -> Vec<usize> {
    look::looks(&names(spec))
}

/// The points of all lines that both axes can show.
pub(super) fn points(spec: &PlotSpec) -> impl Iterator<Item = (f64, f64)> + '_ {
    let series = match &spec.marks {
        Marks::Lines { series } => series.as_slice(),
        _ => &[],
    };
    let shows =
        |scale: Scale, value: f64| value.is_finite() && (scale == Scale::Linear || value > 0.0);
    let all = series.iter().flat_map(|s| s.points.iter().copied());
    all.filter(move |(x, y)| shows(spec.x_scale, *x) && shows(spec.y_scale, *y))
}

/// The y values that the axis should cover.
pub(super) fn extent(spec: &PlotSpec) -> Vec<f64> {
    match &spec.marks {
        Marks::Lines { series } => {
            let whiskers = series.iter().flat_map(|s| {
                let ends = |((_, y), half): (&(f64, f64), &f64)| [y - half, y + half];
                s.points.iter().zip(&s.half_widths).flat_map(ends)
            });
            points(spec).map(|(_, y)| y).chain(whiskers).collect()
        }
        Marks::Bars(bars) => bars.iter().flat_map(|b| b.values.iter().copied()).collect(),
        Marks::Stack(bars) => {
            let total = |i| bars.iter().map(|b| part(b, i)).sum();
            (0..spec.categories.len()).map(total).collect()
        }
    }
}

/// A bar's value in a stack: 0 unless positive.
fn part(bars: &Bars, category: usize) -> f64 {
    bars.values.get(category).copied().filter(|v| v.is_finite() && *v > 0.0).unwrap_or(0.0)
}

/// Draws the data; returns whether there was any.
pub(super) fn draw(scene: &mut Scene, spec: &PlotSpec, frame: &Frame, fonts: &Fonts) -> bool {
    match &spec.marks {
        Marks::Lines { series } => {
            for (look, line) in looks(spec).into_iter().zip(series) {
                draw_line(scene, frame, look, line);
            }
            points(spec).next().is_some()
        }
        Marks::Bars(bars) => draw_bars(scene, spec, frame, bars, fonts),
        Marks::Stack(bars) => draw_stack(scene, spec, frame, bars, fonts),
    }
}

/// How a line is drawn: dashes and thick strokes would turn dense data into a smear.
pub(super) fn stroke(index: usize, series: &Series) -> Stroke {
    let stroke = style::stroke(index);
    match series.points.len() {
        0..=DENSE => stroke,
        _ => Stroke { width: 1.6, dash: &[], ..stroke },
    }
}

fn draw_line(scene: &mut Scene, frame: &Frame, index: usize, series: &Series) {
    let stroke = stroke(index, series);
    let mut run: Vec<Spot> = Vec::new();
    let mut shown: Vec<Spot> = Vec::new();
    for (i, point) in series.points.iter().enumerate() {
        let Some(spot) = frame.spot(*point) else {
            flush(scene, &mut run, stroke);
            continue;
        };
        run.push(spot);
        shown.push(spot);
        let half = series.half_widths.get(i).copied().unwrap_or(0.0);
        if half > 0.0 {
            whisker(scene, frame, *point, half, style::thin(stroke.color));
        }
    }
    flush(scene, &mut run, stroke);
    let every = if shown.len() > DENSE { shown.len() / SPARSE } else { 1 };
    // Each line starts at another point, so that markers of lines that coincide do not.
    let first = if every > 1 { every * (index % SPARSE) / SPARSE } else { 0 };
    for spot in shown.iter().skip(first).step_by(every) {
        style::marker(scene, index, *spot);
    }
}

fn flush(scene: &mut Scene, run: &mut Vec<Spot>, stroke: Stroke) {
    if run.len() > 1 {
        scene.line(std::mem::take(run), stroke);
    }
    run.clear();
}

fn whisker(scene: &mut Scene, frame: &Frame, (x, y): (f64, f64), half: f64, stroke: Stroke) {
    let below = if frame.y.place(y - half).is_some() { y - half } else { frame.y.low() };
    let (Some(a), Some(b)) = (frame.spot((x, below)), frame.spot((x, y + half))) else { return };
    scene.line(vec![a, b], stroke);
    for end in [a, b] {
        scene.line(vec![(end.0 - 4.0, end.1), (end.0 + 4.0, end.1)], stroke);
    }
}

fn draw_bars(
    scene: &mut Scene,
    spec: &PlotSpec,
    frame: &Frame,
    bars: &[Bars],
    fonts: &Fonts,
) -> bool {
    let slot = (frame.right - frame.left) / spec.categories.len().max(1) as f64;
    let width = (slot * 0.8 / bars.len().max(1) as f64).min(70.0);
    let values = bars.iter().flat_map(|bar| bar.values.iter().copied());
    let number_width = |value| fonts.width(&short_number(value), NUMBER, false);
    let widest = values.map(number_width).fold(0.0, f64::max);
    let base = frame.y_at(0.0).unwrap_or(frame.bottom).min(frame.bottom);
    let mut any = false;
    // Bars of a single series without a name are each their own.
    let single = bars.len() == 1 && bars[0].name.is_empty();
    let categories: Vec<&str> = spec.categories.iter().map(String::as_str).collect();
    let looks = if single { look::looks(&categories) } else { looks(spec) };
    for category in 0..spec.categories.len() {
        let Some(middle) = frame.x_at(category as f64) else { continue };
        let start = middle - width * bars.len() as f64 / 2.0;
        for (i, bar) in bars.iter().enumerate() {
            let value = bar.values.get(category).copied();
            let Some((value, y)) = value.and_then(|v| Some((v, frame.y_at(v)?))) else { continue };
            any = true;
            let left = start + width * i as f64;
            let look = looks[if single { category } else { i }];
            style::bar(scene, look, (left + 1.0, base), (left + width - 1.0, y));
            if widest <= width + 2.0 {
                let at = (left + width / 2.0, y.min(base) - 4.0);
                let number = text(at, short_number(value), NUMBER);
                scene.shapes.push(number.anchor(Anchor::Middle).into());
            }
        }
    }
    any
}

fn draw_stack(
    scene: &mut Scene,
    spec: &PlotSpec,
    frame: &Frame,
    bars: &[Bars],
    fonts: &Fonts,
) -> bool {
    let slot = (frame.right - frame.left) / spec.categories.len().max(1) as f64;
    let width = (slot * 0.7).min(90.0);
    let mut any = false;
    for category in 0..spec.categories.len() {
        let Some(middle) = frame.x_at(category as f64) else { continue };
        let mut sum = 0.0;
        for (i, bar) in bars.iter().enumerate() {
            let value = part(bar, category);
            let (from, to) = (frame.y_at(sum), frame.y_at(sum + value));
            sum += value;
            let (Some(from), Some(to)) = (from, to) else { continue };
            if value <= 0.0 {
                continue;
            }
            any = true;
            let (left, right) = (middle - width / 2.0, middle + width / 2.0);
            style::part(scene, i, (left, from), (right, to));
            let number = short_number(value);
            let room = fonts.width(&number, NUMBER, false) + 8.0;
            if from - to >= NUMBER + 6.0 && width >= room {
                let y = (from + to) / 2.0;
                let (a, b) = ((middle - room / 2.0, y - 8.0), (middle + room / 2.0, y + 8.0));
                scene.rect(a, b, Some(style::WHITE), None);
                let at = (middle, y + NUMBER * 0.36);
                let number = text(at, number, NUMBER).anchor(Anchor::Middle).color(INK);
                scene.shapes.push(number.into());
            }
        }
    }
    any
}

/// A value in about three digits.
fn short_number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.1} M", value / 1e6),
        v if v >= 1e4 => format!("{:.0} k", value / 1e3),
        v if v >= 1e3 => format!("{:.1} k", value / 1e3),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 || v == 0.0 => format!("{value:.1}"),
        v if v >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.0e}"),
    }
}
