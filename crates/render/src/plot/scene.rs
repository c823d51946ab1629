//! A drawing as a list of shapes; `svg` and `png` both draw from it, so both look alike.

/// A place in pixels from the top left corner.
pub(super) type Spot = (f64, f64);

/// A colour: red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rgb(pub(super) u8, pub(super) u8, pub(super) u8);

/// How a line is drawn: lengths drawn and left out in turn; solid if empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stroke {
    pub(super) color: Rgb,
    pub(super) width: f64,
    pub(super) dash: &'static [f64],
}

/// Which part of a text is at its spot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// One line of text; its spot is on the base line.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) at: Spot,
    pub(super) text: String,
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) anchor: Anchor,
    /// Reads upwards.
    pub(super) turned: bool,
    pub(super) color: Rgb,
}

/// One thing to draw.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Path { points: Vec<Spot>, closed: bool, fill: Option<Rgb>, stroke: Option<Stroke> },
    Circle { at: Spot, radius: f64, fill: Rgb, stroke: Stroke },
    Text(Text),
}

/// Shapes on a white ground, first ones below.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) title: String,
    pub(super) shapes: Vec<Shape>,
}

impl Scene {
    pub(super) fn line(&mut self, points: Vec<Spot>, stroke: Stroke) {
        self.shapes.push(Shape::Path { points, closed: false, fill: None, stroke: Some(stroke) });
    }

    /// A rectangle between two corners.
    pub(super) fn rect(&mut self, a: Spot, b: Spot, fill: Option<Rgb>, stroke: Option<Stroke>) {
        let points = vec![a, (b.0, a.1), b, (a.0, b.1)];
        self.shapes.push(Shape::Path { points, closed: true, fill, stroke });
    }
}
