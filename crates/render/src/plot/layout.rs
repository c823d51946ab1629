//! From a specification to a scene: title, legend, axes, then the marks.

use super::axis::{Axis, Tick};
use super::font::Fonts;
use super::frame::{Frame, text};
use super::marks;
use super::scene::{Anchor, Scene, Stroke};
use super::style::{self, GRID, MUTED};
use destage_report::plot::{Marks, PlotSpec, Reference, Scale};

const WIDTH: f64 = 900.0;
const PLOT_HEIGHT: f64 = 380.0;
const EDGE: f64 = 18.0;
const TITLE: f64 = 17.0;
const LABEL: f64 = 13.0;
const SMALL: f64 = 12.0;
const X_MARKS: usize = 9;
const Y_MARKS: usize = 6;

/// Lays out a plot.
pub(super) fn scene(spec: &PlotSpec, fonts: &Fonts) -> Scene {
    let title = spec.title.clone();
    let mut scene = Scene { width: WIDTH, height: 0.0, title, shapes: Vec::new() };
    let (x, y) = axes(spec);
    let x_ticks = x_ticks(spec, &x);
    let y_ticks = y.ticks(Y_MARKS);

    let mut top = EDGE;
    for line in fonts.wrap(&spec.title, TITLE, true, WIDTH - 2.0 * EDGE) {
        top += TITLE;
        scene.shapes.push(text((EDGE, top), line, TITLE).bold().into());
        top += 6.0;
    }
    top = legend(&mut scene, spec, fonts, top + 6.0);
    top += if spec.v_lines.is_empty() { 12.0 } else { 28.0 };

    let widest = |labels: &mut dyn Iterator<Item = &String>| {
        labels.map(|label| fonts.width(label, SMALL, false)).fold(0.0, f64::max)
    };
    let y_width = widest(&mut y_ticks.iter().map(|(_, label)| label));
    let lines = visible(&spec.h_lines, &y);
    let right_width = widest(&mut lines.iter().map(|line| &line.label)).min(200.0);
    let x_room = if x_ticks.is_empty() { 0.0 } else { 26.0 };
    let left = EDGE + LABEL + 10.0 + y_width + 8.0;
    let right = WIDTH - EDGE - f64::max(right_width + 6.0, x_room);
    let bottom = top + PLOT_HEIGHT;
    let frame = Frame { left, right, top, bottom, x, y };

    let x_height = draw_x_axis(&mut scene, spec, &frame, &x_ticks, fonts);
    draw_y_axis(&mut scene, spec, &frame, &y_ticks);
    draw_references(&mut scene, spec, &frame, fonts);
    if !marks::draw(&mut scene, spec, &frame, fonts) {
        let middle = ((left + right) / 2.0, (top + bottom) / 2.0);
        let nothing = text(middle, "nothing to draw".to_owned(), LABEL);
        scene.shapes.push(nothing.anchor(Anchor::Middle).color(MUTED).into());
    }
    scene.height = (bottom + x_height + EDGE).ceil();
    scene
}

/// The reference lines within the range of an axis. They do not widen it.
fn visible<'a>(lines: &'a [Reference], axis: &Axis) -> Vec<&'a Reference> {
    lines.iter().filter(|line| axis.covers(line.value)).collect()
}

fn axes(spec: &PlotSpec) -> (Axis, Axis) {
    let categories = spec.categories.len();
    let x = if categories > 0 {
        let ends = [-0.5, categories as f64 - 0.5];
        Axis::over(Scale::Linear, ends.into_iter(), false, X_MARKS)
    } else {
        let values = marks::points(spec).map(|(x, _)| x);
        Axis::over(spec.x_scale, values, false, X_MARKS)
    };
    let covered = spec.y_covers.into_iter().flat_map(|(low, high)| [low, high]);
    let mut values: Vec<f64> = covered.chain(marks::extent(spec)).collect();
    if !matches!(spec.marks, Marks::Lines { .. }) && spec.y_scale == Scale::Linear {
        values.push(0.0);
    }
    (x, Axis::over(spec.y_scale, values.into_iter(), true, Y_MARKS))
}

fn x_ticks(spec: &PlotSpec, x: &Axis) -> Vec<Tick> {
    if spec.categories.is_empty() {
        return x.ticks(X_MARKS);
    }
    spec.categories.iter().enumerate().map(|(i, name)| (i as f64, name.clone())).collect()
}

/// Names of the series in rows under the title; returns where they end.
fn legend(scene: &mut Scene, spec: &PlotSpec, fonts: &Fonts, top: f64) -> f64 {
    let names = marks::names(spec);
    let lines = match &spec.marks {
        Marks::Lines { series } => series.as_slice(),
        _ => &[],
    };
    let stacked = matches!(spec.marks, Marks::Stack(_));
    if names.iter().all(|name| name.is_empty()) {
        return top;
    }
    let sample = if lines.is_empty() { 20.0 } else { 34.0 };
    let (mut x, mut y) = (EDGE, top + 10.0);
    let looks = marks::looks(spec);
    for (series, name) in names.iter().enumerate() {
        let look = if stacked { series } else { looks[series] };
        let name = fonts.fit(name, LABEL, 360.0);
        let width = sample + 6.0 + fonts.width(&name, LABEL, false);
        if x > EDGE && x + width > WIDTH - EDGE {
            (x, y) = (EDGE, y + 20.0);
        }
        if let Some(line) = lines.get(series) {
            let stroke = marks::stroke(look, line);
            scene.line(vec![(x, y - 4.5), (x + sample, y - 4.5)], stroke);
            style::marker(scene, look, (x + sample / 2.0, y - 4.5));
        } else {
            let draw = if stacked { style::part } else { style::bar };
            draw(scene, look, (x, y - 11.0), (x + sample, y + 2.0));
        }
        scene.shapes.push(text((x + sample + 6.0, y), name, LABEL).into());
        x += width + 24.0;
    }
    y + 4.0
}

