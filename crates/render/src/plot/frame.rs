//! The frame that the data is drawn in, and texts around it.

use super::axis::Axis;
use super::scene::{Anchor, Rgb, Shape, Spot, Text};
use super::style::INK;

/// Where the data is drawn, and its axes.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) x: Axis,
    pub(super) y: Axis,
}

impl Frame {
    /// Where a point of the data is drawn; none if an axis cannot show it.
    pub(super) fn spot(&self, (x, y): (f64, f64)) -> Option<Spot> {
        Some((self.x_at(x)?, self.y_at(y)?))
    }

    pub(super) fn x_at(&self, value: f64) -> Option<f64> {
        Some(self.left + self.x.place(value)? * (self.right - self.left))
    }

    pub(super) fn y_at(&self, value: f64) -> Option<f64> {
        Some(self.bottom - self.y.place(value)? * (self.bottom - self.top))
    }
}

pub(super) fn text(at: Spot, text: String, size: f64) -> Text {
    let (bold, turned) = (false, false);
    Text { at, text, size, bold, anchor: Anchor::Start, turned, color: INK }
}

impl Text {
    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub(super) fn color(self, color: Rgb) -> Self {
        Self { color, ..self }
    }

    pub(super) fn turned(self) -> Self {
        Self { turned: true, ..self }
    }
}

impl From<Text> for Shape {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}
