//! What a plot shows. The crate `destage-render` draws it.

use serde::{Deserialize, Serialize};

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal factors, marked at powers of ten; values of 0 and below are not drawn.
    Log10,
    /// Equal factors, marked at powers of two; values of 0 and below are not drawn.
    Log2,
}

/// One line of a plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points in drawing order; one that is not finite breaks the line.
    pub points: Vec<(f64, f64)>,
    /// Half the length of the error bar at each point; empty for none.
    pub half_widths: Vec<f64>,
}

/// A group of bars of one colour, one for each category.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    /// Name in the legend.
    pub name: String,
    /// One value per category; not drawn where missing or not finite.
    pub values: Vec<f64>,
}

/// A line across the plot at a value, with its name at the edge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Where.
    pub value: f64,
    /// What, in a word or two.
    pub label: String,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Marks {
    /// Lines with markers.
    Lines {
        /// The lines, first ones below.
        series: Vec<Series>,
    },
    /// Bars side by side.
    Bars(Vec<Bars>),
    /// Bars on top of each other.
    Stack(Vec<Bars>),
}

/// A plot. Made by [`PlotSpec::lines`], [`PlotSpec::bars`] or [`PlotSpec::stack`] and the methods
/// that follow; the fields are public for readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlotSpec {
    /// Heading.
    pub title: String,
    /// Label of the x axis, with its unit.
    pub x_label: String,
    /// Label of the y axis, with its unit.
    pub y_label: String,
    /// Scale of the x axis; has no effect with categories.
    pub x_scale: Scale,
    /// Scale of the y axis.
    pub y_scale: Scale,
    /// Names along the x axis, at 0, 1, 2 and so on; empty for numbers.
    pub categories: Vec<String>,
    /// Values that the y axis covers whatever the data.
    pub y_covers: Option<(f64, f64)>,
    /// Horizontal lines.
    pub h_lines: Vec<Reference>,
    /// Vertical lines.
    pub v_lines: Vec<Reference>,
    /// The data.
    pub marks: Marks,
}

impl PlotSpec {
    /// A plot of lines; labels carry their units, as in `Response time (ms)`.
    pub fn lines(title: &str, x_label: &str, y_label: &str) -> Self {
        Self::with(title, x_label, y_label, Marks::Lines { series: Vec::new() })
    }

    /// A plot of bars side by side for each category.
    pub fn bars(title: &str, x_label: &str, y_label: &str, categories: Vec<String>) -> Self {
        Self::with(title, x_label, y_label, Marks::Bars(Vec::new())).categories(categories)
    }

    /// A plot of one bar for each category, made of parts.
    pub fn stack(title: &str, x_label: &str, y_label: &str, categories: Vec<String>) -> Self {
        Self::with(title, x_label, y_label, Marks::Stack(Vec::new())).categories(categories)
    }

    fn with(title: &str, x_label: &str, y_label: &str, marks: Marks) -> Self {
        Self {
            title: title.to_owned(),
            x_label: x_label.to_owned(),
            y_label: y_label.to_owned(),
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            categories: Vec::new(),
            y_covers: None,
            h_lines: Vec::new(),
            v_lines: Vec::new(),
            marks,
        }
    }

    /// Adds a line.
    ///
    /// # Panics
    /// If this is a plot of bars.
    #[must_use]
    pub fn series(self, name: &str, points: Vec<(f64, f64)>) -> Self {
        self.series_with_errors(name, points, Vec::new())
    }

    /// Adds a line with error bars, each given as half its length.
    ///
    /// # Panics
    /// If this is a plot of bars.
    pub fn series_with_errors(
        mut self,
        name: &str,
        points: Vec<(f64, f64)>,
        half_widths: Vec<f64>,
    ) -> Self {
        match &mut self.marks {
            Marks::Lines { series } => {
                series.push(Series { name: name.to_owned(), points, half_widths });
            }
            _ => panic!("a plot of bars has no lines"),
        }
        self
    }

    /// Adds a colour of bars, one value per category.
    ///
    /// # Panics
    /// If this is a plot of lines.
    #[must_use]
    pub fn bar_series(mut self, name: &str, values: Vec<f64>) -> Self {
        match &mut self.marks {
            Marks::Bars(bars) | Marks::Stack(bars) => {
                bars.push(Bars { name: name.to_owned(), values });
            }
            Marks::Lines { .. } => panic!("a plot of lines has no bars"),
        }
        self
    }

    /// Sets the scale of the x axis.
    #[must_use]
    pub fn x_scale(self, x_scale: Scale) -> Self {
        Self { x_scale, ..self }
    }

    /// Sets the scale of the y axis.
    #[must_use]
    pub fn y_scale(self, y_scale: Scale) -> Self {
        Self { y_scale, ..self }
    }

    /// Names along the x axis in place of numbers: the points' x count them from 0.
    #[must_use]
    pub fn categories(self, categories: Vec<String>) -> Self {
        Self { categories, ..self }
    }

    /// Makes the y axis cover these values whatever the data.
    #[must_use]
    pub fn y_covers(self, low: f64, high: f64) -> Self {
        Self { y_covers: Some((low, high)), ..self }
    }

    /// Adds a horizontal line.
    #[must_use]
    pub fn h_line(mut self, value: f64, label: &str) -> Self {
        self.h_lines.push(Reference { value, label: label.to_owned() });
        self
    }

    /// Adds a vertical line.
    #[must_use]
    pub fn v_line(mut self, value: f64, label: &str) -> Self {
        self.v_lines.push(Reference { value, label: label.to_owned() });
        self
    }
}

/// At most about `limit` points: the least and the greatest of each stretch stay.
pub fn thinned(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    if points.len() <= limit.max(2) {
        return points.to_vec();
    }
    let mut kept = Vec::new();
    for chunk in points.chunks(points.len().div_ceil((limit / 2).max(1))) {
        let order = |a: &usize, b: &usize| chunk[*a].1.total_cmp(&chunk[*b].1);
        let least = (0..chunk.len()).min_by(order).unwrap_or(0);
        let most = (0..chunk.len()).max_by(order).unwrap_or(0);
        kept.push(chunk[least.min(most)]);
        if least != most {
            kept.push(chunk[least.max(most)]);
        }
    }
    kept
}