/// Draws marks, their labels (turned where they would touch, left out where even that fails) and
/// the axis label; returns the height used below the frame.
fn draw_x_axis(
    scene: &mut Scene,
    spec: &PlotSpec,
    frame: &Frame,
    ticks: &[Tick],
    fonts: &Fonts,
) -> f64 {
    let categorical = !spec.categories.is_empty();
    let width = |label: &str| fonts.width(label, SMALL, false);
    let places: Vec<(f64, String)> = ticks
        .iter()
        .filter_map(|(value, label)| Some((frame.x_at(*value)?, fonts.fit(label, SMALL, 160.0))))
        .collect();
    let touch = places.windows(2).any(|pair| {
        let between = pair[1].0 - pair[0].0;
        between < (width(&pair[0].1) + width(&pair[1].1)) / 2.0 + 8.0
    });
    let spacing = places.windows(2).map(|pair| pair[1].0 - pair[0].0).fold(f64::INFINITY, f64::min);
    let every = (16.0 / spacing).ceil().max(1.0) as usize;
    let mut height = SMALL + 8.0;
    for (i, (x, label)) in places.into_iter().enumerate() {
        if !categorical {
            scene.line(vec![(x, frame.top), (x, frame.bottom)], style::thin(GRID));
        }
        if i % every != 0 {
            continue;
        }
        if touch {
            height = height.max(width(&label) + 12.0);
            let at = (x + SMALL * 0.35, frame.bottom + 8.0);
            scene.shapes.push(text(at, label, SMALL).turned().anchor(Anchor::End).into());
        } else {
            let at = (x, frame.bottom + SMALL + 6.0);
            scene.shapes.push(text(at, label, SMALL).anchor(Anchor::Middle).into());
        }
    }
    if spec.x_label.is_empty() {
        return height;
    }
    let label = fonts.fit(&spec.x_label, LABEL, WIDTH - 2.0 * EDGE);
    let at = ((frame.left + frame.right) / 2.0, frame.bottom + height + LABEL + 6.0);
    scene.shapes.push(text(at, label, LABEL).anchor(Anchor::Middle).into());
    height + LABEL + 8.0
}

fn draw_y_axis(scene: &mut Scene, spec: &PlotSpec, frame: &Frame, ticks: &[Tick]) {
    for (value, label) in ticks {
        let Some(y) = frame.y_at(*value) else { continue };
        scene.line(vec![(frame.left, y), (frame.right, y)], style::thin(GRID));
        let at = (frame.left - 8.0, y + SMALL * 0.35);
        scene.shapes.push(text(at, label.clone(), SMALL).anchor(Anchor::End).into());
    }
    let (a, b) = ((frame.left, frame.top), (frame.left, frame.bottom));
    scene.line(vec![a, b, (frame.right, frame.bottom)], style::thin(MUTED));
    let middle = (EDGE + LABEL - 4.0, (frame.top + frame.bottom) / 2.0);
    let label = text(middle, spec.y_label.clone(), LABEL).turned().anchor(Anchor::Middle);
    scene.shapes.push(label.into());
}

fn draw_references(scene: &mut Scene, spec: &PlotSpec, frame: &Frame, fonts: &Fonts) {
    let stroke = Stroke { color: MUTED, width: 1.2, dash: &[5.0, 4.0] };
    let mut lines = visible(&spec.h_lines, &frame.y);
    lines.sort_by(|a, b| a.value.total_cmp(&b.value));
    let mut free = f64::INFINITY;
    for line in lines {
        let Some(y) = frame.y_at(line.value) else { continue };
        scene.line(vec![(frame.left, y), (frame.right, y)], stroke);
        // Labels of close lines move up rather than into each other.
        let at = f64::min(y + SMALL * 0.35, free - SMALL - 2.0);
        free = at;
        let label = fonts.fit(&line.label, SMALL, 200.0);
        scene.shapes.push(text((frame.right + 6.0, at), label, SMALL).color(MUTED).into());
    }
    let mut free = f64::NEG_INFINITY;
    let mut lines = visible(&spec.v_lines, &frame.x);
    lines.sort_by(|a, b| a.value.total_cmp(&b.value));
    for line in lines {
        let Some(x) = frame.x_at(line.value) else { continue };
        scene.line(vec![(x, frame.top), (x, frame.bottom)], stroke);
        let label = fonts.fit(&line.label, SMALL, 200.0);
        let half = fonts.width(&label, SMALL, false) / 2.0;
        if x - half > free + 6.0 {
            free = x + half;
            let at = (x, frame.top - 6.0);
            let label = text(at, label, SMALL).color(MUTED).anchor(Anchor::Middle);
            scene.shapes.push(label.into());
        }
    }
}
