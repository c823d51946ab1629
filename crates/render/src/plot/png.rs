//! A scene as PNG, at twice its nominal size so that it stays sharp on dense screens.

use super::error::DrawError;
use super::font::{Fonts, advance, glyph};
use super::scene::{Anchor, Rgb, Scene, Shape, Spot, Stroke, Text};
use tiny_skia::{FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, StrokeDash, Transform};

const SCALE: f32 = 2.0;

/// A text chunk's contents that say which program made a picture: keyword, zero, text.
pub const MADE_BY: &[u8] = b"Software\0destage";

pub(super) fn render(scene: &Scene, fonts: &Fonts) -> Result<Vec<u8>, DrawError> {
    let pixels = |length: f64| (length * f64::from(SCALE)).ceil() as u32;
    let size = (pixels(scene.width), pixels(scene.height));
    let mut map = Pixmap::new(size.0, size.1).ok_or(DrawError::Size(size.0, size.1))?;
    map.fill(tiny_skia::Color::WHITE);
    for shape in &scene.shapes {
        match shape {
            Shape::Path { points, closed, fill, stroke } => {
                if let Some(path) = outline(points, *closed) {
                    paint(&mut map, &path, *fill, *stroke);
                }
            }
            Shape::Circle { at, radius, fill, stroke } => {
                let (x, y, radius) = (at.0 as f32, at.1 as f32, *radius as f32);
                if let Some(path) = PathBuilder::from_circle(x, y, radius) {
                    paint(&mut map, &path, Some(*fill), Some(*stroke));
                }
            }
            Shape::Text(text) => write_text(&mut map, text, fonts),
        }
    }
    let bytes = map.encode_png().map_err(|error| DrawError::Encode(error.to_string()))?;
    Ok(named(&bytes))
}

/// What the first chunk and those before it take in every PNG file.
const HEADER_BYTES: usize = 33;

/// The file with the name of the program that made it, as PNG's own text chunk after the header.
fn named(png: &[u8]) -> Vec<u8> {
    let chunk = [b"tEXt", MADE_BY].concat();
    let length = (MADE_BY.len() as u32).to_be_bytes();
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &chunk) as u32;
    let (header, rest) = png.split_at(HEADER_BYTES.min(png.len()));
    [header, &length, &chunk, &sum.to_be_bytes(), rest].concat()
}

fn outline(points: &[Spot], closed: bool) -> Option<Path> {
    let mut builder = PathBuilder::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if i == 0 { builder.move_to(x, y) } else { builder.line_to(x, y) }
    }
    if closed {
        builder.close();
    }
    builder.finish()
}

fn colored(color: Rgb) -> Paint<'static> {
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(color.0, color.1, color.2, 255);
    paint
}

fn paint(map: &mut Pixmap, path: &Path, fill: Option<Rgb>, stroke: Option<Stroke>) {
    let scale = Transform::from_scale(SCALE, SCALE);
    if let Some(color) = fill {
        map.fill_path(path, &colored(color), FillRule::Winding, scale, None);
    }
    if let Some(stroke) = stroke {
        let dash = stroke.dash.iter().map(|length| *length as f32).collect();
        let style = tiny_skia::Stroke {
            width: stroke.width as f32,
            line_join: LineJoin::Round,
            dash: StrokeDash::new(dash, 0.0),
            ..tiny_skia::Stroke::default()
        };
        map.stroke_path(path, &colored(stroke.color), &style, scale, None);
    }
}

fn write_text(map: &mut Pixmap, text: &Text, fonts: &Fonts) {
    let face = fonts.face(text.bold);
    let width = fonts.width(&text.text, text.size, text.bold);
    let start = match text.anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => -width / 2.0,
        Anchor::End => -width,
    };
    let size = (text.size / f64::from(face.units_per_em())) as f32;
    let mut builder = Glyphs { path: PathBuilder::new(), pen: 0.0 };
    for c in text.text.chars() {
        let glyph = glyph(face, c);
        face.outline_glyph(glyph, &mut builder);
        builder.pen += advance(face, glyph) as f32;
    }
    let Some(path) = builder.path.finish() else { return };
    let turn = if text.turned { -90.0 } else { 0.0 };
    let place = Transform::from_scale(size, -size)
        .post_translate(start as f32, 0.0)
        .post_rotate(turn)
        .post_translate(text.at.0 as f32, text.at.1 as f32)
        .post_scale(SCALE, SCALE);
    map.fill_path(&path, &colored(text.color), FillRule::Winding, place, None);
}

/// Collects the outlines of a line of text, in font units.
struct Glyphs {
    path: PathBuilder,
    pen: f32,
}

impl ttf_parser::OutlineBuilder for Glyphs {
    fn move_to(&mut self, x: f32, y: f32) {
        self.path.move_to(x + self.pen, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.path.line_to(x + self.pen, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.path.quad_to(x1 + self.pen, y1, x + self.pen, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.path.cubic_to(x1 + self.pen, y1, x2 + self.pen, y2, x + self.pen, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
