//! Noto Sans: widths of texts for the layout, outlines of glyphs for PNG.

use ttf_parser::{Face, GlyphId};

/// The regular and the bold face.
pub(super) struct Fonts {
    regular: Face<'static>,
    bold: Face<'static>,
}

impl Fonts {
    pub(super) fn new() -> Self {
        let face = |bytes| Face::parse(bytes, 0).expect("the embedded font is sound");
        Self { regular: face(notosans::REGULAR_TTF), bold: face(notosans::BOLD_TTF) }
    }

    pub(super) fn face(&self, bold: bool) -> &Face<'static> {
        if bold { &self.bold } else { &self.regular }
    }

    /// Width in pixels of a text at a size in pixels.
    pub(super) fn width(&self, text: &str, size: f64, bold: bool) -> f64 {
        let face = self.face(bold);
        let units: f64 = text.chars().map(|c| advance(face, glyph(face, c))).sum();
        units * size / f64::from(face.units_per_em())
    }

    /// The text, or its beginning with an ellipsis where it is wider than `room`.
    pub(super) fn fit(&self, text: &str, size: f64, room: f64) -> String {
        if self.width(text, size, false) <= room {
            return text.to_owned();
        }
        let mut kept = text.to_owned();
        while kept.pop().is_some() {
            let shorter = format!("{}…", kept.trim_end());
            if self.width(&shorter, size, false) <= room {
                return shorter;
            }
        }
        String::new()
    }

    /// The text broken at spaces into lines of at most `room`; a longer word is not broken.
    pub(super) fn wrap(&self, text: &str, size: f64, bold: bool, room: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if self.width(&format!("{line} {word}"), size, bold) <= room => {
                    *line = format!("{line} {word}");
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines
    }
}

/// The glyph of a character; the empty box for one that the font has not.
pub(super) fn glyph(face: &Face<'_>, c: char) -> GlyphId {
    face.glyph_index(c).unwrap_or(GlyphId(0))
}

/// How far a glyph moves the pen, in font units.
pub(super) fn advance(face: &Face<'_>, glyph: GlyphId) -> f64 {
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0))
}
