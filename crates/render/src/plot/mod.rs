//! Line and bar plots as SVG or PNG.
//!
//! `layout` turns a [`PlotSpec`] into a `scene` of shapes, which `svg` and `png` write. Series
//! differ in colour, marker and dash, so colour is never the only cue.

mod axis;
mod error;
mod font;
mod frame;
mod layout;
mod marks;
mod png;
pub use png::MADE_BY;
mod scene;
mod style;
mod svg;

pub use error::DrawError;

use destage_report::PlotSpec;
use std::path::Path;

/// File format of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotFormat {
    /// Vector graphics.
    Svg,
    /// Pixels.
    Png,
}

impl PlotFormat {
    /// The format that the extension of a path names.
    pub fn of_path(path: &Path) -> Result<Self, DrawError> {
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        let named = |format: &PlotFormat| extension.as_deref() == Some(format.extension());
        [Self::Svg, Self::Png].into_iter().find(named).ok_or(DrawError::Extension(path.to_owned()))
    }

    /// The extension of its files, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Svg => "svg",
            Self::Png => "png",
        }
    }
}

/// The colour of a place in the palette, as `#0072b2`.
pub fn color(place: usize) -> String {
    let scene::Rgb(red, green, blue) = style::color(place);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Draws a plot; the result is the content of a file.
pub fn draw(spec: &PlotSpec, format: PlotFormat) -> Result<Vec<u8>, DrawError> {
    let fonts = font::Fonts::new();
    let scene = layout::scene(spec, &fonts);
    match format {
        PlotFormat::Svg => Ok(svg::render(&scene)),
        PlotFormat::Png => png::render(&scene, &fonts),
    }
}
