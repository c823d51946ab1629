//! A scene as SVG text, with text as text.

use super::scene::{Anchor, Rgb, Scene, Shape, Spot, Stroke, Text};
use crate::escape::escape;
use std::fmt::Write;

const FAMILY: &str = "'Noto Sans','DejaVu Sans',Helvetica,Arial,sans-serif";

pub(super) fn render(scene: &Scene) -> Vec<u8> {
    let (width, height) = (scene.width, scene.height);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"{FAMILY}\" role=\"img\">\n"
    );
    let _ = writeln!(out, "<title>{}</title>", escape(&scene.title));
    let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>");
    for shape in &scene.shapes {
        match shape {
            Shape::Path { points, closed, fill, stroke } => {
                path(&mut out, points, *closed, *fill, *stroke);
            }
            Shape::Circle { at, radius, fill, stroke } => {
                let (x, y) = (short(at.0), short(at.1));
                let _ = writeln!(
                    out,
                    "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{}\"{}/>",
                    hex(*fill),
                    stroke_attributes(*stroke)
                );
            }
            Shape::Text(text) => write_text(&mut out, text),
        }
    }
    out += "</svg>\n";
    out.into_bytes()
}

fn path(
    out: &mut String,
    points: &[Spot],
    closed: bool,
    fill: Option<Rgb>,
    stroke: Option<Stroke>,
) {
    let mut data = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let command = if i == 0 { 'M' } else { 'L' };
        let _ = write!(data, "{command}{} {}", short(*x), short(*y));
    }
    if closed {
        data.push('Z');
    }
    let fill = fill.map_or("none".to_owned(), hex);
    let stroke = stroke.map(stroke_attributes).unwrap_or_default();
    let _ = writeln!(out, "<path d=\"{data}\" fill=\"{fill}\"{stroke}/>");
}

fn write_text(out: &mut String, text: &Text) {
    let (x, y) = (short(text.at.0), short(text.at.1));
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let weight = if text.bold { " font-weight=\"bold\"" } else { "" };
    let turn =
        if text.turned { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\" fill=\"{}\"{anchor}{weight}{turn}>{}</text>",
        text.size,
        hex(text.color),
        escape(&text.text)
    );
}

fn stroke_attributes(stroke: Stroke) -> String {
    let mut out = format!(" stroke=\"{}\" stroke-width=\"{}\"", hex(stroke.color), stroke.width);
    if !stroke.dash.is_empty() {
        let lengths: Vec<String> = stroke.dash.iter().map(f64::to_string).collect();
        let _ = write!(out, " stroke-dasharray=\"{}\"", lengths.join(" "));
    }
    out + " stroke-linejoin=\"round\""
}

/// A coordinate to a hundredth of a pixel.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn hex(color: Rgb) -> String {
    format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2)
}
