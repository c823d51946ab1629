//! Colours, dashes and markers by the place of a series.

use super::scene::{Rgb, Scene, Shape, Spot, Stroke};

pub(super) const INK: Rgb = Rgb(0x22, 0x22, 0x22);
pub(super) const MUTED: Rgb = Rgb(0x59, 0x59, 0x59);
pub(super) const GRID: Rgb = Rgb(0xe3, 0xe3, 0xe3);
pub(super) const WHITE: Rgb = Rgb(0xff, 0xff, 0xff);

/// The palette of Okabe and Ito, distinguishable with any colour vision; pale yellow comes last.
const PALETTE: [Rgb; 8] = [
    Rgb(0x00, 0x72, 0xb2),
    Rgb(0xd5, 0x5e, 0x00),
    Rgb(0x00, 0x9e, 0x73),
    Rgb(0xcc, 0x79, 0xa7),
    Rgb(0xe6, 0x9f, 0x00),
    Rgb(0x56, 0xb4, 0xe9),
    Rgb(0x33, 0x33, 0x33),
    Rgb(0xe0, 0xd2, 0x30),
];

/// Parts of a stack: colours that the first series do not have, so that none is taken for one.
const PARTS: [Rgb; 5] = [
    Rgb(0xe6, 0x9f, 0x00),
    Rgb(0x56, 0xb4, 0xe9),
    Rgb(0x44, 0x44, 0x44),
    Rgb(0xe0, 0xd2, 0x30),
    Rgb(0xd0, 0xd3, 0xd6),
];

const DASHES: [&[f64]; 5] = [&[], &[8.0, 4.0], &[2.5, 3.0], &[9.0, 3.0, 2.5, 3.0], &[14.0, 4.0]];

const MARKERS: usize = 7;

pub(super) fn color(series: usize) -> Rgb {
    PALETTE[series % PALETTE.len()]
}

/// Series of the same colour get another dash.
pub(super) fn stroke(series: usize) -> Stroke {
    let dash = DASHES[(series + series / PALETTE.len()) % DASHES.len()];
    Stroke { color: color(series), width: 2.2, dash }
}

pub(super) fn thin(color: Rgb) -> Stroke {
    Stroke { color, width: 1.0, dash: &[] }
}

/// The marker of a series around a spot.
pub(super) fn marker(scene: &mut Scene, series: usize, at: Spot) {
    let r = 4.6;
    let edge = Stroke { color: WHITE, width: 1.0, dash: &[] };
    let kind = (series + series / PALETTE.len()) % MARKERS;
    let corners: &[Spot] = match kind {
        0 => {
            let fill = color(series);
            scene.shapes.push(Shape::Circle { at, radius: 4.4, fill, stroke: edge });
            return;
        }
        1 => &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
        2 => &[(0.0, -1.2), (1.15, 0.85), (-1.15, 0.85)],
        3 => &[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)],
        4 => &[(0.0, 1.2), (1.15, -0.85), (-1.15, -0.85)],
        5 => &[(-1.2, -0.5), (1.2, -0.5), (1.2, 0.5), (-1.2, 0.5)],
        _ => &[(-0.5, -1.2), (0.5, -1.2), (0.5, 1.2), (-0.5, 1.2)],
    };
    let points = corners.iter().map(|(x, y)| (at.0 + x * r, at.1 + y * r)).collect();
    let fill = Some(color(series));
    scene.shapes.push(Shape::Path { points, closed: true, fill, stroke: Some(edge) });
}

/// A bar in the colour of a series, hatched in white from the second series on.
pub(super) fn bar(scene: &mut Scene, series: usize, a: Spot, b: Spot) {
    hatched(scene, color(series), series + series / PALETTE.len(), a, b);
}

/// A part of a stacked bar.
pub(super) fn part(scene: &mut Scene, part: usize, a: Spot, b: Spot) {
    hatched(scene, PARTS[part % PARTS.len()], part, a, b);
}

fn hatched(scene: &mut Scene, color: Rgb, kind: usize, a: Spot, b: Spot) {
    let (left, right) = (a.0.min(b.0), a.0.max(b.0));
    let (top, bottom) = (a.1.min(b.1), a.1.max(b.1));
    scene.rect((left, top), (right, bottom), Some(color), None);
    let hatch = Stroke { color: WHITE, width: 1.1, dash: &[] };
    let kind = kind % 5;
    let (width, height) = (right - left, bottom - top);
    if matches!(kind, 1 | 4) {
        for (from, to) in diagonals(width, height) {
            scene.line(vec![(left + from.0, top + from.1), (left + to.0, top + to.1)], hatch);
        }
    }
    if matches!(kind, 2 | 4) {
        for (from, to) in diagonals(width, height) {
            scene.line(vec![(right - from.0, top + from.1), (right - to.0, top + to.1)], hatch);
        }
    }
    if kind == 3 {
        let mut y = 5.0;
        while y < height {
            scene.line(vec![(left, top + y), (right, top + y)], hatch);
            y += 7.0;
        }
    }
}

/// Lines at 45 degrees across a rectangle whose corner is at 0, 0.
fn diagonals(width: f64, height: f64) -> Vec<(Spot, Spot)> {
    let mut lines = Vec::new();
    let mut sum = 6.0;
    while sum < width + height {
        let from = if sum <= width { (sum, 0.0) } else { (width, sum - width) };
        let to = if sum <= height { (0.0, sum) } else { (sum - height, height) };
        lines.push((from, to));
        sum += 9.0;
    }
    lines
}
